package load

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/itest/checker/history"
	"github.com/rowtrail/rowtrail/itest/checker/proxy"
)

// A record carries its value, and one that was changed on the way is told from it.
func TestRecordsCarryTheirValues(t *testing.T) {
	for _, w := range []history.Write{
		{TP: history.TP{Topic: "t", Partition: 1}, Value: 1 << 40, From: 7},
		{TP: history.TP{Topic: "t"}, Value: 3, Key: "k"},
		{TP: history.TP{Topic: "t"}, Value: 4, Key: "k", Tombstone: true},
	} {
		r := record(w)
		if got := read(r, 5); got.Value != w.Value || got.Key != w.Key || got.TP != w.TP || got.Session != 5 {
			t.Errorf("wrote %+v, read %+v", w, got)
		}
		if w.Tombstone != (r.Value == nil) {
			t.Errorf("%+v has value %q", w, r.Value)
		}
		r.Value = append(r.Value, 'x')
		if got := read(r, 5); got.Value != damaged {
			t.Errorf("a changed record is read as %+v", got)
		}
	}
	if got := read(&kgo.Record{Value: []byte("foreign")}, 1); got.Value != damaged {
		t.Errorf("a foreign record is read as %+v", got)
	}
}

// Requests that an old protocol cannot defend against are neither repeated nor reordered.
func TestOldTransactionsAreSpared(t *testing.T) {
	n := NewRequests(1)
	for _, tt := range []struct {
		key     kmsg.Key
		version int16
		spared  bool
	}{
		{kmsg.EndTxn, 4, true}, {kmsg.EndTxn, 0, true}, {kmsg.EndTxn, 5, false}, {kmsg.TxnOffsetCommit, 4, true}, {kmsg.TxnOffsetCommit, 5, false},
		{kmsg.AddPartitionsToTxn, 3, false}, {kmsg.AddOffsetsToTxn, 4, false}, {kmsg.Produce, 11, false}, {kmsg.Produce, 13, false},
	} {
		var again, aside, cut int
		for range 2000 {
			p := n.Plan(proxy.Request{Key: int16(tt.key), Version: tt.version})
			if p.Fragile != tt.spared {
				t.Fatalf("%d v%d: %+v", tt.key, tt.version, p)
			}
			if p.Later > 0 || p.Twice {
				again++
			}
			if p.Aside > 0 {
				aside++
			}
			if p.Cut != proxy.NoCut {
				cut++
			}
		}
		if (again == 0) != tt.spared || (aside == 0) != tt.spared || cut == 0 {
			t.Errorf("%d v%d: %d repeated, %d overtaken, %d cut", tt.key, tt.version, again, aside, cut)
		}
	}
	n.Calm()
	for range 1000 {
		if p := n.Plan(proxy.Request{Key: int16(kmsg.EndTxn), Version: 5}); p != (proxy.Plan{}) {
			t.Fatalf("in the quiet: %+v", p)
		}
	}
}
