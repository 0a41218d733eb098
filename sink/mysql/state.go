package mysql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/sink"
)

func (c *Config) sinksTable() string   { return tableName{c.OffsetsDatabase, "sinks"}.String() }
func (c *Config) offsetsTable() string { return tableName{c.OffsetsDatabase, "offsets"}.String() }
func (c *Config) columnsTable() string { return tableName{c.OffsetsDatabase, "columns"}.String() }

// stateSQL creates the tables of a target.
func (c *Config) stateSQL() []string {
	const end = ") ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
	return []string{
		"CREATE TABLE IF NOT EXISTS " + c.sinksTable() + ` (
	sink varchar(40) NOT NULL PRIMARY KEY,
	epoch bigint NOT NULL,
	version varchar(200) NOT NULL,
	opened_at datetime(6) NOT NULL
` + end,
		"CREATE TABLE IF NOT EXISTS " + c.offsetsTable() + ` (
	sink varchar(40) NOT NULL,
	topic varchar(249) NOT NULL,
	` + "`partition`" + ` int NOT NULL,
	next_offset bigint NOT NULL,
	position bigint unsigned NOT NULL,
	behind tinyint NOT NULL,
	updated_at datetime(6) NOT NULL,
	log_id varchar(200),
	PRIMARY KEY (sink, topic, ` + "`partition`" + `)
` + end,
		"CREATE TABLE IF NOT EXISTS " + c.columnsTable() + ` (
	sink varchar(40) NOT NULL,
	topic varchar(249) NOT NULL,
	column_name varchar(64) NOT NULL,
	identity bigint NOT NULL,
	number int NOT NULL,
	type longtext NOT NULL,
	PRIMARY KEY (sink, topic, column_name)
` + end,
	}
}

// lockName names the lock that a session holds while it lives. It does not fence: it only tells which connection to end.
func (c *Config) lockName() string {
	sum := sha256.Sum256([]byte(c.OffsetsDatabase + "\x00" + c.Name))
	return "rowtrail." + hex.EncodeToString(sum[:16])
}

// takeOver makes this session the sink's only one: it ends what an instance before left connected, raises the epoch and
// reads the offsets, in that order (invariant 4).
func (s *session) takeOver(ctx context.Context) error {
	c := s.target.config
	if err := s.createState(ctx); err != nil {
		return err
	}
	s.endBefore(ctx)
	name := literal(c.Name)
	raise := "UPDATE " + c.sinksTable() + " SET epoch = epoch + 1, version = " + literal(s.target.deps.Version) + ", opened_at = UTC_TIMESTAMP(6) WHERE sink = " + name
	if err := s.raiseEpoch(ctx, raise, name); err != nil {
		return fmt.Errorf("take over sink in %s: %w", c.sinksTable(), err)
	}
	rows, err := s.conn.query(ctx, "SELECT epoch FROM "+c.sinksTable()+" WHERE sink = "+name)
	if err == nil {
		_, err = s.conn.exec(ctx, "COMMIT")
	}
	if err != nil {
		return fmt.Errorf("take over sink in %s: %w", c.sinksTable(), err)
	}
	s.epoch = rows[0][0]
	rows, err = s.conn.query(ctx, "SELECT topic, `partition`, next_offset, position, behind, log_id FROM "+c.offsetsTable()+" WHERE sink = "+name)
	if err != nil {
		return fmt.Errorf("read offsets from %s: %w", c.offsetsTable(), err)
	}
	for _, row := range rows {
		o, err := parseOffset(row)
		if err != nil {
			return fmt.Errorf("read offsets from %s: %w", c.offsetsTable(), err)
		}
		s.offsets = append(s.offsets, o)
	}
	return nil
}

