package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
)

// Every request is answered with the code, and reads no state, while that is loaded: a broker that has just started, and
// one whose log refused an append, have clients that come at once.
func TestEveryRequestIsAnsweredWhileLoading(t *testing.T) {
	c := New(Options{}) // never run, so never loaded
	c.Open([]journal.Partition{(&journaltest.Log{}).Partition()})
	tp := journal.TopicPartition{Topic: "t", Partition: 0}
	var codes []int16
	take := func(code int16) { codes = append(codes, code) }
	for name, request := range map[string]func(){
		"Join":          func() { c.Join("g", JoinRequest{}, func(r JoinResult) { take(r.Code) }) },
		"Join of known": func() { c.Join("g", JoinRequest{MemberID: "m"}, func(r JoinResult) { take(r.Code) }) },
		"Sync":          func() { c.Sync("g", SyncRequest{}, func(r SyncResult) { take(r.Code) }) },
		"Heartbeat":     func() { c.Heartbeat("g", "m", "", 1, take) },
		"Leave":         func() { c.Leave("g", []Leaver{{MemberID: "m"}}, func(code int16, _ []int16) { take(code) }) },
		"Commit": func() {
			c.Commit(CommitRequest{Group: "g", Offsets: []Offset{{TopicPartition: tp}}}, func(codes []int16) { take(codes[0]) })
		},
		"TxnCommit": func() {
			c.Commit(CommitRequest{Group: "g", Offsets: []Offset{{TopicPartition: tp}}, Producer: &journal.Producer{ID: 1}},
				func(codes []int16) { take(codes[0]) })
		},
		"Fetch": func() {
			c.Fetch(FetchRequest{Group: "g", MemberEpoch: -1}, func(code int16, _ []Fetched) { take(code) })
		},
		"Describe": func() { c.Describe("g", func(code int16, _ Description) { take(code) }) },
		"ConsumerDescribe": func() {
			c.ConsumerDescribe("g", func(code int16, _ consumer.Description) { take(code) })
		},
		"ConsumerHeartbeat": func() {
			r := &consumer.Request{MemberID: "m", RebalanceTimeout: 1000, Topics: []string{"t"}, OwnsNothing: true}
			c.ConsumerHeartbeat("g", r, true, func(r consumer.Response) { take(r.Code) })
		},
		"List":          func() { c.List(func(code int16, _ []Listed) { take(code) }) },
		"Delete":        func() { c.Delete("g", take) },
		"DeleteOffsets": func() { c.DeleteOffsets("g", []journal.TopicPartition{tp}, func(code int16, _ []int16) { take(code) }) },
		"ForgetTopics":  func() { c.ForgetTopics(func(string) bool { return true }, take) },
	} {
		t.Run(name, func(t *testing.T) {
			codes = nil
			request()
			if len(codes) != 1 || codes[0] != kerr.CoordinatorLoadInProgress.Code {
				t.Errorf("answered with %v", codes)
			}
		})
	}
}
