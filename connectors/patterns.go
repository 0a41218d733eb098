package connectors

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Filter is an include list or an exclude list of anchored regular expressions, as Debezium's.
type Filter struct{ Include, Exclude []*regexp.Regexp }

// Filter reads <kind>.include.list and <kind>.exclude.list.
func (p *Properties) Filter(kind string) Filter {
	in, ex := kind+".include.list", kind+".exclude.list"
	var f Filter
	var err error
	if f.Include, err = ParsePatterns(p.Text(in, "")); err != nil {
		p.Fail(in, err)
	}
	if f.Exclude, err = ParsePatterns(p.Text(ex, "")); err != nil {
		p.Fail(ex, err)
	}
	if len(f.Include) > 0 && len(f.Exclude) > 0 {
		p.Fail(ex, fmt.Errorf("cannot be used together with %s", in))
	}
	return f
}

// Match tells whether the lists take a name in.
func (f Filter) Match(name string) bool {
	if len(f.Include) > 0 {
		return matchAny(f.Include, name)
	}
	return !matchAny(f.Exclude, name)
}

func matchAny(list []*regexp.Regexp, name string) bool {
	for _, re := range list {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// ParsePatterns reads a list of anchored expressions: it splits at commas (not at an escaped one, nor inside braces or brackets) and anchors each expression.
func ParsePatterns(s string) ([]*regexp.Regexp, error) {
	var list []*regexp.Regexp
	for _, part := range splitList(s) {
		re, err := regexp.Compile(`(?i)^(?:` + part + `)$`)
		if err != nil {
			return nil, fmt.Errorf("%q is not a regular expression that Rowtrail supports (RE2): %w", part, err)
		}
		list = append(list, re)
	}
	return list, nil
}

func splitList(s string) []string {
	var parts []string
	depth, begin := 0, 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) {
			switch s[i] {
			case '\\':
				i++
				continue
			case '{', '[', '(':
				depth++
				continue
			case '}', ']', ')':
				depth--
				continue
			case ',':
				if depth > 0 {
					continue
				}
			default:
				continue
			}
		}
		if part := strings.TrimSpace(s[min(begin, len(s)):min(i, len(s))]); part != "" {
			parts = append(parts, strings.ReplaceAll(part, `\,`, ","))
		}
		begin = i + 1
	}
	return parts
}

// KeyRule is one entry of message.key.columns.
type KeyRule struct {
	table   *regexp.Regexp
	columns []string
}

// ParseKeyColumns reads message.key.columns.
func ParseKeyColumns(s string) ([]KeyRule, error) {
	var rules []KeyRule
	for _, entry := range strings.Split(s, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		at := strings.LastIndexByte(entry, ':')
		if at < 0 {
			return nil, fmt.Errorf("%q is not <table>:<column>,<column>", entry)
		}
		re, err := regexp.Compile(`(?i)^(?:` + strings.TrimSpace(entry[:at]) + `)$`)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		rule := KeyRule{table: re}
		for _, c := range strings.Split(entry[at+1:], ",") {
			if c = strings.TrimSpace(c); c != "" {
				rule.columns = append(rule.columns, c)
			}
		}
		if len(rule.columns) == 0 {
			return nil, errors.New("names a table without columns: " + entry)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
