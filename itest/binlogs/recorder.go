package binlogs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// Recorder records what a server writes. Nothing else may write to the server meanwhile.
type Recorder struct {
	server   *servers.MySQL
	sessions map[string]*client.Conn
	truth    *truth
	database string
	start    position
	ends     []position
	record   Recording
}

// position in a binary log; files are compared by their number.
type position struct {
	file string
	pos  uint64
}

func (p position) number() int {
	n, _ := strconv.Atoi(p.file[strings.LastIndexByte(p.file, '.')+1:])
	return n
}

func (p position) after(o position) bool {
	return p.number() > o.number() || p.number() == o.number() && p.pos > o.pos
}

// Start begins a recording with a new binary log file. Statements run in the database, which is made anew before, and
// its tables are looked at after each.
func Start(ctx context.Context, m *servers.MySQL, database string) (*Recorder, error) {
	if err := m.Exec(ctx, "", "DROP DATABASE IF EXISTS "+database, "CREATE DATABASE "+database, "FLUSH BINARY LOGS"); err != nil {
		return nil, err
	}
	version, err := m.Query(ctx, "", "SELECT VERSION()")
	if err != nil {
		return nil, err
	}
	r := &Recorder{server: m, sessions: map[string]*client.Conn{}, database: database}
	r.record = Recording{Flavour: m.Flavour(), Server: version[0][0]}
	if r.start, err = r.position(ctx); err != nil {
		return nil, err
	}
	conn, err := m.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	if r.truth, err = newTruth(conn, database); err != nil {
		return nil, err
	}
	return r, nil
}

// Exec runs statements as steps, in the recorder's own session.
func (r *Recorder) Exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if err := r.ExecIn(ctx, "", s); err != nil {
			return err
		}
	}
	return nil
}

// ExecIn runs a statement as a step, in the session of that name, which is opened when it is new.
func (r *Recorder) ExecIn(ctx context.Context, session, statement string) error {
	conn := r.sessions[session]
	if conn == nil {
		var err error
		if conn, err = r.server.Connect(ctx, r.database); err != nil {
			return err
		}
		r.sessions[session] = conn
		if _, err := conn.Execute("SET NAMES utf8mb4"); err != nil {
			return err
		}
	}
	if _, err := conn.Execute(statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	end, err := r.position(ctx)
	if err != nil {
		return err
	}
	tables, err := r.truth.changes()
	if err != nil {
		return fmt.Errorf("after %s: %w", statement, err)
	}
	r.ends = append(r.ends, end)
	r.record.Steps = append(r.record.Steps, Step{SQL: statement, Tables: tables})
	return nil
}

// Close ends the recorder's sessions.
func (r *Recorder) Close() {
	for _, c := range r.sessions {
		_ = c.Close()
	}
	_ = r.truth.conn.Close()
}

func (r *Recorder) position(ctx context.Context) (position, error) {
	file, pos, err := r.server.BinaryLog(ctx)
	return position{file: file, pos: pos}, err
}

// Finish reads the events and gives each to the statement that wrote it.
func (r *Recorder) Finish(ctx context.Context) (*Recording, error) {
	events, err := Dump(ctx, r.server, r.start.file, 4)
	if err != nil {
		return nil, err
	}
	at := position{file: r.start.file}
	step := -1 // the head
	var pending [][]byte
	for _, e := range events {
		pending = append(pending, e)
		if at.pos = uint64(logPos(e)); at.pos != 0 {
			for at.after(r.end(step)) && step+1 < len(r.ends) {
				step++
			}
			r.give(step, pending)
			pending = nil
		}
		if EventType(e) == eventRotate {
			at = position{file: r.rotatesTo(e)}
		}
	}
	r.give(step, pending)
	return &r.record, nil
}

func (r *Recorder) end(step int) position {
	if step < 0 {
		return r.start
	}
	return r.ends[step]
}

func (r *Recorder) give(step int, events [][]byte) {
	if step < 0 {
		r.record.Head = append(r.record.Head, events...)
		return
	}
	s := &r.record.Steps[step]
	s.Events = slices.Concat(s.Events, events)
}

// rotatesTo is the file that a rotate event names. A checksum may follow the name, which has the length of all names.
func (r *Recorder) rotatesTo(e []byte) string {
	name := e[headerSize+8:]
	return string(name[:min(len(name), len(r.start.file))])
}
