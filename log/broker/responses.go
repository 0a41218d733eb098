package broker

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxPooledResponse is the largest buffer of a Fetch response kept for reuse; other answers have smaller ones.
const maxPooledResponse = 4 << 20 // bytes

// stagedReply is the answer to a staged request, awaited in order.
type stagedReply struct {
	header  header
	request *request
	result  <-chan stagedResult
}

type stagedResult struct {
	resp kmsg.Response
	err  error
}

// stage begins a staged request and queues its answer behind those before it. It blocks while
// maxFramesAhead answers are outstanding.
func (c *conn) stage(f frame, r *request) (err error) {
	if c.staged == nil {
		c.staged = make(chan stagedReply, maxFramesAhead)
		go c.answer(c.staged)
	}
	result := make(chan stagedResult, 1)
	c.behind.Add(1)
	r.staging.Add(1)
	c.mute(r, throttledProduce, c.charge(r, throttledProduce, float64(len(f.body))))
	resume := c.work.pause()
	c.staged <- stagedReply{header: f.header, request: r, result: result}
	resume()
	done := func(resp kmsg.Response, err error) {
		select {
		case result <- stagedResult{resp, err}:
		default: // only a handler that failed after answering comes here
		}
	}
	defer func() {
		if err != nil {
			done(nil, err)
		}
	}()
	defer c.recoverTo(r, &err)
	defer func() {
		c.chargeWork(r)
		r.staging.Done()
	}()
	// Not the context that ends with the client: what arrived whole is appended although it left.
	f.api.stage(c.b, c.lasting, r, done)
	return nil
}

// answer writes staged answers in request order. After a failure it only waits for the rest.
func (c *conn) answer(replies <-chan stagedReply) {
	broken := false
	for r := range replies {
		res := <-r.result
		r.request.staging.Wait()
		err := res.err
		if err == nil && res.resp != nil && !broken {
			r.request.tell(res.resp)
			start := time.Now()
			buf := c.encode(r.header, res.resp)
			c.countWork(r.request, time.Since(start))
			err = c.sendPooled(buf)
		}
		if err != nil && !broken {
			broken = true
			c.fail(err)
		}
		r.request.held.Release()
		c.behind.Done()
	}
}

// write sends one response that is small by its nature. Only one goroutine writes at a time: the processor waits for staged answers.
func (c *conn) write(h header, resp kmsg.Response) error { return c.sendPooled(c.encode(h, resp)) }

// encode frames a response into a buffer of a size that fits: one that a client leaves unread must not hold much more than it says.
func (c *conn) encode(h header, resp kmsg.Response) *[]byte {
	pool, need := &c.b.small, responseSize(resp)
	if need > smallAnswer {
		pool = &c.b.buffers
	}
	bp, _ := pool.Get().(*[]byte)
	if bp == nil || cap(*bp) > bufferSlack*max(need, smallAnswer) {
		bp = new([]byte)
	}
	*bp = appendResponse((*bp)[:0], h, resp)
	return bp
}

// sendPooled sends a buffer of encode, and keeps it for others.
func (c *conn) sendPooled(buf *[]byte) error {
	err := c.send(*buf)
	switch n := cap(*buf); {
	case n <= smallAnswer:
		c.b.small.Put(buf)
	case n <= maxPooledResponse:
		c.b.buffers.Put(buf)
	}
	return err
}

// send writes buf. Each part of it, and the whole, must get through in time.
func (c *conn) send(buf []byte) error {
	whole := time.Now().Add(c.b.frameTime(len(buf)))
	for {
		part := buf[:min(len(buf), partBytes)]
		by := time.Now().Add(c.b.frameTime(len(part)))
		if by.After(whole) {
			by = whole
		}
		_ = c.nc.SetWriteDeadline(by)
		n, err := c.nc.Write(part)
		c.b.bytesOut.Add(int64(n))
		if buf = buf[n:]; err != nil || len(buf) == 0 {
			return err
		}
	}
}

// appendResponse appends a framed response. The header of ApiVersions has no tags in any version.
func appendResponse(dst []byte, h header, resp kmsg.Response) []byte {
	if need := responseSize(resp); cap(dst) < need {
		dst = make([]byte, 0, need)
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.corr))
	if resp.IsFlexible() && resp.Key() != keyAPIVersions {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst
}

// responseSize estimates a response from above where growing its buffer would be costly.
func responseSize(resp kmsg.Response) int {
	if f, ok := resp.(*kmsg.FetchResponse); ok {
		size := emptyResponse
		for i := range f.Topics {
			t := &f.Topics[i]
			size += 32 + len(t.Topic)
			for j := range t.Partitions {
				size += 96 + len(t.Partitions[j].RecordBatches) + 16*len(t.Partitions[j].AbortedTransactions)
			}
		}
		return size
	}
	return max(sizeAbove(resp), emptyResponse)
}

const emptyResponse = 512 // bytes that suffice for most

// sizeAbove bounds the answers that hand out what members of a group gave; 0: an answer of another kind.
func sizeAbove(resp kmsg.Response) int {
	const lengths = 32 // of an element's fields
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		size := emptyResponse + len(r.LeaderID) + len(r.MemberID) + len(deref(r.Protocol)) + len(deref(r.ProtocolType))
		for i := range r.Members {
			m := &r.Members[i]
			size += lengths + len(m.MemberID) + len(deref(m.InstanceID)) + len(m.ProtocolMetadata)
		}
		return size
	case *kmsg.SyncGroupResponse:
		return emptyResponse + len(r.MemberAssignment) + len(deref(r.Protocol)) + len(deref(r.ProtocolType))
	}
	return 0
}
