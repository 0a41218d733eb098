// Package quota keeps client quotas: whom a quota binds, and a token bucket for each of them. It has no clock and no
// goroutines; what a client must wait for is its caller's to enforce.
//
// A bucket holds what its rate gives in Window and may fall below zero: a request is served whole, and what it took too
// much is paid for by waiting. The number of buckets is bounded; the one that was used longest ago is forgotten first.
package quota

import (
	"container/list"
	"crypto/sha256"
	"math"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
)

// The quotas that are kept, by Kafka's names.
const (
	ProducerByteRate       = "producer_byte_rate"
	ConsumerByteRate       = "consumer_byte_rate"
	ControllerMutationRate = "controller_mutation_rate"
	RequestPercentage      = "request_percentage" // of one core, so a bucket's tokens are hundredths of a second
)

// Names lists the quotas that are kept.
func Names() []string {
	return []string{ProducerByteRate, ConsumerByteRate, ControllerMutationRate, RequestPercentage}
}

const (
	// Window is how much of its rate a client may save up and spend at once.
	Window = 10 * time.Second
	// maxBuckets bounds the clients that are told apart.
	maxBuckets = 10_000
	// maxName is how much of a client id a bucket remembers: longer ones are told apart by their hash. A client chooses its
	// id, and a quota for all ids gives each a bucket (invariant 9).
	maxName = 256 // bytes
	// LongestRequestWait is how long a client waits at most for one request's RequestPercentage, as in Kafka: such a quota slows
	// heartbeats, too. What it owes beyond Window is forgiven.
	LongestRequestWait = time.Second
	longestWait        = math.MaxInt32 * time.Millisecond // what a response can say
)

// Client is whose request it is.
type Client struct{ User, ID string }

// bucketKey: a quota of users binds all client ids of a user together, one of client ids all its users.
type bucketKey struct {
	quota        string
	user, client cluster.QuotaName
}

type bucket struct {
	key    bucketKey
	tokens float64
	at     time.Time
}

// Buckets are the buckets of all clients, safe for concurrent use.
type Buckets struct {
	mu     sync.Mutex
	byKey  map[bucketKey]*list.Element
	recent list.List // front: used last
	max    int
}

// New returns empty Buckets.
func New() *Buckets {
	return &Buckets{byKey: map[bucketKey]*list.Element{}, max: maxBuckets}
}

// resolve finds the quota that binds a client: the most particular one that has the value, in Kafka's order.
func resolve(quotas cluster.Quotas, name string, c Client) (rate float64, key bucketKey, bound bool) {
	none, other := cluster.QuotaName{}, cluster.QuotaName{Is: cluster.QuotaDefault}
	user := cluster.QuotaName{Is: cluster.QuotaNamed, Name: c.User}
	id := cluster.QuotaName{Is: cluster.QuotaNamed, Name: c.ID}
	for _, e := range [...]cluster.QuotaEntity{
		{User: user, Client: id}, {User: user, Client: other}, {User: user, Client: none},
		{User: other, Client: id}, {User: other, Client: other}, {User: other, Client: none},
		{User: none, Client: id}, {User: none, Client: other},
	} {
		if rate, bound = quotas[e][name]; !bound {
			continue
		}
		key = bucketKey{quota: name}
		if e.User != none {
			key.user = bounded(user)
		}
		if e.Client != none {
			key.client = bounded(id)
		}
		return rate, key, true
	}
	return 0, bucketKey{}, false
}

// bounded is a name that stands for itself in a bucket's key.
func bounded(n cluster.QuotaName) cluster.QuotaName {
	if len(n.Name) > maxName {
		sum := sha256.Sum256([]byte(n.Name))
		n.Name = string(sum[:])
	}
	return n
}

// Charge takes n from the client's bucket and returns how long the client must wait for it to be paid.
func (b *Buckets) Charge(now time.Time, quotas cluster.Quotas, name string, c Client, n float64) time.Duration {
	if len(quotas) == 0 {
		return 0
	}
	rate, key, bound := resolve(quotas, name, c)
	if !bound {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.bucket(now, key, rate)
	k.tokens -= n
	if name == RequestPercentage {
		k.tokens = max(k.tokens, -rate*Window.Seconds())
	}
	return debt(name, k.tokens, rate)
}

// Allowance is how much the client may take now, and how long it must wait where that is nothing. Without a quota it is
// everything.
func (b *Buckets) Allowance(now time.Time, quotas cluster.Quotas, name string, c Client) (allowed float64, wait time.Duration) {
	if len(quotas) == 0 {
		return math.Inf(1), 0
	}
	rate, key, bound := resolve(quotas, name, c)
	if !bound {
		return math.Inf(1), 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens := b.bucket(now, key, rate).tokens
	return max(tokens, 0), debt(name, tokens, rate)
}

// debt is how long a rate takes to bring tokens back to zero, or the longest that a client is to wait at once.
func debt(name string, tokens, rate float64) time.Duration {
	if tokens >= 0 {
		return 0
	}
	longest := longestWait
	if name == RequestPercentage {
		longest = LongestRequestWait
	}
	return time.Duration(min(-tokens/rate*float64(time.Second), float64(longest)))
}

// bucket finds or makes a bucket and brings it up to now; a new one is full.
func (b *Buckets) bucket(now time.Time, key bucketKey, rate float64) *bucket {
	most := rate * Window.Seconds()
	e := b.byKey[key]
	if e == nil {
		if len(b.byKey) >= b.max {
			oldest := b.recent.Back()
			delete(b.byKey, b.recent.Remove(oldest).(*bucket).key)
		}
		e = b.recent.PushFront(&bucket{key: key, tokens: most, at: now})
		b.byKey[key] = e
	}
	b.recent.MoveToFront(e)
	k := e.Value.(*bucket)
	if passed := now.Sub(k.at); passed > 0 {
		k.tokens += rate * passed.Seconds()
		k.at = now
	}
	k.tokens = min(k.tokens, most)
	return k
}
