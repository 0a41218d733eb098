package tasks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// names that lie on slots of their own.
func namesApart(n int) []string {
	var names []string
	taken := map[int32]bool{}
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("sink/%d", i)
		if s := slot(name, Slots); !taken[s] {
			taken[s] = true
			names = append(names, name)
		}
	}
	return names
}

func count(slots [][]int32) (n []int) {
	for _, s := range slots {
		n = append(n, len(s))
	}
	return n
}

func TestPlaceSpreads(t *testing.T) {
	names := namesApart(7)
	nodes := []candidate{{ID: "c", Node: 3, Tasks: names}, {ID: "a", Node: 1, Tasks: names}, {ID: "b", Node: 2, Tasks: names}}
	got := count(place(nodes, Slots))
	if slices.Sort(got); !slices.Equal(got, []int{2, 2, 3}) {
		t.Errorf("7 tasks on 3 nodes: %v", got)
	}
}

// TestPlaceMovesLittle: what a node that left had is shared out; the rest stays. One that joins takes its share and no more.
func TestPlaceMovesLittle(t *testing.T) {
	names := namesApart(9)
	nodes := []candidate{{ID: "a", Node: 1, Tasks: names}, {ID: "b", Node: 2, Tasks: names}, {ID: "c", Node: 3, Tasks: names}}
	three := place(nodes, Slots)
	for i := range nodes {
		nodes[i].Owned = three[i]
	}
	two := place(nodes[:2], Slots)
	for i := range two {
		for _, s := range three[i] {
			if !slices.Contains(two[i], s) {
				t.Errorf("node %d lost slot %d although it stayed", i+1, s)
			}
		}
		nodes[i].Owned = two[i]
	}
	nodes[2].Owned = nil
	moved := 0
	for i, slots := range place(nodes, Slots)[:2] {
		for _, s := range two[i] {
			if !slices.Contains(slots, s) {
				moved++
			}
		}
	}
	if moved != 3 {
		t.Errorf("%d tasks moved to the node that came, want 3", moved)
	}
}

// TestPlaceAsksWhoHasTheTask: while a change of the files is under way, a task goes to a node that knows it.
func TestPlaceAsksWhoHasTheTask(t *testing.T) {
	nodes := []candidate{{ID: "a", Node: 1, Tasks: []string{"sink/old"}}, {ID: "b", Node: 2, Tasks: []string{"sink/old", "sink/new"}}}
	got := place(nodes, Slots)
	if !slices.Contains(got[1], slot("sink/new", Slots)) {
		t.Errorf("the new task is not on the node that has it: %v", got)
	}
	if !slices.Contains(got[0], slot("sink/old", Slots)) {
		t.Errorf("the old task is not on the other: %v", got)
	}
	if got := place([]candidate{{ID: "x"}, nodes[0]}, Slots); len(got[0]) > 0 || len(got[1]) != 1 {
		t.Errorf("a stranger got a task: %v", got)
	}
}

// TestPlaceAlways: whatever the nodes have and own, every slot with tasks has one owner, which can run as much of it as any; and
// placing again from there changes nothing.
func TestPlaceAlways(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		nodes := make([]candidate, 1+rng.IntN(5))
		for i := range nodes {
			nodes[i] = candidate{ID: fmt.Sprint(i), Node: int32(rng.IntN(4))}
			for n := range 20 {
				if rng.IntN(2) == 0 {
					nodes[i].Tasks = append(nodes[i].Tasks, fmt.Sprint("t", n))
				}
			}
			for s := range int32(8) {
				if rng.IntN(3) == 0 {
					nodes[i].Owned = append(nodes[i].Owned, s)
				}
			}
		}
		got := place(nodes, 8)
		owners := map[int32]int{}
		for i, slots := range got {
			for _, s := range slots {
				if _, twice := owners[s]; twice {
					t.Fatalf("seed %d: slot %d twice", seed, s)
				}
				owners[s] = i
			}
		}
		for s := range int32(8) {
			has := func(c candidate) (n int) {
				for _, name := range c.Tasks {
					if slot(name, 8) == s {
						n++
					}
				}
				return n
			}
			most := has(slices.MaxFunc(nodes, func(a, b candidate) int { return has(a) - has(b) }))
			owner, owned := owners[s]
			if owned != (most > 0) || owned && has(nodes[owner]) != most {
				t.Fatalf("seed %d: slot %d of %d tasks: %v", seed, s, most, got)
			}
		}
		for i := range nodes {
			nodes[i].Owned = got[i]
		}
		if again := place(nodes, 8); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("seed %d: %v, then %v", seed, got, again)
		}
	}
}

// TestSlotIsForGood: nodes of all releases must agree.
func TestSlotIsForGood(t *testing.T) {
	for name, want := range map[string]int32{"connector/shop": 17, "sink/warehouse": 2} {
		if got := slot(name, Slots); got != want {
			t.Errorf("%s: slot %d, was %d", name, got, want)
		}
	}
}
