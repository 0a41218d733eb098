package log

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// TestCompactionAgainstNaiveTwin drives a compacted partition and its twin with random producers, transactions, codecs, rounds,
// retention, settings, restarts, lost checkpoints and lost key indexes.
func TestCompactionAgainstNaiveTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &compactModel{t: t, rt: rt, dir: t.TempDir(), now: time.UnixMilli(1_000_000),
			cfg:  Config{Compact: true, DeleteRetentionMs: 1000, RetentionBytes: -1, RetentionMs: -1},
			twin: compactTwin{txns: map[int64]int64{}, sent: map[int64]*record.Producer{}}}
		m.open()
		defer func() { m.close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"append":  m.append,
			"append2": m.append,
			"append3": m.append,
			"marker":  m.marker,
			"meta":    m.meta,
			"compact": m.compact, "compact2": m.compact,
			"settings": m.settings,
			"retain":   m.retain,
			"delete":   m.deleteRecords,
			"restart":  m.restart,
			"rebuild":  m.rebuild,
			"reindex":  m.reindex,
			"sweep":    m.sweep,
			"photo":    m.photograph,
			"revive":   m.revive,
			"time":     m.time,
			"epochs":   m.epochs,
			"repeat":   m.repeat,
			"lag":      m.lag,
			"move":     m.move,
			"":         m.check,
		})
	})
}

type compactModel struct {
	t    *testing.T
	rt   *rapid.T
	dir  string
	s    *Store
	p    *Partition
	now  time.Time
	cfg  Config
	twin compactTwin
	term uint64
	last map[int64]sentRequest
	old  map[string][]byte // keys and values that were in the database some time ago
	// behind is a directory as it was some time ago: a replica that was away since; "": none.
	behind string
}

type sentRequest struct {
	batch []byte
	base  int64
}

func (m *compactModel) open() {
	m.term++
	m.last = map[int64]sentRequest{}
	m.s = mustOpen(m.t, m.dir, Options{Compaction: CompactionOptions{Interval: -1, Now: func() time.Time { return m.now }}})
	m.p = mustPartition(m.t, m.s, 3)
	m.p.SetConfig(m.cfg)
	replay(m.p)
}

func (m *compactModel) close() {
	if err := m.s.Close(); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *compactModel) entry(batch []byte) Entry {
	if n := len(m.twin.epochs); n == 0 || m.twin.epochs[n-1].term != int64(m.term) {
		m.twin.epochs = append(m.twin.epochs, twinEpoch{int64(m.term), m.twin.end()})
	}
	return Entry{Index: m.p.LastIndex() + 1, Term: m.term, Data: batch}
}

func (m *compactModel) commit(e Entry) {
	if err := m.s.Commit([]Mutation{{Group: 3, Entries: []Entry{e}}}); err != nil {
		m.rt.Fatal(err)
	}
	m.p.Apply([]Entry{e})
}

// append writes a batch of records of few keys, in any codec, by any kind of producer.
func (m *compactModel) append(rt *rapid.T) {
	var b record.Builder
	id := rapid.Int64Range(-1, 4).Draw(rt, "producer")
	_, open := m.twin.txns[id]
	transactional := id > 1
	var records []twinRecord
	for range rapid.IntRange(1, 4).Draw(rt, "records") {
		m.now = m.now.Add(time.Duration(rapid.IntRange(-5, 50).Draw(rt, "ms")) * time.Millisecond)
		r := twinRecord{ts: m.now.UnixMilli(), producer: id}
		if n := rapid.IntRange(0, 8).Draw(rt, "key"); n < 8 {
			r.key = fmt.Appendf(nil, "key-%d%0*d", n, n*12, 0) // some longer than the key index keeps as they are
		}
		if rapid.IntRange(0, 3).Draw(rt, "tombstone") > 0 {
			r.value = payload(rapid.SampledFrom([]int{10, 300}).Draw(rt, "size"))
		}
		if transactional {
			r.state = undecided
		}
		b.Append(r.ts, r.key, r.value, record.RecordHeader{Key: "n", Value: fmt.Append(nil, len(m.twin.records)+len(records))})
		records = append(records, r)
	}
	var who *record.Producer
	if id >= 0 {
		if who = m.twin.sent[id]; who == nil {
			who = &record.Producer{ID: id}
			m.twin.sent[id] = who
		}
		who.Transactional = transactional
	}
	batch := b.Build(who)
	if codec := rapid.SampledFrom([]record.Codec{0, 1, 2, 3, 4}).Draw(rt, "codec"); codec != 0 {
		_, _, level := record.Levels(codec)
		packed, err := record.NewRewriter(1<<20).Recompress(nil, batch, codec, level)
		if err != nil {
			rt.Fatal(err)
		}
		batch = packed
	}
	request := slices.Clone(batch)
	staged, err := m.p.Stage(int32(m.term), batch, m.now)
	if err != nil || staged.BaseOffset != m.twin.end() {
		rt.Fatalf("staged %+v: %v, expected offset %d", staged, err, m.twin.end())
	}
	e := m.entry(batch)
	if who != nil {
		m.last[id] = sentRequest{request, staged.BaseOffset}
		who.BaseSequence = int32((int64(who.BaseSequence) + int64(len(records))) & math.MaxInt32)
	}
	if transactional && !open {
		m.twin.txns[id] = m.twin.end()
	}
	m.twin.records = append(m.twin.records, records...)
	m.commit(e)
}

