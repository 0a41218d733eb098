package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const partitions = 3

// Plan is how a run is asked for.
type Plan struct {
	Server   string
	Duration time.Duration
	Seed     uint64
	Binary   string
	Logf     func(format string, args ...any)
}

// Result is what a run did.
type Result struct {
	Rounds, Compared, Faults int
	Transactions, Failed     int64
	Statements, Changes      int // DDL among the statements
	Audited                  int // row changes that the log was held against
}

func (r *Result) String() string {
	return fmt.Sprintf("rounds=%d compared=%d transactions=%d failed=%d statements=%d ddl=%d faults=%d audited=%d different=0",
		r.Rounds, r.Compared, r.Transactions, r.Failed, r.Statements, r.Changes, r.Faults, r.Audited)
}

type run struct {
	Plan
	pipeline.Pipeline
	d     *dialect
	g     *generator
	src   source
	audit auditor // nil: the source does not tell
	mysql mysqlPair

	namespace   string // schema or database
	ends        func(context.Context) (source, target end, err error)
	crashTarget func(context.Context) error

	commits *commits
	journal *journal
	dir     string
	result  Result

	watched bool // the source's commits are noted

	done, failed atomic.Int64 // transactions
}

// Run executes the plan that the seed gives, until the time is over or something is different.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	d, ok := dialectOf(plan.Server)
	if !ok {
		return nil, fmt.Errorf("SOURCE=%s: want postgres, mysql or mariadb", plan.Server)
	}
	dir, err := os.MkdirTemp("", "rowtrail-fuzzcdc-")
	if err != nil {
		return nil, err
	}
	r := &run{Plan: plan, d: d, g: newGenerator(d, plan.Seed), dir: dir, commits: newCommits()}
	r.Logf("itest: fuzz-cdc seed %d: %s for %s", plan.Seed, plan.Server, plan.Duration)
	if r.journal, err = newJournal(dir); err != nil {
		return nil, err
	}
	err = r.run(ctx)
	if closeErr := r.journal.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		err = fmt.Errorf("%w\nkept in %s: SOURCE=%s SEED=%d make fuzz-cdc repeats its statements and faults", err, dir, plan.Server, plan.Seed)
	}
	err = errors.Join(err, r.close(err != nil))
	return &r.result, err
}

