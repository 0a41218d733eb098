package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// Properties are a connector's or sink's settings by name. Printing, logging or marshalling them shows the
// settings that cannot carry a secret and [redacted] for the rest.
type Properties struct {
	values map[string]string
	lines  map[string]int
}

// Values returns the settings as they are, secrets included: hand them to the package that needs them only.
func (p Properties) Values() map[string]string { return maps.Clone(p.values) }

// Redacted returns the settings fit for people's eyes.
func (p Properties) Redacted() map[string]string {
	out := make(map[string]string, len(p.values))
	for name, value := range p.values {
		if carriesSecret(name) {
			value = redacted
		}
		out[name] = value
	}
	return out
}

func (p Properties) String() string {
	shown := p.Redacted()
	parts := make([]string, 0, len(shown))
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		parts = append(parts, name+"="+shown[name])
	}
	return strings.Join(parts, " ")
}

// Format keeps every verb, %#v too, from reaching the fields.
func (p Properties) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(p.String())) }

// LogValue is what slog writes.
func (p Properties) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON is what encoding/json writes.
func (p Properties) MarshalJSON() ([]byte, error) { return json.Marshal(p.Redacted()) }

// Secret is a value that prints itself as [redacted].
type Secret struct{ value string }

// Reveal returns the value: hand it to the package that needs it only.
func (s Secret) Reveal() string { return s.value }

func (s *Secret) parse(text string) error {
	if text == "" {
		return errors.New("is empty; give it a value")
	}
	s.value = text
	return nil
}

func (s *Secret) number() (int64, bool) { return 0, false }

func (s Secret) String() string { return redacted }

// Format keeps every verb, %#v too, from reaching the value.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue is what slog writes.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText is what encodings write.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// carriesSecret tells by its name whether a setting may hold a password: a DSN holds one as a whole.
func carriesSecret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"password", "passwd", "secret", "token", "dsn", "credential", "jaas", "sslkey", ".salt"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
