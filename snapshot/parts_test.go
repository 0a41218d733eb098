package snapshot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// recorded is an answer that was gathered.
type recorded []Told

func (r *recorded) Next() (Told, bool, error) {
	if len(*r) == 0 {
		return Told{}, false, nil
	}
	next := (*r)[0]
	*r = (*r)[1:]
	return next, true, nil
}

func (r *recorded) add(row Row, begins bool) error {
	row.Key, row.Value = slices.Clone(row.Key), slices.Clone(row.Value)
	row.Hash = slices.Clone(row.Hash)
	*r = append(*r, Told{row, begins})
	return nil
}

// split is a topic whose partitions are on several nodes.
type split struct {
	t     *testing.T
	nodes []*Views
	of    [][]int32
}

func (s *split) place(rng *rand.Rand, sources []Source) {
	s.of = make([][]int32, len(s.nodes))
	for p := range sources {
		n := rng.IntN(len(s.nodes))
		s.of[n] = append(s.of[n], int32(p))
	}
	for n, v := range s.nodes {
		here := make([]Source, len(sources))
		for _, p := range s.of[n] {
			here[p] = sources[p]
		}
		v.Follow(testTopic, here)
		for p, src := range here {
			if src == nil && rng.IntN(2) == 0 {
				v.Discard(testTopic, int32(p))
			}
		}
	}
}

