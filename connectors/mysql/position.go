package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
	"github.com/rowtrail/rowtrail/connectors/mysql/state"
	"github.com/rowtrail/rowtrail/connectors/park"
)

// point is a place between two source transactions. It does not change once it is part of a mark.
//
// What was executed is base and a run of consecutive transactions of one server, so that a transaction costs no copy of a set.
type point struct {
	base  *gtid.Set // nil: by file and position alone
	run   gtid.GTID // the last of the run, none if first is 0
	first uint64

	at      place
	commits uint64 // source transactions up to here, over all servers and restarts
	timeUs  int64  // of the last one's commit
	parked  *park.Tables
	load    []byte // what the load has to go on from; nil: nothing is to be loaded
	held    []byte // the tables whose rows are in the log, a tableSet; nil: it is not known
	seek    *seek  // for transactions that were prepared before the point; nil: none are looked for

	trust  *state.Trust // in what the log has of rows
	repair *repairState // nil: there is none

	history *uint64 // Place.Order of the schema history's last change; nil: there was no history
}

// after is the point after one more transaction.
func (p *point) after(g *gtid.GTID, at place, timeUs int64) (*point, error) {
	n := *p
	n.at, n.timeUs = at, timeUs
	n.commits++
	if p.base == nil || g == nil {
		return &n, nil
	}
	next := p.run
	next.Number++
	if p.first > 0 && next == *g {
		n.run = next
		return &n, nil
	}
	base, err := p.executed()
	if err != nil {
		return nil, err
	}
	n.base, n.run, n.first = base, *g, g.Number
	return &n, nil
}

// executed is the whole set; nil where there are no GTIDs.
func (p *point) executed() (*gtid.Set, error) {
	if p.base == nil || p.first == 0 {
		return p.base, nil
	}
	set := p.base.Clone()
	if p.run.Flavour == gtid.MariaDB { // a domain's last transaction stands for the run
		first := p.run
		first.Number = p.first
		if err := set.Add(first); err != nil {
			return nil, err
		}
		return set, set.Add(p.run)
	}
	from := p.run
	from.Number = p.first
	text := fmt.Sprintf("%s-%d", from, p.run.Number)
	run, err := gtid.Parse(gtid.MySQL, text)
	if err != nil {
		return nil, err
	}
	return set, set.Union(run)
}

// has tells whether a transaction is before the point. MariaDB's numbers need not rise, and its server begins where it is told to.
func (p *point) has(g gtid.GTID) bool {
	if p.base == nil || g.Flavour == gtid.MariaDB {
		return false
	}
	if p.first > 0 && g.UUID == p.run.UUID && g.Tag == p.run.Tag && g.Number >= p.first && g.Number <= p.run.Number {
		return true
	}
	return p.base.Contains(g)
}

// String is the position as the source writes it.
func (p *point) String() string {
	set, err := p.executed()
	if set == nil || err != nil {
		return p.at.String()
	}
	return set.String()
}

// resume is the connector's resume point, the value of its record in the position topic.
type resume struct {
	point *point
	uuid  string // of the server that file and position are of

	capture string // Config.capture of the run that wrote it
	source  string // KindMySQL or KindMariaDB
}

type resumeJSON struct {
	Version int      `json:"version"`
	Source  string   `json:"source"`
	Server  string   `json:"server_uuid,omitempty"`
	GTID    *string  `json:"gtid,omitempty"`
	Loose   []uint32 `json:"loose,omitempty"` // domains whose numbers do not only rise
	File    string   `json:"file"`
	Pos     uint64   `json:"pos"`
	Commits uint64   `json:"commits"`
	TimeUs  int64    `json:"ts_us"`
	Load    []byte   `json:"load,omitempty"`
	History *uint64  `json:"history,omitempty"`

	Seek *seekJSON `json:"seek,omitempty"`

	Parked json.RawMessage `json:"parked,omitempty"`

	Held json.RawMessage `json:"tables,omitempty"` // appended by hand: with many tables it is the most of it, and the same in every commit

	Trust   *state.Trust `json:"trust,omitempty"`
	Capture string       `json:"capture,omitempty"` // of what is captured: Config.capture
	Repair  *repairState `json:"repair,omitempty"`
}

const resumeVersion = 1

