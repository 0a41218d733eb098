package cluster

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))
}

// diskLog is what a memory node keeps of one group across crashes.
type diskLog struct {
	mu          sync.Mutex
	entries     []log.Entry // entries[i] has index i+1
	hs          log.HardState
	truncations int
}

// disk is an in-memory Committer.
type disk struct {
	mu    sync.Mutex
	logs  map[log.GroupID]*diskLog
	syncs int
	fail  error
	full  int           // so many commits are refused for lack of space
	hold  chan struct{} // not nil: Commit waits for it
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
	seen := map[log.GroupID]bool{}
	for _, m := range ms {
		if seen[m.Group] {
			return errors.New("a group stands twice in one commit")
		}
		seen[m.Group] = true
		l := d.log(m.Group)
		l.mu.Lock()
		if m.TruncateFrom != 0 {
			l.entries = append([]log.Entry(nil), l.entries[:m.TruncateFrom-1]...)
			l.truncations++
		}
		for _, e := range m.Entries {
			if e.Index != uint64(len(l.entries))+1 {
				l.mu.Unlock()
				return errors.New("gap or overlap in a group's log")
			}
			l.entries = append(l.entries, e)
		}
		if m.HardState != nil {
			l.hs = *m.HardState
		}
		l.mu.Unlock()
	}
	return nil
}

var errRefused = errors.New("refused")

// memLog is a StateMachine and EntryStore over a diskLog. A payload is an 8-byte offset that Stage stamps, a 4-byte epoch
// and text; each takes one offset. Text "bad" is refused; a text that was staged before is a duplicate.
type memLog struct {
	disk *diskLog

	applied  uint64
	hwm      int64
	texts    []string // applied, by offset
	byText   map[string]int64
	staged   []memStaged // behind the high watermark, by offset
	unstaged int
	followed int
}

type memStaged struct {
	text        string
	index, term uint64 // index 0: proposed here
}

// newMemLog opens what is on disk: all of it is unapplied, as after a crash without a checkpoint.
func newMemLog(d *diskLog) *memLog {
	m := &memLog{disk: d, byText: map[string]int64{}}
	m.Follow(d.entries)
	m.followed = 0
	return m
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
			at := m.hwm + int64(i)
			return log.Staged{BaseOffset: at, LastOffset: at, Duplicate: true}, nil
		}
	}
	at := m.hwm + int64(len(m.staged))
	binary.BigEndian.PutUint64(p, uint64(at))
	binary.BigEndian.PutUint32(p[8:], uint32(epoch))
	m.staged = append(m.staged, memStaged{text: text, term: uint64(epoch)})
	return log.Staged{BaseOffset: at, LastOffset: at}, nil
}

func (m *memLog) Unstage(s log.Staged) {
	m.unstaged++
	m.staged = m.staged[:s.BaseOffset-m.hwm]
}

func (m *memLog) Follow(es []log.Entry) {
	for _, e := range es {
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
	for _, e := range es {
		if e.Index != m.applied+1 {
			panic("applied out of order")
		}
		m.applied = e.Index
		if e.Type != log.EntryBatch {
			continue
		}
		if int64(binary.BigEndian.Uint64(e.Data)) != m.hwm {
			panic("offsets are not dense")
		}
		text := string(e.Data[12:])
		m.texts = append(m.texts, text)
		m.byText[text] = m.hwm
		m.hwm++
		if len(m.staged) > 0 && m.staged[0].text == text {
			m.staged = m.staged[1:]
		}
	}
}

func (m *memLog) AppliedIndex() uint64 { return m.applied }

func (m *memLog) HardState() log.HardState {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.hs
}

func (m *memLog) FirstIndex() uint64 { return 1 }

func (m *memLog) LastIndex() uint64 {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return uint64(len(m.disk.entries))
}

func (m *memLog) Term(i uint64) (uint64, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if i == 0 {
		return 0, nil
	}
	return m.disk.entries[i-1].Term, nil
}

func (m *memLog) Entries(lo, hi, maxBytes uint64) ([]log.Entry, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	var out []log.Entry
	var size uint64
	for _, e := range m.disk.entries[lo-1 : hi-1] {
		size += uint64(len(e.Data))
		if len(out) > 0 && size > maxBytes {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

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
