package broker

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
)

// differences from kfake, for docs/compatibility.md: a name, and what the two do. Apache Kafka does as Rowtrail does unless
// the text says otherwise.
var differences = [][2]string{
	{"settings in the answer to CreateTopics", "All settings of the new topic with their sources are returned; kfake returns those that were asked for."},
	{"names, numbers and settings of new topics", "Names that are not valid, 0 or fewer than -1 partitions and unknown settings are refused; kfake takes some of them, or names another of several faults."},
	{"numbers of partitions", "A number that is not above the present one is refused; kfake takes the present one."},
	{"values of settings", "Values that are not valid and unknown settings are refused; kfake stores them."},
	{"synonyms of settings", "Are returned where the request asks for them; kfake always returns them."},
	{"retention", "The default of retention.ms is to keep everything; kfake's and Kafka's is a week."},
	{"deleted records", "To delete up to an offset below the log's start succeeds and changes nothing; kfake calls it out of range."},
	{"duplicate batches", "Their answer has the log's start; kfake's has -1."},
	{"the largest timestamp", "It is looked for above the log's start; kfake also finds it in deleted records."},
	{"unknown partitions come first", "A partition that does not exist is told as such, whatever else is wrong with the commit; kfake looks at the group or the producer first."},
	{"unknown topic ids", "Offsets of an unknown topic id are answered with UNKNOWN_TOPIC_ID; kfake answers that there are none, or that there is an open transaction."},
	{"groups that do not exist", "Members of such a group are unknown, its offsets are -1, it is described as Dead, and deleting it or its offsets is GROUP_ID_NOT_FOUND. kfake answers GROUP_ID_NOT_FOUND in more cases, or makes a group of every name that a request has mentioned."},
	{"groups of open transactions", "The first offset in a transaction makes the group; in kfake its commit does."},
	{"members that have not joined", "A commit by a member id that was handed out and has not joined is UNKNOWN_MEMBER_ID; in kfake ILLEGAL_GENERATION."},
	{"offsets of open transactions", "A stable fetch is refused for the partitions with an open commit, and one of all partitions leaves out those without an earlier commit; kfake refuses it for the whole group."},
	{"offsets that were not committed", "Their metadata is empty; kfake's is null."},
	{"protocol type of groups without members", "Is empty until a member has joined; kfake's is that of the first try."},
	{"unknown epochs", "The end of epoch -1 is unknown; kfake answers with the present one."},
	{"batches and offsets outside of transactions", "The error is the coordinator's: an unknown producer, a stale epoch, or TRANSACTION_ABORTABLE for clients that know it; kfake always says INVALID_TXN_STATE."},
	{"fencing in old versions", "Versions that do not know PRODUCER_FENCED are told INVALID_PRODUCER_EPOCH; kfake says PRODUCER_FENCED in all."},
	{"offsets in transactions", "A transaction's partitions include those of __consumer_offsets; kfake leaves them out."},
	{"states of transactions", "A transaction that has ended is CompleteCommit or CompleteAbort until the next begins; in kfake Empty."},
	{"active producers", "Every producer with batches in the partition is listed; kfake lists transactional ones, from when the partition was added."},
}

// explanation allows a difference.
type explanation struct {
	name               string // one of differences
	path, ours, theirs *regexp.Regexp
}

func explain(name, path, ours, theirs string) explanation {
	whole := func(s string) *regexp.Regexp { return regexp.MustCompile("^(?:" + s + ")$") }
	return explanation{name, whole(path), whole(ours), whole(theirs)}
}

