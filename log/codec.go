package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// foldVersion is the version of an encoded fold, in checkpoints and horizons. Another version in a checkpoint means that
// it is rebuilt; in a horizon it cannot be, so a new version has to read the old ones. Version 1 has no runs: what is
// stored starts at the tail. Version 2 has no configurations.
const (
	foldVersion        = 3
	foldVersionNoConfs = 2
	foldVersionNoStart = 1
)

// castagnoli is the checksum's polynomial table.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the fold's bytes; equal folds have equal bytes.
func (s *fold) encode() []byte {
	e := encoder{[]byte{foldVersion}}
	e.u(s.horizon.first, s.horizon.prevTerm)
	e.i(s.horizon.base, s.horizon.logStart, s.horizon.start, s.horizon.installed)
	e.u(s.applied)
	e.i(s.hwm, s.bytes)
	e.u(uint64(len(s.epochs)))
	for _, x := range s.epochs {
		e.u(x.term, x.index)
		e.i(x.offset)
	}
	e.u(s.index.stride, uint64(len(s.index.points)))
	var prev point
	for _, x := range s.index.points {
		e.u(x.index - prev.index)
		e.i(x.base-prev.base, x.maxTs-prev.maxTs)
		prev = x
	}
	e.u(uint64(len(s.producers)))
	for _, p := range s.producers.sorted() {
		e.i(p.id, int64(p.epoch), int64(p.coordinatorEpoch), p.since, p.lastOffset, p.lastTs, p.txnFirst)
		anySeq := uint64(0)
		if p.anySeq {
			anySeq = 1
		}
		e.u(anySeq, uint64(p.n))
		for _, w := range p.window[:p.n] {
			e.i(int64(w.firstSeq), int64(w.lastSeq), w.base, w.last)
		}
	}
	e.u(uint64(len(s.txns.open)))
	for _, o := range s.txns.open {
		e.i(o.producerID, o.first)
	}
	e.u(uint64(len(s.txns.aborted)))
	for _, a := range s.txns.aborted {
		e.i(a.ProducerID, a.FirstOffset, a.LastOffset)
	}
	e.u(uint64(len(s.confs)))
	for _, c := range s.confs {
		e.u(c.index, uint64(len(c.conf)))
		e.b = append(e.b, c.conf...)
	}
	return binary.BigEndian.AppendUint32(e.b, crc32.Checksum(e.b, castagnoli))
}

// decodeFold is encode's inverse.
func decodeFold(b []byte) (fold, error) {
	s := newFold()
	if len(b) < 5 {
		return s, fmt.Errorf("%w: a fold of %d bytes", ErrFormat, len(b))
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return s, fmt.Errorf("%w: a fold's checksum is wrong", ErrFormat)
	}
	version := body[0]
	if version != foldVersion && version != foldVersionNoConfs && version != foldVersionNoStart {
		return s, fmt.Errorf("%w: a fold of version %d, this release reads %d", ErrFormat, version, foldVersion)
	}
	d := decoder{b: body[1:]}
	s.horizon = horizon{first: d.u(), prevTerm: d.u(), base: d.i(), logStart: d.i()}
	s.horizon.start = s.horizon.base
	if version != foldVersionNoStart {
		s.horizon.start = d.i()
	}
	if version == foldVersion {
		s.horizon.installed = d.i()
	}
	s.applied, s.hwm, s.bytes = d.u(), d.i(), d.i()
	for range d.count() {
		s.epochs = append(s.epochs, epochStart{term: d.u(), index: d.u(), offset: d.i()})
	}
	s.index.stride = max(d.u(), 1)
	var prev point
	for range d.count() {
		prev = point{index: prev.index + d.u(), base: prev.base + d.i(), maxTs: prev.maxTs + d.i()}
		s.index.points = append(s.index.points, prev)
	}
	for range d.count() {
		p := &producer{
			id: d.i(), epoch: int16(d.i()), coordinatorEpoch: int32(d.i()),
			since: d.i(), lastOffset: d.i(), lastTs: d.i(), txnFirst: d.i(),
		}
		p.anySeq = d.u() == 1
		p.n = int(min(d.u(), windowLen))
		for i := range p.n {
			p.window[i] = sentBatch{firstSeq: int32(d.i()), lastSeq: int32(d.i()), base: d.i(), last: d.i()}
		}
		s.producers[p.id] = p
	}
	for range d.count() {
		s.txns.open = append(s.txns.open, openTxn{producerID: d.i(), first: d.i()})
	}
	for range d.count() {
		s.txns.addAborted(AbortedTxn{ProducerID: d.i(), FirstOffset: d.i(), LastOffset: d.i()})
	}
	if version == foldVersion {
		for range d.count() {
			s.confs = append(s.confs, confChange{index: d.u(), conf: d.bytes()})
		}
	}
	if d.bad || len(d.b) != 0 {
		return s, fmt.Errorf("%w: a fold's fields do not fill it", ErrFormat)
	}
	return s, nil
}

// encoder appends varints.
type encoder struct{ b []byte }

func (e *encoder) u(vs ...uint64) {
	for _, v := range vs {
		e.b = binary.AppendUvarint(e.b, v)
	}
}

func (e *encoder) i(vs ...int64) {
	for _, v := range vs {
		e.b = binary.AppendVarint(e.b, v)
	}
}

// decoder reads varints; bad is sticky.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) u() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) i() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes reads a length and so many bytes.
func (d *decoder) bytes() []byte {
	n := d.count()
	b := append([]byte(nil), d.b[:n]...)
	d.b = d.b[n:]
	return b
}

// count reads the number of elements to come; each takes at least one byte.
func (d *decoder) count() int {
	n := d.u()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}
