package sink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

var errNoTopics = errors.New("name at least one topic or pattern to read; those with a leading ! only leave topics out")

func badPatternError(p string) error {
	return fmt.Errorf("pattern %q is not valid: use exact names, * for any characters, and a leading ! to leave topics out", p)
}

// PropertyError is what is wrong with one property.
type PropertyError struct {
	Property string
	Err      error
}

func (e *PropertyError) Error() string { return e.Property + ": " + e.Err.Error() }
func (e *PropertyError) Unwrap() error { return e.Err }

// Settings are the properties that all types of sink share.
type Settings struct {
	Name     string
	Type     string
	Topics   Selection
	MaxRows  int           // batch.max.rows: a target transaction takes no further source transaction beyond it
	MaxBytes int           // batch.max.bytes, likewise
	MaxDelay time.Duration // batch.max.ms, likewise
}

// Defaults and limits of Settings.
const (
	DefaultMaxRows  = 20_000
	DefaultMaxBytes = 16 << 20
	DefaultMaxDelay = 500 * time.Millisecond

	maxNameLength = 40
)

// Properties is a bag of properties from which settings are taken by name. What is left at the end is unknown.
type Properties struct {
	values map[string]string
	known  map[string]bool
	Errs   []error
}

// NewProperties wraps properties as they stand in the configuration.
func NewProperties(values map[string]string) *Properties {
	return &Properties{values: values, known: make(map[string]bool)}
}

// Fail notes an error of a property.
func (p *Properties) Fail(name string, err error) {
	p.Errs = append(p.Errs, &PropertyError{name, err})
}

// String takes a property.
func (p *Properties) String(name, def string) string {
	p.known[name] = true
	if v, ok := p.values[name]; ok {
		return v
	}
	return def
}

// Int takes a whole number of at least low.
func (p *Properties) Int(name string, def, low int) int {
	text := p.String(name, "")
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low {
		p.Fail(name, fmt.Errorf("%q is not a whole number of at least %d", text, low))
		return def
	}
	return n
}

// Enum takes one of some values; the first is the default.
func (p *Properties) Enum(name string, values ...string) string {
	v := p.String(name, values[0])
	for _, have := range values {
		if v == have {
			return v
		}
	}
	p.Fail(name, fmt.Errorf("%q is not supported; use one of %v", v, values))
	return values[0]
}

// Settings takes the properties that all types of sink share.
func (p *Properties) Settings(name, kind string, topics []string) Settings {
	s := Settings{
		Name: name, Type: kind, Topics: topics,
		MaxRows:  p.Int("batch.max.rows", DefaultMaxRows, 1),
		MaxBytes: p.Int("batch.max.bytes", DefaultMaxBytes, 1),
		MaxDelay: time.Duration(p.Int("batch.max.ms", int(DefaultMaxDelay/time.Millisecond), 0)) * time.Millisecond,
	}
	if name == "" || len(name) > maxNameLength {
		p.Fail("name", fmt.Errorf("give the sink a name of 1 to %d bytes", maxNameLength))
	}
	p.Errs = append(p.Errs, s.Topics.Validate()...)
	if v := p.String("consistency", "transaction"); v != "transaction" {
		p.Fail("consistency", fmt.Errorf("%q is not supported yet: only transaction (all partitions in one task, whole source transactions) is", v))
	}
	return s
}

// Finish returns all errors, unknown properties included, in a fixed order.
func (p *Properties) Finish() []error {
	for _, name := range sortedKeys(p.values) {
		if !p.known[name] {
			p.Fail(name, errors.New("unknown property"))
		}
	}
	return p.Errs
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
