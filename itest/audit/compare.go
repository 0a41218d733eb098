package audit

import "fmt"

// Report is what Compare found. Torn counts transactions of which the log shows some events but no END, or whose
// END counts other events than are there; Disordered counts keys whose changes stand in another order than committed.
type Report struct {
	Transactions, Changes        int
	Lost, Duplicated, Unexpected int
	Torn, Disordered             int
	Examples                     []string
}

// maxExamples bounds what a failing report prints.
const maxExamples = 10

// OK reports that every change is there exactly once, whole and in order.
func (r *Report) OK() bool {
	return r.Lost+r.Duplicated+r.Unexpected+r.Torn+r.Disordered == 0
}

func (r *Report) example(format string, args ...any) {
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}

type changeID struct {
	tx string
	c  Change
}

type key struct {
	table string
	id    int64
}

// Compare holds the log's trail against the source's committed transactions.
func Compare(source []Transaction, trail *Trail) *Report {
	r := &Report{Transactions: len(source)}
	want := map[changeID]int{}
	order := map[key][]changeID{} // per key, in commit order
	for _, tx := range source {
		for _, c := range tx.Changes {
			id := changeID{tx.ID, c}
			want[id]++
			r.Changes++
			k := key{c.Table, c.ID}
			order[k] = append(order[k], id)
		}
	}
	events := append([]Event(nil), trail.Events...)
	sortByPlace(events)
	got := map[changeID]int{}
	counts := map[string]map[string]int64{}
	seen := map[key][]changeID{}
	for _, e := range events {
		id := changeID{e.Tx, e.Change}
		got[id]++
		if counts[e.Tx] == nil {
			counts[e.Tx] = map[string]int64{}
		}
		counts[e.Tx][e.Table]++
		k := key{e.Table, e.ID}
		seen[k] = append(seen[k], id)
	}
	for id, n := range want {
		if missing := n - got[id]; missing > 0 {
			r.Lost += missing
			r.example("lost: transaction %s %s %c id %d rev %d", id.tx, id.c.Table, id.c.Op, id.c.ID, id.c.Rev)
		}
	}
	for id, n := range got {
		switch extra := n - want[id]; {
		case want[id] == 0:
			r.Unexpected += n
			r.example("not of the source: transaction %s %s %c id %d rev %d", id.tx, id.c.Table, id.c.Op, id.c.ID, id.c.Rev)
		case extra > 0:
			r.Duplicated += extra
			r.example("duplicated: transaction %s %s %c id %d rev %d", id.tx, id.c.Table, id.c.Op, id.c.ID, id.c.Rev)
		}
	}
	r.compareEnds(counts, trail.Ends)
	for k, list := range order {
		if got := seen[k]; len(got) == len(list) {
			for i := range list {
				if got[i] != list[i] {
					r.Disordered++
					r.example("out of order: %s id %d, change %d", k.table, k.id, i)
					break
				}
			}
		}
	}
	return r
}

func (r *Report) compareEnds(counts map[string]map[string]int64, ends []End) {
	ended := map[string]bool{}
	for _, end := range ends {
		if ended[end.Tx] {
			r.Duplicated++
			r.example("duplicated: END of transaction %s", end.Tx)
			continue
		}
		ended[end.Tx] = true
		for table, n := range end.Counts {
			if counts[end.Tx][table] != n {
				r.Torn++
				r.example("torn: transaction %s has %d events of %s, its END says %d", end.Tx, counts[end.Tx][table], table, n)
			}
		}
	}
	for tx := range counts {
		if !ended[tx] {
			r.Torn++
			r.example("torn: transaction %s has events but no END", tx)
		}
	}
}
