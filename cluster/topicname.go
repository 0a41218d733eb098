package cluster

import (
	"fmt"
	"strings"
)

// maxTopicName is Kafka's limit: a name plus a partition suffix must fit into a file name.
const maxTopicName = 249

// checkTopicName applies Kafka's rules for names.
func checkTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("create topic: the name is empty: %w", ErrInvalidTopic)
	case name == "." || name == "..":
		return fmt.Errorf("create topic %q: choose a name other than . and ..: %w", name, ErrInvalidTopic)
	case len(name) > maxTopicName:
		return fmt.Errorf("create topic %.32q...: the name has %d characters, at most %d are allowed: %w",
			name, len(name), maxTopicName, ErrInvalidTopic)
	}
	for i := range len(name) {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return fmt.Errorf("create topic %q: use only letters, digits, '.', '_' and '-': %w", name, ErrInvalidTopic)
		}
	}
	return nil
}

// foldTopicName gives names that metric systems cannot tell apart the same form: they replace '.' by '_'.
func foldTopicName(name string) string { return strings.ReplaceAll(name, ".", "_") }
