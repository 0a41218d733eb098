package cluster

import (
	"context"
	"fmt"
	"maps"
)

// maxGroupConfigs bounds the groups whose configuration the catalogue keeps (invariant 9), and maxGroupNameBytes their names.
const (
	maxGroupConfigs   = 10_000
	maxGroupNameBytes = 1 << 10
)

// GroupConfigs are the properties that were set for single groups, by group and name. They are never changed in place. What
// they mean is the group coordinator's to know.
type GroupConfigs map[string]map[string]string

// groupState is the part of the catalogue about groups.
type groupState struct {
	groups GroupConfigs
	shared GroupConfigs // what the newest snapshots have; nil once groups has changed
}

type groupConfigRecord struct {
	Config map[string]string `json:"config"`
}

func (s *groupState) snapshot() GroupConfigs {
	if s.shared == nil {
		s.shared = maps.Clone(s.groups)
	}
	return s.shared
}

func (s *groupState) apply(name string, value []byte) error {
	s.shared = nil
	if value == nil {
		delete(s.groups, name)
		return nil
	}
	var r groupConfigRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	s.groups[name] = r.Config
	return nil
}

// set changes properties of a group; check says what is wrong with all that are set then.
func (s *groupState) set(group string, set map[string]*string, check func(map[string]string) error) ([]change, error) {
	old, exists := s.groups[group]
	config := changed(old, set)
	switch err := check(config); {
	case err != nil:
		return nil, err
	case group == "" || len(group) > maxGroupNameBytes:
		return nil, fmt.Errorf("a group's name has 1 to %d bytes: %w", maxGroupNameBytes, ErrInvalidConfig)
	case maps.Equal(config, old):
		return nil, nil
	case len(config) == 0:
		return []change{encode(recordKey{Type: recordGroupConfig, Name: group}, nil)}, nil
	case !exists && len(s.groups) >= maxGroupConfigs:
		return nil, fmt.Errorf("%d groups are configured, the limit; remove the configuration of some: %w", maxGroupConfigs, ErrInvalidConfig)
	}
	return []change{encode(recordKey{Type: recordGroupConfig, Name: group}, groupConfigRecord{config})}, nil
}

// SetGroupConfig changes properties of a group; a nil value removes one. check says what is wrong with all that are set then, and
// must be pure. Errors: check's, ErrInvalidConfig, ErrNotController.
func (n *Node) SetGroupConfig(ctx context.Context, group string, set map[string]*string, check func(map[string]string) error) error {
	return n.ctl.propose(ctx, func(s *catalogState) ([]change, error) { return s.configs.set(group, set, check) })
}

// CheckGroupConfig reports what SetGroupConfig would refuse now, and changes nothing.
func (n *Node) CheckGroupConfig(group string, set map[string]*string, check func(map[string]string) error) error {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	_, err := n.log.state.configs.set(group, set, check)
	return err
}
