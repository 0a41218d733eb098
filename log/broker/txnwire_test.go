package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

// wire sends single requests of one transactional id, in the versions of one client.
type wire struct {
	t  *testing.T
	s  *served // nil: another process, asked in versions that name topics
	cl *kgo.Client
	id string
}

func newWire(t *testing.T, s *served, id string, v *kversion.Versions) *wire {
	return &wire{t, s, s.client(t, true, kgo.MaxVersions(v)), id}
}

// ask sends a request to the node as it is, once.
func ask[T kmsg.Response](w *wire, req kmsg.Request) T {
	w.t.Helper()
	resp, err := w.cl.Broker(1).Request(within(w.t, 20*time.Second), req)
	if err != nil {
		w.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(T)
}

func (w *wire) init(expected *txn.Producer) txn.Producer {
	w.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &w.id, 60_000
	if expected != nil {
		req.ProducerID, req.ProducerEpoch = expected.ID, expected.Epoch
	}
	resp := ask[*kmsg.InitProducerIDResponse](w, req)
	w.want("InitProducerId", resp.ErrorCode, nil)
	return txn.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
}

func (w *wire) want(what string, code int16, err *kerr.Error) {
	w.t.Helper()
	if want := errorCode(asError(err)); code != want {
		w.t.Fatalf("%s: %v, want %v", what, kerr.ErrorForCode(code), kerr.ErrorForCode(want))
	}
}

func asError(e *kerr.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// produce sends one record and returns the code and its offset.
func (w *wire) produce(p txn.Producer, seq int32, topic, value string) (int16, int64) {
	w.t.Helper()
	var b record.Builder
	b.Append(time.Now().UnixMilli(), []byte("k"), []byte(value))
	req := produceRequest(topic, -1, b.Build(&record.Producer{ID: p.ID, Epoch: p.Epoch, BaseSequence: seq, Transactional: true}))
	req.TransactionID = &w.id
	if w.s != nil {
		req.Topics[0].TopicID = w.s.node.Catalog().Topics[topic].ID
	}
	resp := ask[*kmsg.ProduceResponse](w, req)
	return resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[0].BaseOffset
}

func (w *wire) wantProduced(p txn.Producer, seq int32, topic, value string, err *kerr.Error) int64 {
	w.t.Helper()
	code, offset := w.produce(p, seq, topic, value)
	w.want("Produce "+value, code, err)
	return offset
}

func (w *wire) add(p txn.Producer, topic string) int16 {
	w.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = w.id, p.ID, p.Epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	return ask[*kmsg.AddPartitionsToTxnResponse](w, req).Topics[0].Partitions[0].ErrorCode
}

func (w *wire) end(p txn.Producer, commit bool) (int16, txn.Producer) {
	w.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = w.id, p.ID, p.Epoch, commit
	resp := ask[*kmsg.EndTxnResponse](w, req)
	return resp.ErrorCode, txn.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
}

func (w *wire) wantEnd(p txn.Producer, commit bool, err *kerr.Error) txn.Producer {
	w.t.Helper()
	code, next := w.end(p, commit)
	w.want("EndTxn", code, err)
	return next
}

// wantRead waits until a reader of committed records gets these, and nothing is open.
func (w *wire) wantRead(topic string, values ...string) {
	w.t.Helper()
	r, err := w.s.node.Replica(topic, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	waitFor(w.t, "the end of the transactions", func() bool { m := r.Log().Marks(); return m.LastStable == m.HighWatermark })
	if got := readAll(w.t, w.s, topic, kgo.ReadCommitted()); !slices.Equal(got, sorted(values)) {
		w.t.Fatalf("read %v, want %v", got, values)
	}
}

// Version 2: requests that come late or twice, around the end of their transaction and within the next one.
func TestLateRequestsOfVersion2(t *testing.T) {
	s := serve(t)
	w := newWire(t, s, "id", kversion.Stable())
	createTopic(t, w.cl, "t", 1)
	one := w.init(nil)
	at := w.wantProduced(one, 0, "t", "a", nil) // joins by itself
	if again := w.wantProduced(one, 0, "t", "a", nil); again != at {
		t.Fatalf("the same batch is at %d and %d", at, again)
	}
	two := w.wantEnd(one, true, nil)
	if two != (txn.Producer{ID: one.ID, Epoch: one.Epoch + 1}) {
		t.Fatalf("%+v is followed by %+v", one, two)
	}
	if again := w.wantEnd(one, true, nil); again != two {
		t.Fatalf("asked again: %+v, not %+v", again, two)
	}
	w.wantEnd(one, false, kerr.InvalidTxnState)
	w.wantProduced(one, 0, "t", "a", kerr.InvalidProducerEpoch)
	w.wantProduced(one, 1, "t", "late", kerr.InvalidProducerEpoch)
	w.want("AddPartitionsToTxn", newWire(t, s, "id", kversion.V3_5_0()).add(one, "t"), kerr.ProducerFenced)
	w.wantRead("t", "a")

	w.wantProduced(two, 0, "t", "b", nil)
	w.wantEnd(one, true, kerr.ProducerFenced)
	w.wantEnd(one, false, kerr.ProducerFenced)
	w.wantProduced(one, 0, "t", "a", kerr.InvalidProducerEpoch)
	three := w.wantEnd(two, false, nil)
	w.wantEnd(two, true, kerr.InvalidTxnState)
	w.wantRead("t", "a")

	// The end overtakes the only batch.
	four := w.wantEnd(three, true, nil)
	w.wantProduced(three, 0, "t", "overtaken", kerr.InvalidProducerEpoch)
	w.wantRead("t", "a")

	// A batch overtakes the first one, in a partition that does not know the producer.
	createTopic(t, w.cl, "u", 1)
	w.wantProduced(four, 1, "u", "second", kerr.OutOfOrderSequenceNumber)
	w.wantProduced(four, 0, "u", "first", nil)
	w.wantProduced(four, 1, "u", "second", nil)
	w.wantProduced(four, 3, "u", "fourth", kerr.OutOfOrderSequenceNumber)
	w.wantEnd(four, true, nil)
	w.wantRead("u", "first", "second")
}

// Version 1: a batch that comes after the end of its transaction does not open one that nobody will end.
func TestLateRequestsOfVersion1(t *testing.T) {
	for name, tt := range map[string]struct {
		v    *kversion.Versions
		want *kerr.Error // of a batch outside of a transaction
	}{
		"old":       {kversion.V2_8_0(), kerr.InvalidTxnState},
		"Kafka 3.9": {kversion.V3_9_0(), kerr.TransactionAbortable},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			w := newWire(t, s, "id", tt.v)
			createTopic(t, s.client(t, true), "t", 1)
			p := w.init(nil)
			w.wantProduced(p, 0, "t", "early", tt.want)
			w.want("AddPartitionsToTxn", w.v4add(p), nil)
			w.wantProduced(p, 0, "t", "a", nil)
			w.wantEnd(p, true, nil)
			w.wantEnd(p, true, nil)
			w.wantEnd(p, false, kerr.InvalidTxnState)
			w.wantRead("t", "a")
			w.wantProduced(p, 1, "t", "late", tt.want)
			w.wantProduced(p, 0, "t", "a", tt.want)
			w.wantRead("t", "a")
			// Another instance takes over.
			q := w.init(nil)
			w.wantProduced(p, 1, "t", "late", kerr.InvalidProducerEpoch)
			w.wantEnd(p, true, fencedSince(tt.v))
			w.want("AddPartitionsToTxn", w.v4add(q), nil)
			w.wantProduced(q, 0, "t", "b", nil)
			w.wantEnd(q, true, nil)
			w.wantRead("t", "a", "b")
		})
	}
}

// v4add adds partition 0 of t as clients do: brokers alone send version 4 and newer.
func (w *wire) v4add(p txn.Producer) int16 {
	w.t.Helper()
	return newWire(w.t, w.s, w.id, kversion.V2_8_0()).add(p, "t")
}

// fencedSince is the error of a fenced EndTxn in a client's version.
func fencedSince(v *kversion.Versions) *kerr.Error {
	if n, ok := v.LookupMaxKeyVersion(26); ok && n >= 2 {
		return kerr.ProducerFenced
	}
	return kerr.InvalidProducerEpoch
}

// The client of a transactional id is replaced by a newer one and by an older one again.
func TestClientVersionsTakeOver(t *testing.T) {
	s := serve(t)
	createTopic(t, s.client(t, true), "t", 1)
	var want []string
	last := txn.Producer{ID: -1, Epoch: -1}
	for i, v := range []*kversion.Versions{kversion.V2_8_0(), kversion.Stable(), kversion.V3_9_0(), kversion.Stable(), kversion.V0_11_0()} {
		cl := s.client(t, true, kgo.MaxVersions(v), kgo.TransactionalID("id"))
		for _, commit := range []bool{true, false, true} {
			begin(t, cl)
			value := string(rune('a'+i)) + map[bool]string{true: "kept", false: "gone"}[commit]
			produceAll(t, cl, "t", value)
			end(t, cl, kgo.TransactionEndTry(commit))
			if commit {
				want = append(want, value)
			}
		}
		id, epoch, err := cl.ProducerID(t.Context())
		if err != nil || id == last.ID && epoch <= last.Epoch {
			t.Fatalf("%d, %d after %+v: %v", id, epoch, last, err)
		}
		last = txn.Producer{ID: id, Epoch: epoch}
	}
	newWire(t, s, "id", kversion.Stable()).wantRead("t", want...)
}

// Offsets join a transaction by being committed, and late ones do not open another.
func TestTxnOffsetCommitJoins(t *testing.T) {
	s := serve(t)
	w := newWire(t, s, "id", kversion.Stable())
	createTopic(t, w.cl, "t", 1)
	commit := func(p txn.Producer, offset int64) int16 {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = w.id, "g", p.ID, p.Epoch
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Offset = offset
		req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{rp}}}
		return ask[*kmsg.TxnOffsetCommitResponse](w, req).Topics[0].Partitions[0].ErrorCode
	}
	committed := func() int64 {
		got, err := kadm.NewClient(w.cl).FetchOffsets(within(t, 20*time.Second), "g")
		if o, ok := got.Lookup("t", 0); err == nil && ok {
			return o.At
		}
		return -1
	}
	one := w.init(nil)
	w.want("TxnOffsetCommit", commit(one, 5), nil)
	two := w.wantEnd(one, true, nil)
	waitFor(t, "the offset", func() bool { return committed() == 5 })
	w.want("TxnOffsetCommit", commit(one, 3), kerr.InvalidProducerEpoch)
	w.want("TxnOffsetCommit", commit(two, 7), nil)
	w.wantEnd(one, true, kerr.ProducerFenced)
	three := w.wantEnd(two, false, nil)
	if three.Epoch != two.Epoch+1 || committed() != 5 {
		t.Fatalf("%+v, offset %d", three, committed())
	}
}

