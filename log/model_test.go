package log

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// twin is the naive model: it keeps every batch for ever and answers by looking at all of them.
type twin struct {
	batches  []twinBatch
	logStart int64
	index    uint64
	metas    map[uint64]bool
}

type twinBatch struct {
	facts
	bytes []byte
	index uint64
	term  uint64
}

func (w *twin) end() int64 {
	if len(w.batches) == 0 {
		return 0
	}
	return w.batches[len(w.batches)-1].last + 1
}

// txns walks the whole log.
func (w *twin) txns() (open map[int64]int64, aborted []AbortedTxn) {
	open = map[int64]int64{}
	for _, b := range w.batches {
		first, isOpen := open[b.producerID]
		switch {
		case b.control:
			if isOpen && !b.commit {
				aborted = append(aborted, AbortedTxn{b.producerID, first, b.last})
			}
			delete(open, b.producerID)
		case b.transactional && !isOpen:
			open[b.producerID] = b.base
		}
	}
	return open, aborted
}

func (w *twin) marks() Marks {
	m := Marks{LogStart: w.logStart, HighWatermark: w.end(), LastStable: w.end(), End: w.end()}
	open, _ := w.txns()
	for _, first := range open {
		m.LastStable = min(m.LastStable, first)
	}
	m.LastStable = max(m.LastStable, m.LogStart)
	return m
}

func (w *twin) read(offset int64, maxBytes int, iso Isolation) (out []byte, aborted []AbortedTxn) {
	end := w.marks().HighWatermark
	if iso == ReadCommitted {
		end = w.marks().LastStable
	}
	lo, hi := int64(-1), int64(-1)
	for _, b := range w.batches {
		if b.last < offset || b.base >= end || offset >= end {
			continue
		}
		if len(out) > 0 && len(out)+len(b.bytes) > maxBytes {
			break
		}
		if lo < 0 {
			lo = b.base
		}
		hi = b.last + 1
		out = append(out, b.bytes...)
		if len(out) > maxBytes {
			break
		}
	}
	if iso == ReadCommitted && hi >= 0 {
		_, all := w.txns()
		for _, a := range all {
			if a.FirstOffset < hi && a.LastOffset >= lo {
				aborted = append(aborted, a)
			}
		}
		slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	}
	return out, aborted
}

// check is the producer rule, from the whole history.
func (w *twin) check(f *facts) (dup *twinBatch, err error) {
	var mine []*twinBatch
	epoch, known, coordinator, openFirst := int16(-1), false, int32(-1), int64(-1)
	anySeq := true
	for i := range w.batches {
		b := &w.batches[i]
		if b.producerID != f.producerID {
			continue
		}
		if known && b.epoch != epoch {
			mine, anySeq = nil, false
		}
		epoch, known = b.epoch, true
		if b.control {
			coordinator, openFirst = b.coordinatorEpoch, -1
			continue
		}
		anySeq = false
		mine = append(mine, b)
		if b.transactional && openFirst < 0 {
			openFirst = b.base
		}
	}
	switch {
	case !known:
		return nil, nil
	case f.epoch < epoch:
		return nil, ErrInvalidProducerEpoch
	case f.control && f.coordinatorEpoch < coordinator:
		return nil, ErrFencedCoordinator
	case f.control:
		return nil, nil
	}
	if f.epoch == epoch {
		for _, b := range mine[max(len(mine)-windowLen, 0):] {
			if b.firstSeq == f.firstSeq && b.lastSeq == f.lastSeq {
				return b, nil
			}
		}
		want := int32(0)
		if len(mine) > 0 {
			want = int32((int64(mine[len(mine)-1].lastSeq) + 1) & math.MaxInt32)
		}
		if f.firstSeq != want && !anySeq {
			return nil, ErrOutOfOrderSequence
		}
	} else if f.firstSeq != 0 {
		return nil, ErrOutOfOrderSequence
	}
	if openFirst >= 0 && !f.transactional {
		return nil, ErrInvalidTxnState
	}
	return nil, nil
}

