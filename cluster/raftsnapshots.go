package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Bounds of the transfer of raftSnapshots.
const (
	// maxTransfers is how many a node sends at a time, of partitions; others wait until Raft asks again.
	maxTransfers = 4
	// DefaultTransferRate bounds, in bytes per second, what all transfers of a node take.
	DefaultTransferRate = 64 << 20
	transferTimeout     = 30 * time.Second // for one chunk
	maxSnapshotFrame    = 40 << 20
)

// transfers sends and receives raftSnapshots: the header, the receiver's cursor, then chunk by chunk, each answered once it is durable. A
// transfer that breaks is begun again by Raft and goes on where it stopped.
type transfers struct {
	partition func(log.GroupID) *log.Partition // nil: not here
	open      func(ctx context.Context, node int32, kind peer.Kind) (net.Conn, error)
	report    func(group log.GroupID, to uint64, ok bool)
	install   func(log.GroupID, *raftpb.Message, log.Installation) bool
	logger    *slog.Logger
	rate      int64

	ctx   context.Context
	wg    sync.WaitGroup
	slots chan struct{}

	mu    sync.Mutex
	ready time.Time // when the next chunk may go

	sent, received, active, failed atomic.Int64 // bytes, bytes, transfers, transfers
}

type transferHeader struct {
	Group   log.GroupID `json:"group"`
	Message []byte      `json:"message"` // MsgSnap
}

type transferCursor struct {
	Error  string             `json:"error,omitempty"`
	Cursor log.SnapshotCursor `json:"cursor"`
}

// Send implements Snapshots.
func (t *transfers) Send(group log.GroupID, m *raftpb.Message) {
	leave := func() {}
	if group != controllerGroup { // which is small, and a node that joins waits for it
		select {
		case t.slots <- struct{}{}:
			leave = func() { <-t.slots }
		default:
			t.report(group, m.GetTo(), false)
			return
		}
	}
	t.wg.Go(func() {
		defer leave()
		t.active.Add(1)
		defer t.active.Add(-1)
		err := t.send(group, m)
		if err != nil && t.ctx.Err() == nil {
			t.failed.Add(1)
			t.logger.Warn("a raftSnapshot was not sent; it is tried again", "group", uint64(group), "to", memberOf(m.GetTo()).String(), "error", err)
		}
		t.report(group, m.GetTo(), err == nil)
	})
}

func (t *transfers) send(group log.GroupID, m *raftpb.Message) error {
	part := t.partition(group)
	if part == nil {
		return errors.New("the replica is gone")
	}
	snap, release, err := part.RaftSnapshot()
	if err != nil {
		return err
	}
	defer release()
	m = proto.Clone(m).(*raftpb.Message)
	meta := m.GetSnapshot().GetMetadata()
	meta.Index, meta.Term = &snap.Index, &snap.Term
	if snap.Configuration != nil {
		if meta.ConfState, err = decodeConfiguration(snap.Configuration); err != nil {
			return err
		}
	}
	c, err := t.open(t.ctx, memberOf(m.GetTo()).Node, peer.Snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	raw, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if err := t.write(c, mustJSON(transferHeader{group, raw}), snap.Encode()); err != nil {
		return err
	}
	at, err := t.cursor(c)
	for ; err == nil && !at.Done; at, err = t.cursor(c) {
		var chunk []byte
		var next log.SnapshotCursor
		if chunk, next, err = part.SnapshotChunk(snap, at); err != nil {
			return err
		}
		if !t.pause(len(chunk)) {
			return t.ctx.Err()
		}
		if err := t.write(c, mustJSON(next), chunk); err != nil {
			return err
		}
		t.sent.Add(int64(len(chunk)))
	}
	return err
}

// pause keeps to the rate. It reports false when the node stops.
func (t *transfers) pause(n int) bool {
	t.mu.Lock()
	now := time.Now()
	if t.ready.Before(now) {
		t.ready = now
	}
	wait := t.ready.Sub(now)
	t.ready = t.ready.Add(time.Duration(float64(n) / float64(t.rate) * float64(time.Second)))
	t.mu.Unlock()
	return sleep.For(t.ctx, wait)
}

// receive serves one accepted connection.
func (t *transfers) receive(c net.Conn, from peer.Identity) {
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(t.ctx, func() { _ = c.Close() })
	defer stop()
	if err := t.take(c, from); err != nil && t.ctx.Err() == nil {
		t.logger.Warn("a raftSnapshot was not received; the sender tries again", "node", from.Node, "error", err)
		_ = t.write(c, mustJSON(transferCursor{Error: err.Error()}))
	}
}

func (t *transfers) take(c net.Conn, from peer.Identity) error {
	head, err := t.read(c)
	if err != nil {
		return err
	}
	var h transferHeader
	m := &raftpb.Message{}
	if err := json.Unmarshal(head, &h); err != nil {
		return fmt.Errorf("header of a raftSnapshot: %w", err)
	}
	if err := proto.Unmarshal(h.Message, m); err != nil {
		return fmt.Errorf("header of a raftSnapshot: %w", err)
	}
	if memberOf(m.GetFrom()).Node != from.Node || m.GetType() != raftpb.MsgSnap {
		return fmt.Errorf("%w: a raftSnapshot in the name of %v", errWire, memberOf(m.GetFrom()))
	}
	body, err := t.read(c)
	if err != nil {
		return err
	}
	snap, err := log.DecodeRaftSnapshot(body)
	if err != nil {
		return err
	}
	part := t.partition(h.Group)
	if part == nil || part.ID() != logID(h.Group, memberOf(m.GetTo()).Gen) {
		return fmt.Errorf("group %d does not have the replica %v here", h.Group, memberOf(m.GetTo()))
	}
	in, err := part.Receive(m.GetFrom(), snap)
	if err != nil {
		return err
	}
	for !in.Complete() {
		if err := t.write(c, mustJSON(transferCursor{Cursor: in.At()})); err != nil {
			return err
		}
		var next log.SnapshotCursor
		b, err := t.read(c)
		if err == nil {
			err = json.Unmarshal(b, &next)
		}
		if err != nil {
			return err
		}
		chunk, err := t.read(c)
		if err != nil {
			return err
		}
		if err := in.Add(chunk, next); err != nil {
			return err
		}
		t.received.Add(int64(len(chunk)))
	}
	meta := m.GetSnapshot().GetMetadata()
	meta.ConfState = withLearner(meta.GetConfState(), m.GetTo())
	at := in.At()
	if !t.install(h.Group, m, in) {
		return errors.Join(errors.New("the replica is gone"), in.Discard())
	}
	return t.write(c, mustJSON(transferCursor{Cursor: at}))
}

func (t *transfers) cursor(c net.Conn) (log.SnapshotCursor, error) {
	b, err := t.read(c)
	if err != nil {
		return log.SnapshotCursor{}, err
	}
	var a transferCursor
	if err := json.Unmarshal(b, &a); err != nil {
		return log.SnapshotCursor{}, err
	}
	if a.Error != "" {
		return log.SnapshotCursor{}, fmt.Errorf("%w: %s", peer.ErrRefused, a.Error)
	}
	return a.Cursor, nil
}

func (t *transfers) write(c net.Conn, frames ...[]byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(transferTimeout)); err != nil {
		return err
	}
	for _, f := range frames {
		if err := peer.WriteFrame(c, f); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfers) read(c net.Conn) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(transferTimeout)); err != nil {
		return nil, err
	}
	return peer.ReadFrame(c, maxSnapshotFrame)
}

// mustJSON encodes types of this file, which always marshal.
func mustJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
