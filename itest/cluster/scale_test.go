package cluster

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What a cluster of many partitions may cost.
const (
	boundedPartitions = 1000
	idleCPU           = 0.10 // cores, of all nodes together
	memoryBound       = 400 << 20
	settleBound       = 10 * time.Second // from a node's SIGKILL until all partitions have taken a write
)

const (
	scaleTopics   = 10 // the partitions are spread over them
	idleFor       = 20 * time.Second
	quietAfter    = 15 * time.Second // what the load has left to do is done, and the views rest
	scaleRecords  = 4                // in every partition
	scaleBytes    = 1024             // in every record
	scaleDeadline = 60 * time.Second
)

// scalePartitions may be raised to see what more partitions cost.
var scalePartitions = flag.Int("scale.partitions", boundedPartitions, "partitions of TestManyPartitions; of more than 1,000 the figures are printed only")

// TestManyPartitions: 1,000 partitions of three replicas on three nodes cost little while nobody uses them, and have leaders soon after a node has died.
func TestManyPartitions(t *testing.T) {
	bounded := *scalePartitions <= boundedPartitions
	c := newNodes(t, 3)
	c.start(c.procs...)
	c.whole(c.procs[0])
	began := time.Now()
	topics, each := c.manyTopics(*scalePartitions)
	c.whole(c.procs[0])
	created := time.Since(began)
	client := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))
	defer client.Close()
	began = time.Now()
	for range scaleRecords {
		c.writeAll(client, topics, each)
	}
	loaded := time.Since(began)
	time.Sleep(quietAfter)
	cores := c.idleCores()
	var rss, anonymous []string
	for _, r := range c.procs {
		m, err := r.Memory()
		must(t, err)
		rss, anonymous = append(rss, mib(m.Resident)), append(anonymous, mib(m.Anonymous))
		if bounded && m.Resident >= memoryBound {
			t.Errorf("a process has %s MiB of memory, want less than %s", mib(m.Resident), mib(memoryBound))
		}
	}
	if total := sum(cores); bounded && total >= idleCPU {
		t.Errorf("idle nodes take %.3f of a core, want less than %.2f", total, idleCPU)
	}

	victim := c.procs[1]
	must(t, victim.Kill())
	began = time.Now()
	c.writeAll(client, topics, each)
	settled := time.Since(began)
	c.ledBy(client, topics, 1, 3)
	if bounded && settled >= settleBound {
		t.Errorf("all partitions took a write %v after a node was killed, want less than %v", settled, settleBound)
	}
	c.inSync(client, topics, 2) // the one that is away is missed, so it has to come back
	began = time.Now()
	c.start(victim)
	c.whole(victim)
	c.inSync(client, topics, 3)
	whole := time.Since(began)
	fmt.Printf("cluster of %d partitions x 3 replicas: idle %.3f of a core (%.3f), RSS %s MiB (anonymous %s), all written %.2f s after a kill, in sync %.1f s after the restart; "+
		"created in %.1f s, first writes %.1f s\n", *scalePartitions, sum(cores), cores, strings.Join(rss, " "), strings.Join(anonymous, " "), settled.Seconds(), whole.Seconds(),
		created.Seconds(), loaded.Seconds())
}

func mib(n int64) string { return fmt.Sprint(n >> 20) }

func sum(all []float64) (total float64) {
	for _, x := range all {
		total += x
	}
	return total
}

// manyTopics creates partitions with three replicas each.
func (c *nodes) manyTopics(partitions int) (topics []string, each int) {
	c.t.Helper()
	client := c.client()
	defer client.Close()
	for i := range scaleTopics {
		topics = append(topics, fmt.Sprintf("many-%d", i))
	}
	each = partitions / scaleTopics
	ctx, cancel := context.WithTimeout(c.t.Context(), scaleDeadline)
	defer cancel()
	created, err := kadm.NewClient(client).CreateTopics(ctx, int32(each), 3, nil, topics...)
	must(c.t, err)
	must(c.t, created.Error())
	return topics, each
}

// writeAll writes one record to every partition and waits for all acknowledgements, which all in-sync replicas give.
func (c *nodes) writeAll(client *kgo.Client, topics []string, each int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), scaleDeadline)
	defer cancel()
	value := make([]byte, scaleBytes)
	var wg sync.WaitGroup
	for _, topic := range topics {
		for p := range int32(each) {
			wg.Add(1)
			client.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: value}, func(r *kgo.Record, err error) {
				defer wg.Done()
				if err != nil {
					c.t.Errorf("write to %s-%d: %v", r.Topic, r.Partition, err)
				}
			})
		}
	}
	wg.Wait()
}

// idleCores is how much of a core each process takes.
func (c *nodes) idleCores() []float64 {
	c.t.Helper()
	times := func() (out []time.Duration) {
		for _, r := range c.procs {
			d, err := r.CPUTime()
			must(c.t, err)
			out = append(out, d)
		}
		return out
	}
	before, began := times(), time.Now()
	time.Sleep(idleFor)
	after, took := times(), time.Since(began)
	var cores []float64
	for i := range after {
		cores = append(cores, (after[i]-before[i]).Seconds()/took.Seconds())
	}
	return cores
}

// ledBy sees that each partition's leader is one of these nodes.
func (c *nodes) ledBy(client *kgo.Client, topics []string, ids ...int32) {
	c.t.Helper()
	count := map[int32]int{}
	for _, p := range c.partitions(client, topics) {
		if count[p.Leader]++; !slices.Contains(ids, p.Leader) {
			c.t.Errorf("%s-%d is led by %d, want one of %d", p.Topic, p.Partition, p.Leader, ids)
		}
	}
	c.t.Logf("partitions by leader: %v", count)
}

// inSync waits until each partition has so many replicas in sync.
func (c *nodes) inSync(client *kgo.Client, topics []string, want int) {
	c.t.Helper()
	deadline := time.Now().Add(scaleDeadline)
	for {
		all := c.partitions(client, topics)
		i := slices.IndexFunc(all, func(p kadm.PartitionDetail) bool { return len(p.ISR) != want })
		if i < 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s-%d: replicas %v are in sync after %v, want %d", all[i].Topic, all[i].Partition, all[i].ISR, scaleDeadline, want)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// partitions are those of the topics, as some node sees them.
func (c *nodes) partitions(client *kgo.Client, topics []string) (list []kadm.PartitionDetail) {
	c.t.Helper()
	all, err := kadm.NewClient(client).Metadata(c.t.Context(), topics...)
	must(c.t, err)
	for _, topic := range all.Topics.Sorted() {
		must(c.t, topic.Err)
		list = append(list, topic.Partitions.Sorted()...)
	}
	return list
}
