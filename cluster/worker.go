package cluster

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

const (
	// maxWorkerBytes bounds the appends in front of and inside one worker until they are durable (invariant 9).
	maxWorkerBytes = 64 << 20
	// maxPeerBytes bounds messages from other nodes that wait for one worker; above it they are dropped and repeated.
	maxPeerBytes = 32 << 20
	// proposalOverhead is counted for each append, so that the bound holds for tiny batches, too.
	proposalOverhead = 512
)

type itemKind uint8

const (
	itemPropose itemKind = iota
	itemMessage
	itemDurable
	itemRun
	itemTick
)

// item is one thing for a worker to do. Which fields are set depends on kind.
type item struct {
	kind     itemKind
	group    *group
	proposal *proposal
	message  *raftpb.Message
	shared   uint64           // with a heartbeat
	install  log.Installation // with a raftSnapshot
	append   appendItem
	run      func(*group, *output)
}

// worker steps the groups that are hashed to it. One turn empties the inbox, feeds the groups, and then
// takes what all of them have ready at once; turn may be driven by hand.
type worker struct {
	s    *scheduler
	gate *gate

	mu        sync.Mutex
	inbox     []item
	peerBytes int64
	ticked    bool  // a tick waits in the inbox
	time      int64 // ticks so far, those that nobody needed and the one that waits with them
	stopped   bool
	notify    chan struct{} // capacity 1
	voters    atomic.Int32  // len(voting)
	due       atomic.Int64  // before this tick no group needs one

	// owned by the goroutine that calls turn
	spare  []item
	groups map[log.GroupID]*group
	voting []*group // those that need ticks
	clock  int64    // ticks so far
	early  bool     // a group has come to need the next tick since the last one
	dirty  []*group
	out    output
	halted bool
}

func newWorker(s *scheduler) *worker {
	return &worker{
		s: s, gate: newGate(maxWorkerBytes), notify: make(chan struct{}, 1),
		groups: map[log.GroupID]*group{},
		out:    output{messages: map[int32][]Envelope{}, counters: &s.counters, snapshots: s.snapshots},
	}
}

// post queues items in order. It reports false when the worker has stopped.
func (w *worker) post(items ...item) bool {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return false
	}
	w.inbox = append(w.inbox, items...)
	w.mu.Unlock()
	w.wake()
	return true
}

func (w *worker) wake() {
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// receive queues messages from another node, or drops them; groups are those that they are for, and may be other workers' or nil.
func (w *worker) receive(groups []*group, ms []Envelope) {
	queued := false
	w.mu.Lock()
	for i, g := range groups {
		if g == nil || g.worker != w || w.stopped {
			continue
		}
		n := messageSize(ms[i].Message)
		if w.peerBytes+n > maxPeerBytes {
			continue
		}
		w.peerBytes += n
		w.inbox = append(w.inbox, item{kind: itemMessage, group: g, message: ms[i].Message, shared: ms[i].Shared})
		queued = true
	}
	w.mu.Unlock()
	if queued {
		w.wake()
	}
}

func messageSize(m *raftpb.Message) int64 {
	n := int64(proposalOverhead)
	for _, e := range m.GetEntries() {
		n += int64(entrySize(e))
	}
	return n
}

// tick queues one clock tick; ticks that a busy worker has not taken yet are one.
func (w *worker) tick() {
	if w.voters.Load() == 0 {
		return
	}
	w.mu.Lock()
	if w.stopped || w.ticked {
		w.mu.Unlock()
		return
	}
	w.time++
	if w.time < w.due.Load() {
		w.mu.Unlock()
		return
	}
	w.ticked = true
	w.inbox = append(w.inbox, item{kind: itemTick})
	w.mu.Unlock()
	w.wake()
}

// run drives turns until stop is closed, then answers what is left.
func (w *worker) run(stop <-chan struct{}) {
	for {
		select {
		case <-w.notify:
			for w.turn() {
			}
		case <-stop:
			w.shutdown(log.ErrClosed)
			return
		}
	}
}

// turn does one round and reports whether there was anything to do.
func (w *worker) turn() (worked bool) {
	var items []item
	defer func() {
		if r := recover(); r != nil {
			// Raft and the storage below it panic when an invariant does not hold; nothing after that may be
			// acknowledged.
			w.s.fail(fmt.Errorf("step group: %v\n%s", r, debug.Stack()))
			w.refuse(items, w.s.failed())
			worked = true
		}
	}()
	if err := w.s.failed(); err != nil && !w.halted {
		w.halted = true
		w.abandonAll(err)
	}
	w.mu.Lock()
	items = w.inbox
	w.inbox, w.spare = w.spare[:0], nil
	w.clock = w.time
	if w.ticked {
		w.clock-- // it comes with the items
	}
	w.peerBytes, w.ticked = 0, false
	w.mu.Unlock()
	if len(items) == 0 {
		w.spare = items
		return false
	}
	now := w.s.now()
	for i := range items {
		w.handle(&items[i], now)
	}
	w.takeReady()
	if w.early {
		w.due.Store(0)
	}
	w.flush()
	clear(items)
	w.spare = items[:0]
	return true
}

// takeReady takes what the groups with work have ready.
func (w *worker) takeReady() {
	for i := 0; i < len(w.dirty); i++ { // a turn may leave more to do
		g := w.dirty[i]
		g.dirty = false
		if g.closeErr == nil {
			g.turn(&w.out)
		}
	}
	w.dirty = w.dirty[:0]
}

func (w *worker) handle(it *item, now time.Time) {
	g := it.group
	if g != nil && it.kind != itemMessage {
		g.catchUp(w.clock)
	}
	switch it.kind {
	case itemPropose:
		g.stage(it.proposal, now, &w.out)
	case itemMessage:
		if g.closeErr == nil {
			g.receive(it, &w.out)
		}
	case itemDurable:
		g.durable(&it.append, &w.out)
	case itemRun:
		it.run(g, &w.out)
	case itemTick:
		w.takeReady() // so that who leads now is known before Raft's clock goes on
		w.clock++
		w.tickGroups()
		return
	}
	if g != nil {
		w.touch(g)
	}
}

// tickGroups gives a tick to the groups that need it, and finds out which is the next one that any does.
func (w *worker) tickGroups() {
	w.early = false
	due := int64(math.MaxInt64)
	for i := 0; i < len(w.voting); {
		v := w.voting[i]
		if v.rests <= w.clock {
			v.tick(w.clock, &w.out)
			w.touch(v)
		}
		if i < len(w.voting) && w.voting[i] == v { // else it needs no more, and another one is in its place
			due = min(due, v.rests)
			i++
		}
	}
	w.due.Store(due)
}

func (w *worker) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		w.dirty = append(w.dirty, g)
	}
}

