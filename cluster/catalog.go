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

// Placement is where one partition lives.
type Placement struct {
	Group    log.GroupID
	Replicas []int32
}

// Catalog is an immutable snapshot of the cluster's topics, credentials, quotas and configurations.
type Catalog struct {
	Version uint64
	Topics  map[string]*Topic
	ByID    map[[16]byte]*Topic
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

// recordKey is the JSON key of a record; Name is set for topics, credentials and groups only, the rest as its type says.
type recordKey struct {
	Type      string     `json:"type"`
	Name      string     `json:"name,omitempty"`
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
	recordDefaults  = "defaults"  // defaultsRecord
	recordScram     = "scram"     // scramRecord: a user's credential
	recordSalts     = "salts"     // saltsRecord
	recordQuota     = "quota"     // quotaRecord: of a user, a client id or both

	recordGroupConfig = "groupConfig" // groupConfigRecord: a consumer group's
)

type clusterRecord struct {
	ID string `json:"id"`
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
	Partitions []placementRecord `json:"partitions"`
}

type placementRecord struct {
	Group    log.GroupID `json:"group"`
	Replicas []int32     `json:"replicas"`
}

// catalogState is the fold of the controller's log (invariant 8) and the rules by which operations become
// records. It is pure: operations return records and change nothing; apply changes the state.
type catalogState struct {
	clusterID    string
	nextGroup    log.GroupID
	nextProducer uint64
	epochFloor   uint64
	topics       map[string]*Topic
	folded       map[string]string // foldTopicName -> name
	defaults     map[string]string // of topic properties, cluster-wide
	// static is this node's defaults of topic properties: no part of the fold, only of what Settings say.
	static map[string]string

	securityState
	configs groupState
}

func newCatalogState(static map[string]string) *catalogState {
	return &catalogState{
		nextGroup: firstTopicGroup, topics: map[string]*Topic{}, folded: map[string]string{}, static: static, securityState: newSecurityState(),
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
		s.clusterID = r.ID
	case recordGroups:
		err = applyNext(c.value, (*uint64)(&s.nextGroup))
	case recordProducers:
		err = applyNext(c.value, &s.nextProducer)
	case recordEpochs:
		err = applyNext(c.value, &s.epochFloor)
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
	for _, p := range r.Partitions {
		t.Partitions = append(t.Partitions, Placement(p))
	}
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
	c := &Catalog{Version: version, Topics: maps.Clone(s.topics), ByID: make(map[[16]byte]*Topic, len(s.topics)), Defaults: s.defaults}
	c.Scram, c.Quotas = s.securityState.snapshot()
	c.Groups = s.configs.snapshot()
	for _, t := range s.topics {
		c.ByID[t.ID] = t
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
	r := topicRecord{ID: hex.EncodeToString(t.ID[:]), Internal: t.Internal, Config: t.Config, MinTerm: t.minTerm}
	for _, p := range t.Partitions {
		r.Partitions = append(r.Partitions, placementRecord(p))
	}
	return encode(recordKey{Type: recordTopic, Name: t.Name}, r)
}

func (s *catalogState) createTopic(spec TopicSpec, id [16]byte, nodes []int32) ([]change, error) {
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
	t := &Topic{
		Name: spec.Name, ID: id, Internal: spec.Internal, Config: spec.Config, minTerm: s.epochFloor,
		Partitions: place(nodes, s.nextGroup, 0, spec.Partitions),
	}
	next := s.nextGroup + log.GroupID(spec.Partitions)
	return []change{encodeTopic(t), encode(recordKey{Type: recordGroups}, nextRecord{uint64(next)})}, nil
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

func (s *catalogState) createPartitions(name string, count int32, nodes []int32) ([]change, error) {
	old := s.topics[name]
	if old == nil {
		return nil, fmt.Errorf("create partitions of %q: %w", name, ErrUnknownTopic)
	}
	have := int32(len(old.Partitions))
	if count <= have || count > maxPartitions {
		return nil, fmt.Errorf("create partitions of %q: it has %d, choose %d to %d in all: %w",
			name, have, have+1, maxPartitions, ErrInvalidPartitions)
	}
	t := *old
	t.Partitions = append(t.Partitions[:have:have], place(nodes, s.nextGroup, have, count-have)...)
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

// orphans lists groups that have data but belong to no topic. Ids at or above nextGroup are left alone: the catalogue
// does not know them yet.
func (s *catalogState) orphans(groups []log.GroupID) []log.GroupID {
	owned := map[log.GroupID]bool{controllerGroup: true}
	for _, t := range s.topics {
		for _, p := range t.Partitions {
			owned[p.Group] = true
		}
	}
	var out []log.GroupID
	for _, g := range groups {
		if !owned[g] && g < s.nextGroup {
			out = append(out, g)
		}
	}
	return out
}
