package raw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/fakelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is one run of a connector that has nothing but a Store.
type run struct {
	t       *testing.T
	w       *connectors.Writer
	e       *connectors.Emitter
	s       *Store
	settled int
	marks   uint64
	stop    func()
}

func newLog(t *testing.T) connectors.Deps {
	cluster := fakelog.Start(t)
	return connectors.Deps{Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// begin begins a run, as a crash of the one before it would.
func begin(t *testing.T, deps connectors.Deps) *run {
	t.Helper()
	r, err := tryBegin(t, deps)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryBegin(t *testing.T, deps connectors.Deps) (*run, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := connectors.OpenWriter(ctx, deps, connectors.WriterOptions{
		Name: "c", Prefix: "p", Topics: connectors.TopicOptions{Partitions: -1, Replication: -1},
		AppendResume: func(dst []byte, m connectors.Mark) []byte { return fmt.Appendf(dst, "%d", m.Confirm) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, w: w, e: &connectors.Emitter{Settings: &connectors.Settings{Prefix: "p"}, Writer: w}}
	r.e.Touch()
	done := make(chan error, 1)
	ended := false
	r.stop = func() {
		if !ended {
			ended = true
			cancel()
			<-done
			w.Close()
		}
	}
	if r.s, err = Open(ctx, w, "p", r.settle); err != nil {
		cancel()
		w.Close()
		return nil, err
	}
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(r.stop)
	return r, nil
}

func (r *run) settle(ctx context.Context) error {
	r.settled++
	return r.commit()
}

// commit ends a source transaction and waits for the log.
func (r *run) commit() error {
	r.marks++
	ctx := context.Background()
	if err := r.e.Room(ctx); err != nil {
		return err
	}
	r.e.Batch.Mark(connectors.Mark{Confirm: r.marks, Force: true})
	if err := r.e.Send(ctx); err != nil {
		return err
	}
	return r.w.Drain(ctx)
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// hold is a source transaction that adds to holders.
func (r *run) hold(id ID, changes ...[]byte) {
	r.t.Helper()
	ctx := context.Background()
	if !r.s.Has(id) {
		r.must(r.s.Begin(ctx, r.e, id))
	}
	for _, c := range changes {
		r.must(r.s.Append(ctx, r.e, id, c))
	}
	r.must(r.s.End(ctx, r.e))
}

func (r *run) drop(id ID) {
	r.t.Helper()
	r.must(r.s.Drop(context.Background(), r.e, id))
}

func (r *run) read(id ID) ([][]byte, error) {
	var got [][]byte
	err := r.s.Read(context.Background(), id, func(c []byte) error {
		got = append(got, bytes.Clone(c))
		return nil
	})
	return got, err
}

func (r *run) holds(id ID, want ...[]byte) {
	r.t.Helper()
	got, err := r.read(id)
	r.must(err)
	if len(got) != len(want) {
		r.t.Fatalf("%s has %d changes, want %d", id, len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			r.t.Fatalf("%s, change %d: %d bytes, want %d: they differ", id, i, len(got[i]), len(want[i]))
		}
	}
}

func tx(name string) ID    { return ID{Transaction, name} }
func table(name string) ID { return ID{Table, name} }

func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestHeldChangesComeBack: in their order, in the run that held them and in the next, whatever their sizes are.
func TestHeldChangesComeBack(t *testing.T) {
	deps := newLog(t)
	r := begin(t, deps)
	a, b, c := tx("X'61',X'',1"), table(`s."é`), tx("none")
	large := [][]byte{noise(1, 10), noise(2, fragmentBytes), {}, noise(3, 3*pendingBytes), noise(4, fragmentBytes+1), noise(5, 1)}
	r.hold(a, []byte("one"), []byte("two"))
	r.hold(b, large...)
	r.hold(c)
	r.holds(a, []byte("one"), []byte("two"))
	r.holds(b, large...)
	r.holds(c)
	if r.settled != 1 {
		t.Errorf("%d commits to read back what one table has, and what transactions have is in memory", r.settled)
	}
	r.hold(b, []byte("more"))
	r.must(r.commit())
	r.stop()
	r = begin(t, deps)
	if r.s.Len() != 3 {
		t.Fatalf("%d holders", r.s.Len())
	}
	r.holds(a, []byte("one"), []byte("two"))
	r.holds(b, append(large, []byte("more"))...)
	r.holds(c)
	r.drop(a)
	r.drop(b)
	r.must(r.commit())
	r.stop()
	r = begin(t, deps)
	if r.s.Has(a) || r.s.Has(b) || !r.s.Has(c) {
		t.Fatal("what was dropped is there, or what was not is gone")
	}
	if _, err := r.read(a); err == nil {
		t.Error("what was dropped can be read")
	}
}

// TestCrashKeepsWhatIsCommitted: what a source transaction held, or dropped, counts with its mark or not at all.
func TestCrashKeepsWhatIsCommitted(t *testing.T) {
	deps := newLog(t)
	r := begin(t, deps)
	r.hold(tx("a"), []byte("a"))
	r.must(r.commit())
	r.hold(tx("b"), []byte("b"))
	r.drop(tx("a"))
	r.must(r.e.Send(context.Background())) // written, but no mark
	r.stop()
	r = begin(t, deps)
	if !r.s.Has(tx("a")) || r.s.Has(tx("b")) {
		t.Fatal("a log transaction that was not committed counts")
	}
	r.holds(tx("a"), []byte("a"))
}

// TestNamesComeAgain: what a former holder of the name had is not part of the new one.
func TestNamesComeAgain(t *testing.T) {
	deps := newLog(t)
	r := begin(t, deps)
	for i := range 3 {
		r.hold(tx("a"), noise(byte(i), (3-i)*pieceBytes))
		r.must(r.commit())
		if i < 2 {
			r.drop(tx("a"))
		}
	}
	r.s.forget(r.s.holders[tx("a")])
	r.holds(tx("a"), noise(2, pieceBytes))
	r.stop()
	r = begin(t, deps)
	r.holds(tx("a"), noise(2, pieceBytes))
}

// TestUnfinishedIsBegunAgain: pieces that were committed in the middle of a source transaction are no part of its second reading.
func TestUnfinishedIsBegunAgain(t *testing.T) {
	deps := newLog(t)
	r := begin(t, deps)
	ctx := context.Background()
	r.must(r.s.Begin(ctx, r.e, tx("a")))
	long := noise(1, pendingBytes+pieceBytes)
	r.must(r.s.Append(ctx, r.e, tx("a"), long))
	r.s.forget(r.s.holders[tx("a")]) // too much else is remembered
	r.holds(tx("a"), long)           // which commits what is written
	r.stop()
	r = begin(t, deps)
	if _, err := r.read(tx("a")); !errors.Is(err, ErrMissing) {
		t.Errorf("half of a source transaction is read: %v", err)
	}
	r.must(r.s.Begin(ctx, r.e, tx("a")))
	r.must(r.s.Append(ctx, r.e, tx("a"), []byte("all")))
	r.must(r.s.End(ctx, r.e))
	r.must(r.commit())
	r.stop()
	r = begin(t, deps)
	r.holds(tx("a"), []byte("all"))
	if err := r.s.Begin(ctx, r.e, tx("a")); err == nil {
		t.Error("a holder is begun over another")
	}
}

// TestMissingPiecesAreFound: the first, one in the middle, the last, and one in the place of another.
func TestMissingPiecesAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks func(number int) bool
	}{
		{"first", func(n int) bool { return n == 0 }},
		{"middle", func(n int) bool { return n == 2 }},
		{"last", func(n int) bool { return n == 5 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			deps := newLog(t)
			r := begin(t, deps)
			r.hold(table("t"), noise(1, 4*pieceBytes+10))
			r.must(r.commit())
			r.stop()
			if n := r.s.holders[table("t")].pieces; n != 6 {
				t.Fatalf("%d pieces", n)
			}
			other := newLog(t)
			copyWithout(t, deps, other, c.lacks)
			_, err := tryBegin(t, other)
			if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "table t") || !strings.Contains(err.Error(), "p.raw") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// copyWithout copies the raw topic into another log, but for some pieces.
func copyWithout(t *testing.T, from, to connectors.Deps, lacks func(int) bool) {
	t.Helper()
	w, err := connectors.OpenWriter(context.Background(), to, connectors.WriterOptions{Name: "c", Prefix: "p", Topics: connectors.TopicOptions{Partitions: -1, Replication: -1}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.EnsureTopic(context.Background(), "p.raw", connectors.TopicCompacted)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, to.Client...), kgo.ProducerBatchMaxBytes(8<<20))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, r := range fakelog.Read(t, from.Client, "p.raw") {
		if _, n, err := parseKey(r.Key); err == nil && !lacks(n) {
			if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "p.raw", Key: r.Key, Value: r.Value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestManyAreBounded: of many transactions the oldest are forgotten, and read back.
func TestManyAreBounded(t *testing.T) {
	deps := newLog(t)
	r := begin(t, deps)
	const each = rememberedEach / 2
	n := rememberedBytes/each + 3
	for i := range n {
		r.hold(tx(fmt.Sprint(i)), noise(byte(i), each))
		if r.s.kept > rememberedBytes || r.s.pending != 0 {
			t.Fatalf("%d bytes are remembered, %d pending", r.s.kept, r.s.pending)
		}
	}
	for i := range n {
		r.holds(tx(fmt.Sprint(i)), noise(byte(i), each))
	}
	if r.settled == 0 {
		t.Error("nothing was read back")
	}
	for i := range n {
		r.drop(tx(fmt.Sprint(i)))
	}
	if r.s.kept != 0 || r.s.order.Len() != 0 || len(r.s.touched) != 0 {
		t.Errorf("%d bytes, %d remembered, %d touched are left", r.s.kept, r.s.order.Len(), len(r.s.touched))
	}
}

func TestPiecesOfOthersAreRefused(t *testing.T) {
	for _, b := range [][]byte{nil, {1}, {2, 0, 0, 0}, {1, 8, 0, 0}, {1, 0, 0x80}} {
		if _, err := parsePiece(b); !errors.Is(err, ErrPiece) {
			t.Errorf("%v: %v", b, err)
		}
	}
	for _, k := range []string{"", "{}", `{"transaction":"a"}`, `{"table":"a","piece":-1}`, `{"table":"a","transaction":"b","piece":1}`} {
		if _, _, err := parseKey([]byte(k)); !errors.Is(err, ErrPiece) {
			t.Errorf("%s: %v", k, err)
		}
	}
	var a assembler
	if err := a.add([]byte{9 << 1, 'x'}, nil); !errors.Is(err, ErrPiece) {
		t.Errorf("a fragment that is cut: %v", err)
	}
	id := ID{Table, "a\"b\x00ü"}
	if got, n, err := parseKey(id.appendKey(nil, 12)); err != nil || got != id || n != 12 {
		t.Errorf("%v %d %v", got, n, err)
	}
}
