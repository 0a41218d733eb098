// Command bench measures capture against the limit that Postgres itself sets, side by side in one run, and prints one JSON
// line per case: {case, value, unit, peer, peer_value, ratio, floor, ok}. Each peer runs before and after Rowtrail; the spread of
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

// line is one case. Control is the peer's second run over its first. Floor 0: none set.
type line struct {
	Case      string  `json:"case"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	Peer      string  `json:"peer"`
	PeerValue float64 `json:"peer_value"`
	Ratio     float64 `json:"ratio"`
	Floor     float64 `json:"floor"`
	OK        bool    `json:"ok"`
	Control   float64 `json:"control"`
}

type config struct {
	binary       string
	rows         int
	transactions int
	seconds      int
	tps          int
	profile      string
}

func main() {
	var cfg config
	flag.IntVar(&cfg.rows, "rows", 1_000_000, "rows of the one big transaction and of the initial load")
	flag.IntVar(&cfg.transactions, "transactions", 200_000, "one-row transactions")
	flag.IntVar(&cfg.seconds, "seconds", 15, "how long the latency case runs")
	flag.IntVar(&cfg.tps, "tps", 2000, "transactions per second of the latency case")
	flag.StringVar(&cfg.profile, "profile", "", "folder to save CPU profiles of the capture cases in, one a second")
	only := flag.String("only", "", "run only the cases whose name contains this")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, cfg, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg config, only string) error {
	dir, err := os.MkdirTemp("", "rowtrail-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if cfg.binary, err = process.Build(dir); err != nil {
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
	} {
		if !strings.Contains(c.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name)
		lines, err := c.run(ctx, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
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

func round(f float64) float64  { return float64(int64(f + 0.5)) }
func round3(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }
