package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Version is what this release speaks between nodes. A release speaks with the one before it and the one behind it.
const (
	Version    = 1
	minVersion = 1
)

// Kind is what a connection is for.
type Kind string

// The kinds of connections.
const (
	Control  Kind = "control"  // heartbeats and votes
	Append   Kind = "append"   // Raft's other messages
	Snapshot Kind = "snapshot" // one raftSnapshot
	Call     Kind = "call"     // requests and answers
	Kafka    Kind = "kafka"    // the Kafka protocol, as an internal principal
	HTTP     Kind = "http"     // HTTP/1.1, likewise
)

// Identity says who a node is.
type Identity struct {
	Cluster string `json:"cluster"` // "": it belongs to none yet
	Node    int32  `json:"node"`
	Disk    string `json:"disk"`              // of its data directory
	Boot    string `json:"boot"`              // of its process
	Address string `json:"address,omitempty"` // where its peers reach it
}

// Hello is the first frame of a connection.
type Hello struct {
	Version int  `json:"version"`
	Kind    Kind `json:"kind"`
	Identity
	Time int64 `json:"time,omitempty"` // its wall clock, in milliseconds
}

// reply is the answer to a Hello.
type reply struct {
	Error string `json:"error,omitempty"`
	Later bool   `json:"later,omitempty"` // it may be asked again
	// Removed: who asks was removed from the cluster.
	Removed bool `json:"removed,omitempty"`
	Hello
}

// Errors of opening a connection.
var (
	// ErrRefused: the other node does not want this one; the text says why and what to do.
	ErrRefused = errors.New("refused by the other node")
	// ErrLater: the other node cannot serve this one yet.
	ErrLater = errors.New("not yet")
	// ErrRemoved is ErrRefused for a node that was removed from the cluster, and is refused for ever.
	ErrRemoved = fmt.Errorf("%w for ever", ErrRefused)
	// ErrClosed: the network was closed.
	ErrClosed = errors.New("closed")
)

const (
	helloTimeout  = 5 * time.Second
	maxHelloBytes = 16 << 10
)

// greet says hello on a new connection and returns who answered. least is the lowest version that this release speaks.
func greet(c net.Conn, h Hello, least int) (Identity, error) {
	if err := c.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return Identity{}, err
	}
	sent := writeJSON(c, h)
	var r reply
	if err := readJSON(c, &r); err != nil { // one that closes the connection may have said why
		if sent != nil && !isAlert(err) {
			err = sent
		}
		return Identity{}, err
	}
	if r.Error == "" && r.Version < least {
		return r.Identity, tooOld(r.Hello, least)
	}
	if r.Later {
		return r.Identity, fmt.Errorf("%w: %s", ErrLater, r.Error)
	}
	if r.Removed {
		return r.Identity, fmt.Errorf("%w: %s", ErrRemoved, r.Error)
	}
	if r.Error != "" {
		return r.Identity, fmt.Errorf("%w: %s", ErrRefused, r.Error)
	}
	return r.Identity, c.SetDeadline(time.Time{})
}

// welcome reads a Hello and answers it. check says why not, in one line; nil: welcome.
func welcome(c net.Conn, self Hello, check func(Hello) error) (Hello, error) {
	if err := c.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return Hello{}, err
	}
	var h Hello
	if err := readJSON(c, &h); err != nil {
		if errors.Is(err, errSpeaksTLS) {
			_ = writeJSON(c, reply{Error: "this node does not speak TLS", Hello: Hello{Version: self.Version}}) // no TLS, which the caller notices
		}
		return h, fmt.Errorf("read hello: %w", err)
	}
	err := check(h)
	r := reply{Hello: self}
	if err != nil {
		r.Error, r.Later, r.Removed = err.Error(), errors.Is(err, ErrLater), errors.Is(err, ErrRemoved)
	}
	if werr := writeJSON(c, r); err == nil {
		err = werr
	}
	if err != nil {
		return h, err
	}
	return h, c.SetDeadline(time.Time{})
}

// isAlert reports whether an error is what the other side complains about in TLS.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" // crypto/tls's mark of it
}

func tooOld(h Hello, least int) error {
	return fmt.Errorf("%w: node %d speaks version %d between nodes, this release needs %d; upgrade it first, one release at a time", ErrRefused, h.Node, h.Version, least)
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFrame(w, b)
}

func readJSON(r io.Reader, v any) error {
	b, err := ReadFrame(r, maxHelloBytes)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("what answers is no rowtrail node: %w", err)
	}
	return nil
}
