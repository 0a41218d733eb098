package log

import (
	"testing"
	"time"
)

// commitMeta commits and applies an entry without records, as a single-voter leader of term 1 would.
func commitMeta(t testing.TB, s *Store, p *Partition, typ EntryType, data []byte) {
	t.Helper()
	e := []Entry{{Index: p.LastIndex() + 1, Term: 1, Type: typ, Data: data}}
	p.Follow(e)
	if err := s.Commit([]Mutation{{Group: p.id, Entries: e}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(e)
}

// trimTo moves the log start as a leader does.
func trimTo(t testing.TB, s *Store, p *Partition, offset int64) {
	t.Helper()
	commitMeta(t, s, p, EntryTrim, TrimPayload(offset))
}

// retain does what a leader's retention does once and returns the log start.
func retain(t testing.TB, s *Store, p *Partition, now time.Time) int64 {
	t.Helper()
	if start, move := p.RetainTo(now); move {
		trimTo(t, s, p, start)
	}
	p.ForgetIdle(now)
	return p.Marks().LogStart
}

// TestTrimStopsAtTheEnd: a trim moves the log start to what is committed at most, whatever it asks for.
func TestTrimStopsAtTheEnd(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	appendAll(t, s, p, batchOf(100, 1), batchOf(100, 2))
	trimTo(t, s, p, 50)
	if m := p.Marks(); m.LogStart != 2 || m.HighWatermark != 2 {
		t.Errorf("trimmed to %+v", m)
	}
}
