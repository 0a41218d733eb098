package topicconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a property's value.
type Kind int8

// Kinds of values.
const (
	Text Kind = iota
	Boolean
	Int
	Long
	Double
	List
)

// Property is one property that a topic can be given.
type Property struct {
	Name    string
	Kind    Kind
	Default string
	// Broker is the name that Kafka gives the same setting on a broker.
	Broker string
	// Range says which values are accepted.
	Range string
	Doc   string
	// Inert properties are accepted, so that other tools' topic definitions work, and change nothing here.
	Inert bool

	lo, hi int64    // of Int and Long
	not    *int64   // a number between them that is not accepted
	words  []string // nil: any text
}

// Lookup finds a property by name; nil when there is none.
func Lookup(name string) *Property {
	i, ok := slices.BinarySearchFunc(properties, name, func(p Property, n string) int { return strings.Compare(p.Name, n) })
	if !ok {
		return nil
	}
	return &properties[i]
}

// LookupBroker finds the property whose name on a broker is name; nil when there is none.
func LookupBroker(name string) *Property {
	for i := range properties {
		if properties[i].Broker == name {
			return &properties[i]
		}
	}
	return nil
}

// Check says what is wrong with a value of the property called name, or that there is no such property.
func Check(name, value string) error {
	p := Lookup(name)
	if p == nil {
		return fmt.Errorf("unknown topic configuration %q", name)
	}
	if !p.Accepts(value) {
		return fmt.Errorf("invalid value %q for %s: it must be %s", value, name, p.Range)
	}
	return nil
}

// Accepts tells whether the property takes a value.
func (p *Property) Accepts(value string) bool {
	switch p.Kind {
	case Boolean:
		return slices.Contains(p.words, strings.ToLower(strings.TrimSpace(value)))
	case Int, Long:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		return err == nil && n >= p.lo && n <= p.hi && (p.not == nil || n != *p.not)
	case Double:
		f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return err == nil && f >= 0 && f <= 1
	case List:
		if p.words == nil || strings.TrimSpace(value) == "" {
			return true
		}
		for item := range strings.SplitSeq(value, ",") {
			if !slices.Contains(p.words, strings.TrimSpace(item)) {
				return false
			}
		}
		return true
	}
	return p.words == nil || slices.Contains(p.words, value)
}

func inert(p Property) Property {
	p.Inert = true
	p.Doc += " Accepted for compatibility; has no effect."
	return p
}

func long(name, def, broker string, lo int64, doc string) Property {
	return Property{Name: name, Kind: Long, Default: def, Broker: broker, Doc: doc, lo: lo, hi: math.MaxInt64,
		Range: fmt.Sprintf("an integer of at least %d", lo)}
}

func integer(name, def, broker string, lo, hi int64, doc string) Property {
	return Property{Name: name, Kind: Int, Default: def, Broker: broker, Doc: doc, lo: lo, hi: hi,
		Range: fmt.Sprintf("an integer from %d to %d", lo, hi)}
}

// except takes one number out of a property's range.
func except(p Property, n int64) Property {
	p.not = &n
	p.Range += fmt.Sprintf(" other than %d", n)
	return p
}

func ratio(name, def, broker, doc string) Property {
	return Property{Name: name, Kind: Double, Default: def, Broker: broker, Doc: doc, Range: "a number from 0 to 1"}
}

func oneOf(name, def, broker string, words []string, doc string) Property {
	return Property{Name: name, Kind: Text, Default: def, Broker: broker, Doc: doc, words: words, Range: strings.Join(words, " or ")}
}

func boolean(name, broker, doc string, words ...string) Property {
	return Property{Name: name, Kind: Boolean, Default: "false", Broker: broker, Doc: doc, words: words, Range: strings.Join(words, " or ")}
}

func list(name, def, broker string, words []string, doc string) Property {
	return Property{Name: name, Kind: List, Default: def, Broker: broker, Doc: doc, words: words,
		Range: "a list of " + strings.Join(words, ", ") + ", or empty"}
}

func anything(name, doc string) Property {
	return Property{Name: name, Kind: List, Broker: name, Doc: doc, Range: "text"}
}
