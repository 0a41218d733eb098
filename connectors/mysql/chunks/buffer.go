package chunks

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// ErrIdentity tells of a row image without the columns that tell its row from others.
var ErrIdentity = errors.New("a row image has not all columns of the key that the load reads by; SET GLOBAL binlog_row_image = 'FULL', or give the table a primary key")

// AppendIdentity appends what tells a row from others: the texts of its key's columns.
func AppendIdentity(dst []byte, row event.Row, key []int) ([]byte, error) {
	for _, i := range key {
		if row[i].State != event.Text {
			return dst, ErrIdentity
		}
		dst = binary.AppendUvarint(dst, uint64(len(row[i].Text)))
		dst = append(dst, row[i].Text...)
	}
	return dst, nil
}

// buffer holds the rows of a chunk. Its memory is used again.
type buffer struct {
	width    int
	identity []int
	arena    []byte
	cells    []cell // width for each row
	dropped  []bool
	index    map[string]int // rows by identity; nil: not asked for yet
	row      event.Row
	scratch  []byte
}

// cell is a value in the arena, in a place that may be larger.
type cell struct {
	state              event.State
	start, size, place int
}

func (b *buffer) reset(width int, identity []int) {
	*b = buffer{
		width: width, identity: identity, arena: b.arena[:0], cells: b.cells[:0], dropped: b.dropped[:0],
		row: b.row, scratch: b.scratch,
	}
	if cap(b.arena) > maxChunkBytes*2 { // of one large row
		b.arena = nil
	}
	if len(b.row) != width {
		b.row = make(event.Row, width)
	}
}

func (b *buffer) len() int { return len(b.dropped) }

func (b *buffer) size() int { return len(b.arena) }

func (b *buffer) add(row event.Row) {
	for i := range row {
		n := len(row[i].Text)
		b.cells = append(b.cells, cell{state: row[i].State, start: len(b.arena), size: n, place: n})
		b.arena = append(b.arena, row[i].Text...)
	}
	b.dropped = append(b.dropped, false)
}

// at is a row, valid until the next call or change.
func (b *buffer) at(i int) event.Row {
	for j, c := range b.cells[i*b.width : (i+1)*b.width] {
		end := c.start + c.size
		b.row[j] = event.Datum{State: c.state, Text: b.arena[c.start:end:end]}
	}
	return b.row
}

// find is the row of an identity, negative if there is none.
func (b *buffer) find(identity []byte) (int, error) {
	if b.index == nil {
		index := make(map[string]int, b.len())
		for i := range b.dropped {
			var err error
			if b.scratch, err = AppendIdentity(b.scratch[:0], b.at(i), b.identity); err != nil {
				return -1, err
			}
			index[string(b.scratch)] = i
		}
		b.index = index
	}
	i, ok := b.index[string(identity)]
	if !ok {
		return -1, nil
	}
	return i, nil
}

func (b *buffer) drop(i int) { b.dropped[i] = true }

func (b *buffer) dropAll() {
	for i := range b.dropped {
		b.dropped[i] = true
	}
}

// overlay writes what a row image has over a row.
func (b *buffer) overlay(i int, image event.Row) {
	for j := range image {
		if image[j].State == event.Absent {
			continue
		}
		c, text := &b.cells[i*b.width+j], image[j].Text
		if len(text) > c.place { // twice as much, so that a value that grows with each event takes little in all
			c.start, c.place = len(b.arena), 1<<bits.Len(uint(len(text)))
			b.arena = append(b.arena, make([]byte, c.place)...)
		}
		c.state, c.size = image[j].State, len(text)
		copy(b.arena[c.start:], text)
	}
}
