package cluster

import (
	"context"
	"fmt"
	"slices"
)

// TopicSpec asks for a topic. Partitions and ReplicationFactor -1: the default.
type TopicSpec struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16 // 0: the default, too
	few               bool  // ReplicationFactor is a default: a smaller cluster gives what it has
	// Assignment, when not nil, names the nodes of each partition's replicas, in order of preference, in the place of both numbers.
	Assignment [][]int32
	Internal   bool
	Config     map[string]string
}

// Operations on the catalogue; each is durable when it returns, and known to this node. Errors: ErrTopicExists, ErrUnknownTopic,
// ErrInvalidTopic, ErrInvalidPartitions, ErrInvalidReplicationFactor, ErrInvalidAssignment, ErrInvalidConfig, ErrNotController (no controller
// answered in time), all wrapped with what to do.

func (n *Node) complete(spec *TopicSpec) {
	if len(spec.Assignment) > 0 {
		spec.Partitions = int32(len(spec.Assignment)) //nolint:gosec // bounded by maxPartitions
	}
	if spec.Partitions == -1 {
		spec.Partitions = n.opts.DefaultPartitions
	}
	if spec.ReplicationFactor == -1 || spec.ReplicationFactor == 0 {
		spec.ReplicationFactor, spec.few = n.opts.ReplicationFactor, true
	}
}

// CreateTopic returns once this node's replicas of the topic are open and, where it is the only voter, lead.
func (n *Node) CreateTopic(ctx context.Context, spec TopicSpec) (*Topic, error) {
	n.complete(&spec)
	err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) {
		return s.createTopic(spec, randomID())
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
	for i := range t.Partitions {
		if m, ok := t.Partitions[i].on(n.opts.NodeID); ok {
			if err := n.brokenLog(logID(t.Partitions[i].Group, m.Gen)); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// check reports what a decision would refuse now, and changes nothing.
func (n *Node) check(decide func(*catalogState) ([]change, error)) error {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := decide(n.log.state)
	return err
}

// CheckTopic reports what CreateTopic would refuse now, and creates nothing.
func (n *Node) CheckTopic(spec TopicSpec) error {
	n.complete(&spec)
	return n.check(func(s *catalogState) ([]change, error) { return s.createTopic(spec, [16]byte{}) })
}

// DeleteTopic makes the topic unknown at once; its data is deleted in the background.
func (n *Node) DeleteTopic(ctx context.Context, name string) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.deleteTopic(name, n.highestEpoch(s.topics[name])) })
}

// operate proposes a decision and brings this node's replicas up to it.
func (n *Node) operate(ctx context.Context, decide func(*catalogState) ([]change, error)) error {
	if err := n.ctl.propose(ctx, decide); err != nil {
		return err
	}
	return n.reconcile(ctx)
}

// CreatePartitions raises a topic's number of partitions to count. assignment, when not nil, names the nodes of the new ones' replicas.
func (n *Node) CreatePartitions(ctx context.Context, name string, count int32, assignment [][]int32) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.createPartitions(name, count, assignment) })
}

// CheckPartitions reports what CreatePartitions would refuse now, and creates nothing.
func (n *Node) CheckPartitions(name string, count int32, assignment [][]int32) error {
	return n.check(func(s *catalogState) ([]change, error) { return s.createPartitions(name, count, assignment) })
}

// SetTopicConfig sets keys; a nil value removes the key.
func (n *Node) SetTopicConfig(ctx context.Context, name string, set map[string]*string) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.setTopicConfig(name, set) })
}

// SetTopicDefaults sets cluster-wide defaults of topic properties; a nil value removes one. They act at once on every topic
// that does not say otherwise.
func (n *Node) SetTopicDefaults(ctx context.Context, set map[string]*string) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.setDefaults(set) })
}

// CheckTopicConfig reports what SetTopicConfig would refuse now, and changes nothing.
func (n *Node) CheckTopicConfig(name string, set map[string]*string) error {
	return n.check(func(s *catalogState) ([]change, error) { return s.setTopicConfig(name, set) })
}

