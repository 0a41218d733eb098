package sinktest

import (
	"context"
	"testing"
)

// Partitions that are added to a topic while the sink runs are read before an event is missed that may be in them.
func testMorePartitions(t *testing.T, h Harness) {
	l := NewLog(t, "shop")
	s := NewSource(t, l, 1)
	rng := random(t)
	r := run(t, l, h.Target("w"), "w", "")
	for n := 2; n <= 4; n++ {
		s.Work(t, rng, 10)
		awaitEqual(t, h, s)
		s.addPartitions(t, n)
		s.Work(t, rng, 40)
		awaitEqual(t, h, s)
	}
	exactlyOnce(t, h, s)
	if st := r.sink.Status(); st.Poison != nil {
		t.Errorf("the sink looked for a record that cannot be applied: %+v", st)
	}
}

// addPartitions gives the tables' topics more partitions, which the producer uses from then on.
func (s *Source) addPartitions(t testing.TB, total int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), produceTimeout)
	defer cancel()
	for _, tab := range s.Tables() {
		resp, err := s.Log.Admin.UpdatePartitions(ctx, total, tab.Topic)
		if err == nil {
			err = resp.Error()
		}
		if err != nil {
			t.Fatalf("add partitions to %s: %v", tab.Topic, err)
		}
		tab.Partitions = int32(total)
	}
	await(t, "the producer to know the new partitions", func() bool {
		s.Log.client.ForceMetadataRefresh()
		for _, tab := range s.Tables() {
			if leader, _, err := s.Log.client.PartitionLeader(tab.Topic, tab.Partitions-1); err != nil || leader < 0 {
				return false
			}
		}
		return true
	})
}
