package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// maxTopicName is Kafka's: with a partition number it had to fit a file name.
const maxTopicName = 249

// internalTopics are written by the coordinators alone.
var internalTopics = [...]string{"__consumer_offsets", "__transaction_state"}

func isInternalName(name string) bool {
	for _, t := range internalTopics {
		if name == t {
			return true
		}
	}
	return false
}

// validTopicName applies Kafka's rule, so that topics can move to another cluster.
func validTopicName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return refuse(kerr.InvalidTopicException, fmt.Sprintf("topic name %q is not allowed", name))
	case len(name) > maxTopicName:
		return refuse(kerr.InvalidTopicException, fmt.Sprintf("topic name has %d characters; at most %d are allowed", len(name), maxTopicName))
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return refuse(kerr.InvalidTopicException, fmt.Sprintf("topic name %q: use letters, digits, '.', '_' and '-' only", name))
		}
	}
	return nil
}
