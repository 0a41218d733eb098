package configs

import (
	"fmt"
	"os"
	"strings"
)

// Environment is where ${NAME} and ${file:/path} are looked up.
type Environment struct {
	Lookup   func(name string) (string, bool)
	ReadFile func(path string) ([]byte, error)
}

// OS is the process's environment.
func OS() Environment { return Environment{Lookup: os.LookupEnv, ReadFile: os.ReadFile} }

const maxSecretFile = 64 << 10

// expand replaces ${NAME}, ${NAME:-default} and ${file:/path}; $${ stands for a literal ${. A value that starts with
// file: and holds a secret is that file's content.
func (e Environment) expand(text string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1])
			out.WriteString("${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return "", fmt.Errorf("${ is not closed; add a }, or write $${ for a literal ${")
		}
		value, err := e.reference(text[i+2 : i+end])
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[i+end+1:]
	}
}

func (e Environment) reference(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		return e.file(path)
	}
	name, fallback, hasDefault := strings.Cut(name, ":-")
	if !validEnvName(name) {
		return "", fmt.Errorf("${%s} is not the name of an environment variable; write ${NAME}, ${NAME:-default} or ${file:/path}", name)
	}
	value, ok := e.Lookup(name)
	switch {
	case ok && value != "":
		return value, nil
	case hasDefault:
		return fallback, nil
	case ok:
		return "", nil
	}
	return "", fmt.Errorf("environment variable %s is not set; export it, or write ${%s:-default}", name, name)
}

// file reads a secret; one trailing line break, which editors and echo add, is not part of it.
func (e Environment) file(path string) (string, error) {
	data, err := e.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the secret's file: %w; create it readable for this user", err)
	}
	if len(data) > maxSecretFile {
		return "", fmt.Errorf("file %s has %d bytes, which is no secret; name a file of at most %d bytes", path, len(data), maxSecretFile)
	}
	text := strings.TrimSuffix(string(data), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}

func validEnvName(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
