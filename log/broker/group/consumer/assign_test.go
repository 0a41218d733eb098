package consumer

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

func everything(topics []Topic) map[ID]struct{} {
	set := map[ID]struct{}{}
	for _, t := range topics {
		set[t.ID] = struct{}{}
	}
	return set
}

// complete: every partition of a subscribed topic has one owner that subscribes to it, and nobody gets anything else.
func complete(t *rapid.T, subscribers []*subscriber, topics []Topic) {
	owner := map[TopicPartition]string{}
	for _, s := range subscribers {
		for tp := range s.gets {
			if o, twice := owner[tp]; twice {
				t.Fatalf("%v goes to %s and %s", tp, o, s.id)
			}
			owner[tp] = s.id
			if _, ok := s.topics[tp.Topic]; !ok {
				t.Fatalf("%s gets %v, which it does not read", s.id, tp)
			}
		}
	}
	want := 0
	for _, topic := range topics {
		for _, s := range subscribers {
			if _, ok := s.topics[topic.ID]; ok {
				want += int(topic.Partitions)
				break
			}
		}
	}
	if len(owner) != want {
		t.Fatalf("%d of %d partitions are assigned", len(owner), want)
	}
}

func TestAssignorsAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var topics []Topic
		for i := range rapid.IntRange(1, 4).Draw(t, "topics") {
			topics = append(topics, Topic{ID: ID{byte(i + 1)}, Name: fmt.Sprint(i), Partitions: int32(rapid.IntRange(1, 9).Draw(t, "partitions"))})
		}
		var subscribers []*subscriber
		wanted := map[ID]struct{}{}
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			s := &subscriber{id: fmt.Sprint(i), topics: map[ID]struct{}{}, gets: target{}}
			for _, topic := range topics {
				if rapid.Bool().Draw(t, "subscribed") {
					s.topics[topic.ID] = struct{}{}
				}
			}
			maps.Copy(wanted, s.topics)
			subscribers = append(subscribers, s)
		}
		read := topics[:0:0]
		for _, topic := range topics {
			if _, ok := wanted[topic.ID]; ok {
				read = append(read, topic)
			}
		}
		name := rapid.SampledFrom([]string{assignorUniform, assignorRange}).Draw(t, "assignor")
		assignorFor(name)(subscribers, read)
		complete(t, subscribers, read)
		if name != assignorUniform {
			return
		}
		// No partition can move to make it more even.
		for _, from := range subscribers {
			for tp := range from.gets {
				for _, to := range subscribers {
					if _, ok := to.topics[tp.Topic]; ok && len(from.gets) > len(to.gets)+1 {
						t.Fatalf("%s has %d and %s %d, and %v could move", from.id, len(from.gets), to.id, len(to.gets), tp)
					}
				}
			}
		}
	})
}

// Members that come and go move as few partitions as an even share needs.
func TestUniformIsSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topics := []Topic{{ID: ID{1}, Name: "a", Partitions: int32(rapid.IntRange(1, 20).Draw(t, "a"))},
			{ID: ID{2}, Name: "b", Partitions: int32(rapid.IntRange(1, 20).Draw(t, "b"))}}
		total := int(topics[0].Partitions + topics[1].Partitions)
		group := func(n int, before []*subscriber) (list []*subscriber) {
			for i := range n {
				s := &subscriber{id: fmt.Sprintf("%02d", i), topics: everything(topics), gets: target{}}
				if i < len(before) {
					s.had = before[i].gets
				}
				list = append(list, s)
			}
			uniform(list, topics)
			complete(t, list, topics)
			return list
		}
		n, more := rapid.IntRange(1, 8).Draw(t, "members"), rapid.IntRange(0, 4).Draw(t, "more")
		first := group(n, nil)
		second := group(n+more, first)
		moved := 0
		for i, s := range first {
			for tp := range s.gets {
				if _, kept := second[i].gets[tp]; !kept {
					moved++
				}
			}
		}
		want := 0 // what the new members get, and nothing else
		for _, s := range second[n:] {
			want += len(s.gets)
		}
		if moved != want {
			t.Fatalf("%d partitions moved for %d that new members got", moved, want)
		}
		third := group(n, second)
		for i, s := range third {
			for tp := range second[i].gets {
				if _, kept := s.gets[tp]; !kept {
					t.Fatalf("%v moved away from %s, which stays, of %d partitions", tp, s.id, total)
				}
			}
		}
	})
}

func TestRangeGivesRuns(t *testing.T) {
	topics := []Topic{{ID: ID{1}, Name: "a", Partitions: 5}, {ID: ID{2}, Name: "b", Partitions: 5}}
	list := []*subscriber{{id: "1", topics: everything(topics), gets: target{}}, {id: "2", topics: everything(topics), gets: target{}},
		{id: "3", instance: "x", topics: everything(topics), gets: target{}}}
	ranges(list, topics)
	for i, want := range []map[int32]bool{{2: true, 3: true}, {4: true}, {0: true, 1: true}} { // the static member comes first
		for _, topic := range topics {
			for p := range topic.Partitions {
				if _, got := list[i].gets[TopicPartition{topic.ID, p}]; got != want[p] {
					t.Errorf("member %d, %s-%d: %v", i, topic.Name, p, got)
				}
			}
		}
	}
}
