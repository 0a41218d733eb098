package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/room"
)

const (
	// maxFetchWait caps how long a Fetch waits for data, whatever the client says.
	maxFetchWait = time.Minute
	// minFetchReserve is what a Fetch waits for when the bytes for fetched records are used up.
	minFetchReserve = 64 << 10 // bytes
	// historyBytes is how far from a partition's end history begins. Readers nearer to it are not slowed for producers.
	historyBytes = 16 << 20
	// heldRead bounds the answer to one read of history while these are held, so that turns are short.
	heldRead = 2 << 20
	// turnWait bounds how long a read of history waits for its turn: with the wait in it, less than clients wait for an answer.
	turnWait = 20 * time.Second
	// fetchAnyReplica is the first version whose clients may read from a follower.
	fetchAnyReplica = 11
)

// fetchPart is one partition of a Fetch.
type fetchPart struct {
	req     *kmsg.FetchRequestTopicPartition
	resp    *kmsg.FetchResponseTopicPartition
	log     *log.Partition // nil: answered with an error
	changed <-chan struct{}
	seen    int64 // end of what was readable when last looked at
	bytes   int64 // size of the log when last looked at
	charge  int64 // of fetch.held
	replica *cluster.Replica
	epoch   int32 // that the replica leads in, unless it follows
	follows bool
	stale   bool // there is more to read than the response holds
}

// fetch is one Fetch request on its way.
type fetch struct {
	b       *Broker
	held    *room.Hold // bytes of records, for release when the response is written
	iso     log.Isolation
	rack    string // of a consumer that may read from any replica
	any     bool
	parts   []fetchPart
	left    int // bytes that the response may still take
	found   int // bytes of records in the response
	more    int // bytes, by estimate, that came since
	r       *request
	behind  bool // history gets nothing: its turn did not come
	settled bool // the answer waits for no records: it has an error or a divergence, or history was asked for
}

// handleFetch reads from every partition asked for, waiting for new records when there are too few.
// Fetch sessions are declined by answering session id 0: every request then names all its partitions.
func (b *Broker) handleFetch(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	if req.Version >= 7 && (req.SessionID != 0 || req.SessionEpoch > 0) {
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		return resp, nil
	}
	f := &fetch{
		b: b, r: r, held: r.shares.fetching.Large(),
		iso: isolation(req.IsolationLevel), left: int(b.opts.MaxFetchBytes),
	}
	if r.maxRecordBytes > 0 {
		f.left = min(f.left, r.maxRecordBytes)
	}
	if req.MaxBytes >= 0 {
		f.left = min(f.left, int(req.MaxBytes))
	}
	r.release = f.held.Release
	if req.Version >= fetchAnyReplica && req.ReplicaID < 0 {
		f.any, f.rack = true, req.Rack
	}
	// The channel comes before the look-ups: a change between the two must end the wait.
	catalogChanged := b.node.CatalogChanged()
	f.open(req, resp)
	defer func() {
		if !b.hintFetch(req.Version, resp) {
			r.endTurn()
			defer pause(ctx)()
			b.awaitHints(ctx.Done(), func() bool { return b.hintFetch(req.Version, resp) })
		}
	}()
	if slices.ContainsFunc(f.parts, f.ofHistory) { // no records are held meanwhile
		if err := f.awaitHistory(ctx); err != nil {
			return nil, err
		}
	}
	if err := f.readAll(ctx); err != nil {
		return nil, err
	}
	wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	if len(f.parts) > maxWatched {
		wait = min(wait, watchGap)
	}
	if f.enough(req) || wait <= 0 {
		f.tellBehind()
		return resp, nil
	}
	r.endTurn()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	w := waiter{timeout: timer.C, catalog: catalogChanged, done: ctx.Done()}
	for !f.enough(req) {
		resume := pause(ctx)
		i := w.wait(f.parts)
		resume()
		if i < 0 {
			break // time is up, the client left, or topics changed, which its next request will meet
		}
		f.look(&f.parts[i])
	}
	if err := f.readStale(ctx); err != nil {
		return nil, err
	}
	f.tellBehind()
	return resp, nil
}

// tellBehind answers for followers that have not come as far as the client has read elsewhere.
func (f *fetch) tellBehind() {
	for i := range f.parts {
		if p := &f.parts[i]; p.log != nil && p.follows && p.req.FetchOffset > p.log.Marks().HighWatermark {
			f.refuse(p, kerr.OffsetNotAvailable)
		}
	}
}

func (f *fetch) enough(req *kmsg.FetchRequest) bool {
	return f.settled || f.left <= 0 || f.found+f.more >= int(req.MinBytes)
}

