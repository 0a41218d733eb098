package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
)

// What there is at least of each thing in an answer, in bytes.
const (
	leastTopic       = 24
	leastPartition   = 20
	leastConfigs     = 1000 // all of a topic's, or of a node's
	leastCoordinated = 24   // a group or a transaction
	leastOffset      = 12
)

// What there is at most in metadata about a few topics, in bytes.
const (
	mostNode      = 600 // a host and a rack among them
	mostTopic     = 320 // a name that there may be among them
	mostPartition = 40
	mostReplica   = 12 // it may be in three lists
)

// surelySmall tells that a connection may hold the answer whatever else is there, so that clients which look for the leaders of their topics wait
// for nobody that asks for more.
func (b *Broker) surelySmall(req kmsg.Request) bool {
	m, ok := req.(*kmsg.MetadataRequest)
	if !ok || len(m.Topics) == 0 || len(m.Topics)*mostTopic > smallAnswer {
		return false
	}
	catalog := b.node.Catalog()
	n := len(catalog.Nodes) * mostNode
	for i := range m.Topics {
		n += mostTopic + len(deref(m.Topics[i].Topic))
		if t := askedFor(catalog, &m.Topics[i]); t != nil {
			for j := range t.Partitions {
				n += mostPartition + mostReplica*(len(t.Partitions[j].Members)+len(t.Partitions[j].Target))
			}
		}
	}
	return n <= smallAnswer
}

// askedFor is the topic that metadata is asked about; nil: there is none.
func askedFor(catalog *cluster.Catalog, rt *kmsg.MetadataRequestTopic) *cluster.Topic {
	if t := catalog.ByID[rt.TopicID]; t != nil {
		return t
	}
	return catalog.Topics[deref(rt.Topic)]
}

// leastAnswer estimates from below what a request asks for, in bytes; 0: not known before it is there. An answer that has no
// room is not put together for nothing then, and a host whose clients read nothing takes no CPU time either.
func (b *Broker) leastAnswer(req kmsg.Request) (n int64) {
	catalog := b.node.Catalog()
	topic := func(t *cluster.Topic) {
		n += leastTopic
		if t != nil {
			n += int64(len(t.Partitions)) * leastPartition
		}
	}
	all := func() {
		for _, t := range catalog.Topics {
			topic(t)
		}
	}
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
			all()
		}
		for i := range req.Topics {
			topic(askedFor(catalog, &req.Topics[i]))
		}
	case *kmsg.DescribeLogDirsRequest:
		if req.Topics == nil {
			all()
		}
		for i := range req.Topics {
			n += leastTopic + int64(len(req.Topics[i].Partitions))*leastPartition
		}
	case *kmsg.DescribeConfigsRequest:
		for i := range req.Resources {
			if n += leastTopic; req.Resources[i].ConfigNames == nil {
				n += leastConfigs
			}
		}
	case *kmsg.DescribeProducersRequest:
		for i := range req.Topics {
			n += leastTopic + int64(len(req.Topics[i].Partitions))*leastPartition
		}
	case *kmsg.OffsetFetchRequest:
		for i := range req.Topics {
			n += leastTopic + int64(len(req.Topics[i].Partitions))*leastOffset
		}
		for i := range req.Groups {
			for j := range req.Groups[i].Topics {
				n += leastTopic + int64(len(req.Groups[i].Topics[j].Partitions))*leastOffset
			}
		}
	case *kmsg.DescribeGroupsRequest:
		n = int64(len(req.Groups)) * leastCoordinated
	case *kmsg.ConsumerGroupDescribeRequest:
		n = int64(len(req.Groups)) * leastCoordinated
	case *kmsg.DescribeTransactionsRequest:
		n = int64(len(req.TransactionalIDs)) * leastCoordinated
	}
	return n
}