// close ends everything; the directory of a failed run stays.
func (r *run) close(keep bool) error {
	if r.Node != nil && keep {
		if err := r.Node.Kill(); err != nil {
			return err
		}
		r.Node = nil // its directory is not removed with it
	}
	err := errors.Join(r.Close(), r.closeMySQL())
	if !keep {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

func (r *run) run(ctx context.Context) error {
	setUp := r.setUp
	if r.Server != "postgres" {
		setUp = r.setUpMySQL
	}
	if err := setUp(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(r.Duration)
	var round *round
	for time.Now().Before(deadline) {
		round = r.g.round()
		if err := r.round(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round.number, err)
		}
		r.result.Rounds++
		if n := r.result.Rounds; n&(n-1) == 0 {
			if err := r.auditLog(ctx, round); err != nil {
				return fmt.Errorf("round %d: %w", round.number, err)
			}
			r.Logf("itest: fuzz-cdc: %s", r.summary())
		}
	}
	if round == nil {
		return nil
	}
	if err := r.auditLog(ctx, round); err != nil {
		return fmt.Errorf("round %d: %w", round.number, err)
	}
	r.summary()
	return nil
}

func (r *run) summary() *Result {
	r.result.Transactions, r.result.Failed = r.done.Load(), r.failed.Load()
	r.result.Statements = r.journal.count
	return &r.result
}

func (r *run) setUp(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(r.Seed, 2)) // of settings, so that they do not move the statements
	settings := map[string]string{"wal_sender_timeout": "10s", "autovacuum_naptime": "5s"}
	if oneIn(rng, 2) {
		settings["logical_decoding_work_mem"] = "64kB"
	}
	if err := r.StartServers(ctx, pipeline.Options{Source: settings, Load: r.loadPostgres, Logf: r.Logf}); err != nil {
		return err
	}
	r.src, r.audit, r.namespace = &postgresSource{r.Source, r.Source.DSN}, &postgresAudit{r.Source.DSN}, "public"
	r.crashTarget = func(ctx context.Context) error { return r.Target.Restart(ctx, servers.Immediate) }
	r.ends = r.postgresEnds
	connectors, sinks := pipeline.Tasks(r.Source.DSN, r.Target.DSN, partitions)
	connectors[0].Config["skipped.operations"] = "none" // truncates, too
	connectors[0].Config["time.precision.mode"] = pick(rng, []string{"adaptive", "adaptive_time_microseconds", "isostring"})
	connectors[0].Config["decimal.handling.mode"] = pick(rng, []string{"precise", "string"})
	if oneIn(rng, 2) {
		sinks[0].Config["batch.max.rows"] = fmt.Sprint(1 + rng.IntN(50))
	}
	sinks[0].Topics = append(sinks[0].Topics, "!"+pipeline.Prefix+".public.keyless*")
	if err := r.startNode(process.Config{Connectors: connectors, Sinks: sinks}); err != nil {
		return err
	}
	if oneIn(rng, 2) { // the tables are loaded while they are written
		return nil
	}
	if err := r.awaitStreaming(ctx); err != nil {
		return err
	}
	return r.watch(ctx)
}

func (r *run) loadPostgres(ctx context.Context, source *pipeline.End) error {
	return pipeline.WithConn(ctx, source.DSN, func(conn *pgx.Conn) error {
		return r.load(ctx, &postgresSession{conn}, append(postgresSetUp(), r.g.start()...))
	})
}

func (r *run) postgresEnds(ctx context.Context) (end, end, error) {
	source, err := openPostgres(ctx, r.Source.DSN)
	if err != nil {
		return nil, nil, err
	}
	target, err := openPostgres(ctx, r.Target.DSN)
	if err != nil {
		source.close()
		return nil, nil, err
	}
	return source, target, nil
}

// load makes the first tables. A row that the server refuses is not there.
func (r *run) load(ctx context.Context, s session, list []string) error {
	for _, sql := range list {
		outcome := "done"
		if _, err := s.exec(ctx, sql); err != nil {
			if !strings.HasPrefix(sql, "INSERT") {
				return fmt.Errorf("%s: %w", sql, err)
			}
			outcome = err.Error()
		}
		r.journal.add("start", statement{sql: sql}, outcome)
	}
	return nil
}

func (r *run) startNode(config process.Config) error {
	dir := filepath.Join(r.dir, "node")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	config.Node = map[string]string{"min_free_bytes": "64MiB"}
	var err error
	if r.Node, err = process.New(r.Binary, dir, config); err != nil {
		return err
	}
	return r.Node.Start()
}

// watch begins to note what the source commits, at a moment when the log has all of it.
func (r *run) watch(ctx context.Context) error {
	if r.watched || r.audit == nil {
		return nil
	}
	r.watched = true
	return pipeline.WithConn(ctx, r.Source.DSN, func(c *pgx.Conn) error {
		if err := c.QueryRow(ctx, "SELECT pg_current_xact_id()::text::bigint").Scan(&r.commits.since); err != nil {
			return err
		}
		return audit.Watch(ctx, c)
	})
}

// round runs the scripts with the changes of tables and the faults between them, and compares.
func (r *run) round(ctx context.Context, round *round) error {
	r.journal.note("round %d", round.number)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := r.done.Load() + r.failed.Load()
	reached := make([]chan struct{}, segments)
	for i := range reached {
		reached[i] = make(chan struct{})
	}
	var once [segments]sync.Once
	reach := func(segment int) { once[segment].Do(func() { close(reached[segment]) }) }
	errs := make(chan error, sessions+2)
	var writers, others sync.WaitGroup
	for n := range sessions {
		writers.Go(func() {
			w := &worker{run: r, name: fmt.Sprintf("session %d", n), rounds: round.scripts[n], settings: round.settings[n], reach: reach}
			if err := w.work(ctx); err != nil {
				errs <- err
			}
		})
	}
	writers.Go(func() {
		for segment, steps := range round.ddl {
			select {
			case <-reached[segment]:
			case <-ctx.Done():
				return
			}
			for _, step := range steps {
				if err := r.alter(ctx, step); err != nil {
					errs <- err
					return
				}
			}
		}
	})
	finished := make(chan struct{})
	others.Go(func() {
		for _, f := range round.faults {
			for r.done.Load()+r.failed.Load()-before < int64(f.after) {
				select {
				case <-finished:
				case <-ctx.Done():
					return
				case <-time.After(5 * time.Millisecond):
					continue
				}
				break
			}
			if err := r.fault(ctx, f.kind); err != nil {
				errs <- fmt.Errorf("%s: %w", f.kind, err)
				return
			}
		}
	})
	writers.Wait()
	close(finished)
	others.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	return r.quiet(ctx, round)
}

func (r *run) fault(ctx context.Context, kind faultKind) error {
	r.journal.note("fault: %s", kind)
	r.result.Faults++
	switch kind {
	case killNode:
		if err := r.Node.Kill(); err != nil {
			return err
		}
		return r.Node.Start()
	case stopNode:
		// A node that is asked to end while it starts may end with an error: that is no fault of its data.
		if err := r.Node.WaitReady(ctx); err != nil {
			return err
		}
		if err := r.Node.Stop(); err != nil {
			return err
		}
		return r.Node.Start()
	case pauseNode:
		if err := r.Node.Pause(); err != nil {
			return err
		}
		sleep.For(ctx, time.Second)
		return r.Node.Resume()
	case restartConnector:
		return r.restartConnector(ctx)
	case crashSource:
		return r.src.restart(ctx, servers.Immediate)
	case restartSource:
		return r.src.restart(ctx, servers.Fast)
	case crashTarget:
		return r.crashTarget(ctx)
	case cutSessions:
		return r.src.cut(ctx)
	}
	return fmt.Errorf("fault %d is unknown", kind)
}

func (r *run) restartConnector(ctx context.Context) error {
	if err := r.Node.WaitReady(ctx); err != nil {
		return err
	}
	var err error
	for range 50 { // a node that has just started has not told yet who runs what
		if _, err = r.Node.CLI(ctx, "connectors", "restart", "shop"); err == nil {
			return nil
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	return err
}