// Brokers ask whether a partition is part of a transaction, and add some for a producer.
func TestAddPartitionsToTxnOfBrokers(t *testing.T) {
	s := serve(t)
	w := newWire(t, s, "id", kversion.Stable())
	createTopic(t, w.cl, "t", 1)
	p := w.init(nil)
	ask := func(p txn.Producer, verify bool) int16 {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		rt := kmsg.NewAddPartitionsToTxnRequestTransaction()
		rt.TransactionalID, rt.ProducerID, rt.ProducerEpoch, rt.VerifyOnly = w.id, p.ID, p.Epoch, verify
		rt.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: []int32{0}}}
		req.Transactions = append(req.Transactions, rt)
		return ask[*kmsg.AddPartitionsToTxnResponse](w, req).Transactions[0].Topics[0].Partitions[0].ErrorCode
	}
	w.want("verify", ask(p, true), kerr.TransactionAbortable)
	w.want("add", ask(p, false), nil)
	w.want("verify", ask(p, true), nil)
	w.want("verify", ask(txn.Producer{ID: p.ID, Epoch: p.Epoch + 1}, true), kerr.ProducerFenced)
	w.want("verify", ask(txn.Producer{ID: p.ID + 1, Epoch: p.Epoch}, true), kerr.InvalidProducerIDMapping)
	w.wantEnd(p, true, nil)
	w.want("add", ask(p, false), kerr.ProducerFenced)
}

