package txn

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

func join(id int64, epoch int16, partitions ...int32) func(*Txn, time.Time) Verdict {
	return func(t *Txn, now time.Time) Verdict {
		return t.Add(Producer{id, epoch}, tps("t", partitions...), V2, now)
	}
}

func endV2(id int64, epoch int16, commit bool) func(*Txn, time.Time) Verdict {
	return func(t *Txn, now time.Time) Verdict { return t.EndV2(Producer{id, epoch}, commit, noProducer, now) }
}

func TestTxnV2Scripts(t *testing.T) {
	done, write, wait := Verdict{}, Verdict{Write: true}, Verdict{Wait: true}
	fenced, mapping := Verdict{Code: kerr.ProducerFenced.Code}, Verdict{Code: kerr.InvalidProducerIDMapping.Code}
	invalid := Verdict{Code: kerr.InvalidTxnState.Code}
	first := step{initAs(nil), write, Empty, 0}
	for name, script := range map[string][]step{
		"every end raises the epoch": {
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{endV2(99, 0, true), write, PrepareCommit, 1},
			{endV2(99, 1, false), wait, PrepareCommit, 1}, // KAFKA-18575: the claim was told before the markers are written
			{join(99, 0, 1), fenced, PrepareCommit, 1},
			{join(99, 1, 1), wait, PrepareCommit, 1},
			{complete, done, CompleteCommit, 1},
			{join(99, 1, 1), write, Ongoing, 1},
			{endV2(99, 1, false), write, PrepareAbort, 2},
			{complete, done, CompleteAbort, 2},
		},
		"an end asked for again has the same result": {
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{endV2(99, 0, true), write, PrepareCommit, 1},
			{endV2(99, 0, true), wait, PrepareCommit, 1},
			{endV2(99, 0, false), invalid, PrepareCommit, 1},
			{complete, done, CompleteCommit, 1},
			{endV2(99, 0, true), done, CompleteCommit, 1},
			{endV2(99, 0, false), invalid, CompleteCommit, 1},
			{endV2(98, 0, true), mapping, CompleteCommit, 1},
		},
		"a late end does not decide a later transaction": { // KAFKA-17754
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{endV2(99, 0, false), write, PrepareAbort, 1},
			{complete, done, CompleteAbort, 1},
			{join(99, 1, 1), write, Ongoing, 1},
			{endV2(99, 0, true), fenced, Ongoing, 1},
			{endV2(99, 0, false), fenced, Ongoing, 1},
			{endAs(99, 0, true), fenced, Ongoing, 1},
			{endV2(99, 1, true), write, PrepareCommit, 2},
			{endV2(99, 0, true), fenced, PrepareCommit, 2},
		},
		"an empty abort does not fence its own producer": { // KAFKA-18464
			first,
			{endV2(99, 0, false), write, CompleteAbort, 1},
			{endV2(99, 0, false), done, CompleteAbort, 1},
			{endV2(99, 0, true), invalid, CompleteAbort, 1},
			{endV2(99, 1, false), write, CompleteAbort, 2},
			{join(99, 2, 1), write, Ongoing, 2},
			{endV2(99, 2, true), write, PrepareCommit, 3},
			{complete, done, CompleteCommit, 3},
			{endV2(99, 3, false), write, CompleteAbort, 4},
			{endV2(99, 2, true), fenced, CompleteAbort, 4},
			{initAs(&Producer{99, 4}), write, Empty, 5},
			{endV2(99, 4, false), fenced, Empty, 5},
		},
		"an empty commit raises the epoch too": {
			first,
			{endV2(99, 0, true), write, CompleteCommit, 1},
			{endV2(99, 0, true), done, CompleteCommit, 1},
			{endV2(99, 1, true), write, CompleteCommit, 2},
			{endV2(99, 0, true), fenced, CompleteCommit, 2},
		},
		"a timeout raises the epoch once": { // KAFKA-19367
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{later(time.Minute), write, PrepareAbort, 1},
			{endV2(99, 0, true), invalid, PrepareAbort, 1},
			{endV2(99, 0, false), wait, PrepareAbort, 1},
			{complete, done, CompleteAbort, 1},
			{endV2(99, 0, true), invalid, CompleteAbort, 1},
			{endV2(99, 0, false), done, CompleteAbort, 1},
			{join(99, 1, 1), write, Ongoing, 1},
		},
		"another instance raises the epoch once to fence, and once more for itself": { // KAFKA-19367
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{initAs(nil), Verdict{Write: true, Wait: true}, PrepareAbort, 1},
			{endV2(99, 0, false), fenced, PrepareAbort, 1},
			{complete, done, CompleteAbort, 1},
			{endV2(99, 0, false), fenced, CompleteAbort, 1},
			{initAs(nil), write, Empty, 2},
			{join(99, 1, 1), fenced, Empty, 2},
		},
		"an instance that lost its answer goes on with what it was given": {
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{endV2(99, 0, true), write, PrepareCommit, 1},
			{initAs(&Producer{99, 0}), wait, PrepareCommit, 1},
			{complete, done, CompleteCommit, 1},
			{initAs(&Producer{99, 0}), done, CompleteCommit, 1},
			{join(99, 1, 1), write, Ongoing, 1},
			{initAs(&Producer{99, 0}), fenced, Ongoing, 1}, // late: it must not abort what is open
			{endV2(99, 1, true), write, PrepareCommit, 2},
		},
		"the client is replaced by an older one, and by a newer one": {
			first,
			{join(99, 0, 1), write, Ongoing, 0},
			{endV2(99, 0, true), write, PrepareCommit, 1},
			{complete, done, CompleteCommit, 1},
			{initAs(nil), write, Empty, 2},
			{add(99, 2, 1), write, Ongoing, 2},
			{endAs(99, 2, true), write, PrepareCommit, 2},
			{complete, done, CompleteCommit, 2},
			{endV2(99, 1, true), fenced, CompleteCommit, 2}, // the answer of an end of version 1 is not that of this one
			{add(99, 2, 1), write, Ongoing, 2},
			{endAs(99, 2, false), write, PrepareAbort, 2},
			{complete, done, CompleteAbort, 2},
			{endV2(99, 2, true), invalid, CompleteAbort, 2},
			{initAs(nil), write, Empty, 3},
			{join(99, 3, 1), write, Ongoing, 3},
			{endV2(99, 3, true), write, PrepareCommit, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			x := newTxn("id", now)
			for i, s := range script {
				if got := s.do(x, now); got != s.want || x.State != s.state || x.Current.Epoch != s.epoch {
					t.Fatalf("step %d: %+v, %v, epoch %d; want %+v, %v, epoch %d", i, got, x.State, x.Current.Epoch, s.want, s.state, s.epoch)
				}
				if again := reload(t, x); !cmp.Equal(x, again) {
					t.Fatalf("step %d: a load finds another state:\n%s", i, cmp.Diff(x, again))
				}
			}
		})
	}
}

