package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// cell is one place of the matrix.
type cell struct {
	server, mode string
	schemas      bool
	kase, op     string
}

// result is what a cell's comparison found.
type result struct {
	events      int
	explained   map[string]int // by the entries' ids
	unexplained []*difference
}

// matrix has the results of all cells.
type matrix struct {
	cells map[cell]*result
	seen  map[string]map[string]int // entry, server: differences
	first map[string]*difference    // an example of each entry
}

func newMatrix() *matrix {
	return &matrix{cells: map[cell]*result{}, seen: map[string]map[string]int{}, first: map[string]*difference{}}
}

func (m *matrix) at(c cell) *result {
	r := m.cells[c]
	if r == nil {
		r = &result{explained: map[string]int{}}
		m.cells[c] = r
	}
	return r
}

// add files a difference under the entry that explains it.
func (m *matrix) add(c cell, d *difference, entries []entry) {
	r := m.at(c)
	for i := range entries {
		e := &entries[i]
		if !e.explains(d) {
			continue
		}
		r.explained[e.id]++
		if m.seen[e.id] == nil {
			m.seen[e.id] = map[string]int{}
			m.first[e.id] = d
		}
		m.seen[e.id][d.server]++
		return
	}
	r.unexplained = append(r.unexplained, d)
}

// compare files what two captures of the same tables differ in.
func (m *matrix) compare(server string, md *mode, schemas bool, cases []tableCase, c connection, ours, theirs []record, entries []entry) {
	rows := map[string]string{topicMessage: "messages", topicTransaction: "transactions", topicSchemaChanges: "schema changes", topicHeartbeats: "heartbeats"}
	for _, k := range cases {
		rows[c.dataTopic(k.table)] = k.name
		for _, t := range k.also {
			rows[c.dataTopic(t)] = k.name
		}
	}
	byTopic := func(list []record) map[string][]*record {
		out := map[string][]*record{}
		for i := range list {
			if list[i].topic == topicHeartbeats && len(out[topicHeartbeats]) > 0 {
				continue // how many there are is a matter of time
			}
			out[list[i].topic] = append(out[list[i].topic], &list[i])
		}
		return out
	}
	mine, others := byTopic(ours), byTopic(theirs)
	topics := slices.Collect(maps.Keys(mine))
	for t := range others {
		if _, ok := mine[t]; !ok {
			topics = append(topics, t)
		}
	}
	slices.Sort(topics)
	for _, topic := range topics {
		row, ok := rows[topic]
		place := func(op string) (cell, *difference) {
			if !ok {
				row, op = "topic "+topic, opOther
			}
			return cell{server: server, mode: md.name, schemas: schemas, kase: row, op: op},
				&difference{server: server, mode: md, schemas: schemas, kase: row, op: op}
		}
		if len(mine[topic]) == 0 || len(others[topic]) == 0 {
			at, d := place(opOther)
			d.path, d.ours, d.theirs = "topic", counted(mine[topic]), counted(others[topic])
			m.at(at).events += len(mine[topic]) + len(others[topic])
			m.add(at, d, entries)
			continue
		}
		for _, p := range align(mine[topic], others[topic]) {
			at, _ := place(p.op)
			m.at(at).events++
			differ(p, func(path string, a, b any) {
				at, d := place(p.op)
				d.path, d.ours, d.theirs, d.ourRecord, d.theirRecord = path, a, b, p.ours, p.theirs
				m.add(at, d, entries)
			})
		}
		if a, b := order(mine[topic]), order(others[topic]); !slices.Equal(a, b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))) {
			at, d := place(opOther)
			d.path, d.ours, d.theirs = "order", a, b
			m.add(at, d, entries)
		}
	}
}

func counted(list []*record) any {
	if len(list) == 0 {
		return missing{}
	}
	return fmt.Sprintf("%d records", len(list))
}

// sorted are the cells in the order of their names.
func (m *matrix) sorted() []cell {
	list := slices.Collect(maps.Keys(m.cells))
	slices.SortFunc(list, func(a, b cell) int {
		return slices.Compare([]string{a.server, a.mode, fmt.Sprint(a.schemas), a.kase, a.op}, []string{b.server, b.mode, fmt.Sprint(b.schemas), b.kase, b.op})
	})
	return list
}

// most is how many unexplained differences of a cell are shown.
const most = 5

// report writes one line for each cell. Text shows unexplained differences below it.
func (m *matrix) report(out io.Writer, asJSON bool) error {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for _, c := range m.sorted() {
		r := m.cells[c]
		ids := slices.Sorted(maps.Keys(r.explained))
		var texts []string
		found := []map[string]string{}
		for _, d := range r.unexplained {
			texts = append(texts, d.String())
			found = append(found, map[string]string{"path": d.path, "rowtrail": text(d.ours), "debezium": text(d.theirs)})
		}
		if asJSON {
			if err := lines.Encode(map[string]any{
				"server": c.server, "mode": c.mode, "schemas": c.schemas, "case": c.kase, "op": c.op, "events": r.events, "explained": r.explained, "unexplained": found,
			}); err != nil {
				return err
			}
			continue
		}
		word := "ok"
		if len(texts) > 0 {
			word = "FAIL"
		}
		onOff := "off"
		if c.schemas {
			onOff = "on"
		}
		fmt.Fprintf(out, "%-4s %-8s %-42s schemas=%-3s %-28s %-8s %3d events %v\n", word, c.server, c.mode, onOff, c.kase, c.op, r.events, ids)
		for _, t := range texts[:min(len(texts), most)] {
			fmt.Fprintln(out, "     "+t)
		}
		if len(texts) > most {
			fmt.Fprintf(out, "     and %d more\n", len(texts)-most)
		}
	}
	return nil
}

// unexplained counts.
func (m *matrix) unexplained() (n int) {
	for _, r := range m.cells {
		n += len(r.unexplained)
	}
	return n
}
