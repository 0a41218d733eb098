package log

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/rowtrail/rowtrail/log/fields"
)

// RaftSnapshot is what a replica needs to go on from where another one's horizon is: the fold there and the compacted runs below. It is not
// the snapshot of rows that readers know.
type RaftSnapshot struct {
	Index, Term   uint64 // of the entry before the tail
	Configuration []byte // there; nil: the group has had its first one only

	base fold
	man  *manifest
}

// Bytes is how much the runs hold.
func (r *RaftSnapshot) Bytes() int64 { return r.man.bytes }

// SnapshotCursor is a place in a raftSnapshot's runs. The zero value is the start.
type SnapshotCursor struct {
	Run    uint64 // the sender's id
	Offset int64  // of the next batch
	Done   bool
}

// RaftSnapshot describes the partition at its horizon. Until release is called compaction leaves the runs alone; retention does not.
func (p *Partition) RaftSnapshot() (r *RaftSnapshot, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	h := &p.fold.horizon
	r = &RaftSnapshot{
		Index: h.first - 1, Term: h.prevTerm, Configuration: p.fold.confs.at(h.first - 1), base: p.fold.base(), man: p.runs.man,
	}
	p.runs.pins++
	released := false
	return r, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !released {
			released = true
			p.runs.pins--
		}
	}, nil
}

const snapshotVersion = 1

// Encode returns everything but the runs' batches.
func (r *RaftSnapshot) Encode() []byte {
	e := encoder{[]byte{snapshotVersion}}
	e.u(r.Index, r.Term)
	for _, b := range [][]byte{r.Configuration, r.base.encode(), r.man.encode()} {
		e.b = fields.AppendBytes(e.b, b)
	}
	return binary.BigEndian.AppendUint32(e.b, crc32.Checksum(e.b, castagnoli))
}

// DecodeRaftSnapshot is Encode's inverse.
func DecodeRaftSnapshot(b []byte) (*RaftSnapshot, error) {
	if len(b) < 5 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return nil, fmt.Errorf("%w: a raftSnapshot's checksum is wrong", ErrCorrupt)
	}
	if b[0] != snapshotVersion {
		return nil, fmt.Errorf("%w: a raftSnapshot of version %d, this release reads %d", ErrFormat, b[0], snapshotVersion)
	}
	d := fields.Read(b[1 : len(b)-4])
	r := &RaftSnapshot{Index: d.Uvarint(), Term: d.Uvarint()}
	if conf := d.Bytes(); len(conf) > 0 {
		r.Configuration = bytes.Clone(conf)
	}
	base, man := d.Bytes(), d.Bytes()
	if !d.Done() {
		return nil, fmt.Errorf("%w: a raftSnapshot's fields do not fill it", ErrFormat)
	}
	var err error
	if r.base, err = decodeFold(base); err != nil {
		return nil, fmt.Errorf("raftSnapshot: %w", err)
	}
	if r.man, err = decodeManifest(man); err != nil {
		return nil, fmt.Errorf("raftSnapshot: %w", err)
	}
	if h := &r.base.horizon; h.first != r.Index+1 || h.prevTerm != r.Term {
		return nil, fmt.Errorf("%w: a raftSnapshot of entry %d has its horizon at %d", ErrCorrupt, r.Index, h.first)
	}
	if err := r.man.check(&r.base.horizon); err != nil {
		return nil, fmt.Errorf("raftSnapshot: %w", err)
	}
	return r, nil
}

// SnapshotChunk encodes the next batches of the runs from a cursor on, about chunkBytes of them, and returns the cursor behind. ErrCompacted:
// retention has taken what the cursor is at, and a new RaftSnapshot is to be begun.
func (p *Partition) SnapshotChunk(r *RaftSnapshot, at SnapshotCursor) ([]byte, SnapshotCursor, error) {
	i := 0
	if at == (SnapshotCursor{}) && len(r.man.runs) > 0 { // a run may have the id 0
		at = SnapshotCursor{Run: r.man.runs[0].id, Offset: r.man.runs[0].base}
	}
	for i < len(r.man.runs) && r.man.runs[i].id != at.Run {
		i++
	}
	if i == len(r.man.runs) {
		return nil, SnapshotCursor{Done: true}, nil
	}
	x := &r.man.runs[i]
	var c chunk
	if err := p.store.readRun(p.id, x.id, at.Offset, nil, &c); err != nil {
		return nil, at, fmt.Errorf("read run %d of group %d: %w", x.id, p.id, err)
	}
	p.mu.RLock()
	named := p.runs.man.names(x.id) && !p.closed
	p.mu.RUnlock()
	if !named {
		return nil, at, fmt.Errorf("send run %d of group %d: %w", x.id, p.id, ErrCompacted)
	}
	next := SnapshotCursor{Run: x.id, Offset: at.Offset}
	e := encoder{}
	e.u(x.id, uint64(len(c.batches)))
	for j := range c.batches {
		b := &c.batches[j]
		e.i(b.meta.base, b.meta.last, int64(b.meta.epoch), b.meta.clean, b.meta.maxTs)
		e.b = fields.AppendBytes(e.b, b.data)
		next.Offset = b.meta.next()
	}
	if !c.more {
		if i+1 < len(r.man.runs) {
			next = SnapshotCursor{Run: r.man.runs[i+1].id, Offset: r.man.runs[i+1].base}
		} else {
			next = SnapshotCursor{Done: true}
		}
	}
	return binary.BigEndian.AppendUint32(e.b, crc32.Checksum(e.b, castagnoli)), next, nil
}

// snapshotChunk is a decoded chunk; batches share its bytes.
type snapshotChunk struct {
	run     uint64
	batches []storedBatch
}

func decodeSnapshotChunk(b []byte) (snapshotChunk, error) {
	if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return snapshotChunk{}, fmt.Errorf("%w: the checksum of a raftSnapshot's chunk is wrong", ErrCorrupt)
	}
	d := fields.Read(b[:len(b)-4])
	c := snapshotChunk{run: d.Uvarint()}
	for range d.Count() {
		m := runMeta{base: d.Varint(), last: d.Varint(), epoch: int32(d.Varint()), clean: d.Varint(), maxTs: d.Varint()}
		data := d.Bytes()
		m.size = int32(len(data))
		if !d.OK() {
			break
		}
		if err := m.check(data); err != nil {
			return c, fmt.Errorf("chunk of a raftSnapshot: %w", err)
		}
		c.batches = append(c.batches, storedBatch{meta: m, data: data})
	}
	if !d.Done() {
		return c, fmt.Errorf("%w: the fields of a raftSnapshot's chunk do not fill it", ErrFormat)
	}
	return c, nil
}
