package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// consumerLines describes groups of the consumer protocol (KIP-848), which DescribeGroups does not know.
func consumerLines(ctx context.Context, adm *kadm.Client, names []string) ([]groupLine, error) {
	if len(names) == 0 {
		return nil, nil
	}
	described, err := adm.DescribeConsumerGroups(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe groups: %w", err)
	}
	fetched := adm.FetchManyOffsets(ctx, names...)
	wanted := kadm.TopicsSet{}
	for _, d := range described {
		wanted.Merge(d.AssignedPartitions())
	}
	wanted.Merge(fetched.CommittedPartitions())
	var start, end kadm.ListedOffsets
	if topics := wanted.Topics(); len(topics) > 0 {
		if start, err = adm.ListStartOffsets(ctx, topics...); err == nil {
			end, err = adm.ListEndOffsets(ctx, topics...)
		}
		if err != nil {
			return nil, fmt.Errorf("list offsets: %w", err)
		}
	}
	lines := make([]groupLine, 0, len(names))
	for _, d := range described.Sorted() {
		lines = append(lines, newConsumerLine(d, fetched[d.Group], start, end))
	}
	return lines, nil
}

func newConsumerLine(d kadm.DescribedConsumerGroup, fetched kadm.FetchOffsetsResponse, start, end kadm.ListedOffsets) groupLine {
	line := groupLine{Group: d.Group, State: d.State, Protocol: d.AssignorName, Members: len(d.Members), Offsets: []offsetLine{}}
	if err := errors.Join(d.Err, fetched.Err); err != nil {
		line.Error = err.Error()
	}
	reader, partitions := map[string]string{}, kadm.TopicsSet{}
	for _, m := range d.Members {
		ml := memberLine{Member: m.MemberID, Client: m.ClientID, Host: strings.TrimPrefix(m.ClientHost, "/"), Reads: map[string][]int32{}}
		if m.InstanceID != nil {
			ml.Instance = *m.InstanceID
		}
		for _, t := range m.Assignment.Sorted() {
			ml.Reads[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			for _, p := range t.Partitions {
				reader[fmt.Sprintf("%s-%d", t.Topic, p)] = m.ClientID
			}
		}
		partitions.Merge(m.Assignment)
		line.Assigned = append(line.Assigned, ml)
	}
	partitions.Merge(fetched.CommittedPartitions())
	for _, t := range partitions.Sorted() {
		for _, p := range t.Partitions {
			last, ok := end.Lookup(t.Topic, p)
			if !ok || last.Err != nil {
				continue // the topic is gone, the offset is left
			}
			o := offsetLine{Topic: t.Topic, Partition: p, Committed: -1, End: last.Offset, Member: reader[fmt.Sprintf("%s-%d", t.Topic, p)]}
			from, _ := start.Lookup(t.Topic, p)
			at := from.Offset
			if c, ok := fetched.Fetched.Lookup(t.Topic, p); ok && c.At >= 0 {
				o.Committed, at = c.At, c.At
			}
			o.Lag = max(0, last.Offset-at)
			line.Lag += o.Lag
			line.Offsets = append(line.Offsets, o)
		}
	}
	return line
}
