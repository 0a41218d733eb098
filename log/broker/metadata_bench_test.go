package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// BenchmarkMetadataOfAllTopics describes 5,000 topics: put together, and encoded, as build does.
func BenchmarkMetadataOfAllTopics(b *testing.B) {
	s := serve(b)
	for i := range 5000 {
		if _, err := s.node.CreateTopic(b.Context(), cluster.TopicSpec{Name: fmt.Sprintf("topic-%04d", i), Partitions: 1}); err != nil {
			b.Fatal(err)
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		resp, err := s.handleMetadata(b.Context(), &request{req: req})
		if err != nil {
			b.Fatal(err)
		}
		buf = appendResponse(buf[:0], header{key: 3, version: 12}, resp)
	}
}
