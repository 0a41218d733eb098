package broker

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/room"
	"github.com/rowtrail/rowtrail/log/broker/turns"
)

const (
	// hostShare: the connections of one host together may hold this fraction of the bytes that all share where no others hold any,
	// so that whatever hosts send or leave unread, there are bytes for the next one (invariant 9); package room says how many.
	hostShare = 2
	// smallShare: small requests have this fraction of the bytes in flight on top, but room for minSmall of them.
	smallShare = 16
	minSmall   = 4
	// keptShare: the last one in so many connections is kept for hosts that have few, which is fewer than one in fewShare of what is kept.
	keptShare = 8
	fewShare  = 16
)

// ipv6HostBits: an IPv6 host has a whole network of addresses of its own.
const ipv6HostBits = 64

// listenerLimits are shared by all connections of one kind.
type listenerLimits struct {
	maxConns int64
	maxHost  int64 // connections of one host; 0: no such limit, and hosts are not told apart
	conns    atomic.Int64
	bytes    *room.Room // of requests being handled
	fetching *room.Room // of fetched records on their way
	// answering are bytes of answers being written; building admits those that put together large ones.
	answering *room.Room
	building  builders
	opening   *openers

	mu    sync.Mutex
	hosts map[netip.Addr]*host // those with open connections, so at most maxConns
}

func newListenerLimits(conns int, bytes, fetch, answer int64, opening *openers) *listenerLimits {
	return &listenerLimits{
		maxConns: int64(conns),
		bytes:    room.New(bytes, max(bytes/smallShare, minSmall*connReadBuffer*decodedFactor)),
		fetching: room.New(fetch, 0), answering: room.New(answer, 0), building: newBuilders(), opening: opening,
		hosts: map[netip.Addr]*host{},
	}
}

// host is what the connections from one address share.
type host struct {
	shares
	addr   netip.Addr
	conns  int64        // under listenerLimits.mu
	denied atomic.Int64 // Unix nanoseconds: when the last log-in that failed is answered
}

// shares are what a host, or where hosts are not told apart a connection, has of the bytes that all share, and its turns in what few do at
// a time.
type shares struct {
	bytes, fetching, answering        *room.Party
	catalogue, coordinators, history  *turns.Party // of builders
	unpacking, looking, recompressing *turns.Party // of openers
}

func (l *listenerLimits) shares(h *host) shares {
	if h != nil {
		return h.shares
	}
	return shares{
		bytes: l.bytes.Party(), fetching: l.fetching.Party(), answering: l.answering.Party(),
		catalogue: l.building.catalogue.Party(), coordinators: l.building.coordinators.Party(),
		history:   l.building.history.Party(),
		unpacking: l.opening.unpacking.Party(), looking: l.opening.looking.Party(), recompressing: l.opening.recompressing.Party(),
	}
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
	few    int64 // above 0: fewer connections than the limit are open, and the rest is kept for hosts that have fewer than this
	addr   netip.Addr
}

func (e *refusedError) Error() string {
	if e.reason == refusedHost {
		return fmt.Sprintf("%d connections from %s are open, the limit of one address; raise listen.max_connections_per_ip", e.limit, e.addr)
	}
	if e.few > 0 {
		return fmt.Sprintf("%d connections or more are open, and the last ones of %d are kept for addresses that have fewer than %d; raise listen.max_connections",
			e.limit-e.limit/keptShare, e.limit, e.few)
	}
	return fmt.Sprintf("%d connections are open, the limit; raise listen.max_connections", e.limit)
}

// enter counts a connection; h is nil where hosts are not told apart.
func (l *listenerLimits) enter(remote net.Addr) (h *host, err error) {
	open := l.conns.Add(1)
	if open > l.maxConns {
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
		h = &host{addr: addr, shares: l.shares(nil)}
		l.hosts[addr] = h
	}
	if h.conns >= l.maxHost {
		l.conns.Add(-1)
		return nil, &refusedError{reason: refusedHost, limit: l.maxHost, addr: addr}
	}
	kept := l.maxConns / keptShare
	if few := max(kept/fewShare, 1); open > l.maxConns-kept && h.conns >= few {
		l.conns.Add(-1)
		return nil, &refusedError{reason: refusedAll, limit: l.maxConns, few: few, addr: addr}
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
