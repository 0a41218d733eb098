package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// grants are the user's privileges, those of active roles included.
type grants []grant

type grant struct {
	privileges      []string // in capitals
	database, table string   // a pattern of databases, and a table; "*" is all
}

func (s *session) grants(ctx context.Context) (grants, error) {
	list, err := s.query(ctx, "SHOW GRANTS")
	if err != nil {
		return nil, fmt.Errorf("read the user's privileges: %w", err)
	}
	var all grants
	for _, r := range list {
		if g, ok := parseGrant(string(r[0])); ok {
			all = append(all, g)
		}
	}
	return all, nil
}

// parseGrant reads GRANT SELECT, LOCK TABLES ON `a\_b`.* TO ...; what grants a role is none.
func parseGrant(text string) (grant, bool) {
	privileges, rest, found := strings.Cut(text, " ON ")
	privileges, isGrant := strings.CutPrefix(privileges, "GRANT ")
	if !found || !isGrant {
		return grant{}, false
	}
	g := grant{}
	for _, p := range strings.Split(privileges, ",") {
		g.privileges = append(g.privileges, strings.ToUpper(strings.TrimSpace(p)))
	}
	rest = strings.TrimPrefix(rest, "TABLE ")
	if g.database, rest = grantName(rest); !strings.HasPrefix(rest, ".") {
		return grant{}, false // of a routine, or a proxy
	}
	g.table, _ = grantName(rest[1:])
	return g, true
}

// grantName takes a quoted name or * from the begin of a text.
func grantName(text string) (name, rest string) {
	if !strings.HasPrefix(text, "`") {
		at := strings.IndexAny(text, ". ")
		if at < 0 {
			return text, ""
		}
		return text[:at], text[at:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] == '`' {
			if i+1 == len(text) || text[i+1] != '`' {
				return b.String(), text[i+1:]
			}
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}

// has tells whether the user has a privilege on a table; with an empty database, on the server.
func (g grants) has(privilege, database, table string) bool {
	return slices.ContainsFunc(g, func(one grant) bool {
		if !slices.Contains(one.privileges, privilege) && !slices.Contains(one.privileges, "ALL PRIVILEGES") {
			return false
		}
		switch {
		case one.database == "*":
			return true
		case database == "" || one.table != "*" && one.table != table:
			return false
		}
		return likes(one.database, database)
	})
}

// likes compares a name with a pattern of LIKE.
func likes(pattern, name string) bool {
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '%':
			for j := 0; j <= len(name); j++ {
				if likes(pattern[i+1:], name[j:]) {
					return true
				}
			}
			return false
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			fallthrough
		default:
			if name == "" || pattern[i] != name[0] && (c != '_') {
				return false
			}
			name = name[1:]
		}
	}
	return name == ""
}
