package cluster

import (
	"bytes"
	"math"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
)

func TestFramesCarryMessages(t *testing.T) {
	from, to := Member{3, 7}.raftID(), Member{4, 0}.raftID()
	var ms []Envelope
	add := func(kind raftpb.MessageType, more func(*raftpb.Message)) {
		m := &raftpb.Message{Type: kind.Enum(), From: proto.Uint64(from), To: proto.Uint64(to), Term: proto.Uint64(math.MaxUint64), Commit: proto.Uint64(9)}
		if more != nil {
			more(m)
		}
		ms = append(ms, Envelope{Group: log.GroupID(len(ms) + 1), Message: m})
	}
	for range 3 {
		add(raftpb.MsgHeartbeat, func(m *raftpb.Message) { m.Context = []byte("ctx") })
		ms[len(ms)-1].Shared = math.MaxUint64 - 1
		add(raftpb.MsgHeartbeatResp, nil)
		add(raftpb.MsgPreVote, func(m *raftpb.Message) { m.LogTerm, m.Index = proto.Uint64(3), proto.Uint64(8) })
		add(raftpb.MsgApp, func(m *raftpb.Message) {
			m.Entries = []*raftpb.Entry{{Term: proto.Uint64(2), Index: proto.Uint64(5), Data: make([]byte, frameBytes)}}
		})
		for _, size := range []int{0, 1, largePayload - 1, largePayload, 3 * largePayload} {
			add(raftpb.MsgApp, func(m *raftpb.Message) {
				m.LogTerm, m.Index = proto.Uint64(3), proto.Uint64(4)
				for i := range uint64(3) {
					var data []byte
					if size > 0 {
						data = bytes.Repeat([]byte{byte(size), byte(i)}, size)
					}
					m.Entries = append(m.Entries, &raftpb.Entry{Type: raftpb.EntryNormal.Enum(), Term: proto.Uint64(2), Index: proto.Uint64(5 + i), Data: data})
				}
			})
		}
		add(raftpb.MsgApp, func(m *raftpb.Message) { m.LogTerm, m.Index = proto.Uint64(3), proto.Uint64(4) })
		add(raftpb.MsgAppResp, func(m *raftpb.Message) { m.Reject = proto.Bool(true) })
	}
	got := map[log.GroupID]Envelope{}
	n := map[bool]int{}
	if err := frames(ms, func(control bool, f peer.Frame) {
		frame := bytes.Join(f, nil)
		n[control]++
		if err := decodeFrame(frame, 3, 4, func(e Envelope) {
			if isControl(e.Message.GetType()) != control {
				t.Errorf("%v is in the wrong kind of frame", e.Message.GetType())
			}
			got[e.Group] = e
		}); err != nil {
			t.Fatal(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range ms {
		e := got[want.Group]
		if e.Message == nil || !proto.Equal(e.Message, want.Message) || e.Shared != want.Shared {
			t.Errorf("group %d: %v\nwant %v", want.Group, e, want)
		}
	}
	if n[true] != 1 || n[false] != 4 {
		t.Errorf("%d control frames and %d others", n[true], n[false])
	}
	// A message that says another sender than the connection's is not believed.
	_ = frames(ms[2:3], func(_ bool, f peer.Frame) {
		frame := bytes.Join(f, nil)
		if err := decodeFrame(frame, 2, 4, func(Envelope) {}); err == nil {
			t.Error("a message in another node's name is taken")
		}
	})
}

// FuzzFrame: whatever a peer sends ends with messages or an error.
func FuzzFrame(f *testing.F) {
	m := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(1), To: proto.Uint64(2), Term: proto.Uint64(1)}
	a := &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: proto.Uint64(1), To: proto.Uint64(2), Entries: []*raftpb.Entry{{Data: []byte("x")}}}
	_ = frames([]Envelope{{Group: 1, Message: m}, {Group: 2, Message: a}}, func(_ bool, frame peer.Frame) { f.Add(bytes.Join(frame, nil)) })
	f.Add([]byte{wireVersion, wireHeartbeat})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = decodeFrame(b, 0, 1, func(Envelope) {})
	})
}
