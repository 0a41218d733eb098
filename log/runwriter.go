package log

import "fmt"

// portionBytes and portionBatches bound what a round makes durable at once, so that producers' commits in between do not wait
// for long; the number also keeps a portion within one Badger transaction.
const (
	portionBytes   = 1 << 20
	portionBatches = 1024
)

type runPut struct {
	key, value []byte
}

// runWriter writes survivors into new runs, in portions.
type runWriter struct {
	id     GroupID
	limit  int64                              // a run ends when it has so many bytes
	newRun func() (uint64, error)             // an id that was never used
	commit func(puts []runPut, n int64) error // makes a portion durable

	cur  run // the run that is being written; without batches there is none
	puts []runPut
	size int64
	last int64 // what the batch that was added last counts as mortal
	runs []run // finished ones and those that were taken over, in order
}

// add appends a batch behind those before it.
func (w *runWriter) add(m runMeta, b []byte) error {
	if w.cur.batches > 0 && w.cur.bytes+int64(len(b)) > w.limit {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.cur.batches == 0 {
		id, err := w.newRun()
		if err != nil {
			return err
		}
		w.cur = run{id: id, base: m.base, maxTs: -1}
	}
	m.size = int32(len(b))
	w.puts = append(w.puts, runPut{runKey(w.id, w.cur.id, &m), append(make([]byte, 0, len(b)), b...)})
	w.size += int64(len(b))
	w.cur.next = m.next()
	w.cur.bytes += int64(len(b))
	w.cur.batches++
	w.cur.maxTs = max(w.cur.maxTs, m.maxTs)
	w.last = 0
	if m.clean != 0 {
		w.last = int64(len(b))
		w.cur.mortal += w.last
		w.cur.clean = max(w.cur.clean, m.clean)
	}
	if w.size >= portionBytes || len(w.puts) >= portionBatches {
		return w.flush()
	}
	return nil
}

// flush makes what was gathered durable.
func (w *runWriter) flush() error {
	if len(w.puts) == 0 {
		return nil
	}
	if err := w.commit(w.puts, w.size); err != nil {
		return fmt.Errorf("write run %d: %w", w.cur.id, err)
	}
	clear(w.puts)
	w.puts, w.size = w.puts[:0], 0
	return nil
}

// finish ends the run that is being written.
func (w *runWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.cur.batches > 0 {
		w.runs = append(w.runs, w.cur)
		w.cur = run{}
	}
	return nil
}

// takeOver appends a run as it is.
func (w *runWriter) takeOver(r run) error {
	if err := w.finish(); err != nil {
		return err
	}
	w.runs = append(w.runs, r)
	return nil
}

// close ends the last run at next. The last batch of a round stays whatever it holds, so it gives no reason for another round.
func (w *runWriter) close(next int64) error {
	if w.cur.batches > 0 {
		w.cur.mortal -= w.last
		w.cur.next = next
	}
	return w.finish()
}
