package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// server is what the source says of itself.
type server struct {
	version   string
	number    int // 90704 is MySQL 9.7.4, 110809 MariaDB 11.8.9
	mariaDB   bool
	variables map[string]string // global ones; those that it does not have are missing
}

// variables that are read.
func variables() []string {
	return []string{
		"version", "server_uuid", "server_id", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_row_value_options",
		"binlog_checksum", "gtid_mode", "gtid_executed", "gtid_purged", "gtid_strict_mode", "gtid_binlog_pos", "log_replica_updates", "log_slave_updates",
		"binlog_expire_logs_seconds", "binlog_expire_logs_auto_purge", "expire_logs_days", "binlog_rows_query_log_events", "binlog_annotate_row_events",
		"lower_case_table_names", "basedir", "binlog_transaction_compression", "explicit_defaults_for_timestamp",
		"max_binlog_total_size", "init_connect",
	}
}

func (s *session) server(ctx context.Context) (*server, error) {
	list := make([]string, 0, len(variables()))
	for _, name := range variables() {
		list = append(list, quoteLiteral(name))
	}
	found, err := s.query(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ("+strings.Join(list, ",")+")")
	if err != nil {
		return nil, fmt.Errorf("read the source's variables: %w", err)
	}
	v := &server{variables: map[string]string{}}
	for _, r := range found {
		v.variables[strings.ToLower(string(r[0]))] = string(r[1])
	}
	// SHOW cuts long values: a set of GTIDs can be long.
	for _, name := range []string{"gtid_executed", "gtid_purged", "gtid_binlog_pos"} {
		if _, has := v.variables[name]; !has {
			continue
		}
		r, err := s.query(ctx, "SELECT @@global."+name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		v.variables[name] = string(r[0][0])
	}
	v.version = v.variables["version"]
	v.number, v.mariaDB = versionNumber(v.version)
	return v, nil
}

// versionNumber reads 9.7.4-debug or 10.11.9-MariaDB-log.
func versionNumber(text string) (number int, mariaDB bool) {
	mariaDB = strings.Contains(strings.ToLower(text), "mariadb")
	head, _, _ := strings.Cut(text, "-")
	for i, part := range strings.SplitN(head, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil || n > 99 {
			break
		}
		number += n * []int{10000, 100, 1}[i]
	}
	return number, mariaDB
}

// on tells whether a variable is on.
func (v *server) on(name string) bool {
	switch strings.ToUpper(v.variables[name]) {
	case "ON", "1":
		return true
	}
	return false
}

// gtids tells whether the source's transactions have GTIDs that a position can be made of.
func (v *server) gtids() bool { return v.mariaDB || strings.EqualFold(v.variables["gtid_mode"], "ON") }

// serverID is the server's own.
func (v *server) serverID() uint32 {
	n, _ := strconv.ParseUint(v.variables["server_id"], 10, 32)
	return uint32(n)
}

// identity tells the server that files and positions are of.
func (v *server) identity() string {
	if uuid := v.variables["server_uuid"]; uuid != "" {
		return uuid
	}
	return "server_id " + v.variables["server_id"]
}

// executed is what the server has executed.
func (v *server) executed() (*gtid.Set, error) {
	if v.mariaDB {
		return gtid.Parse(gtid.MariaDB, v.variables["gtid_binlog_pos"])
	}
	return gtid.Parse(gtid.MySQL, v.variables["gtid_executed"])
}

// place is a position in a binlog.
type place struct {
	file string
	pos  uint64
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.pos) }

// binlogStatus is where the server's binlog ends, and which databases it leaves out.
type binlogStatus struct {
	place
	do, ignore string // binlog_do_db, binlog_ignore_db
}

func (s *session) binlogStatus(ctx context.Context) (binlogStatus, error) {
	list, err := s.either(ctx, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
	if err != nil {
		return binlogStatus{}, fmt.Errorf("read where the binlog ends: %w", err)
	}
	if len(list) == 0 || len(list[0]) < 4 {
		return binlogStatus{}, nil // log_bin is off
	}
	pos, err := strconv.ParseUint(string(list[0][1]), 10, 64)
	if err != nil {
		return binlogStatus{}, fmt.Errorf("read where the binlog ends: %w", err)
	}
	return binlogStatus{place{string(list[0][0]), pos}, string(list[0][2]), string(list[0][3])}, nil
}

// binlogFiles are the files that the server has, oldest first, each with its size.
func (s *session) binlogFiles(ctx context.Context) ([]place, error) {
	list, err := s.query(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, fmt.Errorf("list binlog files: %w", err)
	}
	files := make([]place, 0, len(list))
	for _, r := range list {
		size, err := strconv.ParseUint(string(r[1]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("list binlog files: %w", err)
		}
		files = append(files, place{string(r[0]), size})
	}
	return files, nil
}

// fileNumber is the number at a binlog file's end (M11: names do not sort once it has another digit).
func fileNumber(file string) uint64 {
	at := strings.LastIndexByte(file, '.')
	n, err := strconv.ParseUint(file[at+1:], 10, 64)
	if at < 0 || err != nil {
		return 0
	}
	return n
}

// isReplica tells whether the server applies another one's changes.
func (s *session) isReplica(ctx context.Context) (bool, error) {
	statements := []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"}
	list, err := s.either(ctx, statements...)
	if err != nil {
		return false, fmt.Errorf("ask whether the source is a replica: %w", err)
	}
	return len(list) > 0, nil
}

// reader is one of those that registered at the source.
type reader struct {
	serverID uint32
	host     string
	uuid     string
}

// readers are those that read the source's binlog now. ok is false where that may not be asked.
func (s *session) readers(ctx context.Context) (list []reader, ok bool, err error) {
	found, err := s.either(ctx, "SHOW REPLICAS", "SHOW SLAVE HOSTS")
	if denied(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the source's readers: %w", err)
	}
	for _, r := range found {
		id, _ := strconv.ParseUint(string(r[0]), 10, 32)
		one := reader{serverID: uint32(id), host: string(r[1])}
		if len(r) > 4 {
			one.uuid = string(r[4])
		}
		list = append(list, one)
	}
	return list, true, nil
}
