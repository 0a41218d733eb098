package log

import (
	"cmp"
	"slices"
	"sort"

	"github.com/rowtrail/rowtrail/log/keyindex"
	"github.com/rowtrail/rowtrail/log/record"
)

// forgetBytes bounds the keys of the tombstones that one round lets go; further ones stay until the next round.
const forgetBytes = 16 << 20

// askedBytes bounds the answers of the key index that a round keeps; askedCost is what one takes beside its key.
const (
	askedBytes = 8 << 20
	askedCost  = 64
)

// forgotten are keys whose last record, a tombstone, goes with the swap. The key index hears of it after that.
type forgotten struct {
	keys []byte // one behind the other
	ends []int
	at   []int64
}

func (f *forgotten) add(key []byte, offset int64) bool {
	if len(f.keys)+16*len(f.ends) > forgetBytes {
		return false
	}
	f.keys = append(f.keys, key...)
	f.ends = append(f.ends, len(f.keys))
	f.at = append(f.at, offset)
	return true
}

func (f *forgotten) each(do func(key []byte, offset int64) error) error {
	from := 0
	for i, end := range f.ends {
		if err := do(f.keys[from:end], f.at[i]); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// survivors decides what a round keeps. It is given the batches below the cleanable end in offset order, each once, and
// does no I/O but through latest. Invariant 10 rests on it.
type survivors struct {
	rewriter *record.Rewriter
	// latest is the offset of the last committed record of a key; ok is false for a key that is not known.
	latest func(key []byte) (offset int64, ok bool, err error)
	// later knows of the records that no round has seen yet, and of tombstones that may go. A record from compared on that it lets
	// nothing follow has no successor: earlier rounds have compared it with all others. nil: latest is asked about every record.
	later    *keyindex.Sketch
	compared int64

	logStart int64 // nothing that ends below is readable
	end      int64 // the batch that ends here stays even when nothing is left in it, so that readers reach it
	now      int64 // ms
	expired  int64 // ms: what was first seen ready at or before goes

	aborted map[int64][]AbortedTxn // by producer, by first offset
	// holding has the producers of whose transaction something is left, and whose marker is still to come. It is bounded by the
	// transactions that were open at one moment.
	holding map[int64]struct{}

	folded int64 // every record below it has been entered into the index
	lost   int64 // records of which the index does not know although they were

	// asked are answers of latest about records that went: a key that was written often is asked about once.
	asked      map[string]int64
	askedBytes int

	records int64 // records that went
	forgot  forgotten
	markers []int64 // offsets of the markers of aborted transactions that went, rising
	buf     []byte
}

func newSurvivors(aborted []AbortedTxn) *survivors {
	v := &survivors{
		rewriter: record.NewRewriter(maxDecompressed),
		aborted:  map[int64][]AbortedTxn{}, holding: map[int64]struct{}{}, asked: map[string]int64{},
	}
	for _, a := range aborted {
		v.aborted[a.ProducerID] = append(v.aborted[a.ProducerID], a)
	}
	for _, list := range v.aborted {
		slices.SortFunc(list, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	}
	return v
}

// isAborted reports that a transactional batch is part of an aborted transaction.
func (v *survivors) isAborted(h *record.Header) bool {
	if !h.Transactional() || h.Control() {
		return false
	}
	list := v.aborted[h.ProducerID]
	i := sort.Search(len(list), func(i int) bool { return list[i].LastOffset >= h.BaseOffset })
	return i < len(list) && list[i].FirstOffset <= h.BaseOffset
}

// verdict is what a round does with a batch.
type verdict struct {
	keep    bool
	changed bool // not as it was stored: a run with such a batch is written anew
	clean   int64
	batch   []byte // valid until the next call of judge
}

// judge decides about the next batch. clean is when a round first saw it with something to be forgotten, or 0.
func (v *survivors) judge(batch []byte, clean int64) (verdict, error) {
	h, err := record.ParseHeader(batch)
	if err != nil {
		return verdict{}, err
	}
	switch {
	case h.LastOffset() < v.logStart && h.LastOffset() != v.end:
		v.records += int64(h.Count)
		return verdict{changed: true}, nil
	case h.Control():
		return v.judgeMarker(&h, batch, clean), nil
	}
	return v.judgeData(&h, batch, clean)
}

// judgeMarker: a marker stays as long as a record of its transaction does, and then for as long as tombstones do. That of
// an aborted transaction takes the transaction's entry with it, in the same swap.
func (v *survivors) judgeMarker(h *record.Header, batch []byte, clean int64) verdict {
	_, holding := v.holding[h.ProducerID]
	delete(v.holding, h.ProducerID)
	switch {
	case holding:
		return verdict{keep: true, batch: batch}
	case clean == 0:
		return verdict{keep: true, changed: true, clean: v.now, batch: batch}
	case clean > v.expired || h.LastOffset() == v.end:
		return verdict{keep: true, clean: clean, batch: batch}
	}
	list := v.aborted[h.ProducerID]
	i := sort.Search(len(list), func(i int) bool { return list[i].LastOffset >= h.BaseOffset })
	if i < len(list) && list[i].LastOffset == h.BaseOffset {
		v.markers = append(v.markers, h.BaseOffset)
	}
	v.records += int64(h.Count)
	return verdict{changed: true}
}

// judgeData: the last committed record of a key stays; if it is a tombstone, until it expires. A record without a key has no
// successor and stays (invariant 7).
func (v *survivors) judgeData(h *record.Header, batch []byte, clean int64) (verdict, error) {
	var failed error
	tombstones := 0
	keep := v.keepRecord(clean, &tombstones, &failed)
	if v.isAborted(h) {
		keep = func(*record.Record) bool { return false }
	}
	out, kept, err := v.rewriter.Rewrite(v.buf[:0], batch, keep)
	if err = cmp.Or(failed, err); err != nil {
		return verdict{}, err
	}
	v.buf = out
	v.records += int64(h.Count) - int64(kept)
	if kept == 0 {
		// Header-only batches go along when their run is written anew anyway.
		return verdict{keep: h.LastOffset() == v.end, changed: h.Count > 0, batch: out}, nil
	}
	if h.Transactional() {
		v.holding[h.ProducerID] = struct{}{}
	}
	x := verdict{keep: true, changed: int32(kept) != h.Count, batch: out}
	if tombstones > 0 {
		x.clean = clean
		if clean == 0 {
			x.clean, x.changed = v.now, true
		}
	}
	return x, nil
}

func (v *survivors) keepRecord(clean int64, tombstones *int, failed *error) func(*record.Record) bool {
	return func(r *record.Record) bool {
		if *failed != nil || r.Key == nil {
			return true
		}
		if v.later != nil && r.Offset >= v.compared && !v.later.Follows(r.Key, r.Offset) {
			if r.Value == nil {
				*tombstones++
			}
			return true
		}
		if last, ok := v.asked[string(r.Key)]; ok && last > r.Offset {
			return false
		}
		last, known, err := v.latest(r.Key)
		if err == nil && r.Offset < v.folded && (!known || last < r.Offset) {
			v.lost++
		}
		switch {
		case err != nil:
			*failed = err
			return true
		case known && last > r.Offset:
			v.remember(r.Key, last)
			return false
		case r.Value != nil:
			return true
		case clean != 0 && clean <= v.expired && known && last == r.Offset && v.lost == 0 && v.forgot.add(r.Key, r.Offset):
			// Only if it is known to be the last, by an index that knew all before it: otherwise an older record of its key may still be
			// there.
			return false
		}
		*tombstones++
		return true
	}
}

// remember keeps an answer that holds for the round.
func (v *survivors) remember(key []byte, last int64) {
	if v.askedBytes >= askedBytes {
		clear(v.asked)
		v.askedBytes = 0
	}
	v.asked[string(key)] = last
	v.askedBytes += len(key) + askedCost
}
