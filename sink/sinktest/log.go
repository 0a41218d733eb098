package sinktest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/fakelog"
	"github.com/rowtrail/rowtrail/sink"
)

const produceTimeout = 30 * time.Second

// Log is a log in memory with a connector's topics, written as a connector writes it.
type Log struct {
	Prefix string
	Source string // event.SourcePostgres when empty
	Admin  *kadm.Client

	seeds    []string
	client   *kgo.Client
	commit   uint64
	versions map[uint64]bool
}

// NewLog starts a log and creates the connector's own topics.
func NewLog(t testing.TB, prefix string) *Log {
	t.Helper()
	return AttachLog(t, prefix, fakelog.Start(t).ListenAddrs())
}

// AttachLog uses a log that runs somewhere else.
func AttachLog(t testing.TB, prefix string, seeds []string) *Log {
	t.Helper()
	l := &Log{Prefix: prefix, seeds: seeds, commit: 1000, versions: make(map[uint64]bool)}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(l.seeds...), kgo.TransactionalID("rowtrail-connector-"+prefix), kgo.RecordPartitioner(partitioner()),
		kgo.ProducerLinger(0), kgo.MaxProduceRequestsInflightPerBroker(1),
	)
	if err != nil {
		t.Fatalf("create producer: %v", err)
	}
	t.Cleanup(client.Close)
	l.client, l.Admin = client, kadm.NewClient(client)
	for _, suffix := range []string{".transaction", ".schema", ".position"} {
		l.CreateTopic(t, prefix+suffix, 1)
	}
	return l
}

// partitioner places records with a key as the Java client does, and others where they say.
func partitioner() kgo.Partitioner {
	keyed := kgo.StickyKeyPartitioner(nil)
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		p := keyed.ForTopic(topic)
		return func(r *kgo.Record, n int) int {
			if r.Key == nil {
				return int(r.Partition)
			}
			return p.Partition(r, n)
		}
	})
}

// CreateTopic creates a topic.
func (l *Log) CreateTopic(t testing.TB, name string, partitions int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), produceTimeout)
	defer cancel()
	if _, err := l.Admin.CreateTopic(ctx, partitions, 1, nil, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// Deps are what a sink needs to read this log.
func (l *Log) Deps(logger *slog.Logger, instance string) sink.Deps {
	return sink.Deps{Client: []kgo.Opt{kgo.SeedBrokers(l.seeds...)}, Logger: logger, Version: "test", Instance: instance}
}

// Table is one version of a source table and its topic.
type Table struct {
	Schema     *event.Schema
	Topic      string
	Partitions int32
	encoder    *event.Encoder
}

// NewTable makes a table and its topic.
func (l *Log) NewTable(t testing.TB, schema, table string, partitions int32, columns ...event.Column) *Table {
	t.Helper()
	tab := l.NewVersion(t, schema, table, partitions, columns...)
	l.CreateTopic(t, tab.Topic, partitions)
	return tab
}

// NewVersion makes another version of a table.
func (l *Log) NewVersion(t testing.TB, schema, table string, partitions int32, columns ...event.Column) *Table {
	t.Helper()
	opts := event.Options{Name: l.Prefix, Database: "shop", Version: "test", Connector: l.Source}
	s, err := event.NewSchema(opts, schema, table, columns)
	if err != nil {
		t.Fatalf("make schema: %v", err)
	}
	enc, err := event.NewEncoder(s, opts)
	if err != nil {
		t.Fatalf("make encoder: %v", err)
	}
	return &Table{s, l.Prefix + "." + s.Collection(), partitions, enc}
}

// Tx is a source transaction in the making.
type Tx struct {
	Commit  uint64
	log     *Log
	t       testing.TB
	order   uint64
	counts  map[string]uint64
	names   []string
	records []*kgo.Record
}

// Begin starts a source transaction.
func (l *Log) Begin(t testing.TB) *Tx {
	l.commit += 10
	return &Tx{Commit: l.commit, log: l, t: t, counts: make(map[string]uint64)}
}

// Len is the number of events so far.
func (tx *Tx) Len() int { return int(tx.order) }

func (tx *Tx) place(tab *Table, absent []uint16) event.Position {
	name := tab.Schema.Collection()
	if tx.counts[name] == 0 {
		tx.names = append(tx.names, name)
	}
	tx.counts[name]++
	tx.order++
	return event.Position{
		Commit: tx.Commit, Order: tx.order, CollectionOrder: tx.counts[name], CommitTime: time.Now().UnixMicro(),
		Schema: tab.Schema.ID, Absent: absent,
	}
}

func (tx *Tx) record(tab *Table, pos event.Position, op event.Op, before, after event.Row) *kgo.Record {
	tx.version(tab)
	rec := &kgo.Record{Topic: tab.Topic, Headers: []kgo.RecordHeader{{Key: event.PositionHeader, Value: pos.Append(nil)}}}
	row := after
	if row == nil {
		row = before
	}
	if row != nil {
		key, ok, err := tab.encoder.AppendKey(nil, row)
		if err != nil {
			tx.t.Fatalf("encode key: %v", err)
		}
		if ok {
			rec.Key = key
		}
	}
	meta := event.Meta{TsMs: time.Now().UnixMilli(), SourceTsUs: pos.CommitTime, TxID: uint32(tx.Commit), LSN: tx.Commit}
	value, err := tab.encoder.AppendValue(nil, op, before, after, &meta)
	if err != nil {
		tx.t.Fatalf("encode value: %v", err)
	}
	rec.Value = value
	return rec
}

// version writes a table version before its first use.
func (tx *Tx) version(tab *Table) {
	if tx.log.versions[tab.Schema.ID] {
		return
	}
	tx.log.versions[tab.Schema.ID] = true
	value, err := tab.Schema.MarshalJSON()
	if err != nil {
		tx.t.Fatalf("encode schema: %v", err)
	}
	tx.records = append(tx.records, &kgo.Record{Topic: tx.log.Prefix + ".schema", Key: tab.Schema.TopicKey(), Value: value})
}

// Change adds an event. A delete is followed by its tombstone; a truncate goes to every partition.
func (tx *Tx) Change(tab *Table, op event.Op, before, after event.Row) {
	var absent []uint16
	for i := range after {
		if after[i].State == event.Absent {
			absent = append(absent, uint16(i))
		}
	}
	pos := tx.place(tab, absent)
	if op == event.OpTruncate {
		for p := range tab.Partitions {
			rec := tx.record(tab, pos, op, nil, nil)
			rec.Partition = p
			tx.records = append(tx.records, rec)
		}
		return
	}
	rec := tx.record(tab, pos, op, before, after)
	tx.records = append(tx.records, rec)
	if op == event.OpDelete {
		tx.records = append(tx.records, &kgo.Record{Topic: rec.Topic, Key: rec.Key, Headers: rec.Headers})
	}
}

// Rekey adds a key change: delete and tombstone of the old key, create of the new one.
func (tx *Tx) Rekey(tab *Table, before, after event.Row) {
	key := func(row event.Row) []byte {
		k, _, err := tab.encoder.AppendKey(nil, row)
		if err != nil {
			tx.t.Fatalf("encode key: %v", err)
		}
		return k
	}
	oldKey, newKey := key(before), key(after)
	n := len(tx.records)
	tx.Change(tab, event.OpDelete, before, nil)
	for _, rec := range tx.records[n:] { // the tombstone has it, too
		rec.Headers = append(slices.Clip(rec.Headers), kgo.RecordHeader{Key: event.NewKeyHeader, Value: newKey})
	}
	tx.Change(tab, event.OpCreate, nil, after)
	rec := tx.records[len(tx.records)-1]
	rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: event.OldKeyHeader, Value: oldKey})
}

