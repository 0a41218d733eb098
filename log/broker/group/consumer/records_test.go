package consumer

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// The bytes are those of Kafka's coordinator-key and coordinator-value schemas, written out by hand.
func TestRecordsAreKafkas(t *testing.T) {
	id := ID{15: 7}
	uuid := "00000000000000000000000000000007"
	for _, c := range []struct {
		name, key, value string
		change           Change
	}{
		{"group", "0003" + "000167", "0000" + "00000005" + "01" + "00" + "08" + "0000000000000009",
			Change{key: keyGroup, epoch: 5, hash: 9}},
		{"group without topics", "0003" + "000167", "0000" + "00000005" + "00", Change{key: keyGroup, epoch: 5}},
		{"member", "0005" + "000167" + "00026d31", "0000" + "0269" + "00" + "0263" + "032f68" + "02" + "0261" + "00" + "00002710" + "0875" + hex.EncodeToString([]byte("niform")) + "00",
			Change{key: keyMember, name: "m1", member: &metadata{instance: "i", clientID: "c", clientHost: "/h", names: []string{"a"},
				rebalance: 10 * time.Second, assignor: "uniform"}}},
		{"target epoch", "0006" + "000167", "0000" + "00000004" + "00", Change{key: keyTargetEpoch, epoch: 4}},
		{"target", "0007" + "000167" + "00026d31", "0000" + "02" + uuid + "03" + "00000000" + "00000001" + "00" + "00",
			Change{key: keyTarget, name: "m1", target: target{{id, 1}: {}, {id, 0}: {}}}},
		{"current", "0008" + "000167" + "00026d31", "0000" + "00000004" + "00000003" + "01" +
			"02" + uuid + "02" + "00000000" + "01" + "00" + "05" + "02" + "00000002" + "01" + "00",
			Change{key: keyCurrent, name: "m1", current: &current{epoch: 4, previous: 3, state: stateUnrevoked, assigned: partitions{{id, 0}: 2}}}},
		{"expression", "0010" + "000167" + "0002612e", "0000" + "02" + "036162" + "0000000000000003" + "0000000000000064" + "00",
			Change{key: keyPattern, name: "a.", pattern: &pattern{topics: []string{"ab"}, version: 3, timestamp: 100}}},
		{"tombstone of a member", "0005" + "000167" + "00026d31", "", Change{key: keyMember, name: "m1"}},
		{"tombstone of a group", "0003" + "000167", "", Change{key: keyGroup}},
	} {
		c.change.Group = "g"
		r := c.change.record()
		if hex.EncodeToString(r.Key) != c.key || hex.EncodeToString(r.Value) != c.value {
			t.Errorf("%s:\n got %x %x\nwant %s %s", c.name, r.Key, r.Value, c.key, c.value)
			continue
		}
		back, err := Parse(r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		again := back.record()
		if !bytes.Equal(again.Key, r.Key) || !bytes.Equal(again.Value, r.Value) || (again.Value == nil) != (r.Value == nil) {
			t.Errorf("%s: read back as %+v", c.name, back)
		}
	}
}

func TestRecordsThatAreNotKnownAreRefused(t *testing.T) {
	good := Change{key: keyTargetEpoch, Group: "g", epoch: 4}.record()
	for name, r := range map[string]journal.Record{
		"a longer key":    {Key: append(bytes.Clone(good.Key), 0), Value: good.Value},
		"a shorter key":   {Key: good.Key[:3], Value: good.Value},
		"another version": {Key: good.Key, Value: kbin.AppendInt16(nil, 1)},
		"a longer value":  {Key: good.Key, Value: append(bytes.Clone(good.Value), 0)},
		"a shorter value": {Key: good.Key, Value: good.Value[:4]},
		"an epoch of 0":   {Key: good.Key, Value: make([]byte, 7)},
		"another key":     {Key: kbin.AppendString(kbin.AppendInt16(nil, 4), "g"), Value: good.Value},
	} {
		if c, err := Parse(r); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Whatever a record holds, it is read or refused, and what is read is written back as something that reads the same.
func FuzzParse(f *testing.F) {
	for _, c := range []Change{
		{key: keyGroup, epoch: 5, hash: 9}, {key: keyMember, name: "m", member: &metadata{names: []string{"a"}}},
		{key: keyTarget, name: "m", target: target{{ID{1}, 1}: {}}}, {key: keyPattern, name: "a", pattern: &pattern{topics: []string{"x"}}},
		{key: keyCurrent, name: "m", current: &current{epoch: 1, assigned: partitions{{ID{1}, 0}: 1}}},
	} {
		r := c.record()
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, err := Parse(journal.Record{Key: key, Value: value})
		if err != nil {
			return
		}
		limits := Limits{}.WithDefaults()
		g := New(c.Group, func() Limits { return limits })
		g.Apply(c)
		g.Loaded(time.Unix(0, 0))
		_ = g.Describe()
		first := c.record()
		again, err := Parse(first)
		if err != nil {
			t.Fatalf("what was written does not parse: %v", err)
		}
		if second := again.record(); !bytes.Equal(first.Value, second.Value) {
			t.Fatalf("%x became %x", first.Value, second.Value)
		}
	})
}
