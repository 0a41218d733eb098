package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func compare(a, b TP) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// dependency is why one transaction must come before another.
type dependency uint8

const (
	writeWrite   dependency = 1 << iota // the other's record is the next one in the partition
	writeRead                           // the other read its record
	readWrite                           // the other wrote the record behind the last one that it read
	processOrder                        // the same client ran the other afterwards
)

type edge struct {
	to   int
	kind dependency
	why  string
}

// graph is the dependencies of committed transactions, by operation.
type graph struct {
	edges map[int][]edge
	count int
}

func (g *graph) add(from, to int, kind dependency, why func() string) {
	if from == to {
		return
	}
	g.count++
	g.edges[from] = append(g.edges[from], edge{to, kind, why()})
}

// cycles looks for cycles in the dependencies between committed transactions.
func (x *indexed) cycles(r *Report) {
	g := x.dependencies()
	r.Edges = g.count
	for _, c := range []struct {
		kinds   dependency
		must    dependency // at least one edge of this kind, or the cycle belongs to a case before
		kind    string
		allowed bool
	}{
		{writeRead, writeRead, CycleG1c, false},
		{writeRead | processOrder, processOrder, CycleG1cProcess, false},
		{writeWrite, writeWrite, AllowedG0, true},
		{writeWrite | writeRead, writeRead, AllowedG1cWW, true},
		{writeWrite | writeRead | readWrite, readWrite, AllowedG2, true},
	} {
		for _, part := range g.components(c.kinds) {
			path := g.cycle(part, c.kinds, c.must)
			switch {
			case path == nil:
			case c.allowed:
				r.Allowed[c.kind]++
			default:
				text, ops := x.explain(path)
				r.add(c.kind, ops, "%s", text)
			}
		}
	}
}

func (x *indexed) dependencies() *graph {
	g := &graph{edges: map[int][]edge{}}
	node := func(op int) bool { return x.txnCommitted(&x.Ops[op]) }
	for _, tp := range slices.SortedFunc(maps.Keys(x.order), compare) {
		list := x.order[tp]
		for i := 1; i < len(list); i++ {
			a, b := x.origins[list[i-1].value].op, x.origins[list[i].value].op
			if node(a) && node(b) {
				g.add(a, b, writeWrite, func() string { return fmt.Sprintf("writes %s before", place{tp, list[i-1].offset}) })
			}
		}
	}
	clients := map[string]int{}
	for i := range x.Ops {
		op := &x.Ops[i]
		if !node(i) {
			continue
		}
		if before, ok := clients[op.Client]; ok {
			g.add(before, i, processOrder, func() string { return "ran before" })
		}
		clients[op.Client] = i
		last := map[TP]int64{}
		for _, rd := range op.Reads {
			if x.Sessions[rd.Session].Uncommitted {
				continue
			}
			if o, ok := x.origins[rd.Value]; ok && node(o.op) {
				g.add(o.op, i, writeRead, func() string { return fmt.Sprintf("wrote %d at %s, read by", rd.Value, place{rd.TP, rd.Offset}) })
			}
			last[rd.TP] = rd.Offset
		}
		for _, tp := range slices.SortedFunc(maps.Keys(last), compare) {
			if next := x.find(tp, last[tp]+1); next < len(x.order[tp]) {
				if w := x.origins[x.order[tp][next].value].op; node(w) {
					g.add(i, w, readWrite, func() string { return fmt.Sprintf("read %s up to %d, behind which wrote", tp, last[tp]) })
				}
			}
		}
	}
	return g
}

// components are the strongly connected components with more than one node, over edges of these kinds (Tarjan, without recursion).
func (g *graph) components(kinds dependency) [][]int {
	type frame struct{ node, next int }
	number, low := map[int]int{}, map[int]int{}
	on := map[int]bool{}
	var stack []int
	var parts [][]int
	for _, root := range slices.Sorted(maps.Keys(g.edges)) {
		if _, ok := number[root]; ok {
			continue
		}
		work := []frame{{root, 0}}
		for len(work) > 0 {
			f := &work[len(work)-1]
			n := f.node
			if f.next == 0 {
				number[n] = len(number)
				low[n] = number[n]
				stack = append(stack, n)
				on[n] = true
			}
			descended := false
			for f.next < len(g.edges[n]) {
				e := g.edges[n][f.next]
				f.next++
				if e.kind&kinds == 0 {
					continue
				}
				if _, ok := number[e.to]; !ok {
					work = append(work, frame{e.to, 0})
					descended = true
					break
				}
				if on[e.to] {
					low[n] = min(low[n], number[e.to])
				}
			}
			if descended {
				continue
			}
			f.next = max(f.next, 1)
			if low[n] == number[n] {
				at := slices.Index(stack, n)
				part := slices.Clone(stack[at:])
				stack = stack[:at]
				for _, m := range part {
					delete(on, m)
				}
				if len(part) > 1 {
					slices.Sort(part)
					parts = append(parts, part)
				}
			}
			work = work[:len(work)-1]
			if len(work) > 0 {
				parent := work[len(work)-1].node
				low[parent] = min(low[parent], low[n])
			}
		}
	}
	return parts
}

type step struct {
	from int
	edge
}

// cycle is a shortest cycle through a component that begins with an edge of the kind it must have; nil: there is none.
func (g *graph) cycle(part []int, kinds, must dependency) []step {
	inside := map[int]bool{}
	for _, n := range part {
		inside[n] = true
	}
	var best []step
	tries := 0
	for _, start := range part {
		for _, first := range g.edges[start] {
			if first.kind&must == 0 || !inside[first.to] {
				continue
			}
			if back := g.path(first.to, start, inside, kinds); back != nil && (best == nil || len(back)+1 < len(best)) {
				best = append([]step{{start, first}}, back...)
			}
			if tries++; best != nil && (len(best) == 2 || tries >= maxCycleTries) {
				return best
			}
		}
	}
	return best
}

// maxCycleTries bounds the search for a shorter cycle.
const maxCycleTries = 50

func (g *graph) path(from, to int, inside map[int]bool, kinds dependency) []step {
	via := map[int]step{}
	queue := []int{from}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, e := range g.edges[n] {
			if _, seen := via[e.to]; seen || e.kind&kinds == 0 || !inside[e.to] || e.to == from {
				continue
			}
			via[e.to] = step{n, e}
			if e.to == to {
				var path []step
				for at := to; at != from; at = via[at].from {
					path = append(path, via[at])
				}
				slices.Reverse(path)
				return path
			}
			queue = append(queue, e.to)
		}
	}
	return nil
}

func (x *indexed) explain(path []step) (string, []int) {
	var parts []string
	var ops []int
	for _, s := range path {
		parts = append(parts, fmt.Sprintf("%s %s", x.name(s.from), s.why))
		ops = append(ops, s.from)
	}
	return strings.Join(parts, "; ") + " " + x.name(path[0].from), ops
}
