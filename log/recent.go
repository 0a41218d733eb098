package log

import "sort"

// recentEntry is a stored entry that is still in memory.
type recentEntry struct {
	meta entryMeta
	data []byte
}

// recent is a partition's newest stored entries, contiguous up to its last index, so that applying and reading at
// the tail need no database. The Store bounds the bytes of all of them together.
type recent struct {
	entries []recentEntry
	head    int // entries before it are evicted
}

func (r *recent) live() []recentEntry { return r.entries[r.head:] }

// first is the lowest index held; false when empty.
func (r *recent) first() (uint64, bool) {
	if r.head == len(r.entries) {
		return 0, false
	}
	return r.entries[r.head].meta.index, true
}

func (r *recent) push(e recentEntry) { r.entries = append(r.entries, e) }

// at returns the entry with that index.
func (r *recent) at(index uint64) *recentEntry {
	first, ok := r.first()
	if !ok || index < first || index-first >= uint64(len(r.live())) {
		return nil
	}
	return &r.live()[index-first]
}

// find returns the position in live of the entry that holds offset; false when it starts behind it.
func (r *recent) find(offset int64) (int, bool) {
	live := r.live()
	if len(live) == 0 || live[0].meta.base > offset {
		return 0, false
	}
	// Entries without records end where they begin, so the first that ends behind offset holds it.
	return sort.Search(len(live), func(i int) bool { return live[i].meta.next() > offset }), true
}

// evict drops the oldest entry if it has that index and returns its size.
func (r *recent) evict(index uint64) int {
	if first, ok := r.first(); !ok || first != index {
		return 0
	}
	n := len(r.entries[r.head].data)
	r.entries[r.head] = recentEntry{}
	r.head++
	if r.head > len(r.entries)/2 && r.head > 64 {
		kept := copy(r.entries, r.entries[r.head:])
		clear(r.entries[kept:])
		r.entries, r.head = r.entries[:kept], 0
	}
	return n
}

// truncate drops the entries at index and above and returns their size.
func (r *recent) truncate(index uint64) int {
	n := 0
	for len(r.entries) > r.head && r.entries[len(r.entries)-1].meta.index >= index {
		n += len(r.entries[len(r.entries)-1].data)
		r.entries[len(r.entries)-1] = recentEntry{}
		r.entries = r.entries[:len(r.entries)-1]
	}
	return n
}
