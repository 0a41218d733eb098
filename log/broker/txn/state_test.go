package txn

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

func tps(topic string, partitions ...int32) []journal.TopicPartition {
	var list []journal.TopicPartition
	for _, p := range partitions {
		list = append(list, journal.TopicPartition{Topic: topic, Partition: p})
	}
	return list
}

// A step of a script: what is asked, and the verdict and state that follow.
type step struct {
	do    func(t *Txn, now time.Time) Verdict
	want  Verdict
	state State
	epoch int16
}

func ids(first int64) func() int64 {
	return func() int64 { first++; return first - 1 }
}

func initAs(expected *Producer) func(*Txn, time.Time) Verdict {
	return func(t *Txn, now time.Time) Verdict { return t.Init(expected, time.Minute, ids(t.Current.ID+100), now) }
}

func add(id int64, epoch int16, partitions ...int32) func(*Txn, time.Time) Verdict {
	return func(t *Txn, now time.Time) Verdict {
		return t.Add(Producer{id, epoch}, tps("t", partitions...), V1, now)
	}
}

func endAs(id int64, epoch int16, commit bool) func(*Txn, time.Time) Verdict {
	return func(t *Txn, now time.Time) Verdict { return t.End(Producer{id, epoch}, commit, now) }
}

func complete(t *Txn, now time.Time) Verdict { t.Complete(now); return Verdict{} }

func later(d time.Duration) func(*Txn, time.Time) Verdict {
	return func(t *Txn, now time.Time) Verdict { return t.TimeOut(now.Add(d)) }
}

func TestTxnScripts(t *testing.T) {
	write, wait := Verdict{Write: true}, Verdict{Wait: true}
	fenced, mapping := Verdict{Code: kerr.ProducerFenced.Code}, Verdict{Code: kerr.InvalidProducerIDMapping.Code}
	invalid := Verdict{Code: kerr.InvalidTxnState.Code}
	for name, script := range map[string][]step{
		"commit": {
			{initAs(nil), write, Empty, 0},
			{add(99, 0, 1, 2), write, Ongoing, 0},
			{add(99, 0, 2), Verdict{}, Ongoing, 0},
			{add(99, 0, 3), write, Ongoing, 0},
			{endAs(99, 0, true), write, PrepareCommit, 0},
			{endAs(99, 0, true), wait, PrepareCommit, 0},
			{endAs(99, 0, false), invalid, PrepareCommit, 0},
			{add(99, 0, 1), wait, PrepareCommit, 0},
			{complete, Verdict{}, CompleteCommit, 0},
			{endAs(99, 0, true), Verdict{}, CompleteCommit, 0},
			{endAs(99, 0, false), invalid, CompleteCommit, 0},
			{add(99, 0, 1), write, Ongoing, 0},
		},
		"abort": {
			{initAs(nil), write, Empty, 0},
			{add(99, 0, 1), write, Ongoing, 0},
			{endAs(99, 0, false), write, PrepareAbort, 0},
			{endAs(99, 0, true), invalid, PrepareAbort, 0},
			{complete, Verdict{}, CompleteAbort, 0},
			{endAs(99, 0, true), invalid, CompleteAbort, 0},
			{endAs(99, 0, false), Verdict{}, CompleteAbort, 0},
		},
		"empty transactions end either way": {
			{initAs(nil), write, Empty, 0},
			{endAs(99, 0, true), Verdict{}, Empty, 0},
			{endAs(99, 0, false), Verdict{}, Empty, 0},
			{endAs(99, 1, false), fenced, Empty, 0},
		},
		"another instance takes over": {
			{initAs(nil), write, Empty, 0},
			{initAs(nil), write, Empty, 1},
			{add(99, 0, 1), fenced, Empty, 1},
			{add(99, 1, 1), write, Ongoing, 1},
			{add(98, 1, 1), mapping, Ongoing, 1},
			{initAs(nil), Verdict{Write: true, Wait: true}, PrepareAbort, 2},
			{endAs(99, 1, true), fenced, PrepareAbort, 2},
			{initAs(nil), wait, PrepareAbort, 2},
			{complete, Verdict{}, CompleteAbort, 2},
			{initAs(nil), write, Empty, 3},
			{initAs(&Producer{99, 1}), fenced, Empty, 3},
			{initAs(&Producer{98, 3}), fenced, Empty, 3},
		},
		"an instance raises its own epoch, and asks again": {
			{initAs(nil), write, Empty, 0},
			{initAs(&Producer{99, 0}), write, Empty, 1},
			{initAs(&Producer{99, 0}), Verdict{}, Empty, 1},
			{initAs(&Producer{99, 1}), write, Empty, 2},
			{initAs(&Producer{99, 0}), fenced, Empty, 2},
			{initAs(nil), write, Empty, 3},
			{initAs(&Producer{99, 2}), fenced, Empty, 3},
		},
		"an instance continues after its timeout": {
			{initAs(nil), write, Empty, 0},
			{add(99, 0, 1), write, Ongoing, 0},
			{later(59 * time.Second), Verdict{}, Ongoing, 0},
			{later(60 * time.Second), write, PrepareAbort, 1},
			{later(60 * time.Second), Verdict{}, PrepareAbort, 1},
			{endAs(99, 0, true), fenced, PrepareAbort, 1},
			{initAs(&Producer{99, 0}), wait, PrepareAbort, 1},
			{complete, Verdict{}, CompleteAbort, 1},
			{initAs(&Producer{99, 0}), Verdict{}, CompleteAbort, 1},
			{add(99, 1, 1), write, Ongoing, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			x := newTxn("id", now)
			for i, s := range script {
				if got := s.do(x, now); got != s.want || x.State != s.state || x.Current.Epoch != s.epoch {
					t.Fatalf("step %d: %+v, %v, epoch %d; want %+v, %v, epoch %d", i, got, x.State, x.Current.Epoch, s.want, s.state, s.epoch)
				}
			}
		})
	}
}

