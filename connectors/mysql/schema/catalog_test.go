package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// refusing is a server that shows some tables and not others.
type refusing struct{ err error }

func (r refusing) Query(_ context.Context, sql string) ([][]*string, error) {
	row := func(values ...string) [][]*string {
		var list []*string
		for i := range values {
			list = append(list, &values[i])
		}
		return [][]*string{list}
	}
	switch {
	case strings.Contains(sql, "schemata"):
		return append(row("d", "utf8mb4", "utf8mb4_0900_ai_ci"), row("e", "latin1", "latin1_swedish_ci")...), nil
	case strings.Contains(sql, "ORDER BY table_schema"):
		return append(append(row("d", "good"), row("d", "secret")...), row("e", "other")...), nil
	case strings.Contains(sql, "secret`"):
		return nil, r.err
	case strings.HasPrefix(sql, "SHOW CREATE TABLE"):
		return row("x", "CREATE TABLE `x` (`a` int DEFAULT NULL)"), nil
	case strings.HasPrefix(sql, "SELECT 1"):
		return row("1"), nil
	}
	return nil, nil
}

// A table that the server refuses to show stays unknown, and no others do for it; a connection that breaks is an error.
func TestRefusedTables(t *testing.T) {
	o := Options{Version: 90704}
	c, err := ReadDatabases(t.Context(), refusing{fmt.Errorf("%w: denied", ErrRefused)}, o, "d", "e")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Tables) != 2 || fmt.Sprint(c.Whole) != "[e]" || c.Tables[ddl.TableName{Database: "d", Table: "good"}] == nil {
		t.Errorf("%v, whole %v", c.Tables, c.Whole)
	}
	f := newFeed(t, Options{})
	f.b = New(f.o)
	f.b.Catalog(f.at(), c, nil)
	f.sql("CREATE TABLE IF NOT EXISTS secret (a INT)")
	if got := f.answer(f.mapped("CREATE TABLE secret (a INT)", false)); !strings.HasPrefix(got, "look: it was created if it did not exist") {
		t.Error(got)
	}
	broken := errors.New("broken pipe")
	if _, err := ReadDatabases(t.Context(), refusing{broken}, o, "d", "e"); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := Read(t.Context(), refusing{fmt.Errorf("%w: denied", ErrRefused)}, o, ddl.TableName{Database: "d", Table: "secret"}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}
