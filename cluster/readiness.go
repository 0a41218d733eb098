package cluster

import "fmt"

// NotReady lists why this node, which has started, cannot do its share yet: it does not know the catalogue, or replicas that are placed here
// are not open, or it may lack what was decided while it was away, and the others where it is now. What comes after the first time that all is there, as a new topic, does not count.
func (n *Node) NotReady() []string {
	n.mu.RLock()
	opened := n.opened
	n.mu.RUnlock()
	if opened {
		return nil
	}
	cat := n.Catalog()
	known := len(cat.Nodes) == 0 && n.net == nil
	for _, i := range cat.Nodes {
		known = known || i.ID == n.opts.NodeID
	}
	if !known {
		return []string{"the catalogue has not been received from the cluster's other nodes yet"}
	}
	if !n.asked.Load() {
		return []string{"what was decided while this node was away is being asked for"}
	}
	missing, all := 0, 0
	for _, t := range cat.Topics {
		for i := range t.Partitions {
			m, here := t.Partitions[i].on(n.opts.NodeID)
			if !here {
				continue
			}
			all++
			_, err := n.Replica(t.Name, int32(i)) //nolint:gosec // bounded by maxPartitions
			if err != nil && n.brokenLog(logID(t.Partitions[i].Group, m.Gen)) == nil {
				missing++
			}
		}
	}
	if missing > 0 {
		return []string{fmt.Sprintf("%d of %d replicas are not open yet", missing, all)}
	}
	n.mu.Lock()
	n.opened = true
	n.mu.Unlock()
	return nil
}
