package keyindex

import (
	"hash/maphash"
	"math"
	"math/bits"
)

// sketchSlots bounds a Sketch: 16 MiB. A larger one would be a larger share of what a small node has than the look-ups it saves.
const sketchSlots = 4 << 20

// Sketch is an upper bound of the offset at which a key was written last, of a stretch of records, in bounded memory whatever the
// number of keys. It answers without I/O for most keys that nothing follows; it says that one was written again where another key
// has the same slots. So "no" needs no look-up, and "yes" does (invariant 10): no record goes by a Sketch alone.
//
// It needs nothing on disk: whoever folds the stretch makes it on the way. It is not safe for concurrent use.
type Sketch struct {
	seed  maphash.Seed
	base  int64
	slots []uint32 // largest position of the keys that have it; 0: none has
	mask  uint64
}

// Positions in a slot.
const (
	before   = 1 // of a record below base
	first    = 2 // of the one at base
	farthest = math.MaxUint32
)

// NewSketch makes a sketch of at most so many records from base on.
func NewSketch(base, records int64) *Sketch {
	n := 1 << bits.Len64(uint64(min(max(4*records, 1<<10), sketchSlots))-1)
	return &Sketch{seed: maphash.MakeSeed(), base: base, slots: make([]uint32, n), mask: uint64(n) - 1}
}

// Put notes the record of a key.
func (s *Sketch) Put(key []byte, offset int64) {
	i, j := s.at(key)
	p := max(s.position(offset), before)
	s.slots[i], s.slots[j] = max(s.slots[i], p), max(s.slots[j], p)
}

// Follows reports whether a record of the key may have been put that lies behind offset. For an offset below base any may.
func (s *Sketch) Follows(key []byte, offset int64) bool {
	i, j := s.at(key)
	last := min(s.slots[i], s.slots[j])
	return last > s.position(offset) || last == farthest
}

func (s *Sketch) at(key []byte) (i, j uint64) {
	h := maphash.Bytes(s.seed, key)
	return h & s.mask, h >> 32 & s.mask
}

func (s *Sketch) position(offset int64) uint32 {
	if offset < s.base {
		return 0
	}
	return uint32(min(uint64(offset-s.base)+first, farthest))
}
