package chunks

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// simState is a table's rows by the key as the server compares it.
type simState map[string][3]string

type simChange struct {
	table         int
	before, after event.Row
	truncate      bool
}

const (
	simTables  = 3
	simKeyless = 2 // the table without a key
	simUUID    = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
)

// sim is a server, a stream of its binlog, loads beside it and the log that both write. The server flushes a transaction to its
// binlog, later commits it to the engine, and later adds it to gtid_executed; the stream may be ahead of either.
type sim struct {
	t       *testing.T
	r       *rand.Rand
	gtids   bool
	minimal bool

	states            [][]simState  // after so many transactions
	txs               [][]simChange // in the binlog
	visible, executed int

	at       int // transactions that the stream has passed on
	load     *Load
	tasks    []*simTask
	captured [simTables]bool
	loaded   [simTables]bool
	log      []simEvent

	saved   simSaved
	checks  int
	checked [2]int
	told    int
}

type simSaved struct {
	at               int
	token            []byte
	captured, loaded [simTables]bool
	log              int
}

type simEvent struct {
	table         int
	before, after event.Row // of a read event after alone
	truncate      bool
	read          bool
}

type simTask struct {
	*Task
	step, snapshot int
}

func simPlan(table int, filter string) *Plan {
	t := Table{Database: "d", Name: fmt.Sprint("t", table), Columns: []string{"id", "a", "b"}}
	if table != simKeyless {
		t.Keys = []Key{{Name: primary, Columns: []KeyColumn{{Name: "id", DataType: "varchar"}}}}
	}
	return NewPlan(t, filter, "")
}

func (s *sim) pick(n int) int { return s.r.IntN(n) }

// point is a position in what the server tells: files and sets alike.
func (s *sim) point(n int) Point {
	p := Point{Server: "s", File: "bin.000001", Pos: uint64(n)}
	if s.gtids {
		p.GTIDs = gtid.New(gtid.MySQL)
		if n > 0 {
			p.GTIDs, _ = gtid.Parse(gtid.MySQL, fmt.Sprintf("%s:1-%d", simUUID, n))
		}
	}
	return p
}

func (s *sim) write() {
	now := make([]simState, simTables)
	for i := range now {
		now[i] = maps.Clone(s.states[len(s.states)-1][i])
	}
	minimal := s.minimal && s.pick(2) == 0
	var tx []simChange
	for range 1 + s.pick(3) {
		table := s.pick(simTables)
		m := now[table]
		if s.pick(40) == 0 {
			clear(m)
			tx = append(tx, simChange{table: table, truncate: true})
			continue
		}
		id := string("abcdefghABCDEFGH"[s.pick(16)])
		row := [3]string{id, fmt.Sprint(s.pick(100)), fmt.Sprint(s.pick(100))}
		was, ok := m[strings.ToLower(id)]
		switch {
		case !ok:
			m[strings.ToLower(id)] = row
			tx = append(tx, simChange{table: table, after: texts(row[:]...)})
		case s.pick(4) == 0:
			delete(m, strings.ToLower(id))
			before := texts(was[:]...)
			if minimal {
				before = texts(was[0], "-", "-")
			}
			tx = append(tx, simChange{table: table, before: before})
		case !minimal && s.pick(2) == 0: // the key too, if it is free, or another text of the same
			to := string("abcdefghABCDEFGH"[s.pick(16)])
			if _, taken := m[strings.ToLower(to)]; taken && !strings.EqualFold(to, id) {
				continue
			}
			delete(m, strings.ToLower(id))
			row[0] = to
			m[strings.ToLower(to)] = row
			tx = append(tx, simChange{table: table, before: texts(was[:]...), after: texts(row[:]...)})
		case minimal:
			was[1+s.pick(2)] = fmt.Sprint(s.pick(100))
			old := m[strings.ToLower(id)]
			after := texts("-", was[1], was[2])
			for i := 1; i < 3; i++ {
				if was[i] == old[i] {
					after[i] = event.Datum{}
				}
			}
			m[strings.ToLower(id)] = was
			tx = append(tx, simChange{table: table, before: texts(was[0], "-", "-"), after: after})
		default:
			row[0] = was[0]
			m[strings.ToLower(id)] = row
			tx = append(tx, simChange{table: table, before: texts(was[:]...), after: texts(row[:]...)})
		}
	}
	s.txs = append(s.txs, tx)
	s.states = append(s.states, now)
}

