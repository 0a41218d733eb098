package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))
}

// memFold is what a memory log's applied entries come to.
type memFold struct {
	index, term uint64
	texts       []string // by offset; never changed in place
	start       int64    // the log start
	conf        []byte   // nil: the group's first configuration
}

// copy shares the texts: either side that appends to them gets its own.
func (f *memFold) copy() memFold {
	c := *f
	c.texts = f.texts[:len(f.texts):len(f.texts)]
	return c
}

func (f *memFold) apply(e *log.Entry) {
	if e.Index != f.index+1 {
		panic(fmt.Sprintf("entry %d is applied behind entry %d", e.Index, f.index))
	}
	f.index, f.term = e.Index, e.Term
	switch {
	case e.Type == log.EntryBatch:
		if at := int64(binary.BigEndian.Uint64(e.Data)); at != int64(len(f.texts)) {
			panic(fmt.Sprintf("entry %d has offset %d, the log ends at %d", e.Index, at, len(f.texts)))
		}
		f.texts = append(f.texts, string(e.Data[12:]))
	case e.Type == log.EntryTrim:
		to, _ := binary.Varint(e.Data[2:])
		f.start = max(f.start, min(to, int64(len(f.texts))))
	case len(e.Data) > 0:
		conf, err := Configuration(e.Type, e.Data)
		if err != nil {
			panic(err)
		}
		f.conf = conf
	}
}

// diskLog is what a memory node keeps of one group across crashes.
type diskLog struct {
	mu          sync.Mutex
	base        memFold     // at the horizon
	check       memFold     // the last checkpoint
	entries     []log.Entry // entries[i] has index base.index+1+i
	hs          log.HardState
	truncations int
	live        *memLog // nil: not open
}

func (l *diskLog) last() uint64 { return l.base.index + uint64(len(l.entries)) }

// holds reports that an entry is durable here.
func (l *diskLog) holds(index, term uint64) bool {
	return index <= l.base.index || index <= l.last() && l.entries[index-l.base.index-1].Term == term
}

// checkpoint makes what is applied durable, and as in the log proper the commit that it proves.
func (l *diskLog) checkpoint() {
	if l.live != nil {
		l.check = l.live.fold.copy()
		l.hs.Commit = max(l.hs.Commit, l.check.index)
	}
}

// compact moves the horizon.
func (l *diskLog) compact(to uint64) {
	for l.base.index < to {
		l.base.apply(&l.entries[0])
		l.entries = l.entries[1:]
	}
	if l.check.index < to {
		l.check = l.base.copy()
	}
}

// write carries out a mutation. cut bounds the steps that become durable, as where a crash comes between the transactions of a large commit.
func (l *diskLog) write(m *log.Mutation, cut *int) error {
	if in, ok := m.Install.(*memInstall); ok {
		if m.HardState == nil {
			return errors.New("a raftSnapshot is installed without the term and vote that go with it")
		}
		if *cut--; *cut < 0 {
			return nil
		}
		in.done++
		l.base, l.check, l.entries = in.fold.copy(), in.fold.copy(), nil
		if l.live != nil {
			l.live.install(in.fold.copy())
		}
		l.hs.Commit = max(l.hs.Commit, in.fold.index)
	}
	if m.HardState != nil {
		if *cut--; *cut < 0 {
			return nil
		}
		l.hs = *m.HardState
		l.hs.Commit = min(l.hs.Commit, l.last())
	}
	if m.TruncateFrom != 0 {
		l.truncations++
		if m.TruncateFrom <= l.base.index {
			return errors.New("a truncation below the horizon")
		}
		for l.last() >= m.TruncateFrom {
			if *cut--; *cut < 0 {
				return nil
			}
			l.entries = l.entries[: len(l.entries)-1 : len(l.entries)-1]
		}
	}
	for _, e := range m.Entries {
		if *cut--; *cut < 0 {
			return nil
		}
		if e.Index != l.last()+1 {
			return fmt.Errorf("entry %d behind entry %d: gap or overlap in a group's log", e.Index, l.last())
		}
		if m.HardState != nil && e.Type == log.EntryMetaV2 {
			l.hs.Commit = min(m.HardState.Commit, l.last())
		}
		l.entries = append(l.entries, e)
	}
	if m.HardState != nil {
		if *cut--; *cut < 0 {
			return nil
		}
		l.hs.Commit = max(l.hs.Commit, min(m.HardState.Commit, l.last()))
	}
	return nil
}

// memInstall is a raftSnapshot that has arrived at a memory node.
type memInstall struct {
	fold memFold
	done int // how often it was installed or discarded
}

func (i *memInstall) LastIndex() uint64 { return i.fold.index }
func (i *memInstall) Discard() error    { i.done++; return nil }

// disk is an in-memory Committer.
type disk struct {
	mu    sync.Mutex
	logs  map[log.GroupID]*diskLog
	syncs int
	fail  error
	full  int           // so many commits are refused for lack of space
	hold  chan struct{} // not nil: Commit waits for it
	// crash, when not nil, says how many steps of the next commit become durable, and the error that it ends with.
	crash func() (steps int, err error)
	ride  func(*diskLog) // not nil: what a commit of the log carries besides
	steps int            // that became durable
	last  int            // behind this one power is lost; 0: never
	died  func()         // called then, not nil
}

