package pace

import (
	"bytes"
	"os"
	"strconv"
)

// CPU is the machine's CPU time so far, in ticks: how much of it was spent, and all. Both are 0 where the system does not tell
// (no /proc).
func CPU() (busy, all float64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	return parse(stat)
}

// parse reads the first line: cpu user nice system idle iowait irq softirq steal guest guest_nice. Guests' time is in user's and
// nice's as well.
func parse(stat []byte) (busy, all float64) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return 0, 0
		}
		all += n
		if i != 3 && i != 4 { // idle, and idle with a read or write under way
			busy += n
		}
	}
	return busy, all
}
