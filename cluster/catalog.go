package cluster

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log"
)

const (
	// ControllerTopic names the log of Raft group 1, from which the catalogue is folded.
	ControllerTopic = "__cluster_metadata"
	controllerGroup = log.GroupID(1)
	firstTopicGroup = controllerGroup + 1

	// maxPartitions bounds a topic: its record in the controller's log is one JSON document.
	maxPartitions = 10_000
)

// Topic is an immutable entry of the catalogue.
type Topic struct {
	Name       string
	ID         [16]byte
	Internal   bool
	Partitions []Placement       // index = partition number
	Config     map[string]string // only what was set
	// Settings are what Config means over the cluster's and this node's defaults.
	Settings topicconfig.Settings

	// minTerm: the epochs of its partitions are above it, so that a recreated topic's epochs never fall.
	minTerm uint64
}

// Catalog is an immutable snapshot of the cluster's topics, credentials, quotas and configurations.
type Catalog struct {
	Version uint64
	Topics  map[string]*Topic
	ByID    map[[16]byte]*Topic
	Nodes   []NodeInfo // by id
	groups  map[log.GroupID]bool
	removed map[string]removedRecord // by disk
	// Defaults are the topic properties that were set for the whole cluster; a topic's own win.
	Defaults map[string]string
	Scram    map[ScramID]ScramCredential
	Quotas   Quotas
	Groups   GroupConfigs

	sorted func() []*Topic
}

// Sorted lists the topics by name. The list is made once and shared: whoever gets it must not change it.
func (c *Catalog) Sorted() []*Topic {
	if c.sorted == nil {
		return c.sort()
	}
	return c.sorted()
}

