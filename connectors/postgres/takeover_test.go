package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// former reads the slot as a former run of the connector on another node does, and sends a status now and then, or none.
func former(t *testing.T, c *Config, status time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := c.conn.Copy()
	cfg.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err == nil {
		err = pglogrepl.StartReplication(ctx, conn, c.Slot, 0, pglogrepl.StartReplicationOptions{PluginArgs: []string{
			"proto_version '1'", fmt.Sprintf("publication_names '%s'", c.Publication),
		}})
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	if status > 0 {
		sending.Go(func() {
			for ctx.Err() == nil && pglogrepl.SendStandbyStatusUpdate(ctx, conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: 1, ClientTime: time.Now()}) == nil {
				sleep.For(ctx, status)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		sending.Wait()
		closeConn(conn)
	})
}

// interrupted runs a connector for a moment, so that there are a slot and a resume point.
func interrupted(t *testing.T, d *database, l *testLog) *Config {
	t.Helper()
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	l.waitFor(1, "p.public.t")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slot is free", func() bool {
		return d.value("SELECT active::text FROM pg_replication_slots WHERE slot_name = '"+c.Slot+"'") == "false"
	})
	return c
}

// A node that was paused or cut off keeps its connection to the source, and with it the slot, until the server notices. The node that runs
// the connector now does not wait for that.
func TestSilentFormerReaderIsEnded(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	c := interrupted(t, d, l)
	former(t, c, 0)
	began := time.Now()
	r := start(t, l, c)
	eventually(t, "it says what it waits for", func() bool {
		s := r.c.Status()
		return s.State == connectors.StateRetrying && strings.Contains(s.Error, "is in use by process")
	})
	r.streaming()
	if took := time.Since(began); took < c.StatusInterval+replyGrace {
		t.Errorf("the reader was ended after %s, before it had been silent for long enough", took)
	}
	d.exec("INSERT INTO t VALUES (2)")
	l.waitFor(2, "p.public.t")
}

// A reader that is at work is left alone, whatever its name is.
func TestLivingReaderIsLeftAlone(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	c := interrupted(t, d, l)
	former(t, c, 100*time.Millisecond)
	pid := d.value("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '" + c.Slot + "'")
	r := start(t, l, c)
	time.Sleep(c.StatusInterval + replyGrace + endGrace) // nothing may happen in this time
	if now := d.value("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '" + c.Slot + "'"); now != pid {
		t.Errorf("process %s read the slot, now %s does", pid, now)
	}
	if s := r.c.Status(); s.State == connectors.StateStreaming {
		t.Errorf("%+v", s)
	}
}