// A supported feature that begins at 0 breaks clients of version 3 (KAFKA-17011); the finalized one is told to both.
func TestFeatures(t *testing.T) {
	s := serve(t)
	for version, supported := range map[int16]int{2: 0, 3: 0, 4: 2} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1"
		c := dial(t, s.addr)
		if _, err := c.Write(request1(1, req)); err != nil {
			t.Fatal(err)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = version
		if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil {
			t.Fatal(err)
		}
		if len(resp.SupportedFeatures) != supported {
			t.Errorf("version %d: supported %+v", version, resp.SupportedFeatures)
		}
		if version < 3 {
			continue
		}
		f := resp.FinalizedFeatures
		if len(f) != 2 || f[0].Name != "group.version" || f[0].MaxVersionLevel != 1 ||
			f[1].Name != "transaction.version" || f[1].MaxVersionLevel != 2 || resp.FinalizedFeaturesEpoch < 0 {
			t.Errorf("version %d: finalized %+v of epoch %d", version, f, resp.FinalizedFeaturesEpoch)
		}
	}
}

// Batches that are sent without waiting for the answers of those before them, right behind the end of the last transaction: the
// first one makes the partition part of the transaction, and the others stay behind it.
func TestPipelinedTransactions(t *testing.T) {
	s := serve(t)
	w := newWire(t, s, "id", kversion.Stable())
	createTopic(t, w.cl, "t", 1)
	c := dial(t, s.addr)
	const transactions, batches = 20, 8
	p := w.init(nil)
	var want []string
	for i := range transactions {
		for seq := range int32(batches) {
			var b record.Builder
			value := string(rune('a'+i)) + string('a'+seq)
			want = append(want, value)
			b.Append(time.Now().UnixMilli(), []byte("k"), []byte(value))
			req := produceRequest("t", -1, b.Build(&record.Producer{ID: p.ID, Epoch: p.Epoch, BaseSequence: seq, Transactional: true}))
			req.Version, req.TransactionID = 12, &w.id
			if _, err := c.Write(request1(seq, req)); err != nil {
				t.Fatal(err)
			}
		}
		for seq := range batches {
			resp := kmsg.NewPtrProduceResponse()
			resp.Version = 12
			if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil {
				t.Fatal(err)
			}
			w.want("Produce", resp.Topics[0].Partitions[0].ErrorCode, nil)
			if at := resp.Topics[0].Partitions[0].BaseOffset; at != int64(i*(batches+1)+seq) { // a marker follows each transaction
				t.Fatalf("batch %d of transaction %d is at %d", seq, i, at)
			}
		}
		p = w.wantEnd(p, true, nil)
		// The next one ends at once, while the markers of this one are written.
		p = w.wantEnd(p, i%2 == 0, nil)
	}
	w.wantRead("t", want...)
}

