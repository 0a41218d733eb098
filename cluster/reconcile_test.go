package cluster

import (
	"errors"
	"fmt"
	"testing"
)

// told has the node's catalogue say something, as if it had come from the log.
func (n *testNode) told(t *testing.T, changes ...change) {
	t.Helper()
	n.Node.log.mu.Lock()
	defer n.Node.log.mu.Unlock()
	for _, c := range changes {
		if err := n.Node.log.state.apply(c); err != nil {
			t.Fatal(err)
		}
	}
	n.Node.log.publish()
}

func (n *testNode) disk() string { return n.Node.id.get().Disk }

// TestFormerReplicasAreNotOpenedBlank: a node that lost its disk reads in the catalogue's log where its former replicas were before it reads that they
// were replaced. It must not open them meanwhile: they would be voters that forgot.
func TestFormerReplicasAreNotOpenedBlank(t *testing.T) {
	n := startNode(t, t.TempDir())
	defer n.close(t)
	before := &Topic{Name: "t", ID: [16]byte{1}, Partitions: []Placement{{Group: 900, Members: []Member{{Node: 1}}}}}
	n.told(t, encodeNode(NodeInfo{ID: 1, Disk: "lost"}), encodeTopic(before))
	if err := n.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := n.Replica("t", 0); err == nil {
		t.Fatalf("the replica %v of the disk that was lost is open", r.Member())
	}
	after := &Topic{Name: "t", ID: [16]byte{1}, Partitions: []Placement{{Group: 900, Members: []Member{{Node: 1, Gen: 1}}, NextGen: 2}}}
	n.told(t, encodeNode(NodeInfo{ID: 1, Disk: n.disk()}), encodeTopic(after))
	if err := n.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := n.replica(t, "t", 0).Member(); m.Gen != 1 {
		t.Errorf("the replica that is open is %v", m)
	}
	for _, id := range n.store.Groups() {
		if id == logID(900, 0) {
			t.Error("there is a log of the former replica")
		}
	}
}

// TestARenewalIsTakenOver: a crash between the catalogue's renewal of a node's replica of the controller's log and the node's note of it.
func TestARenewalIsTakenOver(t *testing.T) {
	n := startNode(t, t.TempDir(), func(o *Options) { o.DataDir = t.TempDir() })
	n.told(t, encodeNode(NodeInfo{ID: 1, Disk: n.disk(), Gen: 3}))
	n.dropOrphans()
	for _, id := range n.store.Groups() {
		if id == controllerGroup {
			goto there
		}
	}
	t.Error("the controller's log that is in use was dropped")
there:
	if err := n.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if gen := n.Node.id.get().Gen; gen != 3 {
		t.Errorf("the node notes generation %d", gen)
	}
	if err := n.sched.failed(); !errors.Is(err, errRenewed) {
		t.Errorf("the node goes on: %v", err)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Log(err)
	}
	if err := n.store.Close(); err != nil {
		t.Error(err)
	}
}

// TestReconcileFollowsEveryChange: entries of the catalogue that the replicas agree with are left alone; a replica that moved away and back is opened,
// and settings arrive.
func TestReconcileFollowsEveryChange(t *testing.T) {
	n := startNode(t, t.TempDir())
	defer n.close(t)
	place := func(members ...Member) change {
		return encodeTopic(&Topic{Name: "t", ID: [16]byte{1}, Config: map[string]string{"max.message.bytes": fmt.Sprint(1000 + len(members))},
			Partitions: []Placement{{Group: 900, Members: members, First: []Member{{Node: 1}}, NextGen: 9}}})
	}
	for i, step := range []struct {
		members []Member
		here    bool
	}{
		{[]Member{{Node: 1}}, true},
		{[]Member{{Node: 7, Gen: 1}}, false},
		{[]Member{{Node: 1, Gen: 2}, {Node: 7, Gen: 1}}, true},
		{[]Member{{Node: 1, Gen: 2}, {Node: 7, Gen: 1}}, true},
		{[]Member{{Node: 1, Gen: 3}}, true},
	} {
		n.told(t, place(step.members...))
		for range 2 {
			if err := n.reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r, err := n.Replica("t", 0)
		switch {
		case (err == nil) != step.here:
			t.Fatalf("step %d: open is %v: %v", i, err == nil, err)
		case err == nil && r.Member() != step.members[0]:
			t.Errorf("step %d: %v is open", i, r.Member())
		case err == nil && n.partitionOf(900) != r.Log():
			t.Errorf("step %d: another log is found for the group", i)
		}
	}
	if n.partitionOf(901) != nil {
		t.Error("a log of a group that is not here")
	}
}

// TestADecisionIsOfOneEpoch: what was decided under an earlier leadership of this node is not appended in a later one, as others may have led in between.
func TestADecisionIsOfOneEpoch(t *testing.T) {
	n := startNode(t, t.TempDir())
	defer n.close(t)
	_, epoch, _ := n.ctl.replica.Leader()
	before := n.Catalog().Version
	n.ctl.turn <- struct{}{}
	err := n.ctl.append(t.Context(), epoch-1, []change{encode(recordKey{Type: recordGroups}, nextRecord{50})})
	if !errors.Is(err, errRetry) || n.Catalog().Version != before {
		t.Errorf("%v; the catalogue is of %d, was of %d", err, n.Catalog().Version, before)
	}
	n.topic(t, "t", 1)
}

// BenchmarkCatalogChange is what one more topic costs a node that has thousands of partitions.
func BenchmarkCatalogChange(b *testing.B) {
	n := startNode(b, b.TempDir())
	defer n.close(b)
	for i := range 20 {
		n.topic(b, fmt.Sprint("t", i), 100)
	}
	b.ResetTimer()
	for range b.N {
		n.Node.log.mu.Lock()
		n.Node.log.publish()
		n.Node.log.mu.Unlock()
		if err := n.reconcile(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
}