// stream passes one transaction on.
func (s *sim) stream() {
	if s.at == len(s.txs) || s.load.Held() {
		return
	}
	for i := range s.captured {
		if w := s.load.Window(fmt.Sprint("d.t", i)); w != nil && w.Full() {
			return
		}
	}
	for _, c := range s.txs[s.at] {
		if !s.captured[c.table] {
			continue
		}
		if w := s.load.Window(fmt.Sprint("d.t", c.table)); w != nil {
			if c.truncate {
				w.Truncate()
			} else if err := w.Change(c.before, c.after); err != nil {
				s.t.Fatal(err)
			}
		}
		s.log = append(s.log, simEvent{table: c.table, before: c.before, after: c.after, truncate: c.truncate})
	}
	s.at++
	s.boundary()
}

func (s *sim) boundary() {
	here := s.point(s.at)
	for _, t := range s.load.Boundary(here) {
		var table int
		_, _ = fmt.Sscanf(t.Plan.Table.Name, "t%d", &table)
		if t.Whole() {
			if want := int(t.low.Pos); s.at != want {
				s.t.Fatalf("the whole table is told at %d, its snapshot is of %d", s.at, want)
			}
			t.rows = len(s.states[s.at][table])
		} else if err := t.Each(func(row event.Row) error {
			s.told++
			s.log = append(s.log, simEvent{table: table, after: row.Clone(), read: true})
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
		first := t.Progress.Signal == ""
		if s.load.Told(t) && first {
			s.loaded[table] = true
		}
		t.Progress.limit = 1 + s.pick(3)
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t *simTask) bool { return t.done && t.Window == nil })
	s.check()
}

// fold is what the log tells of a table: by record key, which is the text.
func (s *sim) fold(table int) map[string]event.Row {
	state := map[string]event.Row{}
	for _, e := range s.log {
		switch {
		case e.table != table:
		case e.truncate:
			clear(state)
		case e.after == nil:
			delete(state, string(e.before[0].Text))
		default:
			row := e.after.Clone()
			old := ""
			if e.before != nil {
				old = string(e.before[0].Text)
				for i, d := range state[old] {
					if row[i].State == event.Absent {
						row[i] = d
					}
				}
				if row[0].State == event.Absent {
					row[0] = e.before[0]
				}
				delete(state, old)
			}
			state[string(row[0].Text)] = row
		}
	}
	return state
}

// check compares what the log tells with the table, as it is where the stream stands.
func (s *sim) check() {
	if now := [2]int{s.at, len(s.log)}; now == s.checked {
		return
	} else {
		s.checked = now
	}
	for table := range simTables {
		if !s.loaded[table] || table == simKeyless {
			continue
		}
		s.checks++
		var got, want []string
		for _, row := range s.fold(table) {
			got = append(got, show(row))
		}
		for _, row := range s.states[s.at][table] {
			want = append(want, strings.Join(row[:], ","))
		}
		sort.Strings(got)
		sort.Strings(want)
		if !slices.Equal(got, want) {
			s.t.Fatalf("table %d after %d transactions: the log tells %v, the table is %v", table, s.at, got, want)
		}
	}
}

// read does one step of a chunk: the low mark, the chunk, the high mark.
func (s *sim) read(t *simTask) {
	var table int
	_, _ = fmt.Sscanf(t.Plan.Table.Name, "t%d", &table)
	if t.Whole() { // the lock waits for what is not committed
		if t.step++; t.step == 1 {
			s.visible = len(s.txs)
			t.At(s.point(s.visible))
			return
		}
		s.done(t)
		return
	}
	t.step++
	switch t.step {
	case 1:
		low := s.visible
		if s.gtids {
			low = s.executed
		}
		t.low = s.point(low)
		t.snapshot = s.visible
	case 2:
		if s.gtids { // else all is one snapshot
			t.snapshot = s.visible
		}
		s.chunk(t, s.states[t.snapshot][table])
	case 3:
		t.high = t.low
		if s.gtids {
			t.high = Point{Server: "s", File: "bin.000001", Pos: uint64(len(s.txs))}
		}
		s.done(t)
	}
}

func (s *sim) done(t *simTask) {
	if err := s.load.Done(t.Task, nil); err != nil {
		s.t.Fatal(err)
	}
}

// chunk does what Task.chunk does, on a state.
func (s *sim) chunk(t *simTask, state simState) {
	keys := slices.Sorted(maps.Keys(state))
	if !t.bounded {
		t.bounded = true
		if len(keys) == 0 {
			t.end = true
			return
		}
		t.upTo = Cursor{{kind: kindText, charset: "utf8mb4", bytes: state[keys[len(keys)-1]][0]}}
	}
	t.last = t.after
	for _, k := range keys {
		if t.after != nil && k <= strings.ToLower(t.after[0].bytes) || k > strings.ToLower(t.upTo[0].bytes) {
			continue
		}
		row := state[k]
		if t.Plan.Filter != "" && row[1] > t.Plan.Filter {
			continue
		}
		if t.read == t.limit {
			break
		}
		t.Window.rows.add(texts(row[:]...))
		t.read++
		t.last = Cursor{{kind: kindText, charset: "utf8mb4", bytes: row[0]}}
	}
	t.rows, t.bytes = t.read, 1<<40 // so that the next is small too
	t.end = t.read < t.limit || t.last.equal(t.upTo)
}

func (s *sim) save() {
	s.saved = simSaved{at: s.at, token: s.load.AppendToken(nil), captured: s.captured, loaded: s.loaded, log: len(s.log)}
}

func (s *sim) crash() {
	s.at, s.captured, s.loaded, s.log = s.saved.at, s.saved.captured, s.saved.loaded, s.log[:s.saved.log]
	s.tasks = nil
	s.load = s.newLoad()
	err := s.load.Restore(s.saved.token, func(_, table, filter string) (*Plan, error) {
		var n int
		_, _ = fmt.Sscanf(table, "t%d", &n)
		return simPlan(n, filter), nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sim) newLoad() *Load { return NewLoad(Options{Parallel: 1 + s.pick(3), Rows: 1 + s.pick(3)}) }

func (s *sim) step() {
	switch n := s.pick(100); {
	case n < 20:
		s.write()
	case n < 35:
		s.visible = min(s.visible+1, len(s.txs))
	case n < 45:
		s.executed = min(s.executed+1, s.visible)
	case n < 62:
		s.stream()
	case n < 70:
		if t := s.load.Next(s.point(s.at)); t != nil {
			s.tasks = append(s.tasks, &simTask{Task: t})
		}
	case n < 88:
		if len(s.tasks) > 0 {
			if t := s.tasks[s.pick(len(s.tasks))]; !t.done {
				s.read(t)
			}
			s.boundary()
		}
	case n < 91:
		table := s.pick(simTables)
		if !s.captured[table] { // a table that joins
			s.captured[table] = true
			if err := s.load.Add(simPlan(table, ""), ""); err != nil {
				s.t.Fatal(err)
			}
		}
	case n < 93:
		if table := s.pick(simTables - 1); s.loaded[table] && len(s.load.Tables()) < 4 { // a signal
			if err := s.load.Add(simPlan(table, []string{"", "5"}[s.pick(2)]), "signal"); err != nil {
				s.t.Fatal(err)
			}
		}
	case n < 94:
		s.load.Stop(func(p *Progress) bool { return p.Signal != "" && s.pick(2) == 0 })
	case n < 95:
		s.load.Pause()
	case n < 96:
		s.load.Resume()
	case n < 97:
		if w := s.load.Window(fmt.Sprint("d.t", s.pick(simTables))); w != nil {
			w.Abandon()
		}
	case n < 99:
		s.save()
	default:
		s.crash()
	}
}

// TestLog: whatever the order in which a server writes, a stream reads and chunks are read, what the log tells of a loaded table is
// the table at every transaction, over restarts, signals and tables that join.
func TestLog(t *testing.T) {
	seeds := uint64(3000)
	if testing.Short() {
		seeds = 300
	}
	checks, told, complete := 0, 0, 0
	for seed := range seeds {
		s := &sim{t: t, r: rand.New(rand.NewPCG(seed, 1)), gtids: seed%2 == 0, minimal: seed%3 == 0, states: [][]simState{nil}}
		for range simTables {
			s.states[0] = append(s.states[0], simState{})
		}
		s.load = s.newLoad()
		for range 10 {
			s.write()
		}
		s.visible, s.executed, s.at = 10, 10, 10
		s.save()
		for range 400 {
			s.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		s.load.Resume()
		for n := 0; n < 1500 && (!s.load.Empty() || s.at < len(s.txs)); n++ { // nobody writes any more, and all comes to its end
			s.visible = min(s.visible+1, len(s.txs))
			s.executed = min(s.executed+1, s.visible)
			s.stream()
			s.boundary()
			if t := s.load.Next(s.point(s.at)); t != nil {
				s.tasks = append(s.tasks, &simTask{Task: t})
			}
			for _, t := range slices.Clone(s.tasks) {
				if !t.done {
					s.read(t)
				}
			}
		}
		if !s.load.Empty() || s.at != len(s.txs) || len(s.load.active) > 0 {
			t.Fatalf("seed %d: the load does not end: %d tables, stream at %d of %d", seed, len(s.load.Tables()), s.at, len(s.txs))
		}
		for i := range simTables - 1 {
			if s.loaded[i] {
				complete++
			}
		}
		checks, told = checks+s.checks, told+s.told
	}
	if n := int(seeds); checks < 10*n || told < 5*n || complete < n {
		t.Errorf("%d checks, %d rows, %d tables: the test tests nothing", checks, told, complete)
	}
	t.Logf("%d checks, %d rows told, %d tables loaded", checks, told, complete)
}
