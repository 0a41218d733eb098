package log

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// The test binary runs itself as a child that is killed, with these in its environment.
const (
	killDirEnv  = "ROWTRAIL_LOG_KILL_DIR"
	killFillEnv = "ROWTRAIL_LOG_KILL_FILL" // batch size and total bytes: fill instead of committing for ever
	killSizeEnv = "ROWTRAIL_LOG_KILL_SIZE" // how much larger than usual the batches are
)

func runChild(dir string) {
	if fill := os.Getenv(killFillEnv); fill != "" {
		fillChild(dir, fill)
	}
	if os.Getenv(killCompactEnv) != "" {
		compactChild(dir)
	}
	killChild(dir)
}

// fillChild writes a log, says so, and waits to be killed.
func fillChild(dir, fill string) {
	var size int
	var total int64
	if _, err := fmt.Sscan(fill, &size, &total); err != nil {
		panic(err)
	}
	s, err := Open(dir, Options{MinFreeBytes: 64 << 20, OnFatal: func(err error) { panic(err) }})
	if err != nil {
		panic(err)
	}
	p, err := s.Partition(1)
	if err != nil {
		panic(err)
	}
	start := time.Now()
	for done := int64(0); done < total; {
		var es []Entry
		for i := range min((1<<20)/size, 1000) {
			b := batchOf(size, time.Now().UnixMilli())
			if _, err := p.Stage(1, b, time.Now()); err != nil {
				panic(err)
			}
			es = append(es, Entry{Index: p.LastIndex() + 1 + uint64(i), Term: 1, Data: b})
			done += int64(len(b))
		}
		if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err != nil {
			panic(err)
		}
		p.Apply(es)
	}
	fmt.Printf("%d %d\n", p.Marks().HighWatermark, total/max(time.Since(start).Milliseconds(), 1)/1000)
	select {}
}

// killGroups is how many groups the child writes to in each Commit.
const killGroups = 4

// killChild commits numbered batches until it is killed, and prints the last number of each acknowledged Commit.
func killChild(dir string) {
	s, err := Open(dir, Options{MinFreeBytes: 64 << 20, OnFatal: func(err error) { panic(err) }})
	if err != nil {
		panic(err)
	}
	factor, _ := strconv.Atoi(os.Getenv(killSizeEnv))
	factor = max(factor, 1)
	next := make([]int64, killGroups)
	for g := range next {
		p, err := s.Partition(GroupID(g + 1))
		if err != nil {
			panic(err)
		}
		replay(p)
		p.SetConfig(Config{RetentionBytes: int64(factor) << 20})
		next[g] = p.Marks().End
	}
	fmt.Println("open")
	for round := 0; ; round++ {
		var ms []Mutation
		for g := range next {
			p, _ := s.Partition(GroupID(g + 1))
			m := Mutation{Group: p.id, HardState: &HardState{Term: uint64(round + 1), Vote: 1}}
			for i := range 1 + round%5 {
				var b record.Builder
				value := payload(factor * (100 + 700*(round%4)))
				binary.BigEndian.PutUint64(value, uint64(next[g]))
				b.Append(time.Now().UnixMilli(), nil, value)
				batch := b.Build(nil)
				if _, err := p.Stage(1, batch, time.Now()); err != nil {
					panic(err)
				}
				m.Entries = append(m.Entries, Entry{Index: p.LastIndex() + 1 + uint64(i), Term: 1, Data: batch})
				next[g]++
			}
			ms = append(ms, m)
		}
		if err := s.Commit(ms); err != nil {
			panic(err)
		}
		for i := range ms {
			p, _ := s.Partition(ms[i].Group)
			p.Apply(ms[i].Entries)
			start, move := p.RetainTo(time.Now())
			if !move {
				continue
			}
			e := []Entry{{Index: p.LastIndex() + 1, Term: 1, Type: EntryTrim, Data: TrimPayload(start)}}
			p.Follow(e)
			if err := s.Commit([]Mutation{{Group: p.id, Entries: e}}); err != nil {
				panic(err)
			}
			p.Apply(e)
		}
		fmt.Println(next[0], next[1], next[2], next[3], round+1)
	}
}

// replay applies what is stored, as a single voter does after a restart.
func replay(p *Partition) {
	for lo := p.AppliedIndex() + 1; lo <= p.LastIndex(); lo = p.AppliedIndex() + 1 {
		es, err := p.Entries(lo, p.LastIndex()+1, 1<<20)
		if err != nil {
			panic(err)
		}
		p.Follow(es)
		p.Apply(es)
	}
}

// TestKill: whatever moment the process is killed at, every acknowledged entry is there, in order, with its hard state.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	kills, factor, run := 8, 1, 50*time.Millisecond
	if testing.Short() {
		kills = 2
	}
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		// Enough for garbage collection to be at work when the kill comes.
		kills, factor, run = 12, 32, 2500*time.Millisecond
	}
	var acked [killGroups]int64
	for kill := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), killDirEnv+"="+dir, fmt.Sprintf("%s=%d", killSizeEnv, factor))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "open" {
			t.Fatalf("child did not open: %q", lines.Text())
		}
		timer := time.AfterFunc(run+time.Duration(kill*83%400)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		var term uint64
		for lines.Scan() {
			f := strings.Fields(lines.Text())
			if len(f) != killGroups+1 {
				break // cut off by the kill
			}
			for g := range acked {
				n, err := strconv.ParseInt(f[g], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				acked[g] = n
			}
			term, _ = strconv.ParseUint(f[killGroups], 10, 64)
		}
		_ = cmd.Wait()
		timer.Stop()
		checkKilled(t, dir, acked[:], term)
	}
	if acked[0] < 100 {
		t.Fatalf("the child acknowledged only %d batches", acked[0])
	}
	t.Logf("killed %d times; acknowledged batches per group: %v", kills, acked)
}

func checkKilled(t *testing.T, dir string, acked []int64, term uint64) {
	t.Helper()
	s := mustOpen(t, dir, Options{})
	defer func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	for g, n := range acked {
		p := mustPartition(t, s, GroupID(g+1))
		if h := p.HardState(); h.Term < term {
			t.Fatalf("group %d: term %d, acknowledged %d", g+1, h.Term, term)
		}
		replay(p)
		m := p.Marks()
		if m.HighWatermark < n {
			t.Fatalf("group %d: %d batches, acknowledged %d", g+1, m.HighWatermark, n)
		}
		want := m.LogStart
		for rest := readAll(t, p, want, 1<<20, ReadUncommitted); len(rest) > 0; want++ {
			var batch []byte
			var err error
			if batch, rest, err = record.Next(rest); err != nil {
				t.Fatal(err)
			}
			if h, err := record.Validate(batch, record.Checks{}); err != nil || h.BaseOffset != want {
				t.Fatalf("group %d: batch at %d, expected %d: %v", g+1, h.BaseOffset, want, err)
			}
			r := record.NewReader(1 << 20)
			if err := r.Reset(batch); err != nil || !r.Next() {
				t.Fatal(err)
			}
			if got := binary.BigEndian.Uint64(r.Record().Value); got != uint64(want) {
				t.Fatalf("group %d: offset %d holds batch %d", g+1, want, got)
			}
		}
		if want != m.HighWatermark {
			t.Fatalf("group %d: read up to %d of %d", g+1, want, m.HighWatermark)
		}
	}
}
