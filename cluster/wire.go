package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/fields"
)

// Raft's messages between two nodes go in frames of many. Heartbeats and their answers, of which there are thousands a second, and appends,
// which carry all payload, have an encoding of their own; sender and receiver are the connection's, so only the generations are said.
const (
	wireVersion = 1

	wireHeartbeat byte = 'h' // group, sender's and receiver's generation, term, commit, shared, context
	wireAnswer    byte = 'r' // the same of an answer
	wireAppend    byte = 'a' // the same of entries to append: index and term before them, entries
	wireMessage   byte = 'm' // group, shared, any other message

	wireHeartbeatSize = 10   // about
	maxPresized       = 1024 // messages of a frame that room is made for beforehand

	// frameBytes is about how large a frame gets; one message may be larger.
	frameBytes = 1 << 20
	// largePayload is what is not copied on its way into a frame.
	largePayload = 16 << 10
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

// frames encodes messages for one peer. put takes each frame over; large payloads in it are the messages' own, which do not change.
func frames(ms []Envelope, put func(control bool, frame peer.Frame)) error {
	var open [2]frameWriter
	for i := range ms {
		e := &ms[i]
		kind := 1
		if isControl(e.Message.GetType()) {
			kind = 0
		}
		w := &open[kind]
		if w.size() == 0 {
			w.b = append(w.b, wireVersion)
		}
		if err := w.envelope(e); err != nil {
			return err
		}
		if w.size() >= frameBytes {
			put(kind == 0, w.frame())
			*w = frameWriter{}
		}
	}
	for kind := range open {
		if w := &open[kind]; w.size() > 0 {
			put(kind == 0, w.frame())
		}
	}
	return nil
}

// frameWriter gathers one frame.
type frameWriter struct {
	b     []byte
	large []largePart
	more  int // bytes of large parts
}

// largePart goes in before a byte of b.
type largePart struct {
	at   int
	data []byte
}

func (w *frameWriter) size() int { return len(w.b) + w.more }

func (w *frameWriter) frame() peer.Frame {
	f := make(peer.Frame, 0, 2*len(w.large)+1)
	from := 0
	for _, p := range w.large {
		f = append(f, w.b[from:p.at:p.at], p.data)
		from = p.at
	}
	return append(f, w.b[from:])
}

func (w *frameWriter) uvarints(vs ...uint64) {
	for _, v := range vs {
		w.b = binary.AppendUvarint(w.b, v)
	}
}

// bytes writes a length and what is so long.
func (w *frameWriter) bytes(data []byte) {
	w.uvarints(uint64(len(data)))
	if len(data) < largePayload {
		w.b = append(w.b, data...)
		return
	}
	w.large = append(w.large, largePart{len(w.b), data})
	w.more += len(data)
}

func (w *frameWriter) envelope(e *Envelope) error {
	switch t := e.Message.GetType(); t {
	case raftpb.MsgHeartbeat:
		w.head(wireHeartbeat, e)
		w.bytes(e.Message.GetContext())
		return nil
	case raftpb.MsgHeartbeatResp:
		w.head(wireAnswer, e)
		w.bytes(e.Message.GetContext())
		return nil
	case raftpb.MsgApp:
		if inOrder(e.Message) {
			w.appends(e)
			return nil
		}
	}
	w.b = append(w.b, wireMessage)
	w.uvarints(uint64(e.Group), e.Shared, uint64(proto.Size(e.Message))) //nolint:gosec // a size
	var err error
	w.b, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(w.b, e.Message)
	return err
}

// head writes what the encodings of heartbeats and appends begin with.
func (w *frameWriter) head(tag byte, e *Envelope) {
	m := e.Message
	w.b = append(w.b, tag)
	w.uvarints(uint64(e.Group), uint64(memberOf(m.GetFrom()).Gen), uint64(memberOf(m.GetTo()).Gen), m.GetTerm(), m.GetCommit(), e.Shared)
}

// inOrder reports that the indexes of entries follow the message's, as Raft's do.
func inOrder(m *raftpb.Message) bool {
	for i, x := range m.GetEntries() {
		if x.GetIndex() != m.GetIndex()+1+uint64(i) {
			return false
		}
	}
	return true
}

// appends writes what Raft sets of a MsgApp.
func (w *frameWriter) appends(e *Envelope) {
	m := e.Message
	w.head(wireAppend, e)
	w.uvarints(m.GetIndex(), m.GetLogTerm(), uint64(len(m.GetEntries())))
	for _, x := range m.GetEntries() {
		w.uvarints(uint64(x.GetType()), x.GetTerm()) //nolint:gosec // an enumeration
		w.bytes(x.GetData())
	}
}

// decodeFrame calls f for each message of a frame that node from sent to node to. A payload that is most of the frame shares its bytes, which
// become the message's; others do not, as one that is kept would keep the frame.
func decodeFrame(b []byte, from, to int32, f func(Envelope)) error {
	if len(b) == 0 || b[0] != wireVersion {
		return fmt.Errorf("%w: its version is not known", errWire)
	}
	r := wireReader{fields.Read(b[1:]), len(b)}
	for r.Len() > 0 {
		var e Envelope
		switch tag := r.Byte(); tag {
		case wireHeartbeat, wireAnswer:
			t := raftpb.MsgHeartbeat
			if tag == wireAnswer {
				t = raftpb.MsgHeartbeatResp
			}
			e = r.head(t, from, to)
			e.Message.Context = r.own(r.Bytes())
		case wireAppend:
			e = r.head(raftpb.MsgApp, from, to)
			r.appends(e.Message)
		case wireMessage:
			e.Group, e.Shared = log.GroupID(r.Uvarint()), r.Uvarint()
			e.Message = &raftpb.Message{}
			if err := proto.Unmarshal(r.Bytes(), e.Message); err != nil {
				return fmt.Errorf("%w: %w", errWire, err)
			}
			if memberOf(e.Message.GetFrom()).Node != from || memberOf(e.Message.GetTo()).Node != to {
				return fmt.Errorf("%w: a message of %v to %v came from node %d", errWire, memberOf(e.Message.GetFrom()), memberOf(e.Message.GetTo()), from)
			}
		default:
			return fmt.Errorf("%w: tag %q", errWire, tag)
		}
		if !r.OK() {
			return fmt.Errorf("%w: it is cut", errWire)
		}
		f(e)
	}
	return nil
}

// wireReader reads a frame.
type wireReader struct {
	fields.Reader
	frame int // bytes of the whole
}

// own makes bytes of the frame the message's; nil for none.
func (r *wireReader) own(b []byte) []byte {
	switch {
	case len(b) == 0:
		return nil
	case 2*len(b) >= r.frame:
		return b
	}
	return append([]byte(nil), b...)
}

func (r *wireReader) head(t raftpb.MessageType, from, to int32) Envelope {
	group := log.GroupID(r.Uvarint())
	fromID := Member{from, uint32(r.Uvarint())}.raftID() //nolint:gosec // a generation
	toID := Member{to, uint32(r.Uvarint())}.raftID()     //nolint:gosec // a generation
	term, commit, shared := r.Uvarint(), r.Uvarint(), r.Uvarint()
	// One allocation for what would be six: there are thousands a second.
	x := &struct {
		m                      raftpb.Message
		kind                   raftpb.MessageType
		from, to, term, commit uint64
	}{kind: t, from: fromID, to: toID, term: term, commit: commit}
	m := &x.m
	m.Type, m.From, m.To, m.Term, m.Commit = &x.kind, &x.from, &x.to, &x.term, &x.commit
	return Envelope{Group: group, Message: m, Shared: shared}
}

func (r *wireReader) appends(m *raftpb.Message) {
	index, term, n := r.Uvarint(), r.Uvarint(), r.Count()
	m.Index, m.LogTerm = &index, &term
	m.Entries = make([]*raftpb.Entry, 0, n)
	for at := index + 1; n > 0 && r.OK(); n-- {
		t, term, index := raftpb.EntryType(r.Uvarint()), r.Uvarint(), at //nolint:gosec // an enumeration
		m.Entries = append(m.Entries, &raftpb.Entry{Type: t.Enum(), Term: &term, Index: &index, Data: r.own(r.Bytes())})
		at++
	}
}
