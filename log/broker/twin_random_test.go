package broker

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	twinSeed   = flag.Uint64("twin.seed", 0, "seed of the differential test's one sequence; 0: see -twin.random")
	twinRandom = flag.Bool("twin.random", false, "sequences of the differential test differ from run to run")
	twinSteps  = flag.Int("twin.steps", 400, "requests in each sequence of the differential test")
	twinRuns   = flag.Int("twin.runs", 6, "sequences of the differential test")
)

// twinAge is how old the records are that both are sent: older than markers, and too young to be compacted.
const twinAge = 5 * time.Minute

// twinSeen is how many steps a failure shows.
const twinSeen = 25

// TestRandomRequestsAgainstKfake sends the same random requests to the broker and to kfake. Apart from ids, times and
// addresses their answers are the same, or differ as docs/compatibility.md explains. Its sequences are the same in every run, so
// that a change is judged by itself; `make twin` looks for new ones.
func TestRandomRequestsAgainstKfake(t *testing.T) {
	runs, first := *twinRuns, uint64(1)
	if *twinRandom {
		first = uint64(time.Now().UnixNano())
	}
	if *twinSeed != 0 {
		runs, first = 1, *twinSeed
	}
	if testing.Short() {
		runs = min(runs, 2)
	}
	used := map[string]int{}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runTwins(t, seed, used) })
	}
	t.Logf("explained differences met: %v", used)
}

func runTwins(t *testing.T, seed uint64, used map[string]int) {
	ours, theirs, s := twins(t)
	g := &twinGenerator{rng: rand.New(rand.NewPCG(seed, 3)), versions: twinVersions(t, s, theirs), now: time.Now().Add(-twinAge).UnixMilli(), ours: ours}
	var steps []string
	posted := map[string][2]kmsg.Request{}
	for n := range *twinSteps {
		for _, call := range g.next() {
			pair, waiting := posted[call.conn]
			if waiting {
				delete(posted, call.conn)
			} else {
				pair = [2]kmsg.Request{call.build(ours), call.build(theirs)}
				version := g.version(pair[0].Key(), call.versions)
				pair[0].SetVersion(version)
				pair[1].SetVersion(version)
				steps = append(steps, fmt.Sprintf("%d: %s v%d %s", n, kmsg.NameForKey(pair[0].Key()), version, brief(pair[0])))
				ours.post(call.conn, pair[0])
				theirs.post(call.conn, pair[1])
			}
			if call.post {
				posted[call.conn] = pair
				continue
			}
			ra, rb := ours.take(call.conn, pair[0]), theirs.take(call.conn, pair[1])
			if call.learn != nil {
				call.learn(ours, ra)
				call.learn(theirs, rb)
			}
			if open := compareResponses(ours, theirs, pair[0], ra, rb, used); len(open) > 0 {
				t.Fatalf("seed %d, after\n%s\nours   %s\nkfake  %s\ndifferences: %v", seed,
					strings.Join(steps[max(0, len(steps)-twinSeen):], "\n"), brief(ra), brief(rb), open)
			}
		}
	}
}

func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(b), "?")
}

// twinVersions are the versions of each API that both serve.
func twinVersions(t testing.TB, s *served, theirs *twinSide) map[int16][2]int16 {
	req := kmsg.NewPtrApiVersionsRequest()
	out := map[int16][2]int16{}
	for _, k := range theirs.send("", req).(*kmsg.ApiVersionsResponse).ApiKeys {
		if k.ApiKey > maxAPIKey || s.apis[k.ApiKey] == nil {
			continue
		}
		a := s.apis[k.ApiKey]
		v := [2]int16{max(k.MinVersion, a.min), min(k.MaxVersion, a.max)}
		if k.ApiKey == int16(kmsg.Produce) {
			v[0] = max(v[0], 3)
		}
		if v[0] > v[1] {
			t.Errorf("no common version of %s", kmsg.NameForKey(k.ApiKey))
			continue
		}
		out[k.ApiKey] = v
	}
	return out
}