// reload is the state as a load finds it.
func reload(t interface{ Fatal(...any) }, x *Txn) *Txn {
	_, y, err := parse(x.record())
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// The last epoch's end gives a new producer id, and no claim is ever above it (KAFKA-17898, KAFKA-19367).
func TestTxnV2EpochsRunOut(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	last := Producer{500, lastEpoch}
	at := func() *Txn {
		x := newTxn("id", now)
		x.Init(nil, time.Minute, ids(500), now)
		x.Current.Epoch = lastEpoch
		return x
	}
	open := func() *Txn {
		x := at()
		x.Add(last, tps("t", 1), V2, now)
		return x
	}
	t.Run("with partitions", func(t *testing.T) {
		x := open()
		if v := x.EndV2(last, true, noProducer, now); v != (Verdict{Fresh: true}) || x.State != Ongoing {
			t.Fatalf("%+v, %v", v, x.State)
		}
		if v := x.EndV2(last, true, 501, now); v != (Verdict{Write: true}) || x.Current != (Producer{500, math.MaxInt16}) || x.Claim() != (Producer{501, 0}) {
			t.Fatalf("%+v, %+v", v, x)
		}
		x = reload(t, x)
		if v := x.EndV2(last, true, noProducer, now); v != (Verdict{Wait: true}) {
			t.Fatalf("%+v", v)
		}
		// The claim was told, so it may be used before the markers are written.
		next := Producer{501, 0}
		for what, v := range map[string]Verdict{"add": x.Add(next, tps("t", 1), V2, now), "end": x.EndV2(next, false, noProducer, now),
			"init": x.Init(&next, time.Minute, nil, now)} {
			if v != (Verdict{Wait: true}) {
				t.Fatalf("%s: %+v", what, v)
			}
		}
		x.Complete(now)
		x = reload(t, x)
		if v := x.EndV2(last, true, noProducer, now); v != (Verdict{}) || x.Claim() != (Producer{501, 0}) {
			t.Fatalf("asked again: %+v, %+v", v, x)
		}
		if v := x.EndV2(last, false, noProducer, now); v.Code != kerr.InvalidTxnState.Code {
			t.Fatalf("%+v", v)
		}
		if v := x.Add(last, tps("t", 1), V2, now); v.Code != kerr.InvalidProducerIDMapping.Code {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("empty", func(t *testing.T) {
		x := at()
		if v := x.EndV2(last, false, 501, now); v != (Verdict{Write: true}) || x.Current != (Producer{501, 0}) || x.State != CompleteAbort {
			t.Fatalf("%+v, %+v", v, x)
		}
		if v := reload(t, x).EndV2(last, false, noProducer, now); v != (Verdict{}) {
			t.Fatalf("asked again: %+v", v)
		}
	})
	t.Run("timed out", func(t *testing.T) {
		x := open()
		x.TimeOut(now.Add(time.Hour))
		x.Complete(now)
		x = reload(t, x)
		if v := x.EndV2(last, false, noProducer, now); v != (Verdict{Fresh: true}) {
			t.Fatalf("%+v", v)
		}
		if v := x.EndV2(last, false, 501, now); v != (Verdict{Write: true}) || x.Current != (Producer{501, 0}) {
			t.Fatalf("%+v, %+v", v, x)
		}
		if v := reload(t, x).EndV2(last, false, noProducer, now); v != (Verdict{}) {
			t.Fatalf("asked again: %+v", v)
		}
	})
	t.Run("the epoch of the markers is nobody's", func(t *testing.T) {
		x := open()
		x.TimeOut(now.Add(time.Hour))
		x.Complete(now)
		if v := x.EndV2(Producer{500, math.MaxInt16}, false, 501, now); v.Code != kerr.ProducerFenced.Code || x.Current.Epoch != math.MaxInt16 {
			t.Fatalf("%+v, %+v", v, x)
		}
	})
}

// tx is the open transaction of the model: under which claim it was opened, and by which version.
type tx struct {
	claim Producer
	v2    bool
}

// Instances of both versions share one id, requests come late and twice, transactions time out and state is loaded anew: a
// version 2 transaction ends only by an end that was asked for it or by an abort, and a late request changes nothing.
func TestTxnV2Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		fresh := ids(1)
		x := newTxn("id", now)
		x.Init(nil, time.Second, fresh, now)
		if rapid.Bool().Draw(t, "near the end") {
			x.Current.Epoch = lastEpoch - 2
		}
		given := map[Producer]bool{x.Current: true}
		claims := []Producer{x.Current}
		var open *tx                 // the transaction of the state machine
		ended := map[Producer]bool{} // the result of V2 transactions by their claim
		give := func(t *rapid.T) {
			c := x.Claim()
			if c.Epoch > lastEpoch || c.Epoch < 0 {
				t.Fatalf("%+v was given out", c)
			}
			if !given[c] {
				given[c] = true
				claims = append(claims, c)
			}
		}
		pick := func(t *rapid.T) Producer {
			// The newest claims matter most; older ones are late requests.
			n := len(claims)
			return claims[n-1-min(rapid.IntRange(0, 3).Draw(t, "age"), n-1)]
		}
		check := func(t *rapid.T, before Txn, v Verdict) {
			if v.Code != 0 && (before.State != x.State || before.Current != x.Current) {
				t.Fatalf("a refused request went from %v %+v to %v %+v", before.State, before.Current, x.State, x.Current)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"new instance": func(t *rapid.T) {
				if v := x.Init(nil, time.Second, fresh, now); v.Code == 0 && !v.Wait {
					give(t)
				}
			},
			"same instance": func(t *rapid.T) {
				c, before := pick(t), *x
				v := x.Init(&c, time.Second, fresh, now)
				check(t, before, v)
				if v.Code == 0 && !v.Wait {
					give(t)
				}
				if before.State == Ongoing && x.State != Ongoing && c != before.Current {
					t.Fatalf("late %+v aborted the transaction of %+v", c, before.Current)
				}
			},
			"add": func(t *rapid.T) {
				c, version := pick(t), rapid.SampledFrom([]int16{V1, V2}).Draw(t, "version")
				before := *x
				v := x.Add(c, tps("t", int32(rapid.IntRange(0, 3).Draw(t, "p"))), version, now)
				check(t, before, v)
				if v.Code == 0 && c != x.Claim() {
					t.Fatalf("%+v added a partition under %+v", c, x.Current)
				}
				if v.Write && before.State != Ongoing {
					open = &tx{claim: c, v2: version == V2}
				}
			},
			"end": func(t *rapid.T) {
				c, commit := pick(t), rapid.Bool().Draw(t, "commit")
				before := *x
				v := x.End(c, commit, now)
				check(t, before, v)
				if v.Code == 0 && c != before.Claim() {
					t.Fatalf("%+v ended a transaction of %+v", c, before.Current)
				}
				if v.Write && x.Current != before.Current {
					t.Fatalf("an end of version 1 raised %+v to %+v", before.Current, x.Current)
				}
			},
			"end v2": func(t *rapid.T) {
				c, commit := pick(t), rapid.Bool().Draw(t, "commit")
				before := *x
				v := x.EndV2(c, commit, noProducer, now)
				if v.Fresh {
					if before.State != x.State || before.Current != x.Current {
						t.Fatal("asking for a producer id changed the state")
					}
					v = x.EndV2(c, commit, fresh(), now)
				}
				check(t, before, v)
				switch {
				case v.Code != 0 || v.Wait:
				case v.Write && before.State == Ongoing:
					if c != before.Current || c != open.claim {
						t.Fatalf("%+v ended the transaction of %+v", c, open.claim)
					}
					if _, twice := ended[c]; twice {
						t.Fatalf("two transactions of version 2 were ended under %+v", c)
					}
					ended[c] = commit
				default: // told again, or empty
					if result, known := ended[c]; known && result != commit {
						t.Fatalf("the transaction of %+v ended with commit %v, and was told to have ended with %v", c, result, commit)
					}
					if v.Write && c == before.Current {
						ended[c] = commit
					}
				}
				if v.Code == 0 && !v.Wait {
					if x.Claim() == c {
						t.Fatalf("%+v goes on as itself", c)
					}
					give(t)
				}
			},
			"complete": func(*rapid.T) { x.Complete(now) },
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "ms")) * time.Millisecond)
				before := *x
				if v := x.TimeOut(now); v.Write {
					if x.State != PrepareAbort || x.Current.Epoch != before.Current.Epoch+1 {
						t.Fatalf("a timeout led from %+v to %v %+v", before.Current, x.State, x.Current)
					}
					if open.v2 {
						ended[open.claim] = false
					}
				}
			},
			"load": func(t *rapid.T) {
				y := reload(t, x)
				if d := cmp.Diff(x, y); d != "" {
					t.Fatal(d)
				}
				x = y
			},
		})
	})
}

