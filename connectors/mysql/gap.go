package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// verify compares the resume point with the server before the dump (M10, M11). Invariant 7: what the source no longer has is never
// passed over in silence.
func (r *run) verify(ctx context.Context, s *session) error {
	if r.resume.point.base == nil {
		return r.verifyFile(ctx, s)
	}
	if !r.server.gtids() {
		return &connectors.Fault{
			Problem: "the resume point is a set of GTIDs, and the source's gtid_mode is " + r.server.variables["gtid_mode"],
			Remedy:  "SET GLOBAL gtid_mode = 'ON' again; or " + r.config.again(),
		}
	}
	set, err := r.resume.point.executed()
	if err != nil {
		return err
	}
	executed, err := r.server.executed()
	if err != nil {
		return fmt.Errorf("read what the source has executed: %w", err)
	}
	purged, err := r.purged(ctx, s)
	if err != nil {
		return err
	}
	gap, err := gtid.MissingFrom(set, executed, purged)
	if err != nil {
		return err
	}
	switch {
	case !gap.Missing.IsEmpty():
		return r.config.gap("transactions "+gap.Missing.String()+" are not in the log, and the source has purged them from its binlog", nil)
	case gap.Ahead.IsEmpty():
		return nil
	case r.replica:
		return &connectors.Passing{
			Problem: "the source is a replica and has not applied what is in the log: it lacks " + gap.Ahead.String(),
			Remedy:  "wait until it has, or see SHOW REPLICA STATUS there",
		}
	}
	fault := &connectors.Fault{
		Problem: "the source has never executed what is in the log: it lacks " + gap.Ahead.String() + "; it lost these transactions, or is another server",
		Remedy:  "connect to the server that has them; or use another topic.prefix for this one; or " + r.config.again(),
	}
	if r.config.Repair && r.resume.uuid == r.server.identity() { // it was reset, or lost its end
		return &gapError{Fault: fault}
	}
	return fault
}

// purged is what the source's binlog no longer has.
func (r *run) purged(ctx context.Context, s *session) (*gtid.Set, error) {
	if !r.config.MariaDB {
		return gtid.Parse(gtid.MySQL, r.server.variables["gtid_purged"])
	}
	files, err := s.binlogFiles(ctx)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return gtid.New(gtid.MariaDB), nil
	}
	// The position at which the oldest file begins; NULL where it has none.
	list, err := s.query(ctx, "SELECT BINLOG_GTID_POS("+quoteLiteral(files[0].file)+", 4)")
	if err != nil {
		return nil, fmt.Errorf("read where the oldest binlog begins: %w", err)
	}
	return gtid.Parse(gtid.MariaDB, string(list[0][0]))
}

// verifyFile is verify for a position of file and offset, which means something on one server alone.
func (r *run) verifyFile(ctx context.Context, s *session) error {
	at := r.resume.point.at
	if now := r.server.identity(); r.resume.uuid != now {
		return &connectors.Fault{
			Problem: fmt.Sprintf("the resume point %s is of server %s, and this is server %s, whose positions mean something else", at, r.resume.uuid, now),
			Remedy:  "connect to the former server, or SET GLOBAL gtid_mode = 'ON' on all servers before a failover; or " + r.config.again(),
		}
	}
	files, err := s.binlogFiles(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(files, func(f place) bool { return f.file == at.file })
	if i >= 0 && at.pos <= files[i].pos {
		return nil
	}
	want := fileNumber(at.file)
	if i < 0 && len(files) > 0 {
		if want < fileNumber(files[0].file) {
			return r.config.gap(fmt.Sprintf("what follows %s is not in the log, and the source's oldest binlog is %s", at, files[0].file), nil)
		}
	}
	return &gapError{Fault: &connectors.Fault{
		Problem: fmt.Sprintf("the resume point %s is beyond the end of the source's binlog: it was reset, or the server lost its end", at),
		Remedy:  "connect to the server that has it; or " + r.config.again(),
	}}
}

// gapError is a Fault about changes that the source no longer gives, which a repair makes up for (on.gap), or a new load (snapshot.mode
// when_needed).
type gapError struct {
	*connectors.Fault
	next *point // where the stream can go on; nil: where the source's binlog begins
	end  bool   // or, nil: where it ends
}

func (e *gapError) Unwrap() error { return e.Fault }

// gap is the Fault for changes that the source no longer gives.
func (c *Config) gap(problem string, err error) *gapError {
	retention := "SET PERSIST binlog_expire_logs_seconds = 604800"
	if c.MariaDB {
		retention = "SET GLOBAL binlog_expire_logs_seconds = 604800"
	}
	return &gapError{Fault: &connectors.Fault{
		Problem: "a gap in the source's history: " + problem, Err: err,
		Remedy: "set on.gap: repair, which compares the tables with the log; connect to a server that still has them; or " + c.again() + ". Keep binlogs longer than the connector may be away: " + retention,
	}}
}