// raiseEpoch begins a transaction that raises the epoch.
func (s *session) raiseEpoch(ctx context.Context, raise, name string) error {
	if _, err := s.conn.exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	r, err := s.conn.exec(ctx, raise)
	if err != nil || r.AffectedRows > 0 {
		return err
	}
	c := s.target.config
	if _, err = s.conn.exec(ctx, "INSERT IGNORE INTO "+c.sinksTable()+" (sink, epoch, version, opened_at) VALUES ("+name+", 0, '', UTC_TIMESTAMP(6))"); err != nil {
		return err
	}
	_, err = s.conn.exec(ctx, raise)
	return err
}

// lockWait is how long the connection before may take to end; the row lock of the epoch waits longer.
const lockWait = 10

// endBefore ends the connection of the session before, which can hold row locks for as long as the server keeps it, and takes its lock. What
// fails of it is of no harm: the epoch fences.
func (s *session) endBefore(ctx context.Context) {
	lock := literal(s.target.config.lockName())
	rows, err := s.conn.query(ctx, "SELECT IS_USED_LOCK("+lock+")")
	if err == nil && rows[0][0] != "" {
		_, _ = s.conn.exec(ctx, "KILL "+rows[0][0])
	}
	_, _ = s.conn.query(ctx, "SELECT GET_LOCK("+lock+", "+strconv.Itoa(lockWait)+")")
}

func parseOffset(row []string) (sink.Offset, error) {
	p, err := strconv.ParseInt(row[1], 10, 32)
	if err != nil {
		return sink.Offset{}, err
	}
	next, err := strconv.ParseInt(row[2], 10, 64)
	if err != nil {
		return sink.Offset{}, err
	}
	position, err := strconv.ParseUint(row[3], 10, 64)
	if err != nil {
		return sink.Offset{}, err
	}
	return sink.Offset{Topic: row[0], Partition: int32(p), Next: next, Position: position, Behind: row[4] != "0", Log: row[5]}, nil
}

// createState creates what is missing. CREATE ... IF NOT EXISTS needs rights even when there is nothing to create.
func (s *session) createState(ctx context.Context) error {
	c := s.target.config
	database := literal(c.OffsetsDatabase)
	rows, err := s.conn.query(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = "+database+"), "+
		"(SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = "+database+" AND table_name IN ('sinks', 'offsets', 'columns'))")
	if err != nil {
		return fmt.Errorf("look for offsets tables: %w", err)
	}
	if rows[0][0] == "0" {
		if _, err := s.conn.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quote(c.OffsetsDatabase)); err != nil {
			return fmt.Errorf("create database %s: %w", quote(c.OffsetsDatabase), err)
		}
	}
	if rows[0][1] == "3" {
		return nil
	}
	for _, sql := range c.stateSQL() {
		if _, err := s.conn.exec(ctx, sql); err != nil {
			return fmt.Errorf("create offsets tables in database %s: %w", quote(c.OffsetsDatabase), err)
		}
	}
	return nil
}

// epochSQL reads the epoch, and holds it until the transaction ends.
func (c *Config) epochSQL() string {
	return "SELECT epoch FROM " + c.sinksTable() + " WHERE sink = " + literal(c.Name) + " FOR UPDATE"
}

// offsetsSQL stores offsets. The table is the sink's own and has one key, so REPLACE reaches no other row.
func (c *Config) offsetsSQL(offsets []sink.Offset) string {
	var b strings.Builder
	b.WriteString("REPLACE INTO " + c.offsetsTable() + " (sink, topic, `partition`, next_offset, position, behind, updated_at, log_id) VALUES ")
	for i, o := range offsets {
		comma(&b, i)
		behind, log := 0, "NULL"
		if o.Behind {
			behind = 1
		}
		if o.Log != "" {
			log = literal(o.Log)
		}
		fmt.Fprintf(&b, "(%s, %s, %d, %d, %d, %d, UTC_TIMESTAMP(6), %s)", literal(c.Name), literal(o.Topic), o.Partition, o.Next, o.Position, behind, log)
	}
	return b.String()
}

func comma(b *strings.Builder, i int) {
	if i > 0 {
		b.WriteString(", ")
	}
}