// open resolves topics and partitions, and answers those that cannot be read.
func (f *fetch) open(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	count := 0
	for i := range req.Topics {
		count += len(req.Topics[i].Partitions)
	}
	f.parts = make([]fetchPart, 0, count)
	f.settled = count == 0
	resp.Topics = make([]kmsg.FetchResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, st := &req.Topics[i], &resp.Topics[i]
		st.Default()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		st.Partitions = make([]kmsg.FetchResponseTopicPartition, len(rt.Partitions))
		t, topicErr := f.b.topic(rt.Topic, rt.TopicID, req.Version >= 13)
		for j := range rt.Partitions {
			rp, sp := &rt.Partitions[j], &st.Partitions[j]
			sp.Default()
			sp.Partition = rp.Partition
			sp.HighWatermark, sp.LastStableOffset, sp.LogStartOffset = -1, -1, -1
			sp.PreferredReadReplica = -1
			sp.RecordBatches = []byte{}
			p := fetchPart{req: rp, resp: sp}
			err := topicErr
			if err == nil {
				err = f.openPart(&p, t)
			}
			if err != nil {
				f.refuse(&p, err)
			}
			f.parts = append(f.parts, p)
		}
	}
}

func (f *fetch) refuse(p *fetchPart, err error) {
	p.log = nil
	p.resp.ErrorCode = errorCode(err)
	p.resp.RecordBatches = []byte{}
	f.settled = true
}

func (f *fetch) openPart(p *fetchPart, t *cluster.Topic) error {
	var err error
	p.replica, p.epoch, p.follows, err = f.b.reading(t, p.req.Partition, p.req.CurrentLeaderEpoch, f.any)
	if err != nil {
		return err
	}
	p.log = p.replica.Log()
	if f.rack != "" && !p.follows {
		if node := f.b.closest(p.replica, f.rack); node >= 0 && inRange(p.log.Marks(), p.req.FetchOffset) {
			p.resp.PreferredReadReplica = node
			p.marks(p.log.Marks())
			p.log, f.settled = nil, true
			return nil
		}
	}
	if p.req.LastFetchedEpoch < 0 || p.follows && p.req.FetchOffset > p.log.Marks().HighWatermark {
		return nil
	}
	// The client's last batch must lie on our history.
	last, end := p.log.EpochEnd(p.req.LastFetchedEpoch)
	switch {
	case last < 0 || end < 0:
		return kerr.OffsetOutOfRange
	case last < p.req.LastFetchedEpoch || end < p.req.FetchOffset:
		p.resp.DivergingEpoch.Epoch, p.resp.DivergingEpoch.EndOffset = last, end
		m := p.log.Marks()
		p.marks(m)
		p.log, f.settled = nil, true
	}
	return nil
}

func inRange(m log.Marks, offset int64) bool {
	return offset >= m.LogStart && offset <= m.HighWatermark
}

// closest is the node of a replica in a consumer's rack that it had better read from; -1: this one.
func (b *Broker) closest(r *cluster.Replica, rack string) int32 {
	if rack == b.opts.Rack {
		return -1
	}
	node, match := int32(-1), uint64(0)
	for _, m := range r.Status().Members {
		if !m.Voter || !m.InSync || m.Node == b.node.ID() || m.Match < match || !b.node.Alive(m.Node) {
			continue
		}
		if e, ok := b.endpoint(m.Node); ok && e.rack != nil && *e.rack == rack {
			node, match = m.Node, m.Match
		}
	}
	return node
}

func (p *fetchPart) marks(m log.Marks) {
	p.resp.HighWatermark, p.resp.LastStableOffset, p.resp.LogStartOffset = m.HighWatermark, m.LastStable, m.LogStart
}

