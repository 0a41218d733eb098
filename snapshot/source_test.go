package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// memSource is a partition log in memory, made of real record batches.
type memSource struct {
	id        log.GroupID
	mu        sync.Mutex
	whole     int64
	installed int64
	batches   [][]byte // stamped, in offset order
	aborted   []log.AbortedTxn
	open      map[int64]int64 // producer -> first offset of its open transaction
	marks     log.Marks
}

func newMemSource() *memSource { return &memSource{id: 7, open: map[int64]int64{}} }

func (s *memSource) ID() log.GroupID { return s.id }

func (s *memSource) Whole() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.whole, s.marks.LogStart)
}

func (s *memSource) Installed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installed
}

func (s *memSource) Marks() log.Marks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks
}

func (s *memSource) Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := log.ReadResult{Marks: s.marks}
	if offset < s.marks.LogStart || offset > s.marks.End {
		return res, fmt.Errorf("read %d: %w", offset, log.ErrOffsetOutOfRange)
	}
	end := s.marks.HighWatermark
	if iso == log.ReadCommitted {
		end = s.marks.LastStable
	}
	i := sort.Search(len(s.batches), func(i int) bool { return header(s.batches[i]).LastOffset() >= offset })
	last := int64(-1)
	for ; i < len(s.batches); i++ {
		h := header(s.batches[i])
		if h.BaseOffset >= end || (len(res.Batches)+len(s.batches[i]) > maxBytes && (len(res.Batches) > 0 || !minOne)) {
			break
		}
		res.Batches = append(res.Batches, s.batches[i]...)
		last = h.LastOffset()
	}
	if iso == log.ReadCommitted {
		for _, a := range s.aborted {
			if a.LastOffset >= offset && a.FirstOffset <= last {
				res.Aborted = append(res.Aborted, a)
			}
		}
		sort.Slice(res.Aborted, func(i, j int) bool { return res.Aborted[i].FirstOffset < res.Aborted[j].FirstOffset })
	}
	return res, nil
}

func header(batch []byte) *record.Header {
	h, err := record.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	return &h
}

// testRecord is a record to be written.
type testRecord struct {
	key, value []byte
	ts         int64
	place      *testPlace
}

type testPlace struct {
	commit uint64
	time   int64 // us
}

// truncateValue is a truncate's envelope.
func truncateValue() []byte {
	return []byte(`{"before":null,"after":null,"source":{"table":"orders"},"transaction":null,"op":"t","ts_ms":1}`)
}

func (r *testRecord) truncates() bool {
	return keyOfNoRow(r.key) && bytes.Contains(r.value, []byte(`"op":"t"`))
}

func (p *testPlace) header() []byte {
	b := binary.AppendUvarint([]byte{positionVersion}, p.commit)
	b = binary.AppendUvarint(b, 1)
	b = binary.AppendUvarint(b, 1)
	b = binary.AppendVarint(b, p.time)
	b = append(b, make([]byte, 8)...)
	return append(b, 0)
}

// append writes one batch, in a transaction when producer is not 0, and returns its base offset.
func (s *memSource) append(producer int64, records ...testRecord) int64 {
	var b record.Builder
	for _, r := range records {
		var headers []record.RecordHeader
		if r.place != nil {
			headers = append(headers, record.RecordHeader{Key: positionHeader, Value: r.place.header()})
		}
		b.Append(r.ts, r.key, r.value, headers...)
	}
	var p *record.Producer
	if producer != 0 {
		p = &record.Producer{ID: producer, Transactional: true}
	}
	return s.add(b.Build(p), func(base int64) {
		if _, in := s.open[producer]; producer != 0 && !in {
			s.open[producer] = base
		}
	})
}

// end writes a transaction's marker.
func (s *memSource) end(producer int64, commit bool) {
	marker := record.EndTxn{ProducerID: producer, Commit: commit}.Build(0)
	s.add(marker, func(base int64) {
		if !commit {
			s.aborted = append(s.aborted, log.AbortedTxn{ProducerID: producer, FirstOffset: s.open[producer], LastOffset: base})
		}
		delete(s.open, producer)
	})
}

func (s *memSource) add(batch []byte, then func(base int64)) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := s.marks.End
	record.Stamp(batch, base, 1)
	s.batches = append(s.batches, batch)
	s.marks.End = header(batch).LastOffset() + 1
	s.marks.HighWatermark = s.marks.End
	then(base)
	s.marks.LastStable = s.marks.End
	for _, first := range s.open {
		s.marks.LastStable = min(s.marks.LastStable, first)
	}
	return base
}

// retain moves the log start, dropping whole batches.
func (s *memSource) retain(start int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks.LogStart = max(s.marks.LogStart, min(start, s.marks.LastStable))
	for len(s.batches) > 0 && header(s.batches[0]).LastOffset() < s.marks.LogStart {
		s.batches = s.batches[1:]
	}
}

// compact takes out of the batches that end below some offset what compaction would: all but the last committed record of each key,
// what was aborted, and, when forget is set, the tombstones. Records without a key stay. The last batch stays even if it is empty.
func (s *memSource) compact(below int64, forget bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	below = min(below, s.marks.LastStable)
	n := sort.Search(len(s.batches), func(i int) bool { return header(s.batches[i]).LastOffset() >= below })
	if n == 0 {
		return
	}
	last := map[string]int64{}
	s.each(s.batches[:n], func(r *record.Record, committed bool) {
		if committed && r.Key != nil {
			last[string(r.Key)] = r.Offset
		}
	})
	committed := map[int64]bool{}
	s.each(s.batches[:n], func(r *record.Record, yes bool) { committed[r.Offset] = yes })
	w := record.NewRewriter(1 << 20)
	var kept [][]byte
	for i, b := range s.batches[:n] {
		h := header(b)
		b, left, err := w.Rewrite(nil, b, func(r *record.Record) bool {
			return h.Control() || committed[r.Offset] && (r.Key == nil || last[string(r.Key)] == r.Offset && (r.Value != nil || !forget))
		})
		if err != nil {
			panic(err)
		}
		if left > 0 && !(h.Control() && forget) || i == n-1 {
			kept = append(kept, b)
		}
	}
	s.whole = max(s.whole, header(s.batches[n-1]).LastOffset()+1)
	s.batches = append(kept, s.batches[n:]...)
	if forget {
		s.aborted = slices.DeleteFunc(s.aborted, func(a log.AbortedTxn) bool { return a.LastOffset < s.whole })
	}
}

// each calls fn for the data records of some batches.
func (s *memSource) each(batches [][]byte, fn func(r *record.Record, committed bool)) {
	reader := record.NewReader(1 << 20)
	for _, b := range batches {
		h := header(b)
		if h.Control() {
			continue
		}
		aborted := slices.ContainsFunc(s.aborted, func(a log.AbortedTxn) bool {
			return h.Transactional() && a.ProducerID == h.ProducerID && a.FirstOffset <= h.BaseOffset && h.BaseOffset <= a.LastOffset
		})
		if err := reader.Reset(b); err != nil {
			panic(err)
		}
		for reader.Next() {
			fn(reader.Record(), !aborted)
		}
	}
}

// holds lists the offsets that the log has a data record at.
func (s *memSource) holds() map[int64]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[int64]bool{}
	s.each(s.batches, func(r *record.Record, _ bool) { all[r.Offset] = true })
	return all
}
