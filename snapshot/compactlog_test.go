package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// storedLog is a partition of a real store whose records are also kept in a list for ever: offset -> record.
type storedLog struct {
	store *log.Store
	part  *log.Partition

	mu   sync.Mutex
	list []testRecord
}

func openLog(t *testing.T) *storedLog {
	t.Helper()
	store, err := log.Open(t.TempDir(), log.Options{MinFreeBytes: 1 << 20, Compaction: log.CompactionOptions{Interval: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	part, err := store.Partition(1)
	if err != nil {
		t.Fatal(err)
	}
	part.SetConfig(log.Config{Compact: true, RetentionBytes: -1, RetentionMs: -1})
	return &storedLog{store: store, part: part}
}

// append writes one batch.
func (l *storedLog) append(records ...testRecord) error {
	var b record.Builder
	for _, r := range records {
		b.Append(r.ts, r.key, r.value)
	}
	batch := b.Build(nil)
	if _, err := l.part.Stage(1, batch, time.Now()); err != nil {
		return err
	}
	entries := []log.Entry{{Index: l.part.LastIndex() + 1, Term: 1, Data: batch}}
	if err := l.store.Commit([]log.Mutation{{Group: 1, Entries: entries}}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, records...) // before anybody can read them
	l.part.Apply(entries)
	return nil
}

// upTo is a copy of the records below an offset.
func (l *storedLog) upTo(end int64) []testRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[:min(end, int64(len(l.list)))]
}

// lastOf is the offset of a key's last record among some, or -1.
func lastOf(records []testRecord, key []byte) int64 {
	for o := len(records) - 1; o >= 0; o-- {
		if bytes.Equal(records[o].key, key) {
			return int64(o)
		}
	}
	return -1
}

// TestViewsWhileCompactionRuns: records come, and compaction rounds run one after the other, while every kind of question is asked
// and compared with the list of all records.
func TestViewsWhileCompactionRuns(t *testing.T) {
	const keys, duration = 40, 4 * time.Second
	l := openLog(t)
	v := openViews(t, t.TempDir())
	v.Follow(testTopic, []Source{l.part})
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%02d", i) }
	var wg sync.WaitGroup
	spin := func(what string, f func(rng *rand.Rand) error) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(len(what)), 7))
			for ctx.Err() == nil {
				if err := f(rng); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", what, err)
					stop()
				}
			}
		})
	}
	spin("append", func(rng *rand.Rand) error {
		var records []testRecord
		for range 1 + rng.IntN(8) {
			r := testRecord{key: key(rng.IntN(keys)), ts: time.Now().UnixMilli()}
			if rng.IntN(4) > 0 {
				r.value = fmt.Appendf(nil, "value-%d", rng.Int())
			}
			records = append(records, r)
		}
		return l.append(records...)
	})
	rounds := 0
	spin("compact", func(*rand.Rand) error { rounds++; return l.store.Compact(1) })
	spin("fold anew", func(rng *rand.Rand) error {
		if !sleep.For(ctx, time.Duration(rng.IntN(int(duration)/4))) {
			return nil
		}
		return v.Rebuild(ctx, testTopic)
	})
	wg.Go(func() {
		if err := v.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	var c counts
	spin("latest", func(rng *rand.Rand) error { return l.checkLatest(ctx, v, key(rng.IntN(keys)), &c) })
	spin("as of", func(rng *rand.Rand) error { return l.checkPast(ctx, v, key(rng.IntN(keys)), rng, &c) })
	spin("scan", func(*rand.Rand) error { return l.checkScan(ctx, v, &c) })
	spin("history", func(rng *rand.Rand) error { return l.checkHistory(ctx, v, key(rng.IntN(keys)), &c) })
	wg.Wait()
	t.Logf("%d records, %d rounds, %+v", len(l.list), rounds, &c)
	if rounds < 5 || c.latest < 20 || c.past < 20 || c.scans < 5 || c.histories < 20 {
		t.Errorf("too little was asked: %d rounds, %+v", rounds, &c)
	}
}

// counts of answers, each written by one goroutine.
type counts struct {
	latest, past, gone, scans, overtaken, histories int
}

// current checks that a row was the last of its key at some moment between two ends of the log.
func (l *storedLog) current(row *Row, before, after int64) error {
	records := l.upTo(after)
	r := &records[row.Offset]
	if !bytes.Equal(r.key, row.Key) || row.Deleted != (r.value == nil) || !bytes.Equal(r.value, row.Value) {
		return fmt.Errorf("offset %d is %q=%q, not %+v", row.Offset, r.key, r.value, row)
	}
	if last := lastOf(records[:before], row.Key); last > row.Offset && !(row.Deleted && records[last].value == nil && last < l.part.Whole()) {
		return fmt.Errorf("%q at offset %d was superseded at %d", row.Key, row.Offset, last)
	}
	return nil
}

func (l *storedLog) checkLatest(ctx context.Context, v *Views, key []byte, c *counts) error {
	before := l.part.Marks().LastStable
	row, found, err := v.Latest(ctx, testTopic, key, At{Now: true})
	after := l.part.Marks().LastStable
	if err != nil {
		return err
	}
	c.latest++
	if found {
		return l.current(&row, before, after)
	}
	// Never written, or a forgotten tombstone: at some moment the last record was none that lives.
	records := l.upTo(after)
	last := lastOf(records[:before], key)
	if last >= 0 && records[last].value != nil && lastOf(records, key) == last {
		return fmt.Errorf("%q at offset %d was not found", key, last)
	}
	return nil
}

func (l *storedLog) checkPast(ctx context.Context, v *Views, key []byte, rng *rand.Rand, c *counts) error {
	end := l.part.Marks().LastStable
	if end == 0 {
		return nil
	}
	at := max(0, end-1-rng.Int64N(min(end, 400)))
	row, found, err := v.Latest(ctx, testTopic, key, At{Offset: &at})
	if errors.Is(err, ErrCompacted) {
		c.gone++
		if whole := l.part.Whole(); at >= whole-1 {
			return fmt.Errorf("%q as of offset %d is refused: %w, but compaction has come to %d only", key, at, err, whole)
		}
		return nil
	}
	if err != nil {
		return err
	}
	c.past++
	records := l.upTo(at + 1)
	last := lastOf(records, key)
	switch {
	case !found && last >= 0 && records[last].value != nil:
		return fmt.Errorf("%q as of offset %d was not found, it is at %d", key, at, last)
	case found && row.Deleted && row.Offset < last && records[last].value == nil && last < l.part.Whole():
		// A later tombstone of the deleted key went before it was folded.
	case found && (row.Offset != last || !bytes.Equal(row.Value, records[last].value)):
		return fmt.Errorf("%q as of offset %d is at %d, not %+v", key, at, last, row)
	}
	return nil
}

func (l *storedLog) checkScan(ctx context.Context, v *Views, c *counts) error {
	before := l.part.Marks().LastStable
	got := map[string]int64{}
	var rows []Row
	err := v.Scan(ctx, testTopic, At{Now: true}, func(r Row) error {
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		rows = append(rows, r)
		got[string(r.Key)] = r.Offset
		return nil
	})
	after := l.part.Marks().LastStable
	if errors.Is(err, ErrNotReady) {
		c.overtaken++
		return nil
	}
	if err != nil {
		return err
	}
	c.scans++
	// All rows are of one moment while the scan was asked for.
	state := map[string]int64{}
	for o, r := range l.upTo(after) {
		if int64(o) >= before && maps.Equal(state, got) {
			return l.sameRows(rows)
		}
		if state[string(r.key)] = int64(o); r.value == nil {
			delete(state, string(r.key))
		}
	}
	if !maps.Equal(state, got) {
		return fmt.Errorf("the rows are of no moment from offset %d to %d: %v", before, after, got)
	}
	return l.sameRows(rows)
}

func (l *storedLog) sameRows(rows []Row) error {
	for i := range rows {
		row := &rows[i]
		if r := l.upTo(row.Offset + 1)[row.Offset]; !bytes.Equal(r.key, row.Key) || row.Deleted || !bytes.Equal(r.value, row.Value) {
			return fmt.Errorf("offset %d is %q=%q, not %+v", row.Offset, r.key, r.value, row)
		}
	}
	return nil
}

func (l *storedLog) checkHistory(ctx context.Context, v *Views, key []byte, c *counts) error {
	end := l.part.Marks().LastStable
	next, whole := int64(0), int64(0)
	err := v.History(ctx, testTopic, key, func(row Row) error {
		records := l.upTo(row.Offset + 1)
		whole = row.WholeFrom
		for o := next; o < row.Offset; o++ {
			if o >= whole && bytes.Equal(records[o].key, key) {
				return fmt.Errorf("history of %q, whole from %d, misses offset %d", key, whole, o)
			}
		}
		next = row.Offset + 1
		if r := records[row.Offset]; !bytes.Equal(r.key, key) || !bytes.Equal(r.value, row.Value) || row.Deleted != (r.value == nil) {
			return fmt.Errorf("history of %q has %+v", key, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.histories++
	if records := l.upTo(end); next > 0 { // what is told last is the last, or was compacted away since with a newer one
		if last := lastOf(records, key); last >= max(next, whole) {
			return fmt.Errorf("history of %q, whole from %d, misses offset %d at its end", key, whole, last)
		}
	}
	return nil
}
