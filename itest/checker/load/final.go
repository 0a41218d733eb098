package load

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/checker/history"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Settle bounds the wait for open transactions to end, and for final readers to reach the end.
const Settle = 90 * time.Second

// Final waits until no transaction is open, marks the end of every partition with a record, reads everything up to
// there from the start, and asks for the groups' offsets.
func (l *Load) Final(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*Settle)
	defer cancel()
	for _, id := range append(transactors(), transformers()...) {
		if err := l.fence(ctx, id); err != nil {
			return err
		}
	}
	cl, err := l.client("final", false)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics := Topics()
	if err := l.awaitStable(ctx, adm, topics); err != nil {
		return err
	}
	marks := history.Op{Client: "final", Kind: history.Send, Begin: l.now()}
	for _, topic := range topics {
		for i := range int32(Partitions) {
			w := history.Write{TP: history.TP{Topic: topic, Partition: i}, Value: l.values.Add(1), Offset: history.NoOffset}
			if topic == StateTopic {
				w.Key = fmt.Sprintf("end-%d", i)
			}
			marks.Writes = append(marks.Writes, w)
		}
	}
	if err := produce(ctx, cl, marks.Writes); err != nil {
		return fmt.Errorf("write the last records: %w", err)
	}
	l.add(marks)
	// The marks are no input of the transformers, who have ended: their group's offset stays below.
	for name, level := range map[string]kgo.IsolationLevel{"final-committed": kgo.ReadCommitted(), "final-uncommitted": kgo.ReadUncommitted()} {
		if err := l.readAll(ctx, name, level, name == "final-uncommitted", topics, marks.Writes); err != nil {
			return err
		}
	}
	for _, group := range []string{readersGroup, transformGroup} {
		offsets, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			return fmt.Errorf("ask for the offsets of group %s: %w", group, err)
		}
		l.h.Groups[group] = map[history.TP]int64{}
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.At >= 0 {
				l.h.Groups[group][history.TP{Topic: o.Topic, Partition: o.Partition}] = o.At
			}
		})
	}
	l.h.Transforms = []history.Transform{{Group: transformGroup, Input: inputTopic, Output: outputTopic}}
	return nil
}

// fence ends what a transactional id has left open.
func (l *Load) fence(ctx context.Context, id string) error {
	cl, err := l.client(id, false, kgo.TransactionalID(id), kgo.TransactionTimeout(txnTimeout))
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("fence %s: %w", id, err)
	}
	return nil
}

// awaitStable waits until every partition's last stable offset is its end.
func (l *Load) awaitStable(ctx context.Context, adm *kadm.Client, topics []string) error {
	deadline := time.Now().Add(Settle)
	for {
		ends, err := adm.ListEndOffsets(ctx, topics...)
		if err != nil {
			return fmt.Errorf("list end offsets: %w", err)
		}
		stable, err := adm.ListCommittedOffsets(ctx, topics...)
		if err != nil {
			return fmt.Errorf("list last stable offsets: %w", err)
		}
		open := ""
		ends.Each(func(o kadm.ListedOffset) {
			if s, ok := stable.Lookup(o.Topic, o.Partition); !ok || s.Offset != o.Offset || o.Err != nil {
				open = fmt.Sprintf("%s-%d ends at %d (%v) and is stable up to %d", o.Topic, o.Partition, o.Offset, o.Err, s.Offset)
			}
		})
		if open == "" {
			return nil
		}
		if time.Now().After(deadline) {
			l.report("a transaction is still open %s after all clients have ended: %s", Settle, open)
			return nil
		}
		if !sleep.For(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// readAll reads every partition up to its mark.
func (l *Load) readAll(ctx context.Context, name string, level kgo.IsolationLevel, uncommitted bool, topics []string, marks []history.Write) error {
	p, err := l.assigned(name, history.Session{Client: name, FromStart: true, Final: true, Uncommitted: uncommitted}, level, topics...)
	if err != nil {
		return err
	}
	defer p.close()
	left := map[history.TP]int64{}
	for _, m := range marks {
		left[m.TP] = m.Offset
	}
	for deadline := time.Now().Add(Settle); len(left) > 0; {
		op := history.Op{Client: name, Kind: history.Poll, Begin: l.now()}
		op.Reads = p.poll(ctx, time.Second)
		l.add(op)
		for _, rd := range op.Reads {
			if end, ok := left[rd.TP]; ok && rd.Offset >= end {
				delete(left, rd.TP)
			}
		}
		if time.Now().After(deadline) {
			l.report("%s does not reach the ends: %v", name, left)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
