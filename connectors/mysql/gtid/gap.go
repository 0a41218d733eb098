package gtid

import "fmt"

// Gap is what stands between a resume point and a server.
type Gap struct {
	// Missing were executed and purged from the server's binlogs before they were read: a dump would skip them, or fail. Of
	// MariaDB, each domain's last such GTID.
	Missing *Set
	// Ahead are in the resume point, and the server has never had them: it lost them, or is another server.
	Ahead *Set
}

// Found says whether there is a gap.
func (g Gap) Found() bool { return !g.Missing.IsEmpty() || !g.Ahead.IsEmpty() }

// MissingFrom compares a resume point with a server before the binlog is asked for. MySQL: gtid_executed and gtid_purged.
// MariaDB: gtid_binlog_pos, and as purged the position at which the oldest binlog starts (its Gtid_list event).
func MissingFrom(resume, executed, purged *Set) (Gap, error) {
	g := Gap{Missing: purged.Clone(), Ahead: resume.Clone()}
	if err := g.Missing.Subtract(resume); err != nil {
		return Gap{}, fmt.Errorf("compare the resume point with what is purged: %w", err)
	}
	if err := g.Ahead.Subtract(executed); err != nil {
		return Gap{}, fmt.Errorf("compare the resume point with what is executed: %w", err)
	}
	return g, nil
}

// Errant are the GTIDs that a failover target executed and its former source never did: they were written on the target
// itself, so that rows of it differ from what was read from the source. After the failover the target's own new
// transactions are among them, so source and target are to be read before writes start there.
func Errant(target, source *Set) (*Set, error) {
	e := target.Clone()
	if err := e.Subtract(source); err != nil {
		return nil, fmt.Errorf("compare the target with its source: %w", err)
	}
	return e, nil
}