var explained = []explanation{
	explain("settings in the answer to CreateTopics", `CreateTopics\.Topics\.Configs`, `.*`, `.*`),
	explain("names, numbers and settings of new topics", `CreateTopics\.Topics\.ErrorCode`, `37|17|40|36`, `0`),
	explain("names, numbers and settings of new topics", `CreateTopics\.Topics\.ErrorCode`, `17|40|36`, `37`),
	explain("numbers of partitions", `CreatePartitions\.Topics\.ErrorCode`, `37`, `0`),
	explain("values of settings", `IncrementalAlterConfigs\.Resources\.ErrorCode`, `40`, `0`),
	explain("synonyms of settings", `DescribeConfigs\.Resources\.Configs\.ConfigSynonyms`, `\[\]`, `.*`),
	explain("retention", `DescribeConfigs\.Resources\.Configs\.Value`, `"-1"`, `"604800000"`),
	explain("deleted records", `DeleteRecords\.Topics\.Partitions\.ErrorCode`, `0`, `1`),
	explain("duplicate batches", `Produce\.Topics\.Partitions\.LogStartOffset`, `\d+`, `-1`),
	explain("the largest timestamp", `ListOffsets of the largest timestamp\.Topics\.Partitions\.(Offset|Timestamp|LeaderEpoch)`, `.*`, `.*`),
	explain("unknown partitions come first", `(TxnOffsetCommit|OffsetCommit|OffsetDelete)\.Topics\.Partitions\.ErrorCode`, `3`, `.*`),
	explain("unknown topic ids", `OffsetFetch\.Groups\.Topics\.Partitions\.ErrorCode`, `100`, `0|88`),
	explain("groups that do not exist", `(Heartbeat|LeaveGroup|SyncGroup)\.ErrorCode`, `25`, `69`),
	explain("groups that do not exist", `LeaveGroup\.(ErrorCode|Members)`, `0|\[\{"ErrorCode":25.*`, `69|\[\]`),
	explain("groups that do not exist", `OffsetFetch\.(Groups\.)?ErrorCode`, `0`, `69`),
	explain("groups that do not exist", `OffsetFetch\.(Groups\.)?Topics`, `.*`, `\[\]`),
	explain("groups that do not exist", `DescribeGroups\.Groups\.State`, `"Dead"`, `"Empty"`),
	explain("groups that do not exist", `DescribeGroups\.Groups\.ErrorCode`, `69`, `0`),
	explain("groups that do not exist", `OffsetDelete\.(ErrorCode|Topics)`, `69|\[\]`, `0|\[.*`),
	explain("groups that do not exist", `DeleteGroups\.Groups\.ErrorCode`, `69`, `0`),
	explain("groups of open transactions", `OffsetDelete\.(ErrorCode|Topics)`, `0|\[.*`, `69|\[\]`),
	explain("groups of open transactions", `DescribeGroups\.Groups\.State`, `"Empty"`, `"Dead"`),
	explain("groups of open transactions", `DescribeGroups\.Groups\.ErrorCode`, `0`, `69`),
	explain("groups of open transactions", `DeleteGroups\.Groups\.ErrorCode`, `0`, `69`),
	explain("members that have not joined", `OffsetCommit\.Topics\.Partitions\.ErrorCode`, `25`, `22`),
	explain("offsets of open transactions", `OffsetFetch\.(Groups\.)?(Topics\.Partitions\.)?ErrorCode`, `0`, `88`),
	explain("offsets of open transactions", `OffsetFetch\.(Groups\.)?Topics`, `.*"ErrorCode":88.*`, `.*`),
	explain("offsets that were not committed", `OffsetFetch\.(Groups\.)?Topics\.Partitions\.Metadata`, `""`, `null`),
	explain("protocol type of groups without members", `(DescribeGroups|ListGroups)\.Groups\.ProtocolType`, `""`, `"consumer"`),
	explain("unknown epochs", `OffsetForLeaderEpoch\.Topics\.Partitions\.(EndOffset|LeaderEpoch)`, `-1`, `.*`),
	explain("batches and offsets outside of transactions", `(Produce|TxnOffsetCommit)\.Topics\.Partitions\.ErrorCode`, `47|49|120`, `48`),
	explain("fencing in old versions", `(AddOffsetsToTxn|(AddPartitionsToTxn|TxnOffsetCommit)\.Topics\.Partitions|EndTxn|InitProducerID)\.ErrorCode`, `47`, `90`),
	explain("offsets in transactions", `DescribeTransactions\.TransactionStates\.Topics`, `.*__consumer_offsets.*`, `.*`),
	explain("states of transactions", `(Describe|List)Transactions\.TransactionStates\.(Transaction)?State`, `"Complete.*"`, `"Empty"`),
	explain("active producers", `DescribeProducers\.Topics\.Partitions\.ActiveProducers.*`, `.*`, `.*`),
}

// differencesTable is what docs/compatibility.md says of kfake.
func differencesTable() string {
	var b bytes.Buffer
	b.WriteString(`
## Differences from kfake

kfake, franz-go's in-memory broker, is sent the same random requests in the tests. Apart from ids, times and addresses the
answers are the same but for these differences, in which Apache Kafka does as Rowtrail does, unless it says otherwise:

| what | how they differ |
| --- | --- |
`)
	for _, d := range differences {
		fmt.Fprintf(&b, "| %s | %s |\n", d[0], d[1])
	}
	b.WriteString(`
Not compared, because kfake's state would be another one afterwards: a commit of an empty transaction (see above), deleting offsets,
their group or their topic while they are in an open transaction (takes them out of it, as in Kafka), deleting records of a compacted topic (refused, as by Kafka) or
of an open transaction (the last stable offset is not below the log's start, as in Kafka), records
without a key in one (refused, as by Kafka), zstd before Produce version 7 (refused, as by Kafka), a first sequence that is not 0
(taken where nothing is known of the producer, as by Kafka), an epoch that was never given out (refused, as by Kafka), an
InitProducerId with an epoch that was replaced (refused with PRODUCER_FENCED, as by Kafka, but for the repetition of a request that was
answered; kfake takes every earlier epoch), and how far an epoch rises when a new claim ends a transaction (by two, as in Kafka).
`)
	return b.String()
}

// Every difference that the test allows is explained to users, and the other way round.
func TestDifferencesAreExplained(t *testing.T) {
	told, allowed := map[string]bool{}, map[string]bool{}
	for _, d := range differences {
		told[d[0]] = true
	}
	for _, e := range explained {
		allowed[e.name] = true
		if !told[e.name] {
			t.Errorf("%q is allowed and not explained", e.name)
		}
	}
	for name := range told {
		if !allowed[name] {
			t.Errorf("%q is explained and does not happen", name)
		}
	}
}
