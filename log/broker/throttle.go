package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/quota"
)

// throttleKind is a client quota that is enforced.
type throttleKind int

const (
	throttledProduce throttleKind = iota
	throttledFetch
	throttledMutation
	throttledRequest
	throttleKinds
)

func (k throttleKind) String() string { return quota.Names()[k] }

// The API keys that quotas look at.
const (
	keyFetch            = 1
	keyCreateTopics     = 19
	keyDeleteTopics     = 20
	keyCreatePartitions = 37
)

// client is whose requests a connection carries, for quotas.
func (r *request) client() quota.Client { return quota.Client{User: r.principal, ID: r.clientID} }

// charge counts what a request took, and says how long its connection must wait for it. The internal principal has no quotas.
func (c *conn) charge(r *request, kind throttleKind, n float64) time.Duration {
	if c.internal || n == 0 {
		return 0
	}
	return c.b.quotas.Charge(time.Now(), c.b.node.Catalog().Quotas, kind.String(), r.client(), n)
}

// allowance is how much of a quota is left, and how long to wait where that is nothing.
func (c *conn) allowance(r *request, kind throttleKind) (float64, time.Duration) {
	if c.internal {
		return math.Inf(1), 0
	}
	return c.b.quotas.Allowance(time.Now(), c.b.node.Catalog().Quotas, kind.String(), r.client())
}

// mute stops reading from the connection for as long as its client was told to wait (KIP-219), but no longer than an idle
// connection is kept; what is still owed then, the next request is charged for. The longest wait is told.
func (c *conn) mute(r *request, kind throttleKind, wait time.Duration) {
	if wait <= 0 {
		return
	}
	millis := int32(min((wait + time.Millisecond - 1).Milliseconds(), math.MaxInt32))
	r.throttle = max(r.throttle, millis)
	wait = min(time.Duration(millis)*time.Millisecond, c.b.opts.IdleTimeout)
	c.b.tallies.throttled[kind].Add(int64(wait))
	for until := time.Now().Add(wait).UnixNano(); ; {
		old := c.mutedUntil.Load()
		if old >= until || c.mutedUntil.CompareAndSwap(old, until) {
			return
		}
	}
}

