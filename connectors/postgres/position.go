package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/park"
)

// lsn is a place in the source's WAL; its text form is Postgres'.
type lsn uint64

func (l lsn) String() string { return pglogrepl.LSN(l).String() }

func (l lsn) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, l.String()), nil }

func (l *lsn) UnmarshalJSON(b []byte) error {
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("parse LSN: %w", err)
	}
	v, err := pglogrepl.ParseLSN(s)
	*l = lsn(v)
	return err
}

func parseLSN(s string) (lsn, error) {
	v, err := pglogrepl.ParseLSN(s)
	if err != nil {
		return 0, fmt.Errorf("parse LSN %q: %w", s, err)
	}
	return lsn(v), nil
}

// server identifies the history that LSNs belong to (P16).
type server struct {
	System   string
	Timeline int32
	Database string
}

// loaded is a table's load. The OID tells a table that was dropped and created again from the one that was loaded.
type loaded struct {
	at  lsn
	oid uint32
}

// loads says at which consistent point each table was loaded. A value is never changed once it is part of a mark.
type loads map[string]loaded

// without is what stays when a table has to be loaded again.
func (l loads) without(name string) loads {
	next := maps.Clone(l)
	delete(next, name)
	return next
}

func (l loads) with(tables []*table, at lsn) loads {
	next := maps.Clone(l)
	if next == nil {
		next = loads{}
	}
	for _, t := range tables {
		next[t.String()] = loaded{at, t.oid}
	}
	return next
}

// has tells whether this very table is loaded.
func (l loads) has(name string, oid uint32) bool {
	at, ok := l[name]
	return ok && at.oid == oid
}

// resume is the connector's resume point, the value of its record in the position topic.
type resume struct {
	server
	LSN      lsn    // every transaction that committed before it is in the log
	Commit   lsn    // commit LSN of the last one, 0 none yet
	TimeUs   int64  // its commit time
	Slot     string // whose stream it belongs to
	Complete bool   // the initial load is done (P3: one durable record)
	Loaded   loads
	// Publication that the slot is read through, 0 not known: see skipsPublication.
	Publication uint32
	Parked      *park.Tables
}

// resumeJSON groups tables by consistent point: most share one.
type resumeJSON struct {
	Version  int                          `json:"version"`
	System   string                       `json:"system"`
	Timeline int32                        `json:"timeline"`
	Database string                       `json:"database"`
	Slot     string                       `json:"slot"`
	LSN      lsn                          `json:"lsn"`
	Commit   lsn                          `json:"commit_lsn"`
	TimeUs   int64                        `json:"ts_us"`
	Complete bool                         `json:"loaded"`
	Publ     uint32                       `json:"publication,omitempty"`
	Parked   json.RawMessage              `json:"parked,omitempty"`
	Loads    map[string]map[string]uint32 `json:"loads,omitempty"`
}

const resumeVersion = 1

func (r *resume) append(dst []byte) []byte { return r.appendWith(dst, encodeLoads(r.Loaded)) }

// appendWith takes the loads as encoded: with many tables they are the most of it, and the same in every commit of a stream.
func (r *resume) appendWith(dst []byte, e *encodedLoads) []byte {
	head, err := json.Marshal(resumeJSON{
		Version: resumeVersion, System: r.System, Timeline: r.Timeline, Database: r.Database, Slot: r.Slot,
		LSN: r.LSN, Commit: r.Commit, TimeUs: r.TimeUs, Complete: r.Complete, Publ: r.Publication, Parked: r.Parked.JSON(),
	})
	if err != nil { // plain data marshals; an invalid UTF-8 name is replaced, never refused
		return dst
	}
	dst = append(dst, head...)
	if len(e.json) == 0 {
		return dst
	}
	dst = append(dst[:len(dst)-1], `,"loads":`...)
	return append(append(dst, e.json...), '}')
}

// encodedLoads is the JSON of loads, made once for a stream.
type encodedLoads struct{ json []byte }

// streamed is what a mark of the stream has besides the position. It never changes.
type streamed struct {
	loads  *encodedLoads
	parked *park.Tables
}

func encodeLoads(l loads) *encodedLoads {
	if len(l) == 0 {
		return &encodedLoads{}
	}
	points := map[string]map[string]uint32{}
	for name, t := range l {
		at := t.at.String()
		if points[at] == nil {
			points[at] = map[string]uint32{}
		}
		points[at][name] = t.oid
	}
	b, err := json.Marshal(points)
	if err != nil { // as above
		return &encodedLoads{}
	}
	return &encodedLoads{json: b}
}

// errNewerResume is a resume point of a version that this build does not know.
var errNewerResume = errors.New("resume point has an unknown version")

func parseResume(b []byte) (*resume, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("parse resume point: %w", err)
	}
	if head.Version != resumeVersion { // its other fields may have another meaning
		return nil, fmt.Errorf("%w: %d, this build knows %d", errNewerResume, head.Version, resumeVersion)
	}
	var j resumeJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("parse resume point: %w", err)
	}
	r := &resume{
		server: server{j.System, j.Timeline, j.Database}, Slot: j.Slot,
		LSN: j.LSN, Commit: j.Commit, TimeUs: j.TimeUs, Complete: j.Complete, Loaded: loads{}, Publication: j.Publ,
	}
	for at, tables := range j.Loads {
		l, err := parseLSN(at)
		if err != nil {
			return nil, fmt.Errorf("parse resume point: %w", err)
		}
		for name, oid := range tables {
			r.Loaded[name] = loaded{l, oid}
		}
	}
	var err error
	if r.Parked, err = park.Parse(j.Parked); err != nil {
		return nil, fmt.Errorf("parse resume point: %w", err)
	}
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
		return nil, &connectors.Fault{
			Problem: "the resume point in topic " + c.Prefix + ".position cannot be read", Err: err,
			Remedy: fmt.Sprintf("if nothing else writes to that topic, report this; SELECT pg_drop_replication_slot(%s) delete the topic (`rowtrail topics delete`) and restart the connector (`rowtrail connectors restart`): it loads its tables again",
				quoteLiteral(c.Slot)),
		}
	}
	return r, nil
}

// history is one line of a timeline's history: the timeline ended at this LSN.
type history struct {
	timeline int32
	end      lsn
}

func parseHistory(content string) []history {
	var list []history
	for _, line := range strings.Split(content, "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") {
			continue
		}
		tli, err := strconv.ParseInt(f[0], 10, 32)
		at, err2 := parseLSN(f[1])
		if err == nil && err2 == nil {
			list = append(list, history{int32(tli), at})
		}
	}
	return list
}