// TestAgainstNaiveTwin drives a partition and its twin with random producers, transactions, reads, retention, restarts
// and lost checkpoints.
func TestAgainstNaiveTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &modelTest{t: t, rt: rt, dir: t.TempDir(), twin: twin{metas: map[uint64]bool{}}, now: time.UnixMilli(1_000_000)}
		m.open()
		defer func() { m.close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"append":     m.append,
			"append2":    m.append,
			"append3":    m.append,
			"marker":     m.marker,
			"meta":       m.meta,
			"read":       m.read,
			"time":       m.time,
			"retain":     m.retain,
			"delete":     m.deleteRecords,
			"restart":    m.restart,
			"rebuild":    m.rebuild,
			"checkpoint": m.checkpoint,
			"overwrite":  m.overwrite,
			"":           m.invariants,
		})
	})
}

type modelTest struct {
	t    *testing.T
	rt   *rapid.T
	dir  string
	s    *Store
	p    *Partition
	twin twin
	now  time.Time
	term uint64
	keep int64
}

func (m *modelTest) open() {
	m.term++
	m.s = mustOpen(m.t, m.dir, Options{})
	m.p = mustPartition(m.t, m.s, 3)
	replay(m.p)
}

func (m *modelTest) close() {
	if err := m.s.Close(); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *modelTest) commit(es ...Entry) {
	if err := m.s.Commit([]Mutation{{Group: 3, Entries: es}}); err != nil {
		m.rt.Fatal(err)
	}
	m.p.Apply(es)
}

// append stages one to three batches and commits them together.
func (m *modelTest) append(rt *rapid.T) {
	var es []Entry
	for range rapid.IntRange(1, 3).Draw(rt, "batches") {
		var b record.Builder
		n := rapid.IntRange(1, 3).Draw(rt, "records")
		for range n {
			m.now = m.now.Add(time.Duration(rapid.IntRange(-5, 20).Draw(rt, "ms")) * time.Millisecond)
			b.Append(m.now.UnixMilli(), []byte("k"), payload(rapid.SampledFrom([]int{10, 2000}).Draw(rt, "size")))
		}
		var who *record.Producer
		if rapid.IntRange(0, 3).Draw(rt, "idempotent") > 0 {
			who = m.producer(rt)
		}
		batch := b.Build(who)
		if e, ok := m.stage(rt, batch); ok {
			es = append(es, e)
		}
	}
	if len(es) > 0 {
		m.commit(es...)
	}
}

// producer draws an id, and an epoch and sequence that mostly fit.
func (m *modelTest) producer(rt *rapid.T) *record.Producer {
	id := rapid.Int64Range(1, 4).Draw(rt, "pid")
	epoch, seq, open := int16(0), int32(math.MaxInt32-3), false
	for _, b := range m.twin.batches {
		if b.producerID != id {
			continue
		}
		if b.epoch != epoch {
			epoch, seq = b.epoch, 0
		}
		if b.control {
			open = false
		} else {
			seq, open = int32((int64(b.lastSeq)+1)&math.MaxInt32), open || b.transactional
		}
	}
	switch rapid.IntRange(0, 9).Draw(rt, "kind") {
	case 0:
		epoch, seq = epoch+1, 0
	case 1:
		seq++
		seq &= math.MaxInt32
	case 2:
		seq = int32((int64(seq) - int64(rapid.IntRange(1, 12).Draw(rt, "back"))) & math.MaxInt32)
	case 3:
		if epoch > 0 {
			epoch--
		}
	}
	txn := open || id%2 == 0
	if rapid.IntRange(0, 9).Draw(rt, "other") == 0 {
		txn = !txn
	}
	return &record.Producer{ID: id, Epoch: epoch, BaseSequence: seq, Transactional: txn}
}

