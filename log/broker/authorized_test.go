package broker

import (
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who asks what it may do is told everything that there is, as by Kafka without an authorizer; who does not ask is told nothing.
func TestAuthorizedOperations(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	c := dial(t, s.addr)
	names := func(bits int32) (list []string) {
		for op := range kmsg.ACLOperation(31) {
			if bits&(1<<op) != 0 {
				list = append(list, op.String())
			}
		}
		slices.Sort(list)
		return list
	}
	topic := []string{"ALTER", "ALTER_CONFIGS", "CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"}
	group := []string{"ALTER_CONFIGS", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ"}
	cluster := []string{"ALTER", "ALTER_CONFIGS", "CLUSTER_ACTION", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE"}
	check := func(what string, asked bool, bits int32, want []string) {
		t.Helper()
		if !asked && bits != math.MinInt32 || asked && !slices.Equal(names(bits), want) {
			t.Errorf("%s, asked %t: %#x %v, want %v", what, asked, bits, names(bits), want)
		}
	}
	for _, asked := range []bool{false, true} {
		md := kmsg.NewPtrMetadataRequest()
		md.Version, md.IncludeClusterAuthorizedOperations, md.IncludeTopicAuthorizedOperations = 10, asked, asked
		rt, missing := kmsg.NewMetadataRequestTopic(), kmsg.NewMetadataRequestTopic()
		rt.Topic, missing.Topic = kmsg.StringPtr("t"), kmsg.StringPtr("none")
		md.Topics = append(md.Topics, rt, missing)
		m := askRaw[*kmsg.MetadataResponse](t, c, md)
		check("Metadata of the cluster", asked, m.AuthorizedOperations, cluster)
		check("Metadata of a topic", asked, m.Topics[0].AuthorizedOperations, topic)
		check("Metadata of a topic that does not exist", false, m.Topics[1].AuthorizedOperations, nil)

		dc := kmsg.NewPtrDescribeClusterRequest()
		dc.Version, dc.EndpointType, dc.IncludeClusterAuthorizedOperations = 1, endpointBrokers, asked
		check("DescribeCluster", asked, askRaw[*kmsg.DescribeClusterResponse](t, c, dc).ClusterAuthorizedOperations, cluster)

		dg := kmsg.NewPtrDescribeGroupsRequest()
		dg.Groups, dg.IncludeAuthorizedOperations = []string{"g"}, asked
		for version, told := range map[int16]bool{5: asked, 6: false} { // from version 6 on a group that is not known is an error
			dg.Version = version
			check("DescribeGroups", told, askRaw[*kmsg.DescribeGroupsResponse](t, c, dg).Groups[0].AuthorizedOperations, group)
		}

		cg := kmsg.NewPtrConsumerGroupDescribeRequest()
		cg.Version, cg.Groups, cg.IncludeAuthorizedOperations = 1, []string{"g"}, asked
		check("ConsumerGroupDescribe of none", false, askRaw[*kmsg.ConsumerGroupDescribeResponse](t, c, cg).Groups[0].AuthorizedOperations, nil)
	}
	dp := kmsg.NewPtrDescribeTopicPartitionsRequest()
	dpt := kmsg.NewDescribeTopicPartitionsRequestTopic()
	dpt.Topic = "t"
	dp.Topics, dp.ResponsePartitionLimit = append(dp.Topics, dpt), 10
	check("DescribeTopicPartitions", true, askRaw[*kmsg.DescribeTopicPartitionsResponse](t, c, dp).Topics[0].AuthorizedOperations, topic)
}
