package binlogs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/itest/servers"
)

const (
	dumpNonBlock     = 1 // the server ends the dump at the end of its log
	dumpAnnotateRows = 2 // MariaDB: the statements of row events come along
	headerSize       = 19
	eventRotate      = 4
)

// Dump is the events from a position, of that file and those after it, to the end of the server's binary log. Checksums
// are those of the log: servers never leave them out, whatever a reader says that it knows.
func Dump(ctx context.Context, m *servers.MySQL, file string, pos uint32) ([][]byte, error) {
	conn, err := m.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	flags := uint16(dumpNonBlock)
	set := "SET @master_binlog_checksum=@@global.binlog_checksum, @source_binlog_checksum=@@global.binlog_checksum"
	if m.MariaDB() {
		set += ", @mariadb_slave_capability=4"
		flags |= dumpAnnotateRows
	}
	if _, err := conn.Execute(set); err != nil {
		return nil, fmt.Errorf("%s: %w", set, err)
	}
	packet := []byte{0, 0, 0, 0, mysql.COM_BINLOG_DUMP} // with room for the packet's header
	packet = binary.LittleEndian.AppendUint32(packet, pos)
	packet = binary.LittleEndian.AppendUint16(packet, flags)
	packet = binary.LittleEndian.AppendUint32(packet, 0) // as mysqlbinlog does: no replica, so none is ended for it
	packet = append(packet, file...)
	conn.ResetSequence()
	if err := conn.WritePacket(packet); err != nil {
		return nil, fmt.Errorf("dump from %s:%d: %w", file, pos, err)
	}
	var events [][]byte
	for {
		p, err := conn.ReadPacket()
		if err != nil {
			return nil, fmt.Errorf("dump from %s:%d: %w", file, pos, err)
		}
		if len(p) == 0 {
			return nil, fmt.Errorf("dump from %s:%d: an empty packet", file, pos)
		}
		switch p[0] {
		case mysql.OK_HEADER:
			if len(p) < 1+headerSize {
				return nil, fmt.Errorf("dump from %s:%d: an event of %d bytes", file, pos, len(p)-1)
			}
			events = append(events, bytes.Clone(p[1:]))
		case mysql.EOF_HEADER:
			return events, nil
		default:
			return nil, fmt.Errorf("dump from %s:%d: %w", file, pos, conn.HandleErrorPacket(p))
		}
	}
}

// logPos is where an event ends in its file, 0 where the server does not say.
func logPos(event []byte) uint32 { return binary.LittleEndian.Uint32(event[13:]) }

// EventType is the code in an event's header.
func EventType(event []byte) byte { return event[4] }
