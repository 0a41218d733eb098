package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asOf asks for a key's value at an offset: "-" none, "x" deleted, "?N" compacted away and whole from N.
func asOf(t *testing.T, v *Views, key string, offset int64) string {
	t.Helper()
	at := At{Offset: &offset}
	if offset < 0 {
		at = At{Now: true}
	}
	row, found, err := v.Latest(t.Context(), testTopic, []byte(key), at)
	var gone *CompactedError
	switch {
	case errors.As(err, &gone):
		if !errors.Is(err, ErrCompacted) || gone.Topic != testTopic {
			t.Errorf("%v", err)
		}
		return "?" + strconv.FormatInt(gone.Whole, 10)
	case err != nil:
		t.Fatal(err)
	case !found:
		return "-"
	case row.Deleted:
		return "x"
	}
	return string(row.Value)
}

func told(t *testing.T, v *Views, key string) string {
	t.Helper()
	var all []string
	err := v.History(t.Context(), testTopic, []byte(key), func(r Row) error {
		all = append(all, fmt.Sprintf("%d:%s", r.Offset, r.Value))
		if r.WholeFrom > 0 {
			all[len(all)-1] += fmt.Sprint("<", r.WholeFrom)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func scanned(t *testing.T, v *Views, at At) string {
	t.Helper()
	var all []string
	err := v.Scan(t.Context(), testTopic, at, func(r Row) error {
		all = append(all, fmt.Sprintf("%s=%s", r.Key, r.Value))
		return nil
	})
	if err != nil && !errors.Is(err, ErrCompacted) {
		t.Fatal(err)
	}
	if err != nil {
		all = append(all, "?")
	}
	return strings.Join(all, " ")
}

// compactedSource is a log whose first five records were compacted: a=1, b=1, a=2, c=1, c deleted, then a=3, d=1.
func compactedSource(compact bool) *memSource {
	src := newMemSource()
	for _, r := range []testRecord{keyed("a", "1"), keyed("b", "1"), keyed("a", "2"), keyed("c", "1"), {key: []byte("c"), ts: 1}, keyed("a", "3"), keyed("d", "1")} {
		src.append(0, r)
	}
	if compact {
		src.compact(5, true)
	}
	return src
}

// TestCompactedTopic: before, after and long after compaction, and folded anew, a view answers right or not at all.
func TestCompactedTopic(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := compactedSource(false)
	v.Follow(testTopic, []Source{src})
	type answers map[string]string // "key@offset" -> answer; offset -1 is now
	check := func(when string, want answers) {
		t.Helper()
		for q, w := range want {
			key, offset, _ := strings.Cut(q, "@")
			n, _ := strconv.ParseInt(offset, 10, 64)
			if got := asOf(t, v, key, n); got != w {
				t.Errorf("%s: %s is %s, expected %s", when, q, got, w)
			}
		}
	}
	check("before", answers{"a@0": "1", "a@1": "1", "a@4": "2", "c@3": "1", "c@4": "x", "c@-1": "x", "b@0": "-", "d@5": "-"})
	src.compact(5, true)
	// Every version has an entry still: what the log has is found, what it has not is known to be missing, a delete needs no record.
	after := answers{"a@0": "?5", "a@1": "?5", "a@2": "2", "a@4": "2", "a@5": "3", "a@-1": "3", "b@0": "-", "b@1": "1", "b@6": "1", "c@2": "-", "c@3": "?5",
		"c@4": "x", "c@-1": "x", "d@5": "-", "d@-1": "1", "e@0": "-"}
	check("after", after)
	if got := told(t, v, "a"); got != "2:2<5 5:3<5" {
		t.Errorf("history is %q", got)
	}
	if got := told(t, v, "c"); got != "" {
		t.Errorf("history is %q", got)
	}
	now := scanned(t, v, At{Now: true})
	if now != "a=3 b=1 d=1" {
		t.Errorf("scan gave %q", now)
	}
	four := int64(4)
	three := int64(3)
	if got := scanned(t, v, At{Offset: &four}); got != "a=2 b=1" {
		t.Errorf("scan gave %q", got)
	}
	if got := scanned(t, v, At{Offset: &three}); !strings.HasSuffix(got, "?") {
		t.Errorf("scan gave %q", got)
	}
	sweepAll(t, v)
	sweepAll(t, v) // tombstones go once nothing older of their key is left
	v.parts(t)[0].trimmed = 0
	sweepAll(t, v)
	if left := len(dump(t, v, testTopic)); left != 5 { // b, a twice, d, and the fold's state
		t.Errorf("%d keys left: %q", left, dump(t, v, testTopic))
	}
	trimmed := answers{"a@0": "?5", "a@1": "?5", "a@2": "2", "a@4": "2", "a@5": "3", "a@-1": "3", "b@0": "?5", "b@1": "1", "b@6": "1", "c@2": "?5", "c@3": "?5",
		"c@4": "-", "c@-1": "-", "d@3": "?5", "d@5": "-", "d@-1": "1", "e@0": "?5", "e@4": "-"}
	check("trimmed", trimmed)
	if got := told(t, v, "a"); got != "2:2<5 5:3<5" {
		t.Errorf("history is %q", got)
	}
	if err := v.Rebuild(t.Context(), testTopic); err != nil {
		t.Fatal(err)
	}
	check("folded anew", trimmed)
	if got := scanned(t, v, At{Now: true}); got != now {
		t.Errorf("scan gave %q", got)
	}
}

func (v *Views) parts(t *testing.T) []*partition {
	t.Helper()
	topic, err := v.lookup(testTopic)
	if err != nil {
		t.Fatal(err)
	}
	return topic.parts
}

// TestCompactedCutsByTimeAndPosition: a cut at or behind what is missing is answered, one before it is not.
func TestCompactedCutsByTimeAndPosition(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	put := func(key, value string, at int) {
		r := testRecord{key: []byte(key), ts: int64(at), place: &testPlace{commit: uint64(at), time: int64(at) * 1000}}
		if value != "" {
			r.value = []byte(value)
		}
		src.append(0, r)
	}
	put("a", "1", 10)
	put("b", "1", 20)
	put("b", "", 30)
	put("a", "2", 40)
	put("c", "1", 50)
	v.Follow(testTopic, []Source{src})
	ask := func(key string, position uint64) string {
		t.Helper()
		row, found, err := v.Latest(t.Context(), testTopic, []byte(key), At{Position: &position})
		switch {
		case errors.Is(err, ErrCompacted):
			return "?"
		case err != nil:
			t.Fatal(err)
		case !found:
			return "-"
		case row.Deleted:
			return "x"
		}
		return string(row.Value)
	}
	check := func(when string, want string) {
		t.Helper()
		got := ""
		for _, key := range []string{"a", "b", "c"} {
			for _, at := range []uint64{5, 10, 25, 30, 40, 45, 50} {
				got += ask(key, at)
			}
			got += " "
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", when, got, want)
		}
	}
	check("before", "-111222 --1xxxx ------1 ")
	src.compact(4, true)
	check("after", "-???222 --?xxxx ------1 ")
	v.parts(t)[0].trimmed = 0
	sweepAll(t, v)
	v.parts(t)[0].trimmed = 0
	sweepAll(t, v)
	check("trimmed", "????222 ????--- ????--1 ")
	if err := v.Rebuild(t.Context(), testTopic); err != nil {
		t.Fatal(err)
	}
	check("folded anew", "????222 ??????- ??????1 ")
}

// TestCompactedLogIsRecognised: what compaction does to the batch at the end of a fold makes no other log of it; a topic that was
// deleted and created again is one, however much it looks the same.
func TestCompactedLogIsRecognised(t *testing.T) {
	write := func(src *memSource, values ...string) *memSource {
		var records []testRecord
		for _, v := range values {
			records = append(records, keyed(v[:1], v))
		}
		src.append(0, records...)
		return src
	}
	for name, c := range map[string]struct {
		then  func(src *memSource) *memSource
		other bool
	}{
		"rewritten": {func(s *memSource) *memSource { write(s, "a3"); s.compact(4, true); return s }, false},
		"emptied":   {func(s *memSource) *memSource { write(s, "a3", "b3"); s.compact(6, true); return s }, false},
		"removed": {func(s *memSource) *memSource {
			write(s, "a3", "b3")
			write(s, "z")
			s.compact(7, true)
			return s
		}, false},
		"another id": {func(*memSource) *memSource {
			s := write(write(newMemSource(), "a1", "b1"), "a2", "b2")
			s.id = 8
			return s
		}, true},
		"another id, compacted": {func(*memSource) *memSource {
			s := write(write(write(write(newMemSource(), "a1", "b1"), "a2", "b2"), "a3", "b3"), "z")
			s.id = 8
			s.compact(7, true)
			return s
		}, true},
		"other bytes": {func(*memSource) *memSource { return write(write(newMemSource(), "a1", "b1"), "a2", "b9") }, true},
		"other batches": {func(*memSource) *memSource {
			s := write(newMemSource(), "a1", "b1", "a2", "b2", "c1")
			s.compact(5, true)
			return s
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			src := write(write(newMemSource(), "a1", "b1"), "a2", "b2")
			v.Follow(testTopic, []Source{src})
			if got := scanned(t, v, At{Now: true}); got != "a=a2 b=b2" {
				t.Fatal(got)
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			v = openViews(t, dir)
			id := v.ids[fold{testTopic, 0}]
			src = c.then(src)
			v.Follow(testTopic, []Source{src})
			fresh := openViews(t, t.TempDir())
			fresh.Follow(testTopic, []Source{src})
			if got, want := scanned(t, v, At{Now: true}), scanned(t, fresh, At{Now: true}); got != want {
				t.Errorf("scan gave %q, expected %q", got, want)
			}
			if again := v.ids[fold{testTopic, 0}] != id; again != c.other {
				t.Errorf("folded anew: %v", again)
			}
		})
	}
}

// TestNowIsAnsweredWhileCompactionOvertakes: a record that is superseded and compacted away between the view's reading and the
// log's is answered by its successor.
func TestNowIsAnsweredWhileCompactionOvertakes(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	src.append(0, keyed("a", "1"), keyed("b", "1"))
	v.Follow(testTopic, []Source{src})
	if _, err := v.current(context.Background(), testTopic); err != nil {
		t.Fatal(err)
	}
	w, err := v.open(t.Context(), testTopic)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	src.append(0, keyed("a", "2"))
	src.append(0, keyed("z", "1"))
	src.compact(4, true)
	if err := w.seek(appendKey(nil, []byte("a")), false, &At{Now: true}); err != nil {
		t.Fatal(err)
	}
	h, ok, err := w.cursors[0].first(appendKey(entryPrefix(nil, w.parts[0].id), []byte("a")), &At{Now: true})
	if err != nil || !ok || h.offset != 0 {
		t.Fatalf("%+v, %v", h, err)
	}
	r := v.rowReader(testTopic)
	defer v.release(r)
	if _, _, err := r.read(&h); !errors.Is(err, ErrCompacted) {
		t.Fatalf("reading what was compacted away: %v", err)
	}
	asked := 0
	err = v.retry(testTopic, At{Now: true}, func() (bool, error) {
		if asked++; asked == 1 {
			_, _, err := r.read(&h)
			return true, err
		}
		return true, nil
	})
	if err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	err = v.retry(testTopic, At{}, func() (bool, error) { return false, &CompactedError{} })
	if !errors.Is(err, ErrNotReady) {
		t.Errorf("a scan that was overtaken ends with %v", err)
	}
	if got := asOf(t, v, "a", -1); got != "2" {
		t.Errorf("a is %s", got)
	}
}

// TestPastBetweenRecordsThatStayed: a cut that leaves out a record below what is whole is not answered, whether or not an older
// record is there: what lay between the two is not known.
func TestPastBetweenRecordsThatStayed(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	at := func(key, value string, ts int64) {
		src.append(0, testRecord{key: []byte(key), value: []byte(value), ts: ts})
	}
	at("b", "1", 10)
	at("a", "1", 50)
	at("b", "2", 100) // times that do not rise
	at("a", "2", 100)
	src.compact(3, true) // takes the first record of b only
	src.mu.Lock()
	src.whole = 4 // and has come past both records of a
	src.mu.Unlock()
	at("c", "1", 60)
	for i := range 2 * nextSteps {
		at("a", strconv.Itoa(3+i), 200)
	}
	v.Follow(testTopic, []Source{src})
	for offset, want := range map[int64]string{1: "?4", 2: "?4", 3: "2", 4: "2", 5: "3"} {
		if got := asOf(t, v, "a", offset); got != want {
			t.Errorf("a as of %d is %s, expected %s", offset, got, want)
		}
	}
	seventy := time.UnixMilli(70)
	if _, found, err := v.Latest(t.Context(), testTopic, []byte("b"), At{Time: &seventy}); !errors.Is(err, ErrCompacted) {
		t.Errorf("b as of a time between its records: found %v, %v", found, err)
	}
	if got := scanned(t, v, At{Time: &seventy}); !strings.HasSuffix(got, "?") {
		t.Errorf("scan of that time gave %q", got)
	}
}
