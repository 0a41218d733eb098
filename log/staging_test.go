package log

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

func producerBatch(id int64, epoch int16, seq int32, records int, txn bool) []byte {
	var b record.Builder
	for range records {
		b.Append(1, nil, []byte("v"))
	}
	return b.Build(&record.Producer{ID: id, Epoch: epoch, BaseSequence: seq, Transactional: txn})
}

func stage(t testing.TB, p *Partition, batch []byte) Staged {
	t.Helper()
	st, err := p.Stage(1, batch, time.UnixMilli(77))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestStageSeesWhatIsInFlight: sequences continue behind batches that are neither stored nor applied.
func TestStageSeesWhatIsInFlight(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	stage(t, p, producerBatch(5, 0, 0, 2, false))
	b := producerBatch(5, 0, 2, 1, false)
	stage(t, p, b)
	if st := stage(t, p, producerBatch(5, 0, 2, 1, false)); !st.Duplicate || st.BaseOffset != 2 {
		t.Errorf("retry in flight: %+v", st)
	}
	if _, err := p.Stage(1, producerBatch(5, 0, 4, 1, false), time.Now()); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Errorf("gap: %v", err)
	}
	last := stage(t, p, producerBatch(5, 0, 3, 1, false))
	if last.BaseOffset != 3 || p.Marks() != (Marks{End: 4}) {
		t.Errorf("%+v, %+v", last, p.Marks())
	}
	p.Unstage(last)
	if p.Marks().End != 3 {
		t.Errorf("end %d after Unstage", p.Marks().End)
	}
	if again := stage(t, p, producerBatch(5, 0, 3, 1, false)); again != last {
		t.Errorf("%+v, expected %+v", again, last)
	}
}

