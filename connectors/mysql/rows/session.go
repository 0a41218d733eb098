package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// Conn is what a Session needs of a *client.Conn.
type Conn interface {
	Prepare(query string) (*client.Stmt, error)
	ResetSequence()
	WritePacket(data []byte) error
	ReadPacketReuseMem(dst []byte) ([]byte, error)
	HandleErrorPacket(data []byte) error
}

// Settings are the statements that a session needs before it reads rows. Strings come as they are stored, TIMESTAMP in UTC (M21);
// no mode of the server's changes what is printed or compared; no default of its own ends a long read, reads what is not
// committed, or locks what it reads.
func Settings(mariaDB bool) []string {
	settings := []string{
		"SET NAMES utf8mb4",
		"SET SESSION character_set_results = NULL, time_zone = '+00:00', sql_mode = '', sql_select_limit = DEFAULT, sql_big_selects = 1, net_write_timeout = 3600",
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	}
	if mariaDB {
		return append(settings, "SET SESSION max_statement_time = 0")
	}
	return append(settings, "SET SESSION max_execution_time = 0")
}

// Session reads the rows of one SELECT after another. It reads without a context: to give up is to close the connection, after
// which the Session is of no use.
type Session struct {
	conn    Conn
	charset CharsetOf
	layout  *layout
	decoder decoder
	packet  []byte
	id      uint32
	open    bool
	old     bool // the result ends with an EOF packet, and its columns too
	first   bool // packet is a row that is not decoded yet
	size    int64
}

// ErrParameter tells of a statement with a parameter: what a user gave has a ? outside of a string.
var ErrParameter = errors.New("the statement has a ? where a value must stand")

// NewSession makes a Session on a connection that has the Settings.
func NewSession(conn Conn, charset CharsetOf) *Session {
	return &Session{conn: conn, charset: charset}
}

// Select sends a statement, whose rows Next must then read to the end.
func (s *Session) Select(statement string) error {
	if s.open {
		return errors.New("the rows of the statement before were not all read")
	}
	stmt, err := s.conn.Prepare(statement)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", statement, err)
	}
	s.id, s.open, s.size = stmt.ID, true, 0
	if stmt.Params != 0 {
		return errors.Join(fmt.Errorf("prepare %s: %w", statement, ErrParameter), s.close())
	}
	if err := s.execute(); err != nil {
		return fmt.Errorf("execute %s: %w", statement, errors.Join(err, s.close()))
	}
	return nil
}

// execute sends the statement, of which there is no parameter, and reads the result up to its first row.
func (s *Session) execute() error {
	b := append(make([]byte, 4, 16), mysql.COM_STMT_EXECUTE) // 4 for the packet's header
	b = binary.LittleEndian.AppendUint32(b, s.id)
	b = append(b, mysql.CURSOR_TYPE_NO_CURSOR)
	b = binary.LittleEndian.AppendUint32(b, 1)
	s.conn.ResetSequence()
	if err := s.conn.WritePacket(b); err != nil {
		return err
	}
	if err := s.read(); err != nil {
		return err
	}
	r := reader{b: s.packet}
	count := r.packed()
	if r.bad || len(r.b) > 0 || count == 0 || count > 1<<16 {
		return malformed("a result of %d columns", count)
	}
	fields := make([]Field, count)
	for i := range fields {
		if err := s.read(); err != nil {
			return err
		}
		var err error
		if fields[i], err = ParseField(s.packet); err != nil {
			return err
		}
	}
	var err error
	if s.layout, err = newLayout(fields, s.charset); err != nil {
		return errors.Join(err, s.drain())
	}
	s.decoder.reset(s.layout)
	// Connections that know CLIENT_DEPRECATE_EOF have no packet between columns and rows. At the end theirs is longer than an EOF.
	if err := s.read(); err != nil {
		return err
	}
	s.old = len(s.packet) == 5 && s.packet[0] == mysql.EOF_HEADER
	s.first = !s.old
	return nil
}

// drain reads a result that nobody wants up to its end. Both kinds of results are read here before it is known which one it is:
// an EOF of five bytes is followed by another end.
func (s *Session) drain() error {
	for ends := 0; ; {
		if err := s.read(); err != nil {
			return err
		}
		if s.packet[0] != mysql.EOF_HEADER {
			continue
		}
		if ends++; len(s.packet) != 5 || ends == 2 {
			return nil
		}
	}
}

// read takes a packet into the Session's memory. The server's error is the error.
func (s *Session) read() error {
	if cap(s.packet) > maxKept {
		s.packet = nil
	}
	var err error
	if s.packet, err = s.conn.ReadPacketReuseMem(s.packet[:0]); err != nil {
		return fmt.Errorf("read a result: %w", err)
	}
	switch {
	case len(s.packet) == 0:
		return malformed("an empty packet in a result")
	case s.packet[0] == mysql.ERR_HEADER:
		return s.conn.HandleErrorPacket(bytes.Clone(s.packet)) // which keeps its text
	}
	s.size += int64(len(s.packet))
	return nil
}

// Next decodes a row: its first columns go to row, which may have fewer than the result. false: there are no more. Texts are valid
// until the next call. After an error of a column (*binlog.ColumnError) the next row can be read; after others the connection is
// to be closed.
func (s *Session) Next(row event.Row) (bool, error) {
	if !s.open {
		return false, nil
	}
	if !s.first {
		if err := s.read(); err != nil {
			return false, errors.Join(err, s.close())
		}
	}
	s.first = false
	if s.packet[0] == mysql.EOF_HEADER {
		return false, s.close()
	}
	return true, s.decoder.decode(s.layout, s.packet, row)
}

// Skip reads a result to its end without decoding.
func (s *Session) Skip() error {
	for s.open {
		if !s.first {
			if err := s.read(); err != nil {
				return errors.Join(err, s.close())
			}
		}
		s.first = false
		if s.packet[0] == mysql.EOF_HEADER {
			return s.close()
		}
	}
	return nil
}

// Fields are the columns of the last result.
func (s *Session) Fields() []Field {
	if s.layout == nil {
		return nil
	}
	return s.layout.fields
}

// Raw is a column of the last row as the server sent it, nil if it is NULL. It is valid until the next call of Next.
func (s *Session) Raw(column int) []byte { return s.decoder.raw[column] }

// Size is how many bytes of the last result came so far.
func (s *Session) Size() int64 { return s.size }

// close ends the statement, to which the server does not answer.
func (s *Session) close() error {
	s.open = false
	b := append(make([]byte, 4, 16), mysql.COM_STMT_CLOSE)
	b = binary.LittleEndian.AppendUint32(b, s.id)
	s.conn.ResetSequence()
	return s.conn.WritePacket(b)
}
