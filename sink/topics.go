package sink

import (
	"path"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Suffixes of the topics that a connector keeps beside its data topics.
const (
	suffixTransaction = ".transaction"
	suffixSchema      = ".schema"
	suffixPosition    = ".position"
	suffixMessage     = ".message"
	suffixHistory     = ".schema-history" // MySQL and MariaDB: what tables were at which position
	suffixRaw         = ".raw"            // changes that cannot be written as events yet
)

// Selection is what a sink reads: exact topic names and patterns in which * stands for any characters. Those that begin with !
// leave topics out, wherever they stand.
type Selection []string

const exclude = "!"

// Validate names what is wrong with the selection.
func (s Selection) Validate() []error {
	var errs []error
	if !slices.ContainsFunc(s, func(p string) bool { return !strings.HasPrefix(p, exclude) }) {
		errs = append(errs, &PropertyError{"topics", errNoTopics})
	}
	for _, p := range s {
		pattern := strings.TrimPrefix(p, exclude)
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			errs = append(errs, &PropertyError{"topics", badPatternError(p)})
		}
	}
	return errs
}

// Wants tells whether a data topic belongs to the selection.
func (s Selection) Wants(topic string) bool {
	wanted := false
	for _, p := range s {
		pattern, leaves := strings.CutPrefix(p, exclude)
		if ok, err := path.Match(pattern, topic); ok && err == nil {
			if leaves {
				return false
			}
			wanted = true
		}
	}
	return wanted
}

// MayRead tells whether topics of a connector can belong to the selection.
func (s Selection) MayRead(prefix string) bool {
	prefix += "."
	for _, p := range s {
		if strings.HasPrefix(p, exclude) {
			continue
		}
		literal := p
		if i := strings.IndexAny(p, `*?[\`); i >= 0 {
			literal = p[:i]
			if strings.HasPrefix(prefix, literal) {
				return true
			}
		}
		if strings.HasPrefix(literal, prefix) {
			return true
		}
	}
	return false
}

// names tells whether the selection has a topic by its full name.
func (s Selection) names(topic string) bool { return slices.Contains(s, topic) && s.Wants(topic) }

// plan is the topics that a sink reads, by the connector that writes them.
type plan struct {
	data     map[string]string // data topic -> prefix; "" when no connector of ours writes it
	prefixes []string          // sorted; each has a transaction and a schema topic to read
	ids      map[string]kadm.TopicID
}

// makePlan sorts the topics that exist. A prefix is one for which all of a connector's own topics exist, so that tables
// which happen to be named transaction, schema or position are data like any other. What a connector keeps for itself is never data.
func makePlan(s Selection, existing []string) plan {
	has := make(map[string]bool, len(existing))
	for _, t := range existing {
		has[t] = true
	}
	var prefixes []string
	for _, t := range existing {
		prefix, ok := strings.CutSuffix(t, suffixTransaction)
		if ok && has[prefix+suffixSchema] && has[prefix+suffixPosition] {
			prefixes = append(prefixes, prefix)
		}
	}
	p := plan{data: make(map[string]string)}
	used := make(map[string]bool)
	for _, t := range existing {
		if strings.HasPrefix(t, "__") || !s.Wants(t) {
			continue
		}
		longest := ""
		for _, prefix := range prefixes {
			if strings.HasPrefix(t, prefix+".") && len(prefix) > len(longest) {
				longest = prefix
			}
		}
		switch {
		case OwnTopic(longest, t):
		case longest != "" && !strings.Contains(t[len(longest)+1:], ".") && !s.names(t): // a table has a schema or database before it
		case has[t+suffixHistory]: // schema changes
		case longest == "" && ownName(t, has) && !s.names(t):
		default:
			p.data[t] = longest
			if longest != "" && !used[longest] {
				used[longest] = true
				p.prefixes = append(p.prefixes, longest)
			}
		}
	}
	slices.Sort(p.prefixes)
	return p
}

func ownSuffixes() []string {
	return []string{suffixTransaction, suffixSchema, suffixPosition, suffixMessage, suffixHistory, suffixRaw}
}

// OwnTopic tells whether a topic is one that the connector of a prefix keeps for itself, and no sink reads as a table.
func OwnTopic(prefix, topic string) bool {
	rest, ok := strings.CutPrefix(topic, prefix)
	return ok && prefix != "" && slices.Contains(ownSuffixes(), rest)
}

// ownName tells whether a topic is named as those that a connector keeps for itself, or as the prefix of some, where MySQL's schema changes
// are. While its prefix lacks others of them it is likely that they are about to be created, so such a topic is read as foreign data only
// when it is named in full.
func ownName(topic string, has map[string]bool) bool {
	for _, suffix := range ownSuffixes() {
		if strings.HasSuffix(topic, suffix) || has[topic+suffix] {
			return true
		}
	}
	return false
}

// topics lists all topics of the plan, sorted.
func (p plan) topics() []string {
	all := p.dataTopics()
	for _, prefix := range p.prefixes {
		all = append(all, prefix+suffixTransaction, prefix+suffixSchema)
	}
	slices.Sort(all)
	return all
}

func (p plan) dataTopics() []string {
	names := make([]string, 0, len(p.data))
	for t := range p.data {
		names = append(names, t)
	}
	slices.Sort(names)
	return names
}

// topicOf is the data topic of a table. Characters that a topic name cannot have become underscores.
func topicOf(prefix, collection string) string {
	clean := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}
	return prefix + "." + strings.Map(clean, collection)
}

// placeKind is what a topic is to a sink.
type placeKind uint8

const (
	placeUnknown placeKind = iota
	placeData
	placeTransaction
	placeSchema
)

// place tells which connector a topic of the plan belongs to, and as what.
func (p plan) place(topic string) (prefix string, kind placeKind) {
	if prefix, ok := p.data[topic]; ok {
		return prefix, placeData
	}
	for _, prefix := range p.prefixes {
		switch topic {
		case prefix + suffixTransaction:
			return prefix, placeTransaction
		case prefix + suffixSchema:
			return prefix, placeSchema
		}
	}
	return "", placeUnknown
}
