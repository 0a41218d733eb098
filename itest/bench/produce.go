package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// maxBuffered bounds the records in the producing client.
	maxBuffered = 50_000
	loadTopic   = "load"
)

// Floors of the broker's cases.
const (
	produceFloor = 0.4 // of sequential write and sync, at 1 KB
	consumeFloor = 0.5 // of kfake
	natsFloor    = 1.0 // of JetStream with a sync of every write
)

// brokerCase is one load: records of size bytes over so many partitions.
type brokerCase struct {
	size       int
	partitions int32
}

func (c brokerCase) String() string {
	return fmt.Sprintf("%d B, %d partitions", c.size, c.partitions)
}

func brokerCases() []brokerCase { return []brokerCase{{1024, 1}, {1024, 16}, {100, 1}, {100, 16}} }

// loaded is what one producing run measured.
type loaded struct {
	perSecond float64 // payload bytes per second
	total     int64   // payload bytes acknowledged, the warm-up's too
	p50, p99  time.Duration
}

// clockEvery is after how many records a producer at full speed looks at the clock: its own cost counts in what is measured.
const clockEvery = 64

// tally counts the answers of a run; kgo gives them one after another, in the order of their batches.
type tally struct {
	from, end  time.Time // of what counts
	each       bool      // the time of every answer counts
	now        time.Time // of the batch at hand
	fresh      int       // answers until the clock is looked at
	all, acked int64
	delays     []time.Duration
	failed     error
}

// sent is the context of a record whose time counts; its timestamp has milliseconds only.
type sent struct {
	context.Context
	at time.Time
}

func (t *tally) answered(r *kgo.Record, err error) {
	if t.fresh--; t.fresh < 0 || t.each {
		t.now, t.fresh = time.Now(), clockEvery
	}
	if err != nil {
		t.failed = cmp.Or(t.failed, err)
		return
	}
	t.all++
	if t.now.Before(t.from) || t.now.After(t.end) {
		return
	}
	t.acked++
	if t.each {
		t.delays = append(t.delays, t.now.Sub(r.Context.(sent).at))
	}
}

// produce loads loadTopic for the time given and a fifth of it before, to warm up. rate is records per second; 0: as fast as it goes.
// One client it is: on two cores, several leave less to what is measured.
func produce(ctx context.Context, address string, c brokerCase, d time.Duration, rate float64) (loaded, error) {
	opts := []kgo.Opt{kgo.DefaultProduceTopic(loadTopic)}
	if rate > 0 {
		opts = append(opts, kgo.ProducerLinger(0))
	}
	client, err := dial(address, opts...)
	if err != nil {
		return loaded{}, err
	}
	defer client.Close()
	payload := make([]byte, c.size)
	_, _ = rand.Read(payload) // never fails
	t := &tally{from: time.Now().Add(d / 5), each: rate > 0}
	t.end = t.from.Add(d)
	next := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		r := &kgo.Record{Value: payload}
		if rate > 0 || n%clockEvery == 0 {
			at := time.Now()
			if at.After(t.end) {
				break
			}
			if rate > 0 {
				r.Context = sent{ctx, at}
			}
		}
		client.Produce(ctx, r, t.answered)
		if rate > 0 {
			next = next.Add(time.Duration(float64(time.Second) / rate))
			if wait := time.Until(next); wait > time.Millisecond {
				time.Sleep(wait)
			}
		}
	}
	if err := errors.Join(client.Flush(ctx), t.failed); err != nil {
		return loaded{}, fmt.Errorf("produce to %s: %w", address, err)
	}
	out := loaded{total: t.all * int64(c.size), perSecond: float64(t.acked) * float64(c.size) / d.Seconds()}
	if n := len(t.delays); n > 0 {
		slices.Sort(t.delays)
		out.p50, out.p99 = t.delays[n/2], t.delays[n*99/100]
	}
	return out, nil
}

func createTopic(ctx context.Context, address, topic string, partitions int32) error {
	client, err := dial(address)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil {
		return fmt.Errorf("create topic %s at %s: %w", topic, address, err)
	}
	return nil
}

