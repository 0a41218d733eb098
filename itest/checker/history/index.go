package history

import (
	"fmt"
	"slices"
	"sort"
)

// place is where a value stands.
type place struct {
	TP
	offset int64
}

func (p place) String() string { return fmt.Sprintf("%s@%d", p.TP, p.offset) }

// origin is the write of a value.
type origin struct {
	op    int
	write *Write
}

// seen is a record as a reader of committed records got it first.
type seen struct {
	offset, value int64
	op            int
}

// indexed is a history with its cross-references.
type indexed struct {
	*History
	origins map[int64]origin
	// order holds, by partition and offset, what readers of committed records saw, each offset once.
	order map[TP][]seen
	final map[int64]int64 // value to offset, as final sessions of committed readers saw it
	read  map[int64]int   // value to the first op in which a committed reader saw it
	// end is the highest offset that a committed reader saw.
	end map[TP]int64
	// last is the highest offset of a key that is known to be committed.
	last map[TP]map[string]seen
}

// index builds the cross-references and checks what they rest on: one value at one offset.
func index(h *History, r *Report) *indexed {
	x := &indexed{History: h, origins: map[int64]origin{}, order: map[TP][]seen{}, final: map[int64]int64{},
		read: map[int64]int{}, end: map[TP]int64{}, last: map[TP]map[string]seen{}}
	for i := range h.Ops {
		op := &h.Ops[i]
		for j := range op.Writes {
			w := &op.Writes[j]
			x.origins[w.Value] = origin{i, w}
		}
		switch {
		case op.Kind == Send:
			r.Sent += len(op.Writes)
		case op.Kind == Poll:
		case op.Outcome == Committed:
			r.Committed++
		case op.Outcome == Aborted:
			r.Aborted++
		default:
			r.Unknown++
		}
	}
	at := map[place]seen{}
	where := map[int64]place{}
	note := func(p place, value int64, op int) {
		before, taken := at[p]
		if taken && before.value != value {
			r.add(InconsistentOffset, []int{before.op, op}, "%s holds %d (%s) and %d (%s)", p,
				before.value, x.name(before.op), value, x.name(op))
			return
		}
		at[p] = seen{p.offset, value, op}
		other, known := where[value]
		if known && other != p {
			r.add(Duplicate, []int{x.origins[value].op, at[other].op, op}, "%d stands at %s (%s) and at %s (%s)", value,
				other, x.name(at[other].op), p, x.name(op))
		}
		where[value] = p
	}
	committed := map[place]bool{}
	for i := range h.Ops {
		op := &h.Ops[i]
		for j := range op.Writes {
			if w := &op.Writes[j]; w.Offset != NoOffset {
				note(place{w.TP, w.Offset}, w.Value, i)
			}
		}
		for _, rd := range op.Reads {
			r.Reads++
			p := place{rd.TP, rd.Offset}
			o, written := x.origins[rd.Value]
			if !written || o.write.TP != rd.TP || o.write.Key != rd.Key {
				r.add(Phantom, []int{i}, "%s read %d with key %q at %s; it was written by %s", x.name(i), rd.Value, rd.Key, p, x.origin(rd.Value))
				continue
			}
			note(p, rd.Value, i)
			s := h.Sessions[rd.Session]
			if s.Uncommitted {
				continue
			}
			if _, ok := x.read[rd.Value]; !ok {
				x.read[rd.Value] = i
			}
			if s.Final {
				x.final[rd.Value] = rd.Offset
			}
			if !committed[p] {
				committed[p] = true
				x.order[rd.TP] = append(x.order[rd.TP], seen{rd.Offset, rd.Value, i})
			}
		}
	}
	for tp, list := range x.order {
		slices.SortFunc(list, func(a, b seen) int { return int(a.offset - b.offset) })
		x.end[tp] = list[len(list)-1].offset
		for _, s := range list {
			x.noteLast(x.origins[s.value].write, s)
		}
	}
	for i := range h.Ops {
		for j := range h.Ops[i].Writes {
			if w := &h.Ops[i].Writes[j]; w.Offset != NoOffset && x.isCommitted(origin{i, w}) {
				x.noteLast(w, seen{w.Offset, w.Value, i})
			}
		}
	}
	return x
}

func (x *indexed) noteLast(w *Write, s seen) {
	if !x.Compacted[w.Topic] {
		return
	}
	if x.last[w.TP] == nil {
		x.last[w.TP] = map[string]seen{}
	}
	if old, ok := x.last[w.TP][w.Key]; !ok || old.offset < s.offset {
		x.last[w.TP][w.Key] = s
	}
}

// isCommitted says whether a write must be there: its transaction is committed, by its answer or because somebody saw a part
// of it; outside of transactions, it was answered.
func (x *indexed) isCommitted(o origin) bool {
	op := &x.Ops[o.op]
	if op.Kind == Send {
		return o.write.Offset != NoOffset
	}
	return x.txnCommitted(op)
}

func (x *indexed) txnCommitted(op *Op) bool {
	if op.Kind != Transaction || op.Outcome == Aborted {
		return false
	}
	if op.Outcome == Committed {
		return true
	}
	return slices.ContainsFunc(op.Writes, func(w Write) bool { _, ok := x.read[w.Value]; return ok })
}

// superseded says whether compaction may have taken a record.
func (x *indexed) superseded(tp TP, offset int64, w *Write) bool {
	if !x.Compacted[tp.Topic] {
		return false
	}
	last, ok := x.last[tp][w.Key]
	return w.Tombstone || ok && last.offset > offset
}

// find is the index of the first record of a partition's order at or behind an offset.
func (x *indexed) find(tp TP, offset int64) int {
	list := x.order[tp]
	return sort.Search(len(list), func(i int) bool { return list[i].offset >= offset })
}

// name describes an operation in a few words.
func (x *indexed) name(i int) string {
	op := &x.Ops[i]
	if op.Kind == Transaction {
		return fmt.Sprintf("%s transaction #%d of %s, %.3f-%.3f s", op.Outcome, i, op.Client, op.Begin.Seconds(), op.End.Seconds())
	}
	return fmt.Sprintf("%s #%d of %s, %.3f-%.3f s", op.Kind, i, op.Client, op.Begin.Seconds(), op.End.Seconds())
}

func (x *indexed) origin(value int64) string {
	o, ok := x.origins[value]
	if !ok {
		return "nobody"
	}
	return fmt.Sprintf("%s to %s with key %q", x.name(o.op), o.write.TP, o.write.Key)
}
