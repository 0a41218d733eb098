package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

func TestTopicNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"orders": true, "shop.public.orders": true, "A-1_b": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, "a b": false, "ü": false, "a/b": false, "a\x00": false, strings.Repeat("x", 250): false,
	} {
		err := checkTopicName(name)
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalidTopic) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestMemberIDs(t *testing.T) {
	seen := map[uint64]Member{}
	for _, node := range []int32{0, 1, 77, 1<<31 - 2} {
		for _, gen := range []uint32{0, 1, maxGen} {
			m := Member{Node: node, Gen: gen}
			id := m.raftID()
			if other, taken := seen[id]; id == 0 || taken || memberOf(id) != m {
				t.Errorf("%v has id %d, which is %v (taken by %v)", m, id, memberOf(id), other)
			}
			seen[id] = m
			if group, g := groupOf(logID(9, gen)); group != 9 || g != gen {
				t.Errorf("generation %d of group 9 has the log of generation %d of group %d", gen, g, group)
			}
		}
	}
	if memberOf(0).Node != -1 {
		t.Error("no member must be no node")
	}
}

func TestGate(t *testing.T) {
	g := newGate(100)
	ctx, cancel := context.WithCancel(context.Background())
	take := func(ctx context.Context, n int64) chan error {
		c := make(chan error, 1)
		go func() { c <- g.acquire(ctx, n) }()
		return c
	}
	waiting := func(n int) {
		for {
			g.mu.Lock()
			have := len(g.waiters)
			g.mu.Unlock()
			if have == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := g.acquire(ctx, 60); err != nil {
		t.Fatal(err)
	}
	big := take(ctx, 80)
	waiting(1)
	small := take(context.Background(), 10) // would fit, but must not overtake
	waiting(2)
	cancel()
	if err := <-big; !errors.Is(err, ErrOverloaded) {
		t.Fatal(err)
	}
	if err := <-small; err != nil { // let through when the big one left
		t.Fatal(err)
	}
	g.release(60)
	g.release(10)
	if err := g.acquire(context.Background(), 1000); err != nil { // larger than the gate: alone
		t.Fatal(err)
	}
	late := take(context.Background(), 1)
	waiting(1)
	g.close(log.ErrClosed)
	if err := <-late; !errors.Is(err, log.ErrClosed) {
		t.Fatal(err)
	}
	g.release(1000)
	if g.inUse() != 0 {
		t.Errorf("%d in use", g.inUse())
	}
}
