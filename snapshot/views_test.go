package snapshot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

const testTopic = "shop.public.orders"

func openViews(t testing.TB, dir string) *Views {
	t.Helper()
	v, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func latest(t testing.TB, v *Views, key string) (Row, bool) {
	t.Helper()
	row, found, err := v.Latest(t.Context(), testTopic, []byte(key), At{})
	if err != nil {
		t.Fatal(err)
	}
	return row, found
}

func keyed(key, value string) testRecord {
	return testRecord{key: []byte(key), value: []byte(value), ts: 1}
}

// TestTopicCreatedAgain: a view is not taken for that of another topic with the same name, whether or not anybody
// saw the first one go.
func TestTopicCreatedAgain(t *testing.T) {
	dir := t.TempDir()
	v, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := newMemSource()
	for i := range 10 {
		first.append(0, keyed("old"+strconv.Itoa(i), "x"))
	}
	v.Follow(testTopic, []Source{first})
	if _, found := latest(t, v, "old3"); !found {
		t.Fatal("the first topic's row is missing")
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	for name, records := range map[string]int{"shorter": 2, "as long": 10, "longer": 30} {
		t.Run(name, func(t *testing.T) {
			v := openViews(t, dir)
			second := newMemSource()
			for i := range records {
				second.append(0, keyed(fmt.Sprintf("%s%d", name, i), "y"))
			}
			v.Follow(testTopic, []Source{second})
			if _, found := latest(t, v, "old3"); found {
				t.Error("a row of the topic before is still there")
			}
			if row, found := latest(t, v, name+"1"); !found || string(row.Value) != "y" {
				t.Error("the new topic's row is missing")
			}
		})
	}
}

func TestForgetBuries(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	for i := range 3 * sweepEntries {
		src.append(0, keyed(strconv.Itoa(i), "x"))
	}
	v.Follow(testTopic, []Source{src})
	if _, found := latest(t, v, "7"); !found {
		t.Fatal("row is missing")
	}
	v.Forget(testTopic)
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("7"), At{}); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("a forgotten topic answers: %v", err)
	}
	sweepAll(t, v)
	left := 0
	err := v.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			left++
		}
		return nil
	})
	if err != nil || left != 1 { // the format
		t.Errorf("%d keys left, %v", left, err)
	}
	v.Follow(testTopic, []Source{src})
	if _, found := latest(t, v, "7"); !found {
		t.Error("row is missing after following again")
	}
}

// TestRunCatchesUp folds in the background while records, queries and a rebuild go on.
func TestRunCatchesUp(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	v.Follow(testTopic, []Source{src})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := v.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for i := range 500 {
		src.append(0, testRecord{key: []byte(strconv.Itoa(i % 20)), value: []byte(strconv.Itoa(i)), ts: int64(i)})
		if i%50 == 0 {
			if row, found := latest(t, v, strconv.Itoa(i%20)); !found || string(row.Value) != strconv.Itoa(i) {
				t.Errorf("after %d: %q", i, row.Value)
			}
		}
		if i == 250 {
			if err := v.Rebuild(t.Context(), testTopic); err != nil {
				t.Error(err)
			}
		}
	}
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for v.Lag(testTopic) > 0 {
		select {
		case <-deadline:
			t.Fatalf("lag is still %d", v.Lag(testTopic))
		case <-tick.C:
		}
	}
	cancel()
	wg.Wait()
	n := 0
	err := v.Scan(t.Context(), testTopic, At{}, func(Row) error { n++; return nil })
	if err != nil || n != 20 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestRefusals(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	src.append(0, keyed("plain", "x"))
	v.Follow(testTopic, []Source{src})
	p, o, now := uint64(1), int64(1), time.Now()
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("plain"), At{Position: &p}); !errors.Is(err, ErrNoPosition) {
		t.Errorf("a position was compared with a record that has none: %v", err)
	}
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("plain"), At{Offset: &o, Time: &now}); !errors.Is(err, ErrAt) {
		t.Errorf("two cuts at once: %v", err)
	}
	if err := v.Scan(t.Context(), "other", At{}, nil); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("unknown topic: %v", err)
	}
	stop := errors.New("stop")
	if err := v.Scan(t.Context(), testTopic, At{}, func(Row) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the callback's error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Scan(ctx, testTopic, At{}, func(Row) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// A header of a later version is neither taken for a position nor for none.
	var b record.Builder
	b.Append(5, []byte("later"), []byte("x"), record.RecordHeader{Key: positionHeader, Value: []byte{9, 1}})
	src.add(b.Build(nil), func(int64) {})
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("later"), At{Time: &now}); !errors.Is(err, ErrNoPosition) {
		t.Errorf("an unknown header was passed over: %v", err)
	}
	if _, found := latest(t, v, "later"); !found {
		t.Error("an unknown header hides the latest record")
	}
}