func TestTxnEpochsRunOut(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	fresh := ids(500)
	x := newTxn("id", now)
	x.Init(nil, time.Minute, fresh, now)
	x.Current.Epoch = lastEpoch - 1
	x.Init(&Producer{500, lastEpoch - 1}, time.Minute, fresh, now)
	if x.Current != (Producer{500, lastEpoch}) {
		t.Fatalf("%+v", x.Current)
	}
	// The last epoch is fenced by one that is never handed out.
	x.Add(x.Current, tps("t", 1), V1, now)
	x.TimeOut(now.Add(time.Hour))
	if x.Current != (Producer{500, math.MaxInt16}) {
		t.Fatalf("%+v", x.Current)
	}
	x.Complete(now)
	if v := x.Init(&Producer{500, lastEpoch}, time.Minute, fresh, now); !v.Write || x.Current != (Producer{501, 0}) {
		t.Fatalf("%+v, %+v", v, x.Current)
	}
	// The same wish again, with the id from before.
	if v := x.Init(&Producer{500, lastEpoch}, time.Minute, fresh, now); v != (Verdict{}) || x.Current != (Producer{501, 0}) {
		t.Fatalf("%+v, %+v", v, x.Current)
	}
}

// Whatever instances of one id do, in whatever order: no claim is given out twice, a claim that was replaced can do
// nothing, and epochs only rise.
func TestTxnModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		fresh := ids(1)
		x := newTxn("id", now)
		given := map[Producer]int{} // claim -> the instance that holds it
		claims := []Producer{{noProducer, noEpoch}}
		instance := 0
		highest := map[int64]int16{}
		if rapid.Bool().Draw(t, "near the end") {
			x.Init(nil, time.Second, fresh, now)
			x.Current.Epoch = lastEpoch - 3
		}
		take := func(t *rapid.T, who int) {
			c := x.Current
			if c.Epoch > lastEpoch || c.Epoch < 0 {
				t.Fatalf("epoch %d was given out", c.Epoch)
			}
			if owner, ok := given[c]; ok && owner != who {
				t.Fatalf("%+v was given to %d and %d", c, owner, who)
			}
			given[c] = who
			claims = append(claims, c)
		}
		t.Repeat(map[string]func(*rapid.T){
			"new instance": func(t *rapid.T) {
				if v := x.Init(nil, time.Second, fresh, now); v.Code == 0 && !v.Wait {
					instance++
					take(t, instance)
				} else if v.Code != 0 {
					t.Fatalf("a new instance got %d", v.Code)
				}
			},
			"same instance": func(t *rapid.T) {
				c := rapid.SampledFrom(claims).Draw(t, "claim")
				if c.ID == noProducer {
					t.Skip("no claim")
				}
				was, before := given[c], x.Current
				v := x.Init(&c, time.Second, fresh, now)
				if v.Code == 0 && was != instance {
					t.Fatalf("instance %d was replaced by %d, and went on from %+v", was, instance, before)
				}
				if v.Code == 0 && !v.Wait {
					take(t, was)
				}
			},
			"add": func(t *rapid.T) {
				c := rapid.SampledFrom(claims).Draw(t, "claim")
				if v := x.Add(c, tps("t", int32(rapid.IntRange(0, 3).Draw(t, "p"))), V1, now); v.Code == 0 && c != x.Current {
					t.Fatalf("%+v added a partition under %+v", c, x.Current)
				}
			},
			"end": func(t *rapid.T) {
				c, commit := rapid.SampledFrom(claims).Draw(t, "claim"), rapid.Bool().Draw(t, "commit")
				before := x.State
				v := x.End(c, commit, now)
				if v.Code == 0 && c != x.Current {
					t.Fatalf("%+v ended a transaction of %+v", c, x.Current)
				}
				if v.Write && (before != Ongoing || (x.State == PrepareCommit) != commit) {
					t.Fatalf("end with %v went from %v to %v", commit, before, x.State)
				}
			},
			"complete": func(*rapid.T) { x.Complete(now) },
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "ms")) * time.Millisecond)
				if v := x.TimeOut(now); v.Write && x.State != PrepareAbort {
					t.Fatalf("a timeout led to %v", x.State)
				}
			},
			"": func(t *rapid.T) {
				if e, ok := highest[x.Current.ID]; ok && x.Current.Epoch < e {
					t.Fatalf("the epoch of %d fell from %d to %d", x.Current.ID, e, x.Current.Epoch)
				}
				highest[x.Current.ID] = x.Current.Epoch
				if (x.State == Empty || x.State == CompleteAbort || x.State == CompleteCommit) && len(x.Partitions) > 0 {
					t.Fatalf("%v has partitions", x.State)
				}
				if (x.State == Ongoing) && x.Started.IsZero() {
					t.Fatal("an open transaction has no start")
				}
			},
		})
	})
}

func TestTxnRecordRoundTrip(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	x := newTxn("id", now)
	x.Init(nil, 90*time.Second, ids(7), now)
	x.Add(Producer{7, 0}, slices.Concat(tps("b", 3, 1), tps("a", 0)), V1, now.Add(time.Second))
	id, y, err := parse(x.record())
	if err != nil || id != "id" {
		t.Fatal(id, err)
	}
	if d := cmp.Diff(x, y); d != "" {
		t.Fatal(d)
	}
}
