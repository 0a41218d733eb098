package broker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/room"
)

// request is one decoded request and where it came from.
type request struct {
	req      kmsg.Request
	key      int16
	version  int16
	corr     int32
	clientID string // "" when the client sent none
	host     string // client's address without port, as group members report it
	internal bool   // came through Dialer: the internal principal
	shares   *shares
	held     *room.Hold // of bytes in flight, until the answer takes its place

	principal string // the user that logged in
	session   *session

	// maxRecordBytes bounds the records of a Fetch by what the client's quota leaves; 0: no such bound.
	maxRecordBytes int

	// created are the topics that a Metadata request asked for and that were missing: nil where they were created.
	created map[string]error

	throttle int32          // milliseconds that the client is told to wait, by its quotas
	staging  sync.WaitGroup // a staged request is being begun; throttle is known then

	release func() // called, when set, once the response is written or given up
	turn    func() // ends the turn that reading history takes, when set
	hangUp  error  // set by a handler to close the connection once the response is written
}

// endTurn ends a turn before anything that waits for a client.
func (r *request) endTurn() {
	if r.turn != nil {
		r.turn()
		r.turn = nil
	}
}

// errUnsupported: no such API key or version; Kafka closes the connection.
var errUnsupported = errors.New("unsupported API key or version")

// header is the part of a request before its body.
type header struct {
	key, version int16
	corr         int32
}

// headerBytes are read before a frame's body is allocated: key, version, correlation id.
const headerBytes = 8

func parseHeader(b *[headerBytes]byte) header {
	r := kbin.Reader{Src: b[:]}
	return header{key: r.Int16(), version: r.Int16(), corr: r.Int32()}
}

// lookup finds the API of a header. For ApiVersions above our range it returns the API and errUnsupported.
func (b *Broker) lookup(h header) (*api, error) {
	if h.key < 0 || int(h.key) > maxAPIKey || b.apis[h.key] == nil {
		return nil, fmt.Errorf("API key %d: %w", h.key, errUnsupported)
	}
	a := b.apis[h.key]
	if h.version < max(a.min, a.decodeMin) || h.version > a.max {
		return a, fmt.Errorf("%s version %d: %w", kmsg.NameForKey(h.key), h.version, errUnsupported)
	}
	return a, nil
}

// decode reads the rest of a frame (behind headerBytes): client id, header tags, body.
// Byte fields of the result point into body.
func decode(h header, body []byte) (req kmsg.Request, clientID string, err error) {
	req = kmsg.RequestForKey(h.key)
	if req == nil {
		return nil, "", fmt.Errorf("API key %d: %w", h.key, errUnsupported)
	}
	req.SetVersion(h.version)
	r := kbin.Reader{Src: body}
	if id := r.NullableString(); id != nil {
		clientID = *id
	}
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() {
		return nil, "", fmt.Errorf("decode %s header: %w", kmsg.NameForKey(h.key), kbin.ErrNotEnoughData)
	}
	if h.key == keyProduce {
		// Topic names are only looked up, so they may share the frame's memory.
		err = req.(*kmsg.ProduceRequest).UnsafeReadFrom(r.Src)
	} else {
		err = req.ReadFrom(r.Src)
	}
	if err != nil {
		return nil, "", fmt.Errorf("decode %s v%d: %w", kmsg.NameForKey(h.key), h.version, err)
	}
	return req, clientID, nil
}
