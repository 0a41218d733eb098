package raw

import (
	"container/list"
	"context"
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
)

const (
	// pendingBytes bounds the changes that are not in a batch yet: so much is gathered before pieces are written.
	pendingBytes = 1 << 20
	// rememberedBytes bounds the changes of transactions that are remembered besides.
	rememberedBytes = 16 << 20
	// rememberedEach bounds those of one transaction.
	rememberedEach = 4 << 20
	// maxHolders bounds what is known of holders.
	maxHolders = 1 << 18
	// endEvery is how much is written until the topic's end is asked for again, for holders that begin after it.
	endEvery = 64 << 20
)

// Suffix is what the topic is called after the prefix.
const Suffix = ".raw"

// Log is what a Store needs of the connector's Writer.
type Log interface {
	EnsureTopic(ctx context.Context, name string, kind connectors.TopicKind) (int32, error)
	ScanOwn(ctx context.Context, topic string, each func(*kgo.Record) error) (end int64, err error)
	ReadOwn(ctx context.Context, topic string, from int64, each func(*kgo.Record) (more bool, err error)) error
	EndOwn(ctx context.Context, topic string) (int64, error)
}

// Store is what the holders of one connector have.
type Store struct {
	log    Log
	topic  string
	settle func(context.Context) error

	ready      bool   // the topic exists
	generation uint64 // the last one: no two lives have the same
	holders    map[ID]*holder
	order      list.List // of holders that are remembered, oldest first
	pending    int       // bytes
	touched    []*holder // that have pending changes, or none at all yet
	kept       int       // bytes remembered
	end        int64     // all that is written from now on is at or above it
	since      int       // bytes written since end was asked for
}

// holder is what is known of one.
type holder struct {
	id         ID
	generation uint64
	first      int64 // its pieces are at or above it
	pieces     int   // that are written, or in a batch
	bytes      int64 // of changes
	whole      bool  // the last piece that is written ends a source transaction
	lost       bool  // a piece was not where it should be

	settled bool     // all pieces are committed; a read_committed reader sees them
	touched bool     // it is in Store.touched
	pending [][]byte // payloads that are not written yet

	memory  [][]byte      // payloads of all pieces, nil: not remembered
	size    int           // bytes of it
	element *list.Element // in Store.order
}

// Held is what a Store tells of a holder.
type Held struct {
	ID     ID
	Pieces int
	Bytes  int64
}

// Open learns which holders there are. settle commits everything that was sent so far; Read needs that for what is in the open log
// transaction.
func Open(ctx context.Context, log Log, prefix string, settle func(context.Context) error) (*Store, error) {
	s := &Store{log: log, topic: prefix + Suffix, settle: settle, holders: map[ID]*holder{}}
	end, err := log.ScanOwn(ctx, s.topic, func(r *kgo.Record) error { return s.scan(r) })
	if err != nil {
		return nil, err
	}
	s.end = end
	for _, h := range s.holders {
		h.settled = true
		if h.lost || !h.whole && h.id.Kind == Table {
			return nil, s.missing(h, h.pieces)
		}
	}
	return s, nil
}

// scan takes one record of the topic. What is dropped is dropped whole, in one log transaction.
func (s *Store) scan(r *kgo.Record) error {
	id, number, err := parseKey(r.Key)
	if err != nil {
		return s.at(r, err)
	}
	if r.Value == nil {
		delete(s.holders, id)
		return nil
	}
	p, err := parsePiece(r.Value)
	if err != nil {
		return s.at(r, err)
	}
	h := s.holders[id]
	if h == nil || h.generation != p.generation {
		h = &holder{id: id, generation: p.generation, first: r.Offset}
		if err := s.add(h); err != nil {
			return err
		}
	}
	h.lost = h.lost || number != h.pieces || p.number != number
	h.pieces, h.whole = number+1, p.whole
	h.bytes += int64(len(p.payload))
	s.generation = max(s.generation, p.generation)
	return nil
}

func (s *Store) at(r *kgo.Record, err error) error {
	return fmt.Errorf("topic %s, offset %d: %w", s.topic, r.Offset, err)
}

func (s *Store) missing(h *holder, number int) error {
	return fmt.Errorf("topic %s, %s: %w (piece %d)", s.topic, h.id, ErrMissing, number)
}

func (s *Store) add(h *holder) error {
	if len(s.holders) >= maxHolders && s.holders[h.id] == nil {
		return fmt.Errorf("%s: more than %d prepared transactions and parked tables have changes that wait", h.id, maxHolders)
	}
	s.holders[h.id] = h
	return nil
}

// Has tells whether there is a holder.
func (s *Store) Has(id ID) bool { return s.holders[id] != nil }

