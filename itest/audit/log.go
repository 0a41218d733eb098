package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Event is one record of a data topic.
type Event struct {
	Change
	Tx        string
	Topic     string
	Partition int32
	Offset    int64
}

// End is one END record of the transaction topic.
type End struct {
	Tx     string
	Counts map[string]int64 // by schema.table
}

// Trail is all that a read_committed reader finds.
type Trail struct {
	Loaded      map[string]int // initial-load rows by table
	LoadedTwice int
	Events      []Event // in partition order
	Ends        []End   // in order
	Tombstones  int
}

// Log reads the connector's topics with read_committed from the start to their last stable offsets.
func Log(ctx context.Context, client *kgo.Client, prefix string) (*Trail, error) {
	trail := &Trail{Loaded: map[string]int{}}
	loaded := map[string]map[int64]bool{}
	return trail, Each(ctx, client, prefix, func(r *kgo.Record) error {
		if r.Topic == TransactionTopic(prefix) {
			return trail.end(r)
		}
		return trail.event(r, loaded)
	})
}

// TransactionTopic holds the ENDs of a connector's transactions.
func TransactionTopic(prefix string) string { return prefix + ".transaction" }

// Each is given every record of the tables' topics and of the transaction topic, as Log reads them.
func Each(ctx context.Context, client *kgo.Client, prefix string, each func(*kgo.Record) error) error {
	adm := kadm.NewClient(client)
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var names []string
	for _, name := range topics.Names() {
		if name == TransactionTopic(prefix) || strings.HasPrefix(name, prefix+".") && strings.Count(name[len(prefix):], ".") >= 2 {
			names = append(names, name)
		}
	}
	ends, err := adm.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	starts := map[string]map[int32]kgo.Offset{}
	remaining := map[string]map[int32]int64{} // next offset at which a partition is done
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			err = fmt.Errorf("list offsets of %s/%d: %w", o.Topic, o.Partition, o.Err)
		}
		if o.Offset == 0 {
			return
		}
		if starts[o.Topic] == nil {
			starts[o.Topic], remaining[o.Topic] = map[int32]kgo.Offset{}, map[int32]int64{}
		}
		starts[o.Topic][o.Partition] = kgo.NewOffset().AtStart()
		remaining[o.Topic][o.Partition] = o.Offset
	})
	if err != nil {
		return err
	}
	return consume(ctx, client, starts, remaining, each)
}

// consume reads every partition to its end. The end of a log may be a transaction marker, which no reader is given:
// a partition is done when a poll has carried its position there, which kgo tells by the offsets of later fetches; so the
// control records are kept and dropped here.
func consume(ctx context.Context, client *kgo.Client, starts map[string]map[int32]kgo.Offset, remaining map[string]map[int32]int64, each func(*kgo.Record) error) error {
	opts := append(client.Opts(), kgo.ConsumePartitions(starts), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	reader, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer reader.Close()
	for len(remaining) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := remaining[r.Topic][r.Partition]
			if failed != nil || !ok || r.Offset >= end {
				return
			}
			if !r.Attrs.IsControl() {
				failed = each(r)
			}
			if r.Offset+1 >= end {
				delete(remaining[r.Topic], r.Partition)
				if len(remaining[r.Topic]) == 0 {
					delete(remaining, r.Topic)
				}
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

type envelope struct {
	Op            string
	Before, After *struct{ ID, Rev int64 }
	Source        struct {
		TxID       *uint32 `json:"txId"`
		GTID       string
		Schema, DB string
		Table      string
	}
}

func (t *Trail) event(r *kgo.Record, loaded map[string]map[int64]bool) error {
	if r.Value == nil {
		t.Tombstones++
		return nil
	}
	var e envelope
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return fmt.Errorf("read %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	table := cmp.Or(e.Source.Schema, e.Source.DB) + "." + e.Source.Table
	tx := e.Source.GTID
	if e.Source.TxID != nil {
		tx = strconv.FormatUint(uint64(*e.Source.TxID), 10)
	}
	row := e.After
	if e.Op == "d" {
		row = e.Before
	}
	if row == nil || tx == "" && e.Op != "r" {
		return fmt.Errorf("read %s/%d@%d: no row or no transaction in %s", r.Topic, r.Partition, r.Offset, r.Value)
	}
	if e.Op == "r" {
		if loaded[table] == nil {
			loaded[table] = map[int64]bool{}
		}
		if loaded[table][row.ID] {
			t.LoadedTwice++
		}
		loaded[table][row.ID] = true
		t.Loaded[table]++
		return nil
	}
	rev := row.Rev
	if e.Op == "d" {
		rev = -1
	}
	t.Events = append(t.Events, Event{
		Change: Change{Table: table, Op: e.Op[0], ID: row.ID, Rev: rev}, Tx: tx,
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
	})
	return nil
}

func (t *Trail) end(r *kgo.Record) error {
	var e struct {
		Status, ID  string
		Collections []struct {
			Name  string `json:"data_collection"`
			Count int64  `json:"event_count"`
		} `json:"data_collections"`
	}
	if r.Value == nil {
		return nil
	}
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return fmt.Errorf("read %s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	if e.Status != "END" {
		return nil
	}
	end := End{Tx: transactionID(e.ID), Counts: map[string]int64{}}
	for _, c := range e.Collections {
		end.Counts[c.Name] = c.Count
	}
	t.Ends = append(t.Ends, end)
	return nil
}

// transactionID is what a transaction is called at its source: of Postgres the number before the position, else a GTID.
func transactionID(id string) string {
	xid, _, _ := strings.Cut(id, ":")
	if _, err := strconv.ParseUint(xid, 10, 32); err == nil {
		return xid
	}
	return id
}

// sortByPlace orders events by partition and offset.
func sortByPlace(events []Event) {
	sort.SliceStable(events, func(i, j int) bool {
		a, b := events[i], events[j]
		if a.Topic != b.Topic {
			return a.Topic < b.Topic
		}
		if a.Partition != b.Partition {
			return a.Partition < b.Partition
		}
		return a.Offset < b.Offset
	})
}
