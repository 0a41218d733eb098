package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rowtrail/rowtrail/snapshot"
	"github.com/rowtrail/rowtrail/snapshot/spread"
)

const (
	streamBuffer = 32 << 10
	jsonLines    = "application/x-ndjson"
)

// query is what the row endpoints share.
type query struct {
	topic string
	key   []byte
	at    snapshot.At
	limit int64 // -1: all
	full  bool
	text  *columnReader // nil: rows as their records have them
	views Views

	versions *columnReader // of the topic's tables
	places   *Places
}

// parse reads the request; on a bad one it has answered and returns false. The path of a key that is empty text ends with a /.
func (s *Server) parse(w http.ResponseWriter, r *http.Request, keyed bool) (query, bool) {
	q := query{topic: r.PathValue("topic"), limit: -1, views: s.opts.Views}
	t, ok := s.opts.Node.Topic(q.topic)
	if !ok || t.Internal {
		failUnknownTopic(w, q.topic)
		return q, false
	}
	switch text := r.FormValue("stale"); {
	case text == "":
	case text != "ok":
		fail(w, http.StatusBadRequest, fmt.Sprintf("stale %q: write stale=ok, or leave it out", text))
		return q, false
	case s.opts.Stale != nil:
		q.views = s.opts.Stale
	}
	q.versions, q.places = newColumnReader(q.views, s.opts.Node, q.topic), &Places{}
	var err error
	if q.at, err = s.at(r.Context(), q.views, t, r.FormValue("at"), time.Now()); err != nil {
		failAt(w, q, err)
		return q, false
	}
	if text := r.FormValue("limit"); text != "" {
		if q.limit, err = strconv.ParseInt(text, 10, 64); err != nil || q.limit < 0 {
			fail(w, http.StatusBadRequest, fmt.Sprintf("limit %q is not a number of rows", text))
			return q, false
		}
	}
	if text := r.FormValue("full"); text != "" {
		if q.full, err = strconv.ParseBool(text); err != nil {
			fail(w, http.StatusBadRequest, fmt.Sprintf("full %q is neither true nor false", text))
			return q, false
		}
	}
	if given := r.FormValue("text"); given != "" {
		text, err := strconv.ParseBool(given)
		if err != nil || text && q.full {
			fail(w, http.StatusBadRequest, fmt.Sprintf("text %q is neither true nor false, or full is asked for as well", given))
			return q, false
		}
		if text {
			q.text = q.versions
		}
	}
	if !keyed {
		return q, true
	}
	q.key, err = s.resolveKey(r.Context(), q.views, q.topic, r.PathValue("key"))
	switch {
	case errors.Is(err, errKeySyntax), errors.Is(err, errKeyParts), errors.Is(err, errKeyColumns):
		fail(w, http.StatusBadRequest, err.Error())
	case err != nil:
		failQuery(w, q, err)
	}
	return q, err == nil
}

// failAt tells a point that is none from one that this node cannot look for now.
func failAt(w http.ResponseWriter, q query, err error) {
	if errors.Is(err, snapshot.ErrUnknownTopic) || errors.Is(err, snapshot.ErrNotReady) || errors.Is(err, snapshot.ErrClosed) || errors.Is(err, snapshot.ErrElsewhere) || spread.Moved(err) {
		failQuery(w, q, err)
		return
	}
	fail(w, http.StatusBadRequest, err.Error())
}

// failQuery tells a question that cannot be answered from a node that cannot answer now.
func failQuery(w http.ResponseWriter, q query, err error) {
	var compacted *snapshot.CompactedError
	switch {
	case errors.As(err, &compacted):
		fail(w, http.StatusGone, compacted.Error())
	case errors.Is(err, snapshot.ErrNoPosition), errors.Is(err, snapshot.ErrAt):
		fail(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, snapshot.ErrUnknownTopic), errors.Is(err, snapshot.ErrNotReady), errors.Is(err, snapshot.ErrClosed),
		errors.Is(err, snapshot.ErrElsewhere), spread.Moved(err):
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%s cannot be read yet: %v", q.topic, err))
	default:
		fail(w, http.StatusInternalServerError, err.Error())
	}
}

