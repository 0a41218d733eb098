package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/clock"
	"github.com/rowtrail/rowtrail/itest/nodes"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// heal takes a fault back. It does not wait for what follows from that.
type heal func(ctx context.Context) error

// faults carries them out.
type faults struct {
	*nodes.Cluster
	logf    func(format string, args ...any)
	found   func(format string, args ...any) // something is wrong with the cluster
	refused atomic.Int64                     // cut logs that a node refused to start with
	mayEnd  map[*nodes.Member]bool           // a full disk may end a node: what it has mapped cannot be written, which is a fault
	full    map[string]bool                  // directories of nodes whose disk was full once
}

// target is the node that an event is for.
func (f *faults) target(ctx context.Context, e Event) *nodes.Member {
	if e.Leader {
		if m := f.Leader(ctx, registersTopic, int32(e.A%registers)); m != nil {
			return m
		}
	}
	all := f.Members()
	return all[e.A%len(all)]
}

// inject begins an event's faults. What it returns heals them all.
func (f *faults) inject(ctx context.Context, e Event) (heal, error) {
	m := f.target(ctx, e)
	rest := f.Others(m)
	second := rest[e.B%len(rest)]
	first, err := f.begin(ctx, e.Kind, m, second, e)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", e, m, err)
	}
	if e.With == "" {
		return first, nil
	}
	also, err := f.begin(ctx, e.With, second, m, e)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s on %s: %w", e, second, err), first(ctx))
	}
	return func(ctx context.Context) error { return errors.Join(also(ctx), first(ctx)) }, nil
}

// undone makes a heal of an undo, or of nothing.
func undone(undo func() error, err error) (heal, error) {
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return undo() }, nil
}

func (f *faults) begin(ctx context.Context, kind Kind, m, other *nodes.Member, e Event) (heal, error) {
	f.logf("itest: chaos: %s: %s on %s", e, kind, m)
	rest := f.Others(m)
	switch kind {
	case Kill, RestartIn:
		if err := m.Proc.Kill(); err != nil {
			return nil, err
		}
		if kind == Kill {
			sleep.For(ctx, time.Duration(e.Amount*float64(time.Second)))
			return func(context.Context) error { return nil }, m.Proc.Start()
		}
		return func(context.Context) error { return m.Proc.Start() }, nil
	case KillAll:
		return f.killAll()
	case Pause:
		return undone(f.pause(m))
	case Isolate:
		return undone(m.Host.Part(nodes.Hosts(rest)...))
	case Part:
		return f.part(m, rest)
	case Refuse:
		return undone(m.Host.Refuse(nodes.Hosts(rest)...))
	case Partial:
		return undone(m.Host.Part(other.Host))
	case Deaf:
		return undone(m.Host.Deafen(addresses(rest)...))
	case Mute:
		return f.mute(m, rest)
	case Loss:
		return undone(m.Host.Lose(0.02 + 0.4*e.Amount))
	case Slow:
		d := time.Duration((20 + 280*e.Amount) * float64(time.Millisecond))
		return undone(m.Host.Slow(d, d/2, nodes.ClusterPort, nodes.Hosts(rest)...))
	case Narrow:
		return undone(m.Host.Narrow(32<<10 + int(e.Amount*(1<<20))))
	case LowDisk:
		return undone(fill(m, nodes.MinFree/2))
	case FullDisk:
		f.mayEnd[m], f.full[m.Dir] = true, true
		return undone(fill(m, 0))
	case Wipe:
		return f.wipe(m)
	case CutTail:
		return f.cutTail(m, e)
	case Clock:
		return f.moveClock(m, e)
	case Roll:
		return f.roll(ctx)
	case Transfer:
		return f.transfer(ctx)
	case Reassign:
		return f.reassign(ctx, e)
	case Replace:
		return f.replace(ctx, m)
	}
	return nil, fmt.Errorf("no fault of kind %q", kind)
}

func addresses(members []*nodes.Member) []string {
	var all []string
	for _, m := range members {
		all = append(all, m.Host.Address)
	}
	return all
}

