package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// rawHeader is a version 1 request header with client id "t".
func rawHeader(key, version int16, corr int32) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	return append(b, 0, 1, 't')
}

func request1(corr int32, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("t")).AppendRequest(nil, req, corr)
}

func readFramed(t testing.TB, c net.Conn) []byte {
	t.Helper()
	var n [4]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		t.Fatalf("read response: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint32(n[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatalf("read response: %v", err)
	}
	return body
}

// What no client may do closes its connection, with one log line, and touches nobody else.
func TestMalformedFramesCloseTheConnection(t *testing.T) {
	s := serve(t, func(o *Options) { o.FrameTimeout = 200 * time.Millisecond })
	other := dial(t, s.addr)
	apiVersions := kmsg.NewPtrApiVersionsRequest()
	tests := []struct {
		name string
		send []byte
		log  string
	}{
		{"negative length", []byte{0xff, 0xff, 0xff, 0xff, 0, 0}, "shorter than a header"},
		{"zero length", []byte{0, 0, 0, 0}, "shorter than a header"},
		{"two gigabytes", []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, "exceeds the limit"},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "exceeds the limit"},
		{"TLS hello", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, "exceeds the limit"},
		{"unknown API", framed(rawHeader(999, 0, 1)), "API key 999"},
		{"negative API", framed(rawHeader(-1, 0, 1)), "API key -1"},
		{"API that is not served", framed(rawHeader(4, 0, 1)), "API key 4"},
		{"version too new", framed(rawHeader(3, 99, 1)), "Metadata version 99"},
		{"version too old", framed(rawHeader(1, 0, 1)), "Fetch version 0"},
		{"old produce, advertised only", framed(rawHeader(0, 2, 1)), "Produce version 2"},
		{"negative version", framed(rawHeader(3, -7, 1)), "Metadata version -7"},
		{"client id beyond the frame", framed([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'x'}), "decode Metadata header"},
		{"array beyond the frame", framed(append(rawHeader(3, 1, 1), 0x7f, 0xff, 0xff, 0xff)), "decode Metadata"},
		{"body cut short", framed(append(rawHeader(3, 1, 1), 0, 0, 0, 1, 0, 9, 'a')), "decode Metadata"},
		{"large small request", append([]byte{0, 0xa0, 0, 0}, rawHeader(3, 1, 1)...), "Metadata frame"},
		{"stalled in a frame", append([]byte{0, 0, 0, 100}, rawHeader(3, 1, 1)...), "timeout"},
		{"garbage after a good request", append(request1(1, apiVersions), bytes.Repeat([]byte{0xa5}, 64)...), "shorter than a header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, relevant := s.logs.count("closed connection"), s.logs.count(tt.log)
			c := dial(t, s.addr)
			if _, err := c.Write(tt.send); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil && !isReset(err) {
				t.Fatalf("connection stayed open: %v", err)
			}
			waitFor(t, "a log line", func() bool { return s.logs.count("closed connection") > before })
			if got := s.logs.count("closed connection") - before; got != 1 {
				t.Errorf("%d log lines, want 1", got)
			}
			if s.logs.count(tt.log) != relevant+1 {
				t.Errorf("no log line says %q:\n%s", tt.log, s.logs)
			}
		})
	}
	if _, err := other.Write(request1(7, apiVersions)); err != nil {
		t.Fatal(err)
	}
	if body := readFramed(t, other); binary.BigEndian.Uint32(body) != 7 {
		t.Fatal("another connection was disturbed")
	}
}

