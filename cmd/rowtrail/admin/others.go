package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Others asks the other nodes of the cluster how they have a topic; "": all topics. missing are those that did not answer.
type Others func(ctx context.Context, topic string) (list []NodeTopics, missing []int32)

// NodeTopics are topics as one node has them.
type NodeTopics struct {
	Node   int32
	Topics []Topic
}

// Where a node answers other nodes.
const (
	TopicsPath     = "/topics"
	ConnectorsPath = "/connectors"
)

// OthersHandler answers other nodes. It asks nobody.
func OthersHandler(n Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ConnectorsPath, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, n.Connectors()) })
	mux.HandleFunc("GET "+TopicsPath, func(w http.ResponseWriter, r *http.Request) {
		list := []Topic{}
		if name := r.FormValue("topic"); name == "" {
			list = append(list, n.Topics()...)
		} else if t, ok := n.Topic(name); ok {
			list = append(list, t)
		}
		reply(w, http.StatusOK, list)
	})
	return mux
}

// missingHeader names nodes that an answer lacks.
const missingHeader = "Rowtrail-Missing-Nodes"

func tellMissing(w http.ResponseWriter, missing []int32) {
	if len(missing) == 0 {
		return
	}
	slices.Sort(missing)
	text := make([]string, len(missing))
	for i, n := range missing {
		text[i] = strconv.Itoa(int(n))
	}
	w.Header().Set(missingHeader, strings.Join(text, ","))
}

// asLed takes of each partition what the node says that leads it.
func asLed(topics []Topic, others []NodeTopics) {
	for i := range topics {
		t := &topics[i]
		for _, o := range others {
			at := slices.IndexFunc(o.Topics, func(x Topic) bool { return x.ID == t.ID })
			if at < 0 {
				continue
			}
			for _, p := range o.Topics[at].Partitions {
				if p.Leader != o.Node || int(p.Partition) >= len(t.Partitions) {
					continue
				}
				if own := &t.Partitions[p.Partition]; p.Epoch >= own.Epoch {
					t.Bytes += p.Bytes - own.Bytes
					*own = p
				}
			}
		}
	}
}

// allTopics are the topics as their partitions' leaders have them.
func (s *Server) allTopics(ctx context.Context) (topics []Topic, missing []int32) {
	topics = append([]Topic{}, s.opts.Node.Topics()...)
	if s.opts.Others != nil {
		var others []NodeTopics
		others, missing = s.opts.Others(ctx, "")
		asLed(topics, others)
	}
	return topics, missing
}

// oneTopic is allTopics of one.
func (s *Server) oneTopic(ctx context.Context, name string) (t Topic, missing []int32, ok bool) {
	t, ok = s.opts.Node.Topic(name)
	if ok && s.opts.Others != nil {
		one := []Topic{t}
		var others []NodeTopics
		others, missing = s.opts.Others(ctx, name)
		asLed(one, others)
		t = one[0]
	}
	return t, missing, ok
}
