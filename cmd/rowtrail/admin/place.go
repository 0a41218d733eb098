package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql"
	"github.com/rowtrail/rowtrail/snapshot"
)

// A source position is shown and asked for as its source writes it: an LSN of Postgres, whose number orders the log; of MySQL and MariaDB a
// GTID or file:pos, to which the transaction topic has the number.

// sourceOf is what an event tells of its source.
type sourceOf struct {
	Connector string
	GTID      *string
	File      string
	Pos       json.Number
}

func (s *sourceOf) binlog() bool {
	return s.Connector == event.SourceMySQL || s.Connector == event.SourceMariaDB
}

// Places tells records' places in their sources. It belongs to one reader of records in order.
type Places struct {
	commit uint64
	text   string
	binlog *bool // of the last record that told; nil: none did
}

// Of is a record's place: an LSN, a GTID or file:pos; "" where neither the record nor the one before tells, as of the
// tombstone of a delete that compaction took. commit is its number in the position header.
func (p *Places) Of(value []byte, commit uint64) string {
	if s, text, ok := placeIn(value); ok {
		p.binlog, p.commit, p.text = &s, commit, text
	}
	switch {
	case p.binlog == nil && value == nil:
		return ""
	case p.binlog == nil || !*p.binlog:
		return FormatLSN(commit)
	case commit == p.commit:
		return p.text
	}
	return ""
}

// placeIn is the place that a record's value tells; text is "" for one that is told by its number.
func placeIn(value []byte) (binlog bool, text string, ok bool) {
	if e, isEvent := parseEnvelope(value); isEvent {
		var s sourceOf
		if json.Unmarshal(e.Source, &s) != nil || !s.binlog() {
			return false, "", true
		}
		if s.GTID != nil && *s.GTID != "" {
			return true, *s.GTID, true
		}
		return true, fmt.Sprintf("%s:%s", s.File, s.Pos), true
	}
	t, err := event.ParseTransaction(value)
	if err != nil {
		return false, "", false
	}
	if file, pos, found := strings.Cut(strings.TrimPrefix(t.ID, "file="), ",pos="); found {
		return true, file + ":" + pos, true
	}
	_, gtid := mysql.ParseCut(t.ID)
	return gtid, t.ID, true
}

// tell has the places know the kind of source where a record does not tell, by the table version that its header names.
func (p *Places) tell(ctx context.Context, versions *columnReader, row snapshot.Row) {
	if p.binlog != nil || row.Value != nil || len(row.Place) == 0 || versions.schemas == "" {
		return
	}
	pos, err := event.ParsePosition(row.Place)
	if err != nil || pos.Schema == 0 {
		return
	}
	if d, err := versions.decoder(ctx, pos.Schema); err == nil && d != nil {
		binlog := d.Schema().Source == event.SourceMySQL || d.Schema().Source == event.SourceMariaDB
		p.binlog = &binlog
	}
}

// prefixOf is the prefix of the connector that a topic is of: the longest X whose own topic exists; "" if none does.
func prefixOf(node Node, topic, own string) string {
	for i := strings.LastIndexByte(topic, '.'); i > 0; i = strings.LastIndexByte(topic[:i], '.') {
		if _, ok := node.Topic(topic[:i] + own); ok {
			return topic[:i]
		}
	}
	return ""
}

// at reads a point in a topic, of a binlog's too.
func (s *Server) at(ctx context.Context, views Views, t Topic, text string, now time.Time) (snapshot.At, error) {
	at, err := ParseAt(text, now)
	if err == nil {
		if at.Position != nil {
			if name, binlog := s.binlogConnector(t.Name); binlog {
				return at, fmt.Errorf("%s is a position of Postgres, and connector %s writes GTIDs, or files and offsets: write one as the rows have it in position", text, name)
			}
		}
		return at, s.reached(ctx, t, at, now)
	}
	cut, ok := mysql.ParseCut(text)
	if !ok {
		return at, err
	}
	position, err := s.commitOf(ctx, views, t.Name, text, cut)
	if err != nil {
		return snapshot.At{}, err
	}
	return snapshot.At{Position: &position}, nil
}

