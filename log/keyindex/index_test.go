package keyindex

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDirEnv); dir != "" {
		killChild(dir)
		return
	}
	os.Exit(m.Run())
}

// small makes folds split after a few entries, and tables come early.
func small(t rapid.TB, dir string) *Index {
	t.Helper()
	x, err := open(dir, Options{}, 1<<20, limits{entries: 5, bytes: 400})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func mustOpen(t testing.TB, dir string, logger *slog.Logger) *Index {
	t.Helper()
	x, err := Open(dir, Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func put(t rapid.TB, f *Fold, key string, offset int64) {
	t.Helper()
	if err := f.Put([]byte(key), offset); err != nil {
		t.Fatal(err)
	}
}

func commit(t rapid.TB, f *Fold, next int64) {
	t.Helper()
	if err := f.Commit(next); err != nil {
		t.Fatal(err)
	}
}

func expect(t rapid.TB, x *Index, group uint64, key string, want int64) {
	t.Helper()
	got, ok, err := x.Latest(group, []byte(key))
	if err != nil || ok != (want >= 0) || ok && got != want {
		t.Fatalf("group %d key %.20q: offset %d %v, %v; expected %d", group, key, got, ok, err, want)
	}
}

func expectFolded(t rapid.TB, x *Index, group uint64, want int64) {
	t.Helper()
	if got, err := x.Folded(group); err != nil || got != want {
		t.Fatalf("group %d is folded up to %d, %v; expected %d", group, got, err, want)
	}
}

// longKey is a key that is entered by its hash; a short one may look like that.
func longKey(i int) string { return fmt.Sprintf("%s%d", strings.Repeat("k", maxInline), i) }

// twin is what an index should hold of a group: all records, how far they are folded, and what was forgotten.
type twin struct {
	records []string // key of each offset; "-": a record that is not entered
	folded  int64
	forgot  map[string]int64
}

func (g *twin) latest(key string) int64 {
	at := int64(slices.Index(g.records[:g.folded], key))
	for o, k := range g.records[:g.folded] {
		if k == key {
			at = int64(o)
		}
	}
	if forgot, ok := g.forgot[key]; ok && at <= forgot {
		return -1
	}
	return at
}

// TestIndexAgainstTwin: folds that split, are given up, repeated and interrupted by closing leave the fold of a prefix.
func TestIndexAgainstTwin(t *testing.T) {
	keys := []string{"", "a", "b", longKey(1), longKey(2), string(make([]byte, maxInline)), "c", "d"}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "keyindex")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		x := small(rt, dir)
		defer func() { _ = x.Close() }()
		twins := map[uint64]*twin{}
		for _, g := range []uint64{0, 1, math.MaxUint64} {
			twins[g] = &twin{forgot: map[string]int64{}}
		}
		group := rapid.SampledFrom(slices.Sorted(maps.Keys(twins)))
		rt.Repeat(map[string]func(*rapid.T){
			"fold": func(rt *rapid.T) {
				g := group.Draw(rt, "group")
				w := twins[g]
				for range rapid.IntRange(0, 30).Draw(rt, "records") {
					w.records = append(w.records, rapid.SampledFrom(append(keys, "-")).Draw(rt, "key"))
				}
				from := rapid.Int64Range(0, w.folded).Draw(rt, "from")
				f := x.NewFold(g)
				for o := from; o < int64(len(w.records)); o++ {
					if k := w.records[o]; k != "-" {
						put(rt, f, k, o)
					}
				}
				if rapid.Bool().Draw(rt, "commit") {
					commit(rt, f, int64(len(w.records)))
					expectFolded(rt, x, g, int64(len(w.records)))
				}
				f.Discard()
				folded, err := x.Folded(g)
				if err != nil || folded < w.folded || folded > int64(len(w.records)) {
					rt.Fatalf("folded up to %d of %d, before %d, %v", folded, len(w.records), w.folded, err)
				}
				w.folded = folded
			},
			"forget": func(rt *rapid.T) {
				g := group.Draw(rt, "group")
				w := twins[g]
				f := x.NewFold(g)
				for range rapid.IntRange(1, 8).Draw(rt, "keys") {
					k := rapid.SampledFrom(keys).Draw(rt, "key")
					at := w.latest(k) - rapid.Int64Range(0, 1).Draw(rt, "older")
					if err := f.Forget([]byte(k), at); err != nil {
						rt.Fatal(err)
					}
					if at >= 0 && at == w.latest(k) {
						w.forgot[k] = at
					}
				}
				commit(rt, f, w.folded)
			},
			"drop": func(rt *rapid.T) {
				g := group.Draw(rt, "group")
				if err := x.Drop(g); err != nil {
					rt.Fatal(err)
				}
				w := twins[g]
				w.folded, w.forgot = 0, map[string]int64{}
			},
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 4).Draw(rt, "not now") > 0 {
					return // it takes long
				}
				if err := x.Close(); err != nil {
					rt.Fatal(err)
				}
				x = small(rt, dir)
			},
			"": func(rt *rapid.T) {
				for g, w := range twins {
					expectFolded(rt, x, g, w.folded)
					for _, k := range keys {
						expect(rt, x, g, k, w.latest(k))
					}
				}
			},
		})
	})
}

// TestFoldRefusesDisorder: what would break the fold's order is refused.
func TestFoldRefusesDisorder(t *testing.T) {
	x := mustOpen(t, t.TempDir(), nil)
	f := x.NewFold(1)
	put(t, f, "a", 5)
	for _, offset := range []int64{5, 4, -1} {
		if err := f.Put([]byte("b"), offset); !errors.Is(err, ErrOrder) {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
	if err := f.Commit(5); !errors.Is(err, ErrOrder) {
		t.Errorf("commit below a record: %v", err)
	}
	commit(t, f, 9)
	put(t, f, "a", 12) // the same fold goes on
	commit(t, f, 13)
	f = x.NewFold(1)
	put(t, f, "a", 3)
	commit(t, f, 4)
	expectFolded(t, x, 1, 13)
	expect(t, x, 1, "a", 12)
	f.Discard()
	if err := f.Put([]byte("a"), 20); err == nil {
		t.Error("a fold that has ended goes on")
	}
}

// TestKeysOfAllLengths: no key is taken for another, of another group or of another form.
func TestKeysOfAllLengths(t *testing.T) {
	x := mustOpen(t, t.TempDir(), nil)
	seen := map[string]bool{}
	var all []string
	for n := range 200 {
		all = append(all, strings.Repeat("x", n))
	}
	hashed := appendKey(nil, 1, []byte(strings.Repeat("x", 99)))
	all = append(all, string(hashed[10:]), string(hashed[9:]))
	for g := range uint64(3) {
		f := x.NewFold(g)
		for i, k := range all {
			if form := string(appendKey(nil, g, []byte(k))); seen[form] || len(form) > maxKeyLen {
				t.Fatalf("key of %d bytes has the form of another", len(k))
			} else {
				seen[form] = true
			}
			put(t, f, k, int64(i)*3+int64(g))
		}
		commit(t, f, 1000)
	}
	for g := range uint64(3) {
		for i, k := range all {
			expect(t, x, g, k, int64(i)*3+int64(g))
		}
	}
}

// TestDropInPortions: a drop takes everything of its group and nothing of its neighbours; Groups tells what is left.
func TestDropInPortions(t *testing.T) {
	x := small(t, t.TempDir())
	defer x.Close()
	groups := []uint64{1, 2, 1 << 32, math.MaxUint64}
	for _, g := range groups {
		f := x.NewFold(g)
		for i := range 57 {
			put(t, f, fmt.Sprint(i), int64(i))
		}
		commit(t, f, 57)
	}
	for i, g := range groups {
		if got, err := x.Groups(); err != nil || !slices.Equal(got, groups[i:]) {
			t.Fatalf("groups %v, %v", got, err)
		}
		if err := x.Drop(g); err != nil {
			t.Fatal(err)
		}
		for _, other := range groups[i+1:] {
			expectFolded(t, x, other, 57)
			expect(t, x, other, "56", 56)
		}
		expectFolded(t, x, g, 0)
		for k := range 57 {
			expect(t, x, g, fmt.Sprint(k), -1)
		}
	}
}

// fill folds n keys and closes, so that there are tables.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	x, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := x.NewFold(1)
	for i := range n {
		put(t, f, fmt.Sprint("key-", i), int64(i))
	}
	commit(t, f, int64(n))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestUnusableDirectoryIsSetAside: whatever is wrong with the files, the index opens empty, says so in one line and works.
func TestUnusableDirectoryIsSetAside(t *testing.T) {
	one := func(dir, pattern string) string {
		all, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(all) == 0 {
			t.Fatalf("no %s, %v", pattern, err)
		}
		return all[0]
	}
	spoil := func(name string, at int) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[(at+len(b))%len(b)] ^= 0x55
		if err := os.WriteFile(name, b, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]func(dir string){
		"table's data":       func(dir string) { spoil(one(dir, "*.sst"), 100) },
		"table's index":      func(dir string) { spoil(one(dir, "*.sst"), -30) },
		"table missing":      func(dir string) { _ = os.Remove(one(dir, "*.sst")) },
		"table cut":          func(dir string) { _ = os.Truncate(one(dir, "*.sst"), 1000) },
		"manifest's magic":   func(dir string) { spoil(one(dir, "MANIFEST"), 0) },
		"manifest's content": func(dir string) { spoil(one(dir, "MANIFEST"), 20) },
		"manifest missing":   func(dir string) { _ = os.Remove(one(dir, "MANIFEST")) },
		"manifest cut":       func(dir string) { _ = os.Truncate(one(dir, "MANIFEST"), 20) },
		"another format": func(dir string) {
			_ = os.RemoveAll(dir)
			db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithExternalMagic(format + 1))
			if err != nil || db.Close() != nil {
				t.Fatal(err)
			}
		},
		"key registry": func(dir string) { spoil(one(dir, "KEYREGISTRY"), 20) },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "index")
			for range 2 { // a second time, what was set aside is in the way
				fill(t, dir, 20000)
				damage(dir)
				var lines bytes.Buffer
				x, err := Open(dir, Options{Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))})
				if err != nil {
					t.Fatal(err)
				}
				expectFolded(t, x, 1, 0)
				expect(t, x, 1, "key-7", -1)
				f := x.NewFold(1)
				put(t, f, "key-7", 3)
				commit(t, f, 4)
				expect(t, x, 1, "key-7", 3)
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
				if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, dir+asideSuffix) {
					t.Errorf("the log says:\n%s", text)
				}
				if _, err := os.Stat(dir + asideSuffix); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestUsableDirectoryIsNeverSetAside: one that is in use, or that cannot be read, is an error and stays.
func TestUsableDirectoryIsNeverSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "index")
	fill(t, dir, 10)
	x := mustOpen(t, dir, nil)
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Fatalf("opened twice: %v", err)
	}
	if _, err := os.Stat(dir + asideSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("it was set aside")
	}
	expect(t, x, 1, "key-7", 7)
}

func TestClosedIndex(t *testing.T) {
	x := mustOpen(t, t.TempDir(), nil)
	f := x.NewFold(1)
	put(t, f, "a", 1)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, latest := x.Latest(1, []byte("a"))
	_, folded := x.Folded(1)
	_, groups := x.Groups()
	for name, err := range map[string]error{"latest": latest, "folded": folded, "groups": groups, "forget": f.Forget([]byte("a"), 1),
		"commit": f.Commit(2), "drop": x.Drop(1), "fold": x.NewFold(2).Commit(3), "close": nil} {
		if name != "close" && !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.Discard()
}

// TestMemoryIsBounded: a million keys take memory for the buffers and caches only.
func TestMemoryIsBounded(t *testing.T) {
	const keys, bound = 1_000_000, 80 << 20
	x := mustOpen(t, t.TempDir(), nil)
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := x.NewFold(1)
	peak := uint64(0)
	var key []byte
	for i := range keys + keys/4 {
		key = fmt.Appendf(key[:0], `{"id":%d}`, i*7919%keys)
		if err := f.Put(key, int64(i)); err != nil {
			t.Fatal(err)
		}
		if i%(keys/4) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc-min(before.HeapAlloc, m.HeapAlloc))
		}
	}
	commit(t, f, keys+keys/4)
	for i := range 50_000 {
		n := i * 104729 % keys
		want := n
		if n < keys/4 {
			want += keys
		}
		expect(t, x, 1, fmt.Sprintf(`{"id":%d}`, n*7919%keys), int64(want))
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	peak = max(peak, m.HeapAlloc-min(before.HeapAlloc, m.HeapAlloc))
	if peak > bound {
		t.Errorf("%d MiB of heap for %d keys", peak>>20, keys)
	}
	onDisk := int64(0)
	for _, table := range x.db.Tables() {
		onDisk += int64(table.OnDiskSize)
	}
	t.Logf("%d MiB of heap at most, %d MiB of tables", peak>>20, onDisk>>20)
	if onDisk < keys {
		t.Error("the keys are not in tables")
	}
}

func BenchmarkFold(b *testing.B) {
	x := mustOpen(b, b.TempDir(), nil)
	f := x.NewFold(1)
	var key []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		key = fmt.Appendf(key[:0], `{"id":%d}`, i*7919%1_000_003)
		put(b, f, string(key), int64(i))
		i++
	}
	commit(b, f, int64(i))
}

func BenchmarkLatest(b *testing.B) {
	const keys = 1_000_000
	x := mustOpen(b, b.TempDir(), nil)
	f := x.NewFold(1)
	for i := range keys {
		put(b, f, fmt.Sprintf(`{"id":%d}`, i), int64(i))
	}
	commit(b, f, keys)
	for _, c := range []struct {
		name string
		next func(i int) int
		ok   bool
	}{
		{"any", func(i int) int { return i * 7919 % keys }, true},
		{"in order", func(i int) int { return i % keys }, true},
		{"unknown", func(i int) int { return keys + i }, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var key []byte
			i := 0
			for b.Loop() {
				key = fmt.Appendf(key[:0], `{"id":%d}`, c.next(i))
				if _, ok, err := x.Latest(1, key); ok != c.ok || err != nil {
					b.Fatal(ok, err)
				}
				i++
			}
		})
	}
}
