package tasks

import (
	"cmp"
	"slices"
)

// candidate is a member of the group as the one that places sees it.
type candidate struct {
	ID    string // of the member
	Node  int32
	Tasks []string // that its file has
	Owned []int32  // slots that it has now
}

// share is what one slot asks for: the tasks on it, and who can run how many of them.
type share struct {
	slot   int32
	weight int   // tasks
	able   []int // candidates that can run most of them
	owner  int   // -1: none of the able ones has it
}

// place gives every slot that has tasks to one of the candidates that can run most of them. It moves as little as possible: a slot
// stays where it is unless a move makes the numbers of tasks more even. The result is by candidate.
func place(candidates []candidate, slots int32) [][]int32 {
	out := make([][]int32, len(candidates))
	if len(candidates) == 0 {
		return out
	}
	load := make([]int, len(candidates))
	lighter := func(a, b int) int {
		return cmp.Or(cmp.Compare(load[a], load[b]), cmp.Compare(candidates[a].Node, candidates[b].Node), cmp.Compare(candidates[a].ID, candidates[b].ID))
	}
	shares := shareOut(candidates, slots)
	for i := range shares {
		if s := &shares[i]; s.owner >= 0 {
			load[s.owner] += s.weight
		}
	}
	slices.SortFunc(shares, func(a, b share) int { return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.slot, b.slot)) })
	for i := range shares {
		if s := &shares[i]; s.owner < 0 {
			s.owner = slices.MinFunc(s.able, lighter)
			load[s.owner] += s.weight
		}
	}
	for even(shares, load, lighter) {
	}
	for _, s := range shares {
		out[s.owner] = append(out[s.owner], s.slot)
	}
	for _, slots := range out {
		slices.Sort(slots)
	}
	return out
}

// even makes the one move that helps most; false when none does. Each move shrinks the sum of the squares of loads, so it ends.
func even(shares []share, load []int, lighter func(a, b int) int) bool {
	best, to, gain := -1, -1, 0
	for i := range shares {
		s := &shares[i]
		lightest := slices.MinFunc(s.able, lighter)
		if g := load[s.owner] - load[lightest] - s.weight; g > gain {
			best, to, gain = i, lightest, g
		}
	}
	if best < 0 {
		return false
	}
	s := &shares[best]
	load[s.owner] -= s.weight
	load[to] += s.weight
	s.owner = to
	return true
}

// shareOut lists the slots that have tasks.
func shareOut(candidates []candidate, slots int32) []share {
	names := make([]map[string]bool, slots)
	can := make([][]int, slots) // slot -> candidate -> tasks of it that the candidate has
	for c := range candidates {
		for _, name := range candidates[c].Tasks {
			s := slot(name, slots)
			if names[s] == nil {
				names[s], can[s] = map[string]bool{}, make([]int, len(candidates))
			}
			names[s][name] = true
			can[s][c]++
		}
	}
	var all []share
	for s := range slots {
		if names[s] == nil {
			continue
		}
		sh := share{slot: s, weight: len(names[s]), owner: -1}
		most := slices.Max(can[s])
		for c, n := range can[s] {
			if n != most {
				continue
			}
			sh.able = append(sh.able, c)
			if sh.owner < 0 && slices.Contains(candidates[c].Owned, s) {
				sh.owner = c
			}
		}
		all = append(all, sh)
	}
	return all
}
