package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
)

// rowFlags are what state and history share.
type rowFlags struct {
	at    string
	limit int64
	full  bool
	text  bool
	stale bool
}

// query asks for columns as text where people read, for records as they are where programs do.
func (f *rowFlags) query(table bool) url.Values {
	q := url.Values{}
	if f.at != "" {
		q.Set("at", f.at)
	}
	if f.stale {
		q.Set("stale", "ok")
	}
	if f.limit >= 0 {
		q.Set("limit", strconv.FormatInt(f.limit, 10))
	}
	if f.full {
		q.Set("full", "true")
	} else if f.text || table {
		q.Set("text", "true")
	}
	return q
}

func (a *app) stateCommand() *cobra.Command {
	f := rowFlags{limit: -1}
	c := &cobra.Command{
		Use:   "state TOPIC [KEY]",
		Short: "Print rows as they are now, or were at a point in the past",
		Long: `Print the row with a key, or all rows of a topic, as of now or of a point in the past. KEY is the row's key as JSON, or a
bare value when the key has one column; a key that is plain text is written without quotes or as an answer shows it. A row
that did not exist then, or was deleted, is not found (exit code 3). Where
compaction has taken what a point in the past needs, the answer is an error that names the offset from which on the past is whole.`,
		Example: `  rowtrail state shop.public.orders 42
  rowtrail state shop.public.orders '{"id":42}' --at 2026-01-31T12:00:00Z
  rowtrail state prices 'green tea'
  rowtrail state shop.public.orders --at=-5m --output json
  rowtrail state shop.public.orders 42 --at 0/16B3748
  rowtrail state shop.db.orders 42 --at 3e11fa47-71ca-11e1-9e33-c80aa9429562:23`,
		Args: args("TOPIC", "[KEY]"),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.rows(cmd, &f, len(given) == 2, append([]string{"state"}, given...))
		},
	}
	c.Flags().StringVar(&f.at, "at", "", "point in the past: an offset, a time, a span before now (-5m, -7d) or a source position (0/16B3748, a GTID, mysql-bin.000003:1234)")
	c.Flags().Int64Var(&f.limit, "limit", -1, "print at most this many rows")
	c.Flags().BoolVar(&f.full, "full", false, "print whole change events instead of rows")
	c.Flags().BoolVar(&f.text, "text", false, "print columns as the source's text in JSON too, instead of Debezium's representation")
	c.Flags().BoolVar(&f.stale, "stale", false, "answer from the node's own replicas where it has some, which may be behind, instead of asking the leaders")
	a.httpFlag(c)
	return c
}

func (a *app) historyCommand() *cobra.Command {
	f := rowFlags{limit: -1}
	c := &cobra.Command{
		Use:   "history TOPIC KEY",
		Short: "Print every version of a row, oldest first",
		Long: `Print every version of the row with a key, oldest first. KEY is the row's key as JSON, or a bare value when the key has
one column; a key that is plain text is written without quotes or as an answer shows it. Versions that compaction has taken are left out, and a note says before which offset that may be so.`,
		Example: `  rowtrail history shop.public.orders 42
  rowtrail history shop.public.prices '{"product":7,"currency":"EUR"}' --output json
  rowtrail history prices 'green tea'`,
		Args: args("TOPIC", "KEY"),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.rows(cmd, &f, false, append([]string{"history"}, given...))
		},
	}
	c.Flags().Int64Var(&f.limit, "limit", -1, "print at most this many versions")
	c.Flags().BoolVar(&f.full, "full", false, "print whole change events instead of rows")
	c.Flags().BoolVar(&f.text, "text", false, "print columns as the source's text in JSON too, instead of Debezium's representation")
	c.Flags().BoolVar(&f.stale, "stale", false, "answer from the node's own replicas where it has some, which may be behind, instead of asking the leaders")
	a.httpFlag(c)
	return c
}

func (a *app) rows(cmd *cobra.Command, f *rowFlags, single bool, path []string) error {
	if f.full && f.text {
		return usage(errors.New("--full and --text exclude each other"))
	}
	answer, err := a.get(cmd.Context(), f.query(!a.json()), path...)
	if err != nil {
		return err
	}
	defer closing(answer)
	if a.json() {
		return stream(answer, func(line []byte) error {
			_, err := fmt.Fprintf(a.out, "%s\n", line)
			return err
		})
	}
	first := true
	compacted := map[int32]int64{}
	err = stream(answer, func(line []byte) error {
		var row admin.Row
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if single {
			return a.printRow(row)
		}
		if first {
			first = false
			if _, err := fmt.Fprintf(a.out, "%-12s %-27s %-2s %s\n", "OFFSET", "TIME", "OP", "KEY ROW"); err != nil {
				return err
			}
		}
		if row.WholeFrom > 0 {
			compacted[row.Partition] = row.WholeFrom
		}
		_, err := fmt.Fprintf(a.out, "%-12s %-27s %-2s %s %s\n", fmt.Sprintf("%d@%d", row.Partition, row.Offset),
			when(row), op(row), row.Key, body(row))
		return err
	})
	for _, p := range slices.Sorted(maps.Keys(compacted)) {
		_, _ = fmt.Fprintf(a.err, "%s is compacted: in partition %d versions before offset %d may be missing\n", path[1], p, compacted[p])
	}
	return err
}

func when(row admin.Row) string {
	at := row.Timestamp
	if row.CommitTime != nil {
		at = *row.CommitTime
	}
	return at.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}

func op(row admin.Row) string {
	switch {
	case row.Op != "":
		return row.Op
	case row.Deleted:
		return "x"
	}
	return "-"
}

func body(row admin.Row) string {
	switch {
	case row.Op == "d" && row.Value == nil:
	case row.Row != nil:
		return printable(string(row.Row))
	case row.Value != nil:
		return printable(string(row.Value))
	}
	return "(deleted)"
}

// printRow writes one row upright: where it is from, then a line per column.
func (a *app) printRow(row admin.Row) error {
	t := newTable(a.out)
	t.row("key", string(row.Key))
	t.row("record", fmt.Sprintf("%s, partition %d, offset %d", row.Topic, row.Partition, row.Offset))
	if row.CommitTime != nil {
		t.row("committed", row.CommitTime.UTC().Format(time.RFC3339Nano))
	}
	t.row("logged", row.Timestamp.UTC().Format(time.RFC3339Nano))
	if row.Position != "" {
		t.row("position", row.Position)
	}
	if row.Op != "" {
		t.row("op", row.Op)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	columns, ok := ordered(row.Row)
	if !ok {
		_, err := fmt.Fprintln(a.out, body(row))
		return err
	}
	t = newTable(a.out)
	for _, c := range columns {
		t.row(c.name, c.value)
	}
	for _, name := range row.Absent {
		t.row(name, "(unknown: the source never sent it)")
	}
	return t.flush()
}

type column struct{ name, value string }

// ordered reads the columns of a row in their order; text is shown without its quotes, NULL as NULL.
func ordered(row json.RawMessage) ([]column, bool) {
	decoder := json.NewDecoder(bytes.NewReader(row))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var out []column
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil {
			return nil, false
		}
		value := string(raw)
		var text string
		if value == "null" {
			value = "NULL"
		} else if json.Unmarshal(raw, &text) == nil {
			value = text
			if value == "" {
				value = `""`
			}
		}
		out = append(out, column{fmt.Sprint(name), value})
	}
	return out, true
}
