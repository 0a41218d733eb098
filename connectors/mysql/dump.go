package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

const (
	// heartbeatEvery is how often the source speaks when it has nothing to say.
	heartbeatEvery = time.Second

	dumpNonBlock     = 1 // the source ends the dump at the end of its binlog
	dumpAnnotateRows = 2 // MariaDB: statements come along
	dumpThroughGTID  = 4 // MySQL: the set is in the command

	// mariaCapability says that the reader knows MariaDB's GTID events.
	mariaCapability = 4
	maxHostName     = 60

	// maxDumpPos is the last position at which a dump can begin.
	maxDumpPos = 1<<32 - 1

	// noReader is the server ID of a dump that is no replica's: the source ends no other for it.
	noReader = 0
	// writeTimeout is how long the source waits, in seconds, while a table is looked up and nothing is read.
	writeTimeout = 24 * 3600
)

// hostName is how the connector is called in SHOW REPLICAS.
func (c *Config) hostName() string {
	name := "rowtrail-" + c.uuid[:8] + "-" + c.Name
	return name[:min(len(name), maxHostName)]
}

// free makes sure that no other reader has the connector's server ID (M23): the source ends the older of two.
func (r *run) free(ctx context.Context, s *session) error {
	list, _, err := s.readers(ctx)
	if err != nil {
		return err
	}
	return r.config.clash(r.server, list)
}

// clash finds the connector's server ID among those of the source and its readers.
func (c *Config) clash(v *server, readers []reader) error {
	if v.serverID() == c.serverID {
		return &connectors.Fault{
			Problem: fmt.Sprintf("the connector's server ID %d is that of the source itself", c.serverID),
			Remedy:  "set database.server.id to a number that no server of the topology has",
		}
	}
	for _, other := range readers {
		if other.serverID != c.serverID || other.host == c.hostName() {
			continue // a former connection of this connector is ended by the source
		}
		return &connectors.Fault{
			Problem: fmt.Sprintf("server ID %d is in use by another reader of the source (host %q, UUID %q): the source would end one for the other",
				other.serverID, other.host, other.uuid),
			Remedy: "set database.server.id to a number that no server of the topology and no other connector has",
		}
	}
	return nil
}

// startDump asks for the binlog from the resume point and returns the connection on which it comes.
func (r *run) startDump(ctx context.Context, s *session) (net.Conn, error) {
	if err := r.free(ctx, s); err != nil {
		return nil, err
	}
	if err := s.execute(ctx, fmt.Sprintf("SET net_write_timeout = %d", writeTimeout)); err != nil {
		return nil, fmt.Errorf("prepare the dump: %w", err)
	}
	flags := uint16(0)
	if r.config.MariaDB && r.config.Query {
		flags = dumpAnnotateRows
	}
	return r.dump(ctx, s, r.resume.point, r.config.serverID, flags)
}

// dump asks for the binlog from a point, as a reader or as noReader.
func (r *run) dump(ctx context.Context, s *session, p *point, reader uint32, flags uint16) (net.Conn, error) {
	period := heartbeatEvery.Nanoseconds()
	settings := []string{
		"@master_binlog_checksum = @@global.binlog_checksum", "@source_binlog_checksum = @@global.binlog_checksum",
		fmt.Sprintf("@master_heartbeat_period = %d", period), fmt.Sprintf("@source_heartbeat_period = %d", period),
	}
	switch {
	case r.config.MariaDB:
		settings = append(settings, fmt.Sprintf("@mariadb_slave_capability = %d", mariaCapability))
		if p.base == nil || p.seek != nil {
			break
		}
		set, err := p.executed()
		if err != nil {
			return nil, err
		}
		settings = append(settings, "@slave_connect_state = "+quoteLiteral(set.String()), "@slave_gtid_strict_mode = 0", "@slave_gtid_ignore_duplicates = 0")
	case reader != noReader:
		settings = append(settings, "@slave_uuid = "+quoteLiteral(r.config.uuid), "@replica_uuid = "+quoteLiteral(r.config.uuid))
	}
	if err := s.execute(ctx, "SET "+strings.Join(settings, ", ")); err != nil {
		return nil, fmt.Errorf("prepare the dump: %w", err)
	}
	if reader != noReader {
		if err := s.command(ctx, r.config.registration()); err != nil {
			return nil, r.config.registrationError(err)
		}
	}
	packet, err := r.config.dumpCommand(p, reader, flags)
	if err != nil {
		return nil, err
	}
	err = s.bounded(ctx, func() error {
		s.conn.ResetSequence()
		return s.conn.WritePacket(packet)
	})
	if err == nil {
		err = s.conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the binlog: %w", err)
	}
	// Nothing of the answer is read yet: go-mysql reads no further than the answer to the command before.
	return s.conn.Conn.Conn, nil
}

// registration is COM_REGISTER_SLAVE: by it the connector is in SHOW REPLICAS, with its host, without user and password.
func (c *Config) registration() []byte {
	b := []byte{0, 0, 0, 0, mysql.COM_REGISTER_SLAVE} // with room for the packet's header
	b = binary.LittleEndian.AppendUint32(b, c.serverID)
	host := c.hostName()
	b = append(append(b, byte(len(host))), host...)
	b = append(b, 0, 0)                      // user, password
	b = append(b, 0, 0)                      // port
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0) // rank, source's ID: the server fills it in
}

