package cluster

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/fields"
)

// announceEvery is how often a node tells its peers of everything that it leads, whether it changed or not; changes go at once.
const announceEvery = 2 * time.Second

// aliveFor is how long a node counts as alive after it was heard last.
const aliveFor = 6 * time.Second

// leavesFor is how long a node that said that it can lead nothing, as it stops or its disk is full, is taken at its word; it says so again with
// every announcement.
const leavesFor = 3 * announceEvery

// announcement is what a leader says of its group to all nodes.
type announcement struct {
	group  log.GroupID
	epoch  int32
	inSync []int32
}

// leaders knows, from what nodes announce, who leads every group: also those of which this node has no replica.
type leaders struct {
	mu    sync.Mutex
	of    map[log.GroupID]leaderOf
	own   map[log.GroupID]announcement
	heard map[int32]time.Time
	left  map[int32]time.Time // when a node said that it can lead nothing
	moved chan struct{}       // closed at the next change
}

type leaderOf struct {
	node int32
	announcement
}

func newLeaders() *leaders {
	return &leaders{of: map[log.GroupID]leaderOf{}, own: map[log.GroupID]announcement{}, heard: map[int32]time.Time{},
		left: map[int32]time.Time{}, moved: make(chan struct{})}
}

// lead notes what this node leads, or that it leads a group no more. It reports whether the others are to be told.
func (l *leaders) lead(node int32, a announcement, leads bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !leads {
		if _, led := l.own[a.group]; led {
			delete(l.own, a.group)
			l.wake()
		}
		return false
	}
	l.own[a.group] = a
	l.take(node, a)
	return true
}

// take believes a higher epoch, and what the leader of the same epoch says later.
func (l *leaders) take(node int32, a announcement) {
	if have, ok := l.of[a.group]; ok && (have.epoch > a.epoch || have.epoch == a.epoch && have.node != node) {
		return
	}
	if have, ok := l.of[a.group]; ok && have.epoch == a.epoch && slices.Equal(have.inSync, a.inSync) {
		return
	}
	l.of[a.group] = leaderOf{node, a}
	l.wake()
}

// look has everyone who waits for another leader look again.
func (l *leaders) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
}

func (l *leaders) wake() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// follow notes the leader that this node's own replica follows, which has perhaps not announced itself yet.
func (l *leaders) follow(node int32, a announcement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.of[a.group]; !ok || have.epoch < a.epoch {
		l.take(node, a)
	}
}

// hear takes a peer's announcements.
func (l *leaders) hear(node int32, now time.Time, as []announcement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[node] = now
	for _, a := range as {
		l.take(node, a)
	}
}

// get is the leader that was announced of a group; node -1: none was.
func (l *leaders) get(group log.GroupID) (node, epoch int32, inSync []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.of[group]
	if !ok {
		return -1, -1, nil
	}
	return x.node, x.epoch, x.inSync
}

// alive reports that a node was heard of lately.
func (l *leaders) alive(node int32, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.heard[node]
	return ok && now.Sub(at) < aliveFor
}

// gone forgets that a node was alive.
func (l *leaders) gone(node int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, node)
	delete(l.left, node)
}

// leave notes that a node stops or has no space: what it is given it would only give away again.
func (l *leaders) leave(node int32, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[node] = now
}

// stays reports that a node is alive and has not said lately that it can lead nothing.
func (l *leaders) stays(node int32, now time.Time) bool {
	l.mu.Lock()
	at, left := l.left[node]
	l.mu.Unlock()
	return l.alive(node, now) && (!left || now.Sub(at) >= leavesFor)
}

// forget drops groups that do not exist any more.
func (l *leaders) forget(exists func(log.GroupID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for g := range l.of {
		if !exists(g) {
			delete(l.of, g)
			delete(l.own, g)
		}
	}
}

// everything is all that this node leads.
func (l *leaders) everything() []announcement {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]announcement, 0, len(l.own))
	for _, a := range l.own {
		out = append(out, a)
	}
	return out
}

// changed returns a channel that is closed at the next change.
func (l *leaders) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

const (
	wireLeaders byte = 'l' // count, then group, epoch, in-sync nodes of each
	wireLeaving byte = 'x' // nothing more: the node stops
)

func encodeLeaving() []byte { return []byte{wireVersion, wireLeaving} }

func isLeaving(b []byte) bool { return len(b) == 2 && b[0] == wireVersion && b[1] == wireLeaving }

// encodeLeaders is a frame of announcements; one without any says that the node is alive.
func encodeLeaders(as []announcement) []byte {
	b := []byte{wireVersion, wireLeaders}
	b = binary.AppendUvarint(b, uint64(len(as)))
	for _, a := range as {
		b = binary.AppendUvarint(b, uint64(a.group))
		b = binary.AppendUvarint(b, uint64(uint32(a.epoch)))
		b = binary.AppendUvarint(b, uint64(len(a.inSync)))
		for _, n := range a.inSync {
			b = binary.AppendUvarint(b, uint64(uint32(n)))
		}
	}
	return b
}

// isLeaders tells such a frame from Raft's messages.
func isLeaders(b []byte) bool { return len(b) > 1 && b[0] == wireVersion && b[1] == wireLeaders }

func decodeLeaders(b []byte) ([]announcement, error) {
	r := fields.Read(b[2:])
	var out []announcement
	for range min(r.Uvarint(), uint64(len(b))) {
		a := announcement{group: log.GroupID(r.Uvarint()), epoch: int32(uint32(r.Uvarint()))} //nolint:gosec // an epoch
		for range min(r.Uvarint(), maxNodes) {
			a.inSync = append(a.inSync, int32(uint32(r.Uvarint()))) //nolint:gosec // a node id
		}
		if !r.OK() {
			return nil, errWire
		}
		out = append(out, a)
	}
	return out, nil
}