// TestPlaceContract pins the part of the position header that views read. connectors/event pins the same bytes.
func TestPlaceContract(t *testing.T) {
	header, err := hex.DecodeString("01" + "ac02" + "02" + "01" + "d00f" + "0102030405060708" + "02" + "01" + "03")
	if err != nil {
		t.Fatal(err)
	}
	var b record.Builder
	b.Append(5, []byte("k"), nil, record.RecordHeader{Key: positionHeader, Value: header})
	r := record.NewReader(1 << 20)
	if err := r.Reset(b.Build(nil)); err != nil || !r.Next() {
		t.Fatal(err)
	}
	var e entry
	readPlace(&e, r.Record())
	if e.place != placeKnown || e.commit != 300 || e.commitTime != 1000 {
		t.Errorf("read %+v", e)
	}
}

// TestCutKeepsTransactionsWhole: at every time and position, all rows of a source transaction are seen or none.
func TestCutKeepsTransactionsWhole(t *testing.T) {
	v := openViews(t, t.TempDir())
	srcs := []*memSource{newMemSource(), newMemSource()}
	const transactions, rows = 40, 6
	for n := range transactions {
		place := &testPlace{commit: uint64(100 + n), time: int64(1000 * n)}
		for i := range rows {
			srcs[i%2].append(7, testRecord{key: []byte(strconv.Itoa(i)), value: []byte(strconv.Itoa(n)), ts: int64(i * 1000), place: place})
		}
		for _, s := range srcs {
			s.end(7, true)
		}
	}
	v.Follow(testTopic, []Source{srcs[0], srcs[1]})
	check := func(at At) {
		seen := map[string]int{}
		err := v.Scan(t.Context(), testTopic, at, func(r Row) error { seen[string(r.Value)]++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		for value, n := range seen {
			if n != rows || len(seen) != 1 {
				t.Errorf("%s: %d of %d rows of transaction %s", describe(at), n, rows, value)
			}
		}
	}
	for n := range uint64(transactions + 2) {
		position, at := 99+n, time.UnixMicro(int64(1000*n)-1)
		check(At{Position: &position})
		check(At{Time: &at})
	}
}

// TestRealPartition reads from a partition of the log itself.
func TestRealPartition(t *testing.T) {
	store, err := log.Open(t.TempDir(), log.Options{MinFreeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	part, err := store.Partition(1)
	if err != nil {
		t.Fatal(err)
	}
	index := uint64(0)
	write := func(batch []byte) {
		t.Helper()
		if _, err := part.Stage(1, batch, time.Now()); err != nil {
			t.Fatal(err)
		}
		index++
		entries := []log.Entry{{Index: index, Term: 1, Type: log.EntryBatch, Data: batch}}
		if err := store.Commit([]log.Mutation{{Group: 1, Entries: entries}}); err != nil {
			t.Fatal(err)
		}
		part.Apply(entries)
	}
	v := openViews(t, t.TempDir())
	v.Follow(testTopic, []Source{part})
	sequence := int32(0)
	for n := range 20 {
		var b record.Builder
		for i := range 50 {
			b.Append(int64(n), []byte(strconv.Itoa(i)), []byte(strconv.Itoa(n)))
		}
		write(b.Build(&record.Producer{ID: 9, BaseSequence: sequence, Transactional: true}))
		sequence += 50
		if n > 0 { // the open transaction is not seen
			if row, _ := latest(t, v, "7"); string(row.Value) != strconv.Itoa((n-1)/2*2) {
				t.Errorf("before the end of %d: %q", n, row.Value)
			}
		}
		write(record.EndTxn{ProducerID: 9, Commit: n%2 == 0}.Build(int64(n)))
	}
	n := 0
	err = v.History(t.Context(), testTopic, []byte("49"), func(r Row) error {
		if string(r.Value) != strconv.Itoa(2*n) {
			t.Errorf("history row %d is %q", n, r.Value)
		}
		n++
		return nil
	})
	if err != nil || n != 10 {
		t.Errorf("%d history rows, %v", n, err)
	}
}

const killEnv = "ROWTRAIL_SNAPSHOT_KILL_DIR"

func killSource() *memSource {
	src := newMemSource()
	for n := range 600 {
		producer := int64(n%3) * 7 // every third batch stands for itself
		var records []testRecord
		for i := range 100 {
			records = append(records, testRecord{key: []byte(strconv.Itoa(n * i % 997)), value: []byte("v"), ts: int64(n)})
		}
		src.append(producer, records...)
		if producer != 0 {
			src.end(producer, n%5 != 0)
		}
	}
	return src
}

// killChild folds, rebuilds and buries until it is killed.
func killChild(dir string) {
	v, err := open(dir, Options{}, 4<<20)
	for err == nil {
		v.Follow(testTopic, []Source{killSource()})
		if _, err = v.current(context.Background(), testTopic); err == nil {
			if id, dead := v.nextDead(); dead {
				err = v.bury(id)
			}
		}
		if err == nil {
			err = v.Rebuild(context.Background(), testTopic)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKill: after a SIGKILL at any moment the database is the exact fold of a prefix of the log, and goes on from it.
func TestKill(t *testing.T) {
	src := killSource()
	fresh := openViews(t, t.TempDir())
	fresh.Follow(testTopic, []Source{src})
	if _, err := fresh.current(t.Context(), testTopic); err != nil {
		t.Fatal(err)
	}
	want := dump(t, fresh, testTopic)
	dir := t.TempDir()
	prefixes := map[int64]bool{}
	for round := range 6 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), killEnv+"="+dir)
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(time.Duration(100+round*37) * time.Millisecond)
		<-timer.C
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil || child.ProcessState.ExitCode() != -1 {
			t.Fatalf("the child ended by itself: %v", err)
		}
		v, err := open(dir, Options{}, 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		prefixes[checkPrefix(t, v, want)] = true
		v.Follow(testTopic, []Source{src})
		if _, err := v.current(t.Context(), testTopic); err != nil {
			t.Fatal(err)
		}
		if got := dump(t, v, testTopic); len(got) != len(want) {
			t.Errorf("round %d: %d keys after going on, want %d", round, len(got), len(want))
		}
		if round%2 == 0 { // the next child begins with an empty view
			v.Forget(testTopic)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed with the folds at %v", prefixes)
}

// checkPrefix compares what the database holds with the complete fold below the offset that it says to have reached.
func checkPrefix(t *testing.T, v *Views, want map[string]string) int64 {
	t.Helper()
	got := dump(t, v, testTopic)
	next := int64(0)
	for k, value := range got {
		if k[0] == spaceState {
			st, err := parseState([]byte(value))
			if err != nil {
				t.Fatal(err)
			}
			next = st.next
		}
	}
	entries := 0
	for k, value := range want {
		if k[0] != spaceEntry {
			continue
		}
		_, offset := splitEntryKey([]byte(k))
		if offset >= next {
			if _, there := got[k]; there {
				t.Errorf("offset %d is there, the fold says %d", offset, next)
			}
			continue
		}
		entries++
		if got[k] != value {
			t.Errorf("offset %d of %d is missing or differs", offset, next)
		}
	}
	for k := range got {
		if k[0] == spaceEntry {
			entries--
		}
	}
	if entries != 0 {
		t.Errorf("%d entries too few or too many", entries)
	}
	return next
}

// TestStartingPartition: until the log can be compared with what was folded, a view does not answer.
func TestStartingPartition(t *testing.T) {
	dir := t.TempDir()
	v, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := newMemSource()
	src.append(0, keyed("a", "x"), keyed("b", "y"))
	v.Follow(testTopic, []Source{src})
	if _, found := latest(t, v, "a"); !found {
		t.Fatal("row is missing")
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	v = openViews(t, dir)
	ready := src.marks
	src.marks.HighWatermark, src.marks.LastStable = 0, 0
	v.Follow(testTopic, []Source{src})
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("a"), At{}); !errors.Is(err, ErrNotReady) {
		t.Errorf("answered before the log was readable: %v", err)
	}
	src.marks = ready
	if row, found := latest(t, v, "b"); !found || string(row.Value) != "y" {
		t.Error("row is missing after the start")
	}
}
