package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Columns of the matrix: what happened to the row that an event is about.
const (
	opLoad     = "load"
	opInsert   = "insert"
	opUpdate   = "update"
	opRekey    = "rekey"
	opDelete   = "delete"
	opTruncate = "truncate"
	opMessage  = "message"
	opOther    = "other" // of no table: transactions, topics as such
)

// value is a value of a column as a SQL expression.
type value struct {
	sql string
	// refused tells in which modes Rowtrail refuses the value, by design; the row is then left out.
	refused func(*mode) bool
	// streamed: Debezium's initial load ends at the value, so it is in no row that is there before both start.
	streamed bool
}

func (v value) in(m *mode) bool { return v.refused == nil || !v.refused(m) }

// typeCase is a type with its border values.
type typeCase struct {
	typ    string
	values []value
	// random makes more values.
	random        func(*rand.Rand) string
	randomRefused func(*mode) bool
}

func sqlValues(typ string, list ...string) typeCase {
	c := typeCase{typ: typ}
	for _, v := range list {
		c.values = append(c.values, value{sql: v})
	}
	return c
}

// quoted has values that are texts of the type.
func quoted(typ string, texts ...string) typeCase {
	c := typeCase{typ: typ}
	for _, v := range texts {
		c.values = append(c.values, value{sql: quote(v)})
	}
	return c
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// but changes the values whose SQL is given.
func (c typeCase) but(change func(*value), texts ...string) typeCase {
	for i := range c.values {
		if slices.Contains(texts, c.values[i].sql) || slices.Contains(texts, strings.Trim(c.values[i].sql, "'")) {
			change(&c.values[i])
		}
	}
	return c
}

// yearOf finds the year of a timestamp in quotes.
var yearOf = regexp.MustCompile(`^'(\d+)-`)

// inNanoseconds has timestamps that nanoseconds of 64 bits cannot say, and random ones, refused in that mode.
func (c typeCase) inNanoseconds() typeCase {
	beyond := func(m *mode) bool { return m.is(propTime, "nanoseconds") }
	for i := range c.values {
		v := &c.values[i]
		year := yearOf.FindStringSubmatch(v.sql)
		if year == nil {
			continue
		}
		n, _ := strconv.Atoi(year[1])
		if before := v.refused; n > 0 && (n < 1678 || n > 2261 || strings.Contains(v.sql, "BC")) {
			v.refused = func(m *mode) bool { return beyond(m) || before != nil && before(m) }
		}
	}
	c.randomRefused = beyond
	return c
}

// with adds random values.
func (c typeCase) with(random func(*rand.Rand) string) typeCase {
	c.random = random
	return c
}

// tableCase is a table of the matrix with all that happens to it.
type tableCase struct {
	name   string // of its row in the matrix
	table  string
	also   []string // other tables of the case
	setUp  []string // before both start
	stream []string // while both run
}

// Rows are numbered by what happens to them, so that a row tells its place.
const (
	firstLive  = 101  // inserted while both run
	keyChanged = 1000 // added to the id by the key change
)

// typed is the table of a type: every value and NULL is loaded, inserted, replaced by the next one, given another key, and deleted.
// What happens to all rows in one way is one transaction, which the source's form of one makes of the statements.
func typed(table, typ, after string, values []value, m *mode, transaction func([]string) []string) tableCase {
	c := tableCase{name: typ, table: table}
	c.setUp = append(c.setUp, fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, v %s)%s", table, typ, after))
	var all []string
	for _, v := range append(slices.Clone(values), value{sql: "NULL"}) {
		if !v.in(m) {
			continue
		}
		if all = append(all, v.sql); !v.streamed {
			c.setUp = append(c.setUp, fmt.Sprintf("INSERT INTO %s (id, v) VALUES (%d, %s)", table, len(all), v.sql))
		}
	}
	var insert, update, rekey, remove []string
	for i, v := range all {
		id := firstLive + i
		insert = append(insert, fmt.Sprintf("INSERT INTO %s (id, v) VALUES (%d, %s)", table, id, v))
		update = append(update, fmt.Sprintf("UPDATE %s SET v = %s WHERE id = %d", table, all[(i+1)%len(all)], id))
		rekey = append(rekey, fmt.Sprintf("UPDATE %s SET id = %d WHERE id = %d", table, id+keyChanged, id))
		remove = append(remove, fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id+keyChanged))
	}
	for _, list := range [][]string{insert, update, rekey, remove} {
		c.stream = append(c.stream, transaction(list)...)
	}
	return c
}

// keyed is a table whose key is of a type. It needs two values that differ.
func keyed(table, typ, column, one, two string) tableCase {
	return tableCase{
		name: "key " + typ, table: table,
		setUp: []string{
			fmt.Sprintf("CREATE TABLE %s (v %s, n int, PRIMARY KEY (%s))", table, typ, column),
			fmt.Sprintf("INSERT INTO %s (v, n) VALUES (%s, 1)", table, one),
		},
		stream: []string{
			fmt.Sprintf("INSERT INTO %s (v, n) VALUES (%s, 2)", table, two),
			fmt.Sprintf("UPDATE %s SET n = 3 WHERE n = 2", table),
			fmt.Sprintf("DELETE FROM %s WHERE n = 3", table),
			fmt.Sprintf("UPDATE %s SET v = %s WHERE n = 1", table, two),
			fmt.Sprintf("DELETE FROM %s WHERE n = 1", table),
		},
	}
}

// randomValues is how many random values a type that can make some has.
const randomValues = 3

// expand adds the random values, the same ones for the same seed.
func (c typeCase) expand(seed uint64, place int) []value {
	values := slices.Clone(c.values)
	if c.random == nil {
		return values
	}
	r := rand.New(rand.NewPCG(seed, uint64(place)))
	for range randomValues {
		values = append(values, value{sql: c.random(r), refused: c.randomRefused})
	}
	return values
}
