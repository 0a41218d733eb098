package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/log"
)

// Raft's messages between two nodes go in frames of many. Heartbeats and their answers, of which there are thousands a second, have an
// encoding of their own; sender and receiver are the connection's, so only the generations are said.
const (
	wireVersion = 1

	wireHeartbeat byte = 'h' // group, sender's and receiver's generation, term, commit, shared, context
	wireAnswer    byte = 'r' // the same of an answer
	wireMessage   byte = 'm' // group, shared, message

	// frameBytes is about how large a frame gets; one message may be larger.
	frameBytes = 1 << 20
)

var errWire = errors.New("unreadable message of a peer")

// isControl tells the messages that must not wait behind appends.
func isControl(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgTimeoutNow:
		return true
	}
	return false
}

// frames encodes messages for one peer. put takes each frame over.
func frames(ms []Envelope, put func(control bool, frame []byte)) error {
	var bufs [2][]byte
	for i := range ms {
		e := &ms[i]
		kind := 1
		if isControl(e.Message.GetType()) {
			kind = 0
		}
		b := bufs[kind]
		if b == nil {
			b = append(make([]byte, 0, wireSize(e)+1), wireVersion)
		}
		var err error
		if b, err = appendEnvelope(b, e); err != nil {
			return err
		}
		if len(b) >= frameBytes {
			put(kind == 0, b)
			b = nil
		}
		bufs[kind] = b
	}
	for kind, b := range bufs {
		if b != nil {
			put(kind == 0, b)
		}
	}
	return nil
}

// wireSize is about what a message takes.
func wireSize(e *Envelope) int {
	n := 64
	for _, x := range e.Message.GetEntries() {
		n += len(x.GetData()) + 32
	}
	return n
}

func appendEnvelope(b []byte, e *Envelope) ([]byte, error) {
	m := e.Message
	switch t := m.GetType(); t {
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp:
		tag := wireHeartbeat
		if t == raftpb.MsgHeartbeatResp {
			tag = wireAnswer
		}
		b = append(b, tag)
		for _, v := range []uint64{
			uint64(e.Group), uint64(memberOf(m.GetFrom()).Gen), uint64(memberOf(m.GetTo()).Gen), m.GetTerm(), m.GetCommit(), e.Shared, uint64(len(m.GetContext())),
		} {
			b = binary.AppendUvarint(b, v)
		}
		return append(b, m.GetContext()...), nil
	}
	b = append(b, wireMessage)
	b = binary.AppendUvarint(b, uint64(e.Group))
	b = binary.AppendUvarint(b, e.Shared)
	b = binary.AppendUvarint(b, uint64(proto.Size(m))) //nolint:gosec // a size
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
}

// decodeFrame calls f for each message of a frame that node from sent to node to. Payloads share no bytes with the frame.
func decodeFrame(b []byte, from, to int32, f func(Envelope)) error {
	if len(b) == 0 || b[0] != wireVersion {
		return fmt.Errorf("%w: its version is not known", errWire)
	}
	r := wireReader{b: b[1:]}
	for len(r.b) > 0 {
		var e Envelope
		switch tag := r.byte(); tag {
		case wireHeartbeat, wireAnswer:
			e = r.heartbeat(tag, from, to)
		case wireMessage:
			e.Group, e.Shared = log.GroupID(r.uvarint()), r.uvarint()
			e.Message = &raftpb.Message{}
			if err := proto.Unmarshal(r.bytes(r.uvarint()), e.Message); err != nil {
				return fmt.Errorf("%w: %w", errWire, err)
			}
			if memberOf(e.Message.GetFrom()).Node != from || memberOf(e.Message.GetTo()).Node != to {
				return fmt.Errorf("%w: a message of %v to %v came from node %d", errWire, memberOf(e.Message.GetFrom()), memberOf(e.Message.GetTo()), from)
			}
		default:
			return fmt.Errorf("%w: tag %q", errWire, tag)
		}
		if r.bad {
			return fmt.Errorf("%w: it is cut", errWire)
		}
		f(e)
	}
	return nil
}

// wireReader reads a frame; bad is sticky.
type wireReader struct {
	b   []byte
	bad bool
}

func (r *wireReader) byte() byte {
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *wireReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *wireReader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *wireReader) heartbeat(tag byte, from, to int32) Envelope {
	group := log.GroupID(r.uvarint())
	fromID := Member{from, uint32(r.uvarint())}.raftID() //nolint:gosec // a generation
	toID := Member{to, uint32(r.uvarint())}.raftID()     //nolint:gosec // a generation
	term, commit, shared := r.uvarint(), r.uvarint(), r.uvarint()
	t := raftpb.MsgHeartbeat
	if tag == wireAnswer {
		t = raftpb.MsgHeartbeatResp
	}
	m := &raftpb.Message{Type: t.Enum(), From: &fromID, To: &toID, Term: &term, Commit: &commit}
	if c := r.bytes(r.uvarint()); len(c) > 0 {
		m.Context = append([]byte(nil), c...)
	}
	return Envelope{Group: group, Message: m, Shared: shared}
}
