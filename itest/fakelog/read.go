package fakelog

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const readTimeout = 30 * time.Second

// Read returns what a read_committed reader sees of topics at this moment: every record up to the last stable offsets, each
// partition's in order. A topic that does not exist has none.
func Read(t testing.TB, client []kgo.Opt, topics ...string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	// What ends a transaction is a record of its own, so the last one below a last stable offset is always seen.
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, client...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topics...)
	if err != nil {
		t.Fatalf("list ends of %v: %v", topics, err)
	}
	type partition struct {
		topic string
		id    int32
	}
	left := map[partition]int64{} // their ends
	from := map[string]map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil || o.Offset == 0 {
			return
		}
		if from[o.Topic] == nil {
			from[o.Topic] = map[int32]kgo.Offset{}
		}
		from[o.Topic][o.Partition] = kgo.NewOffset().At(0)
		left[partition{o.Topic, o.Partition}] = o.Offset
	})
	cl.AddConsumePartitions(from)
	var list []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %v: %v; not at their ends: %v", topics, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := partition{r.Topic, r.Partition}
			end, reading := left[p]
			if !reading || r.Offset >= end {
				return
			}
			if r.Offset == end-1 {
				delete(left, p)
			}
			if !r.Attrs.IsControl() {
				list = append(list, r)
			}
		})
	}
	return list
}
