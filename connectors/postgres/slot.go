package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
)

const (
	plugin = "pgoutput"
	// loadSlotSuffix names the temporary slot under whose snapshot tables are loaded once the slot itself exists.
	loadSlotSuffix = "_load"
	// failoverVersion has slots that standbys keep a copy of, and says why a slot was invalidated.
	failoverVersion = 170000
)

// slot is an existing replication slot.
type slot struct {
	plugin, database string
	active           bool
	activePID        int
	restart, flush   lsn
	status, reason   string // wal_status; invalidation_reason
	temporary        bool
	physical         bool
	failover         bool // Postgres 17: standbys keep a copy
}

// readSlot returns nil when there is none.
func readSlot(ctx context.Context, conn *pgconn.PgConn, name string, version int) (*slot, error) {
	reason, failover := "''", "false"
	switch {
	case version >= failoverVersion:
		failover = "failover"
		reason = "coalesce(invalidation_reason, '')"
	case version >= 160000:
		reason = "CASE WHEN conflicting THEN 'recovery conflict' ELSE '' END"
	}
	rows, err := query(ctx, conn, `SELECT coalesce(plugin, ''), coalesce(database, ''), active, coalesce(active_pid, 0), coalesce(restart_lsn, '0/0'),
 coalesce(confirmed_flush_lsn, '0/0'), coalesce(wal_status, ''), `+reason+`, temporary, slot_type = 'physical', `+failover+` FROM pg_replication_slots WHERE slot_name = `+quoteLiteral(name))
	if err != nil {
		return nil, fmt.Errorf("read slot %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	r := rows[0]
	s := &slot{
		plugin: string(r[0]), database: string(r[1]), active: isTrue(r[2]), status: string(r[6]), reason: string(r[7]),
		temporary: isTrue(r[8]), physical: isTrue(r[9]), failover: isTrue(r[10]),
	}
	s.activePID, _ = strconv.Atoi(string(r[3]))
	if s.restart, err = parseLSN(string(r[4])); err != nil {
		return nil, err
	}
	s.flush, err = parseLSN(string(r[5]))
	return s, err
}

// lost says why a slot can no longer be read, "" if it can (P15).
func (s *slot) lost() string {
	switch {
	case s.reason != "":
		return "it was invalidated (" + s.reason + ")"
	case s.status == "lost":
		return "the server removed WAL that it still needed (max_slot_wal_keep_size)"
	}
	return ""
}

// gap is the Fault for changes that the source no longer gives (P15). Invariant 7: they are never passed over in silence.
func (c *Config) gap(from lsn, problem string) error {
	return &connectors.Fault{
		Problem: fmt.Sprintf("changes of database %s after %s can no longer be read: %s", c.Database, from, problem),
		Remedy: fmt.Sprintf("SELECT pg_drop_replication_slot(%s) if it exists, then delete topic %s.position (`rowtrail topics delete`) and restart the connector (`rowtrail connectors restart`): it loads its tables again, and what was deleted meanwhile ends in state and targets",
			quoteLiteral(c.Slot), c.Prefix),
	}
}

// verifySlot compares the slot with the resume point (P11, P15).
func (c *Config) verifySlot(s *slot, r *resume) error {
	switch {
	case s == nil:
		return c.gap(r.LSN, "slot "+c.Slot+" does not exist")
	case s.lost() != "":
		return c.gap(r.LSN, "slot "+c.Slot+" is lost: "+s.lost())
	case s.flush > r.LSN:
		// This connector confirms only what its own resume point covers, so someone else moved or recreated the slot.
		return c.gap(r.LSN, fmt.Sprintf("slot %s stands at %s: it was recreated, or read by something else", c.Slot, s.flush))
	}
	return nil
}

// skipsPublication has servers that pass over changes in silence while a publication that is asked for does not exist; those before
// refuse to decode them (P5).
const skipsPublication = 180000

// verifyPublication makes sure that the publication is the one that the resume point was read through.
func (c *Config) verifyPublication(version int, p *publication, r *resume) error {
	if version < skipsPublication || r.Publication == 0 || p != nil && p.oid == r.Publication {
		return nil
	}
	return c.gap(r.LSN, "publication "+c.Publication+" was dropped, and what changed until it is there again is not in the stream")
}

// identity is what IDENTIFY_SYSTEM says.
type identity struct {
	server
	flush lsn // end of the WAL on disk
}

func identify(ctx context.Context, conn *pgconn.PgConn) (identity, error) {
	sys, err := pglogrepl.IdentifySystem(ctx, conn)
	if err != nil {
		return identity{}, fmt.Errorf("identify source system: %w", err)
	}
	return identity{server{sys.SystemID, sys.Timeline, sys.DBName}, lsn(sys.XLogPos)}, nil
}

// verifyServer makes sure that the resume point belongs to this server's history (P16).
func (c *Config) verifyServer(ctx context.Context, conn *pgconn.PgConn, now identity, r *resume) error {
	const reset = "connect to the former server, or use another topic.prefix for this one"
	if r.System != now.System || r.Database != now.Database {
		return &connectors.Fault{
			Problem: fmt.Sprintf("the resume point belongs to database %s of system %s, but this is database %s of system %s", r.Database, r.System, now.Database, now.System),
			Remedy:  reset,
		}
	}
	if now.flush < r.LSN {
		return &connectors.Fault{
			Problem: fmt.Sprintf("the log holds changes up to %s, but the server's WAL ends at %s: it was restored to an earlier state", r.LSN, now.flush),
			Remedy:  reset,
		}
	}
	if r.Timeline == now.Timeline {
		return nil
	}
	h, err := pglogrepl.TimelineHistory(ctx, conn, now.Timeline)
	if err != nil {
		return fmt.Errorf("read history of timeline %d: %w", now.Timeline, err)
	}
	return divergence(parseHistory(string(h.Content)), r, now)
}

func divergence(lines []history, r *resume, now identity) error {
	for _, l := range lines {
		if l.timeline != r.Timeline {
			continue
		}
		if l.end >= r.LSN {
			return nil // a failover after what the log holds
		}
		return &connectors.Fault{
			Problem: fmt.Sprintf("the log holds changes up to %s of timeline %d, but the server left that timeline at %s: it lost transactions that are in the log", r.LSN, r.Timeline, l.end),
			Remedy:  "use another topic.prefix for the new primary and load its tables again",
		}
	}
	return &connectors.Fault{
		Problem: fmt.Sprintf("the server's timeline %d does not descend from timeline %d of the resume point", now.Timeline, r.Timeline),
		Remedy:  "connect to the former server, or use another topic.prefix for this one",
	}
}

// createSlot creates a slot on a replication connection; the snapshot it exports lives until the next command there.
func (c *Config) createSlot(ctx context.Context, conn *pgconn.PgConn, name string, temporary bool, version int) (lsn, string, error) {
	sql := "CREATE_REPLICATION_SLOT " + quoteIdent(name)
	if temporary {
		sql += " TEMPORARY"
	}
	sql += " LOGICAL " + plugin
	switch {
	case version >= failoverVersion && c.Failover && !temporary:
		sql += " (SNAPSHOT 'export', FAILOVER)"
	case version >= 150000:
		sql += " (SNAPSHOT 'export')"
	default:
		sql += " EXPORT_SNAPSHOT"
	}
	created, err := pglogrepl.ParseCreateReplicationSlot(conn.Exec(ctx, sql))
	if err != nil {
		return 0, "", fmt.Errorf("create slot %s: %w", name, err)
	}
	at, err := parseLSN(created.ConsistentPoint)
	return at, created.SnapshotName, err
}
