package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
)

const faultsShown = 5

// trail is what the log has, held against what the source says that it committed.
type trail struct {
	events  map[string]map[string]*logged // by transaction and table
	ends    map[string]map[string]int     // the counts of ENDs
	seen    map[versionID]int
	loaded  map[versionID]int
	problem []string
	count   int
}

type logged struct {
	stamps  []int64
	deletes int
	all     int // events, truncates among them
}

// versionID is a row version in a topic.
type versionID struct {
	table string
	stamp int64
}

func (t *trail) wrong(format string, args ...any) {
	t.count++
	if len(t.problem) < faultsShown {
		t.problem = append(t.problem, fmt.Sprintf(format, args...))
	}
}

// readTrail reads the whole log.
func readTrail(ctx context.Context, node *process.Rowtrail) (*trail, error) {
	client, err := node.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	t := &trail{events: map[string]map[string]*logged{}, ends: map[string]map[string]int{}, seen: map[versionID]int{}, loaded: map[versionID]int{}}
	return t, audit.Each(ctx, client, pipeline.Prefix, func(r *kgo.Record) error {
		if r.Value == nil {
			return nil
		}
		if r.Topic == audit.TransactionTopic(pipeline.Prefix) {
			return t.end(r)
		}
		return t.event(r)
	})
}

func (t *trail) event(r *kgo.Record) error {
	var e struct {
		Op     string
		After  *struct{ V int64 }
		Source struct {
			TxID  json.Number `json:"txId"`
			Table string
		}
	}
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return fmt.Errorf("read %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	table := e.Source.Table
	if e.Op == "r" || e.Source.TxID == "" {
		if e.After != nil {
			t.loaded[versionID{table, e.After.V}]++
		}
		return nil
	}
	if e.Op == "t" && r.Partition != 0 { // a truncate is in every partition
		return nil
	}
	id := e.Source.TxID.String()
	if t.events[id] == nil {
		t.events[id] = map[string]*logged{}
	}
	l := t.events[id][table]
	if l == nil {
		l = &logged{}
		t.events[id][table] = l
	}
	l.all++
	switch e.Op {
	case "d":
		l.deletes++
	case "c", "u":
		if e.After == nil {
			return fmt.Errorf("read %s/%d@%d: no row after in %s", r.Topic, r.Partition, r.Offset, r.Value)
		}
		l.stamps = append(l.stamps, e.After.V)
		v := versionID{table, e.After.V}
		if t.seen[v]++; t.seen[v] > 1 {
			t.wrong("twice: table %s version %d, the second time at %s/%d@%d", table, v.stamp, r.Topic, r.Partition, r.Offset)
		}
	}
	return nil
}

func (t *trail) end(r *kgo.Record) error {
	var e struct {
		Status, ID  string
		Collections []struct {
			Name  string `json:"data_collection"`
			Count int    `json:"event_count"`
		} `json:"data_collections"`
	}
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return fmt.Errorf("read %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	if e.Status != "END" {
		return nil
	}
	id, _, _ := strings.Cut(e.ID, ":")
	if t.ends[id] != nil {
		t.wrong("twice: the END of transaction %s", e.ID)
	}
	t.ends[id] = map[string]int{}
	for _, c := range e.Collections {
		_, name, _ := strings.Cut(c.Name, ".")
		t.ends[id][name] = c.Count
	}
	return nil
}

// check holds the log against the source. Tables that were there from the start under one name must have every row version
// once; others at most once.
func (t *trail) check(c *commits, steady map[string]bool) {
	for id, tables := range t.events {
		ends, ended := t.ends[id]
		if !ended {
			t.wrong("torn: transaction %s has events, and no END", id)
		}
		for table, l := range tables {
			if ended && ends[table] != l.all {
				t.wrong("torn: transaction %s has %d events of table %s, and its END says %d", id, l.all, table, ends[table])
			}
			if c.byID[id] == nil && c.noted(id) {
				t.wrong("never was: transaction %s, with %d events of table %s", id, l.all, table)
			}
		}
		for table, n := range ends {
			if tables[table] == nil && n > 0 {
				t.wrong("torn: transaction %s has no event of table %s, and its END says %d", id, table, n)
			}
		}
	}
	for id, tx := range c.byID {
		for table, want := range tx.tables {
			have := t.events[id][table]
			if have == nil {
				have = &logged{}
			}
			t.compare(id, table, want, have, steady[table])
		}
	}
	for v, n := range t.loaded {
		if n > 1 && steady[v.table] {
			t.wrong("loaded twice: table %s version %d", v.table, v.stamp)
		}
	}
}

func (t *trail) compare(id, table string, want *touched, have *logged, steady bool) {
	for _, stamp := range have.stamps {
		if !slices.Contains(want.stamps, stamp) {
			t.wrong("never was: version %d of table %s in transaction %s", stamp, table, id)
		}
	}
	if !steady {
		return
	}
	for _, stamp := range want.stamps {
		if !slices.Contains(have.stamps, stamp) {
			t.wrong("lost: version %d of table %s in transaction %s", stamp, table, id)
		}
	}
	if have.deletes < want.deletes || have.deletes > want.deletes && !want.unsure {
		t.wrong("transaction %s deletes %d rows of table %s at the source, %d in the log", id, want.deletes, table, have.deletes)
	}
}

func (t *trail) err() error {
	if t.count == 0 {
		return nil
	}
	return fmt.Errorf("the log differs from what the source committed in %d places: %s", t.count, strings.Join(t.problem, "; "))
}
