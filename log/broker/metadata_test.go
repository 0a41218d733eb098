package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMetadataFindsATopicByIDWhateverTheNameBesideIt(t *testing.T) {
	s := serve(t)
	cl := s.client(t, false)
	created, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "by-id")
	if err != nil {
		t.Fatal(err)
	}
	unknown := [16]byte{1, 2, 3}
	for _, name := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("other")} {
		req := kmsg.NewPtrMetadataRequest()
		for _, id := range [][16]byte{created.ID, unknown} {
			rt := kmsg.NewMetadataRequestTopic()
			rt.TopicID, rt.Topic = id, name
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil || len(resp.Topics) != 2 {
			t.Fatalf("name %v: %+v, %v", name, resp, err)
		}
		if found := resp.Topics[0]; found.ErrorCode != 0 || found.Topic == nil || *found.Topic != "by-id" || found.TopicID != created.ID {
			t.Errorf("name %v: %+v", name, found)
		}
		if missing := resp.Topics[1]; missing.ErrorCode != kerr.UnknownTopicID.Code || missing.Topic != nil || missing.TopicID != unknown {
			t.Errorf("name %v, an id nobody has: %+v", name, missing)
		}
	}
}