// stage stages on both sides and compares the answers.
func (m *modelTest) stage(rt *rapid.T, batch []byte) (Entry, bool) {
	f, err := factsOf(batch)
	if err != nil {
		rt.Fatal(err)
	}
	var dup *twinBatch
	var want error
	if f.producerID >= 0 {
		dup, want = m.twin.check(&f)
	}
	got, err := m.p.Stage(int32(m.term), batch, m.now)
	switch {
	case want != nil:
		if !errors.Is(err, want) {
			rt.Fatalf("stage: %v, expected %v", err, want)
		}
		return Entry{}, false
	case err != nil:
		rt.Fatalf("stage: %v, expected none", err)
	case dup != nil:
		if !got.Duplicate || got.BaseOffset != dup.base || got.LastOffset != dup.last {
			rt.Fatalf("staged %+v, expected a duplicate of %d", got, dup.base)
		}
		return Entry{}, false
	}
	if got.Duplicate || got.BaseOffset != m.twin.end() {
		rt.Fatalf("staged %+v, expected offset %d", got, m.twin.end())
	}
	if f, err = factsOf(batch); err != nil || f.base != got.BaseOffset || f.leaderEpoch != int32(m.term) {
		rt.Fatalf("stamped %+v, staged %+v: %v", f, got, err)
	}
	m.twin.index++
	m.twin.batches = append(m.twin.batches, twinBatch{facts: f, bytes: slices.Clone(batch), index: m.twin.index, term: m.term})
	return Entry{Index: m.twin.index, Term: m.term, Data: batch}, true
}

func (m *modelTest) marker(rt *rapid.T) {
	id := rapid.Int64Range(1, 4).Draw(rt, "pid")
	e := record.EndTxn{
		ProducerID: id, Commit: rapid.Bool().Draw(rt, "commit"),
		CoordinatorEpoch: int32(rapid.IntRange(0, 2).Draw(rt, "coordinator")),
	}
	for _, b := range m.twin.batches {
		if b.producerID == id {
			e.ProducerEpoch = b.epoch
		}
	}
	e.ProducerEpoch += int16(rapid.IntRange(0, 1).Draw(rt, "bump"))
	if entry, ok := m.stage(rt, e.Build(m.now.UnixMilli())); ok {
		m.commit(entry)
	}
}

func (m *modelTest) meta(*rapid.T) {
	m.twin.index++
	m.twin.metas[m.twin.index] = true
	m.commit(Entry{Index: m.twin.index, Term: m.term, Type: EntryMeta})
}

// trim moves the log start as a leader does.
func (m *modelTest) trim(offset int64) {
	m.twin.index++
	m.twin.metas[m.twin.index] = true
	m.commit(Entry{Index: m.twin.index, Term: m.term, Type: EntryTrim, Data: TrimPayload(offset)})
}

// overwrite lets this replica lose uncommitted entries to another leader, as a follower does.
func (m *modelTest) overwrite(rt *rapid.T) {
	next := m.twin.index + 1
	lost := []Entry{{Index: next, Term: m.term, Type: EntryMeta}}
	offset := m.twin.end()
	for i := range rapid.IntRange(1, 3).Draw(rt, "lost") {
		b := batchOf(100, 1)
		record.Stamp(b, offset, int32(m.term))
		offset++
		lost = append(lost, Entry{Index: next + 1 + uint64(i), Term: m.term, Data: b})
	}
	m.p.Follow(lost)
	if err := m.s.Commit([]Mutation{{Group: 3, Entries: lost}}); err != nil {
		rt.Fatal(err)
	}
	if got := m.p.Marks().End; got != offset {
		rt.Fatalf("end %d, expected %d", got, offset)
	}
	from := next + uint64(rapid.IntRange(0, len(lost)-1).Draw(rt, "from"))
	kept := lost[:from-next]
	m.term++
	won := []Entry{{Index: from, Term: m.term, Type: EntryMeta}}
	m.p.Follow(won)
	if err := m.s.Commit([]Mutation{{Group: 3, TruncateFrom: from, Entries: won, HardState: &HardState{Term: m.term}}}); err != nil {
		rt.Fatal(err)
	}
	if got := m.p.LastIndex(); got != from {
		rt.Fatalf("last index %d, expected %d", got, from)
	}
	for _, e := range kept {
		if e.Type == EntryBatch {
			f, err := factsOf(e.Data)
			if err != nil {
				rt.Fatal(err)
			}
			m.twin.batches = append(m.twin.batches, twinBatch{facts: f, bytes: e.Data, index: e.Index, term: e.Term})
		} else {
			m.twin.metas[e.Index] = true
		}
	}
	m.twin.metas[from] = true
	m.twin.index = from
	all, err := m.p.Entries(next, from+1, 1<<20)
	if err != nil || len(all) != len(kept)+1 {
		rt.Fatalf("%d entries, %v", len(all), err)
	}
	m.p.Apply(all)
}