// marker ends a transaction that is open, or none.
func (m *compactModel) marker(rt *rapid.T) {
	id := rapid.Int64Range(2, 4).Draw(rt, "producer")
	if m.twin.sent[id] == nil {
		rt.Skip("nothing was sent")
	}
	end := record.EndTxn{ProducerID: id, Commit: rapid.Bool().Draw(rt, "commit")}
	batch := end.Build(m.now.UnixMilli())
	if _, err := m.p.Stage(int32(m.term), batch, m.now); err != nil {
		rt.Fatal(err)
	}
	e := m.entry(batch)
	if first, open := m.twin.txns[id]; open {
		for o := first; o < m.twin.end(); o++ {
			if r := &m.twin.records[o]; r.producer == id && r.state == undecided {
				r.state = aborted
				if end.Commit {
					r.state = committed
				}
			}
		}
		delete(m.twin.txns, id)
	}
	m.twin.records = append(m.twin.records, twinRecord{control: true, commit: end.Commit, producer: id, ts: m.now.UnixMilli()})
	m.commit(e)
}

func (m *compactModel) meta(*rapid.T) {
	e := m.entry(nil)
	e.Type = EntryMeta
	m.commit(e)
}

func (m *compactModel) settings(rt *rapid.T) {
	m.cfg.Compact = rapid.IntRange(0, 5).Draw(rt, "compact") > 0
	m.cfg.MinCompactionLagMs = rapid.SampledFrom([]int64{0, 0, 100, 10_000}).Draw(rt, "lag")
	m.cfg.DeleteRetentionMs = rapid.SampledFrom([]int64{0, 200, 1000, 1 << 40}).Draw(rt, "delete retention")
	m.p.SetConfig(m.cfg)
}

