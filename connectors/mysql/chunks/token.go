package chunks

import (
	"encoding/binary"
	"fmt"

	"github.com/rowtrail/rowtrail/log/fields"
)

// tokenVersion is the first byte of a token.
const tokenVersion = 1

// AppendToken writes what the Load has to go on from: the tables that are not loaded, with the keys up to which they are told.
func (l *Load) AppendToken(dst []byte) []byte {
	dst = append(dst, tokenVersion)
	var flags byte
	if l.paused {
		flags |= 1
	}
	dst = append(dst, flags)
	n := 0
	for _, p := range l.tables {
		if p.find == nil {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, p := range l.tables {
		if p.find == nil { // what was looked for is looked for again by whoever asked
			dst = p.append(dst)
		}
	}
	return dst
}

func (p *Progress) append(dst []byte) []byte {
	dst = fields.AppendBytes(dst, p.Plan.Table.Database)
	dst = fields.AppendBytes(dst, p.Plan.Table.Name)
	dst = fields.AppendBytes(dst, p.Signal)
	dst = fields.AppendBytes(dst, p.Plan.Filter)
	signature := ""
	if p.Plan.key != nil {
		signature = p.Plan.key.signature()
	}
	dst = fields.AppendBytes(dst, signature)
	var flags byte
	if p.Bounded {
		flags |= 1
	}
	if p.After != nil {
		flags |= 2
	}
	dst = append(dst, flags)
	dst = appendCursor(dst, p.After)
	dst = appendCursor(dst, p.UpTo)
	return binary.AppendUvarint(dst, p.Rows)
}

// Restore reads a token. plan makes the Plan of a table again, nil if it is not there any more or not captured; a table whose key is
// not the one that the token was made with begins anew.
func (l *Load) Restore(token []byte, plan func(database, table, filter string) (*Plan, error)) error {
	if len(token) == 0 || token[0] != tokenVersion {
		return fmt.Errorf("%w: this build reads version %d", ErrToken, tokenVersion)
	}
	r := fields.Read(token[1:])
	l.paused = r.Byte()&1 != 0
	for range r.Count() {
		p, signature, err := readProgress(&r)
		if err != nil {
			return err
		}
		made, err := plan(p.Plan.Table.Database, p.Plan.Table.Name, p.Plan.Filter)
		if err != nil {
			return err
		}
		if made == nil {
			continue
		}
		if p.Plan = made; made.key == nil || made.key.signature() != signature || len(p.UpTo) != 0 && len(p.UpTo) != len(made.key.Columns) {
			p.After, p.UpTo, p.Bounded, p.Rows = nil, nil, false, 0
		}
		if err := l.add(p); err != nil {
			return err
		}
	}
	if !r.Done() {
		return fmt.Errorf("%w: it is cut, or something follows it", ErrToken)
	}
	return nil
}

func readProgress(r *fields.Reader) (*Progress, string, error) {
	p := &Progress{Plan: &Plan{}}
	p.Plan.Table.Database, p.Plan.Table.Name = string(r.Bytes()), string(r.Bytes())
	p.Signal, p.Plan.Filter = string(r.Bytes()), string(r.Bytes())
	signature := string(r.Bytes())
	flags := r.Byte()
	p.Bounded = flags&1 != 0
	var err error
	if p.After, err = readCursor(r); err != nil {
		return nil, "", err
	}
	if p.UpTo, err = readCursor(r); err != nil {
		return nil, "", err
	}
	if p.Rows = r.Uvarint(); !r.OK() {
		return nil, "", fmt.Errorf("%w: it is cut", ErrToken)
	}
	after := flags&2 != 0
	if p.Bounded && len(p.UpTo) == 0 || after && len(p.After) != len(p.UpTo) || !after && len(p.After) > 0 {
		return nil, "", fmt.Errorf("%w: its keys do not fit", ErrToken)
	}
	return p, signature, nil
}