func (r *resume) append(dst []byte) ([]byte, error) {
	j := resumeJSON{
		Version: resumeVersion, Source: r.source, Server: r.uuid, File: r.point.at.file, Pos: r.point.at.pos, Commits: r.point.commits, TimeUs: r.point.timeUs, Load: r.point.load, Parked: r.point.parked.JSON(),
		Trust: r.point.trust, Capture: r.capture, Repair: r.point.repair,
		History: r.point.history,
	}
	if r.point.seek != nil {
		j.Seek = r.point.seek.json()
	}
	set, err := r.point.executed()
	if err != nil {
		return dst, err
	}
	if set != nil {
		text := set.String()
		j.GTID, j.Loose = &text, set.Loose()
	}
	b, err := json.Marshal(j)
	if err != nil {
		return dst, err
	}
	if dst = append(dst, b...); r.point.held != nil {
		dst = append(dst[:len(dst)-1], `,"tables":`...)
		dst = append(append(dst, r.point.held...), '}')
	}
	return dst, nil
}

// errNewerResume is a resume point of a version that this build does not know.
var errNewerResume = errors.New("resume point has an unknown version")

func parseResume(b []byte) (*resume, error) {
	var j resumeJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("parse resume point: %w", err)
	}
	if j.Version != resumeVersion {
		return nil, fmt.Errorf("%w: %d, this build knows %d", errNewerResume, j.Version, resumeVersion)
	}
	r := &resume{source: j.Source, uuid: j.Server, capture: j.Capture, point: &point{at: place{j.File, j.Pos}, commits: j.Commits, timeUs: j.TimeUs, load: j.Load, held: j.Held, trust: j.Trust, repair: j.Repair, history: j.History}}
	var err error
	if r.point.parked, err = park.Parse(j.Parked); err != nil {
		return nil, fmt.Errorf("parse resume point: %w", err)
	}
	if j.Seek != nil {
		r.point.seek = j.Seek.seek()
	}
	if j.GTID == nil {
		return r, nil
	}
	flavour := gtid.MySQL
	if j.Source == KindMariaDB {
		flavour = gtid.MariaDB
	}
	set, err := gtid.Parse(flavour, *j.GTID)
	if err != nil {
		return nil, fmt.Errorf("parse resume point: %w", err)
	}
	for _, id := range j.Loose {
		set.MarkLoose(id)
	}
	r.point.base = set
	return r, nil
}

// readResume is parseResume for the connector, which a wrong resume point stops: without it nothing tells what is in the log.
func (c *Config) readResume(b []byte) (*resume, error) {
	r, err := parseResume(b)
	switch {
	case errors.Is(err, errNewerResume):
		return nil, &connectors.Fault{
			Problem: "topic " + c.Prefix + ".position was written by another version of Rowtrail", Err: err,
			Remedy: "run that version, or a newer one",
		}
	case err != nil:
		return nil, &connectors.Fault{Problem: "the resume point in topic " + c.Prefix + ".position cannot be read", Err: err, Remedy: c.again()}
	case r.source != c.kind():
		return nil, &connectors.Fault{
			Problem: fmt.Sprintf("topic %s.position is of a %s connector, this one is of type %s", c.Prefix, r.source, c.kind()),
			Remedy:  "use another topic.prefix",
		}
	}
	return r, nil
}

// again says how to begin anew.
func (c *Config) again() string {
	return "delete topic " + c.Prefix + ".position (`rowtrail topics delete`) and restart the connector (`rowtrail connectors restart`): it begins anew, " +
		"and what changed in between is missing from the topics"
}

// reload says how to load one table again.
func (c *Config) reload(collection string) string {
	return "`rowtrail connectors unpark " + c.Name + " " + collection + " --reload`"
}

// begin is the point where a connector without resume point begins: everything up to it is left to the load, or out.
func (r *run) begin(ctx context.Context, s *session, at place) (*point, error) {
	now := time.Now().UnixMicro()
	// The count goes on from the time, so that it is above that of everything that the topics have from a connector before.
	p := &point{at: at, timeUs: now, commits: uint64(now), trust: (*state.Trust)(nil).All(uint64(now))}
	if err := r.seek(ctx, s, p); err != nil {
		return nil, err
	}
	if !r.server.gtids() {
		return p, nil
	}
	var err error
	if p.base, err = r.server.executed(); err != nil {
		return nil, fmt.Errorf("read what the source has executed: %w", err)
	}
	if !r.server.mariaDB { // the end of the binlog may be behind what is executed: the stream will tell where it is
		p.at = place{}
		return p, nil
	}
	list, err := s.query(ctx, fmt.Sprintf("SELECT BINLOG_GTID_POS(%s, %d)", quoteLiteral(at.file), at.pos))
	if err != nil {
		return nil, fmt.Errorf("read the GTID at %s: %w", at, err)
	}
	if text := string(list[0][0]); text != "" { // nothing is in the binlog yet
		p.base, err = gtid.Parse(gtid.MariaDB, text)
	}
	return p, err
}
