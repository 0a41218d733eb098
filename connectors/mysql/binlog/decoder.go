package binlog

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// maxUnpacked is what a compressed event, query or column may grow to if Options do not say: max_allowed_packet's limit.
	maxUnpacked = 1 << 30
	// maxTables bounds the table maps that are remembered; one statement must not need more.
	maxTables = 4096
)

// Options of a Decoder.
type Options struct {
	// MaxUnpacked bounds an event, query or column value after it is uncompressed, in bytes. 0: 1 GiB.
	MaxUnpacked int
	// Statements says that rows and table maps are of no interest: they are KindNothing, and reading may begin at any event.
	Statements bool
}

// Decoder decodes the events of one dump, in order.
type Decoder struct {
	limit   int
	rowless bool
	format  Format
	known   bool // format is
	end     uint64
	event   Event
	tables  tables
	payload payload
	unpack  unpacker
	text    []byte // arena of the event's rows

	replaying bool // the event does not end a statement of the dump
}

// NewDecoder begins a dump.
func NewDecoder(opts Options) *Decoder {
	if opts.MaxUnpacked <= 0 {
		opts.MaxUnpacked = maxUnpacked
	}
	return &Decoder{limit: opts.MaxUnpacked, rowless: opts.Statements}
}

// Decode decodes the packet of one event, without the status byte of the network protocol. The Event is used again by the next
// call. Next must be called then until it returns nil: after a KindPayload it has the transaction's events.
func (d *Decoder) Decode(packet []byte) (*Event, error) {
	h, err := parseHeader(packet)
	if err != nil {
		return nil, &EventError{h.Type, d.end, err}
	}
	if d.payload.open {
		return nil, &EventError{h.Type, d.end, malformed("the events of the payload before it were not all read")}
	}
	if uint64(h.Size) != uint64(len(packet)) {
		return nil, &EventError{h.Type, d.end, malformed("%d bytes, its header says %d", len(packet), h.Size)}
	}
	b, err := d.verify(h, packet)
	if err != nil {
		return nil, &EventError{h.Type, d.end, err}
	}
	d.advance(h)
	return d.decode(h, b[headerSize:], false)
}

// Next returns the next event of a payload, nil after the last and where there is no payload.
func (d *Decoder) Next() (*Event, error) {
	if !d.payload.open {
		return nil, nil
	}
	b, err := d.payload.next(d.limit)
	if err != nil {
		d.payload.close()
		return nil, &EventError{typePayload, d.end, err}
	}
	if b == nil {
		d.payload.close()
		return nil, nil
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, &EventError{h.Type, d.end, err}
	}
	switch h.Type {
	case typeFormat, typeRotate, typePayload, typeHeartbeat, typeHeartbeat2:
		return nil, &EventError{h.Type, d.end, malformed("it came out of a payload")}
	}
	h.LogPos = d.payload.header.LogPos
	return d.decode(h, b[headerSize:], true)
}

// verify checks an event's CRC32 and takes it off. Before the format is known, only an artificial rotation can come, with or
// without one.
func (d *Decoder) verify(h Header, packet []byte) ([]byte, error) {
	body, ok := checked(packet)
	switch {
	case h.Type == typeFormat:
		n := len(packet) - checksumSize
		if n-1 < headerSize {
			return nil, ErrTruncated
		}
		switch packet[n-1] { // the algorithm, before the checksum which is there in any case
		case 0, 255:
		case 1:
			if !ok {
				return nil, ErrChecksum
			}
		default:
			return nil, unsupported("checksum algorithm %d", packet[n-1])
		}
		return packet, nil
	case !d.known:
		if h.Type != typeRotate && h.Type != typeHeartbeat && h.Type != typeHeartbeat2 {
			return nil, malformed("it came before the format description")
		}
		if ok {
			return body, nil
		}
		return packet, nil
	case !d.format.Checksum:
		return packet, nil
	case !ok:
		return nil, ErrChecksum
	}
	return body, nil
}

// advance keeps the position in 64 bits: headers have 32, and none inside of MariaDB's transactions from 11.4.
func (d *Decoder) advance(h Header) {
	switch {
	case h.Flags&FlagArtificial != 0 || h.Type == typeHeartbeat2 || h.Type == typeHeartbeat:
	case h.LogPos == 0:
		if h.Type != typeFormat {
			d.end += uint64(h.Size)
		}
	default:
		d.place(uint64(h.LogPos))
	}
}

// place takes over the low 32 bits of a position that never falls within a file.
func (d *Decoder) place(low uint64) {
	next := d.end&^0xffffffff | low
	if next < d.end {
		next += 1 << 32
	}
	d.end = next
}

func (d *Decoder) decode(h Header, body []byte, inner bool) (*Event, error) {
	e := &d.event
	e.Kind, e.Header, e.Inner, e.Text, e.body = KindNothing, h, inner, nil, body
	err := d.content(e, h, body)
	e.End = d.end
	if err != nil {
		return nil, &EventError{h.Type, d.end, err}
	}
	return e, nil
}