// binlogConnector tells whether a connector of MySQL or MariaDB that this node knows of writes a topic.
func (s *Server) binlogConnector(topic string) (name string, binlog bool) {
	for _, c := range s.opts.Node.Connectors() {
		if strings.HasPrefix(topic, topicsOf(c)) {
			return c.Name, c.Type == mysql.KindMySQL || c.Type == mysql.KindMariaDB
		}
	}
	return "", false
}

// commitOf is the number of the last source transaction that is up to a cut. It is exact, or an error: never one that is only likely.
func (s *Server) commitOf(ctx context.Context, views Views, topic, text string, cut *mysql.Cut) (uint64, error) {
	prefix := prefixOf(s.opts.Node, topic, ".transaction")
	if prefix == "" {
		return 0, fmt.Errorf("%s is a place in a binlog, and no connector writes %s; ask by offset or time", text, topic)
	}
	transactions := prefix + ".transaction"
	now := snapshot.At{Now: true}
	if id := cut.ID(); id != "" {
		for _, schemas := range []bool{false, true} {
			end := event.TransactionEnd{ID: id}
			row, found, err := views.Latest(ctx, transactions, end.AppendKey(nil, schemas), now)
			if err != nil {
				return 0, fmt.Errorf("look for %s in %s: %w", id, transactions, err)
			}
			if found && row.Position > 0 {
				return row.Position, nil
			}
		}
	}
	// No transaction of that name changed a captured table: those around it decide.
	var last, next uint64 // up to the cut, after it
	known := false
	err := views.Scan(ctx, transactions, now, func(row snapshot.Row) error {
		t, err := event.ParseTransaction(row.Value)
		if row.Deleted || err != nil || row.Position == 0 {
			return nil //nolint:nilerr // no transaction
		}
		before, sided := cut.Before(t.ID)
		known = known || sided
		switch {
		case !sided:
		case before:
			last = max(last, row.Position)
		case next == 0 || row.Position < next:
			next = row.Position
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("look for %s in %s: %w", text, transactions, err)
	case !known:
		return 0, fmt.Errorf("%s cannot be compared with the transactions in %s: write a place as the rows have it in position, or ask by time", text, transactions)
	case last == 0:
		return 0, fmt.Errorf("%s is before the first transaction in %s; ask for a later point, or by offset", text, transactions)
	case next > 0 && next < last:
		return 0, fmt.Errorf("%s parts no two transactions of %s: some after it were committed before others up to it; ask by the GTID of one transaction, or by time", text, transactions)
	case next > 0:
		return last, nil
	}
	return last, s.cutReached(ctx, prefix, text, cut)
}

// cutReached refuses a cut that the log has not come to: transactions up to it may follow.
func (s *Server) cutReached(ctx context.Context, prefix, text string, cut *mysql.Cut) error {
	for _, c := range s.opts.Node.Connectors() {
		if topicsOf(c) != prefix+"." {
			continue
		}
		reached, known := cut.Reached(c.Position)
		if !reached && !c.Here && s.opts.Position != nil {
			// What is known of another node's connector is older than what it has written.
			if position, ok := s.opts.Position(ctx, c.Node, c.Name); ok {
				c.Position = position
				reached, known = cut.Reached(position)
			}
		}
		switch {
		case reached:
			return nil
		case known:
			return fmt.Errorf("position %s is beyond %s, up to which connector %s has written; leave the point out to ask for now", text, c.Position, c.Name)
		}
	}
	return fmt.Errorf("no connector says whether it has come to %s, and no later transaction is in %s.transaction; ask by time or offset", text, prefix)
}

// topicsOf begins the names of a connector's topics.
func topicsOf(c connectors.Status) string {
	if c.Prefix == "" {
		return c.Name + "."
	}
	return c.Prefix + "."
}
