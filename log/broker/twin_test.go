package broker

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is wrong with a batch is told as kfake, which follows Kafka, tells it.
func TestBadBatchesAgainstKfake(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	twin, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	ours, theirs := dial(t, s.addr), dial(t, twin.ListenAddrs()[0])
	sum := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	edit := func(at int, to ...byte) []byte {
		b := batchOf("one", "two")
		copy(b[at:], to)
		return sum(b)
	}
	good := batchOf("one", "two")
	tests := []struct {
		name  string
		batch []byte
		other bool // kfake says something else on purpose; see the comment at the case
	}{
		{"good", good, false},
		{"short", good[:30], false},
		{"cut", good[:len(good)-1], false},
		{"bad checksum", func() []byte { b := batchOf("x"); b[len(b)-1] ^= 1; return b }(), false},
		{"magic 1", edit(16, 1), false},
		{"control batch", edit(22, 0x30), false},
		{"unknown codec", edit(22, 0x07), true},        // ours: INVALID_RECORD, as its bytes are sound
		{"count too high", edit(57, 0, 0, 0, 3), true}, // Kafka: INVALID_RECORD
		{"count negative", edit(57, 0xff, 0xff, 0xff, 0xff), false},
		{"last delta too high", edit(23, 0, 0, 0, 9), true}, // Kafka: INVALID_RECORD
		{"length negative", edit(8, 0xff, 0xff, 0xff, 0xff), false},
		{"length huge", edit(8, 0x7f, 0xff, 0xff, 0xff), false},
		{"base offset 5", edit(7, 5), true},                        // Kafka: INVALID_RECORD
		{"two batches", append(batchOf("one"), good...), true},     // Kafka: INVALID_RECORD
		{"too large", batchOf(string(make([]byte, 2<<20))), false}, // MESSAGE_TOO_LARGE
		{"transactional without producer", edit(22, 0x10), true},   // kfake: INVALID_PRODUCER_ID_MAPPING
		{"empty", []byte{}, false},
	}
	for _, tt := range tests {
		mine, his := append([]byte(nil), tt.batch...), append([]byte(nil), tt.batch...)
		got := produceCode(t, ours.Write, func() []byte { return readFramed(t, ours) }, produceRequest("t", -1, mine))
		want := produceCode(t, theirs.Write, func() []byte { return readFramed(t, theirs) }, produceRequest("t", -1, his))
		if (got == 0) != (want == 0) || got != want && !tt.other {
			t.Errorf("%s: code %d, kfake %d", tt.name, got, want)
		}
	}
	if s.logs.count("closed connection") > 0 {
		t.Errorf("a bad batch closed its connection:\n%s", s.logs)
	}
}

// Every API that both serve is advertised in versions that overlap, up to kfake's highest or the highest that is complete here.
func TestVersionsAgainstKfake(t *testing.T) {
	s := serve(t)
	twin, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	versions := func(cl *kgo.Client) map[int16]kmsg.ApiVersionsResponseApiKey {
		defer cl.Close()
		v, err := kadm.NewClient(cl).ApiVersions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[int16]kmsg.ApiVersionsResponseApiKey{}
		for _, b := range v {
			b.EachKeySorted(func(key, lo, hi int16) {
				out[key] = kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: lo, MaxVersion: hi}
			})
		}
		return out
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(twin.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	theirs := versions(cl)
	for key, v := range versions(s.client(t, false)) {
		w, known := theirs[key]
		if !known {
			continue
		}
		if v.MinVersion > w.MaxVersion || v.MaxVersion < w.MinVersion || v.MaxVersion > kmsg.RequestForKey(key).MaxVersion() {
			t.Errorf("%s: %d to %d, kfake %d to %d", kmsg.NameForKey(key), v.MinVersion, v.MaxVersion, w.MinVersion, w.MaxVersion)
		}
	}
}