func (d *Decoder) content(e *Event, h Header, body []byte) error {
	if d.rowless && h.Type.rows() {
		return nil
	}
	switch h.Type {
	case typeWriteRows1, typeUpdateRows1, typeDeleteRows1, typeWriteRows2, typeUpdateRows2, typeDeleteRows2, typePartialUpdateRows,
		typeWriteRows1Packed, typeUpdateRows1Packed, typeDeleteRows1Packed, typeWriteRows2Packed, typeUpdateRows2Packed, typeDeleteRows2Packed:
		return d.rows(e, h.Type, body)
	case typeTableMap:
		return d.table(e, body)
	case typeQuery, typeQueryCompressed, typeExecuteLoadQuery:
		return d.query(e, h.Type, body)
	case typeGTID, typeAnonymousGTID, typeTaggedGTID, typeMariaGTID:
		return e.gtid(h, body)
	case typeXID:
		r := reader{b: body}
		e.Kind, e.XID = KindXID, r.uint64()
		return r.err
	case typeXAPrepare:
		e.Kind = KindXAPrepare
		return e.XA.parse(body)
	case typeRowsQuery:
		r := reader{b: body} // the length byte before the text is too small for it
		r.uint8()
		e.Kind, e.Text = KindRowsQuery, r.b
		return r.err
	case typeAnnotateRows:
		e.Kind, e.Text = KindRowsQuery, body
		return nil
	case typePayload:
		e.Kind = KindPayload
		return d.payload.begin(h, body, &e.Payload)
	case typeFormat, typeRotate, typeHeartbeat, typeHeartbeat2, typePreviousGTIDs, typeMariaGTIDList:
		return d.stream(e, h, body)
	case typeStop, typeIgnorable, typeTransactionContext, typeViewChange, typeBinlogCheckpoint, typeStartEncryption:
		return nil
	case typeIntVar, typeRand, typeUserVar, typeBeginLoadQuery, typeAppendBlock, typeDeleteFile:
		return nil // what belongs to a statement, which tells by itself that rows are not logged
	case typeIncident:
		return incident(body)
	case typeWriteRows0, typeUpdateRows0, typeDeleteRows0:
		return unsupported("rows in the form of MySQL before 5.1.16")
	case typePartialRowData:
		return unsupported("a row in parts; raise binlog_row_event_fragment_threshold on the server above the largest row")
	}
	if h.Flags&FlagIgnorable != 0 {
		return nil
	}
	return unsupported("an event of unknown type %d", uint8(h.Type))
}

func incident(body []byte) error {
	r := reader{b: body}
	code := r.uint16()
	text := r.take(int(r.uint8()))
	return fmt.Errorf("%w (code %d: %s)", ErrIncident, code, text)
}

// stream handles the events that are about the stream itself.
func (d *Decoder) stream(e *Event, h Header, body []byte) error {
	switch h.Type {
	case typeFormat:
		e.Kind = KindFormat
		return d.begin(e, body)
	case typeRotate:
		r := reader{b: body}
		e.Kind, e.Rotate = KindRotate, Rotate{Position: r.uint64(), File: r.b}
		d.end = e.Rotate.Position
		return r.err
	case typeHeartbeat:
		e.Kind, e.Rotate = KindHeartbeat, Rotate{File: body}
		if h.LogPos != 0 {
			d.place(uint64(h.LogPos))
		}
		e.Rotate.Position = d.end
		return nil
	case typeHeartbeat2:
		e.Kind = KindHeartbeat
		if err := e.Rotate.parseHeartbeat(body); err != nil {
			return err
		}
		d.end = max(d.end, e.Rotate.Position)
		return nil
	case typePreviousGTIDs:
		e.Kind = KindPreviousGTIDs
		var err error
		e.Text, err = previousGTIDs(body)
		return err
	}
	e.Kind = KindPreviousGTIDs
	var err error
	e.Text, err = mariaGTIDList(body)
	return err
}

// begin takes over the format of a file. Table maps do not outlive it.
func (d *Decoder) begin(e *Event, body []byte) error {
	r := reader{b: body}
	binlog := r.uint16()
	name, _, _ := bytes.Cut(r.take(50), []byte{0})
	r.uint32()
	header := r.uint8()
	lengths := r.take(len(r.b) - checksumSize - 1)
	algorithm := r.uint8()
	switch {
	case r.err != nil:
		return r.err
	case binlog != 4 || header != headerSize:
		return unsupported("binlog version %d", binlog)
	}
	for _, t := range []struct {
		typ  Type
		size byte
	}{{typeTableMap, 8}, {typeWriteRows1, 8}, {typeWriteRows2, 10}} {
		n := int(t.typ) - 1
		if n >= len(lengths) {
			return ErrTruncated
		}
		if size := lengths[n]; size != t.size && size != 0 { // 0: the server no longer writes them
			return unsupported("binlogs of server version %s", name)
		}
	}
	d.format = Format{
		ServerVersion: string(name),
		MariaDB:       strings.Contains(strings.ToLower(string(name)), "mariadb"),
		Checksum:      algorithm == 1,
	}
	d.known = true
	d.tables.forget()
	e.Format = d.format
	return nil
}

func (r *Rotate) parseHeartbeat(body []byte) error {
	p := reader{b: body}
	*r = Rotate{}
	for p.err == nil && len(p.b) > 0 {
		kind := p.uint8()
		if kind == 0 {
			break
		}
		v := p.packedBytes()
		switch kind {
		case 1:
			r.File = v
		case 2:
			q := reader{b: v}
			r.Position = q.packed()
			if q.err != nil {
				return q.err
			}
		}
	}
	return p.err
}
