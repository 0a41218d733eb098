package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		killChild(dir)
	}
	goleak.VerifyTestMain(m)
}

// twin is the naive model: the committed records of each partition, in order.
type twin struct {
	parts [][]twinRecord
	open  []map[int64][]twinRecord
}

type twinRecord struct {
	testRecord
	part   int
	offset int64
}

func (w *twin) visible(srcs []*memSource) (all []twinRecord) {
	for i, part := range w.parts {
		m := srcs[i].Marks()
		for _, r := range part {
			if r.offset >= m.LogStart && r.offset < m.LastStable && (r.key != nil || r.truncates()) {
				all = append(all, r)
			}
		}
	}
	return all
}

func (r *twinRecord) within(at At) bool {
	switch {
	case at.Offset != nil:
		return r.offset <= *at.Offset
	case at.Position != nil:
		return r.place.commit <= *at.Position
	case at.Time != nil && r.place != nil:
		return r.place.time <= at.Time.UnixMicro()
	case at.Time != nil:
		return r.ts <= at.Time.UnixMilli()
	}
	return true
}

func (w *twin) state(srcs []*memSource, at At) map[string]twinRecord {
	state := map[string]twinRecord{}
	for _, r := range w.visible(srcs) {
		switch {
		case !r.within(at):
		case r.truncates():
			for k, w := range state {
				if w.part == r.part {
					state[k] = r.ending(w.key)
				}
			}
		default:
			state[string(r.key)] = r // a key lives in one partition
		}
	}
	return state
}

// history is a key's records, and the truncates that ended a life of it.
func (w *twin) history(srcs []*memSource, key []byte) (history []twinRecord) {
	for _, r := range w.visible(srcs) {
		last := len(history) - 1
		switch {
		case bytes.Equal(r.key, key) && r.key != nil:
			history = append(history, r)
		case r.truncates() && last >= 0 && history[last].part == r.part && history[last].value != nil:
			history = append(history, r.ending(key))
		}
	}
	return history
}

// ending is a truncate as the end of a key's life.
func (r *twinRecord) ending(key []byte) twinRecord {
	end := *r
	end.key, end.value = key, nil
	return end
}

// machine drives views and twin with the same operations.
type machine struct {
	*shared
	t      *rapid.T
	topic  string
	srcs   []*memSource
	twin   twin
	places bool
	commit uint64
	clock  int64 // ms
	keys   [][]byte
}

// shared is one database for all runs, each of which has a topic of its own: opening one takes long.
type shared struct {
	dir   string
	views *Views
}

