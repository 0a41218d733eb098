package cluster

import (
	"context"
	"fmt"
)

// TopicSpec asks for a topic. Partitions -1: the default.
type TopicSpec struct {
	Name       string
	Partitions int32
	Internal   bool
	Config     map[string]string
}

// Controller operations; each is durable when it returns. Errors: ErrTopicExists, ErrUnknownTopic,
// ErrInvalidTopic, ErrInvalidPartitions, ErrInvalidConfig, ErrNotController (all wrapped with what to do).

// CreateTopic returns once this node's replicas of the topic are open and, where it is the only voter, lead.
func (n *Node) CreateTopic(ctx context.Context, spec TopicSpec) (*Topic, error) {
	if spec.Partitions == -1 {
		spec.Partitions = n.opts.DefaultPartitions
	}
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		return s.createTopic(spec, randomID(), n.nodes())
	})
	if err != nil {
		return nil, err
	}
	if err := n.reconcile(ctx); err != nil {
		return nil, fmt.Errorf("open topic %q: %w", spec.Name, err)
	}
	t := n.Catalog().Topics[spec.Name]
	if t == nil {
		return nil, fmt.Errorf("create topic %q: it was deleted meanwhile: %w", spec.Name, ErrUnknownTopic)
	}
	for _, p := range t.Partitions {
		if err := n.brokenGroup(p.Group); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// CheckTopic reports what CreateTopic would refuse now, and creates nothing.
func (n *Node) CheckTopic(spec TopicSpec) error {
	if spec.Partitions == -1 {
		spec.Partitions = n.opts.DefaultPartitions
	}
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := n.log.state.createTopic(spec, [16]byte{}, n.nodes())
	return err
}

// DeleteTopic makes the topic unknown at once; its data is deleted in the background.
func (n *Node) DeleteTopic(ctx context.Context, name string) error {
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		return s.deleteTopic(name, n.highestEpoch(name))
	})
	if err != nil {
		return err
	}
	return n.reconcile(ctx)
}

// CreatePartitions raises a topic's number of partitions to count.
func (n *Node) CreatePartitions(ctx context.Context, name string, count int32) error {
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		return s.createPartitions(name, count, n.nodes())
	})
	if err != nil {
		return err
	}
	return n.reconcile(ctx)
}

// CheckPartitions reports what CreatePartitions would refuse now, and creates nothing.
func (n *Node) CheckPartitions(name string, count int32) error {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := n.log.state.createPartitions(name, count, n.nodes())
	return err
}

// SetTopicConfig sets keys; a nil value removes the key.
func (n *Node) SetTopicConfig(ctx context.Context, name string, set map[string]*string) error {
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		return s.setTopicConfig(name, set)
	})
	if err != nil {
		return err
	}
	return n.reconcile(ctx)
}

// SetTopicDefaults sets cluster-wide defaults of topic properties; a nil value removes one. They act at once on every topic
// that does not say otherwise.
func (n *Node) SetTopicDefaults(ctx context.Context, set map[string]*string) error {
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		return s.setDefaults(set)
	})
	if err != nil {
		return err
	}
	return n.reconcile(ctx)
}

// CheckTopicConfig reports what SetTopicConfig would refuse now, and changes nothing.
func (n *Node) CheckTopicConfig(name string, set map[string]*string) error {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := n.log.state.setTopicConfig(name, set)
	return err
}

// CheckTopicDefaults reports what SetTopicDefaults would refuse now, and changes nothing.
func (n *Node) CheckTopicDefaults(set map[string]*string) error {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := n.log.state.setDefaults(set)
	return err
}

// NextProducerIDs reserves n producer ids durably and returns the first.
func (n *Node) NextProducerIDs(ctx context.Context, count int64) (int64, error) {
	var first int64
	err := n.ctl.propose(ctx, func(s *catalogState) (cs []change, err error) {
		first, cs, err = s.nextProducerIDs(count)
		return cs, err
	})
	return first, err
}