// flush hands the turn's output on.
func (w *worker) flush() {
	out := &w.out
	if len(out.appends) > 0 {
		w.s.writer.submit(out.appends...)
		clear(out.appends)
		out.appends = out.appends[:0]
	}
	for node, ms := range out.messages {
		if len(ms) > 0 {
			w.s.transport.Send(node, ms)
			clear(ms)
			out.messages[node] = ms[:0]
		}
	}
	w.s.finish(out.finished)
	out.finished = 0
}

func (w *worker) add(g *group) {
	w.groups[g.id] = g
	g.publish()
	if g.store.LastIndex() == 0 && len(g.st.first) > 1 && g.st.first[0].raftID() == g.self {
		g.eager = hurryTicks
	}
	if err := w.s.failed(); err != nil {
		w.remove(g, err)
		return
	}
	w.classify(g)
	if g.alone() {
		// Nobody else can win, so there is nothing to wait for.
		if err := g.rn.Campaign(); err != nil {
			w.s.fail(fmt.Errorf("elect the only voter of group %d: %w", g.id, err))
		}
	}
}

// classify keeps the groups apart that need ticks: not those that are led by their only member and are to stay so. One that has become alone
// is elected by its ticks.
func (w *worker) classify(g *group) {
	if w.groups[g.id] != g {
		return
	}
	switch needed := !g.alone() || !g.isLeader || !g.reached; {
	case !needed:
		w.tickless(g)
	case g.voting == 0:
		w.voting = append(w.voting, g)
		g.voting = len(w.voting)
		g.ticked = w.clock
		g.restless()
	}
	w.voters.Store(int32(len(w.voting)))
}

func (w *worker) tickless(g *group) {
	if g.voting == 0 {
		return
	}
	last := w.voting[len(w.voting)-1]
	w.voting[g.voting-1], last.voting = last, g.voting
	w.voting = w.voting[:len(w.voting)-1]
	g.voting = 0
}

// retain touches only the groups that have something to trim: most have not.
func (w *worker) retain(now time.Time) {
	for _, g := range w.groups {
		if g.retainer != nil && g.closeErr == nil {
			g.retainer.ForgetIdle(now)
			g.retain(now)
		}
	}
}

// gone is unreachable, and more: the node's process has ended.
func (w *worker) gone(node int32) {
	w.unreachable(node)
	for _, g := range w.voting {
		g.catchUp(w.clock)
		g.gone(node)
		w.touch(g)
	}
}

// unreachable makes leaders probe a node's members before they send more.
func (w *worker) unreachable(node int32) {
	for _, g := range w.voting {
		if !g.isLeader {
			continue
		}
		for _, id := range members(g.conf) {
			if memberOf(id).Node == node && id != g.self {
				g.rn.ReportUnreachable(id)
				w.touch(g)
			}
		}
	}
}

func (w *worker) remove(g *group, err error) {
	g.abandon(err, &w.out)
	delete(w.groups, g.id)
	w.tickless(g)
	w.voters.Store(int32(len(w.voting)))
}

func (w *worker) abandonAll(err error) {
	for _, g := range w.groups {
		w.remove(g, err)
	}
	w.out.appends = nil
	w.flush()
}

// shutdown answers everything that is queued or pending with err and takes nothing more.
func (w *worker) shutdown(err error) {
	w.mu.Lock()
	w.stopped = true
	items := w.inbox
	w.inbox = nil
	w.mu.Unlock()
	if f := w.s.failed(); f != nil {
		err = f
	}
	w.abandonAll(err)
	w.refuse(items, err)
}

// refuse answers queued appends that were not taken.
func (w *worker) refuse(items []item, err error) {
	for i := range items {
		if items[i].kind == itemPropose {
			items[i].group.answer(items[i].proposal, err, &w.out)
		}
	}
	w.s.finish(w.out.finished)
	w.out.finished = 0
}
