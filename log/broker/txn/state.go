package txn

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// State of a transactional id. The values are those of Kafka's records.
type State int8

// The states of a transactional id.
const (
	Empty          State = iota // nothing was ever part of a transaction under this epoch
	Ongoing                     // partitions are part of an open transaction
	PrepareCommit               // decided; markers are being written
	PrepareAbort                // decided; markers are being written
	CompleteCommit              // every partition has its marker
	CompleteAbort               // every partition has its marker
	Dead                        // forgotten
)

func (s State) String() string {
	return [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"}[s]
}

// Producer is an instance's claim: its id and epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

const (
	noProducer = -1
	noEpoch    = -1
	// lastEpoch is the last one handed out; the one above it fences without being handed out.
	lastEpoch = math.MaxInt16 - 1
)

// The transaction versions of clients: how the one that used an id last ends its transactions.
const (
	// V1 is KIP-98's flow: one epoch serves many transactions.
	V1 int16 = 0
	// V2 is that of KIP-890's second part: every end raises the epoch, so a request that comes late is told from
	// one of the next transaction.
	V2 int16 = 2
)

// Txn is the state of one transactional id.
type Txn struct {
	ID      string
	State   State
	Current Producer
	// Previous is the claim that Current replaced for the same instance, at its wish (KIP-360), by an end (KIP-890) or by
	// a timeout, so that a retry finds its answer; -1, -1 when another instance took over.
	// Invariant: it is the epoch before Current of the same producer id, or lastEpoch of another id (records.go).
	Previous Producer
	// Next is the producer id that follows when the transaction that is being completed took the last epoch of Current;
	// else noProducer.
	Next int64
	// Client is the transaction version of the request that opened or ended the last transaction.
	Client     int16
	Timeout    time.Duration
	Partitions map[journal.TopicPartition]struct{} // Invariant: empty in Empty, CompleteCommit and CompleteAbort
	Started    time.Time                           // of the transaction; zero when there is none
	Updated    time.Time
}

// Verdict is what a request comes to.
type Verdict struct {
	Code int16
	// Write: the state has changed; the answer must wait until it is in the log.
	Write bool
	// Wait: a transaction of this id is being completed; ask again afterwards.
	Wait bool
	// Fresh: the epochs of this producer id have run out; ask again with a producer id that was never used.
	Fresh bool
}

// newTxn is the state of an id that was never used.
func newTxn(id string, now time.Time) *Txn {
	return &Txn{ID: id, Current: Producer{noProducer, noEpoch}, Previous: Producer{noProducer, noEpoch}, Next: noProducer,
		Partitions: map[journal.TopicPartition]struct{}{}, Updated: now}
}

func (t *Txn) completing() bool { return t.State == PrepareCommit || t.State == PrepareAbort }

// Init handles InitProducerId. expected, when not nil, is the claim of an instance that continues itself. fresh
// gives a producer id that was never used; it is called when one is needed.
func (t *Txn) Init(expected *Producer, timeout time.Duration, fresh func() int64, now time.Time) Verdict {
	if expected != nil && !t.continues(*expected) {
		return Verdict{Code: kerr.ProducerFenced.Code}
	}
	switch {
	case t.completing():
		return Verdict{Wait: true}
	case t.State == Ongoing && expected != nil && *expected != t.Current:
		// The instance has used the claim that replaced this one: a late request must not abort what it does under that.
		return Verdict{Code: kerr.ProducerFenced.Code}
	case t.State == Ongoing:
		// Invariant 3: the epoch rises before the abort, so the instance before can neither write nor commit.
		t.fence(expected != nil, now)
		return Verdict{Write: true, Wait: true}
	}
	if expected != nil && *expected != t.Current && t.Current.ID != noProducer && t.Current.Epoch <= lastEpoch {
		return Verdict{} // a retry: the answer to the first try is still good
	}
	before := t.Current
	if t.Current.ID == noProducer || t.Current.Epoch >= lastEpoch {
		t.Current = Producer{fresh(), 0}
	} else {
		t.Current.Epoch++
	}
	t.Previous = Producer{noProducer, noEpoch}
	if expected != nil {
		t.Previous = before
		t.Previous.Epoch = min(before.Epoch, lastEpoch)
	}
	t.State, t.Timeout, t.Updated, t.Started = Empty, timeout, now, time.Time{}
	clear(t.Partitions)
	return Verdict{Write: true}
}

// continues: the claim is the one that its instance was told, or the one that it replaced.
func (t *Txn) continues(p Producer) bool {
	return t.Current.ID == noProducer || p == t.Claim() || p == t.Previous && p.ID != noProducer
}

// fence aborts the open transaction under the next epoch. That is the one epoch it rises by, whatever the client's version.
func (t *Txn) fence(same bool, now time.Time) {
	t.Previous = Producer{noProducer, noEpoch}
	if same {
		t.Previous = t.Current
	}
	if t.Current.Epoch < math.MaxInt16 {
		t.Current.Epoch++
	}
	t.State, t.Updated = PrepareAbort, now
}

// check compares a claim with the one that its instance was told: an end of version 2 tells it before the markers are written.
func (t *Txn) check(p Producer) int16 {
	switch c := t.Claim(); {
	case t.State == Dead || p.ID != c.ID:
		return kerr.InvalidProducerIDMapping.Code
	case p.Epoch != c.Epoch:
		return kerr.ProducerFenced.Code
	}
	return 0
}

// Add handles AddPartitionsToTxn and AddOffsetsToTxn, and what joins a transaction by itself in version 2.
func (t *Txn) Add(p Producer, list []journal.TopicPartition, version int16, now time.Time) Verdict {
	if code := t.check(p); code != 0 {
		return Verdict{Code: code}
	}
	if t.completing() {
		return Verdict{Wait: true}
	}
	changed := false
	if t.State != Ongoing {
		clear(t.Partitions)
		t.State, t.Started, t.Client, changed = Ongoing, now, version, true
	}
	for _, tp := range list {
		if _, ok := t.Partitions[tp]; !ok {
			t.Partitions[tp] = struct{}{}
			changed = true
		}
	}
	if changed {
		t.Updated = now
	}
	return Verdict{Write: changed}
}

// End handles EndTxn of version 1.
func (t *Txn) End(p Producer, commit bool, now time.Time) Verdict {
	if code := t.check(p); code != 0 {
		return Verdict{Code: code}
	}
	same := commit == (t.State == PrepareCommit || t.State == CompleteCommit)
	switch t.State {
	case Empty:
		// Nothing was added under this epoch, so nothing can be lost by saying that it is done.
		return Verdict{}
	case Ongoing:
		t.prepare(commit, V1, now)
		return Verdict{Write: true}
	case PrepareCommit, PrepareAbort:
		if same {
			return Verdict{Wait: true}
		}
	case CompleteCommit, CompleteAbort:
		if same {
			return Verdict{}
		}
	}
	return Verdict{Code: kerr.InvalidTxnState.Code}
}

// EndV2 handles EndTxn of version 2. Whatever ends raises the epoch, so the claim says which transaction is meant: the
// current one, or the one that ended last, whose result is told again. next is a producer id that was never used, or
// noProducer as long as none was asked for.
func (t *Txn) EndV2(p Producer, commit bool, next int64, now time.Time) Verdict {
	if p == t.Previous && p.ID != noProducer && t.Client == V2 {
		return t.endAgain(commit, next, now)
	}
	if code := t.check(p); code != 0 {
		return Verdict{Code: code}
	}
	switch {
	case t.completing() && t.Client == V2:
		return Verdict{Wait: true} // the next transaction ends already, without anything in it
	case t.completing():
		return Verdict{Code: kerr.ProducerFenced.Code}
	case t.State == CompleteAbort && t.Client == V1 && commit:
		return Verdict{Code: kerr.InvalidTxnState.Code} // the transaction of this epoch was aborted
	case p.Epoch > lastEpoch:
		return Verdict{Code: kerr.ProducerFenced.Code} // never handed out
	case p.Epoch == lastEpoch && next == noProducer:
		return Verdict{Fresh: true}
	case t.State == Ongoing:
		t.prepare(commit, V2, now)
		t.Previous = p
		t.Current.Epoch++
		if p.Epoch == lastEpoch {
			t.Next = next
		}
		return Verdict{Write: true}
	}
	// Nothing was added, so there are no markers to write.
	t.State = CompleteAbort
	if commit {
		t.State = CompleteCommit
	}
	t.Previous, t.Client, t.Updated, t.Started = p, V2, now, time.Time{}
	t.Current.Epoch++
	if p.Epoch == lastEpoch {
		t.Current = Producer{next, 0}
	}
	return Verdict{Write: true}
}

// endAgain answers an end that was asked for already, or that a timeout came before.
func (t *Txn) endAgain(commit bool, next int64, now time.Time) Verdict {
	same := commit == (t.State == PrepareCommit || t.State == CompleteCommit)
	switch t.State {
	case PrepareCommit, PrepareAbort:
		if same {
			return Verdict{Wait: true}
		}
	case CompleteCommit, CompleteAbort:
		switch {
		case !same:
		case t.Current.Epoch <= lastEpoch:
			return Verdict{}
		case next == noProducer: // a timeout took the epoch that is never handed out
			return Verdict{Fresh: true}
		default:
			t.Current, t.Updated = Producer{next, 0}, now
			return Verdict{Write: true}
		}
	default: // the instance has gone on since
		return Verdict{Code: kerr.ProducerFenced.Code}
	}
	return Verdict{Code: kerr.InvalidTxnState.Code}
}

// prepare decides the open transaction.
func (t *Txn) prepare(commit bool, version int16, now time.Time) {
	t.State = PrepareAbort
	if commit {
		t.State = PrepareCommit
	}
	t.Client, t.Updated = version, now
}

// Claim is what its instance is told to go on with.
func (t *Txn) Claim() Producer {
	if t.Next != noProducer {
		return Producer{t.Next, 0}
	}
	return t.Current
}

// Complete ends a transaction whose markers are all written.
func (t *Txn) Complete(now time.Time) {
	switch t.State {
	case PrepareCommit:
		t.State = CompleteCommit
	case PrepareAbort:
		t.State = CompleteAbort
	default:
		return
	}
	t.Current, t.Next = t.Claim(), noProducer
	clear(t.Partitions)
	t.Started, t.Updated = time.Time{}, now
}

// TimeOut aborts a transaction that has been open for longer than its producer asked for. The producer may still
// continue under the next epoch by InitProducerId.
func (t *Txn) TimeOut(now time.Time) Verdict {
	if t.State != Ongoing || now.Before(t.Started.Add(t.Timeout)) {
		return Verdict{}
	}
	t.fence(true, now)
	return Verdict{Write: true}
}

// Idle says that nothing has happened under this id since a time, and that nothing is under way.
func (t *Txn) Idle(since time.Time) bool {
	return t.State != Ongoing && !t.completing() && t.Updated.Before(since)
}

// List is the partitions of the transaction, in order.
func (t *Txn) List() []journal.TopicPartition {
	list := make([]journal.TopicPartition, 0, len(t.Partitions))
	for tp := range t.Partitions {
		list = append(list, tp)
	}
	slices.SortFunc(list, journal.TopicPartition.Compare)
	return list
}