// What is stored is Kafka 4's record: its tools print it, and a record of an older release is read.
func TestTxnRecordsAreKafkas(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	x := newTxn("id", now)
	x.Init(nil, time.Minute, ids(7), now)
	x.Current.Epoch = lastEpoch
	x.Add(Producer{7, lastEpoch}, tps("t", 1), V2, now)
	x.EndV2(Producer{7, lastEpoch}, true, 8, now.Add(time.Second))
	r := x.record()
	want := kmsg.NewTxnMetadataValue()
	want.Version, want.ProducerID, want.ProducerEpoch, want.TimeoutMillis = 1, 7, math.MaxInt16, 60_000
	want.State, want.LastUpdateTimestamp, want.StartTimestamp = kmsg.TransactionStatePrepareCommit, 1_001_000, 1_000_000
	want.PreviousProducerID, want.NextProducerID, want.ClientTransactionVersion = 7, 8, 2
	want.Topics = []kmsg.TxnMetadataValueTopic{{Topic: "t", Partitions: []int32{1}}}
	if !bytes.Equal(r.Value, want.AppendTo(nil)) {
		t.Fatalf("%x, want %x", r.Value, want.AppendTo(nil))
	}
	old := kmsg.NewTxnMetadataValue()
	old.Version, old.ProducerID, old.ProducerEpoch, old.State = 0, 7, 3, kmsg.TransactionStateCompleteCommit
	_, y, err := parse(journal.Record{Key: r.Key, Value: old.AppendTo(nil)})
	if err != nil || y.Current != (Producer{7, 3}) || y.Previous != (Producer{noProducer, noEpoch}) || y.Next != noProducer || y.Client != V1 {
		t.Fatalf("%+v, %v", y, err)
	}
	if v := y.EndV2(Producer{7, 2}, true, noProducer, now); v.Code != kerr.ProducerFenced.Code {
		t.Fatalf("%+v", v)
	}
}
