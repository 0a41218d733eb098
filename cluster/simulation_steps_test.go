package cluster

import (
	"context"
	crand "crypto/rand"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var simCrash = flag.String("sim.crash", "", "seed,node,step: run this one of the crashes at every step and print what happens")

// stepsOf runs a story in which every kind of durable step happens: elections, appends, truncations of a leader that was cut off, changes of members,
// a raftSnapshot, a trim, checkpoints, a lost disk. Node loses power right behind its last durable step, counted from the start; 0: never. What it
// had told nobody yet is lost with it, unless it is on the disk.
func stepsOf(seed uint64, node, last int, say func(string, ...any)) *simulation {
	real := crand.Reader
	crand.Reader = simReader{rand.New(rand.NewPCG(seed, 2))}
	defer func() { crand.Reader = real }()
	s := bareSimulation(seed, 4, say)
	g := s.newGroup(0, 2)
	for n := range int32(3) {
		g.place.Members = append(g.place.Members, Member{Node: n})
	}
	s.machines(4, func(l *diskLog) {
		if s.chance(0.1) {
			l.checkpoint()
		}
	})
	m := s.nodes[node]
	m.disk.last = last
	m.disk.died = func() {
		m.dying, m.disk.last = true, 0
		s.counts["crashes"]++
	}
	at := func(ms int, do func()) { s.after(time.Duration(ms)*time.Millisecond, do) }
	leader := func() *machine {
		for _, m := range s.nodes {
			if m.up() && m.here[0] != nil && m.here[0].g.lead.Load().self {
				return m
			}
		}
		return nil
	}
	move := func(nodes ...int32) func() {
		return func() {
			if p, err := g.place.moveTo(nodes); err != nil {
				s.fail("%v", err)
			} else {
				s.place(0, p)
			}
		}
	}
	s.every(func() time.Duration { return 60 * time.Millisecond }, func() bool {
		s.ask(0, fmt.Sprintf("m%d", g.sent+1), -1)
		return !s.quiet
	})
	s.every(func() time.Duration { return 150 * time.Millisecond }, func() bool {
		for _, m := range s.nodes {
			if m.up() && m.here[0] != nil {
				m.here[0].mem.compact()
			}
		}
		return true
	})
	at(700, func() { // a leader that is cut off goes on for a while with what nobody else gets
		l := leader()
		if l == nil {
			return
		}
		for n := range int32(4) {
			s.net.cut[[2]int32{l.id, n}], s.net.cut[[2]int32{n, l.id}] = true, true
		}
		for range 5 {
			s.append(l, 0, fmt.Sprintf("m%d", g.sent+1), 1)
			g.sent++
		}
	})
	at(3000, func() { clear(s.net.cut) })
	at(3500, func() {
		for _, m := range s.nodes {
			s.counts["truncations"] += m.disk.log(simID(0)).truncations
		}
		move(1, 2, 3)()
	})
	at(4500, func() {
		if l := leader(); l != nil {
			l.sched.trim(context.Background(), l.here[0].g, l.here[0].mem.hwm()/2, func(error) {})
			l.wake()
		}
	})
	at(5000, func() {
		for _, v := range g.place.Members {
			if o := s.nodes[v.Node]; !o.up() || o.here[0] == nil || o.here[0].member != v || g.place.Target != nil {
				return // more than one disk less than a majority can do without
			}
		}
		m := s.nodes[g.place.Members[1].Node]
		s.loseDisk(m)
		s.restartLater(m)
	})
	s.run(6500 * time.Millisecond)
	s.heal()
	return s
}

// TestSimulationCrashAtEveryStep: whichever durable step is a machine's last one before it loses power, nothing that was acknowledged is lost and the
// group comes to rest.
func TestSimulationCrashAtEveryStep(t *testing.T) {
	if *simCrash != "" {
		var seed uint64
		var node, last int
		if _, err := fmt.Sscanf(*simCrash, "%d,%d,%d", &seed, &node, &last); err != nil {
			t.Fatal(err)
		}
		if s := stepsOf(seed, node, last, func(f string, args ...any) { fmt.Printf(f+"\n", args...) }); s.fault != "" {
			t.Fatal(s.fault)
		}
		return
	}
	seeds, stride := uint64(3), 1
	if testing.Short() {
		stride = 20
	}
	runs, crashes := 0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		whole := stepsOf(seed, 0, 0, nil)
		if whole.fault != "" {
			t.Fatal(whole.fault)
		}
		t.Logf("%v", whole.counts)
		for _, what := range []string{"truncations", "raftSnapshots", "leaders", "moves", "acknowledged"} {
			if whole.counts[what] == 0 {
				t.Errorf("seed %d has no %s", seed, what)
			}
		}
		for node := range 4 {
			for last := 1; last <= whole.nodes[node].disk.steps; last += stride {
				s := stepsOf(seed, node, last, nil)
				runs++
				crashes += s.counts["crashes"]
				if s.fault != "" {
					t.Fatalf("go test ./cluster -run 'CrashAtEveryStep$' -args -sim.crash %d,%d,%d: %s", seed, node, last, s.fault)
				}
			}
		}
	}
	if t.Logf("%d runs", runs); crashes != runs {
		t.Errorf("%d crashes in %d runs", crashes, runs)
	}
}