// Invariant 9: a flood of connections that are closed for the same reason is a few lines, which say how many there were.
func TestFloodOfMalformedConnectionsIsAFewLines(t *testing.T) {
	const flood = 300
	s := serve(t)
	for range flood {
		c := dial(t, s.addr)
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	waitFor(t, "all to be counted", func() bool { return s.Stats().Closed[closedMalformed.String()] == flood })
	// The machine may be slow enough for several windows.
	if n, most := s.logs.count("kind=malformed"), flood/4; n < logBurst || n > most {
		t.Errorf("%d lines, at most %d are due", n, most)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.logs.count("left_out=") == 0 {
		t.Errorf("no line says how many were left out:\n%s", s.logs)
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

func waitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// A future ApiVersions version is answered in version 0, naming the range; the connection goes on.
func TestApiVersionsOfTheFuture(t *testing.T) {
	s := serve(t)
	c := dial(t, s.addr)
	c.Write(framed(append(rawHeader(18, 77, 5), 1, 2, 3)))
	body := readFramed(t, c)
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(body[4:]); err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 {
		t.Fatalf("got %+v", resp)
	}
	for version := int16(0); version <= resp.ApiKeys[0].MaxVersion; version++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "t", "1.0"
		c.Write(request1(6, req))
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = version
		if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil { // header version 0 in every version
			t.Fatalf("v%d: %v", version, err)
		}
		if resp.ErrorCode != 0 || len(resp.ApiKeys) < 15 {
			t.Fatalf("v%d: %+v", version, resp)
		}
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName = 3, "not a name!"
	c.Write(request1(7, req))
	resp = kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil || resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Fatalf("bad software name: %+v, %v", resp, err)
	}
}

// Tags that are not known are skipped, in the header and in the body.
func TestUnknownTagsAreSkipped(t *testing.T) {
	s := serve(t)
	c := dial(t, s.addr)
	b := append(rawHeader(3, 12, 9), 1, 0x85, 0x01, 2, 'h', 'i') // tag 133
	b = append(b, 0 /* all topics */, 0, 0, 1, 0x20, 3, 'a', 'b', 'c')
	c.Write(framed(b))
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 12
	if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil {
		t.Fatal(err)
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].Host != "127.0.0.1" {
		t.Fatalf("got %+v", resp)
	}
}

// Half-open and slow connections cost little, and end.
func TestIdleConnectionsEnd(t *testing.T) {
	s := serve(t, func(o *Options) { o.IdleTimeout = 50 * time.Millisecond; o.FrameTimeout = 50 * time.Millisecond })
	var conns []net.Conn
	for i := range 50 {
		c := dial(t, s.addr)
		if i%2 == 0 {
			c.Write([]byte{0, 0}) // half a length
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("connection stayed open")
		}
	}
	waitFor(t, "connections to be given up", func() bool { return s.external.conns.Load() == 0 })
}

func TestConnectionLimit(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxConnections = 2 })
	a, b := dial(t, s.addr), dial(t, s.addr)
	req := kmsg.NewPtrApiVersionsRequest()
	for _, c := range []net.Conn{a, b} {
		c.Write(request1(1, req))
		readFramed(t, c)
	}
	c := dial(t, s.addr)
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("third connection: %d, %v", n, err)
	}
	waitFor(t, "a log line", func() bool { return s.logs.count("refused a connection") == 1 })
	a.Close()
	waitFor(t, "room for another", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		c.Write(request1(1, req))
		_, err = c.Read(make([]byte, 1))
		return err == nil
	})
}

// Frames of a hostile shape are refused before decoding multiplies them.
func TestProduceShape(t *testing.T) {
	body := []byte{0, 1, 't', 0, 0, 0xff, 0xff, 0, 0, 0, 1}
	topics := checkedFrameBytes / 2
	body = binary.AppendUvarint(body, uint64(topics+1))
	for range topics {
		body = append(body, 1, 1, 0) // empty name, no partitions, no tags
	}
	body = append(body, 0)
	if err := checkProduceShape(9, body); !errors.Is(err, errFrame) {
		t.Fatalf("hostile frame passed: %v", err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	for i := range 32 {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), make([]byte, 1<<20)
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	if err := checkProduceShape(9, request1(1, req)[4+headerBytes:]); err != nil {
		t.Fatalf("honest frame: %v", err)
	}
}
