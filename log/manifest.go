package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/rowtrail/rowtrail/log/fields"
)

// manifestVersion is the version of an encoded manifest. It cannot be rebuilt, so a new version has to read the old one.
const manifestVersion = 1

// run is an immutable stretch of compacted history. Its batches lie under its id, which is never used again.
type run struct {
	id         uint64
	base, next int64 // offsets [base, next)
	bytes      int64
	batches    int64
	maxTs      int64
	mortal     int64 // bytes of batches with records to be forgotten after a while: tombstones, markers
	clean      int64 // ms: when the last of these was first seen ready for that
}

// manifest says which runs are the part of the log below the horizon. What it does not name is not part of the log, whatever
// the database holds. It is immutable: a change is another manifest, so a reader that finds the same pointer knows
// that nothing was swapped meanwhile.
//
// Invariant: runs rise and do not overlap; the last one ends at the horizon.
type manifest struct {
	nextRun uint64 // no run at or above it was ever written
	retired int64  // bytes of runs that retention removed since the key index was last rebuilt
	runs    []run
	bytes   int64 // of all of them
}

func newManifest(nextRun uint64, retired int64, runs []run) *manifest {
	m := &manifest{nextRun: nextRun, retired: retired, runs: runs}
	for i := range runs {
		m.bytes += runs[i].bytes
	}
	return m
}

func (m *manifest) batches() (n int64) {
	for i := range m.runs {
		n += m.runs[i].batches
	}
	return n
}

// find is the position of the run that holds offset or lies behind it.
func (m *manifest) find(offset int64) int {
	return sort.Search(len(m.runs), func(i int) bool { return m.runs[i].next > offset })
}

// names reports whether a run is part of the log.
func (m *manifest) names(id uint64) bool {
	for i := range m.runs {
		if m.runs[i].id == id {
			return true
		}
	}
	return false
}

// without is the manifest less its first n runs.
func (m *manifest) without(n int) *manifest {
	x := newManifest(m.nextRun, m.retired, m.runs[n:])
	x.retired += m.bytes - x.bytes
	return x
}

// reserve is the manifest with n more run ids taken.
func (m *manifest) reserve(n int) *manifest {
	return newManifest(m.nextRun+uint64(n), m.retired, m.runs)
}

func (m *manifest) encode() []byte {
	e := encoder{[]byte{manifestVersion}}
	e.u(m.nextRun)
	e.i(m.retired)
	e.u(uint64(len(m.runs)))
	for i := range m.runs {
		r := &m.runs[i]
		e.u(r.id)
		e.i(r.base, r.next, r.bytes, r.batches, r.maxTs, r.mortal, r.clean)
	}
	return binary.BigEndian.AppendUint32(e.b, crc32.Checksum(e.b, castagnoli))
}

func decodeManifest(b []byte) (*manifest, error) {
	if len(b) < 5 {
		return nil, fmt.Errorf("%w: a manifest of %d bytes", ErrFormat, len(b))
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w: a manifest's checksum is wrong", ErrCorrupt)
	}
	if body[0] != manifestVersion {
		return nil, fmt.Errorf("%w: a manifest of version %d, this release reads %d", ErrFormat, body[0], manifestVersion)
	}
	d := fields.Read(body[1:])
	nextRun, retired := d.Uvarint(), d.Varint()
	var runs []run
	for range d.Count() {
		runs = append(runs, run{
			id: d.Uvarint(), base: d.Varint(), next: d.Varint(), bytes: d.Varint(), batches: d.Varint(), maxTs: d.Varint(), mortal: d.Varint(), clean: d.Varint(),
		})
	}
	if !d.Done() {
		return nil, fmt.Errorf("%w: a manifest's fields do not fill it", ErrFormat)
	}
	return newManifest(nextRun, retired, runs), nil
}

// check compares the manifest with the horizon that was written with it.
func (m *manifest) check(h *horizon) error {
	at := int64(0)
	for i := range m.runs {
		r := &m.runs[i]
		if r.base < at || r.next <= r.base || r.id >= m.nextRun {
			return fmt.Errorf("%w: run %d of the manifest covers offsets %d to %d behind %d, with ids below %d", ErrCorrupt, r.id, r.base, r.next, at, m.nextRun)
		}
		at = r.next
	}
	if n := len(m.runs); n == 0 && h.start != h.base || n > 0 && (m.runs[n-1].next != h.base || m.runs[0].next <= h.start) {
		return fmt.Errorf("%w: the manifest's %d runs end at offset %d, the horizon says from %d to %d", ErrCorrupt, n, at, h.start, h.base)
	}
	return nil
}
