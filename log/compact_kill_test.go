package log

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// killCompactEnv makes the child compact while it commits; killFlipEnv makes its cleanup.policy come and go as well.
const (
	killCompactEnv = "ROWTRAIL_LOG_KILL_COMPACT"
	killFlipEnv    = "ROWTRAIL_LOG_KILL_FLIP"
)

// What the child writes to each group is known from the number i alone: record i lies at offset 2i, alone in a transaction,
// whose marker follows.
const (
	compactGroups = 2
	compactKeys   = 40
)

func childKey(i int64) string     { return fmt.Sprintf("key-%d", i*i%compactKeys) }
func childAborts(i int64) bool    { return i%7 == 0 }
func childTombstone(i int64) bool { return i%11 == 3 }
func childConfig() Config {
	return Config{Compact: true, DeleteRetentionMs: 20, RetentionBytes: -1, RetentionMs: -1}
}

// childStep returns the entry that belongs at the end of the log, with values that many times as large.
func childStep(p *Partition, end int64, factor int) (Entry, error) {
	i := end / 2
	var batch []byte
	if end%2 == 0 {
		var b record.Builder
		value := append(strconv.AppendInt(nil, i, 10), ' ')
		value = append(value, payload(factor*int(100+i%5*400))...)
		if childTombstone(i) {
			value = nil
		}
		b.Append(time.Now().UnixMilli(), []byte(childKey(i)), value)
		batch = b.Build(&record.Producer{ID: 5, BaseSequence: int32(i), Transactional: true})
	} else {
		batch = record.EndTxn{ProducerID: 5, Commit: !childAborts(i)}.Build(time.Now().UnixMilli())
	}
	if _, err := p.Stage(1, batch, time.Now()); err != nil {
		return Entry{}, err
	}
	return Entry{Index: p.LastIndex() + 1, Term: 1, Data: batch}, nil
}

// compactChild commits and compacts at once until it is killed, and prints the end of each group after each Commit.
func compactChild(dir string) {
	s, err := Open(dir, Options{MinFreeBytes: 64 << 20, OnFatal: func(err error) { panic(err) }})
	if err != nil {
		panic(err)
	}
	var parts []*Partition
	for g := range compactGroups {
		p, err := s.Partition(GroupID(g + 1))
		if err != nil {
			panic(err)
		}
		replay(p)
		p.SetConfig(childConfig())
		parts = append(parts, p)
	}
	fmt.Println("open")
	go func() {
		for i := 0; ; i++ {
			err := s.Compact(GroupID(i%compactGroups + 1))
			if err != nil && !errors.Is(err, ErrDiskFull) && !errors.Is(err, errOvertaken) {
				panic(err)
			}
		}
	}()
	factor, _ := strconv.Atoi(os.Getenv(killSizeEnv))
	flip := os.Getenv(killFlipEnv) != ""
	full := 0
	for i := 0; ; i++ {
		for _, p := range parts {
			if flip && i%8 == 0 {
				cfg := childConfig()
				cfg.Compact = i%32 > 0
				p.SetConfig(cfg)
			}
			e, err := childStep(p, p.Marks().End, max(factor, 1))
			if errors.Is(err, ErrDiskFull) {
				full++
				continue // compaction makes room
			}
			if err != nil {
				panic(err)
			}
			if err := s.Commit([]Mutation{{Group: p.id, Entries: []Entry{e}}}); err != nil {
				panic(err)
			}
			p.Apply([]Entry{e})
		}
		fmt.Println(parts[0].Marks().HighWatermark, parts[1].Marks().HighWatermark, s.Compaction().Rounds, full)
	}
}

// TestKillWhileCompacting: whatever moment the process is killed at, the log has the last committed record of every key, no
// aborted one, and all offsets mean what they meant.
func TestKillWhileCompacting(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 3
	}
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		kills = 40
	}
	killWhileCompacting(t, t.TempDir(), kills, 100*time.Millisecond)
}

// TestKillWhilePolicyFlips: the same while compact comes and goes.
func TestKillWhilePolicyFlips(t *testing.T) {
	killWhileCompacting(t, t.TempDir(), 4, 100*time.Millisecond, killFlipEnv+"=1")
}

// TestKillOnAFullDisk: the same on a file system that is full again and again, in the middle of folds, of runs and of commits. The process ends by
// the kill alone: Badger's maps make a full disk a SIGBUS.
func TestKillOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", dir).Run(); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	if full := killWhileCompacting(t, filepath.Join(dir, "data"), 4, 2*time.Second, killSizeEnv+"=300"); full == 0 {
		t.Error("the disk was never full")
	}
}