// Nothing that a client sends puts a transaction's marker into the coordinator's own log, which has none and could not be loaded.
func TestCoordinatorsLogTakesNoMarkers(t *testing.T) {
	dir := t.TempDir()
	l := live(t, dir)
	cl := l.client(t, kgo.MaxVersions(kversion.V3_9_0()))
	defer cl.Close()
	createTopic(t, cl, "t", 1)
	w := &wire{t: t, cl: cl, id: "id"}
	old := &wire{t: t, cl: l.client(t, kgo.MaxVersions(kversion.V2_8_0())), id: "id"}
	defer old.cl.Close()
	p := w.init(nil)
	for _, topic := range []string{txn.Topic, "__consumer_offsets"} {
		old.want("AddPartitionsToTxn of "+topic, old.add(p, topic), kerr.TopicAuthorizationFailed)
	}
	old.want("AddPartitionsToTxn", old.add(p, "t"), nil)
	old.wantEnd(p, true, nil)
	for topic, want := range map[string]*kerr.Error{txn.Topic: kerr.InvalidTopicException, "t": nil, "nope": kerr.UnknownTopicOrPartition} {
		old.want("WriteTxnMarkers to "+topic, old.mark(l.Broker, p, topic, 0), want)
	}
	old.want("WriteTxnMarkers of nobody", old.mark(l.Broker, txn.Producer{ID: -1, Epoch: 0}, "t", 0), kerr.InvalidProducerEpoch)
	l.end(t)

	again := live(t, dir)
	defer again.end(t)
	waitFor(t, "all partitions of the coordinator", func() bool {
		code, _ := awaitCoded(again.coordinating, again.txns.List)
		return code == 0
	})
}

// mark asks for an abort marker in partition 0, as the coordinator of b would.
func (w *wire) mark(b *Broker, p txn.Producer, topic string, version int8) int16 {
	w.t.Helper()
	r, err := b.node.Replica(txn.Topic, b.txns.PartitionFor(w.id))
	if err != nil {
		w.t.Fatal(err)
	}
	_, epoch, _ := r.Leader()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.TransactionVersion, m.CoordinatorEpoch = p.ID, p.Epoch, version, epoch
	m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{0}}}
	req.Markers = append(req.Markers, m)
	return ask[*kmsg.WriteTxnMarkersResponse](w, req).Markers[0].Topics[0].Partitions[0].ErrorCode
}

// A marker of version 2 is of the epoch after its transaction's. One of an open transaction's own epoch is late; one that ended
// the last transaction may come again.
func TestMarkersOfVersion2(t *testing.T) {
	s := serve(t)
	w := newWire(t, s, "id", kversion.Stable())
	createTopic(t, w.cl, "t", 1)
	p := w.init(nil)
	w.wantProduced(p, 0, "t", "a", nil)
	after := txn.Producer{ID: p.ID, Epoch: p.Epoch + 1}
	w.want("the own epoch", w.mark(s.Broker, p, "t", 2), kerr.InvalidProducerEpoch)
	w.want("the next epoch", w.mark(s.Broker, after, "t", 2), nil)
	w.want("again", w.mark(s.Broker, after, "t", 2), nil)
	w.want("an epoch of before", w.mark(s.Broker, p, "t", 2), kerr.InvalidProducerEpoch)
	w.wantEnd(p, false, nil)
	w.wantRead("t")

	// Before version 2 the own epoch is the right one, as of an admin that ends what hangs.
	w.wantProduced(after, 0, "t", "b", nil)
	w.want("version 2", w.mark(s.Broker, after, "t", 2), kerr.InvalidProducerEpoch)
	w.want("version 0", w.mark(s.Broker, after, "t", 0), nil)
	w.wantEnd(after, false, nil)
	w.wantRead("t")
}
