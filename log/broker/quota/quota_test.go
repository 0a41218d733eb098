package quota

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
)

func name(s string) cluster.QuotaName {
	switch s {
	case "":
		return cluster.QuotaName{}
	case "*":
		return cluster.QuotaName{Is: cluster.QuotaDefault}
	}
	return cluster.QuotaName{Is: cluster.QuotaNamed, Name: s}
}

func quotas(rates map[string]float64) cluster.Quotas {
	out := cluster.Quotas{}
	for entity, rate := range rates {
		var user, client string
		fmt.Sscanf(entity, "%s %s", &user, &client)
		if user == "-" {
			user = ""
		}
		if client == "-" {
			client = ""
		}
		out[cluster.QuotaEntity{User: name(user), Client: name(client)}] = map[string]float64{ProducerByteRate: rate}
	}
	return out
}

// Kafka's order: the most particular quota wins, users before client ids.
func TestTheMostParticularQuotaBinds(t *testing.T) {
	order := []string{"u c", "u *", "u -", "* c", "* *", "* -", "- c", "- *"}
	all := map[string]float64{"other c": 1000, "- other": 1000}
	for i, e := range order {
		all[e] = float64(i + 1)
	}
	for i, e := range order {
		rate, key, bound := resolve(quotas(all), ProducerByteRate, Client{"u", "c"})
		if !bound || rate != float64(i+1) {
			t.Fatalf("%s: rate %v, bound %t", e, rate, bound)
		}
		want := bucketKey{quota: ProducerByteRate}
		if e[0] != '-' {
			want.user = name("u")
		}
		if e[len(e)-1] != '-' {
			want.client = name("c")
		}
		if key != want {
			t.Errorf("%s: bucket %+v", e, key)
		}
		if _, _, bound := resolve(quotas(all), ConsumerByteRate, Client{"u", "c"}); bound {
			t.Errorf("%s binds consumers", e)
		}
		delete(all, e)
	}
	if _, _, bound := resolve(quotas(all), ProducerByteRate, Client{"u", "c"}); bound {
		t.Error("somebody else's quota binds")
	}
}

func TestWhatIsTakenTooMuchIsWaitedFor(t *testing.T) {
	b, now, q, c := New(), time.Unix(1000, 0), quotas(map[string]float64{"u -": 100}), Client{"u", "c"}
	charge := func(n float64) time.Duration { return b.Charge(now, q, ProducerByteRate, c, n) }
	if w := charge(1000); w != 0 {
		t.Errorf("what the window gives: wait %v", w)
	}
	if w := charge(50); w != 500*time.Millisecond {
		t.Errorf("50 more: wait %v", w)
	}
	if a, w := b.Allowance(now, q, ProducerByteRate, Client{"u", "another"}); a != 0 || w != 500*time.Millisecond {
		t.Errorf("another client id of the user: %v, %v", a, w)
	}
	now = now.Add(2 * time.Second)
	if a, w := b.Allowance(now, q, ProducerByteRate, c); a != 150 || w != 0 {
		t.Errorf("2 s later: %v, %v", a, w)
	}
	now = now.Add(time.Hour)
	if a, _ := b.Allowance(now, q, ProducerByteRate, c); a != 1000 {
		t.Errorf("an hour later: %v", a)
	}
	now = now.Add(-time.Minute) // a clock that goes back gives nothing
	if a, _ := b.Allowance(now, q, ProducerByteRate, c); a != 1000 {
		t.Errorf("a minute back: %v", a)
	}
	if w := charge(math.MaxFloat64); w.Milliseconds() != math.MaxInt32 {
		t.Errorf("far too much: wait %v", w)
	}
	q = quotas(map[string]float64{"u -": 10})
	b = New()
	if w := charge(200); w != 10*time.Second {
		t.Errorf("at a lower rate: wait %v", w)
	}
	if w := b.Charge(now, nil, ProducerByteRate, c, 1e9); w != 0 {
		t.Errorf("without quotas: wait %v", w)
	}
	if w := b.Charge(now, q, ProducerByteRate, Client{"x", ""}, 1e9); w != 0 {
		t.Errorf("without a quota of its own: wait %v", w)
	}
	if a, _ := b.Allowance(now, q, ConsumerByteRate, c); !math.IsInf(a, 1) {
		t.Errorf("allowance without a quota: %v", a)
	}
}

// A quota of time is waited for in steps of a second, and what is owed beyond the window is forgiven.
func TestTimeIsForgiven(t *testing.T) {
	b, now, c := New(), time.Unix(1000, 0), Client{"u", "c"}
	q := cluster.Quotas{{User: name("u")}: map[string]float64{RequestPercentage: 50}}
	charge := func(n float64) time.Duration { return b.Charge(now, q, RequestPercentage, c, n) }
	if w := charge(500); w != 0 {
		t.Errorf("five seconds of a core, half of ten: wait %v", w)
	}
	if w := charge(25); w != 500*time.Millisecond {
		t.Errorf("a quarter of a second more: wait %v", w)
	}
	if w := charge(1e9); w != LongestRequestWait {
		t.Errorf("very much more: wait %v", w)
	}
	now = now.Add(Window - time.Second/2)
	if a, w := b.Allowance(now, q, RequestPercentage, c); a != 0 || w != time.Second/2 {
		t.Errorf("almost ten seconds later: %v, %v", a, w)
	}
	now = now.Add(time.Second)
	if a, w := b.Allowance(now, q, RequestPercentage, c); a != 25 || w != 0 {
		t.Errorf("a second later: %v, %v", a, w)
	}
}

// Invariant 9: client ids are made up by clients, so the buckets are bounded; those in use stay.
func TestBucketsAreBounded(t *testing.T) {
	b, now, q := New(), time.Unix(1000, 0), quotas(map[string]float64{"- *": 1})
	b.max = 100
	b.Charge(now, q, ProducerByteRate, Client{"", "busy"}, 20)
	for i := range 1000 {
		b.Charge(now, q, ProducerByteRate, Client{"", fmt.Sprint(i)}, 20)
		if w := b.Charge(now, q, ProducerByteRate, Client{"", "busy"}, 0); w != 10*time.Second {
			t.Fatalf("after %d others: wait %v", i, w)
		}
	}
	if len(b.byKey) != 100 || b.recent.Len() != 100 {
		t.Errorf("%d buckets, %d in order", len(b.byKey), b.recent.Len())
	}
	if w := b.Charge(now, q, ProducerByteRate, Client{"", "0"}, 0); w != 0 {
		t.Errorf("forgotten, yet it waits %v", w)
	}
	long := strings.Repeat("x", 1<<15)
	b.Charge(now, q, ProducerByteRate, Client{"", long}, 20)
	if w := b.Charge(now, q, ProducerByteRate, Client{"", long + "y"}, 0); w != 0 {
		t.Errorf("another long id: wait %v", w)
	}
	if w := b.Charge(now, q, ProducerByteRate, Client{"", long}, 0); w != 10*time.Second {
		t.Errorf("a long id: wait %v", w)
	}
	for key := range b.byKey {
		if n := len(key.client.Name); n > maxName {
			t.Errorf("a bucket remembers %d bytes of an id", n)
		}
	}
}
