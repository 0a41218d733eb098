package cluster

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// TestTheCatalogueWaitsForNoPartition: its raftSnapshot is sent while those of partitions take all places.
func TestTheCatalogueWaitsForNoPartition(t *testing.T) {
	tried := make(chan log.GroupID, 2)
	tr := &transfers{
		ctx: t.Context(), slots: make(chan struct{}, 1), logger: quiet(), report: func(log.GroupID, uint64, bool) {},
		partition: func(id log.GroupID) *log.Partition {
			tried <- id
			return nil
		},
	}
	tr.slots <- struct{}{}
	to := Member{Node: 2}.raftID()
	tr.Send(controllerGroup+1, &raftpb.Message{To: &to})
	tr.Send(controllerGroup, &raftpb.Message{To: &to})
	tr.wg.Wait()
	close(tried)
	if id, ok := <-tried; !ok || id != controllerGroup {
		t.Errorf("group %d was sent", id)
	}
	if id, more := <-tried; more {
		t.Errorf("group %d was sent, too", id)
	}
	if len(tr.slots) != 1 {
		t.Error("a place was given back that was not taken")
	}
}
