package postgres

import (
	"context"
	"slices"
	"testing"

	"github.com/rowtrail/rowtrail/sink"
)

// A target of a release that did not store which log an offset is of gets the column, and keeps its offsets.
func TestOffsetsTableGetsTheLogColumn(t *testing.T) {
	dsn, conn := database(t)
	c := config(t, "w", dsn, nil)
	s := openSession(t, c)
	if err := s.Commit(context.Background(), []sink.Offset{{Topic: "a", Next: 3}, {Topic: "b", Next: 4}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	must(t, conn, "ALTER TABLE "+c.offsetsTable()+" DROP COLUMN log_id")

	s = openSession(t, c)
	if got := s.Offsets(); len(got) != 2 || got[0].Log != "" || got[0].Next+got[1].Next != 7 {
		t.Fatalf("offsets %+v", got)
	}
	if err := s.Commit(context.Background(), []sink.Offset{{Topic: "a", Next: 5, Log: "topic:AbC+/=="}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"a|5|topic:AbC+/==", "b|4|NULL"}
	if got := rows(t, conn, "SELECT topic, next_offset, log_id FROM "+c.offsetsTable()); !slices.Equal(got, want) {
		t.Errorf("offsets %q, want %q", got, want)
	}
}
