package sink_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// Events of MySQL and MariaDB reach a target as the source's text, with the columns that their images lack left absent. The topics that
// these connectors keep beside those of every connector are not taken for tables, whatever the pattern.
func TestMySQLEventsReachTheTarget(t *testing.T) {
	for _, source := range []string{event.SourceMySQL, event.SourceMariaDB} {
		t.Run(source, func(t *testing.T) {
			l := sinktest.NewLog(t, "shop")
			l.Source = source
			column := func(name string, f event.MySQLFacts, key int) event.Column {
				c, err := event.MySQLColumn(name, f, key > 0, key)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			tab := l.NewTable(t, "inventory", "orders", 2,
				column("id", event.MySQLFacts{DataType: "bigint", ColumnType: "bigint unsigned", Unsigned: true}, 1),
				column("due", event.MySQLFacts{DataType: "date", ColumnType: "date"}, 0),
				column("open", event.MySQLFacts{DataType: "time", ColumnType: "time(3)", Fraction: 3}, 0),
				column("flags", event.MySQLFacts{DataType: "bit", ColumnType: "bit(4)", Precision: 4}, 0),
				column("place", event.MySQLFacts{DataType: "point", ColumnType: "point"}, 0))
			for _, own := range []string{"shop", "shop.schema-history", "shop.raw"} {
				l.CreateTopic(t, own, 1)
			}
			tx := l.Begin(t)
			tx.Raw(&kgo.Record{Topic: "shop", Key: []byte(`{"databaseName":"inventory"}`), Value: []byte(`{"ddl":"CREATE TABLE orders"}`)})
			tx.Raw(&kgo.Record{Topic: "shop.schema-history", Key: []byte(`{}`), Value: []byte(`{}`)})
			tx.Raw(&kgo.Record{Topic: "shop.raw", Key: []byte(`{"transaction":"X'61',X'',1","piece":0}`), Value: []byte{1, 1, 0, 0}})
			const largest, point = "18446744073709551615", `\x000000000101000000000000000000f83f00000000000000c0`
			text, absent := sinktest.Text, sinktest.Absent()
			tx.Load(tab, event.Row{text("1"), text("2024-02-29"), text("00:00:00.000"), text("0001"), sinktest.Null()})
			tx.Change(tab, event.OpCreate, nil, event.Row{text(largest), text("0000-00-00"), text("-838:59:59.000"), text("0101"), text(point)})
			tx.Change(tab, event.OpUpdate, nil, event.Row{text(largest), text("2023-00-15"), absent, absent, absent})
			tx.Change(tab, event.OpCreate, nil, event.Row{text("2"), text("9999-12-31"), text("00:00:00.001"), text("1111"), text(point)})
			tx.Change(tab, event.OpDelete, event.Row{text("2"), absent, absent, absent, absent}, nil)
			l.Write(t, true, tx)

			m := sinktest.NewMemory()
			r := sink.NewRunner(sink.NewProperties(nil).Settings("w", "test", []string{"shop*"}), m.Target("w"), l.Deps(nil, "node-1"))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Errorf("run: %v", err)
				}
			}()
			want := []string{largest + `|2023-00-15|-838:59:59.000|0101|` + point, "1|2024-02-29|00:00:00.000|0001|NULL"}
			for !slices.Equal(m.Rows("inventory.orders"), want) {
				if st := r.Status(); ctx.Err() != nil || st.State == sink.StateFailed {
					t.Fatalf("rows %q, want %q, %+v", m.Rows("inventory.orders"), want, st)
				}
				time.Sleep(10 * time.Millisecond)
			}
			if got := r.Status().Topics; !slices.Equal(got, []string{"shop.inventory.orders"}) {
				t.Errorf("the sink reads %q", got)
			}
		})
	}
}