// TestLostLeadership: proposals that another leader overwrote leave no trace in sequences and offsets.
func TestLostLeadership(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	own := []Entry{{Index: 1, Term: 1, Type: EntryMeta}}
	for i := range 3 {
		b := producerBatch(5, 0, int32(i), 1, true)
		stage(t, p, b)
		own = append(own, Entry{Index: uint64(i + 2), Term: 1, Data: b})
	}
	p.Follow(own[:3]) // the third is proposed and has not reached the log writer
	if err := s.Commit([]Mutation{{Group: 1, Entries: own[:3]}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(own[:2])
	p.Follow(own[:3]) // once more changes nothing
	if p.Marks().End != 3 {
		t.Fatalf("end %d", p.Marks().End)
	}
	theirs := []Entry{{Index: 3, Term: 2, Type: EntryMeta}}
	p.Follow(theirs)
	if err := s.Commit([]Mutation{{Group: 1, TruncateFrom: 3, Entries: theirs}}); err != nil {
		t.Fatal(err)
	}
	if p.Marks().End != 1 {
		t.Fatalf("end %d, expected 1", p.Marks().End)
	}
	p.Apply(theirs)
	if st, err := p.Stage(3, producerBatch(5, 0, 1, 1, true), time.Now()); err != nil || st.BaseOffset != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
}

// TestOwnMetaEntryBetweenProposals: a configuration change of the leader takes no offset and drops nothing.
func TestOwnMetaEntryBetweenProposals(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	a, b := producerBatch(5, 0, 0, 1, false), producerBatch(5, 0, 1, 1, false)
	stage(t, p, a)
	stage(t, p, b)
	es := []Entry{{Index: 1, Term: 1, Data: a}, {Index: 2, Term: 1, Type: EntryMetaV2}, {Index: 3, Term: 1, Data: b}}
	p.Follow(es[1:2]) // a cluster that follows only what it did not stage
	if p.Marks().End != 2 {
		t.Fatalf("end %d", p.Marks().End)
	}
	if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(es)
	if n := len(p.staging.entries); n != 0 || len(p.staging.ahead) != 0 || p.Marks() != (Marks{LastStable: 2, HighWatermark: 2, End: 2}) {
		t.Fatalf("%d entries are left, marks %+v", n, p.Marks())
	}
}

func TestSequencesWrap(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	stage(t, p, producerBatch(5, 0, math.MaxInt32-1, 3, false)) // MaxInt32-1, MaxInt32, 0
	if _, err := p.Stage(1, producerBatch(5, 0, 2, 1, false), time.Now()); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Fatal(err)
	}
	stage(t, p, producerBatch(5, 0, 1, 1, false))
}

func TestStageLimits(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	p.SetConfig(Config{MaxMessageBytes: 1000, LogAppendTime: true})
	if _, err := p.Stage(1, batchOf(1001, 1), time.Now()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("max.message.bytes: %v", err)
	}
	if _, err := p.Stage(1, []byte("junk"), time.Now()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("junk: %v", err)
	}
	b := batchOf(500, 1)
	stage(t, p, b)
	h, err := record.Validate(b, record.Checks{})
	if err != nil || !h.LogAppendTime() || h.MaxTimestamp != 77 || h.LeaderEpoch != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestProducersExpire: after a day without a batch, but never with an open transaction.
func TestProducersExpire(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	appendAll(t, s, p, producerBatch(1, 0, 0, 1, false), producerBatch(2, 0, 0, 1, true))
	now := time.Now()
	for h := range 26 {
		p.ForgetIdle(now.Add(time.Duration(h) * time.Hour))
		if got := len(p.Producers()); h < 24 && got != 2 {
			t.Fatalf("%d producers after %d hours", got, h)
		}
	}
	got := p.Producers()
	if len(got) != 1 || got[0].ProducerID != 2 || got[0].CurrentTxnFirst != 1 {
		t.Fatalf("%+v", got)
	}
	stage(t, p, producerBatch(1, 0, 99, 1, false)) // nothing is known, so any sequence continues it
}

// TestProducersAreBounded: the idlest go first, and none with an open transaction.
func TestProducersAreBounded(t *testing.T) {
	table := producerTable{}
	for id := range int64(maxProducers + 10) {
		table.observe(&facts{producerID: id, base: id, last: id, transactional: id == 0})
	}
	var idle idleProducers
	idle.sweep(time.Now(), table, map[int64]*aheadProducer{1: {}})
	if len(table) != maxProducers-maxProducers/8 || table[0] == nil || table[1] == nil || table[2] != nil || table[maxProducers+9] == nil {
		t.Fatalf("%d producers are left", len(table))
	}
}

func TestChanged(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	p := mustPartition(t, s, 1)
	woken := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	c := p.Changed()
	b := batchOf(100, 1)
	stage(t, p, b)
	if woken(c) {
		t.Error("woken by a proposal")
	}
	es := []Entry{{Index: 1, Term: 1, Data: b}}
	if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(es)
	if !woken(c) {
		t.Error("not woken by the high watermark")
	}
	c = p.Changed()
	if trimTo(t, s, p, 1); !woken(c) {
		t.Error("not woken by the log start")
	}
	c = p.Changed()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !woken(c) || !woken(p.Changed()) {
		t.Error("not woken by Close")
	}
}

// TestEpochEnd follows Kafka's rules for epochs with and without records.
func TestEpochEnd(t *testing.T) {
	f := newFold()
	if e, o := f.epochEnd(0); e != -1 || o != -1 {
		t.Errorf("empty log: %d %d", e, o)
	}
	for i, term := range []uint64{2, 2, 5, 5, 9} {
		f.apply(&entryMeta{index: uint64(i + 1), term: term, base: int64(i), lastDelta: 0}, &facts{producerID: -1})
	}
	f.apply(&entryMeta{index: 6, term: 12, typ: EntryMeta, base: 5, lastDelta: -1}, &facts{})
	for offset, want := range map[int64]int32{0: 2, 1: 2, 2: 5, 4: 9, 5: 12, 6: 12} {
		if e := f.epochAt(offset); e != want {
			t.Errorf("offset %d is of epoch %d, expected %d", offset, e, want)
		}
	}
	for epoch, want := range map[int32][2]int64{
		-1: {-1, -1}, 1: {1, 0}, 2: {2, 2}, 4: {2, 2}, 5: {5, 4}, 9: {9, 5}, 11: {9, 5}, 12: {12, 5}, 13: {-1, -1},
	} {
		if e, o := f.epochEnd(epoch); int64(e) != want[0] || o != want[1] {
			t.Errorf("epoch %d: %d %d, expected %v", epoch, e, o, want)
		}
	}
}

// The epoch that goes on ends with the log: others may have read what its leader does not know to be committed yet.
// TestEpochEndBelowTheStart: what is still stored below the log's start, and what is not, is not told.
func TestEpochEndBelowTheStart(t *testing.T) {
	stored := newFold()
	stored.epochs = []epochStart{{term: 1, index: 1, offset: 0}, {term: 3, index: 9, offset: 20}, {term: 4, index: 20, offset: 50}}
	stored.hwm, stored.horizon.logStart = 60, 32
	trimmed := stored
	trimmed.epochs = []epochStart{{term: 3, index: 15, offset: 32}, {term: 4, index: 20, offset: 50}}
	for epoch := int32(0); epoch < 6; epoch++ {
		e, end := stored.epochEnd(epoch)
		if other, at := trimmed.epochEnd(epoch); other != e || at != end {
			t.Errorf("epoch %d ends as %d at %d where more is stored, as %d at %d where less is", epoch, e, end, other, at)
		}
		if epoch < 3 && (e != epoch || end != 32) {
			t.Errorf("epoch %d ends as %d at %d; it is below the start, 32", epoch, e, end)
		}
	}
}

func TestTheNewestEpochEndsWithTheLog(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	applied := batchOf(100, 1)
	stage(t, p, applied)
	es := []Entry{{Index: 1, Term: 1, Data: applied}}
	if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(es)
	stage(t, p, batchOf(100, 1))
	if m := p.Marks(); m.HighWatermark != 1 || m.End != 2 {
		t.Fatalf("%+v", m)
	}
	if epoch, end := p.EpochEnd(1); epoch != 1 || end != 2 {
		t.Errorf("epoch %d ends at %d", epoch, end)
	}
}

// A batch that overtook the first one of an epoch does not take its place where the producer is not known; where nothing is
// expected of it, a producer that was forgotten goes on with any sequence.
func TestExpectedFirstBatch(t *testing.T) {
	s, known := newStaging(0), producerTable{}
	batch := func(id int64, epoch int16, seq int32) *facts {
		return &facts{base: s.end, last: s.end, producerID: id, epoch: epoch, firstSeq: seq, lastSeq: seq, transactional: true}
	}
	s.expected[7] = 3
	for _, tt := range []struct {
		f    *facts
		want error
	}{
		{batch(7, 3, 5), ErrOutOfOrderSequence},
		{batch(7, 2, 5), nil}, // another epoch: nothing is known of it
		{batch(8, 3, 5), nil},
		{batch(7, 3, 0), nil},
	} {
		if _, err := s.check(known, tt.f); !errors.Is(err, tt.want) {
			t.Errorf("producer %d epoch %d sequence %d: %v", tt.f.producerID, tt.f.epoch, tt.f.firstSeq, err)
		}
	}
	s.push(known, stagedEntry{term: 1, facts: *batch(7, 3, 0)})
	if _, err := s.check(known, batch(7, 3, 1)); err != nil {
		t.Errorf("the second batch: %v", err)
	}
	s.cut(known, 0, 0) // Raft did not take the first one
	if _, err := s.check(known, batch(7, 3, 1)); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Errorf("the second batch behind a first one that was taken back: %v", err)
	}
	first := stagedEntry{index: 1, term: 1, facts: *batch(7, 3, 0)}
	s.push(known, first)
	known.observe(&first.facts)
	s.applied(1, 1)
	if _, err := s.check(known, batch(7, 3, 1)); err != nil || len(s.expected) != 0 {
		t.Errorf("the second batch: %v, %v", err, s.expected)
	}
	s.expected[9] = 0
	s.push(known, stagedEntry{index: 2, term: 1, facts: facts{base: s.end, last: s.end, producerID: 9, control: true}})
	s.applied(2, 2)
	if len(s.expected) != 0 {
		t.Errorf("after the marker: %v", s.expected)
	}
}