func (s *split) each(ask func(v *Views, parts []int32) error) error {
	for n, v := range s.nodes {
		if len(s.of[n]) > 0 {
			if err := ask(v, s.of[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *split) scan(at At, fn func(Row) error) error {
	var parts []Answer
	if err := s.each(func(v *Views, list []int32) error {
		r := &recorded{}
		parts = append(parts, r)
		return v.ScanIn(s.t.Context(), testTopic, list, at, func(row Row) error { return r.add(row, false) })
	}); err != nil {
		return err
	}
	return MergeScans(parts, fn)
}

func (s *split) history(key []byte, fn func(Row) error) error {
	var parts []Answer
	if err := s.each(func(v *Views, list []int32) error {
		r := &recorded{}
		parts = append(parts, r)
		return v.HistoryIn(s.t.Context(), testTopic, list, key, func(row Row) error { return r.add(row, true) },
			func(row Row) error { return r.add(row, false) })
	}); err != nil {
		return err
	}
	return MergeHistories(parts, fn)
}

func (s *split) latest(key []byte, at At) (Row, bool, error) {
	var parts []Found
	if err := s.each(func(v *Views, list []int32) error {
		row, found, err := v.LatestIn(s.t.Context(), testTopic, list, key, at)
		parts = append(parts, Found{row, found, err})
		return nil
	}); err != nil {
		return Row{}, false, err
	}
	return MergeLatest(parts)
}

func textOf(r Row) string {
	return fmt.Sprintf("%d@%d %d %d %s=%s deleted %v", r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Position, r.Key, r.Value, r.Deleted)
}

func gather(ask func(func(Row) error) error) string {
	var b strings.Builder
	err := ask(func(r Row) error {
		fmt.Fprintln(&b, textOf(r))
		return nil
	})
	if err != nil {
		return b.String() + kindOf(err)
	}
	return b.String()
}

func kindOf(err error) string {
	if errors.Is(err, ErrCompacted) {
		return ErrCompacted.Error()
	}
	return fmt.Sprint(err)
}

// TestAnswersOfPartitionsOnSeveralNodes: merged, they are those of one node that has all of them, wherever the partitions are, while keys move between
// partitions, tables are truncated and logs are compacted.
func TestAnswersOfPartitionsOnSeveralNodes(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			const parts = 5
			sources, logs := make([]Source, parts), make([]*memSource, parts)
			for p := range parts {
				logs[p] = newMemSource()
				sources[p] = logs[p]
			}
			one := openViews(t, t.TempDir())
			s := &split{t: t, nodes: []*Views{openViews(t, t.TempDir()), openViews(t, t.TempDir()), openViews(t, t.TempDir())}}
			placed := seed%2 == 0
			keys := make([][]byte, 12)
			for i := range keys {
				keys[i] = []byte(fmt.Sprint("k", i))
				if i%4 == 3 {
					keys[i] = append(keys[i], strings.Repeat("x", maxInlineKey)...)
				}
			}
			// A partition that came after compaction was folded without what is gone: it knows less of the past, and nothing of a key that has left it
			// and was deleted where it went to. So these keys stay.
			compacts := seed%3 == 0
			now := int64(1000)
			for range 8 {
				for range 30 {
					now += int64(rng.IntN(3))
					k, part := rng.IntN(len(keys)), rng.IntN(parts)
					if compacts {
						part = k % parts
					}
					r := testRecord{key: keys[k], value: fmt.Appendf(nil, "v%d", now), ts: now}
					switch rng.IntN(12) {
					case 0, 1, 2:
						r.value = nil
					case 3:
						r.key, r.value = nil, truncateValue()
					}
					if placed {
						r.place = &testPlace{commit: uint64(now), time: now * 1000}
					}
					logs[part].append(0, r)
				}
				if compacts {
					l := logs[rng.IntN(parts)]
					l.compact(l.Marks().End*2/3, rng.IntN(2) == 0)
				}
				one.Follow(testTopic, sources)
				s.place(rng, sources)
				cut, instant := int64(rng.IntN(40)), time.UnixMilli(now-int64(rng.IntN(60)))
				cuts := []At{{Now: true}, {Offset: &cut}, {Time: &instant}}
				if compacts {
					cuts = cuts[:1]
				}
				for _, at := range cuts {
					want := gather(func(fn func(Row) error) error { return one.Scan(t.Context(), testTopic, at, fn) })
					got := gather(func(fn func(Row) error) error { return s.scan(at, fn) })
					if got != want {
						t.Fatalf("scan %s: got\n%s\nwant\n%s", describe(at), got, want)
					}
					for _, key := range keys {
						row, found, err := one.Latest(t.Context(), testTopic, key, at)
						gotRow, gotFound, gotErr := s.latest(key, at)
						same := found == gotFound && textOf(row) == textOf(gotRow) && kindOf(err) == kindOf(gotErr)
						if !same {
							t.Fatalf("%.5s %s: got %s, %v, %v; want %s, %v, %v", key, describe(at), textOf(gotRow), gotFound, gotErr, textOf(row), found, err)
						}
					}
				}
				for _, key := range keys {
					want := gather(func(fn func(Row) error) error { return one.History(t.Context(), testTopic, key, fn) })
					got := gather(func(fn func(Row) error) error { return s.history(key, fn) })
					if compacts && within(got, want) {
						continue
					}
					if got != want {
						t.Fatalf("history of %.5s: got\n%s\nwant\n%s", key, got, want)
					}
				}
			}
		})
	}
}

func within(some, all string) bool {
	lines := strings.Split(all, "\n")
	return !slices.ContainsFunc(strings.Split(some, "\n"), func(line string) bool { return !slices.Contains(lines, line) })
}

// TestPartitionsComeAndGo: what is folded of a partition is not touched by what happens to the others, and what is not here is said to be.
func TestPartitionsComeAndGo(t *testing.T) {
	v := openViews(t, t.TempDir())
	a, b := newMemSource(), newMemSource()
	a.append(0, keyed("a", "1"))
	b.append(0, keyed("b", "1"))
	id := func(p int32) uint32 {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.ids[fold{testTopic, p}]
	}
	scan := func(parts ...int32) string {
		t.Helper()
		var got []string
		err := v.ScanIn(t.Context(), testTopic, parts, At{}, func(r Row) error {
			got = append(got, fmt.Sprintf("%s=%s", r.Key, r.Value))
			return nil
		})
		if err != nil {
			return err.Error()
		}
		return strings.Join(got, " ")
	}
	v.Follow(testTopic, []Source{a, nil})
	_, _, err := v.Latest(t.Context(), testTopic, []byte("a"), At{})
	var elsewhere *ElsewhereError
	if !errors.As(err, &elsewhere) || elsewhere.Topic != testTopic || elsewhere.Partition != 1 {
		t.Fatalf("a topic of which a partition is elsewhere answers with %v", err)
	}
	if got := scan(0); got != "a=1" {
		t.Fatal(got)
	}
	first := id(0)
	v.Follow(testTopic, []Source{a, b})
	if got := scan(0, 1); got != "a=1 b=1" || id(0) != first {
		t.Fatalf("%s, fold %d and then %d", got, first, id(0))
	}

	second := id(1)
	other := newMemSource() // partition 1 comes back as another replica
	other.id = 9
	other.append(0, keyed("c", "1"))
	v.Follow(testTopic, []Source{a, nil})
	v.Follow(testTopic, []Source{a, other})
	if got := scan(0, 1); got != "a=1 c=1" || id(0) != first || id(1) == second {
		t.Fatalf("%s, folds %d, %d and then %d, %d", got, first, second, id(0), id(1))
	}
	if got := scan(1); got != "c=1" {
		t.Fatal(got)
	}

	v.Follow(testTopic, []Source{nil, other})
	v.Discard(testTopic, 0)
	v.Discard(testTopic, 1) // which is followed
	sweepAll(t, v)
	if got := scan(1); got != "c=1" || id(0) != 0 {
		t.Fatalf("%s, discarded fold %d", got, id(0))
	}
	if got := scan(0); !strings.Contains(got, "partition 0 of "+testTopic+" is not on this node") {
		t.Fatal(got)
	}
	left := dump(t, v, testTopic)
	for k := range left {
		if !strings.HasPrefix(k[1:], "1 ") {
			t.Errorf("%q is left", k)
		}
	}
	if n := len(allKeys(t, v)); n != len(left)+2 { // and the format and one id
		t.Errorf("%d keys in the database, %d of them of the partition that is here", n, len(left))
	}
}

func allKeys(t *testing.T, v *Views) (keys []string) {
	t.Helper()
	defer enter(t, v)()
	err := v.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			keys = append(keys, string(it.Item().Key()))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
