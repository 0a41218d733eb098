package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

var errAbsent = errors.New("the log holds no record there")

// rowReader reads records back from the log, keeping the batch that it read last: going forward through a
// partition each batch is read and unpacked once.
type rowReader struct {
	topic  string
	part   *partition
	batch  []byte
	header record.Header
	reader *record.Reader
	ready  bool // reader stands on a record of batch
}

// rowReader returns one that is given back with release; unpacking buffers are too large to be made for each query.
func (v *Views) rowReader(topic string) *rowReader {
	reader, ok := v.readers.Get().(*record.Reader)
	if !ok {
		reader = record.NewReader(maxBatchUnpacked)
	}
	return &rowReader{topic: topic, reader: reader}
}

func (v *Views) release(r *rowReader) { v.readers.Put(r.reader) }

// read returns a hit's record; found is false when retention took it meanwhile. One that compaction took is an ErrCompacted. The
// row's slices are valid until the next call.
func (r *rowReader) read(h *hit) (row Row, found bool, err error) {
	err = r.load(h)
	if errors.Is(err, errAbsent) {
		return r.absent(h)
	}
	if err != nil {
		if errors.Is(err, log.ErrOffsetOutOfRange) && h.offset < h.part.src.Marks().LogStart {
			return Row{}, false, nil
		}
		return Row{}, false, r.fail(h, err)
	}
	for r.reader.Next() {
		rec := r.reader.Record()
		if rec.Offset < h.offset {
			continue
		}
		if rec.Offset > h.offset {
			break
		}
		r.ready = true
		row := r.row(h)
		row.Key, row.Value = rec.Key, rec.Value
		if h.place != placeNone {
			row.Place, _ = rec.Header(positionHeader)
		}
		if rec.HeaderCount() > 1 {
			row.OldKey, _ = rec.Header(oldKeyHeader)
		}
		if h.truncate {
			row.Value, row.Deleted = nil, true
		}
		return row, true, nil
	}
	if err := r.reader.Err(); err != nil {
		return Row{}, false, r.fail(h, err)
	}
	return r.absent(h)
}

// absent tells why the log does not hold a hit's record.
func (r *rowReader) absent(h *hit) (row Row, found bool, err error) {
	if whole := h.part.src.Whole(); h.offset < whole {
		if h.offset < h.part.src.Marks().LogStart {
			return Row{}, false, nil
		}
		return Row{}, false, &CompactedError{Topic: r.topic, Partition: h.part.number, Whole: whole}
	}
	return Row{}, false, r.fail(h, errAbsent)
}

// row is what a hit tells of its record.
func (r *rowReader) row(h *hit) Row {
	row := Row{
		Topic: r.topic, Partition: h.part.number, Offset: h.offset, Timestamp: time.UnixMilli(h.timestamp).UTC(), Deleted: h.tombstone,
	}
	if h.place == placeKnown {
		row.Position, row.CommitTime = h.commit, time.UnixMicro(h.commitTime).UTC()
	}
	return row
}

// deleted is the row of a key that has none, in a scan of some partitions: what it had in others is older.
func (r *rowReader) deleted(h *hit) Row {
	row := r.row(h)
	row.Deleted = true
	if key, ok := inlineKey(h.form); ok {
		row.Key = key
	} else {
		row.Hash = h.form
	}
	return row
}

func (r *rowReader) fail(h *hit, err error) error {
	return fmt.Errorf("read %s partition %d offset %d: %w", r.topic, h.part.number, h.offset, err)
}

// load puts the reader before the hit's record, in the batch at hand when that is the right one.
func (r *rowReader) load(h *hit) error {
	if r.part == h.part && r.batch != nil && h.offset >= r.header.BaseOffset && h.offset <= r.header.LastOffset() {
		if r.ready && r.reader.Record().Offset < h.offset {
			return nil
		}
		r.ready = false
		return r.reader.Reset(r.batch)
	}
	r.part, r.batch, r.ready = h.part, nil, false
	res, err := h.part.src.Read(h.offset, 1, true, log.ReadCommitted)
	if err != nil {
		return err
	}
	if len(res.Batches) == 0 {
		return errAbsent
	}
	batch, _, err := record.Next(res.Batches)
	if err != nil {
		return err
	}
	if r.header, err = record.ParseHeader(batch); err != nil {
		return err
	}
	r.batch = batch
	return r.reader.Reset(batch)
}

// window gathers hits, reads their records in log order and hands them out in the order in which they came. Invariant 9:
// it holds a bounded number of rows and bytes.
type window struct {
	reader *rowReader
	fn     func(Row) error
	hits   []hit
	bytes  int64
	order  []int
	rows   []Row
	arena  []byte
	skip   bool // records that compaction took are left out, and are no error
	// gone tells of a record that compaction took that it is one of a deleted key; nil: none is known to be.
	gone func(*hit) bool
}

func newWindow(reader *rowReader, fn func(Row) error) *window {
	return &window{reader: reader, fn: fn}
}

func (w *window) add(ctx context.Context, h hit) error {
	if len(w.hits) > 0 && (len(w.hits) >= scanRows || w.bytes+h.size > scanBytes) {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.hits = append(w.hits, h)
	w.bytes += h.size
	return nil
}

func (w *window) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.order, w.rows, w.arena = w.order[:0], w.rows[:0], w.arena[:0]
	for i := range w.hits {
		w.order = append(w.order, i)
		w.rows = append(w.rows, Row{Partition: retired})
	}
	slices.SortFunc(w.order, func(a, b int) int {
		x, y := &w.hits[a], &w.hits[b]
		if x.part != y.part {
			return int(x.part.number - y.part.number)
		}
		return int(min(max(x.offset-y.offset, -1), 1))
	})
	for _, i := range w.order {
		h := &w.hits[i]
		if h.form != nil && h.tombstone {
			w.rows[i] = w.reader.deleted(h)
			continue
		}
		row, found, err := w.reader.read(h)
		if errors.Is(err, ErrCompacted) && (w.skip || w.gone != nil && w.gone(h)) {
			found, err = false, nil
		}
		if err != nil {
			return err
		}
		if found {
			row.Key, row.Value = w.keep(row.Key), w.keep(row.Value)
			row.Place, row.OldKey = w.keep(row.Place), w.keep(row.OldKey)
			w.rows[i] = row
		} else if h.form != nil {
			w.rows[i] = w.reader.deleted(h)
		}
	}
	w.hits, w.bytes = w.hits[:0], 0
	for i := range w.rows {
		if w.rows[i].Partition == retired {
			continue
		}
		if err := w.fn(w.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// arenaBytes is the least that a window allocates for the bytes of its rows.
const arenaBytes = 64 << 10

// retired marks a row that retention took between the view's reading and the log's.
const retired = -1

// keep copies b to the window's arena; nil stays nil.
func (w *window) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) == 0 {
		return []byte{}
	}
	if cap(w.arena)-len(w.arena) < len(b) {
		w.arena = make([]byte, 0, max(len(b), arenaBytes)) // rows made before keep the old one
	}
	start := len(w.arena)
	w.arena = append(w.arena, b...)
	return w.arena[start:len(w.arena):len(w.arena)]
}