func (c *Catalog) sort() []*Topic {
	return slices.SortedFunc(maps.Values(c.Topics), func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
}

// change is one keyed record of the controller's log; a nil value deletes the key.
type change struct{ key, value []byte }

// recordKey is the JSON key of a record; Name is set for topics, credentials, groups and removed disks only, the rest as its type says.
type recordKey struct {
	Type      string     `json:"type"`
	Name      string     `json:"name,omitempty"`
	Node      *int32     `json:"node,omitempty"`
	Mechanism string     `json:"mechanism,omitempty"` // of a credential
	User      *quotaName `json:"user,omitempty"`      // of a quota
	Client    *quotaName `json:"client,omitempty"`    // of a quota
}

// Types of records. The last record of each key is the state, so the log may be compacted.
const (
	recordCluster   = "cluster"   // clusterRecord
	recordTopic     = "topic"     // topicRecord
	recordGroups    = "groups"    // nextRecord: first group id never used
	recordProducers = "producers" // nextRecord: first producer id never used
	recordEpochs    = "epochs"    // nextRecord: highest epoch of any deleted topic
	recordNode      = "node"      // NodeInfo
	recordRemoved   = "removed"   // removedRecord: of a removed node's disk
	recordGens      = "gens"      // nextRecord: first generation of the controller's group never used
	recordDefaults  = "defaults"  // defaultsRecord
	recordScram     = "scram"     // scramRecord: a user's credential
	recordSalts     = "salts"     // saltsRecord
	recordQuota     = "quota"     // quotaRecord: of a user, a client id or both

	recordGroupConfig = "groupConfig" // groupConfigRecord: a consumer group's
)

type clusterRecord struct {
	ID string `json:"id"`
	// Disks are those of the first members, by node.
	Disks map[int32]string `json:"disks,omitempty"`
}

type nextRecord struct {
	Next uint64 `json:"next"`
}

// defaultsRecord is the cluster-wide defaults of topic properties.
type defaultsRecord struct {
	Config map[string]string `json:"config"`
}

type topicRecord struct {
	ID         string            `json:"id"`
	Internal   bool              `json:"internal,omitempty"`
	Config     map[string]string `json:"config,omitempty"`
	MinTerm    uint64            `json:"minTerm,omitempty"`
	Partitions []Placement       `json:"partitions"`
}

// catalogState is the fold of the controller's log (invariant 8) and the rules by which operations become
// records. It is pure: operations return records and change nothing; apply changes the state.
type catalogState struct {
	clusterID string
	formation map[int32]string // disk ids of the first members
	nodes     map[int32]NodeInfo
	removed   map[string]removedRecord // by disk; never changed in place
	// controllerGen is a generation that no member of the controller's group ever had.
	controllerGen uint32
	nextGroup     log.GroupID
	nextProducer  uint64
	epochFloor    uint64
	topics        map[string]*Topic
	folded        map[string]string // foldTopicName -> name
	defaults      map[string]string // of topic properties, cluster-wide
	// static is this node's defaults of topic properties: no part of the fold, only of what Settings say.
	static map[string]string

	securityState
	configs groupState
}

func newCatalogState(static map[string]string) *catalogState {
	return &catalogState{
		nextGroup: firstTopicGroup, nodes: map[int32]NodeInfo{}, controllerGen: 1, topics: map[string]*Topic{}, folded: map[string]string{}, static: static, securityState: newSecurityState(),
		configs: groupState{groups: GroupConfigs{}},
	}
}

// apply folds one record. An unknown or unreadable record is an error: skipping it would lose what it says (invariant 7).
func (s *catalogState) apply(c change) error {
	var key recordKey
	if err := unmarshalStrict(c.key, &key); err != nil {
		return fmt.Errorf("fold catalogue: key %q: %w", c.key, err)
	}
	var err error
	switch key.Type {
	case recordTopic:
		err = s.applyTopic(key.Name, c.value)
	case recordCluster:
		var r clusterRecord
		err = unmarshalStrict(c.value, &r)
		s.clusterID, s.formation = r.ID, r.Disks
	case recordGroups:
		err = applyNext(c.value, (*uint64)(&s.nextGroup))
	case recordProducers:
		err = applyNext(c.value, &s.nextProducer)
	case recordEpochs:
		err = applyNext(c.value, &s.epochFloor)
	case recordNode:
		err = s.applyNode(key.Node, c.value)
	case recordRemoved:
		err = s.applyRemoved(key.Name, c.value)
	case recordGens:
		var next uint64
		err = applyNext(c.value, &next)
		s.controllerGen = uint32(min(next, maxGen)) //nolint:gosec // bounded
	case recordDefaults:
		err = s.applyDefaults(c.value)
	case recordScram:
		err = s.applyScram(key, c.value)
	case recordSalts:
		err = s.applySalts(c.value)
	case recordQuota:
		err = s.applyQuota(key, c.value)
	case recordGroupConfig:
		err = s.configs.apply(key.Name, c.value)
	default:
		err = fmt.Errorf("record type %q is not known; run the version that wrote it", key.Type)
	}
	if err != nil {
		return fmt.Errorf("fold catalogue: %s %s: %w", key.Type, key.Name, err)
	}
	return nil
}

func applyNext(value []byte, to *uint64) error {
	var r nextRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	*to = r.Next
	return nil
}

func (s *catalogState) applyNode(id *int32, value []byte) error {
	if id == nil {
		return fmt.Errorf("a node without an id: %w", log.ErrCorrupt)
	}
	if value == nil {
		delete(s.nodes, *id)
		return nil
	}
	var n NodeInfo
	if err := unmarshalStrict(value, &n); err != nil {
		return err
	}
	n.ID = *id
	s.nodes[n.ID] = n
	return nil
}

func encodeNode(n NodeInfo) change { return encode(recordKey{Type: recordNode, Node: &n.ID}, n) }

// applyDefaults replaces the cluster-wide defaults, and with them what every topic's configuration means.
func (s *catalogState) applyDefaults(value []byte) error {
	var r defaultsRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	s.defaults = r.Config
	for name, old := range s.topics {
		t := *old // readers hold the old entry
		t.Settings = s.settings(t.Config)
		s.topics[name] = &t
	}
	return nil
}

func (s *catalogState) settings(config map[string]string) topicconfig.Settings {
	return topicconfig.Resolve(config, s.defaults, s.static)
}

func (s *catalogState) checkConfig(config map[string]string) error {
	if err := topicconfig.CheckTopic(config, s.defaults, s.static); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return nil
}

func (s *catalogState) applyTopic(name string, value []byte) error {
	if value == nil {
		delete(s.topics, name)
		delete(s.folded, foldTopicName(name))
		return nil
	}
	var r topicRecord
	if err := unmarshalStrict(value, &r); err != nil {
		return err
	}
	t := &Topic{Name: name, Internal: r.Internal, Config: r.Config, Settings: s.settings(r.Config), minTerm: r.MinTerm}
	if id, err := hex.DecodeString(r.ID); err != nil || len(id) != len(t.ID) {
		return fmt.Errorf("topic id %q is not 16 bytes in hex: %w", r.ID, log.ErrCorrupt)
	} else {
		copy(t.ID[:], id)
	}
	t.Partitions = r.Partitions
	s.topics[name] = t
	s.folded[foldTopicName(name)] = name
	return nil
}

// unmarshalStrict refuses fields that this version does not know.
func unmarshalStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// snapshot is the catalogue as readers see it. Topics are shared: they are never changed in place.
func (s *catalogState) snapshot(version uint64) *Catalog {
	c := &Catalog{Version: version, Topics: maps.Clone(s.topics), ByID: make(map[[16]byte]*Topic, len(s.topics)), Nodes: s.nodeList(), removed: s.removed, Defaults: s.defaults}
	c.Scram, c.Quotas = s.securityState.snapshot()
	c.Groups = s.configs.snapshot()
	c.groups = make(map[log.GroupID]bool, len(s.topics))
	for _, t := range s.topics {
		c.ByID[t.ID] = t
		for i := range t.Partitions {
			c.groups[t.Partitions[i].Group] = true
		}
	}
	c.sorted = sync.OnceValue(c.sort)
	return c
}

// encode builds a record. The types here always marshal.
func encode(key recordKey, value any) change {
	k, _ := json.Marshal(key)
	if value == nil {
		return change{key: k}
	}
	v, _ := json.Marshal(value)
	return change{key: k, value: v}
}

func encodeTopic(t *Topic) change {
	r := topicRecord{ID: hex.EncodeToString(t.ID[:]), Internal: t.Internal, Config: t.Config, MinTerm: t.minTerm, Partitions: t.Partitions}
	return encode(recordKey{Type: recordTopic, Name: t.Name}, r)
}

func (s *catalogState) createTopic(spec TopicSpec, id [16]byte) ([]change, error) {
	if err := checkTopicName(spec.Name); err != nil {
		return nil, err
	}
	if s.topics[spec.Name] != nil || spec.Name == ControllerTopic {
		return nil, fmt.Errorf("create topic %q: %w", spec.Name, ErrTopicExists)
	}
	if other, ok := s.folded[foldTopicName(spec.Name)]; ok {
		return nil, fmt.Errorf("create topic %q: it collides with topic %q, as metrics do not tell '.' from '_': %w",
			spec.Name, other, ErrInvalidTopic)
	}
	if spec.Partitions < 1 || spec.Partitions > maxPartitions {
		return nil, fmt.Errorf("create topic %q: %d partitions asked for, choose 1 to %d: %w",
			spec.Name, spec.Partitions, maxPartitions, ErrInvalidPartitions)
	}
	if err := s.checkConfig(spec.Config); err != nil {
		return nil, fmt.Errorf("create topic %q: %w", spec.Name, err)
	}
	placements, err := s.placeTopic(&spec)
	if err != nil {
		return nil, fmt.Errorf("create topic %q: %w", spec.Name, err)
	}
	t := &Topic{
		Name: spec.Name, ID: id, Internal: spec.Internal, Config: spec.Config, minTerm: s.epochFloor,
		Partitions: placements,
	}
	next := s.nextGroup + log.GroupID(spec.Partitions)
	return []change{encodeTopic(t), encode(recordKey{Type: recordGroups}, nextRecord{uint64(next)})}, nil
}

// placeTopic places a new topic's partitions: as its spec says, or where there is room.
func (s *catalogState) placeTopic(spec *TopicSpec) ([]Placement, error) {
	sites := s.sites()
	rf := int(spec.ReplicationFactor)
	switch {
	case len(spec.Assignment) > 0:
		return s.assign(spec.Assignment, s.nextGroup)
	case len(sites) == 0:
		return nil, fmt.Errorf("there is no node that is not draining: %w", ErrInvalidReplicationFactor)
	case rf == -1 || rf == 0:
		rf, spec.few = min(defaultReplicationFactor, len(sites)), true
	case spec.few:
		rf = min(rf, len(sites))
	case rf < 1 || rf > len(sites):
		return nil, fmt.Errorf("replication factor %d asked for, the cluster has %d nodes to place replicas on: %w", rf, len(sites), ErrInvalidReplicationFactor)
	}
	out := place(sites, s.load(), s.nextGroup, spec.Partitions, rf)
	for i := range out {
		out[i].Grows = spec.few
	}
	return out, nil
}

// assign takes over the nodes that somebody has chosen.
func (s *catalogState) assign(nodes [][]int32, first log.GroupID) ([]Placement, error) {
	out := make([]Placement, len(nodes))
	for i, list := range nodes {
		if err := s.checkNodes(list); err != nil {
			return nil, fmt.Errorf("partition %d: %w", i, err)
		}
		if len(list) != len(nodes[0]) {
			return nil, fmt.Errorf("partition %d has %d replicas, partition 0 has %d: %w", i, len(list), len(nodes[0]), ErrInvalidAssignment)
		}
		out[i].Group = first + log.GroupID(i) //nolint:gosec // a count
		for _, n := range list {
			out[i].Members = append(out[i].Members, Member{Node: n})
		}
	}
	return out, nil
}

func (s *catalogState) checkNodes(nodes []int32) error {
	if len(nodes) == 0 {
		return fmt.Errorf("no node is named: %w", ErrInvalidAssignment)
	}
	for i, n := range nodes {
		if _, ok := s.nodes[n]; !ok {
			return fmt.Errorf("node %d is not in the cluster: %w", n, ErrInvalidAssignment)
		}
		if slices.Contains(nodes[:i], n) {
			return fmt.Errorf("node %d stands twice: %w", n, ErrInvalidAssignment)
		}
	}
	return nil
}

// deleteTopic also keeps the highest epoch that the topic's partitions reached: a topic created later under the
// same name starts above it.
func (s *catalogState) deleteTopic(name string, epoch uint64) ([]change, error) {
	if s.topics[name] == nil {
		return nil, fmt.Errorf("delete topic %q: %w", name, ErrUnknownTopic)
	}
	cs := []change{encode(recordKey{Type: recordTopic, Name: name}, nil)}
	if epoch > s.epochFloor {
		cs = append(cs, encode(recordKey{Type: recordEpochs}, nextRecord{epoch}))
	}
	return cs, nil
}

func (s *catalogState) createPartitions(name string, count int32, assignment [][]int32) ([]change, error) {
	old := s.topics[name]
	if old == nil {
		return nil, fmt.Errorf("create partitions of %q: %w", name, ErrUnknownTopic)
	}
	have := int32(len(old.Partitions))
	if count <= have || count > maxPartitions {
		return nil, fmt.Errorf("create partitions of %q: it has %d, choose %d to %d in all: %w",
			name, have, have+1, maxPartitions, ErrInvalidPartitions)
	}
	placements, err := s.placeTopic(&TopicSpec{
		Partitions: count - have, ReplicationFactor: int16(len(old.Partitions[0].Wanted())), Assignment: assignment, //nolint:gosec // a few
		few: old.Partitions[0].Grows,
	})
	if err != nil {
		return nil, fmt.Errorf("create partitions of %q: %w", name, err)
	}
	t := *old
	t.Partitions = append(t.Partitions[:have:have], placements...)
	next := s.nextGroup + log.GroupID(count-have)
	return []change{encodeTopic(&t), encode(recordKey{Type: recordGroups}, nextRecord{uint64(next)})}, nil
}

func (s *catalogState) setTopicConfig(name string, set map[string]*string) ([]change, error) {
	old := s.topics[name]
	if old == nil {
		return nil, fmt.Errorf("set config of topic %q: %w", name, ErrUnknownTopic)
	}
	t := *old
	t.Config = changed(old.Config, set)
	if err := s.checkConfig(t.Config); err != nil {
		return nil, fmt.Errorf("set config of topic %q: %w", name, err)
	}
	return []change{encodeTopic(&t)}, nil
}

// setDefaults changes the cluster-wide defaults.
func (s *catalogState) setDefaults(set map[string]*string) ([]change, error) {
	defaults := changed(s.defaults, set)
	if err := topicconfig.CheckTopic(defaults, s.static); err != nil {
		return nil, fmt.Errorf("set defaults of topics: %w: %w", ErrInvalidConfig, err)
	}
	return []change{encode(recordKey{Type: recordDefaults}, defaultsRecord{defaults})}, nil
}

// changed returns config with values set, or removed where they are nil.
func changed(config map[string]string, set map[string]*string) map[string]string {
	out := make(map[string]string, len(config)+len(set))
	maps.Copy(out, config)
	for key, value := range set {
		if value == nil {
			delete(out, key)
		} else {
			out[key] = *value
		}
	}
	return out
}

// nextProducerIDs returns the first of count fresh ids and the records that reserve them.
func (s *catalogState) nextProducerIDs(count int64) (int64, []change, error) {
	if count < 1 || s.nextProducer > uint64(math.MaxInt64-count) {
		return 0, nil, fmt.Errorf("reserve producer ids: cannot reserve %d after %d", count, s.nextProducer)
	}
	next := s.nextProducer + uint64(count)
	return int64(s.nextProducer), []change{encode(recordKey{Type: recordProducers}, nextRecord{next})}, nil
}

// orphans lists the logs on a node's disk that belong to no member there: of topics that are deleted, of replicas that moved away or were
// replaced. What the catalogue does not know yet is left alone: it is behind.
func (s *catalogState) orphans(node int32, logs []log.GroupID) []log.GroupID {
	owned := map[log.GroupID]bool{}
	next := map[log.GroupID]uint32{controllerGroup: s.nodes[node].Gen}
	for _, t := range s.topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			next[p.Group] = p.NextGen
			for _, list := range [][]Member{p.Members, p.Target, p.Leaving} {
				for _, m := range list {
					if m.Node == node {
						owned[logID(p.Group, m.Gen)] = true
					}
				}
			}
		}
	}
	var out []log.GroupID
	for _, id := range logs {
		group, gen := groupOf(id)
		below, known := next[group]
		switch {
		case owned[id], group >= s.nextGroup:
		case group == controllerGroup && gen >= below:
		case known && group != controllerGroup && gen >= max(below, 1):
		default:
			out = append(out, id)
		}
	}
	return out
}