// readAll reads the partitions in the order that the client gave: it puts those it is short of first.
func (f *fetch) readAll(ctx context.Context) error {
	for i := range f.parts {
		if f.parts[i].log == nil {
			continue
		}
		if err := f.read(ctx, &f.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// look takes note of a partition whose offsets moved. Reading waits until there is enough, so that a
// client that asks for large responses does not have the same records read at every append.
func (f *fetch) look(p *fetchPart) {
	p.changed = p.log.Changed()
	if _, epoch, self := p.replica.Leader(); !p.follows && (!self || epoch != p.epoch) {
		if len(p.resp.RecordBatches) == 0 {
			f.refuse(p, kerr.NotLeaderForPartition)
		}
		f.settled = true
		return
	}
	m := p.log.Marks()
	end := readable(m, f.iso)
	if end == p.seen && m.LogStart <= p.req.FetchOffset {
		return // an append that is not committed yet
	}
	p.seen, p.stale = end, true
	size := p.log.Bytes()
	f.more += int(max(size-p.bytes, 1))
	p.bytes = size
	f.settled = f.settled || m.LogStart > p.req.FetchOffset
}

// readStale reads the partitions that have more than the response holds.
func (f *fetch) readStale(ctx context.Context) error {
	for i := range f.parts {
		p := &f.parts[i]
		if !p.stale || p.log == nil {
			continue
		}
		f.found -= len(p.resp.RecordBatches)
		f.left += len(p.resp.RecordBatches)
		p.resp.RecordBatches, p.resp.AbortedTransactions = []byte{}, nil
		f.giveBack(p.charge)
		p.charge = 0
		if err := f.read(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// read adds a partition's records to the response.
func (f *fetch) read(ctx context.Context, p *fetchPart) error {
	p.changed = p.log.Changed() // before reading, so that no change is missed
	p.stale, p.bytes = false, p.log.Bytes()
	want := min(int(p.req.PartitionMaxBytes), f.left)
	if want <= 0 && f.found > 0 || f.behind && f.ofHistory(*p) {
		m := p.log.Marks()
		p.marks(m)
		p.seen = readable(m, f.iso)
		return nil
	}
	// At the end there is nothing to reserve for, and most partitions of most requests are there. A follower's end may lie before it.
	if m := p.log.Marks(); p.req.FetchOffset == readable(m, f.iso) || p.follows && p.req.FetchOffset > m.HighWatermark {
		p.marks(m)
		p.seen = readable(m, f.iso)
		return nil
	}
	reserve, err := f.reserve(ctx, int64(want))
	if err != nil {
		return err
	}
	if reserve == 0 { // no room, but the response has records
		f.left = 0
		p.marks(p.log.Marks())
		return nil
	}
	want = int(min(int64(want), reserve))
	// A batch larger than every bound still goes out alone, or the client could never pass it.
	res, err := p.log.Read(p.req.FetchOffset, want, f.found == 0, f.iso)
	p.charge = min(reserve, int64(len(res.Batches))) // a batch beyond its bound is not charged for the rest
	f.giveBack(reserve - p.charge)
	if err != nil {
		if errors.Is(err, log.ErrOffsetOutOfRange) {
			p.marks(p.log.Marks())
		}
		f.refuse(p, err)
		return nil
	}
	p.marks(res.Marks)
	p.seen = readable(res.Marks, f.iso)
	if len(res.Batches) == 0 {
		p.seen = min(p.seen, p.req.FetchOffset) // whatever the marks say by now, nothing beyond it was seen
		return nil
	}
	if f.ofHistory(*p) {
		f.b.pacer.Read(len(res.Batches))
	}
	p.resp.RecordBatches = res.Batches
	f.found += len(res.Batches)
	f.left -= len(res.Batches)
	if f.iso == log.ReadCommitted {
		p.resp.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(res.Aborted))
		for i, a := range res.Aborted {
			t := &p.resp.AbortedTransactions[i]
			t.Default()
			t.ProducerID, t.FirstOffset = a.ProducerID, a.FirstOffset
		}
	}
	return nil
}

// reserve takes bytes for records (invariant 9). Only a response that is still empty waits for them.
func (f *fetch) reserve(ctx context.Context, want int64) (int64, error) {
	if n := f.held.TakeUpTo(max(want, minFetchReserve), minFetchReserve); n > 0 {
		return n, nil
	}
	if f.found > 0 {
		return 0, nil
	}
	f.r.endTurn() // those whose clients left room do not wait for one whose did not
	defer pause(ctx)()
	had := f.held.Bytes()
	_, err := f.held.Grow(ctx, had+minFetchReserve)
	return f.held.Bytes() - had, err
}

// awaitHistory waits for a turn at reading history, and in it until history may be read. Without a turn in time history gets nothing, and
// the client asks again.
func (f *fetch) awaitHistory(ctx context.Context) error {
	defer pause(ctx)()
	f.settled = true // whatever the client's least, there is no waiting for more records
	inTime, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	leave, err := f.r.shares.history.Enter(inTime)
	if err != nil {
		f.behind = true
		return ctx.Err()
	}
	f.r.turn = leave
	if f.b.pacer.Held() {
		f.left = min(f.left, heldRead)
	}
	return f.b.pacer.Wait(ctx)
}

// ofHistory tells that a partition is read far from its end, by estimate.
func (f *fetch) ofHistory(p fetchPart) bool {
	if p.log == nil {
		return false
	}
	m := p.log.Marks()
	left, all := readable(m, f.iso)-p.req.FetchOffset, m.End-m.LogStart
	return left > 0 && all > 0 && float64(left)/float64(all)*float64(p.log.Bytes()) > historyBytes
}

func (f *fetch) giveBack(n int64) { f.held.Shrink(f.held.Bytes() - n) }
