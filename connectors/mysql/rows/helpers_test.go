package rows

import (
	"encoding/binary"
	"errors"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

func plain(uint32) (binlog.Charset, error) { return nil, nil }

func str(dst []byte, v string) []byte {
	return append(mysql.AppendLengthEncodedInteger(dst, uint64(len(v))), v...)
}

// definition is a column definition packet.
func definition(f Field) []byte {
	b := str(nil, "def")
	for _, v := range []string{f.Schema, f.Table, f.Table, f.Name, f.Name} {
		b = str(b, v)
	}
	b = append(b, 12)
	b = binary.LittleEndian.AppendUint16(b, uint16(f.Collation))
	b = binary.LittleEndian.AppendUint32(b, f.Length)
	b = append(b, f.Type)
	b = binary.LittleEndian.AppendUint16(b, f.Flags)
	return append(b, f.Decimals, 0, 0)
}

// fakeConn answers a statement with packets.
type fakeConn struct {
	packets [][]byte
	params  int
	next    int
	repeat  int // the first row packet is sent so many times more
	rowAt   int
	closed  int
}

func (c *fakeConn) Prepare(string) (*client.Stmt, error) {
	s := &client.Stmt{}
	s.ID, s.Params = 7, c.params
	return s, nil
}

func (c *fakeConn) ResetSequence() {}

func (c *fakeConn) WritePacket(data []byte) error {
	if data[4] == mysql.COM_STMT_CLOSE {
		c.closed++
	}
	return nil
}

func (c *fakeConn) ReadPacketReuseMem(dst []byte) ([]byte, error) {
	if c.next >= len(c.packets) {
		return nil, errors.New("the connection is closed")
	}
	p := c.packets[c.next]
	if c.repeat > 0 && c.next == c.rowAt {
		c.repeat--
	} else {
		c.next++
	}
	return append(dst, p...), nil
}

func (c *fakeConn) HandleErrorPacket(data []byte) error {
	return &mysql.MyError{Code: binary.LittleEndian.Uint16(data[1:]), Message: string(data[9:])}
}

var (
	oldEnd = []byte{mysql.EOF_HEADER, 0, 0, 2, 0}
	newEnd = []byte{mysql.EOF_HEADER, 0, 0, 2, 0, 0, 0}
)

// answer is the packets of a result.
func answer(old bool, fields []Field, rows ...[]byte) [][]byte {
	packets := [][]byte{{byte(len(fields))}}
	for _, f := range fields {
		packets = append(packets, definition(f))
	}
	if old {
		packets = append(packets, oldEnd)
	}
	packets = append(packets, rows...)
	if old {
		return append(packets, oldEnd)
	}
	return append(packets, newEnd)
}

func show(row event.Row) []string {
	out := make([]string, len(row))
	for i, d := range row {
		out[i] = map[event.State]string{event.Absent: "ABSENT", event.Null: "NULL", event.Text: string(d.Text)}[d.State]
	}
	return out
}
