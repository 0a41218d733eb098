package log

import "sort"

// maxPoints bounds a partition's sparse index; beyond it every second point goes.
const maxPoints = 1024

// point is the first entry of one stretch of the log, with the largest timestamp in the stretch.
type point struct {
	index uint64
	base  int64
	maxTs int64
}

// sparseIndex maps offsets and times to places in the log. Which stretch an entry falls into depends on its index
// alone, so a rebuild from any start of the log leads to the same points (invariant 8).
type sparseIndex struct {
	stride uint64 // entries per stretch, a power of two
	points []point
}

func (s *sparseIndex) add(m *entryMeta) {
	if n := len(s.points); n > 0 && s.points[n-1].index/s.stride == m.index/s.stride {
		s.points[n-1].maxTs = max(s.points[n-1].maxTs, m.maxTs)
		return
	}
	if len(s.points) == maxPoints {
		s.double()
		s.add(m)
		return
	}
	s.points = append(s.points, point{index: m.index, base: m.base, maxTs: m.maxTs})
}

func (s *sparseIndex) double() {
	s.stride *= 2
	kept := s.points[:0]
	for _, p := range s.points {
		if n := len(kept); n > 0 && kept[n-1].index/s.stride == p.index/s.stride {
			kept[n-1].maxTs = max(kept[n-1].maxTs, p.maxTs)
			continue
		}
		kept = append(kept, p)
	}
	s.points = kept
}

// bracket returns indexes lo <= hi so that the entry with the offset, if there is one, lies in [lo, hi]. end is the
// last index of the log.
func (s *sparseIndex) bracket(offset int64, end uint64) (lo, hi uint64) {
	i := sort.Search(len(s.points), func(i int) bool { return s.points[i].base > offset })
	hi = end
	if i < len(s.points) {
		hi = s.points[i].index
	}
	if i > 0 {
		lo = s.points[i-1].index
	}
	return lo, hi
}

// stretchEnd is the first index behind the stretch that holds index.
func (s *sparseIndex) stretchEnd(index uint64) uint64 { return (index/s.stride + 1) * s.stride }

// trim makes first the start of the log. maxTs is the largest timestamp of what is left of its stretch.
func (s *sparseIndex) trim(first uint64, base, maxTs int64) {
	i := sort.Search(len(s.points), func(i int) bool { return s.points[i].index > first })
	if i == 0 {
		return
	}
	kept := s.points[i-1:]
	kept[0] = point{index: first, base: base, maxTs: maxTs}
	s.points = append(s.points[:0], kept...)
}