// Finished tells whether there is a holder whose last source transaction has ended.
func (s *Store) Finished(id ID) bool { h := s.holders[id]; return h != nil && h.whole && !h.touched }

// Len is how many holders there are.
func (s *Store) Len() int { return len(s.holders) }

// All are the holders, in no order.
func (s *Store) All() iter.Seq[Held] {
	return func(yield func(Held) bool) {
		for _, h := range s.holders {
			if !yield(Held{h.id, h.pieces, h.bytes}) {
				return
			}
		}
	}
}

// Begin begins a holder that has nothing. What a former run left of it, of a source transaction that it did not end, is dropped.
func (s *Store) Begin(ctx context.Context, e *connectors.Emitter, id ID) error {
	if old := s.holders[id]; old != nil {
		if old.whole || old.touched {
			return fmt.Errorf("%s holds changes already", id)
		}
		if err := s.Drop(ctx, e, id); err != nil {
			return err
		}
	}
	if !s.ready {
		if _, err := s.log.EnsureTopic(ctx, s.topic, connectors.TopicCompacted); err != nil {
			return err
		}
		s.ready = true
	}
	if s.since >= endEvery {
		end, err := s.log.EndOwn(ctx, s.topic)
		if err != nil {
			return err
		}
		s.end, s.since = end, 0
	}
	s.generation++
	h := &holder{id: id, generation: s.generation, first: s.end}
	if id.Kind == Transaction {
		h.memory = [][]byte{}
		h.element = s.order.PushBack(h)
	}
	s.touch(h)
	return s.add(h)
}

func (s *Store) touch(h *holder) {
	if !h.touched {
		h.touched = true
		s.touched = append(s.touched, h)
	}
}

// Append adds a change. The Store keeps nothing of it.
func (s *Store) Append(ctx context.Context, e *connectors.Emitter, id ID, change []byte) error {
	h := s.holders[id]
	if h == nil {
		return fmt.Errorf("%s was not begun", id)
	}
	s.touch(h)
	h.bytes += int64(len(change))
	for more := true; more; {
		part := change[:min(len(change), fragmentBytes)]
		change = change[len(part):]
		more = len(change) > 0
		last := len(h.pending) - 1
		if last < 0 || len(h.pending[last])+len(part) > pieceBytes {
			h.pending = append(h.pending, nil)
			last++
		}
		before := len(h.pending[last])
		h.pending[last] = appendFragment(h.pending[last], part, more)
		s.pending += len(h.pending[last]) - before
		if s.pending > pendingBytes {
			if err := s.write(ctx, e, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// End ends a source transaction: what it added is in the batch.
func (s *Store) End(ctx context.Context, e *connectors.Emitter) error { return s.write(ctx, e, true) }

// write writes what is pending.
func (s *Store) write(ctx context.Context, e *connectors.Emitter, whole bool) error {
	for _, h := range s.touched {
		if whole && len(h.pending) == 0 {
			h.pending = append(h.pending, nil) // that says so
		}
		for i, payload := range h.pending {
			p := piece{whole: whole && i == len(h.pending)-1, generation: h.generation, number: h.pieces, payload: payload}
			if err := s.record(ctx, e, h, &p); err != nil {
				return err
			}
			h.pieces++
			h.whole, h.settled = p.whole, false
			s.pending -= len(payload)
			s.since += len(payload)
			s.remember(h, payload)
		}
		h.pending = nil
		h.touched = !whole
	}
	if whole {
		s.touched = s.touched[:0]
	}
	return nil
}

// record puts one piece into the batch.
func (s *Store) record(ctx context.Context, e *connectors.Emitter, h *holder, p *piece) error {
	if err := e.Room(ctx); err != nil {
		return err
	}
	buf := e.Batch.Buf()
	key := connectors.Span{From: len(buf)}
	buf = h.id.appendKey(buf, p.number)
	key.To = len(buf)
	value := connectors.Span{From: len(buf)}
	buf = p.append(buf)
	value.To = len(buf)
	e.Batch.Keep(buf)
	e.Batch.Record(s.topic, 0, key.Of(buf), value.Of(buf), e.Now)
	return nil
}

// remember keeps a piece that was written; the oldest transactions are forgotten for it.
func (s *Store) remember(h *holder, payload []byte) {
	if h.memory == nil {
		return
	}
	h.memory = append(h.memory, payload)
	h.size += len(payload)
	s.kept += len(payload)
	if h.size > rememberedEach {
		s.forget(h)
	}
	for s.kept > rememberedBytes {
		s.forget(s.order.Front().Value.(*holder))
	}
}

func (s *Store) forget(h *holder) {
	if h.element != nil {
		s.order.Remove(h.element)
	}
	s.kept -= h.size
	h.memory, h.size, h.element = nil, 0, nil
}
