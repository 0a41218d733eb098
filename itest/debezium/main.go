package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

// options are the command line.
type options struct {
	servers []string
	modes   *regexp.Regexp
	seed    uint64
	cache   string
	asJSON  bool
	keep    bool
}

func main() {
	var (
		o       options
		pattern = flag.String("run", "", "compare only the modes whose name matches this regular expression; entries without a difference are then no error")
		list    = flag.String("source", serverPostgres, "servers, with commas between: postgres, mysql, mariadb")
		output  = flag.String("output", "text", "text or json: one line for each cell")
		update  = flag.Bool("update", false, "write docs/debezium.md and stop")
	)
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the random values; 0: a new one, which is printed")
	flag.StringVar(&o.cache, "cache", filepath.Join(".cache", "debezium"), "directory of the Java program, logs and data")
	flag.BoolVar(&o.keep, "keep", false, "keep what both sides wrote: a file of each mode in the cache")
	flag.Parse()
	if *update {
		if err := writePage("."); err != nil {
			fail(err)
		}
		return
	}
	var err error
	if o.modes, err = regexp.Compile(*pattern); err != nil {
		fail(fmt.Errorf("-run: %w", err))
	}
	if o.asJSON = *output == "json"; !o.asJSON && *output != "text" {
		fail(fmt.Errorf("-output %q: want text or json", *output))
	}
	if o.servers = strings.Split(*list, ","); o.seed == 0 {
		o.seed = rand.Uint64()
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	good, err := run(ctx, o, *pattern == "")
	if err != nil {
		fail(fmt.Errorf("seed %d: %w", o.seed, err))
	}
	if !good {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "debezium:", err)
	os.Exit(2)
}

// starts are the servers that can be compared.
func starts() map[string]func(context.Context, func(string, ...any)) (source, error) {
	return map[string]func(context.Context, func(string, ...any)) (source, error){
		serverPostgres: startPostgres, serverMySQL: startMySQL("mysql:9.7"), serverMariaDB: startMySQL("mariadb:11.8"),
	}
}

// run compares all; whole tells that every mode of the servers is compared, so that every entry must occur.
func run(ctx context.Context, o options, whole bool) (good bool, err error) {
	logf := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if o.cache, err = filepath.Abs(o.cache); err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.cache, 0o755); err != nil {
		return false, err
	}
	binary, err := process.Build(o.cache)
	if err != nil {
		return false, err
	}
	logf("debezium: seed %d", o.seed)
	c := &comparison{options: o, binary: binary, matrix: newMatrix(), entries: entries(), logf: logf}
	began := time.Now()
	for _, name := range o.servers {
		if err := c.server(ctx, name); err != nil {
			return false, errors.Join(fmt.Errorf("%s: %w", name, err), c.matrix.report(os.Stdout, o.asJSON))
		}
	}
	if err := c.matrix.report(os.Stdout, o.asJSON); err != nil {
		return false, err
	}
	var stale []string
	if whole {
		stale = c.matrix.stale(c.entries, o.servers)
	}
	events := 0
	for _, r := range c.matrix.cells {
		events += r.events
	}
	logf("debezium: %d cells, %d events, %d entries seen, %d differences without an entry, %d entries without a difference, %s, seed %d",
		len(c.matrix.cells), events, len(c.matrix.seen), c.matrix.unexplained(), len(stale), time.Since(began).Round(time.Second), o.seed)
	for _, s := range stale {
		logf("debezium: %s", s)
	}
	if page, err := pageIsCurrent("."); err != nil || !page {
		logf("debezium: docs/debezium.md is not what the entries say: run `make debezium-page`")
		return false, err
	}
	return c.matrix.unexplained() == 0 && len(stale) == 0, nil
}

// stale names the entries that no longer occur.
func (m *matrix) stale(list []entry, compared []string) (out []string) {
	for _, e := range list {
		for _, s := range e.servers {
			if slices.Contains(compared, s) && m.seen[e.id][s] == 0 {
				out = append(out, fmt.Sprintf("entry %s: no difference on %s any more: take it out of the list", e.id, s))
			}
		}
	}
	return out
}
