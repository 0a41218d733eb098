package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// filter is an include list or an exclude list of anchored regular expressions, as Debezium's.
type filter struct{ include, exclude []*regexp.Regexp }

func (p *parser) filter(kind string) filter {
	in, ex := kind+".include.list", kind+".exclude.list"
	var f filter
	var err error
	if f.include, err = parsePatterns(p.text(in, "")); err != nil {
		p.fail(in, err)
	}
	if f.exclude, err = parsePatterns(p.text(ex, "")); err != nil {
		p.fail(ex, err)
	}
	if len(f.include) > 0 && len(f.exclude) > 0 {
		p.fail(ex, fmt.Errorf("cannot be used together with %s", in))
	}
	return f
}

func (f filter) match(name string) bool {
	if len(f.include) > 0 {
		return matchAny(f.include, name)
	}
	return !matchAny(f.exclude, name)
}

func matchAny(list []*regexp.Regexp, name string) bool {
	for _, re := range list {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// parsePatterns splits at commas (not at an escaped one, nor inside braces or brackets) and anchors each expression.
func parsePatterns(s string) ([]*regexp.Regexp, error) {
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

// keyRule is one entry of message.key.columns.
type keyRule struct {
	table   *regexp.Regexp
	columns []string
}

func parseKeyColumns(s string) ([]keyRule, error) {
	var rules []keyRule
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
		rule := keyRule{table: re}
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

// captures tells whether a table is captured.
func (c *Config) captures(schema, table string) bool {
	switch schema {
	case "pg_catalog", "information_schema", "pg_toast":
		return false
	}
	return c.schemas.match(schema) && c.tables.match(schema+"."+table)
}

// capturesColumn tells whether a column that is not part of the key is captured.
func (c *Config) capturesColumn(schema, table, column string) bool {
	return c.columns.match(schema + "." + table + "." + column)
}

// keyFor returns the columns that message.key.columns names for a table, nil if none.
func (c *Config) keyFor(schema, table string) []string {
	for _, r := range c.keyColumns {
		if r.table.MatchString(schema + "." + table) {
			return r.columns
		}
	}
	return nil
}
