package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// remembered is how many statements of a table a hint can draw on, and hinted how many it shows.
const (
	remembered = 400
	hinted     = 8
)

// record is a statement that was run.
type record struct {
	at      time.Time
	session string
	sql     string
	outcome string
	index   int
}

func (r record) String() string {
	return fmt.Sprintf("%s %s: %s  -- %s", r.at.UTC().Format("15:04:05.000"), r.session, r.sql, r.outcome)
}

// journal keeps what was run: all of it in a file, the last of each table in memory.
type journal struct {
	mu     sync.Mutex
	file   *os.File
	w      *bufio.Writer
	tables map[string][]record
	count  int
}

func newJournal(dir string) (*journal, error) {
	f, err := os.Create(filepath.Join(dir, "statements.log"))
	if err != nil {
		return nil, err
	}
	return &journal{file: f, w: bufio.NewWriter(f), tables: map[string][]record{}}, nil
}

func (j *journal) add(session string, st statement, outcome string) {
	r := record{time.Now(), session, st.sql, outcome, st.index}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	fmt.Fprintln(j.w, r)
	for _, name := range st.tables {
		list := append(j.tables[name], r)
		if len(list) > 2*remembered {
			list = slices.Clone(list[len(list)-remembered:])
		}
		j.tables[name] = list
	}
}

// note writes a line that is no statement.
func (j *journal) note(format string, args ...any) {
	j.add("", statement{sql: fmt.Sprintf(format, args...)}, "")
}

// last are the last statements that may have touched a row.
func (j *journal) last(table string, index int) []record {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []record
	for _, r := range j.tables[table] {
		if index == many || r.index == many || r.index == index {
			list = append(list, r)
		}
	}
	return list[max(0, len(list)-hinted):]
}

func (j *journal) flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.w.Flush()
}

func (j *journal) close() error {
	if err := j.flush(); err != nil {
		return err
	}
	return j.file.Close()
}
