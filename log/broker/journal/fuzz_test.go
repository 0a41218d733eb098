package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
	"github.com/rowtrail/rowtrail/log/record"
)

func endTxn(pid int64) []byte {
	return record.EndTxn{ProducerID: pid, Commit: true}.Build(time.Now().UnixMilli())
}

// Whatever a stored batch holds, a load ends: with the state, or with an error.
func FuzzJournalLoad(f *testing.F) {
	var b record.Builder
	b.Append(0, []byte("k"), []byte("v"))
	f.Add(b.Build(nil))
	f.Add(endTxn(3))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, batch []byte) {
		l := &journaltest.Log{}
		l.Put(batch)
		g := run(t, l, 0)
		until(t, func() bool { err := g.j.Serving(); return err == nil || errors.Is(err, journal.ErrBroken) })
	})
}
