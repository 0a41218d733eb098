package broker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A host whose many clients ask for much does not make the clients of others wait for all of them: neither for what may be large, nor, at all,
// for the leaders of a few topics.
func TestHostsTakeTurnsAtLargeAnswers(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 2000, nil)
	gate := s.external.building.catalogue
	var ends []func() // of the turns that all builders are busy with
	for range catalogueBuilders() {
		leave, err := gate.Party().Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, leave)
	}
	large := kmsg.NewPtrMetadataRequest()
	large.Version = 9
	const many = 60
	var answered atomic.Int32
	before := s.Stats().Requests
	for i := range many {
		c := from(t, s, "127.0.0.2")
		c.Write(request1(int32(i), large))
		go func() {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				answered.Add(1)
			}
		}()
	}
	waitFor(t, "all to be asked", func() bool { return s.Stats().Requests >= before+many })
	time.Sleep(100 * time.Millisecond) // they come to the gate

	one := from(t, s, "127.0.0.1")
	one.Write(request1(1, large))
	small := kmsg.NewPtrMetadataRequest()
	small.Version = 9
	unknown := "no topic"
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &unknown
	small.Topics = append(small.Topics, topic)
	other := from(t, s, "127.0.0.1")
	other.Write(request1(1, small))
	readFramed(t, other)
	if n := answered.Load(); n != 0 {
		t.Fatalf("%d are answered although no builder is free", n)
	}
	waitFor(t, "the one to be asked", func() bool { return s.Stats().Requests >= before+many+2 })
	time.Sleep(100 * time.Millisecond)
	ends[0]()
	readFramed(t, one)
	if n := answered.Load(); n > many/4 {
		t.Errorf("answered behind %d of %d of another host", n, many)
	}
	for _, leave := range ends[1:] {
		leave()
	}
}