func (m *modelTest) read(rt *rapid.T) {
	marks := m.twin.marks()
	offset := rapid.Int64Range(0, marks.HighWatermark).Draw(rt, "offset")
	maxBytes := rapid.SampledFrom([]int{1, 500, 5000, 1 << 20}).Draw(rt, "max")
	iso := rapid.SampledFrom([]Isolation{ReadUncommitted, ReadCommitted}).Draw(rt, "iso")
	if rapid.Bool().Draw(rt, "cold") {
		forgetRecent(m.s, m.p)
	}
	res, err := m.p.Read(offset, maxBytes, true, iso)
	if offset < marks.LogStart {
		if !errors.Is(err, ErrOffsetOutOfRange) {
			rt.Fatalf("read below the log start: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	want, aborted := m.twin.read(offset, maxBytes, iso)
	if !bytes.Equal(res.Batches, want) {
		rt.Fatalf("read %d: %d bytes, expected %d", offset, len(res.Batches), len(want))
	}
	if !slices.Equal(res.Aborted, aborted) {
		rt.Fatalf("read %d: aborted %v, expected %v", offset, res.Aborted, aborted)
	}
}

func (m *modelTest) time(rt *rapid.T) {
	ts := rapid.Int64Range(999_900, m.now.UnixMilli()+50).Draw(rt, "ts")
	marks := m.twin.marks()
	want := noTimes()
	r := record.NewReader(1 << 20)
	for _, b := range m.twin.batches {
		if err := r.Reset(b.bytes); err != nil {
			rt.Fatal(err)
		}
		for r.Next() {
			c := r.Record()
			if c.Offset < marks.LogStart {
				continue
			}
			want.see(c, ts)
		}
	}
	want.compare(rt, m.p, ts)
}

// retain compares with the rule applied to everything at once.
func (m *modelTest) retain(rt *rapid.T) {
	cfg := Config{RetentionBytes: -1, RetentionMs: -1}
	if rapid.Bool().Draw(rt, "by size") {
		cfg.RetentionBytes = int64(rapid.IntRange(1, 20000).Draw(rt, "keep"))
	} else {
		cfg.RetentionMs = int64(rapid.IntRange(1, 300).Draw(rt, "ms"))
	}
	m.p.SetConfig(cfg)
	start, move := m.p.RetainTo(m.now)
	stored := m.delete(cfg)
	if move {
		m.trim(start)
	}
	m.p.ForgetIdle(m.now)
	got := m.p.Marks().LogStart
	if got != m.twin.logStart {
		rt.Fatalf("log start %d, expected %d", got, m.twin.logStart)
	}
	if got := m.p.Bytes(); got != stored {
		rt.Fatalf("%d bytes, expected %d", got, stored)
	}
	// Make the horizon durable; restarts must not depend on a later append.
	if err := m.s.Commit(nil); err != nil {
		rt.Fatal(err)
	}
}

func (m *modelTest) physicalStart() int64 { return m.keep }

// delete is the rule for what is stored, applied to everything at once. It returns the bytes that are left.
func (m *modelTest) delete(cfg Config) int64 {
	marks := m.twin.marks()
	stable := m.twin.end()
	open, _ := m.twin.txns()
	for _, first := range open {
		stable = min(stable, first)
	}
	var stored int64
	base := m.physicalStart()
	for _, b := range m.twin.batches {
		if b.base >= base {
			stored += int64(len(b.bytes))
		}
	}
	for i, b := range m.twin.batches {
		if b.base < base {
			continue
		}
		if i == len(m.twin.batches)-1 || b.last+1 > stable {
			break
		}
		if !(cfg.RetentionBytes > 0 && stored-int64(len(b.bytes)) >= cfg.RetentionBytes ||
			cfg.RetentionMs > 0 && b.maxTs < m.now.UnixMilli()-cfg.RetentionMs || b.last < marks.LogStart) {
			break
		}
		stored -= int64(len(b.bytes))
		base = b.last + 1
	}
	m.twin.logStart = max(m.twin.logStart, base)
	m.keep = base
	return stored
}

func (m *modelTest) deleteRecords(rt *rapid.T) {
	marks := m.twin.marks()
	offset := rapid.Int64Range(0, marks.HighWatermark+1).Draw(rt, "offset")
	m.trim(offset)
	m.twin.logStart = max(m.twin.logStart, min(offset, marks.HighWatermark))
	m.p.ForgetIdle(m.now)
	m.delete(Config{})
	if got := m.p.Marks().LogStart; got != m.twin.logStart {
		rt.Fatalf("log start %d, expected %d", got, m.twin.logStart)
	}
	if err := m.s.Commit(nil); err != nil {
		rt.Fatal(err)
	}
}

func (m *modelTest) checkpoint(rt *rapid.T) {
	m.s.commitMu.Lock()
	defer m.s.commitMu.Unlock()
	if err := m.s.checkpointAll(); err != nil {
		rt.Fatal(err)
	}
}

// restart compares the fold that a checkpoint brings back.
func (m *modelTest) restart(rt *rapid.T) {
	want := m.p.fold.encode()
	m.close()
	m.open()
	if got := m.p.fold.encode(); !bytes.Equal(got, want) {
		rt.Fatalf("loaded fold differs:\n%+v\n%+v", m.p.fold, mustDecode(rt, want))
	}
}

// rebuild deletes the checkpoint and compares the fold that opening makes without it (invariant 8).
func (m *modelTest) rebuild(rt *rapid.T) {
	want := m.p.fold.encode()
	hasCheckpoint := rapid.Bool().Draw(rt, "checkpoint first")
	if hasCheckpoint {
		m.checkpoint(rt)
	}
	// Close would write a checkpoint: delete it after that, through the database alone.
	m.close()
	db, err := badger.Open(badgerOptions(m.dir, nil))
	if err != nil {
		rt.Fatal(err)
	}
	err = db.Update(func(txn *badger.Txn) error { return txn.Delete(groupKey(spaceCheckpoint, 3)) })
	if err = errors.Join(err, db.Close()); err != nil {
		rt.Fatal(err)
	}
	m.open()
	if got := m.p.fold.encode(); !bytes.Equal(got, want) {
		rt.Fatalf("rebuilt fold differs:\n%+v\n%+v", m.p.fold, mustDecode(rt, want))
	}
}

func mustDecode(rt *rapid.T, b []byte) fold {
	f, err := decodeFold(b)
	if err != nil {
		rt.Fatal(err)
	}
	return f
}

func (m *modelTest) invariants(rt *rapid.T) {
	if got, want := m.p.Marks(), m.twin.marks(); got != want {
		rt.Fatalf("marks %+v, expected %+v", got, want)
	}
	first, last, applied := m.p.FirstIndex(), m.p.LastIndex(), m.p.AppliedIndex()
	if first-1 > applied || applied > last || last != m.twin.index {
		rt.Fatalf("first %d, applied %d, last %d, expected last %d", first, applied, last, m.twin.index)
	}
	terms := map[uint64]uint64{}
	for _, b := range m.twin.batches {
		terms[b.index] = b.term
	}
	for i := first; i <= last; i++ {
		term, err := m.p.Term(i)
		if err != nil || terms[i] != 0 && term != terms[i] {
			rt.Fatalf("term of %d: %d %v, expected %d", i, term, err, terms[i])
		}
	}
	if _, err := m.p.Term(first - 1); err != nil {
		rt.Fatalf("term before the first index: %v", err)
	}
}