func (f *faults) killAll() (heal, error) {
	all := f.Members()
	for _, m := range all {
		if err := m.Proc.Kill(); err != nil {
			return nil, err
		}
	}
	return func(context.Context) error {
		for _, m := range all {
			if err := m.Proc.Start(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (f *faults) pause(m *nodes.Member) (func() error, error) {
	pid := m.Proc.PID()
	resume := func() error {
		if err := syscall.Kill(pid, syscall.SIGCONT); !errors.Is(err, syscall.ESRCH) { // it may have ended meanwhile: crashed tells
			return err
		}
		return nil
	}
	return resume, syscall.Kill(pid, syscall.SIGSTOP)
}

// part cuts a node off from nodes and clients.
func (f *faults) part(m *nodes.Member, rest []*nodes.Member) (heal, error) {
	nodes, err := m.Host.Part(nodes.Hosts(rest)...)
	if err != nil {
		return nil, err
	}
	clients, err := m.Host.Deafen(f.Outer())
	if err != nil {
		return nil, errors.Join(err, nodes())
	}
	return func(context.Context) error { return errors.Join(nodes(), clients()) }, nil
}

func (f *faults) mute(m *nodes.Member, rest []*nodes.Member) (heal, error) {
	var undos []func() error
	undo := func(context.Context) error {
		var errs []error
		for _, u := range undos {
			errs = append(errs, u())
		}
		return errors.Join(errs...)
	}
	for _, o := range rest {
		u, err := o.Host.Deafen(m.Host.Address)
		if err != nil {
			return nil, errors.Join(err, undo(context.Background()))
		}
		undos = append(undos, u)
	}
	return undo, nil
}

// fill leaves so many bytes of a disk free.
func fill(m *nodes.Member, free int64) (func() error, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(m.Disk(), &st); err != nil {
		return nil, fmt.Errorf("how full is the disk: %w", err)
	}
	path := filepath.Join(m.Disk(), "ballast")
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// The node goes on writing meanwhile: what is free is looked at until it is as wanted.
	for size := int64(0); ; {
		more := int64(st.Bavail)*st.Bsize - free
		if more <= 0 {
			break
		}
		err := syscall.Fallocate(int(file.Fd()), 0, size, more)
		if errors.Is(err, syscall.ENOSPC) && more > 1<<20 {
			more /= 2
			err = syscall.Fallocate(int(file.Fd()), 0, size, more)
		}
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("fill the disk: %w", err), os.Remove(path))
		}
		size += more
		if err := syscall.Statfs(m.Disk(), &st); err != nil {
			return nil, errors.Join(err, os.Remove(path))
		}
	}
	return func() error { return os.Remove(path) }, nil
}

// wipe takes a node's disk away.
func (f *faults) wipe(m *nodes.Member) (heal, error) {
	if err := m.Proc.Kill(); err != nil {
		return nil, err
	}
	return func(context.Context) error { return m.Proc.Start() }, os.RemoveAll(m.Data())
}

// cutTail takes the end of what a node wrote last. One that refuses to start with that has lost its disk.
func (f *faults) cutTail(m *nodes.Member, e Event) (heal, error) {
	if err := m.Proc.Kill(); err != nil {
		return nil, err
	}
	pattern := "*.mem"
	if e.B%2 == 0 {
		pattern = "*.vlog"
	}
	cut, err := cutNewest(m.Data(), pattern, 1+int64(e.Amount*e.Amount*float64(256<<10)))
	if err != nil {
		return nil, errors.Join(err, m.Proc.Start())
	}
	f.logf("itest: chaos: %s: %s of %s", e, cut, m)
	if err := m.Proc.Start(); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		if running, _ := m.Proc.Runs(); running {
			return nil
		}
		f.refused.Add(1)
		f.logf("itest: chaos: %s refused to start: %s", m, m.Proc.Tail(2))
		if err := errors.Join(m.Proc.Kill(), os.RemoveAll(m.Data())); err != nil {
			return err
		}
		return m.Proc.Start()
	}, nil
}

// cutNewest cuts bytes off the end of what is written in the newest file of a pattern below a directory. Behind that end a file is
// zeros, which stay.
func cutNewest(dir, pattern string, bytes int64) (string, error) {
	var newest string
	var at time.Time
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// The log's files, and not those of what can be rebuilt from it.
		if ok, _ := filepath.Match(pattern, d.Name()); ok && strings.Contains(path, "/log/") && info.ModTime().After(at) {
			newest, at = path, info.ModTime()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if newest == "" {
		return "", fmt.Errorf("no %s below %s", pattern, dir)
	}
	data, err := os.ReadFile(newest)
	if err != nil {
		return "", err
	}
	end := int64(len(data))
	for end > 0 && data[end-1] == 0 {
		end--
	}
	from := max(end-bytes, end*2/3)
	clear(data[from:end])
	return fmt.Sprintf("the last %d bytes of %s, from %d on, are gone", end-from, filepath.Base(newest), from), os.WriteFile(newest, data, 0o644)
}

const maxClock = 25 * time.Minute // message.timestamp.after.max.ms is an hour

func (f *faults) moveClock(m *nodes.Member, e Event) (heal, error) {
	c, err := clock.Take(m.Proc.PID())
	if errors.Is(err, clock.ErrNone) {
		f.logf("itest: chaos: %s: %v", e, err)
		return func(context.Context) error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	d := time.Duration((2*e.Amount - 1) * float64(maxClock))
	return func(context.Context) error {
		if running, _ := m.Proc.Runs(); !running || m.Proc.PID() != c.PID {
			return nil // a new process has a clock of its own
		}
		return c.Set(0)
	}, c.Set(d)
}

// roll stops and starts one node after the other, as an upgrade does.
func (f *faults) roll(ctx context.Context) (heal, error) {
	for _, m := range f.Members() {
		if err := m.Proc.Stop(); err != nil {
			f.found("%s: %v", m, err)
		}
		if err := m.Proc.Start(); err != nil {
			return nil, err
		}
		if err := m.Proc.WaitReady(ctx); err != nil {
			f.found("%s, which was stopped and started alone: %v", m, err)
		}
	}
	return func(context.Context) error { return nil }, nil
}

// adminTimeout bounds an operation; one that fails is no violation, as clients try again.
const adminTimeout = 10 * time.Second

func (f *faults) admin(ctx context.Context, what string, op func(ctx context.Context, adm *kadm.Client) error) error {
	cl, err := f.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if err := op(ctx, kadm.NewClient(cl)); err != nil {
		f.logf("itest: chaos: %s: %v", what, err)
	}
	return nil
}

func (f *faults) transfer(ctx context.Context) (heal, error) {
	return func(context.Context) error { return nil }, f.admin(ctx, "transfer", func(ctx context.Context, adm *kadm.Client) error {
		results, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
		for _, partitions := range results {
			for _, p := range partitions {
				err = errors.Join(err, p.Err)
			}
		}
		return err
	})
}

// reassign moves the replicas of one topic by one node, as an operator does. What is refused is no violation: another fault may be in its way.
func (f *faults) reassign(ctx context.Context, e Event) (heal, error) {
	all := f.Members()
	topics := append(load.Topics(), registersTopic)
	topic := topics[e.B%len(topics)]
	for p := range load.Partitions {
		var to []string
		for i := range replicas {
			to = append(to, fmt.Sprint(all[(e.A+i+p)%len(all)].ID))
		}
		asking, cancel := context.WithTimeout(ctx, adminTimeout)
		_, err := all[(e.A+p)%len(all)].Proc.CLI(asking, "cluster", "reassign", topic, fmt.Sprint(p), strings.Join(to, ","))
		cancel()
		if err != nil {
			f.logf("itest: chaos: %s: %v", e, err)
		}
	}
	return func(context.Context) error { return nil }, nil
}

// replaceTimeout bounds each step of a replacement.
const replaceTimeout = 90 * time.Second

// replace drains and removes a node; another one joins on another host.
func (f *faults) replace(ctx context.Context, m *nodes.Member) (heal, error) {
	if f.Spares() == 0 {
		return nil, errors.New("no spare host")
	}
	nothing := func(context.Context) error { return nil }
	rest := f.Others(m)
	joins := f.Next()
	if err := f.Add(joins, rest); err != nil {
		return nil, err
	}
	if err := joins.Proc.WaitReady(ctx); err != nil {
		f.found("%s does not join: %v", joins, err)
		return nothing, nil
	}
	for _, command := range []string{"drain", "remove"} {
		doing, cancel := context.WithTimeout(ctx, replaceTimeout)
		out, err := rest[0].Proc.CLI(doing, "cluster", command, fmt.Sprint(m.ID))
		cancel()
		if err != nil {
			f.found("%s %s, with all other nodes up: %v: %s", command, m, err, out)
			return nothing, nil
		}
	}
	if err := f.endsRemoved(ctx, m); err != nil {
		f.found("%s, which was removed: %v; its last lines:\n%s", m, err, m.Proc.Tail(5))
	}
	if err := m.Proc.Kill(); err != nil {
		return nil, err
	}
	f.logf("itest: chaos: %s has taken the place of %s", joins, m)
	return nothing, f.Drop(m)
}

// endsRemoved waits until a removed node has ended by itself and said why.
func (f *faults) endsRemoved(ctx context.Context, m *nodes.Member) error {
	ctx, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	for {
		if running, _ := m.Proc.Runs(); !running {
			break
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return errors.New("its process runs on")
		}
	}
	if !strings.Contains(m.Proc.Tail(5), "removed from the cluster; empty the data directory") {
		return errors.New("it ended for another reason")
	}
	return nil
}

// crashed starts nodes again that have ended by themselves, and says which of them had no reason to.
func (f *faults) crashed() ([]string, error) {
	var found []string
	for _, m := range f.Members() {
		running, exit := m.Proc.Runs()
		if running || exit == nil {
			continue
		}
		if !f.mayEnd[m] {
			found = append(found, fmt.Sprintf("%s ended by itself: %v; its last lines:\n%s", m, exit, m.Proc.Tail(30)))
		} else {
			f.logf("itest: chaos: %s ended by itself on a full disk: %s", m, m.Proc.Tail(1))
		}
		if err := errors.Join(m.Proc.Kill(), m.Proc.Start()); err != nil {
			return found, err
		}
	}
	clear(f.mayEnd)
	return slices.Clip(found), nil
}
