package history

import (
	"maps"
	"slices"
)

// aborted: what was never committed is never read, and nothing is read before it was sent.
func (x *indexed) aborted(r *Report) {
	for value, at := range x.read {
		o := x.origins[value]
		op := &x.Ops[o.op]
		if op.Kind == Transaction && op.Outcome == Aborted {
			r.add(AbortedRead, []int{o.op, at}, "%s read %d of %s", x.name(at), value, x.name(o.op))
		}
		if op.Begin > x.Ops[at].End {
			r.add(FutureRead, []int{o.op, at}, "%s read %d of %s", x.name(at), value, x.name(o.op))
		}
	}
}

// lost: every committed write is read by the final readers, unless compaction may have taken it.
func (x *indexed) lost(r *Report) {
	for i := range x.Ops {
		op := &x.Ops[i]
		if op.Kind == Transaction && op.Outcome != Committed {
			continue // torn looks at those of unknown outcome
		}
		for j := range op.Writes {
			w := &op.Writes[j]
			if _, there := x.final[w.Value]; there || w.Offset == NoOffset && op.Kind == Send || x.superseded(w.TP, w.Offset, w) {
				continue
			}
			if at, read := x.read[w.Value]; read {
				r.add(LostWrite, []int{i, at}, "%s: %d was read by %s, and is not there in the end", x.name(i), w.Value, x.name(at))
			} else if end, ok := x.end[w.TP]; ok && w.Offset <= end {
				r.add(LostWrite, []int{i}, "%s: nobody read %d at %s, and reads reached offset %d", x.name(i), w.Value, place{w.TP, w.Offset}, end)
			} else {
				r.add(Unseen, []int{i}, "%s: nobody read %d at %s", x.name(i), w.Value, place{w.TP, w.Offset})
			}
		}
	}
}

// torn: of a transaction that is there, everything is there; which of both, and not a mixture, where the outcome is unknown.
func (x *indexed) torn(r *Report) {
	for i := range x.Ops {
		op := &x.Ops[i]
		if op.Kind != Transaction || op.Outcome == Aborted {
			continue
		}
		var there, missing []Write
		for _, w := range op.Writes {
			if _, ok := x.final[w.Value]; ok {
				there = append(there, w)
			} else if !x.superseded(w.TP, w.Offset, &w) {
				missing = append(missing, w)
			}
		}
		if op.Outcome == Unknown && x.txnCommitted(op) {
			r.UnknownSeen++
			if len(there) == 0 && len(missing) > 0 {
				w := missing[0]
				r.add(LostWrite, []int{i, x.read[w.Value]}, "%s: parts of it were read, and are not there in the end", x.name(i))
			}
		}
		if len(there) > 0 && len(missing) > 0 {
			r.add(Torn, []int{i}, "%s: %d of %s is there, %d of %s is not", x.name(i),
				there[0].Value, there[0].TP, missing[0].Value, missing[0].TP)
		}
	}
}

// polls: a session neither goes back nor passes over a record.
func (x *indexed) polls(r *Report) {
	type key struct {
		session int64
		tp      TP
	}
	type position struct {
		offset int64
		op     int
	}
	positions := map[key]position{}
	for i := range x.Ops {
		for _, rd := range x.Ops[i].Reads {
			s := x.Sessions[rd.Session]
			k := key{rd.Session, rd.TP}
			before, known := positions[k]
			positions[k] = position{rd.Offset, i}
			if !known {
				if !s.FromStart || s.Uncommitted {
					continue
				}
				before = position{-1, i}
			}
			backwards, skip := ExternalBackwards, ExternalSkip
			if before.op == i {
				backwards, skip = InternalBackwards, InternalSkip
			}
			if rd.Offset <= before.offset {
				r.add(backwards, []int{before.op, i}, "%s: %s after offset %d", x.name(i), place{rd.TP, rd.Offset}, before.offset)
				continue
			}
			if s.Uncommitted {
				continue // what lies between may be markers
			}
			for _, passed := range x.order[rd.TP][x.find(rd.TP, before.offset+1):x.find(rd.TP, rd.Offset)] {
				w := x.origins[passed.value].write
				if !x.superseded(rd.TP, passed.offset, w) {
					r.add(skip, []int{before.op, i, passed.op}, "%s: %s after offset %d passes over %d at offset %d, which %s read", x.name(i),
						place{rd.TP, rd.Offset}, before.offset, passed.value, passed.offset, x.name(passed.op))
				}
			}
		}
	}
}

