package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// syncPiece is how much the raw writer appends between two syncs: about what a broker under full load has ready for one.
const syncPiece = 1 << 20

// rawWrite appends pieces to one file with a sync after each, which is the limit of what can be durable. It returns bytes per second
// and the 99th percentile of a write with its sync.
func rawWrite(dir string, piece int, d time.Duration) (perSecond float64, p99 time.Duration, err error) {
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buf := make([]byte, piece)
	_, _ = rand.Read(buf) // never fails
	var delays []time.Duration
	var written int64
	start := time.Now()
	for time.Since(start) < d {
		at := time.Now()
		if _, err := f.Write(buf); err != nil {
			return 0, 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, 0, fmt.Errorf("sync %s: %w", f.Name(), err)
		}
		written += int64(piece)
		delays = append(delays, time.Since(at))
	}
	perSecond = float64(written) / time.Since(start).Seconds()
	slices.Sort(delays)
	return perSecond, delays[len(delays)*99/100], nil
}

// deviceBytes is what the device under dir has written since it started, whoever asked for it.
func deviceBytes(dir string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0, fmt.Errorf("the device under %s has no counters: %w", dir, err)
	}
	fields := strings.Fields(string(b))
	if len(fields) < 7 {
		return 0, fmt.Errorf("block statistics of the device under %s: %q", dir, b)
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	return sectors * 512, err
}

// cpuTime is what a process has used so far.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("statistics of process %d: %q", pid, b)
	}
	const ticksPerSecond = 100 // USER_HZ on every Linux that Go runs on
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// metric reads one unlabelled metric.
func metric(page, name string) (float64, error) {
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}
