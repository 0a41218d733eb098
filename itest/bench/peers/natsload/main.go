// Command natsload publishes to JetStream streams and prints one JSON line: records per second that were acknowledged, and
// percentiles of the time from publish to acknowledgement in milliseconds.
//
//	go run ./natsload -url nats://127.0.0.1:4222 -streams 1 -size 1024 -seconds 5
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// A cluster that has no leader yet drops the request for a stream, so it is asked again.
const (
	streamTimeout = 30 * time.Second
	streamAttempt = 3 * time.Second
)

// maxPending is how many publishes of one stream may wait for their acknowledgement.
const maxPending = 4096

type result struct {
	RecordsPerSecond float64 `json:"records_per_second"`
	P50              float64 `json:"p50_ms"`
	P99              float64 `json:"p99_ms"`
}

type load struct {
	streams, size int
	replicas      int
	seconds       float64
	rate          float64 // records per second of all streams; 0: as fast as it goes
}

func main() {
	var l load
	url := flag.String("url", nats.DefaultURL, "server")
	flag.IntVar(&l.streams, "streams", 1, "streams, one subject each")
	flag.IntVar(&l.replicas, "replicas", 1, "replicas of each stream")
	flag.IntVar(&l.size, "size", 1024, "bytes of a record")
	flag.Float64Var(&l.seconds, "seconds", 5, "how long to measure, after a fifth of it to warm up")
	flag.Float64Var(&l.rate, "rate", 0, "records per second; 0: as fast as it goes")
	flag.Parse()
	r, err := l.run(*url)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "natsload:", err)
		os.Exit(1)
	}
}

func (l *load) run(url string) (result, error) {
	name := "load" + strconv.FormatInt(time.Now().UnixNano(), 36)
	payload := make([]byte, l.size)
	_, _ = rand.Read(payload) // never fails
	if err := l.create(url, name); err != nil {
		return result{}, err
	}
	from := time.Now().Add(time.Duration(l.seconds / 5 * float64(time.Second)))
	end := from.Add(time.Duration(l.seconds * float64(time.Second)))

	var group sync.WaitGroup
	var acked atomic.Int64
	var mu sync.Mutex
	var delays []time.Duration
	var failures []error
	for s := range l.streams {
		group.Add(1)
		go func() {
			defer group.Done()
			mine, n, err := l.publish(url, name+strconv.Itoa(s), payload, from, end)
			acked.Add(n)
			mu.Lock()
			defer mu.Unlock()
			delays = append(delays, mine...)
			failures = append(failures, err)
		}()
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return result{}, err
	}
	if len(delays) == 0 {
		return result{}, errors.New("nothing was acknowledged; measure longer")
	}
	slices.Sort(delays)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return result{RecordsPerSecond: float64(acked.Load()) / l.seconds,
		P50: ms(delays[len(delays)/2]), P99: ms(delays[len(delays)*99/100])}, nil
}

// create makes the streams, before the time that is measured begins.
func (l *load) create(url, name string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := nc.JetStream(nats.MaxWait(streamAttempt))
	if err != nil {
		return err
	}
	deadline := time.Now().Add(streamTimeout)
	for s := 0; s < l.streams; {
		stream := name + strconv.Itoa(s)
		_, err := js.AddStream(&nats.StreamConfig{Name: stream, Subjects: []string{stream}, Storage: nats.FileStorage, Replicas: l.replicas})
		switch {
		case err == nil:
			s++
		case time.Now().After(deadline):
			return fmt.Errorf("create a stream: %w", err)
		default:
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// publish loads one stream from a connection of its own. What is acknowledged in [from, end) counts.
func (l *load) publish(url, stream string, payload []byte, from, end time.Time) (delays []time.Duration, n int64, err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, 0, err
	}
	defer nc.Close()
	js, err := nc.JetStream(nats.PublishAsyncMaxPending(maxPending))
	if err != nil {
		return nil, 0, err
	}
	type sent struct {
		ack nats.PubAckFuture
		at  time.Time
	}
	waiting := make(chan sent, maxPending)
	done := make(chan error, 1)
	go func() {
		var failed error
		for s := range waiting {
			select {
			case <-s.ack.Ok():
				if now := time.Now(); now.After(from) && now.Before(end) {
					n++
					delays = append(delays, now.Sub(s.at))
				}
			case err := <-s.ack.Err():
				failed = err
			}
		}
		done <- failed
	}()
	next := time.Now()
	for time.Now().Before(end) {
		if l.rate > 0 {
			next = next.Add(time.Duration(float64(l.streams) / l.rate * float64(time.Second)))
			if wait := time.Until(next); wait > time.Millisecond {
				time.Sleep(wait)
			}
		}
		at := time.Now()
		ack, err := js.PublishAsync(stream, payload)
		if err != nil {
			if errors.Is(err, nats.ErrTooManyStalledMsgs) {
				continue
			}
			close(waiting)
			<-done
			return nil, 0, err
		}
		waiting <- sent{ack, at}
	}
	close(waiting)
	return delays, n, <-done
}
