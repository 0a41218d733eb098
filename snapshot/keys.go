package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/rowtrail/rowtrail/log/fields"
)

// Key spaces of the database.
const (
	spaceMeta  = 'm' // the format's version
	spaceFold  = 't' // partition, topic name -> fold id
	spaceDead  = 'd' // fold id whose entries are to be deleted
	spaceState = 's' // fold id -> how far the fold is
	spaceEntry = 'k' // fold id, key or truncate, ^offset -> entry
)

const (
	formatVersion = 6
	offsetLen     = 8
	prefixLen     = 1 + 4
	hashedKey     = 0xffff // in place of a key's length
	noKey         = 0xfffe // likewise: a truncate, which stands for all keys of its partition
)

var errCorrupt = errors.New("views database is damaged; stop rowtrail and delete the directory to rebuild it")

func metaKey() []byte { return []byte{spaceMeta} }

func foldKey(f fold) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{spaceFold}, uint32(f.partition)), f.topic...)
}

func parseFoldKey(k []byte) (fold, error) {
	if len(k) < prefixLen {
		return fold{}, fmt.Errorf("read fold id: %w", errCorrupt)
	}
	return fold{string(k[prefixLen:]), int32(binary.BigEndian.Uint32(k[1:]))}, nil
}

func deadKey(id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{spaceDead}, id) }

func stateKey(id uint32) []byte { return foldPrefix(spaceState, id) }

func foldPrefix(space byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, id)
}

// entryPrefix is what all entries of a partition start with.
func entryPrefix(dst []byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, spaceEntry), id)
}

// appendKey writes a record key so that no key's form is the beginning of another's: its length comes first. Keys
// that count up in JSON thereby also sort as numbers do.
func appendKey(dst, key []byte) []byte {
	if len(key) > maxInlineKey {
		sum := sha256.Sum256(key)
		dst = binary.BigEndian.AppendUint16(dst, hashedKey)
		return append(dst, sum[:]...)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(key)))
	return append(dst, key...)
}

// appendTruncate is what stands in a truncate's entry in place of a key.
func appendTruncate(dst []byte) []byte { return binary.BigEndian.AppendUint16(dst, noKey) }

// inlineKey is the record key in an entry's key from its length on; ok is false when there is only a hash, or none.
func inlineKey(form []byte) (key []byte, ok bool) {
	if n := binary.BigEndian.Uint16(form); n == hashedKey || n == noKey {
		return nil, false
	}
	return form[2:], true
}

func isTruncateKey(form []byte) bool { return binary.BigEndian.Uint16(form) == noKey }

// appendOffset writes an offset so that the latest sorts first.
func appendOffset(dst []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(dst, ^uint64(offset))
}

// splitEntryKey takes an entry's key apart: everything up to the offset, and the offset.
func splitEntryKey(k []byte) (keyPart []byte, offset int64) {
	n := len(k) - offsetLen
	return k[:n], int64(^binary.BigEndian.Uint64(k[n:]))
}

// entry is what a view knows of a record besides its key and offset.
type entry struct {
	timestamp  int64 // ms
	size       int64 // of key and value
	tombstone  bool
	place      placeState
	commit     uint64
	commitTime int64 // us
}

// placeState tells what is known of a record's place in its source.
type placeState uint8

const (
	placeNone    placeState = iota // no position header
	placeKnown                     // commit and commitTime are set
	placeUnknown                   // a header that this build cannot read
)

const (
	flagTombstone = 1 << 2
	placeMask     = 3
)

func (e *entry) append(dst []byte) []byte {
	flags := byte(e.place)
	if e.tombstone {
		flags |= flagTombstone
	}
	dst = append(dst, flags)
	dst = binary.AppendVarint(dst, e.timestamp)
	dst = binary.AppendUvarint(dst, uint64(e.size))
	if e.place == placeKnown {
		dst = binary.AppendUvarint(dst, e.commit)
		dst = binary.AppendVarint(dst, e.commitTime)
	}
	return dst
}

func parseEntry(b []byte) (e entry, err error) {
	if len(b) == 0 {
		return e, fmt.Errorf("read entry: %w", errCorrupt)
	}
	e.tombstone, e.place = b[0]&flagTombstone != 0, placeState(b[0]&placeMask)
	r := fields.Read(b[1:])
	e.timestamp, e.size = r.Varint(), int64(r.Uvarint())
	if e.place == placeKnown {
		e.commit, e.commitTime = r.Uvarint(), r.Varint()
	}
	if !r.OK() {
		return e, fmt.Errorf("read entry: %w", errCorrupt)
	}
	return e, nil
}

// state is how far a partition's fold is: the next offset, the log and the batch before that offset to recognise it by, and
// from where on the entries are whole.
type state struct {
	next int64
	log  uint64 // the source's ID
	// installed is the source's Installed when the fold began.
	installed int64
	// The last folded batch. Compaction makes a new checksum, and may take the whole batch.
	base, last int64
	epoch      int32
	crc        uint32
	// Invariant: there is an entry for every keyed, committed record from whole on that is not below the log start; below it, at
	// least for the last one of each key, but for tombstones. 0: nothing is missing.
	whole int64
	// wholeCommit and wholeTime (us) are of the first record behind whole: a cut at or behind them takes in all that
	// is missing. unknownCommit, unknownTime: there is none yet.
	wholeCommit uint64
	wholeTime   int64
}

const (
	unknownCommit = math.MaxUint64
	unknownTime   = math.MaxInt64
	stateLen      = 8*8 + 4*2
)

// lacks notes that records below an offset are missing.
func (s *state) lacks(whole int64) {
	if whole > s.whole {
		s.whole, s.wholeCommit, s.wholeTime = whole, unknownCommit, unknownTime
	}
}

// bounds notes an entry, which may be the first behind what is missing.
func (s *state) bounds(offset int64, e *entry) {
	if s.whole == 0 || offset < s.whole || s.wholeTime != unknownTime {
		return
	}
	switch e.place {
	case placeKnown:
		s.wholeCommit, s.wholeTime = e.commit, e.commitTime
	case placeNone:
		s.wholeTime = e.timestamp*1000 + 999
	}
}

// covers tells whether a cut surely takes in all records that are missing.
func (s *state) covers(at *At, start int64) bool {
	switch {
	case s.whole <= start:
		return true
	case at.Offset != nil:
		return *at.Offset >= s.whole-1
	case at.Position != nil:
		return s.wholeCommit != unknownCommit && *at.Position >= s.wholeCommit
	case at.Time != nil:
		return s.wholeTime != unknownTime && at.Time.UnixMicro() >= s.wholeTime
	}
	return true
}

func (s state) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, 0, stateLen)
	for _, n := range []uint64{uint64(s.next), s.log, uint64(s.base), uint64(s.last), uint64(s.whole), s.wholeCommit, uint64(s.wholeTime), uint64(s.installed)} {
		b = be.AppendUint64(b, n)
	}
	return be.AppendUint32(be.AppendUint32(b, uint32(s.epoch)), s.crc)
}

func parseState(b []byte) (state, error) {
	if len(b) != stateLen {
		return state{}, fmt.Errorf("read fold state: %w", errCorrupt)
	}
	be := binary.BigEndian
	n := func(i int) uint64 { return be.Uint64(b[8*i:]) }
	return state{
		next: int64(n(0)), log: n(1), base: int64(n(2)), last: int64(n(3)), whole: int64(n(4)), wholeCommit: n(5), wholeTime: int64(n(6)),
		installed: int64(n(7)), epoch: int32(be.Uint32(b[64:])), crc: be.Uint32(b[68:]),
	}, nil
}