// groups: what lies below a group's committed offset was given to one of its members.
func (x *indexed) groups(r *Report) {
	for group, offsets := range x.Groups {
		given := map[int64]bool{}
		for i := range x.Ops {
			for _, rd := range x.Ops[i].Reads {
				if x.Sessions[rd.Session].Group == group {
					given[rd.Value] = true
				}
			}
		}
		for tp, end := range offsets {
			for _, s := range x.order[tp][:x.find(tp, end)] {
				if !given[s.value] && !x.superseded(tp, s.offset, x.origins[s.value].write) {
					r.add(GroupSkip, []int{x.origins[s.value].op, s.op}, "group %s has committed offset %d of %s, and no member was given %d at offset %d",
						group, end, tp, s.value, s.offset)
				}
			}
		}
	}
}

// transforms: every record below the group's offset has exactly one output.
func (x *indexed) transforms(r *Report) {
	for _, t := range x.Transforms {
		made := map[int64]int64{}
		for _, tp := range slices.SortedFunc(maps.Keys(x.order), compare) {
			if tp.Topic != t.Output {
				continue
			}
			for _, s := range x.order[tp] {
				from := x.origins[s.value].write.From
				if from == 0 {
					continue // made of nothing
				}
				if other, twice := made[from]; twice {
					r.add(TransformedTwice, []int{x.origins[other].op, x.origins[s.value].op}, "%d became %d (%s) and %d (%s)", from,
						other, x.name(x.origins[other].op), s.value, x.name(x.origins[s.value].op))
				}
				made[from] = s.value
			}
		}
		for tp, end := range x.Groups[t.Group] {
			if tp.Topic != t.Input {
				continue
			}
			for _, s := range x.order[tp][:x.find(tp, end)] {
				if _, ok := made[s.value]; !ok {
					r.add(NotTransformed, []int{x.origins[s.value].op}, "group %s has committed offset %d of %s, and %d at offset %d has no output in %s",
						t.Group, end, tp, s.value, s.offset, t.Output)
				}
			}
		}
	}
}

// keys: the state of a compacted topic in the end is the last committed record of each key. A tombstone may be gone.
func (x *indexed) keys(r *Report) {
	type state struct {
		offset int64
		write  *Write
		op     int
	}
	want, have := map[TP]map[string]state{}, map[TP]map[string]state{}
	later := func(m map[TP]map[string]state, s state) {
		if m[s.write.TP] == nil {
			m[s.write.TP] = map[string]state{}
		}
		if old, ok := m[s.write.TP][s.write.Key]; !ok || old.offset < s.offset {
			m[s.write.TP][s.write.Key] = s
		}
	}
	for i := range x.Ops {
		for j := range x.Ops[i].Writes {
			w := &x.Ops[i].Writes[j]
			if !x.Compacted[w.Topic] {
				continue
			}
			if offset, ok := x.final[w.Value]; ok {
				later(have, state{offset, w, i})
			}
			if w.Offset != NoOffset && x.isCommitted(origin{i, w}) {
				later(want, state{w.Offset, w, i})
			}
		}
	}
	for tp, keys := range want {
		for key, w := range keys {
			h, ok := have[tp][key]
			switch {
			case !ok && !w.write.Tombstone && !x.maybeDeleted(tp, key):
				r.add(KeyLost, []int{w.op}, "%s has no record of key %q; %d at offset %d (%s) is its last", tp, key, w.write.Value, w.offset, x.name(w.op))
			case ok && h.offset < w.offset && !w.write.Tombstone:
				r.add(KeyStale, []int{h.op, w.op}, "the last record of key %q in %s is %d at offset %d (%s); %d at offset %d (%s) is later", key, tp,
					h.write.Value, h.offset, x.name(h.op), w.write.Value, w.offset, x.name(w.op))
			case ok && h.offset < w.offset:
				r.add(KeyStale, []int{h.op, w.op}, "key %q in %s is back with %d at offset %d (%s), though %s deleted it at offset %d", key, tp,
					h.write.Value, h.offset, x.name(h.op), x.name(w.op), w.offset)
			}
		}
	}
}

// maybeDeleted: a tombstone of unknown outcome may have deleted the key and be gone itself.
func (x *indexed) maybeDeleted(tp TP, key string) bool {
	for i := range x.Ops {
		op := &x.Ops[i]
		if op.Outcome == Aborted || op.Outcome == Committed {
			continue
		}
		for j := range op.Writes {
			w := &op.Writes[j]
			if w.TP == tp && w.Key == key && w.Tombstone && (op.Kind == Transaction || w.Offset == NoOffset) {
				return true
			}
		}
	}
	return false
}
