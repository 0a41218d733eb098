// Command bench measures capture against the limit that the sources themselves set (Postgres's decoder, the dump of MySQL's and
// MariaDB's binary log) and against Debezium, and the broker against the disk, kfake and JetStream, side by side in one run, and prints one JSON
// line per case: {case, value, unit, peer, peer_value, ratio, floor, ok}. What sets the limit runs before and after Rowtrail; the spread of
// its two runs is printed as control, so that a noisy machine shows.
//
//	go run ./itest/bench [-rows 1000000] [-transactions 200000] [-only load]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/rowtrail/rowtrail/itest/process"
)

// line is one case. Control is the peer's second run over its first; a peer that ran once has none. Floor 0: none set.
type line struct {
	Case      string  `json:"case"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	Peer      string  `json:"peer,omitempty"`
	PeerValue float64 `json:"peer_value,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	Floor     float64 `json:"floor"`
	OK        bool    `json:"ok"`
	Control   float64 `json:"control,omitempty"`
}

type config struct {
	binary       string
	rows         int
	transactions int
	seconds      int
	tps          int
	profile      string

	brokerSeconds int
	peers         string // folder of the peers' binaries
	only          string
}

func main() {
	var cfg config
	flag.IntVar(&cfg.rows, "rows", 1_000_000, "rows of the one big transaction and of the initial load")
	flag.IntVar(&cfg.transactions, "transactions", 200_000, "one-row transactions")
	flag.IntVar(&cfg.seconds, "seconds", 15, "how long the latency case runs")
	flag.IntVar(&cfg.tps, "tps", 2000, "transactions per second of the latency case")
	flag.StringVar(&cfg.profile, "profile", "", "folder to save CPU profiles of the capture cases in, one a second")
	flag.IntVar(&cfg.brokerSeconds, "broker-seconds", 8, "how long each run of the broker's cases is")
	flag.StringVar(&cfg.only, "only", "", "run only the cases whose name contains this")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg config) error {
	dir, err := os.MkdirTemp("", "rowtrail-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if cfg.binary, err = process.Build(dir); err != nil {
		return err
	}
	cfg.peers = dir
	if err := buildPeers(ctx, dir); err != nil {
		return err
	}
	missed := 0
	for _, c := range []struct {
		name string
		run  func(context.Context, config) ([]line, error)
	}{
		{"capture one transaction", captureOne},
		{"capture one-row transactions", captureMany},
		{"load", load},
		{"latency", latency},
		{"produce", producing},
		{"replicated", replicated},
		{"consume", consuming},
		{"history", history},
		{"mysql", captureMySQL("mysql:9.7")},
		{"mariadb", captureMySQL("mariadb:11.8")},
	} {
		if !strings.Contains(c.name, cfg.only) && !strings.HasPrefix(cfg.only, c.name+" ") { // of a source's cases one can be named
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name)
		lines, err := c.run(ctx, cfg)
		for _, l := range lines {
			out, err := json.Marshal(l)
			if err != nil {
				return err
			}
			fmt.Println(string(out))
			if !l.OK {
				missed++
			}
		}
		if err != nil { // what was measured before it counts
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d cases are below their floor", missed)
	}
	return nil
}

// throughput makes the line of a rate against its peer's two runs.
func throughput(name, unit, peer string, value float64, runs [2]float64, floor float64) line {
	best := max(runs[0], runs[1])
	l := line{Case: name, Value: round(value), Unit: unit, Peer: peer, PeerValue: round(best), Floor: floor,
		Ratio: round3(value / best), Control: round3(runs[1] / runs[0])}
	l.OK = l.Ratio >= floor
	return l
}

// versus makes the line of a rate against a peer that ran once. Floor 0: none set.
func versus(name, unit, peer string, value, other, floor float64) line {
	l := line{Case: name, Value: round(value), Unit: unit, Peer: peer, PeerValue: round(other), Floor: floor, Ratio: round3(value / other)}
	l.OK = l.Ratio >= floor
	return l
}

// lower makes the line of what should be small beside a peer's. The ratio is above 1 where Rowtrail takes less. Floor 0: none set.
func lower(name, unit, peer string, value, other, floor float64) line {
	l := line{Case: name, Value: value, Unit: unit, Peer: peer, PeerValue: other, Floor: floor, Ratio: round3(other / max(value, 0.001))}
	l.OK = l.Ratio >= floor
	return l
}

// report makes the line of a figure that has no peer.
func report(name, unit string, value float64) line {
	return line{Case: name, Value: value, Unit: unit, OK: true}
}

func round(f float64) float64  { return float64(int64(f + 0.5)) }
func round3(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }
