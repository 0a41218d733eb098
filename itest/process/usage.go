package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// Memory is what a process holds, in bytes.
type Memory struct {
	Resident  int64 // pages of files that it has mapped are counted, too
	Anonymous int64
}

// Memory is what the process holds now.
func (r *Rowtrail) Memory() (m Memory, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
	if err != nil {
		return m, err
	}
	for field, to := range map[string]*int64{"VmRSS:": &m.Resident, "RssAnon:": &m.Anonymous} {
		if *to, err = kilobytes(string(b), field); err != nil {
			return m, err
		}
	}
	return m, nil
}

// PeakResident is the most that a process has held in memory, pages of mapped files among it, in bytes.
func PeakResident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return kilobytes(string(b), "VmHWM:")
}

func kilobytes(status, field string) (int64, error) {
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/PID/status", field)
}

// CPUTime is how long the process has run on a processor, in its own code and in the kernel's.
func (r *Rowtrail) CPUTime() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.PID()))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses, which may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, errors.New("/proc/PID/stat is too short")
	}
	var ticks int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