// waitMuted waits until the connection is heard again. Nothing is held meanwhile but the connection, and a client that hangs
// up gives that back: one that owes for long and comes again and again must not use up the connections of its host.
func (c *conn) waitMuted() error {
	muted := func() (until time.Time, yes bool) {
		until = time.Unix(0, c.mutedUntil.Load())
		return until, time.Now().Before(until)
	}
	until, yes := muted()
	if !yes {
		return nil
	}
	// What is read ahead stays in the buffer. One that is full says no more about the client.
	stop := context.AfterFunc(c.ctx, func() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for ; yes; until, yes = muted() {
		if c.br.Buffered() == c.br.Size() {
			wait(c.ctx, time.Until(until))
		} else {
			c.deadline(until)
			if _, err := c.br.Peek(c.br.Buffered() + 1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return noEOF(err) // within a frame
			}
		}
		if c.ctx.Err() != nil || c.draining.Load() {
			return context.Canceled
		}
	}
	c.idleSet = time.Time{} // the deadline is over
	return nil
}

// chargeWork counts what the request has taken of this node's threads since the last time, and mutes its connection for it.
func (c *conn) chargeWork(r *request) { c.mute(r, throttledRequest, c.countWork(r, c.work.lap())) }

// countWork is chargeWork without a wait, for what comes after the answer is made up: the next request finds it owed.
func (c *conn) countWork(r *request, spent time.Duration) time.Duration {
	if c.internal || !c.admitted {
		return 0 // nobody knows yet whose a log-in is
	}
	c.b.tallies.worked.Add(int64(spent))
	return c.charge(r, throttledRequest, spent.Seconds()*100)
}

// throttled handles a request; what its client must wait for by its quotas is told in the response.
func (c *conn) throttled(f frame, r *request) (resp kmsg.Response, err error) {
	switch r.key {
	case keyFetch:
		resp, err = c.throttledFetch(f, r)
	case keyCreateTopics, keyDeleteTopics, keyCreatePartitions:
		resp, err = c.throttledMutation(f, r)
	default:
		resp, err = c.handle(f.api, r)
	}
	c.chargeWork(r)
	r.tell(resp)
	return resp, err
}

// tell puts into an answer what the client waits.
func (r *request) tell(resp kmsg.Response) {
	if set, ok := resp.(kmsg.SetThrottleResponse); ok && r.throttle > 0 {
		set.SetThrottle(r.throttle)
	}
}

// throttledFetch answers a client that owes with an empty response, and bounds one that does not by what it may take.
func (c *conn) throttledFetch(f frame, r *request) (kmsg.Response, error) {
	allowed, wait := c.allowance(r, throttledFetch)
	if wait > 0 {
		c.mute(r, throttledFetch, wait)
		return r.req.ResponseKind(), nil
	}
	r.maxRecordBytes = int(min(max(allowed, 1), math.MaxInt32)) // one batch goes out even so
	resp, err := c.handle(f.api, r)
	if fetched, ok := resp.(*kmsg.FetchResponse); ok {
		n := 0
		for i := range fetched.Topics {
			for j := range fetched.Topics[i].Partitions {
				n += len(fetched.Topics[i].Partitions[j].RecordBatches)
			}
		}
		c.mute(r, throttledFetch, c.charge(r, throttledFetch, float64(n)))
	}
	return resp, err
}

// throttledMutation refuses changes of partitions to a client that owes, where its version knows the error (KIP-599);
// older ones wait for what they did.
func (c *conn) throttledMutation(f frame, r *request) (kmsg.Response, error) {
	_, wait := c.allowance(r, throttledMutation)
	if wait > 0 {
		if resp := refuseMutation(r.req); resp != nil {
			c.mute(r, throttledMutation, wait)
			return resp, nil
		}
	}
	n := c.b.mutations(r.req)
	resp, err := c.handle(f.api, r)
	if err == nil {
		c.mute(r, throttledMutation, c.charge(r, throttledMutation, float64(n)))
	}
	return resp, err
}

// mutations counts the partitions that a request creates or deletes.
func (b *Broker) mutations(req kmsg.Request) (n int) {
	topics := b.node.Catalog().Topics
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		if req.ValidateOnly {
			return 0
		}
		return b.askedPartitions(req)
	case *kmsg.CreatePartitionsRequest:
		if req.ValidateOnly {
			return 0
		}
		return b.askedPartitions(req)
	case *kmsg.DeleteTopicsRequest:
		for _, name := range req.TopicNames {
			if t := topics[name]; t != nil {
				n += len(t.Partitions)
			}
		}
		for i := range req.Topics {
			t := b.node.Catalog().ByID[req.Topics[i].TopicID]
			if req.Topics[i].Topic != nil {
				t = topics[*req.Topics[i].Topic]
			}
			if t != nil {
				n += len(t.Partitions)
			}
		}
	}
	return n
}

// askedPartitions counts the partitions that a request would create, without a topic that is refused for its number alone.
func (b *Broker) askedPartitions(req kmsg.Request) (n int) {
	add := func(k int) {
		if k <= maxMutations {
			n += k
		}
	}
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		for i := range req.Topics {
			switch t := &req.Topics[i]; {
			case len(t.ReplicaAssignment) > 0:
				add(len(t.ReplicaAssignment))
			case t.NumPartitions > 0:
				add(int(t.NumPartitions))
			default:
				add(int(b.opts.DefaultPartitions))
			}
		}
	case *kmsg.CreatePartitionsRequest:
		topics := b.node.Catalog().Topics
		for i := range req.Topics {
			if t := topics[req.Topics[i].Topic]; t != nil {
				add(max(int(req.Topics[i].Count)-len(t.Partitions), 0))
			}
		}
	}
	return n
}

// refuseMutations answers a request that would create n partitions, which is too many.
func refuseMutations(req kmsg.Request, n int) kmsg.Response {
	return refuseWhole(req, kerr.PolicyViolation,
		fmt.Sprintf("the request would create %d partitions, at most %d are created at once; ask in parts", n, maxMutations))
}

// refuseMutation answers every topic of a request with the quota's error; nil for versions that do not know it.
func refuseMutation(req kmsg.Request) kmsg.Response {
	known := false
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		known = req.Version >= 6 && !req.ValidateOnly
	case *kmsg.CreatePartitionsRequest:
		known = req.Version >= 3 && !req.ValidateOnly
	case *kmsg.DeleteTopicsRequest:
		known = req.Version >= 5
	}
	if !known {
		return nil
	}
	return refuseWhole(req, kerr.ThrottlingQuotaExceeded, "the client's controller_mutation_rate is used up; try again after throttle_time_ms")
}
