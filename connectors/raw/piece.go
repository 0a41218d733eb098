package raw

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/log/fields"
)

const (
	// pieceBytes is what a piece holds at most, but for what is around its fragments.
	pieceBytes = 256 << 10
	// fragmentBytes is what one fragment of a change holds at most.
	fragmentBytes = pieceBytes/2 - 8

	pieceVersion = 1
	flagWhole    = 1 // the last piece of a source transaction
)

var (
	// ErrMissing tells that the topic does not have all that was written into it.
	ErrMissing = errors.New("a piece of what was held is missing")
	// ErrPiece tells that a piece cannot be read.
	ErrPiece = errors.New("malformed piece")
)

// Kind is what a holder is.
type Kind string

// Kinds of holders.
const (
	Transaction Kind = "transaction" // its changes are likely to be wanted soon
	Table       Kind = "table"
)

// ID names a holder.
type ID struct {
	Kind Kind
	Name string
}

func (id ID) String() string { return string(id.Kind) + " " + id.Name }

// appendKey writes the key of a piece.
func (id ID) appendKey(dst []byte, piece int) []byte {
	name, _ := json.Marshal(id.Name) // a string always marshals
	dst = append(append(append(dst, `{"`...), id.Kind...), `":`...)
	return fmt.Appendf(append(dst, name...), `,"piece":%d}`, piece)
}

// parseKey reads the key of a piece.
func parseKey(key []byte) (ID, int, error) {
	var k struct {
		Transaction *string `json:"transaction"`
		Table       *string `json:"table"`
		Piece       *int    `json:"piece"`
	}
	if err := json.Unmarshal(key, &k); err != nil {
		return ID{}, 0, fmt.Errorf("%w: key %q: %w", ErrPiece, key, err)
	}
	switch {
	case k.Piece == nil || *k.Piece < 0:
	case k.Transaction != nil && k.Table == nil:
		return ID{Transaction, *k.Transaction}, *k.Piece, nil
	case k.Table != nil && k.Transaction == nil:
		return ID{Table, *k.Table}, *k.Piece, nil
	}
	return ID{}, 0, fmt.Errorf("%w: key %q", ErrPiece, key)
}

// piece is one record's value.
type piece struct {
	whole      bool
	generation uint64
	number     int
	payload    []byte
}

func (p *piece) append(dst []byte) []byte {
	flags := byte(0)
	if p.whole {
		flags = flagWhole
	}
	dst = append(dst, pieceVersion, flags)
	dst = binary.AppendUvarint(dst, p.generation)
	dst = binary.AppendUvarint(dst, uint64(p.number)) //nolint:gosec // counts from 0
	return append(dst, p.payload...)
}

func parsePiece(b []byte) (piece, error) {
	r := fields.Read(b)
	version, flags := r.Byte(), r.Byte()
	p := piece{whole: flags&flagWhole != 0, generation: r.Uvarint(), number: int(r.Uvarint())} //nolint:gosec // a wrong one is not the next
	if !r.OK() || version != pieceVersion || flags&^flagWhole != 0 {
		return piece{}, fmt.Errorf("%w: version %d, flags %d, this build reads version %d", ErrPiece, version, flags, pieceVersion)
	}
	p.payload = b[len(b)-r.Len():]
	return p, nil
}

// appendFragment writes a part of a change; more: others of it follow.
func appendFragment(dst, part []byte, more bool) []byte {
	head := uint64(len(part)) << 1
	if more {
		head |= 1
	}
	return append(binary.AppendUvarint(dst, head), part...)
}

// assembler puts changes together from the fragments of one piece after another.
type assembler struct{ part []byte }

// add gives each change that ends in a piece. It is valid until each returns.
func (a *assembler) add(payload []byte, each func([]byte) error) error {
	for len(payload) > 0 {
		head, n := binary.Uvarint(payload)
		if n <= 0 || head>>1 > uint64(len(payload)-n) {
			return fmt.Errorf("%w: a fragment of %d bytes, %d are left", ErrPiece, head>>1, len(payload)-max(n, 0))
		}
		payload = payload[n:]
		part := payload[: head>>1 : head>>1]
		payload = payload[head>>1:]
		if head&1 != 0 {
			a.part = append(a.part, part...)
			continue
		}
		if len(a.part) > 0 {
			part = append(a.part, part...)
			a.part = nil
		}
		if err := each(part); err != nil {
			return err
		}
	}
	return nil
}

// open tells that the end of a change has not come.
func (a *assembler) open() bool { return len(a.part) > 0 }
