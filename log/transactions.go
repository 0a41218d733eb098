package log

import (
	"cmp"
	"slices"
	"sort"
)

// openTxn is a transaction whose marker has not been applied yet.
type openTxn struct {
	producerID, first int64
}

// abortedTxn is an aborted transaction. minFirst is the smallest first offset of this and all later ones, so that a
// search knows when to stop.
type abortedTxn struct {
	AbortedTxn
	minFirst int64
}

// txnIndex knows which offsets belong to open and to aborted transactions. Invariant 5 rests on it: the first open
// transaction bounds what a read_committed reader gets, and the aborted ones tell it what to pass over.
type txnIndex struct {
	open    []openTxn    // by first offset
	aborted []abortedTxn // by last offset, which is the marker's
}

// begin opens a transaction; transactions begin in offset order.
func (t *txnIndex) begin(producerID, first int64) {
	t.open = append(t.open, openTxn{producerID, first})
}

// end closes a producer's open transaction, if it has one.
func (t *txnIndex) end(producerID, marker int64, commit bool) {
	i := slices.IndexFunc(t.open, func(o openTxn) bool { return o.producerID == producerID })
	if i < 0 {
		return
	}
	first := t.open[i].first
	t.open = slices.Delete(t.open, i, i+1)
	if !commit {
		t.addAborted(AbortedTxn{ProducerID: producerID, FirstOffset: first, LastOffset: marker})
	}
}

func (t *txnIndex) addAborted(a AbortedTxn) {
	for i := len(t.aborted) - 1; i >= 0 && t.aborted[i].minFirst > a.FirstOffset; i-- {
		t.aborted[i].minFirst = a.FirstOffset
	}
	t.aborted = append(t.aborted, abortedTxn{AbortedTxn: a, minFirst: a.FirstOffset})
}

// firstOpen is the first offset of the oldest open transaction.
func (t *txnIndex) firstOpen() (int64, bool) {
	if len(t.open) == 0 {
		return 0, false
	}
	return t.open[0].first, true
}

// overlapping lists the aborted transactions with offsets in [lo, hi), by first offset.
func (t *txnIndex) overlapping(lo, hi int64) []AbortedTxn {
	var found []AbortedTxn
	from := sort.Search(len(t.aborted), func(i int) bool { return t.aborted[i].LastOffset >= lo })
	for i := from; i < len(t.aborted) && t.aborted[i].minFirst < hi; i++ {
		if t.aborted[i].FirstOffset < hi {
			found = append(found, t.aborted[i].AbortedTxn)
		}
	}
	slices.SortFunc(found, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return found
}

// straddling lists, as open, the aborted transactions that began below an offset and ended at or above it.
func (t *txnIndex) straddling(offset int64) []openTxn {
	var found []openTxn
	for i := range t.aborted {
		if a := &t.aborted[i]; a.FirstOffset < offset && a.LastOffset >= offset {
			found = append(found, openTxn{a.ProducerID, a.FirstOffset})
		}
	}
	slices.SortFunc(found, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
	return found
}

// trim forgets the aborted transactions that ended below an offset.
func (t *txnIndex) trim(offset int64) {
	n := sort.Search(len(t.aborted), func(i int) bool { return t.aborted[i].LastOffset >= offset })
	t.aborted = slices.Delete(t.aborted, 0, n)
}

// forget removes the aborted transactions whose markers lie at these offsets, which rise.
func (t *txnIndex) forget(markers []int64) {
	if len(markers) == 0 {
		return
	}
	kept := t.aborted
	t.aborted = nil
	for i := range kept {
		if _, gone := slices.BinarySearch(markers, kept[i].LastOffset); !gone {
			t.addAborted(kept[i].AbortedTxn)
		}
	}
}
