package cluster

import (
	"bytes"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
)

// BenchmarkDecodeFrame reads frames as they come: heartbeats of many groups, and appends of small and of large payloads.
func BenchmarkDecodeFrame(b *testing.B) {
	from, to := Member{3, 7}.raftID(), Member{4, 2}.raftID()
	message := func(i int, kind raftpb.MessageType) Envelope {
		return Envelope{Group: log.GroupID(i + 1), Shared: uint64(i), Message: &raftpb.Message{
			Type: kind.Enum(), From: proto.Uint64(from), To: proto.Uint64(to), Term: proto.Uint64(12), Commit: proto.Uint64(uint64(i) << 12),
			Index: proto.Uint64(uint64(i) << 12), LogTerm: proto.Uint64(12),
		}}
	}
	appends := func(n, size int) (ms []Envelope) {
		for i := range n {
			e := message(i, raftpb.MsgApp)
			e.Message.Entries = []*raftpb.Entry{{
				Type: raftpb.EntryNormal.Enum(), Term: proto.Uint64(12), Index: proto.Uint64(uint64(i)<<12 + 1), Data: make([]byte, size),
			}}
			ms = append(ms, e)
		}
		return ms
	}
	var beats []Envelope
	for i := range 100 {
		beats = append(beats, message(i, raftpb.MsgHeartbeat))
	}
	for _, c := range []struct {
		name string
		ms   []Envelope
	}{{"heartbeats", beats}, {"small", appends(100, 200)}, {"large", appends(1, 1<<18)}} {
		b.Run(c.name, func(b *testing.B) {
			var frame []byte
			if err := frames(c.ms, func(_ bool, f peer.Frame) { frame = bytes.Join(f, nil) }); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				if err := decodeFrame(frame, 3, 4, func(Envelope) { n++ }); err != nil || n != len(c.ms) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