func newDisk() *disk { return &disk{logs: map[log.GroupID]*diskLog{}} }

func (d *disk) log(id log.GroupID) *diskLog {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.logs[id]
	if l == nil {
		l = &diskLog{}
		d.logs[id] = l
	}
	return l
}

func (d *disk) Commit(ms []log.Mutation) error {
	if d.hold != nil {
		<-d.hold
	}
	if d.fail != nil {
		return d.fail
	}
	d.mu.Lock()
	if d.full > 0 {
		d.full--
		d.mu.Unlock()
		return log.ErrDiskFull
	}
	d.syncs++
	d.mu.Unlock()
	cut, crashed := math.MaxInt, error(nil)
	if d.crash != nil {
		cut, crashed = d.crash()
	}
	if d.last > 0 {
		cut = min(cut, d.last-d.steps)
	}
	before := cut
	seen := map[log.GroupID]bool{}
	for i := range ms {
		m := &ms[i]
		if seen[m.Group] {
			return errors.New("a group stands twice in one commit")
		}
		seen[m.Group] = true
		l := d.log(m.Group)
		l.mu.Lock()
		err := l.write(m, &cut)
		if d.ride != nil && crashed == nil {
			d.ride(l)
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if d.steps += before - max(cut, 0); d.last > 0 && d.steps >= d.last {
		d.died()
		return errSimCrash
	}
	return crashed
}

var errRefused = errors.New("refused")

// memLog is a StateMachine and EntryStore over a diskLog. A payload is an 8-byte offset that Stage stamps, a 4-byte epoch
// and text; each takes one offset. Text "bad" is refused; a text that was staged before is a duplicate.
type memLog struct {
	disk *diskLog

	fold     memFold // applied
	byText   map[string]int64
	staged   []memStaged // behind the high watermark, by offset
	unstaged int
	followed int
	several  bool   // there are more members
	shared   uint64 // as the horizon rule says
	keep     int64  // records that retention keeps; 0: all
	seen     func(*memLog, *log.Entry)
}

type memStaged struct {
	text        string
	index, term uint64 // index 0: proposed here
}

// newMemLog opens what is on disk, as the log proper does: what is known to be committed is applied.
func newMemLog(d *diskLog) *memLog {
	m := &memLog{disk: d, fold: d.base.copy(), byText: map[string]int64{}}
	if d.check.index > d.base.index {
		m.fold = d.check.copy()
	}
	d.live = m
	for at := m.fold.index; at < min(d.hs.Commit, d.last()); at++ {
		m.fold.apply(&d.entries[at-d.base.index])
	}
	m.index(0)
	m.Follow(d.entries)
	m.followed = 0
	return m
}

func (m *memLog) index(from int) {
	for i := from; i < len(m.fold.texts); i++ {
		m.byText[m.fold.texts[i]] = int64(i)
	}
}

func (m *memLog) hwm() int64 { return int64(len(m.fold.texts)) }

// install is the log proper's: it has taken effect when the commit returns.
func (m *memLog) install(f memFold) {
	m.fold, m.staged = f, nil
	m.index(0)
}

func payload(text string) []byte { return append(make([]byte, 12), text...) }

func (m *memLog) Stage(epoch int32, p []byte, _ time.Time) (log.Staged, error) {
	text := string(p[12:])
	if text == "bad" {
		return log.Staged{}, errRefused
	}
	if at, ok := m.byText[text]; ok {
		return log.Staged{BaseOffset: at, LastOffset: at, Duplicate: true}, nil
	}
	for i, s := range m.staged {
		if s.text == text {
			at := m.hwm() + int64(i)
			return log.Staged{BaseOffset: at, LastOffset: at, Duplicate: true}, nil
		}
	}
	at := m.hwm() + int64(len(m.staged))
	binary.BigEndian.PutUint64(p, uint64(at))
	binary.BigEndian.PutUint32(p[8:], uint32(epoch))
	m.staged = append(m.staged, memStaged{text: text, term: uint64(epoch)})
	return log.Staged{BaseOffset: at, LastOffset: at}, nil
}

func (m *memLog) Unstage(s log.Staged) {
	m.unstaged++
	m.staged = m.staged[:s.BaseOffset-m.hwm()]
}

func (m *memLog) Follow(es []log.Entry) {
	for i := range es {
		e := &es[i]
		if e.Index <= m.fold.index {
			continue
		}
		m.followed++
		// What stands at its index or above, or was proposed in an earlier term, has lost its place to it; or it is in
		// the log before it, and then it is applied before anything is staged again.
		kept := m.staged[:0]
		for _, s := range m.staged {
			if s.index != 0 && s.index < e.Index || s.index == 0 && s.term >= e.Term {
				kept = append(kept, s)
			}
		}
		m.staged = kept
		if e.Type == log.EntryBatch {
			m.staged = append(m.staged, memStaged{string(e.Data[12:]), e.Index, e.Term})
		}
	}
}

func (m *memLog) Apply(es []log.Entry) {
	for i := range es {
		e := &es[i]
		before := len(m.fold.texts)
		m.fold.apply(e)
		m.index(before)
		if e.Type == log.EntryBatch && len(m.staged) > 0 && m.staged[0].text == m.fold.texts[before] {
			m.staged = m.staged[1:]
		}
		if m.seen != nil {
			m.seen(m, e)
		}
	}
}

func (m *memLog) AppliedIndex() uint64 { return m.fold.index }

func (m *memLog) HardState() log.HardState {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.hs
}

func (m *memLog) FirstIndex() uint64 {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.base.index + 1
}

func (m *memLog) LastIndex() uint64 {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.last()
}

func (m *memLog) Term(i uint64) (uint64, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	switch base := m.disk.base.index; {
	case i < base:
		return 0, log.ErrCompacted
	case i == base:
		return m.disk.base.term, nil
	case i > m.disk.last():
		return 0, log.ErrUnavailable
	default:
		return m.disk.entries[i-base-1].Term, nil
	}
}

func (m *memLog) Entries(lo, hi, maxBytes uint64) ([]log.Entry, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	base := m.disk.base.index
	if lo <= base {
		return nil, log.ErrCompacted
	}
	if hi > m.disk.last()+1 {
		return nil, log.ErrUnavailable
	}
	var out []log.Entry
	var size uint64
	for _, e := range m.disk.entries[lo-base-1 : hi-base-1] {
		size += uint64(len(e.Data))
		if len(out) > 0 && size > maxBytes {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// Configuration and Horizon implement SnapshotStore.
func (m *memLog) Configuration() []byte { return m.fold.conf }

func (m *memLog) Horizon() (index, term uint64, configuration []byte) {
	return m.disk.base.index, m.disk.base.term, m.disk.base.conf
}

// SetShared and Bytes implement Sharer.
func (m *memLog) SetShared(several bool, index uint64) {
	if m.several = several; several {
		m.shared = max(m.shared, index)
	} else {
		m.shared = 0
	}
}

func (m *memLog) Bytes() int64 { return int64(len(m.disk.entries)) }

// compact moves the horizon as far as it may go.
func (m *memLog) compact() {
	to := m.fold.index
	if m.several {
		to = min(to, m.shared)
	}
	m.disk.compact(to)
}

// Outgrown, RetainTo and ForgetIdle implement Retainer.
func (m *memLog) Outgrown() bool { return m.keep > 0 && m.hwm()-m.fold.start > 2*m.keep }

func (m *memLog) RetainTo(time.Time) (int64, bool) {
	to := m.hwm() - m.keep
	return to, m.keep > 0 && to > m.fold.start
}

func (m *memLog) ForgetIdle(time.Time) {}

// memNode is a scheduler over memory, started or driven by hand.
func memScheduler(d *disk, workers int, onFatal func(error)) *scheduler {
	return newScheduler(schedulerConfig{
		store: d, transport: noPeers{}, workers: workers, logger: quiet(), now: time.Now, onFatal: onFatal,
	})
}

func openMem(s *scheduler, d *disk, id log.GroupID) (*group, *memLog, error) {
	m := newMemLog(d.log(id))
	g, err := s.open(groupConfig{id: id, self: Member{Node: 1}, first: []Member{{Node: 1}}, sm: m, store: m, logger: quiet()})
	return g, m, err
}

// nullStore and nullLog keep nothing, to measure what is around them.
type nullStore map[log.GroupID]*nullLog

func (s nullStore) Commit(ms []log.Mutation) error {
	for i := range ms {
		if n := len(ms[i].Entries); n > 0 {
			last := &ms[i].Entries[n-1]
			l := s[ms[i].Group]
			l.last.Store(last.Index)
			l.term.Store(last.Term)
		}
	}
	return nil
}

type nullLog struct {
	applied    uint64
	next       int64
	last, term atomic.Uint64
}

func (l *nullLog) Stage(int32, []byte, time.Time) (log.Staged, error) {
	l.next++
	return log.Staged{BaseOffset: l.next - 1, LastOffset: l.next - 1}, nil
}
func (l *nullLog) Unstage(log.Staged)       {}
func (l *nullLog) Follow([]log.Entry)       {}
func (l *nullLog) Apply(es []log.Entry)     { l.applied = es[len(es)-1].Index }
func (l *nullLog) AppliedIndex() uint64     { return l.applied }
func (l *nullLog) HardState() log.HardState { return log.HardState{} }
func (l *nullLog) FirstIndex() uint64       { return 1 }
func (l *nullLog) LastIndex() uint64        { return l.last.Load() }
func (l *nullLog) Term(i uint64) (uint64, error) {
	if i == 0 {
		return 0, nil
	}
	return l.term.Load(), nil
}
func (l *nullLog) Entries(_, _, _ uint64) ([]log.Entry, error) {
	return nil, errors.New("a durable entry was not in the tail")
}
