package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// rounds has the background go twice round all that there is, at one moment of its clock.
func (b *background) rounds(t *testing.T, now time.Time) {
	t.Helper()
	for range 2 * (len(b.views.all()) + 1) {
		if _, err := b.turn(now); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *database) rests() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.DB == nil
}

// TestRest: the database is closed when nothing has needed it for a while, and comes back, with all that it held, for whatever does.
func TestRest(t *testing.T) {
	v := openViews(t, t.TempDir())
	b := background{views: v, failed: map[fold]string{}}
	src := newMemSource()
	src.append(0, keyed("a", "1"))
	v.Follow(testTopic, []Source{src})
	b.rounds(t, time.Now().Add(restAfter-time.Second))
	if v.db.rests() {
		t.Fatal("the database rests before its time")
	}
	later := time.Now().Add(2 * restAfter)
	wakes := func(what string, wake func()) {
		t.Helper()
		b.rounds(t, later)
		if !v.db.rests() {
			t.Fatalf("before %s: the database does not rest", what)
		}
		wake()
		if v.db.rests() {
			t.Errorf("%s: the database rests on", what)
		}
	}
	b.rounds(t, later)
	wakes("a question", func() {
		if row, found := latest(t, v, "a"); !found || string(row.Value) != "1" {
			t.Errorf("the row is %q, %t after the rest", row.Value, found)
		}
	})
	wakes("a record", func() {
		src.append(0, keyed("a", "2"))
		b.rounds(t, time.Now())
		if p := v.all()[0]; p.behind() > 0 {
			t.Error("the background does not fold after a rest")
		}
	})
	wakes("another topic", func() { v.Follow("other", []Source{newMemSource()}) })
	wakes("a topic that is deleted", func() { v.Forget("other") })
	wakes("entries of a topic that is deleted", func() {
		v.Follow("other", []Source{newMemSource()})
		b.rounds(t, later)
		v.Forget("other")
		if err := v.db.rest(later); err != nil {
			t.Fatal(err)
		}
		b.rounds(t, time.Now())
		if id, dead := v.nextDead(); dead {
			t.Errorf("fold %d is not buried", id)
		}
	})
	b.rounds(t, later)
	if row, found := latest(t, v, "a"); !found || string(row.Value) != "2" {
		t.Errorf("the row is %q, %t at last", row.Value, found)
	}
}

// TestRestWaits: nobody's database is closed under them, and no closed one is opened.
func TestRestWaits(t *testing.T) {
	v := openViews(t, t.TempDir())
	src := newMemSource()
	src.append(0, keyed("a", "1"))
	v.Follow(testTopic, []Source{src})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, found, err := v.Latest(context.Background(), testTopic, []byte("a"), At{}); !found && !errors.Is(err, ErrClosed) {
					t.Errorf("found %t, %v", found, err)
					return
				}
			}
		})
	}
	for range 30 {
		if err := v.db.rest(time.Now().Add(2 * restAfter)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	close(stop)
	wg.Wait()
	if err := v.enter(); !errors.Is(err, ErrClosed) {
		t.Errorf("enter after Close: %v", err)
	}
	b := background{views: v}
	if _, err := b.turn(time.Now()); !errors.Is(err, ErrClosed) {
		t.Errorf("turn after Close: %v", err)
	}
}

// TestRestThatCannotEnd: who needs a database that cannot be opened is told, and the next one finds it when it can.
func TestRestThatCannotEnd(t *testing.T) {
	dir := t.TempDir()
	v := openViews(t, dir)
	src := newMemSource()
	src.append(0, keyed("a", "1"))
	v.Follow(testTopic, []Source{src})
	if _, found := latest(t, v, "a"); !found {
		t.Fatal("the row is missing")
	}
	if err := v.db.rest(time.Now().Add(2 * restAfter)); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "MANIFEST")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(manifest, manifest+".away"))
	must(os.Mkdir(manifest, 0o700))
	if _, _, err := v.Latest(t.Context(), testTopic, []byte("a"), At{}); err == nil {
		t.Error("a database that cannot be opened answers")
	}
	src.append(0, keyed("a", "2"))
	b := background{views: v, failed: map[fold]string{}}
	b.rounds(t, time.Now()) // says so, and goes on
	must(os.Remove(manifest))
	must(os.Rename(manifest+".away", manifest))
	if row, found := latest(t, v, "a"); !found || string(row.Value) != "2" {
		t.Errorf("the row is %q, %t", row.Value, found)
	}
}
