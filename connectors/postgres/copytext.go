package postgres

import (
	"bytes"
	"errors"

	"github.com/rowtrail/rowtrail/connectors/event"
)

var errCopyRow = errors.New("row of COPY does not follow its text format")

// copyParser reads rows of COPY's text format. The values of a row are valid until the next call.
type copyParser struct{ scratch []byte }

// row parses one line, its newline included, into one Datum per column.
func (p *copyParser) row(line []byte, row event.Row) error {
	if len(line) == 0 || line[len(line)-1] != '\n' {
		return errCopyRow
	}
	line = line[:len(line)-1]
	p.scratch = p.scratch[:0]
	// Unescaping only shortens, so the scratch never moves while values of this row point into it.
	if cap(p.scratch) < len(line) {
		p.scratch = make([]byte, 0, 2*len(line))
	}
	for i := range row {
		field := line
		if at := bytes.IndexByte(line, '\t'); at >= 0 {
			if i == len(row)-1 {
				return errCopyRow
			}
			field, line = line[:at], line[at+1:]
		} else if i != len(row)-1 {
			return errCopyRow
		}
		if len(field) == 2 && field[0] == '\\' && field[1] == 'N' {
			row[i] = event.Datum{State: event.Null}
			continue
		}
		if bytes.IndexByte(field, '\\') >= 0 {
			var err error
			if field, err = p.unescape(field); err != nil {
				return err
			}
		}
		row[i] = event.Datum{State: event.Text, Text: field}
	}
	return nil
}

func (p *copyParser) unescape(field []byte) ([]byte, error) {
	from := len(p.scratch)
	for i := 0; i < len(field); i++ {
		c := field[i]
		if c == '\\' {
			i++
			if i == len(field) {
				return nil, errCopyRow
			}
			switch c = field[i]; c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'v':
				c = '\v'
			}
		}
		p.scratch = append(p.scratch, c)
	}
	return p.scratch[from:len(p.scratch):len(p.scratch)], nil
}