// producing measures each load beside its limit, the raw file before and after, and its peers.
func producing(ctx context.Context, cfg config) ([]line, error) {
	var lines []line
	for _, c := range brokerCases() {
		more, err := produceCase(ctx, cfg, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

func produceCase(ctx context.Context, cfg config, c brokerCase) ([]line, error) {
	dir, err := os.MkdirTemp("", "rowtrail-bench-produce-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d := time.Duration(cfg.brokerSeconds) * time.Second
	nats, natsLate, err := natsCase(ctx, cfg, c, filepath.Join(dir, "nats"), d)
	if err != nil {
		return nil, err
	}
	fake, err := kfakeProduce(ctx, cfg, c, d)
	if err != nil {
		return nil, err
	}
	ours, raw, rawLate, err := besideDisk(dir, d, func(dir string) (measured, error) {
		return oursProduce(ctx, cfg, c, dir, d, nats.RecordsPerSecond/2)
	})
	if err != nil {
		return nil, err
	}
	const mb = 1e6
	scaled := [2]float64{raw[0] / mb, raw[1] / mb}
	floor := 0.0
	if c.size == 1024 {
		floor = produceFloor
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	top := ours.top.perSecond / mb
	lines := []line{
		throughput("produce acks=all, "+c.String(), "MB/s", "raw sequential write and sync of 1 MiB", top, scaled, floor),
		versus("produce acks=all, "+c.String(), "MB/s", "JetStream, sync always", top, nats.RecordsPerSecond*float64(c.size)/mb, natsFloor),
		versus("produce acks=all, "+c.String(), "MB/s", "kfake, in memory", top, fake.perSecond/mb, 0),
		report("produce acks=all, "+c.String()+": device bytes per payload byte", "", ours.deviceRatio),
		report("produce acks=all, "+c.String()+": syncs", "1/s", ours.syncsPerSecond),
	}
	late := "acknowledgement at half load, p99, " + c.String()
	return append(lines,
		lower(late, "ms", "JetStream at half of its own load", ms(ours.half.p99), natsLate.P99, 0),
		lower(late+", at JetStream's half load", "ms", "JetStream at half of its own load", ms(ours.slow.p99), natsLate.P99, 0),
		lower(late, "ms", "raw write and sync of 1 MiB, p99", ms(ours.half.p99), ms(rawLate), 0),
		report("acknowledgement at half load, p50, "+c.String(), "ms", ms(ours.half.p50))), nil
}

// diskTries is how often a case is run until the disk itself held still, and diskSteady what that means: the raw rates before and
// after differ by less than this factor. A shared or virtual disk otherwise lends the limit a burst that no other part of the run has.
const (
	diskTries  = 4
	diskSteady = 1.4
)

// besideDisk measures Rowtrail between two raw runs of the same disk, and again while the disk was not steady. The steadiest try counts.
func besideDisk(dir string, d time.Duration, measure func(dir string) (measured, error)) (m measured, raw [2]float64, late time.Duration, err error) {
	best := math.Inf(1)
	for try := 0; try < diskTries && best > diskSteady; try++ {
		var now [2]float64
		if now[0], _, err = rawWrite(dir, syncPiece, d/2); err != nil {
			return m, raw, late, err
		}
		node := filepath.Join(dir, fmt.Sprintf("rowtrail-%d", try))
		if err := os.Mkdir(node, 0o700); err != nil {
			return m, raw, late, err
		}
		ours, err := measure(node)
		if err != nil {
			return m, raw, late, err
		}
		if err := os.RemoveAll(node); err != nil {
			return m, raw, late, err
		}
		again, p99, err := rawWrite(dir, syncPiece, d/2)
		if err != nil {
			return m, raw, late, err
		}
		now[1] = again
		if moved := max(now[0], now[1]) / min(now[0], now[1]); moved < best {
			best, m, raw, late = moved, ours, now, p99
		}
	}
	return m, raw, late, nil
}

func natsCase(ctx context.Context, cfg config, c brokerCase, dir string, d time.Duration) (top, half natsResult, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return top, half, err
	}
	s, err := startNATS(ctx, cfg.peers, dir)
	if err != nil {
		return top, half, err
	}
	defer s.stop()
	if top, err = natsLoad(ctx, cfg.peers, s.address, c, 1, d.Seconds(), 0); err != nil {
		return top, half, err
	}
	half, err = natsLoad(ctx, cfg.peers, s.address, c, 1, d.Seconds()/2, top.RecordsPerSecond/2)
	return top, half, err
}

func kfakeProduce(ctx context.Context, cfg config, c brokerCase, d time.Duration) (loaded, error) {
	s, err := startKfake(ctx, cfg.peers)
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	if err := createTopic(ctx, s.address, loadTopic, c.partitions); err != nil {
		return loaded{}, err
	}
	return produce(ctx, s.address, c, d, 0)
}

// measured is a run of Rowtrail at full and at half load, and at a peer's half load.
type measured struct {
	top, half, slow loaded
	deviceRatio     float64
	syncsPerSecond  float64
}

func oursProduce(ctx context.Context, cfg config, c brokerCase, dir string, d time.Duration, slow float64) (measured, error) {
	var m measured
	node, err := startNode(ctx, cfg, dir)
	if err != nil {
		return m, err
	}
	defer node.Kill()
	if err := createTopic(ctx, node.Kafka, loadTopic, c.partitions); err != nil {
		return m, err
	}
	before, err := deviceBytes(dir)
	if err != nil {
		return m, err
	}
	stop := profileNode(cfg.profile, node, "produce "+c.String())
	start := time.Now()
	m.top, err = produce(ctx, node.Kafka, c, d, 0)
	took := time.Since(start)
	stop()
	if err != nil {
		return m, err
	}
	after, err := deviceBytes(dir)
	if err != nil {
		return m, err
	}
	page, err := node.Metrics(ctx)
	if err != nil {
		return m, err
	}
	syncs, err := metric(page, "rowtrail_log_syncs_total")
	if err != nil {
		return m, err
	}
	m.syncsPerSecond, m.deviceRatio = round(syncs/took.Seconds()), round3(float64(after-before)/float64(m.top.total))
	if m.half, err = produce(ctx, node.Kafka, c, d/2, m.top.perSecond/float64(c.size)/2); err != nil {
		return m, err
	}
	m.slow, err = produce(ctx, node.Kafka, c, d/2, slow)
	return m, err
}