// CheckTopicDefaults reports what SetTopicDefaults would refuse now, and changes nothing.
func (n *Node) CheckTopicDefaults(set map[string]*string) error {
	return n.check(func(s *catalogState) ([]change, error) { return s.setDefaults(set) })
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

// Reassign has a partition's replicas move to nodes, the first of which is to lead; nil cancels a move. It returns when the move is decided: what
// it takes goes on in the background, see Catalog.
func (n *Node) Reassign(ctx context.Context, topic string, partition int32, nodes []int32) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.reassignAsked(topic, partition, nodes) })
}

// Drain has everything move away from a node, or with on false lets replicas be placed there again.
func (n *Node) Drain(ctx context.Context, node int32, on bool) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.drain(node, on) })
}

// RemoveNode takes a drained node out of the cluster.
func (n *Node) RemoveNode(ctx context.Context, node int32) error {
	return n.operate(ctx, func(s *catalogState) ([]change, error) { return s.remove(node) })
}

// reassignAsked is reassign for an operator: another number of replicas than before is one that somebody has said.
func (s *catalogState) reassignAsked(topic string, partition int32, nodes []int32) ([]change, error) {
	before := 0
	if t := s.topics[topic]; t != nil && partition >= 0 && int(partition) < len(t.Partitions) {
		before = len(t.Partitions[partition].Wanted())
	}
	return s.move(topic, partition, nodes, func(p *Placement) { p.Grows = p.Grows && (nodes == nil || len(nodes) == before) })
}

// reassign decides about a move.
func (s *catalogState) reassign(topic string, partition int32, nodes []int32) ([]change, error) {
	return s.move(topic, partition, nodes, func(*Placement) {})
}

func (s *catalogState) move(topic string, partition int32, nodes []int32, also func(*Placement)) ([]change, error) {
	return s.changePlacement(topic, partition, func(p *Placement) (Placement, error) {
		if nodes == nil {
			if p.Target == nil {
				return *p, fmt.Errorf("partition %s-%d is not moving: %w", topic, partition, ErrNoReassignment)
			}
			nodes = p.Nodes()
		} else if err := s.checkNodes(nodes); err != nil {
			return *p, fmt.Errorf("reassign %s-%d: %w", topic, partition, err)
		}
		to, err := p.moveTo(nodes)
		also(&to)
		return to, err
	})
}

// moved notes that a partition's replicas are where they were to move.
func (s *catalogState) moved(topic string, partition int32, target []Member) ([]change, error) {
	return s.changePlacement(topic, partition, func(p *Placement) (Placement, error) {
		if p.Target == nil || !slices.Equal(p.Target, target) {
			return *p, nil // it goes elsewhere by now
		}
		return p.arrived(), nil
	})
}

// lost replaces a replica whose log cannot be trusted any more by one of a fresh generation on the same node.
func (s *catalogState) lost(topic string, partition int32, member Member) ([]change, error) {
	return s.changePlacement(topic, partition, func(p *Placement) (Placement, error) {
		if m, here := p.on(member.Node); !here || m != member {
			return *p, nil
		}
		return p.moveTo(nodesOf(p.Wanted()), member.Node)
	})
}

func (s *catalogState) changePlacement(topic string, partition int32, f func(*Placement) (Placement, error)) ([]change, error) {
	old := s.topics[topic]
	if old == nil || partition < 0 || int(partition) >= len(old.Partitions) {
		return nil, fmt.Errorf("partition %s-%d: %w", topic, partition, ErrUnknownTopic)
	}
	p, err := f(&old.Partitions[partition])
	if err != nil || samePlacement(&p, &old.Partitions[partition]) {
		return nil, err
	}
	t := *old
	t.Partitions = slices.Clone(old.Partitions)
	t.Partitions[partition] = p
	return []change{encodeTopic(&t)}, nil
}

func samePlacement(a, b *Placement) bool {
	return slices.Equal(a.Members, b.Members) && slices.Equal(a.Target, b.Target) && slices.Equal(a.Leaving, b.Leaving) && a.NextGen == b.NextGen && a.Grows == b.Grows
}
