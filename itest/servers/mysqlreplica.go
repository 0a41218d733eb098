package servers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// StartMySQLReplica brings up a server of the source's version that replicates from it by GTID and takes no writes of
// others. The setting log_replica_updates, ON by default and called so on MariaDB too, says whether what it applies is
// in its own binary log.
func StartMySQLReplica(ctx context.Context, source *MySQL, opts Options) (*MySQL, error) {
	opts.Version = source.Version()
	_, opts.Local = source.driver.(*local)
	m, err := StartMySQL(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := m.Follow(ctx, source); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Follow makes this server replicate from the source, as a new replica or after Promote of another. Both run in Docker,
// or both from local binaries.
func (m *MySQL) Follow(ctx context.Context, source *MySQL) error {
	host, port, err := source.driver.address(ctx)
	if err != nil {
		return err
	}
	if _, _, err := m.driver.address(ctx); err != nil {
		return err
	}
	statements := []string{
		fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%d, SOURCE_USER='%s', SOURCE_PASSWORD='%s', "+
			"SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1", host, port, mysqlUser, mysqlPassword),
		"START REPLICA", "SET GLOBAL super_read_only=ON",
	}
	if m.MariaDB() {
		statements = []string{
			"SET GLOBAL gtid_slave_pos=@@global.gtid_current_pos", // of a server that was a source, what it wrote itself
			fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%d, MASTER_USER='%s', MASTER_PASSWORD='%s', "+
				"MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, MASTER_SSL=0", host, port, mysqlUser, mysqlPassword),
			"START SLAVE", "SET GLOBAL read_only=ON",
		}
	}
	if err := m.Exec(ctx, "", statements...); err != nil {
		return fmt.Errorf("replicate from %s: %w", source.Describe(), err)
	}
	return nil
}

// CatchUp waits until this replica has applied all that the source has written.
func (m *MySQL) CatchUp(ctx context.Context, source *MySQL) error {
	want, err := source.GTIDs(ctx)
	if err != nil {
		return err
	}
	wait := fmt.Sprintf("SELECT WAIT_FOR_EXECUTED_GTID_SET('%s', %d)", want, int(readyTimeout.Seconds()))
	if m.MariaDB() {
		wait = fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', %d)", want, int(readyTimeout.Seconds()))
	}
	rows, err := m.Query(ctx, "", wait)
	if err != nil {
		return fmt.Errorf("wait for replication: %w", err)
	}
	if rows[0][0] != "0" {
		return fmt.Errorf("%s has not applied %s after %s: %s", m.Describe(), want, readyTimeout, m.replicaError(ctx))
	}
	return nil
}

// replicaError is what stopped replication, in the server's words.
func (m *MySQL) replicaError(ctx context.Context) string {
	conn, err := m.Connect(ctx, "")
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	show := "SHOW REPLICA STATUS"
	if m.MariaDB() {
		show = "SHOW SLAVE STATUS"
	}
	res, err := conn.Execute(show)
	if err != nil || res.RowNumber() == 0 {
		return "it is no replica"
	}
	var parts []string
	for _, name := range []string{"Last_IO_Error", "Last_SQL_Error"} {
		if s, err := res.GetStringByName(0, name); err == nil && s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "; ")
}

// Promote ends replication and makes the replica take writes.
func (m *MySQL) Promote(ctx context.Context) error {
	statements := []string{"STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL super_read_only=OFF", "SET GLOBAL read_only=OFF"}
	if m.MariaDB() {
		statements = []string{"STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only=OFF"}
	}
	if err := m.Exec(ctx, "", statements...); err != nil {
		return fmt.Errorf("promote %s: %w", m.Describe(), err)
	}
	return nil
}

// GTIDs is what the server has executed: a GTID set of MySQL, a position per domain of MariaDB.
func (m *MySQL) GTIDs(ctx context.Context) (string, error) {
	query := "SELECT @@global.gtid_executed"
	if m.MariaDB() {
		query = "SELECT @@global.gtid_current_pos"
	}
	rows, err := m.Query(ctx, "", query)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(rows[0][0], "\n", ""), nil
}

// BinaryLog is where the server's binary log ends.
func (m *MySQL) BinaryLog(ctx context.Context) (file string, pos uint64, err error) {
	show := "SHOW BINARY LOG STATUS"
	if m.MariaDB() {
		show = "SHOW MASTER STATUS"
	}
	rows, err := m.Query(ctx, "", show)
	if err != nil {
		return "", 0, err
	}
	if len(rows) == 0 {
		return "", 0, fmt.Errorf("%s has no binary log", m.Describe())
	}
	if pos, err = strconv.ParseUint(rows[0][1], 10, 64); err != nil {
		return "", 0, fmt.Errorf("%s: %w", show, err)
	}
	return rows[0][0], pos, nil
}

// PurgeBinaryLogs begins a new file and removes those before it, so that a reader that was away finds a gap.
func (m *MySQL) PurgeBinaryLogs(ctx context.Context) error {
	if err := m.Exec(ctx, "", "FLUSH BINARY LOGS"); err != nil {
		return err
	}
	file, _, err := m.BinaryLog(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for { // a file that a reader has just left is still kept for a while
		if err := m.Exec(ctx, "", "PURGE BINARY LOGS TO '"+file+"'"); err != nil {
			return err
		}
		rows, err := m.Query(ctx, "", "SHOW BINARY LOGS")
		if err != nil {
			return err
		}
		if len(rows) == 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("purge binary logs: %d files are left: a replica still reads one", len(rows))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
