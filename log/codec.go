package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/rowtrail/rowtrail/log/fields"
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
		e.u(c.index)
		e.b = fields.AppendBytes(e.b, c.conf)
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
	d := fields.Read(body[1:])
	s.horizon = horizon{first: d.Uvarint(), prevTerm: d.Uvarint(), base: d.Varint(), logStart: d.Varint()}
	s.horizon.start = s.horizon.base
	if version != foldVersionNoStart {
		s.horizon.start = d.Varint()
	}
	if version == foldVersion {
		s.horizon.installed = d.Varint()
	}
	s.applied, s.hwm, s.bytes = d.Uvarint(), d.Varint(), d.Varint()
	for range d.Count() {
		s.epochs = append(s.epochs, epochStart{term: d.Uvarint(), index: d.Uvarint(), offset: d.Varint()})
	}
	s.index.stride = max(d.Uvarint(), 1)
	var prev point
	for range d.Count() {
		prev = point{index: prev.index + d.Uvarint(), base: prev.base + d.Varint(), maxTs: prev.maxTs + d.Varint()}
		s.index.points = append(s.index.points, prev)
	}
	for range d.Count() {
		p := &producer{
			id: d.Varint(), epoch: int16(d.Varint()), coordinatorEpoch: int32(d.Varint()),
			since: d.Varint(), lastOffset: d.Varint(), lastTs: d.Varint(), txnFirst: d.Varint(),
		}
		p.anySeq = d.Uvarint() == 1
		p.n = int(min(d.Uvarint(), windowLen))
		for i := range p.n {
			p.window[i] = sentBatch{firstSeq: int32(d.Varint()), lastSeq: int32(d.Varint()), base: d.Varint(), last: d.Varint()}
		}
		s.producers[p.id] = p
	}
	for range d.Count() {
		s.txns.open = append(s.txns.open, openTxn{producerID: d.Varint(), first: d.Varint()})
	}
	for range d.Count() {
		s.txns.addAborted(AbortedTxn{ProducerID: d.Varint(), FirstOffset: d.Varint(), LastOffset: d.Varint()})
	}
	if version == foldVersion {
		for range d.Count() {
			s.confs = append(s.confs, confChange{index: d.Uvarint(), conf: append([]byte(nil), d.Bytes()...)})
		}
	}
	if !d.Done() {
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
