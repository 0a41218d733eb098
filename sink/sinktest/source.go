package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// Text makes a value.
func Text(s string) event.Datum { return event.Datum{State: event.Text, Text: []byte(s)} }

// Null is NULL.
func Null() event.Datum { return event.Datum{State: event.Null} }

// Absent is a value that the source does not send.
func Absent() event.Datum { return event.Datum{} }

// Col makes a column.
func Col(name, kind string, k event.Kind, key int) event.Column {
	return event.Column{Name: name, Type: kind, Kind: k, Modifier: -1, Key: key, NotNull: key > 0}
}

// Format prints a row for comparison.
func Format(row event.Row) string {
	out := make([]string, len(row))
	for i, d := range row {
		switch d.State {
		case event.Text:
			out[i] = string(d.Text)
		case event.Null:
			out[i] = "NULL"
		default:
			out[i] = "ABSENT"
		}
	}
	return strings.Join(out, "|")
}

// total is what the balances of all accounts add up to, always.
const (
	accounts = 8
	start    = 100
	total    = accounts * start
)

// Source is a random source database with three tables, whose transactions it writes to a log:
//
//	public.orders    id, customer, note (large, often not sent), state
//	public.customers id, email
//	public.accounts  id, balance: every transaction keeps the sum
type Source struct {
	Log                         *Log
	Orders, Customers, Accounts *Table

	rows   map[*Table]map[int]event.Row
	nextID int
	Events int // row changes and load rows in the log, committed
	Count  int // source transactions

	KeepRows bool // no truncates, which a target may count row by row
}

// NewSource makes the tables and loads some rows.
func NewSource(t testing.TB, l *Log, partitions int32) *Source {
	s := &Source{Log: l, rows: make(map[*Table]map[int]event.Row), nextID: 1}
	s.Orders = l.NewTable(t, "public", "orders", partitions, Col("id", "integer", event.KindInt32, 1),
		Col("customer", "integer", event.KindInt32, 0), Col("note", "text", event.KindText, 0), Col("state", "text", event.KindText, 0))
	s.Customers = l.NewTable(t, "public", "customers", partitions, Col("id", "integer", event.KindInt32, 1), Col("email", "text", event.KindText, 0))
	s.Accounts = l.NewTable(t, "public", "accounts", partitions, Col("id", "integer", event.KindInt32, 1), Col("balance", "bigint", event.KindInt64, 0))
	for _, tab := range s.Tables() {
		s.rows[tab] = make(map[int]event.Row)
	}
	tx := l.Begin(t)
	for i := range accounts {
		s.load(tx, s.Accounts, i, event.Row{Text(strconv.Itoa(i)), Text(strconv.Itoa(start))})
	}
	for range 20 {
		id := s.id()
		s.load(tx, s.Orders, id, event.Row{Text(strconv.Itoa(id)), Text("1"), Text(strings.Repeat("n", 50)), Null()})
	}
	l.Write(t, true, tx)
	return s
}

// Tables lists the tables.
func (s *Source) Tables() []*Table { return []*Table{s.Orders, s.Customers, s.Accounts} }

func (s *Source) id() int {
	s.nextID++
	return s.nextID
}

func (s *Source) load(tx *Tx, tab *Table, id int, row event.Row) {
	tx.Load(tab, row)
	s.rows[tab][id] = row
	s.Events++
}

func (s *Source) put(tx *Tx, tab *Table, op event.Op, id int, row event.Row) {
	tx.Change(tab, op, nil, row)
	kept := slices.Clone(row)
	for i := range kept {
		if kept[i].State == event.Absent {
			kept[i] = s.rows[tab][id][i]
		}
	}
	s.rows[tab][id] = kept
}

func (s *Source) remove(tx *Tx, tab *Table, id int) {
	row := s.rows[tab][id]
	key := make(event.Row, len(row))
	key[0] = row[0]
	tx.Change(tab, event.OpDelete, key, nil)
	delete(s.rows[tab], id)
}

// rekey gives a row another key. The large column is not sent when it is to be kept.
func (s *Source) rekey(tx *Tx, tab *Table, id int, keep bool) {
	row := slices.Clone(s.rows[tab][id])
	key := make(event.Row, len(row))
	key[0] = row[0]
	to := s.id()
	row[0] = Text(strconv.Itoa(to))
	sent := slices.Clone(row)
	if keep {
		sent[2] = Absent()
	}
	tx.Rekey(tab, key, sent)
	delete(s.rows[tab], id)
	s.rows[tab][to] = row
}