// compact does a round some time later, and checks where it must have ended.
func (m *compactModel) compact(rt *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 300, 5000}).Draw(rt, "later")) * time.Millisecond)
	before := m.p.fold.horizon
	err := m.s.Compact(3)
	if !m.cfg.Compact {
		if !errors.Is(err, errOvertaken) {
			rt.Fatalf("compact where it is off: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	h := m.p.fold.horizon
	if h.base < before.base {
		rt.Fatalf("the horizon went from %d to %d", before.base, h.base)
	}
	if len(m.p.runs.man.runs) > 0 {
		m.twin.cleaned = append(m.twin.cleaned, twinRound{h.base, m.now.UnixMilli(), m.cfg.DeleteRetentionMs})
	}
	if m.cfg.MinCompactionLagMs > 0 {
		for o := before.base; o < h.base; o++ {
			if m.twin.records[o].ts > m.now.UnixMilli()-m.cfg.MinCompactionLagMs {
				rt.Fatalf("offset %d of %d is compacted at %d", o, m.twin.records[o].ts, m.now.UnixMilli())
			}
		}
		return
	}
	stable := m.twin.stable()
	if h.base > stable {
		rt.Fatalf("compacted up to %d, the last stable offset is %d", h.base, stable)
	}
	// Only the newest batch, and what belongs to an undecided transaction's batch, may be left.
	tail := readAll(m.t, m.p, max(h.base, m.twin.logStart), 1<<20, ReadUncommitted)
	for n := 0; len(tail) > 0; n++ {
		batch, rest, err := record.Next(tail)
		if err != nil {
			rt.Fatal(err)
		}
		b, _ := record.ParseHeader(batch)
		if len(rest) > 0 && b.LastOffset() < stable && n == 0 {
			rt.Fatalf("a round left the batch %d to %d, the last stable offset is %d", b.BaseOffset, b.LastOffset(), stable)
		}
		tail = rest
	}
}

func (m *compactModel) retain(rt *rapid.T) {
	c := m.cfg
	if rapid.Bool().Draw(rt, "by size") {
		c.RetentionBytes = int64(rapid.IntRange(2000, 20000).Draw(rt, "keep"))
	} else {
		c.RetentionMs = int64(rapid.IntRange(1000, 20000).Draw(rt, "ms"))
	}
	m.p.SetConfig(c)
	start, move := m.p.RetainTo(m.now)
	if move {
		m.trim(start)
	}
	m.p.SetConfig(m.cfg)
	if start < m.twin.logStart || start > m.twin.stable() {
		rt.Fatalf("log start %d, was %d", start, m.twin.logStart)
	}
	if c.RetentionMs > 0 {
		for o := m.twin.logStart; o < start; o++ {
			if m.twin.records[o].ts >= m.now.UnixMilli()-c.RetentionMs && !m.goneAnyway(o) {
				rt.Fatalf("retention took offset %d of %d at %d", o, m.twin.records[o].ts, m.now.UnixMilli())
			}
		}
	}
	m.twin.logStart = start
	if err := m.s.Commit(nil); err != nil {
		rt.Fatal(err)
	}
}

// goneAnyway reports that compaction may have taken a record before.
func (m *compactModel) goneAnyway(o int64) bool {
	r := &m.twin.records[o]
	if o >= m.twin.compacted() {
		return false
	}
	return r.control || r.state == aborted || r.key != nil && (m.twin.latest(r.key, m.twin.stable()) != o || r.value == nil && m.twin.mayBeForgotten(o))
}

func (m *compactModel) deleteRecords(rt *rapid.T) {
	offset := rapid.Int64Range(m.twin.logStart, m.twin.end()).Draw(rt, "offset")
	if rapid.Bool().Draw(rt, "few") {
		offset = min(offset, m.twin.logStart+3)
	}
	m.trim(offset)
	if got := m.p.Marks().LogStart; got != offset {
		rt.Fatalf("log start %d, expected %d", got, offset)
	}
	m.twin.logStart = offset
}

// trim moves the log start as a leader does.
func (m *compactModel) trim(offset int64) {
	e := m.entry(TrimPayload(offset))
	e.Type = EntryTrim
	m.commit(e)
}

func (m *compactModel) restart(rt *rapid.T) {
	want := m.p.fold.encode()
	m.close()
	m.open()
	m.sameFold(rt, "loaded", want)
}

func (m *compactModel) sameFold(rt *rapid.T, what string, want []byte) {
	if got := m.p.fold.encode(); !bytes.Equal(got, want) {
		rt.Fatalf("%s fold differs:\n%+v\n%+v", what, m.p.fold, mustDecode(rt, want))
	}
}

// rebuild deletes the checkpoint: the fold that opening makes without it has the same bytes (invariant 8).
func (m *compactModel) rebuild(rt *rapid.T) {
	want := m.p.fold.encode()
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
	m.sameFold(rt, "rebuilt", want)
}

// reindex deletes the key index; the next round makes it anew.
func (m *compactModel) reindex(rt *rapid.T) {
	want := m.p.fold.encode()
	m.close()
	if err := os.RemoveAll(filepath.Join(m.dir, keyIndexDir)); err != nil {
		rt.Fatal(err)
	}
	m.open()
	m.sameFold(rt, "reopened", want)
}

// photograph keeps what the database has of the log.
func (m *compactModel) photograph(rt *rapid.T) {
	m.old = map[string][]byte{}
	err := m.s.view(func(txn *badger.Txn) error {
		for _, space := range []byte{spaceLog, spaceRun} {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{space}})
			for it.Rewind(); it.Valid(); it.Next() {
				v, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				m.old[string(it.Item().KeyCopy(nil))] = v
			}
			it.Close()
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
}

// revive brings deleted keys back, as Badger's value-log collection does. Nothing may be seen of them.
func (m *compactModel) revive(rt *rapid.T) {
	err := m.s.db.Update(func(txn *badger.Txn) error {
		for k, v := range m.old {
			if _, err := txn.Get([]byte(k)); !errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err := txn.Set([]byte(k), v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	m.p.mu.Lock()
	m.p.retire.from = 1
	m.p.mu.Unlock()
}

// sweep deletes what was replaced, and checks that nothing else is in the database.
func (m *compactModel) sweep(rt *rapid.T) {
	m.p.mu.Lock()
	m.p.runs.sweep.ask()
	m.p.mu.Unlock()
	m.s.markDue(m.p)
	for m.s.hasRiders() {
		if err := m.s.ride(); err != nil {
			rt.Fatal(err)
		}
	}
	bytesOf := map[uint64]int64{}
	err := m.s.view(func(txn *badger.Txn) error {
		it := newRunIterator(txn, 3)
		defer it.close()
		it.it.Rewind()
		for {
			ok, err := it.current()
			if err != nil || !ok {
				return err
			}
			bytesOf[it.run] += int64(it.meta.size)
			it.it.Next()
		}
	})
	if err != nil {
		rt.Fatal(err)
	}
	for _, x := range m.p.runs.man.runs {
		if bytesOf[x.id] != x.bytes {
			rt.Fatalf("run %d has %d bytes, the manifest says %d", x.id, bytesOf[x.id], x.bytes)
		}
		delete(bytesOf, x.id)
	}
	if len(bytesOf) > 0 {
		rt.Fatalf("runs without a name are left: %v", bytesOf)
	}
}

// epochs compares the ends of the epochs that are still stored.
func (m *compactModel) epochs(rt *rapid.T) {
	all := m.twin.epochs
	for i, e := range all {
		end := m.twin.end()
		if i+1 < len(all) {
			end = all[i+1].offset
		}
		if end <= m.twin.logStart {
			continue
		}
		if got, at := m.p.EpochEnd(int32(e.term)); got != int32(e.term) || at != end {
			rt.Fatalf("epoch %d ends at %d as epoch %d, expected %d", e.term, at, got, end)
		}
	}
}

// repeat sends a producer's last batch again.
func (m *compactModel) repeat(rt *rapid.T) {
	id := rapid.Int64Range(0, 4).Draw(rt, "producer")
	sent, ok := m.last[id]
	if _, open := m.twin.txns[id]; !ok || id > 1 && !open {
		rt.Skip("nothing to repeat")
	}
	got, err := m.p.Stage(int32(m.term), slices.Clone(sent.batch), m.now)
	if err != nil || !got.Duplicate || got.BaseOffset != sent.base {
		rt.Fatalf("sent again: %+v %v, expected a duplicate of %d", got, err, sent.base)
	}
}

// time compares with what a reader of everything finds.
func (m *compactModel) time(rt *rapid.T) {
	ts := rapid.Int64Range(999_900, m.now.UnixMilli()+50).Draw(rt, "ts")
	want := noTimes()
	m.readFrom(rt, m.twin.logStart, 1<<20, ReadUncommitted, func(_ *record.Header, r *record.Record) {
		want.see(r, ts)
	})
	want.compare(rt, m.p, ts)
}

// readFrom reads as a client does, up to the end of its isolation level, and calls f for the records at and behind from that
// a client passes on: with ReadCommitted not those of aborted transactions, as the response's list tells.
func (m *compactModel) readFrom(rt *rapid.T, from int64, maxBytes int, iso Isolation, f func(*record.Header, *record.Record)) {
	start, reader := from, record.NewReader(1<<20)
	for {
		res, err := m.p.Read(from, maxBytes, true, iso)
		if err != nil {
			rt.Fatalf("read %d: %v", from, err)
		}
		end := m.p.endLocked(iso, &res.Marks)
		if len(res.Batches) == 0 {
			if from != end {
				rt.Fatalf("a reader from %d stops at %d, before %d", start, from, end)
			}
			return
		}
		list := res.Aborted
		skipping := map[int64]bool{}
		for rest := res.Batches; len(rest) > 0; {
			var b []byte
			if b, rest, err = record.Next(rest); err != nil {
				rt.Fatal(err)
			}
			h, err := record.Validate(b, record.Checks{AllowControl: true, AllowGaps: true})
			if err != nil || h.LastOffset() < from {
				rt.Fatalf("batch %d to %d, read from %d: %v", h.BaseOffset, h.LastOffset(), from, err)
			}
			from = h.LastOffset() + 1
			for len(list) > 0 && list[0].FirstOffset <= h.LastOffset() {
				skipping[list[0].ProducerID] = true
				list = list[1:]
			}
			if iso == ReadCommitted && h.Transactional() && !h.Control() && skipping[h.ProducerID] {
				continue
			}
			if err := reader.Reset(b); err != nil {
				rt.Fatal(err)
			}
			for reader.Next() {
				if h.Control() {
					delete(skipping, h.ProducerID)
				}
				if r := reader.Record(); r.Offset >= start {
					f(&h, r)
				}
			}
			if err := reader.Err(); err != nil {
				rt.Fatal(err)
			}
		}
	}
}

// check reads everything, at both isolation levels and from anywhere, and compares it with the twin.
func (m *compactModel) check(rt *rapid.T) {
	w := &m.twin
	if got, want := m.p.Marks(), (Marks{w.logStart, w.stable(), w.end(), w.end()}); got != want {
		rt.Fatalf("marks %+v, expected %+v", got, want)
	}
	if rapid.Bool().Draw(rt, "cold") {
		forgetRecent(m.s, m.p)
	}
	base := m.p.fold.horizon.base
	compacted := w.compacted()
	for _, iso := range []Isolation{ReadUncommitted, ReadCommitted} {
		end := w.end()
		if iso == ReadCommitted {
			end = w.stable()
		}
		from := rapid.SampledFrom([]int64{w.logStart, w.logStart, rapid.Int64Range(w.logStart, end).Draw(rt, "from")}).Draw(rt, "start")
		there := map[int64]bool{}
		before := int64(-1)
		m.readFrom(rt, from, rapid.SampledFrom([]int{1, 400, 1 << 20}).Draw(rt, "max"), iso, func(h *record.Header, r *record.Record) {
			x := &w.records[r.Offset]
			if h.Control() != x.control || r.Timestamp != x.ts || h.ProducerID != x.producer ||
				!x.control && (!bytes.Equal(r.Key, x.key) || (r.Value == nil) != (x.value == nil) || !bytes.Equal(r.Value, x.value)) {
				rt.Fatalf("offset %d holds %+v, expected %+v", r.Offset, r, x)
			}
			if n, ok := r.Header("n"); !x.control && (!ok || string(n) != fmt.Sprint(r.Offset)) {
				rt.Fatalf("offset %d has header %q", r.Offset, n)
			}
			if r.Offset <= before {
				rt.Fatalf("offset %d follows %d", r.Offset, before)
			}
			before = r.Offset
			there[r.Offset] = true
			if iso == ReadCommitted && (x.state == aborted || x.state == undecided) {
				rt.Fatalf("a committed reader sees offset %d, which is not", r.Offset)
			}
		})
		for o := from; o < end; o++ {
			x := &w.records[o]
			keep := o >= base && (iso == ReadUncommitted || x.state != aborted)
			if o < base && !x.control && x.state != aborted {
				keep = x.key == nil || w.latest(x.key, w.stable()) == o && (x.value != nil || !w.mayBeForgotten(o))
			}
			if keep && !there[o] {
				rt.Fatalf("isolation %d: offset %d (%+v) is gone; compacted up to %d", iso, o, x, base)
			}
			// Exactly these: a round leaves nothing behind that has a successor below its end.
			if there[o] && o < compacted && !x.control && (x.state == aborted || x.key != nil && w.latest(x.key, compacted) != o) {
				rt.Fatalf("isolation %d: offset %d (%+v) is still there; compacted up to %d", iso, o, x, compacted)
			}
		}
	}
	m.checkRuns(rt)
	m.checkMarkers(rt)
}

// checkMarkers: the marker of a transaction of which a record is left is there.
func (m *compactModel) checkMarkers(rt *rapid.T) {
	there := map[int64]bool{}
	m.readFrom(rt, m.twin.logStart, 1<<20, ReadUncommitted, func(_ *record.Header, r *record.Record) { there[r.Offset] = true })
	for o := m.twin.logStart; o < m.twin.end(); o++ {
		x := &m.twin.records[o]
		if !there[o] || x.state != committed {
			continue
		}
		for marker := o + 1; ; marker++ {
			if y := &m.twin.records[marker]; y.control && y.producer == x.producer {
				if !there[marker] {
					rt.Fatalf("offset %d is there, the marker of its transaction at %d is gone", o, marker)
				}
				break
			}
		}
	}
}

// checkRuns: manifest and horizon fit, and an aborted transaction is on the list as long as its marker is there.
func (m *compactModel) checkRuns(rt *rapid.T) {
	if err := m.p.runs.man.check(&m.p.fold.horizon); err != nil {
		rt.Fatal(err)
	}
	if m.p.runs.writing != noRun || m.p.runs.written != 0 {
		rt.Fatalf("a round that ended is still writing run %d", m.p.runs.writing)
	}
	listed := map[int64]bool{}
	for _, a := range m.p.fold.txns.aborted {
		listed[a.LastOffset] = true
	}
	err := m.s.walkRuns(3, m.p.runs.man, 0, func(it *runIterator) (bool, error) {
		return true, it.value(func(b []byte) error {
			h, err := record.ParseHeader(b)
			if err == nil && h.Control() {
				delete(listed, h.BaseOffset)
			}
			return err
		})
	})
	if err != nil {
		rt.Fatal(err)
	}
	for o := range listed {
		if o < m.p.fold.horizon.base && o >= m.twin.logStart {
			rt.Fatalf("the aborted transaction with its marker at %d is listed, the marker is gone", o)
		}
	}
}
