package broker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// hostShare: the connections of one host together may hold this fraction of the bytes that all share, so that whatever
// one host sends or leaves unread, the rest of the bytes serves the others (invariant 9).
const hostShare = 2

// ipv6HostBits: an IPv6 host has a whole network of addresses of its own.
const ipv6HostBits = 64

// listenerLimits are shared by all connections of one kind.
type listenerLimits struct {
	maxConns int64
	maxHost  int64 // connections of one host; 0: no such limit, and hosts are not told apart
	conns    atomic.Int64
	bytes    *semaphore.Weighted // bytes of requests being handled
	maxBytes int64
	fetching *semaphore.Weighted // bytes of fetched records on their way
	maxFetch int64
	// answering are bytes of answers being written; building admits those that put together large ones.
	answering *semaphore.Weighted
	maxAnswer int64
	building  builders

	mu    sync.Mutex
	hosts map[netip.Addr]*host // those with open connections, so at most maxConns
}

func newListenerLimits(conns int, bytes, fetch, answer int64) *listenerLimits {
	return &listenerLimits{
		maxConns: int64(conns),
		bytes:    semaphore.NewWeighted(bytes), maxBytes: bytes,
		fetching: semaphore.NewWeighted(fetch), maxFetch: fetch,
		answering: semaphore.NewWeighted(answer), maxAnswer: answer, building: newBuilders(),
		hosts: map[netip.Addr]*host{},
	}
}

// host is what the connections from one address share.
type host struct {
	addr            netip.Addr
	conns           int64 // under listenerLimits.mu
	bytes, fetching *semaphore.Weighted
	answering       *semaphore.Weighted
	denied          atomic.Int64 // Unix nanoseconds: when the last log-in that failed is answered
}

// deniedAt is when a log-in that fails is answered. Until then its connection counts among the host's, so that who guesses
// passwords over many connections at a time gets no more answers than over one, up to mostDenied.
func (h *host) deniedAt(arrived time.Time) time.Time {
	if h == nil {
		return arrived.Add(deniedAfter)
	}
	for {
		last := h.denied.Load()
		at := max(arrived.UnixNano(), last) + int64(deniedAfter)
		at = min(at, arrived.Add(mostDenied).UnixNano())
		if h.denied.CompareAndSwap(last, max(at, last)) {
			return time.Unix(0, at)
		}
	}
}

// refusedError says which limit a connection met.
type refusedError struct {
	reason refusalReason
	limit  int64
	addr   netip.Addr
}

func (e *refusedError) Error() string {
	if e.reason == refusedHost {
		return fmt.Sprintf("%d connections from %s are open, the limit of one address; raise listen.max_connections_per_ip", e.limit, e.addr)
	}
	return fmt.Sprintf("%d connections are open, the limit; raise listen.max_connections", e.limit)
}

// enter counts a connection; h is nil where hosts are not told apart.
func (l *listenerLimits) enter(remote net.Addr) (h *host, err error) {
	if l.conns.Add(1) > l.maxConns {
		l.conns.Add(-1)
		return nil, &refusedError{reason: refusedAll, limit: l.maxConns}
	}
	if l.maxHost == 0 {
		return nil, nil
	}
	addr := hostOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	h = l.hosts[addr]
	if h == nil {
		h = &host{
			addr:     addr,
			bytes:    semaphore.NewWeighted(l.maxBytes / hostShare),
			fetching: semaphore.NewWeighted(l.maxFetch / hostShare),

			answering: semaphore.NewWeighted(l.maxAnswer / hostShare),
		}
		l.hosts[addr] = h
	}
	if h.conns >= l.maxHost {
		l.conns.Add(-1)
		return nil, &refusedError{reason: refusedHost, limit: l.maxHost, addr: addr}
	}
	h.conns++
	return h, nil
}

func (l *listenerLimits) leave(h *host) {
	l.conns.Add(-1)
	if h == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.conns--; h.conns == 0 {
		delete(l.hosts, h.addr)
	}
}

// hostOf is the address that tells one host from another.
func hostOf(remote net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Addr{} // not of the internet: all such share one
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(ipv6HostBits); err == nil {
			return network.Addr()
		}
	}
	return addr
}

// budget is bytes that are taken from several shares at once, the smallest share first.
type budget struct {
	shares []*semaphore.Weighted
	most   int64 // that the smallest share has
}

func (b budget) tryAcquire(n int64) bool {
	for i, s := range b.shares {
		if !s.TryAcquire(n) {
			budget{shares: b.shares[:i]}.release(n)
			return false
		}
	}
	return true
}

// acquire waits for each share in turn. All callers take them in the same order, so nobody waits for ever.
func (b budget) acquire(ctx context.Context, n int64) error {
	for i, s := range b.shares {
		if err := s.Acquire(ctx, n); err != nil {
			budget{shares: b.shares[:i]}.release(n)
			return err
		}
	}
	return nil
}

func (b budget) release(n int64) {
	for _, s := range b.shares {
		s.Release(n)
	}
}

// inFlight and fetches are a connection's budgets.
func (l *listenerLimits) inFlight(own int64, h *host) budget {
	b := budget{shares: []*semaphore.Weighted{semaphore.NewWeighted(own)}, most: own}
	if h != nil {
		b.shares = append(b.shares, h.bytes)
	}
	b.shares = append(b.shares, l.bytes)
	return b
}

func (l *listenerLimits) fetches(h *host) budget {
	if h == nil {
		return budget{shares: []*semaphore.Weighted{l.fetching}, most: l.maxFetch}
	}
	return budget{shares: []*semaphore.Weighted{h.fetching, l.fetching}, most: l.maxFetch / hostShare}
}

func (l *listenerLimits) answers(h *host) budget {
	if h == nil {
		return budget{shares: []*semaphore.Weighted{l.answering}, most: l.maxAnswer}
	}
	return budget{shares: []*semaphore.Weighted{h.answering, l.answering}, most: l.maxAnswer / hostShare}
}
