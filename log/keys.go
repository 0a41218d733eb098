package log

import (
	"encoding/binary"
	"fmt"
)

// Key spaces of the database. Group ids and indexes are big-endian, so that iteration follows Raft's order.
const (
	spaceCheckpoint byte = 'c' // c|group: the partition's fold up to its applied index
	spaceDrop       byte = 'd' // d|group: the group is being deleted
	spaceHorizon    byte = 'g' // g|group: where the retained log starts, and what of the fold lies below it
	spaceHardState  byte = 'h' // h|group: Raft's vote
	spaceLog        byte = 'l' // l|group|index|term|type|base|lastDelta|maxTs|size: one entry
	spaceIncoming   byte = 'i' // i|group: a raftSnapshot that is being received
	spaceManifest   byte = 'm' // m|group: the runs that compacted history consists of
	spaceMark       byte = 't' // t|group|index: the log was cut there
	spaceRun        byte = 'r' // r|group|run|last|base|epoch|clean|maxTs|size: one batch of a run
)

const (
	groupKeyLen = 1 + 8
	logSeekLen  = groupKeyLen + 8
	logKeyLen   = logSeekLen + 8 + 1 + 8 + 4 + 8 + 4
	runPrefLen  = groupKeyLen + 8
	runKeyLen   = runPrefLen + 8 + 8 + 4 + 8 + 8 + 4
)

// entryMeta is all that a stored key tells about its entry, so that every index is rebuilt from keys alone.
type entryMeta struct {
	index, term uint64
	typ         EntryType
	base        int64 // EntryMeta: the offset that the next record gets
	lastDelta   int32 // EntryMeta: -1
	maxTs       int64 // EntryMeta: -1
	size        int32
}

// next is the offset behind the entry.
func (m *entryMeta) next() int64 { return m.base + int64(m.lastDelta) + 1 }

func groupKey(space byte, id GroupID) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, groupKeyLen), space), uint64(id))
}

func logSeekKey(id GroupID, index uint64) []byte {
	k := make([]byte, 0, logSeekLen)
	k = binary.BigEndian.AppendUint64(append(k, spaceLog), uint64(id))
	return binary.BigEndian.AppendUint64(k, index)
}

func logKey(id GroupID, m *entryMeta) []byte {
	be := binary.BigEndian
	k := make([]byte, 0, logKeyLen)
	k = be.AppendUint64(append(k, spaceLog), uint64(id))
	k = be.AppendUint64(k, m.index)
	k = be.AppendUint64(k, m.term)
	k = append(k, byte(m.typ))
	k = be.AppendUint64(k, uint64(m.base))
	k = be.AppendUint32(k, uint32(m.lastDelta))
	k = be.AppendUint64(k, uint64(m.maxTs))
	return be.AppendUint32(k, uint32(m.size))
}

func groupOfKey(k []byte) (GroupID, error) {
	if len(k) < groupKeyLen {
		return 0, fmt.Errorf("%w: key %x is too short", ErrFormat, k)
	}
	return GroupID(binary.BigEndian.Uint64(k[1:])), nil
}

func parseLogKey(k []byte) (entryMeta, error) {
	if len(k) != logKeyLen || k[0] != spaceLog {
		return entryMeta{}, fmt.Errorf("%w: %x is not a log key", ErrFormat, k)
	}
	be := binary.BigEndian
	return entryMeta{
		index:     be.Uint64(k[9:]),
		term:      be.Uint64(k[17:]),
		typ:       EntryType(k[25]),
		base:      int64(be.Uint64(k[26:])),
		lastDelta: int32(be.Uint32(k[34:])),
		maxTs:     int64(be.Uint64(k[38:])),
		size:      int32(be.Uint32(k[46:])),
	}, nil
}

// runMeta is all that a run's key tells about its batch.
type runMeta struct {
	last, base int64
	epoch      int32
	clean      int64 // ms: when a round first saw what it holds ready to be forgotten; 0: it holds no such record
	maxTs      int64
	size       int32
}

func (m *runMeta) next() int64 { return m.last + 1 }

func runPrefix(id GroupID, run uint64) []byte {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, runPrefLen), spaceRun), uint64(id))
	return binary.BigEndian.AppendUint64(k, run)
}

// runSeekKey finds the batch that holds offset, or the next one behind it.
func runSeekKey(id GroupID, run uint64, offset int64) []byte {
	return binary.BigEndian.AppendUint64(runPrefix(id, run), uint64(offset))
}

func runKey(id GroupID, run uint64, m *runMeta) []byte {
	be := binary.BigEndian
	k := append(make([]byte, 0, runKeyLen), runPrefix(id, run)...)
	k = be.AppendUint64(k, uint64(m.last))
	k = be.AppendUint64(k, uint64(m.base))
	k = be.AppendUint32(k, uint32(m.epoch))
	k = be.AppendUint64(k, uint64(m.clean))
	k = be.AppendUint64(k, uint64(m.maxTs))
	return be.AppendUint32(k, uint32(m.size))
}

func parseRunKey(k []byte) (run uint64, m runMeta, err error) {
	if len(k) != runKeyLen || k[0] != spaceRun {
		return 0, m, fmt.Errorf("%w: %x is not a run's key", ErrFormat, k)
	}
	be := binary.BigEndian
	return be.Uint64(k[9:]), runMeta{
		last:  int64(be.Uint64(k[17:])),
		base:  int64(be.Uint64(k[25:])),
		epoch: int32(be.Uint32(k[33:])),
		clean: int64(be.Uint64(k[37:])),
		maxTs: int64(be.Uint64(k[45:])),
		size:  int32(be.Uint32(k[53:])),
	}, nil
}
