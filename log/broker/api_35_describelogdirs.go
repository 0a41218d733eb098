package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// handleDescribeLogDirs reports the size of partitions; all are in the one data directory.
func (b *Broker) handleDescribeLogDirs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = b.opts.DataDir
	if b.opts.DiskSpace != nil {
		dir.TotalBytes, dir.UsableBytes = b.opts.DiskSpace()
	}
	catalog := b.node.Catalog()
	if req.Topics == nil {
		for _, t := range catalog.Sorted() {
			dir.Topics = append(dir.Topics, b.logDirTopic(t, nil))
		}
	}
	var named partitionOnce
	whole := once[string]{}
	for i := range req.Topics {
		t, partitions := catalog.Topics[req.Topics[i].Topic], req.Topics[i].Partitions
		if t == nil {
			continue
		}
		if len(partitions) > 0 {
			dir.Topics = append(dir.Topics, b.logDirTopic(t, named.topic(t.Name, partitions)))
		} else if whole.first(t.Name) {
			dir.Topics = append(dir.Topics, b.logDirTopic(t, nil))
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// logDirTopic sizes a topic's partitions; nil means all.
func (b *Broker) logDirTopic(t *cluster.Topic, partitions []int32) kmsg.DescribeLogDirsResponseDirTopic {
	dt := kmsg.NewDescribeLogDirsResponseDirTopic()
	dt.Topic = t.Name
	if partitions == nil {
		for i := range t.Partitions {
			partitions = append(partitions, int32(i))
		}
	}
	for _, p := range partitions {
		replica, err := b.node.Replica(t.Name, p)
		if err != nil {
			continue // not here: no entry, as for any partition of another node
		}
		dp := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		dp.Partition, dp.Size = p, replica.Log().Bytes()
		dt.Partitions = append(dt.Partitions, dp)
	}
	return dt
}