// pick returns an id of a table, in an order that depends on rng alone; false when it is empty.
func (s *Source) pick(rng *rand.Rand, tab *Table) (int, bool) {
	ids := make([]int, 0, len(s.rows[tab]))
	for id := range s.rows[tab] {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return 0, false
	}
	slices.Sort(ids)
	return ids[rng.IntN(len(ids))], true
}

// Work writes random source transactions, several to a log transaction at times, with aborted ones in between.
func (s *Source) Work(t testing.TB, rng *rand.Rand, transactions int) {
	for transactions > 0 {
		n := min(1+rng.IntN(4), transactions)
		txs := make([]*Tx, n)
		for i := range txs {
			txs[i] = s.transaction(t, rng)
			s.Events += txs[i].Len()
		}
		if rng.IntN(5) == 0 {
			s.aborted(t, rng)
		}
		s.Log.Write(t, true, txs...)
		s.Count += n
		transactions -= n
	}
}

// aborted writes changes that no reader may see.
func (s *Source) aborted(t testing.TB, rng *rand.Rand) {
	tx := s.Log.Begin(t)
	for range 1 + rng.IntN(5) {
		tx.Change(s.Customers, event.OpCreate, nil, event.Row{Text(strconv.Itoa(1_000_000 + rng.IntN(1000))), Text("aborted")})
	}
	s.Log.Write(t, false, tx)
}

func (s *Source) transaction(t testing.TB, rng *rand.Rand) *Tx {
	tx := s.Log.Begin(t)
	s.transfer(tx, rng)
	for range rng.IntN(6) {
		switch rng.IntN(8) {
		case 0, 1:
			id := s.id()
			s.put(tx, s.Orders, event.OpCreate, id, event.Row{Text(strconv.Itoa(id)), Text(strconv.Itoa(rng.IntN(9))), Text(fmt.Sprint("note ", id, strings.Repeat("x", 20))), Text("new")})
		case 2, 3: // note is unchanged and not sent
			if id, ok := s.pick(rng, s.Orders); ok {
				s.put(tx, s.Orders, event.OpUpdate, id, event.Row{Text(strconv.Itoa(id)), Text(strconv.Itoa(rng.IntN(9))), Absent(), Text(fmt.Sprint("s", rng.IntN(100)))})
			}
		case 4:
			if id, ok := s.pick(rng, s.Orders); ok {
				s.remove(tx, s.Orders, id)
			}
		case 5: // key change: delete and create (P9), at times without the unchanged note (P6)
			if id, ok := s.pick(rng, s.Orders); ok {
				s.rekey(tx, s.Orders, id, rng.IntN(2) == 0)
			}
		case 6:
			id := s.id()
			s.put(tx, s.Customers, event.OpCreate, id, event.Row{Text(strconv.Itoa(id)), Text(fmt.Sprint("c", id, "@example.org"))})
		case 7:
			if rng.IntN(10) == 0 && !s.KeepRows {
				tx.Change(s.Customers, event.OpTruncate, nil, nil)
				clear(s.rows[s.Customers])
			}
		}
	}
	return tx
}

// transfer moves money between two accounts, in two events that are in different partitions as a rule.
func (s *Source) transfer(tx *Tx, rng *rand.Rand) {
	a := rng.IntN(accounts)
	b := (a + 1 + rng.IntN(accounts-1)) % accounts
	amount := rng.IntN(20)
	for _, part := range []struct{ id, by int }{{a, -amount}, {b, amount}} {
		balance, err := strconv.Atoi(string(s.rows[s.Accounts][part.id][1].Text))
		if err != nil {
			tx.t.Fatalf("read balance: %v", err)
		}
		s.put(tx, s.Accounts, event.OpUpdate, part.id, event.Row{Text(strconv.Itoa(part.id)), Text(strconv.Itoa(balance + part.by))})
	}
}

// Rows is what a target must hold of a table, sorted.
func (s *Source) Rows(tab *Table) []string {
	out := make([]string, 0, len(s.rows[tab]))
	for _, row := range s.rows[tab] {
		out = append(out, Format(row))
	}
	slices.Sort(out)
	return out
}
