package broker

import (
	"context"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/room"
	"github.com/rowtrail/rowtrail/log/broker/turns"
)

const (
	// answerBytes are those of all answers to network clients that are being written, Fetch excepted, whose records are counted
	// apart; internalAnswerBytes the same of in-process clients.
	answerBytes         = 64 << 20
	internalAnswerBytes = 64 << 20
	// smallAnswer is an answer that a connection may always hold, and the largest buffer that is kept for such ones.
	smallAnswer = 16 << 10 // bytes
	// coordinatorBuilders is how many answers of any size of coordinators are put together at once at least; more where there are more
	// processors. Of the catalogue there are half as many: processors are left for who writes and reads.
	coordinatorBuilders = 2
	// bufferSlack: a buffer that is used again is at most so many times larger than what is written needs.
	bufferSlack = 4
)

// builders admits those who put together answers of any size: until one is encoded, nobody knows its size. What asks
// the catalogue never waits for anything while it is built; what asks a coordinator may, and must not hold that up. Hosts
// take turns: the connections of one that asks for much do not make others wait.
//
// history admits reads of history: however many connections read, only a few compete with producers for processors and locks.
type builders struct{ catalogue, coordinators, history *turns.Gate }

func newBuilders() builders {
	return builders{
		catalogue:    turns.New(time.Now, catalogueBuilders()),
		coordinators: turns.New(time.Now, max(coordinatorBuilders, runtime.GOMAXPROCS(0))),
		history:      turns.New(time.Now, historyReaders()),
	}
}

func catalogueBuilders() int { return max(1, runtime.GOMAXPROCS(0)/2) }

func historyReaders() int { return max(2, runtime.GOMAXPROCS(0)) }

// builder says who admits a request; nil: it changes something, or its answer is bounded by the request itself.
func (s *shares) builder(req kmsg.Request) *turns.Party {
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		if req.ValidateOnly {
			return s.catalogue
		}
	case *kmsg.MetadataRequest, *kmsg.DescribeConfigsRequest, *kmsg.DescribeLogDirsRequest, *kmsg.DescribeTopicPartitionsRequest,
		*kmsg.DescribeProducersRequest, *kmsg.DescribeClientQuotasRequest, *kmsg.DescribeUserSCRAMCredentialsRequest,
		*kmsg.ListPartitionReassignmentsRequest:
		return s.catalogue
	case *kmsg.OffsetFetchRequest, *kmsg.DescribeGroupsRequest, *kmsg.ListGroupsRequest, *kmsg.ConsumerGroupDescribeRequest,
		*kmsg.DescribeTransactionsRequest, *kmsg.ListTransactionsRequest:
		return s.coordinators
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
	gate := c.shares.builder(r.req)
	if gate == nil || c.b.surelySmall(r.req) {
		resp, err := c.throttled(f, r)
		if err != nil || resp == nil {
			return err
		}
		return c.answerOnce(f.header, r, resp)
	}
	answer := c.shares.answering.Large()
	defer answer.Release()
	if least := c.b.leastAnswer(r.req); least > smallAnswer {
		if err := c.growIdle(answer, least); err != nil {
			return err
		}
	}
	buf, err := c.build(gate, f, r)
	if err != nil {
		return err
	}
	n := answerSize(f.header, buf)
	answer.Shrink(n)
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
	r.endTurn()
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
func (c *conn) build(gate *turns.Party, f frame, r *request) (*[]byte, error) {
	leave, err := enter(c.ctx, gate)
	if err != nil {
		return nil, err
	}
	defer leave()
	resp, err := c.throttled(f, r)
	if err != nil {
		return nil, err
	}
	return c.encode(f.header, resp), nil
}

// enter waits for a turn, which is no work of the request that ctx is of.
func enter(ctx context.Context, gate *turns.Party) (leave func(), err error) {
	defer pause(ctx)()
	return gate.Enter(ctx)
}

// answerSize is what an answer takes of the answers' bytes.
func answerSize(h header, buf *[]byte) int64 {
	if h.key == keyFetch || len(*buf) <= smallAnswer {
		return 0
	}
	return int64(cap(*buf))
}