// killWhileCompacting runs children in turn, each killed some time after it has opened the log, and returns how often they were refused for want of space.
func killWhileCompacting(t *testing.T, dir string, kills int, after time.Duration, env ...string) (full int64) {
	t.Helper()
	var acked [compactGroups]int64
	var rounds int64
	for kill := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(append(os.Environ(), killDirEnv+"="+dir, killCompactEnv+"=1"), env...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "open" {
			t.Fatalf("child did not open: %q", lines.Text())
		}
		timer := time.AfterFunc(after+time.Duration(kill*83%500)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		done, refused := int64(0), int64(0)
		for lines.Scan() {
			var n [compactGroups]int64
			var r, f int64
			if k, err := fmt.Sscan(lines.Text(), &n[0], &n[1], &r, &f); k != 4 || err != nil {
				break // cut off by the kill
			}
			acked, done, refused = n, r, f
		}
		rounds += done
		full += refused
		_ = cmd.Wait()
		timer.Stop()
		if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || st.Signal() != syscall.SIGKILL {
			t.Fatalf("the child ended by itself: %v", cmd.ProcessState)
		}
		for g := range compactGroups {
			checkCompacted(t, dir, GroupID(g+1), acked[g])
		}
	}
	if rounds < int64(kills) {
		t.Fatalf("the child did only %d rounds", rounds)
	}
	t.Logf("killed %d times; offsets %v, %d rounds, refused %d times", kills, acked, rounds, full)
	return full
}

// checkCompacted reads what the child left.
func checkCompacted(t *testing.T, dir string, id GroupID, acked int64) {
	t.Helper()
	s := mustOpen(t, dir, Options{Compaction: CompactionOptions{Interval: -1}})
	defer func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	p := mustPartition(t, s, id)
	p.SetConfig(childConfig())
	replay(p)
	if hwm := p.Marks().HighWatermark; hwm < acked {
		t.Fatalf("group %d ends at %d, acknowledged is %d", id, hwm, acked)
	}
	checkChildLog(t, p)
	if err := s.Compact(id); err != nil && !errors.Is(err, ErrDiskFull) {
		t.Fatal(err)
	}
	checkChildLog(t, p)
}

// checkChildLog compares a committed reader's records with what the child wrote.
func checkChildLog(t *testing.T, p *Partition) {
	t.Helper()
	marks := p.Marks()
	last := map[string]int64{}
	for i := int64(0); 2*i < marks.LastStable; i++ {
		if !childAborts(i) {
			last[childKey(i)] = i
		}
	}
	seen := map[string]int64{}
	end := eachCommitted(t, p, marks.LogStart, func(_ *record.Header, r *record.Record) {
		i := r.Offset / 2
		if r.Offset%2 != 0 || childAborts(i) || string(r.Key) != childKey(i) {
			t.Fatalf("group %d: a committed reader sees %q at offset %d", p.id, r.Key, r.Offset)
		}
		if (r.Value == nil) != childTombstone(i) || r.Value != nil && !startsWithNumber(r.Value, i) {
			t.Fatalf("group %d: offset %d does not hold record %d", p.id, r.Offset, i)
		}
		if was, ok := seen[string(r.Key)]; ok && was >= i {
			t.Fatalf("group %d: record %d follows %d", p.id, i, was)
		}
		seen[string(r.Key)] = i
	})
	if end < marks.LastStable {
		t.Fatalf("group %d: a reader stops at %d, before %d", p.id, end, marks.LastStable)
	}
	for key, i := range last {
		if seen[key] < i && !childTombstone(i) {
			t.Fatalf("group %d: the last record of %s is %d, found %d", p.id, key, i, seen[key])
		}
	}
}

func startsWithNumber(b []byte, i int64) bool {
	n := strconv.FormatInt(i, 10) + " "
	return len(b) >= len(n) && string(b[:len(n)]) == n
}

// eachCommitted reads as a read_committed client does up to the last stable offset, calls f for each record that it passes on,
// and returns where it ended. It may run beside compaction.
func eachCommitted(t testing.TB, p *Partition, from int64, f func(*record.Header, *record.Record)) int64 {
	t.Helper()
	reader := record.NewReader(1 << 20)
	for {
		res, err := p.Read(from, 64<<10, true, ReadCommitted)
		if start := p.Marks().LogStart; errors.Is(err, ErrOffsetOutOfRange) && from < start {
			from = start // retention passed by: as auto.offset.reset goes on
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Batches) == 0 {
			return from
		}
		list, skipping := res.Aborted, map[int64]bool{}
		for rest := res.Batches; len(rest) > 0; {
			var b []byte
			if b, rest, err = record.Next(rest); err != nil {
				t.Fatal(err)
			}
			h, err := record.Validate(b, record.Checks{AllowControl: true, AllowGaps: true})
			if err != nil || h.LastOffset() < from {
				t.Fatalf("batch %d to %d, read from %d: %v", h.BaseOffset, h.LastOffset(), from, err)
			}
			from = h.LastOffset() + 1
			for len(list) > 0 && list[0].FirstOffset <= h.LastOffset() {
				skipping[list[0].ProducerID] = true
				list = list[1:]
			}
			switch {
			case h.Control():
				if m, err := record.ParseEndTxn(b); err != nil || !m.Commit {
					delete(skipping, h.ProducerID)
				}
				continue
			case h.Transactional() && skipping[h.ProducerID]:
				continue
			}
			if err := reader.Reset(b); err != nil {
				t.Fatal(err)
			}
			for reader.Next() {
				f(&h, reader.Record())
			}
			if err := reader.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
