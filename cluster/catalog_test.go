package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log"
)

func fold(t interface{ Fatalf(string, ...any) }, cs []change) *catalogState {
	s := newCatalogState(nil)
	for _, c := range cs {
		if err := s.apply(c); err != nil {
			t.Fatalf("fold: %v", err)
		}
	}
	return s
}

// compacted keeps the last record of every key, in log order (invariant 10).
func compacted(cs []change) []change {
	last := map[string]int{}
	for i, c := range cs {
		last[string(c.key)] = i
	}
	var out []change
	for i, c := range cs {
		if last[string(c.key)] == i {
			out = append(out, c)
		}
	}
	return out
}

// A model of the catalogue beside the fold: names, partition counts, every id ever used.
func TestCatalogIsAFoldOfItsLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := newCatalogState(nil)
		var written []change
		model := map[string]int32{}
		configs := map[string]map[string]string{}
		defaults := map[string]string{}
		groups := map[log.GroupID]string{}
		terms := map[string]uint64{} // highest epoch a name has had
		users, quotas := map[ScramID]ScramCredential{}, Quotas{}
		ofGroups := GroupConfigs{}
		ids := byte(0)
		commit := func(t *rapid.T, cs []change) {
			for _, c := range cs {
				if err := live.apply(c); err != nil {
					t.Fatalf("apply: %v", err)
				}
			}
			written = append(written, cs...)
		}
		name := rapid.SampledFrom([]string{"a", "b", "a.b", "a_b", "c", "..", "x y"})
		for id := range int32(4) {
			cs, err := live.register(registration{ID: id + 1, Node: NodeInfo{Disk: fmt.Sprint("disk", id)}})
			if err != nil {
				t.Fatalf("register: %v", err)
			}
			commit(t, cs)
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				n, parts := name.Draw(t, "name"), int32(rapid.IntRange(0, 5).Draw(t, "partitions"))
				ids++
				cs, err := live.createTopic(TopicSpec{Name: n, Partitions: parts}, [16]byte{ids})
				_, exists := model[n]
				collides := false
				for other := range model {
					collides = collides || other != n && foldTopicName(other) == foldTopicName(n)
				}
				valid := !exists && !collides && parts > 0 && n != ".." && !strings.Contains(n, " ")
				if (err == nil) != valid {
					t.Fatalf("create %q with %d partitions: %v", n, parts, err)
				}
				if err != nil {
					return
				}
				commit(t, cs)
				model[n], configs[n] = parts, map[string]string{}
				if got := live.topics[n].minTerm; got < terms[n] {
					t.Fatalf("%q starts at epoch %d, it had %d before", n, got, terms[n])
				}
			},
			"delete": func(t *rapid.T) {
				n := name.Draw(t, "name")
				epoch := uint64(rapid.IntRange(1, 100).Draw(t, "epoch"))
				cs, err := live.deleteTopic(n, epoch)
				if _, ok := model[n]; ok != (err == nil) {
					t.Fatalf("delete %q: %v", n, err)
				}
				if err != nil {
					if !errors.Is(err, ErrUnknownTopic) {
						t.Fatalf("delete %q: %v", n, err)
					}
					return
				}
				commit(t, cs)
				delete(model, n)
				terms[n] = max(terms[n], epoch)
			},
			"grow": func(t *rapid.T) {
				n, count := name.Draw(t, "name"), int32(rapid.IntRange(1, 8).Draw(t, "count"))
				cs, err := live.createPartitions(n, count, nil)
				if have, ok := model[n]; (ok && count > have) != (err == nil) {
					t.Fatalf("grow %q from %d to %d: %v", n, have, count, err)
				}
				if err == nil {
					commit(t, cs)
					model[n] = count
				}
			},
			"config": func(t *rapid.T) {
				n := name.Draw(t, "name")
				key := rapid.SampledFrom([]string{"retention.ms", "retention.bytes", "nope"}).Draw(t, "key")
				var value *string
				if rapid.Bool().Draw(t, "set") {
					v := fmt.Sprint(rapid.IntRange(-3, 9).Draw(t, "value"))
					value = &v
				}
				cs, err := live.setTopicConfig(n, map[string]*string{key: value})
				_, exists := model[n]
				valid := exists && (value == nil || key != "nope" && *value != "-3" && *value != "-2")
				if (err == nil) != valid {
					t.Fatalf("config of %q: %s=%v: %v", n, key, value, err)
				}
				if err != nil {
					return
				}
				commit(t, cs)
				if value == nil {
					delete(configs[n], key)
				} else {
					configs[n][key] = *value
				}
			},
			"defaults": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"retention.ms", "cleanup.policy", "nope"}).Draw(t, "key")
				value := rapid.SampledFrom([]string{"5", "compact", ""}).Draw(t, "value")
				set := map[string]*string{key: &value}
				valid := key == "retention.ms" && value == "5" || key == "cleanup.policy" && value != "5"
				if rapid.Bool().Draw(t, "remove") {
					set[key], valid = nil, true
				}
				cs, err := live.setDefaults(set)
				if (err == nil) != valid || err != nil && !errors.Is(err, ErrInvalidConfig) {
					t.Fatalf("default %s=%s: %v", key, value, err)
				}
				commit(t, cs)
				if err == nil {
					delete(defaults, key)
					if set[key] != nil {
						defaults[key] = value
					}
				}
			},
			"producers": func(t *rapid.T) {
				before := live.nextProducer
				first, cs, err := live.nextProducerIDs(int64(rapid.IntRange(1, 1000).Draw(t, "count")))
				if err != nil || uint64(first) != before {
					t.Fatalf("producer ids: %d after %d: %v", first, before, err)
				}
				commit(t, cs)
			},
			"credential": func(t *rapid.T) {
				id := ScramID{rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "user"), rapid.SampledFrom([]string{"m", "n"}).Draw(t, "mechanism")}
				var c *ScramCredential
				if rapid.Bool().Draw(t, "set") {
					c = &ScramCredential{Iterations: rapid.IntRange(1, 9).Draw(t, "iterations"), Salt: []byte("s"), StoredKey: []byte{0xff}, ServerKey: []byte("k")}
				}
				cs, err := live.alterScram(id, c)
				_, exists := users[id]
				if valid := id.User != "" && (c != nil || exists); (err == nil) != valid {
					t.Fatalf("credential %v: %v", id, err)
				}
				if err != nil {
					return
				}
				commit(t, cs)
				if c == nil {
					delete(users, id)
				} else {
					users[id] = *c
				}
			},
			"quota": func(t *rapid.T) {
				half := func(what string) QuotaName {
					return rapid.SampledFrom([]QuotaName{{}, {Is: QuotaDefault}, {QuotaNamed, ""}, {QuotaNamed, "x"}}).Draw(t, what)
				}
				e := QuotaEntity{User: half("user"), Client: half("client")}
				name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
				var value *float64
				if rapid.Bool().Draw(t, "set") {
					v := float64(rapid.IntRange(0, 3).Draw(t, "value"))
					value = &v
				}
				cs, err := live.alterQuota(e, map[string]*float64{name: value})
				if valid := e != (QuotaEntity{}) && (value == nil || *value > 0); (err == nil) != valid {
					t.Fatalf("quota of %v: %v: %v", e, value, err)
				}
				if err != nil {
					return
				}
				commit(t, cs)
				values := maps.Clone(quotas[e])
				if value == nil {
					delete(values, name)
				} else {
					if values == nil {
						values = map[string]float64{}
					}
					values[name] = *value
				}
				if quotas[e] = values; len(values) == 0 {
					delete(quotas, e)
				}
			},
			"group": func(t *rapid.T) {
				n, key := rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
				var value *string
				if rapid.Bool().Draw(t, "set") {
					v := rapid.SampledFrom([]string{"1", "2", "bad"}).Draw(t, "value")
					value = &v
				}
				cs, err := live.configs.set(n, map[string]*string{key: value}, func(config map[string]string) error {
					if slices.Contains(slices.Collect(maps.Values(config)), "bad") {
						return ErrInvalidConfig
					}
					return nil
				})
				if valid := n != "" && (value == nil || *value != "bad"); (err == nil) != valid {
					t.Fatalf("configuration of group %q: %v", n, err)
				}
				if err != nil {
					return
				}
				commit(t, cs)
				values := maps.Clone(ofGroups[n])
				if value == nil {
					delete(values, key)
				} else {
					if values == nil {
						values = map[string]string{}
					}
					values[key] = *value
				}
				if ofGroups[n] = values; len(values) == 0 {
					delete(ofGroups, n)
				}
			},
			"": func(t *rapid.T) {
				if d := cmp.Diff(ofGroups, live.configs.groups, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("configurations of groups (-want +have):\n%s", d)
				}
				if d := cmp.Diff(users, live.scram, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("credentials (-want +have):\n%s", d)
				}
				if d := cmp.Diff(quotas, live.quotas, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("quotas (-want +have):\n%s", d)
				}
				if !slices.Equal(slices.Sorted(maps.Keys(model)), slices.Sorted(maps.Keys(live.topics))) {
					t.Fatalf("topics %v, want %v", maps.Keys(live.topics), model)
				}
				for n, topic := range live.topics {
					if int32(len(topic.Partitions)) != model[n] {
						t.Fatalf("%q has %d partitions, want %d", n, len(topic.Partitions), model[n])
					}
					if want := topicconfig.Resolve(configs[n], defaults); topic.Settings != want {
						t.Fatalf("%q has settings %+v, want %+v", n, topic.Settings, want)
					}
					if len(topic.Config) != len(configs[n]) {
						t.Fatalf("%q has config %v, want %v", n, topic.Config, configs[n])
					}
					for p, place := range topic.Partitions {
						owner := fmt.Sprintf("%x/%d", topic.ID, p)
						if have, ok := groups[place.Group]; ok && have != owner {
							t.Fatalf("group %d belongs to %s and to %s", place.Group, have, owner)
						}
						groups[place.Group] = owner
						if place.Group >= live.nextGroup || len(place.Members) != defaultReplicationFactor {
							t.Fatalf("placement %+v, next group %d", place, live.nextGroup)
						}
					}
				}
			},
		})
		opts := cmp.Options{cmp.AllowUnexported(catalogState{}, securityState{}, groupState{}, Topic{}), cmpopts.EquateEmpty()}
		if d := cmp.Diff(live, fold(t, written), opts); d != "" {
			t.Fatalf("the log folds to something else (-live +folded):\n%s", d)
		}
		if d := cmp.Diff(live, fold(t, compacted(written)), opts); d != "" {
			t.Fatalf("the compacted log folds to something else (-live +folded):\n%s", d)
		}
	})
}

func TestCatalogRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []change{
		{[]byte(`{"type":"acl"}`), []byte(`{}`)},
		{[]byte(`{"type":"scram","name":"u","mechanism":"m"}`), []byte(`{"iterations":1,"salt":"?"}`)},
		{[]byte(`{"type":"salts"}`), []byte(`{"key":"?"}`)},
		{[]byte(`{"type":"salts"}`), nil},
		{[]byte(`{"type":"quota","user":{"name":"u","ip":"x"}}`), []byte(`{"values":{}}`)},
		{[]byte(`{"type":"topic","name":"t","zone":1}`), []byte(`{}`)},
		{[]byte(`{"type":"topic","name":"t"}`), []byte(`{"id":"zz","partitions":[]}`)},
		{[]byte(`{"type":"topic","name":"t"}`), []byte(`{"id":"00","future":1}`)},
		{[]byte(`{"type":"groups"}`), nil},
		{[]byte(`not json`), nil},
	} {
		if err := newCatalogState(nil).apply(c); err == nil {
			t.Errorf("%s %s was folded", c.key, c.value)
		}
	}
}

func TestCatalogSnapshotsAreImmutable(t *testing.T) {
	s := withNodes(t, NodeInfo{})
	cs, err := s.createTopic(TopicSpec{Name: "t", Partitions: 1, Config: map[string]string{"retention.ms": "1"}}, [16]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs {
		if err := s.apply(c); err != nil {
			t.Fatal(err)
		}
	}
	before := s.snapshot(1)
	two := "2"
	more, err := s.setTopicConfig("t", map[string]*string{"retention.ms": &two})
	if err != nil {
		t.Fatal(err)
	}
	grown, err := s.createPartitions("t", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(more, grown...) {
		if err := s.apply(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := before.Topics["t"]; got.Config["retention.ms"] != "1" || len(got.Partitions) != 1 || before.ByID[got.ID] != got {
		t.Errorf("an old snapshot changed: %+v", got)
	}
}

func TestOrphans(t *testing.T) {
	s := withNodes(t, NodeInfo{})
	cs, _ := s.createTopic(TopicSpec{Name: "t", Partitions: 2}, [16]byte{1})
	for _, c := range cs {
		if err := s.apply(c); err != nil {
			t.Fatal(err)
		}
	}
	s.nextGroup = 9
	if got := s.orphans(0, []log.GroupID{1, 2, 3, 5, 8, 9, 40}); fmt.Sprint(got) != "[5 8]" {
		t.Errorf("orphans %v, want [5 8]", got)
	}
	// A replica that was replaced is one; a generation that this state has not heard of is not.
	s.topics["t"].Partitions[1].Members[0].Gen, s.topics["t"].Partitions[1].NextGen = 1, 2
	logs := []log.GroupID{2, 3, logID(3, 1), logID(3, 2), logID(2, 1)}
	if got := s.orphans(0, logs); fmt.Sprint(got) != "[3]" {
		t.Errorf("orphans %v, want [3]", got)
	}
	if got := s.orphans(1, logs[:3]); fmt.Sprint(got) != fmt.Sprint(logs[:3]) {
		t.Errorf("orphans %v of a node that has no replica, want %v", got, logs[:3])
	}
}

// withNodes is a state with nodes 0 and on.
func withNodes(t interface{ Fatalf(string, ...any) }, nodes ...NodeInfo) *catalogState {
	s := newCatalogState(nil)
	for i, n := range nodes {
		n.Disk = fmt.Sprint("disk", i)
		cs, err := s.register(registration{ID: int32(i), Node: n})
		if err != nil {
			t.Fatalf("register: %v", err)
		}
		applyAll(t, s, cs)
	}
	return s
}

func applyAll(t interface{ Fatalf(string, ...any) }, s *catalogState, cs []change) {
	for _, c := range cs {
		if err := s.apply(c); err != nil {
			t.Fatalf("apply: %v", err)
		}
	}
}
