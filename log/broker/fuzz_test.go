package broker

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzRequest sends a frame of any bytes, as any API in any version, through the whole server: it may be
// answered or its connection closed, and no handler panics (serve's clean-up sees to that).
func FuzzRequest(f *testing.F) {
	s := serve(f, func(o *Options) { o.FrameTimeout = time.Second })
	create(f, s, "t", 2, nil)
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	for key := int16(0); key <= maxAPIKey; key++ {
		if s.apis[key] == nil {
			continue
		}
		for v := s.apis[key].min; v <= s.apis[key].max; v++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			b := formatter.AppendRequest(nil, req, 1)
			f.Add(uint8(key), uint8(v), b[4+headerBytes:])
		}
	}
	for _, body := range seedBodies() {
		f.Add(uint8(body.Key()), uint8(body.GetVersion()), formatter.AppendRequest(nil, body, 1)[4+headerBytes:])
	}
	dialer := s.Dialer()
	f.Fuzz(func(t *testing.T, key, version uint8, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		c, err := dialer(context.Background(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		head := rawHeader(int16(key), int16(version), 1)[:headerBytes]
		if _, err := c.Write(framed(append(head, body...))); err != nil {
			t.Fatal(err)
		}
		// A good request behind it shows that the connection was answered in order, or closed.
		c.Write(request1(2, kmsg.NewPtrApiVersionsRequest()))
		closeWrite(c)
		io.Copy(io.Discard, c)
		if n := s.logs.count("request handler failed"); n > 0 {
			t.Fatalf("handler panicked:\n%s", s.logs)
		}
	})
}

// closeWrite ends the writing direction of an in-process connection, as a client that hangs up does.
func closeWrite(c net.Conn) { c.(*pipeConn).out.close(false) }

// seedBodies are requests with content, for the fuzzer to start from.
func seedBodies() []kmsg.Request {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxBytes = 12, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "t"
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes, fp.CurrentLeaderEpoch, fp.LastFetchedEpoch = 1<<20, -1, -1
	ft.Partitions = append(ft.Partitions, fp)
	fetch.Topics = append(fetch.Topics, ft)

	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks = 9, -1
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = "t"
	pp := kmsg.NewProduceRequestTopicPartition()
	pp.Records = bytes.Repeat([]byte{0}, 80)
	pt.Partitions = append(pt.Partitions, pp)
	produce.Topics = append(produce.Topics, pt)

	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	ar := kmsg.NewIncrementalAlterConfigsRequestResource()
	ar.ResourceType, ar.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	ac := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	ac.Name, ac.Value = "retention.ms", kmsg.StringPtr("1000")
	ar.Configs = append(ar.Configs, ac)
	alter.Resources = append(alter.Resources, ar)

	md := kmsg.NewPtrMetadataRequest()
	md.Version = 12
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr("t")
	md.Topics = append(md.Topics, mt)
	return []kmsg.Request{fetch, produce, alter, md}
}