// latest answers for one key: the row as of a point, 404 when it did not exist or was deleted then.
func (s *Server) latest(w http.ResponseWriter, r *http.Request) {
	q, ok := s.parse(w, r, true)
	if !ok {
		return
	}
	row, found, err := q.views.Latest(r.Context(), q.topic, q.key, q.at)
	switch {
	case err != nil:
		failQuery(w, q, err)
	case !found:
		fail(w, http.StatusNotFound, fmt.Sprintf("no row with key %s in %s then", q.key, q.topic))
	case row.Deleted:
		fail(w, http.StatusNotFound, fmt.Sprintf("row with key %s in %s was deleted (offset %d, %s)",
			q.key, q.topic, row.Offset, whenOf(row).UTC().Format(time.RFC3339Nano)))
	default:
		shown, err := q.show(r.Context(), row)
		if err != nil {
			failQuery(w, q, err)
			return
		}
		reply(w, http.StatusOK, shown)
	}
}

// show is a row as it was asked for.
func (q query) show(ctx context.Context, row snapshot.Row) (Row, error) {
	q.places.tell(ctx, q.versions, row)
	shown := newRow(row, q.full, q.places)
	if q.text == nil {
		return shown, nil
	}
	columns, ok, err := q.text.read(ctx, row)
	if err != nil {
		return Row{}, err
	}
	if ok {
		shown.Row, shown.Value, shown.Absent = columns.json(), nil, columns.absent
	}
	return shown, nil
}

// whenOf is a record's time at the source, or in the log when that is unknown.
func whenOf(row snapshot.Row) time.Time {
	if row.CommitTime.IsZero() {
		return row.Timestamp
	}
	return row.CommitTime
}

func (s *Server) scan(w http.ResponseWriter, r *http.Request) {
	q, ok := s.parse(w, r, false)
	if !ok {
		return
	}
	out := newStream(r.Context(), w, q)
	err := q.views.Scan(r.Context(), q.topic, q.at, func(row snapshot.Row) error {
		if row.Deleted {
			return nil
		}
		return out.row(row)
	})
	out.close(err)
}

// history streams every version of a row, oldest first; 404 when there is none.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	q, ok := s.parse(w, r, true)
	if !ok {
		return
	}
	out := newStream(r.Context(), w, q)
	err := q.views.History(r.Context(), q.topic, q.key, out.row)
	if err == nil && out.count == 0 && q.limit != 0 {
		fail(w, http.StatusNotFound, fmt.Sprintf("no row with key %s in %s", q.key, q.topic))
		return
	}
	out.close(err)
}

// stream writes rows as JSON lines; the status line waits for the first one, so that an early error has its own.
type stream struct {
	ctx     context.Context
	w       http.ResponseWriter
	q       query
	buffer  *bufio.Writer
	encoder *json.Encoder
	count   int64
}

func newStream(ctx context.Context, w http.ResponseWriter, q query) *stream {
	s := &stream{ctx: ctx, w: w, q: q, buffer: bufio.NewWriterSize(w, streamBuffer)}
	s.encoder = json.NewEncoder(s.buffer)
	s.encoder.SetEscapeHTML(false)
	return s
}

func (s *stream) row(row snapshot.Row) error {
	if s.count == s.q.limit {
		return errStop
	}
	shown, err := s.q.show(s.ctx, row)
	if err != nil {
		return err
	}
	if s.count == 0 {
		s.w.Header().Set("Content-Type", jsonLines)
	}
	s.count++
	return s.encoder.Encode(shown)
}

// close ends the answer. An error after the first line can only be told as the last line.
func (s *stream) close(err error) {
	if errors.Is(err, errStop) {
		err = nil
	}
	if err != nil && s.count == 0 {
		failQuery(s.w, s.q, err)
		return
	}
	if s.count == 0 {
		s.w.Header().Set("Content-Type", jsonLines)
	}
	if err != nil {
		_ = s.encoder.Encode(Failure{Error: err.Error()})
	}
	_ = s.buffer.Flush() // the client is gone: nobody to tell
}
