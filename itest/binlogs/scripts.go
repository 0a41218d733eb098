package binlogs

import (
	"context"
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/rowtrail/rowtrail/itest/servers"
)

//go:embed cases/*.sql
var cases embed.FS

// statement of a script. Each ends with ; at the end of a line. A line before it that begins with "-- only" names a
// flavour or version that has it, and one with "-- in" the session that runs it; other lines with -- are comments.
type statement struct{ sql, only, session string }

func (s statement) runsOn(m *servers.MySQL) bool {
	return s.only == "" || s.only == m.Flavour() || s.only == m.Version()
}

// Scripts are the names of the scripts in cases.
func Scripts() ([]string, error) {
	entries, err := cases.ReadDir("cases")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".sql"))
	}
	return names, nil
}

func script(name string) ([]statement, error) {
	text, err := cases.ReadFile(path.Join("cases", name+".sql"))
	if err != nil {
		return nil, err
	}
	var all []statement
	var s statement
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(l, "-- only "):
			s.only = strings.TrimPrefix(l, "-- only ")
		case strings.HasPrefix(l, "-- in "):
			s.session = strings.TrimPrefix(l, "-- in ")
		case l == "" || strings.HasPrefix(l, "-- "):
		default:
			s.sql += l
			if strings.HasSuffix(l, ";") {
				s.sql = strings.TrimSuffix(s.sql, ";")
				all = append(all, s)
				s = statement{}
			} else {
				s.sql += "\n"
			}
		}
	}
	if s.sql != "" {
		return nil, fmt.Errorf("cases/%s.sql: the last statement has no ; at its end", name)
	}
	return all, nil
}

// RunScript records a script of cases, in a database of its name.
func RunScript(ctx context.Context, m *servers.MySQL, name string) (*Recording, error) {
	statements, err := script(name)
	if err != nil {
		return nil, err
	}
	r, err := Start(ctx, m, "case_"+name)
	if err != nil {
		return nil, fmt.Errorf("cases/%s.sql: %w", name, err)
	}
	defer r.Close()
	for _, s := range statements {
		if !s.runsOn(m) {
			continue
		}
		if err := r.ExecIn(ctx, s.session, s.sql); err != nil {
			return nil, fmt.Errorf("cases/%s.sql: %w", name, err)
		}
	}
	return r.Finish(ctx)
}