// Load adds an initial-load row.
func (tx *Tx) Load(tab *Table, row event.Row) {
	pos := event.Position{Commit: tx.Commit, CommitTime: time.Now().UnixMicro(), Schema: tab.Schema.ID}
	tx.records = append(tx.records, tx.record(tab, pos, event.OpRead, nil, row))
}

// Spoil replaces the value of the last event.
func (tx *Tx) Spoil(value string) { tx.records[len(tx.records)-1].Value = []byte(value) }

// Raw adds a record as it is.
func (tx *Tx) Raw(rec *kgo.Record) { tx.records = append(tx.records, rec) }

// end is the record that closes the transaction.
func (tx *Tx) end() *kgo.Record {
	e := event.TransactionEnd{Status: event.TransactionEndMark, ID: fmt.Sprintf("%d:%d", tx.Commit, tx.Commit), TsMs: time.Now().UnixMilli()}
	for _, name := range tx.names {
		e.Collections = append(e.Collections, event.CollectionCount{Collection: name, Count: int64(tx.counts[name])})
		e.EventCount += int64(tx.counts[name])
	}
	pos := event.Position{Commit: tx.Commit, CommitTime: time.Now().UnixMicro()}
	return &kgo.Record{
		Topic: tx.log.Prefix + ".transaction", Key: e.AppendKey(nil, false), Value: e.AppendValue(nil, false),
		Headers: []kgo.RecordHeader{{Key: event.PositionHeader, Value: pos.Append(nil)}},
	}
}

// Write puts the source transactions into one log transaction, and aborts it when asked to.
func (l *Log) Write(t testing.TB, commit bool, txs ...*Tx) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), produceTimeout)
	defer cancel()
	if err := l.client.BeginTransaction(); err != nil {
		t.Fatalf("begin log transaction: %v", err)
	}
	for _, tx := range txs {
		for _, rec := range tx.records {
			l.client.Produce(ctx, rec, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
			})
		}
		if tx.order > 0 {
			l.client.Produce(ctx, tx.end(), func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce end: %v", err)
				}
			})
		}
	}
	if err := l.client.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if err := l.client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		t.Fatalf("end log transaction: %v", err)
	}
	for _, tx := range txs {
		for _, rec := range tx.records {
			if !commit && rec.Topic == l.Prefix+".schema" {
				_, id, err := event.ParseSchemaKey(rec.Key)
				if err == nil {
					delete(l.versions, id)
				}
			}
		}
	}
}

// Seeds are the addresses of the log.
func (l *Log) Seeds() []string { return l.seeds }

// PartitionOf tells where a row's events go.
func (l *Log) PartitionOf(t testing.TB, tab *Table, row event.Row) int32 {
	t.Helper()
	key, _, err := tab.encoder.AppendKey(nil, row)
	if err != nil {
		t.Fatalf("encode key: %v", err)
	}
	return int32(partitioner().ForTopic(tab.Topic).Partition(&kgo.Record{Key: key}, int(tab.Partitions)))
}