func (s *shared) open(t interface{ Fatal(...any) }) {
	v, err := open(s.dir, Options{}, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	s.views = v
}

func (m *machine) follow() {
	srcs := make([]Source, len(m.srcs))
	for i, s := range m.srcs {
		srcs[i] = s
	}
	m.views.Follow(m.topic, srcs)
}

func (m *machine) parts() []*partition {
	t, err := m.views.lookup(m.topic)
	if err != nil {
		m.t.Fatal(err)
	}
	return t.parts
}

// write makes some changes, all of one source transaction, over the partitions.
func (m *machine) write(producer int64) {
	m.clock += rapid.Int64Range(0, 3).Draw(m.t, "tick")
	m.commit += 1 + rapid.Uint64Range(0, 3).Draw(m.t, "lsn")
	groups := map[int][]testRecord{}
	for range rapid.IntRange(1, 5).Draw(m.t, "changes") {
		i := rapid.IntRange(0, len(m.keys)-1).Draw(m.t, "key")
		r := testRecord{key: m.keys[i], ts: m.clock, value: fmt.Appendf(nil, "v%d-%d", m.commit, i)}
		switch rapid.IntRange(0, 9).Draw(m.t, "kind") {
		case 0, 1:
			r.value = nil
		case 2:
			r.value = []byte{}
		case 3:
			r.key = nil
		case 4:
			if i == 0 {
				key := rapid.SampledFrom([][]byte{nil, []byte(truncateKey)}).Draw(m.t, "truncate's key")
				for part := range m.srcs {
					groups[part] = append(groups[part], m.placed(testRecord{key: key, value: truncateValue(), ts: m.clock}))
				}
			}
		}
		r = m.placed(r)
		groups[i%len(m.srcs)] = append(groups[i%len(m.srcs)], r)
	}
	for _, part := range slices.Sorted(maps.Keys(groups)) {
		base := m.srcs[part].append(producer, groups[part]...)
		for n, r := range groups[part] {
			rec := twinRecord{r, part, base + int64(n)}
			if producer == 0 {
				m.twin.parts[part] = append(m.twin.parts[part], rec)
			} else {
				m.twin.open[part][producer] = append(m.twin.open[part][producer], rec)
			}
		}
	}
}

func (m *machine) placed(r testRecord) testRecord {
	if m.places {
		r.place = &testPlace{commit: m.commit, time: m.clock*1000 + 1}
	}
	return r
}

func (m *machine) end(producer int64, commit bool) {
	for part, open := range m.twin.open {
		if len(open[producer]) == 0 {
			continue
		}
		m.srcs[part].end(producer, commit)
		if commit {
			m.twin.parts[part] = append(m.twin.parts[part], open[producer]...)
			slices.SortFunc(m.twin.parts[part], func(a, b twinRecord) int { return int(a.offset - b.offset) })
		}
		delete(open, producer)
	}
}

func (m *machine) cut() At {
	switch rapid.IntRange(0, 3).Draw(m.t, "cut") {
	case 0:
		o := rapid.Int64Range(-1, 60).Draw(m.t, "offset")
		return At{Offset: &o}
	case 1:
		at := time.UnixMilli(rapid.Int64Range(-1, m.clock+1).Draw(m.t, "time")).Add(time.Microsecond)
		return At{Time: &at}
	case 2:
		if m.places {
			p := rapid.Uint64Range(0, m.commit+1).Draw(m.t, "position")
			return At{Position: &p}
		}
	}
	return At{Now: true}
}

func (m *machine) check() {
	ctx := context.Background()
	at := m.cut()
	want := m.twin.state(m.srcs, at)
	got := map[string]bool{}
	err := m.views.Scan(ctx, m.topic, at, func(r Row) error {
		w, ok := want[string(r.Key)]
		if got[string(r.Key)] || !ok || w.value == nil {
			return fmt.Errorf("unexpected row %+v", r)
		}
		got[string(r.Key)] = true
		return sameRow(r, w)
	})
	if err != nil && !(errors.Is(err, ErrCompacted) && m.compacted(at)) {
		m.t.Fatalf("scan at %s: %v", describe(at), err)
	}
	for k, w := range want {
		if err == nil && w.value != nil && !got[k] {
			m.t.Fatalf("scan at %s misses %.20q", describe(at), k)
		}
	}
	key := m.keys[rapid.IntRange(0, len(m.keys)-1).Draw(m.t, "key")]
	row, found, err := m.views.Latest(ctx, m.topic, key, at)
	w, ok := want[string(key)]
	switch {
	case errors.Is(err, ErrCompacted) && m.compacted(at):
	case err == nil && !found && ok && w.value == nil && m.forgot(key): // its tombstone, and perhaps a truncate came after it
	case err != nil || found != ok:
		m.t.Fatalf("latest of %.20q at %s: found %v, want %v, %v", key, describe(at), found, ok, err)
	case found:
		if !m.holds(&w) {
			w.place, row.Position, row.CommitTime = nil, 0, time.Time{} // the entry is all that there is
		}
		if err := sameRow(row, w); err != nil {
			m.t.Fatalf("latest at %s: %v", describe(at), err)
		}
	}
	m.checkHistory(key)
	any, found, err := m.views.AnyKey(ctx, m.topic)
	keyed := slices.ContainsFunc(m.twin.visible(m.srcs), func(r twinRecord) bool { return r.key != nil && !r.truncates() && m.holds(&r) })
	if err != nil || keyed && !found || found && !slices.ContainsFunc(m.keys, func(k []byte) bool { return bytes.Equal(k, any) }) {
		m.t.Fatalf("any key: %.20q, found %v, want %v, %v", any, found, keyed, err)
	}
	before := int64(-1)
	if found && !keyed && !m.compacted(At{Offset: &before}) {
		m.t.Fatalf("any key: %.20q of none", any)
	}
	if lag := m.views.Lag(m.topic); lag != 0 {
		m.t.Fatalf("lag %d after a query", lag)
	}
}

// forgot tells whether compaction has taken a tombstone of a key.
func (m *machine) forgot(key []byte) bool {
	return slices.ContainsFunc(m.twin.visible(m.srcs), func(r twinRecord) bool {
		return r.key != nil && r.value == nil && bytes.Equal(r.key, key) && !m.holds(&r)
	})
}

// holds tells whether compaction has left a record in its log.
func (m *machine) holds(r *twinRecord) bool { return m.srcs[r.part].holds()[r.offset] }

// compacted tells whether a question may go unanswered: never one about now, or behind all that compaction has come to.
func (m *machine) compacted(at At) bool {
	for _, s := range m.srcs {
		if whole := s.Whole(); whole > s.Marks().LogStart && !at.now() && (at.Offset == nil || *at.Offset < whole-1) {
			return true
		}
	}
	return false
}

// checkHistory: what the log still holds of a key is told, in order, and nothing else but truncates that ended a life of it.
func (m *machine) checkHistory(key []byte) {
	history := m.twin.history(m.srcs, key)
	lost := false
	for _, w := range history {
		lost = lost || !m.holds(&w)
	}
	next := 0
	whole := map[int]int64{} // of the partitions that told something
	skip := func(to int64, part int) {
		for next < len(history) && !(history[next].offset == to && history[next].part == part) {
			w := history[next]
			if m.holds(&w) && !(lost && m.truncate(&w)) {
				m.t.Fatalf("history of %.20q misses %+v", key, w)
			}
			next++
		}
	}
	err := m.views.History(context.Background(), m.topic, key, func(r Row) error {
		skip(r.Offset, int(r.Partition))
		whole[int(r.Partition)], r.WholeFrom = r.WholeFrom, 0
		if next == len(history) {
			return fmt.Errorf("more history than there is: %+v", r)
		}
		next++
		return sameRow(r, history[next-1])
	})
	if skip(-1, -1); err != nil {
		m.t.Fatalf("history of %.20q: %v", key, err)
	}
	for _, w := range history {
		if from, told := whole[w.part]; told && !m.holds(&w) && w.offset >= from {
			m.t.Fatalf("history is said to be whole from %v, but %+v is gone", whole, w)
		}
	}
}

func (m *machine) truncate(w *twinRecord) bool {
	return slices.ContainsFunc(m.twin.parts[w.part], func(r twinRecord) bool { return r.offset == w.offset && r.truncates() })
}

func describe(at At) string {
	switch {
	case at.Offset != nil:
		return "offset " + strconv.FormatInt(*at.Offset, 10)
	case at.Time != nil:
		return at.Time.UTC().String()
	case at.Position != nil:
		return "position " + strconv.FormatUint(*at.Position, 10)
	}
	return "now"
}

func sameRow(r Row, w twinRecord) error {
	ok := int(r.Partition) == w.part && r.Offset == w.offset && bytes.Equal(r.Key, w.key) &&
		bytes.Equal(r.Value, w.value) && (r.Value == nil) == (w.value == nil) && r.Deleted == (w.value == nil) && r.Timestamp.UnixMilli() == w.ts
	if w.place != nil {
		ok = ok && r.Position == w.place.commit && r.CommitTime.UnixMicro() == w.place.time
	} else {
		ok = ok && r.Position == 0 && r.CommitTime.IsZero()
	}
	if !ok {
		return fmt.Errorf("row %+v, want %+v", r, w)
	}
	return nil
}

// dump is everything that the database holds of a topic, without its id.
func dump(t interface{ Fatal(...any) }, v *Views, name string) map[string]string {
	all := map[string]string{}
	v.mu.Lock()
	ids := map[int32]uint32{}
	for f, id := range v.ids {
		if f.topic == name {
			ids[f.partition] = id
		}
	}
	v.mu.Unlock()
	defer enter(t, v)()
	err := v.db.View(func(txn *badger.Txn) error {
		for partition, id := range ids {
			for _, space := range []byte{spaceEntry, spaceState} {
				it := txn.NewIterator(badger.IteratorOptions{Prefix: foldPrefix(space, id)})
				for it.Rewind(); it.Valid(); it.Next() {
					value, err := it.Item().ValueCopy(nil)
					if err != nil {
						return err
					}
					all[fmt.Sprint(string(space), partition, " ")+string(it.Item().Key()[prefixLen:])] = string(value)
				}
				it.Close()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// enter has the database open until leave is called.
func enter(t interface{ Fatal(...any) }, v *Views) (leave func()) {
	if err := v.enter(); err != nil {
		t.Fatal(err)
	}
	return v.leave
}

// sweepAll runs the background's deletion until it finds nothing to do.
func sweepAll(t interface{ Fatal(...any) }, v *Views) {
	defer enter(t, v)()
	for {
		id, more := v.nextDead()
		if more {
			if err := v.bury(id); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for _, p := range v.all() {
			s := sweeper{}
			worked := true
			for worked && err == nil {
				worked, err = s.step(v.db.DB, p)
				more = more || worked
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// TestViewsAgainstTwin: whatever happens to the log and to the views, every answer is the naive model's.
func TestViewsAgainstTwin(t *testing.T) {
	db := &shared{dir: t.TempDir()}
	db.open(t)
	defer func() {
		if err := db.views.Close(); err != nil {
			t.Error(err)
		}
	}()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		m := &machine{shared: db, t: t, topic: fmt.Sprintf("topic%d", runs), places: rapid.Bool().Draw(t, "places")}
		parts := rapid.IntRange(1, 3).Draw(t, "partitions")
		m.twin.parts = make([][]twinRecord, parts)
		for range parts {
			m.srcs = append(m.srcs, newMemSource())
			m.twin.open = append(m.twin.open, map[int64][]twinRecord{})
		}
		for i := range 8 {
			m.keys = append(m.keys, []byte(fmt.Sprintf(`{"id":%d}`, i)))
		}
		m.keys[3], m.keys[4], m.keys[5] = []byte{}, []byte("a"), []byte("a\xff\xff\xff\xff\xff\xff\xff\xff")
		m.keys[6], m.keys[7] = bytes.Repeat([]byte("long"), maxInlineKey), append(bytes.Repeat([]byte("long"), maxInlineKey), 'x')
		m.follow()
		defer func() { db.views.Forget(m.topic) }()
		t.Repeat(map[string]func(*rapid.T){
			"write":       func(*rapid.T) { m.write(0) },
			"transaction": func(t *rapid.T) { m.write(rapid.Int64Range(1, 2).Draw(t, "producer")) },
			"end": func(t *rapid.T) {
				m.end(rapid.Int64Range(1, 2).Draw(t, "producer"), rapid.Bool().Draw(t, "commit"))
			},
			"fold": func(t *rapid.T) {
				defer enter(t, m.views)()
				for _, p := range m.parts() {
					if _, err := p.step(m.views.db.DB, p.src.Marks().LastStable); err != nil {
						t.Fatal(err)
					}
				}
			},
			"retention": func(t *rapid.T) {
				s := m.srcs[rapid.IntRange(0, len(m.srcs)-1).Draw(t, "partition")]
				s.retain(rapid.Int64Range(0, s.Marks().End).Draw(t, "start"))
			},
			"compact": func(t *rapid.T) {
				s := m.srcs[rapid.IntRange(0, len(m.srcs)-1).Draw(t, "partition")]
				s.compact(rapid.Int64Range(0, s.Marks().End).Draw(t, "below"), rapid.Bool().Draw(t, "forget"))
			},
			"sweep":  func(t *rapid.T) { sweepAll(t, m.views) },
			"follow": func(*rapid.T) { m.follow() },
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 7).Draw(t, "often") > 0 {
					return // it takes long
				}
				if err := m.views.Close(); err != nil {
					t.Fatal(err)
				}
				m.open(t)
				m.follow()
			},
			"rest": func(t *rapid.T) {
				if err := m.views.db.rest(time.Now().Add(2 * restAfter)); err != nil {
					t.Fatal(err)
				}
			},
			"rebuild": func(t *rapid.T) { m.rebuild() },
			"":        func(*rapid.T) { m.check() },
		})
	})
}

// rebuild: invariant 8, the same bytes, once what retention took is swept.
func (m *machine) rebuild() {
	ctx := context.Background()
	if _, err := m.views.current(ctx, m.topic); err != nil {
		m.t.Fatal(err)
	}
	for _, p := range m.parts() {
		p.swept = -1 << 40 // however little is gone, a pass is worth it
	}
	sweepAll(m.t, m.views)
	before := dump(m.t, m.views, m.topic)
	defer m.check()
	if err := m.views.Rebuild(ctx, m.topic); err != nil {
		m.t.Fatal(err)
	}
	after := dump(m.t, m.views, m.topic)
	for k := range before {
		if k[0] == spaceState { // a fold that began above retired records does not know their last batch
			before[k], after[k] = before[k][:offsetLen], after[k][:offsetLen]
		}
	}
	start := int64(-1)
	if !maps.Equal(before, after) && !m.compacted(At{Offset: &start}) { // the first fold saw more than there is
		m.t.Fatalf("rebuilt view differs: %q, was %q", after, before)
	}
}
