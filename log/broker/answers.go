package broker

import (
	"runtime"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/room"
)

const (
	// answerBytes are those of all answers to network clients that are being written, Fetch excepted, whose records are counted
	// apart; internalAnswerBytes the same of in-process clients.
	answerBytes         = 64 << 20
	internalAnswerBytes = 64 << 20
	// smallAnswer is an answer that a connection may always hold, and the largest buffer that is kept for such ones.
	smallAnswer = 16 << 10 // bytes
	// minBuilders is how many answers of any size are put together at once at least; more where there are more processors.
	minBuilders = 2
	// bufferSlack: a buffer that is used again is at most so many times larger than what is written needs.
	bufferSlack = 4
)

// builders admits those who put together answers of any size: until one is encoded, nobody knows its size. What asks
// the catalogue never waits for anything while it is built; what asks a coordinator may, and must not hold that up.
type builders struct{ catalogue, coordinators chan struct{} }

func newBuilders() builders {
	n := max(minBuilders, runtime.GOMAXPROCS(0))
	return builders{catalogue: make(chan struct{}, n), coordinators: make(chan struct{}, n)}
}

// of says who admits a request; nil: it changes something, or its answer is bounded by the request itself.
func (b *builders) of(req kmsg.Request) chan struct{} {
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		if req.ValidateOnly {
			return b.catalogue
		}
	case *kmsg.MetadataRequest, *kmsg.DescribeConfigsRequest, *kmsg.DescribeLogDirsRequest, *kmsg.DescribeTopicPartitionsRequest,
		*kmsg.DescribeProducersRequest, *kmsg.DescribeClientQuotasRequest, *kmsg.DescribeUserSCRAMCredentialsRequest,
		*kmsg.ListPartitionReassignmentsRequest:
		return b.catalogue
	case *kmsg.OffsetFetchRequest, *kmsg.DescribeGroupsRequest, *kmsg.ListGroupsRequest, *kmsg.ConsumerGroupDescribeRequest,
		*kmsg.DescribeTransactionsRequest, *kmsg.ListTransactionsRequest:
		return b.coordinators
	}
	return nil
}

// respond handles a request and sends the answer. Invariant 9: an answer that has no room is thrown away and put together
// again when it has, rather than kept by as many connections as wait; so what is in memory is what is being built, by a few,
// and what is being written, within the answers' bytes.
func (c *conn) respond(f frame, r *request) error {
	if f.api.before != nil {
		n := f.api.before(c.b, c.ctx, r)
		c.mute(r, throttledMutation, c.charge(r, throttledMutation, float64(n)))
	}
	gate := c.limits.building.of(r.req)
	if gate == nil {
		resp, err := c.throttled(f, r)
		if err != nil || resp == nil {
			return err
		}
		return c.answerOnce(f.header, r, resp)
	}
	buf, err := c.build(gate, f, r)
	if err != nil {
		return err
	}
	answer, n := c.shares.answering.Large(), answerSize(f.header, buf)
	defer answer.Release()
	if !answer.TryGrow(n) {
		if err := c.growIdle(answer, n); err != nil {
			return err
		}
		// What came into being meanwhile is not counted; it is little. buf is garbage while this waits.
		if buf, err = c.build(gate, f, r); err != nil {
			return err
		}
	}
	return c.sendCounted(r, buf)
}

// answerOnce sends an answer that exists already, because what it answers cannot be done twice. One whose size is told before it is
// encoded waits unencoded: it points to what is kept anyway.
func (c *conn) answerOnce(h header, r *request, resp kmsg.Response) error {
	answer := c.shares.answering.Large()
	defer answer.Release()
	if size := sizeAbove(resp); size > smallAnswer {
		if err := c.growIdle(answer, int64(size)); err != nil {
			return err
		}
	}
	buf := c.encode(h, resp)
	if err := c.growIdle(answer, answerSize(h, buf)); err != nil {
		return err
	}
	return c.sendCounted(r, buf)
}

// growIdle brings a hold to n bytes. Waiting for them is no work of the request.
func (c *conn) growIdle(h *room.Hold, n int64) error {
	defer c.work.pause()()
	_, err := h.Grow(c.ctx, n)
	return err
}

// sendCounted sends an answer that holds its bytes of the answers'. What its request took of the bytes in flight is free from then on:
// a client that does not read must not hold it.
func (c *conn) sendCounted(r *request, buf *[]byte) error {
	c.countWork(r, c.work.lap())
	r.held.Release()
	r.req = nil
	return c.sendPooled(buf)
}

// build handles and encodes a request while it is admitted.
func (c *conn) build(gate chan struct{}, f frame, r *request) (*[]byte, error) {
	resume := c.work.pause()
	select {
	case gate <- struct{}{}:
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	defer func() { <-gate }()
	resume()
	resp, err := c.throttled(f, r)
	if err != nil {
		return nil, err
	}
	return c.encode(f.header, resp), nil
}

// answerSize is what an answer takes of the answers' bytes.
func answerSize(h header, buf *[]byte) int64 {
	if h.key == keyFetch || len(*buf) <= smallAnswer {
		return 0
	}
	return int64(cap(*buf))
}
