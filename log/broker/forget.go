package broker

import (
	"context"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/group"
)

// forgetRetry is the pause before deleted topics are forgotten where a coordinator was loading.
const forgetRetry = time.Second

// forgetDeletedTopics deletes the offsets of topics as they are deleted: a topic created under that name later is read from its own start. What this
// node begins to coordinate may have offsets of topics that were deleted while nobody did, or by whoever could not finish that.
func (b *Broker) forgetDeletedTopics(ctx context.Context) {
	again := time.NewTicker(forgetRetry)
	defer again.Stop()
	known, gone := b.node.Catalog(), map[string]bool{}
	var swept map[int32]int32 // what is coordinated here and has no offsets of missing topics: partition -> epoch
	for {
		changed, moved := b.node.CatalogChanged(), b.node.LeadersChanged()
		now := b.node.Catalog()
		for name, t := range known.Topics {
			if n := now.Topics[name]; n == nil || n.ID != t.ID {
				gone[name] = true
			}
		}
		known = now
		led := b.ledGroups()
		anew := !hasAll(swept, led)
		for p := range led {
			anew = anew && b.groups.Serves(p) // else it would be left out, or is looked at when it is loaded
		}
		if anew {
			// A topic that is not known here yet is none that is missing.
			anew = b.currentCatalog(ctx) == nil
		}
		if anew || len(gone) > 0 {
			missing := func(topic string) bool { return gone[topic] || anew && b.node.Catalog().Topics[topic] == nil }
			if awaitCode(ctx, func(reply func(int16)) { b.groups.ForgetTopics(missing, reply) }) == 0 {
				gone = map[string]bool{}
				if anew {
					swept = led
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-changed:
		case <-moved:
		}
	}
}

// ledGroups are the partitions of groups that this node coordinates, with their epochs.
func (b *Broker) ledGroups() map[int32]int32 {
	led := map[int32]int32{}
	if t := b.node.Catalog().Topics[group.Topic]; t != nil {
		for i := range t.Partitions {
			if _, epoch, err := b.leading(t, int32(i)); err == nil { //nolint:gosec // a partition
				led[int32(i)] = epoch //nolint:gosec // a partition
			}
		}
	}
	return led
}

// hasAll reports that everything of some is in all.
func hasAll(all, some map[int32]int32) bool {
	for k, v := range some {
		if have, ok := all[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func (b *Broker) currentCatalog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, forgetRetry)
	defer cancel()
	return b.node.Current(ctx)
}
