package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/itest/checker/proxy"
)

// Percentages of requests.
type chances struct{ later, twice, aside, delay, cut int }

// Requests plans the fate of requests.
type Requests struct {
	quiet atomic.Bool
	mu    sync.Mutex
	rng   *rand.Rand
	seen  map[[2]int16]int
}

// NewRequests draws fates from a seed.
func NewRequests(seed uint64) *Requests {
	return &Requests{rng: rand.New(rand.NewPCG(seed, 2)), seen: map[[2]int16]int{}}
}

// The first versions whose requests name an epoch that no other transaction has (KIP-890).
const (
	endTxnV2    = 5
	txnCommitV2 = 5
)

const (
	maxLater = 3 * time.Second
	maxAside = 500 * time.Millisecond
	maxDelay = 100 * time.Millisecond
)

// Plan is a proxy.Policy.
func (n *Requests) Plan(r proxy.Request) proxy.Plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[[2]int16{r.Key, r.Version}]++
	if n.quiet.Load() {
		return proxy.Plan{}
	}
	c, fragile := fate(r)
	hits := func(percent int) bool { return percent > 0 && n.rng.IntN(1000) < 10*percent }
	p := proxy.Plan{Fragile: fragile, Twice: hits(c.twice)}
	if hits(c.later) {
		p.Later = 1 + time.Duration(n.rng.Int64N(int64(maxLater)))
	}
	if hits(c.aside) {
		p.Aside, p.Twice = 1+time.Duration(n.rng.Int64N(int64(maxAside))), false
	}
	if hits(c.delay) {
		p.Delay = time.Duration(n.rng.Int64N(int64(maxDelay)))
	}
	if n.rng.IntN(1000) < 5*c.cut {
		p.Cut = proxy.CutBefore
		if n.rng.IntN(2) == 0 {
			p.Cut = proxy.CutAnswer
		}
	}
	return p
}

// fate says what may happen to a kind of request, and whether its connection must not be cut meanwhile: see doc.go.
func fate(r proxy.Request) (c chances, fragile bool) {
	switch kmsg.Key(r.Key) {
	case kmsg.EndTxn:
		if r.Version < endTxnV2 {
			return chances{delay: 10, cut: 4}, true
		}
		return chances{later: 15, twice: 5, aside: 5, delay: 10, cut: 4}, false
	case kmsg.TxnOffsetCommit:
		if r.Version < txnCommitV2 {
			return chances{delay: 10, cut: 4}, true
		}
		return chances{later: 10, twice: 5, aside: 5, delay: 10, cut: 4}, false
	case kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn:
		return chances{later: 10, twice: 5, aside: 3, delay: 5, cut: 2}, false
	case kmsg.InitProducerID:
		return chances{later: 2, twice: 2, delay: 5, cut: 4}, false
	case kmsg.Produce:
		return chances{later: 3, twice: 2, aside: 1, delay: 2, cut: 1}, false
	case kmsg.OffsetCommit, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch:
		return chances{delay: 5, cut: 1}, false
	case kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata:
		return chances{delay: 1}, false
	}
	return chances{}, false
}

// Versions lists how many requests of the transactional APIs came in which version.
func (n *Requests) Versions() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var parts []string
	for kv, count := range n.seen {
		switch kmsg.Key(kv[0]) {
		case kmsg.EndTxn, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.InitProducerID, kmsg.Produce:
			parts = append(parts, fmt.Sprintf("%s v%d: %d", kmsg.NameForKey(kv[0]), kv[1], count))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// Calm passes all requests on from now on.
func (n *Requests) Calm() { n.quiet.Store(true) }