func (c *Config) registrationError(err error) error {
	if code(err) == erAccessDenied || denied(err) {
		return &connectors.Fault{Problem: "user " + c.user + " may not read the binlog", Err: err, Remedy: c.grantSQL("REPLICATION SLAVE")}
	}
	return fmt.Errorf("register as a reader of the binlog: %w", err)
}

// dumpCommand asks by GTID where there are any, else by file and position.
func (c *Config) dumpCommand(p *point, reader uint32, flags uint16) ([]byte, error) {
	b := []byte{0, 0, 0, 0}
	switch {
	case p.seek != nil:
		b = append(b, mysql.COM_BINLOG_DUMP)
		b = binary.LittleEndian.AppendUint32(b, p.seek.position())
		b = binary.LittleEndian.AppendUint16(b, flags)
		b = binary.LittleEndian.AppendUint32(b, reader)
		return append(b, p.seek.from.file...), nil
	case p.base == nil:
		if p.at.pos > maxDumpPos {
			return nil, &connectors.Fault{
				Problem: fmt.Sprintf("the resume point %s is beyond 4 GiB, where a dump cannot begin", p.at),
				Remedy:  "SET GLOBAL gtid_mode = 'ON' (step by step, as MySQL's manual says) and begin anew: " + c.again(),
			}
		}
		b = append(b, mysql.COM_BINLOG_DUMP)
		b = binary.LittleEndian.AppendUint32(b, uint32(p.at.pos))
		b = binary.LittleEndian.AppendUint16(b, flags)
		b = binary.LittleEndian.AppendUint32(b, reader)
		return append(b, p.at.file...), nil
	case c.MariaDB: // from @slave_connect_state
		b = append(b, mysql.COM_BINLOG_DUMP)
		b = binary.LittleEndian.AppendUint32(b, fileStart)
		b = binary.LittleEndian.AppendUint16(b, flags)
		return binary.LittleEndian.AppendUint32(b, reader), nil
	}
	set, err := p.executed()
	if err != nil {
		return nil, err
	}
	b, err = set.AppendDump(append(b, mysql.COM_BINLOG_DUMP_GTID), gtid.Dump{Flags: dumpThroughGTID | flags, ServerID: reader, Position: 4})
	if err != nil {
		return nil, fmt.Errorf("ask for the binlog: %w", err)
	}
	return b, nil
}

// command sends one command, whose packet has room for its header, and reads the answer, which is OK or an error.
func (s *session) command(ctx context.Context, packet []byte) error {
	return s.bounded(ctx, func() error {
		s.conn.ResetSequence()
		if err := s.conn.WritePacket(packet); err != nil {
			return err
		}
		answer, err := s.conn.ReadPacket()
		if err != nil {
			return err
		}
		switch {
		case len(answer) == 0:
			return errors.New("an empty answer")
		case answer[0] == mysql.ERR_HEADER:
			return serverError(answer)
		}
		return nil
	})
}

// serverError reads an error packet.
func serverError(packet []byte) error {
	if len(packet) < 3 {
		return errors.New("an error of the server that cannot be read")
	}
	e := &mysql.MyError{Code: binary.LittleEndian.Uint16(packet[1:]), State: "HY000", Message: string(packet[3:])}
	if rest := packet[3:]; len(rest) >= 6 && rest[0] == '#' {
		e.State, e.Message = string(rest[1:6]), string(rest[6:])
	}
	return e
}

// dumpError tells what a restart cannot mend.
func (c *Config) dumpError(err error) error {
	if err == nil || connectors.IsFault(err) {
		return err
	}
	n, text := code(err), err.Error()
	switch {
	case n == erSlaveSameID, n == erReadingBinlog && strings.Contains(text, "same server_uuid/server_id"):
		return &connectors.Fault{
			Problem: fmt.Sprintf("another reader with server ID %d (UUID %s) has connected to the source, which ended this one", c.serverID, c.uuid), Err: err,
			Remedy: "run the connector in one place only, and set database.server.id to a number that no server of the topology and no other connector has",
		}
	case n == erCannotFindState, n == erStateTooOld, n == erGTIDStrictOrder:
		return c.gap("the source cannot go on from the resume point", err)
	case n == erReadingBinlog:
		switch {
		case strings.Contains(text, "purged"), strings.Contains(text, "Could not find first log file name"), strings.Contains(text, "Could not find GTID state"),
			strings.Contains(text, "which is not in"), strings.Contains(text, "impossible position"), strings.Contains(text, "exceeded the valid"):
			return c.gap("the source cannot go on from the resume point", err)
		case strings.Contains(text, "max_allowed_packet"):
			return &connectors.Fault{Problem: "an event is larger than the source may send", Err: err, Remedy: "SET GLOBAL max_allowed_packet = 1073741824, and restart the connector"}
		}
	case n == erAccessDenied, denied(err):
		return &connectors.Fault{Problem: "user " + c.user + " may not read the binlog", Err: err, Remedy: c.grantSQL("REPLICATION SLAVE")}
	}
	return err
}
