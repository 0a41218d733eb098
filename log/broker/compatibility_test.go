package broker

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"sort"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

// TestCompatibilityPage keeps docs/compatibility.md in step with what is served: -update rewrites it.
func TestCompatibilityPage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`# Compatibility

## Kafka APIs

Rowtrail answers these APIs of the Kafka protocol in these versions, and advertises nothing else. Produce is advertised
from version 0, because older librdkafka takes features from it, and answered from version 3 on. Which clients judge that, in
which versions, is in [clients.md](clients.md).

| key | API | versions |
| --- | --- | --- |
`)
	apis := slices.Concat(dataAPIs(), groupAPIs(), txnAPIs(), securityAPIs())
	sort.Slice(apis, func(i, j int) bool { return apis[i].key < apis[j].key })
	for _, a := range apis {
		fmt.Fprintf(&b, "| %d | %s | %d-%d |\n", a.key, kmsg.NameForKey(a.key), a.min, a.max)
	}
	b.WriteString(`
An API or version that is not in the table closes the connection with one line in the node's log; for ApiVersions the
answer is error 35 with the supported range. Fetch sessions (KIP-227) are declined, as by a Kafka broker
whose cache of sessions is full: the answer's session id is 0, so the client's next request names all its partitions again. Clients
are made for that: Java's FetchSessionHandler begins anew with each answer of session id 0, and librdkafka asks for no session.
A session id that was never given out is answered with FETCH_SESSION_ID_NOT_FOUND.

One request may name 100,000 things (topics, partitions, groups, ...) and ask for 10,000 new partitions; what names more is refused at each
of them, with INVALID_REQUEST, or POLICY_VIOLATION where it creates. A request for metadata creates at most 100 topics, which count against
controller_mutation_rate; the others are LEADER_NOT_AVAILABLE until it is asked again.

On a full disk (node.min_free_bytes) Produce is answered with KAFKA_STORAGE_ERROR, and what coordinators have to write (InitProducerId,
AddPartitionsToTxn, EndTxn, OffsetCommit, JoinGroup) with COORDINATOR_NOT_AVAILABLE, which clients try again. The node's log says why once:
"appends are refused until there is space", "coordinator cannot write" and "no producer id to give out".

Clients log in by SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512) and connect over TLS where the node's file says so
([security.md](security.md)). There are no ACLs: requests about them are answered SECURITY_DISABLED, as by Kafka without an
authorizer. Of client quotas producer_byte_rate, consumer_byte_rate, controller_mutation_rate and request_percentage (100 is one core's time; see
security.md for what is counted) are kept, for users and client ids; connection_creation_rate and quotas of an ip are refused by name.

The finalized features are group.version 1 and transaction.version 2.

A member of a classic group whose connection ends while it waits in JoinGroup or SyncGroup no longer counts as joined: its session begins
then, where Kafka takes it into the generation and may have it lead.

Groups speak the classic protocol or the consumer protocol (KIP-848; group.protocol=consumer in Java 4, ServerSideBalancer in
franz-go), with the assignors uniform, the default, and range; racks are not regarded. A regular expression (RE2) must match a
topic's whole name and matches no internal topic. A new topic, new partitions or a deletion reach a member with its next heartbeat.
A group changes from one protocol to the other when it has no members, and keeps its offsets; there is no migration of a running one, as
with Kafka's group.consumer.migration.policy=disabled: to a group of the classic protocol that has members a consumer's
heartbeat is answered with GROUP_ID_NOT_FOUND, and to a consumer group that has members a JoinGroup with
INCONSISTENT_GROUP_PROTOCOL. A commit under an earlier epoch counts for partitions that the member had then and has still
(KIP-1251).
The session timeout and heartbeat interval of consumer groups are the node's (group.consumer.session.timeout.ms,
group.consumer.heartbeat.interval.ms in its file) until consumer.session.timeout.ms and consumer.heartbeat.interval.ms are set for a
group (kafka-configs --entity-type groups), from 1 s and 1 ms to a day, the first above the second. They hold from a member's next
heartbeat on. Settings of share and streams groups are refused by name.

Any node of a cluster answers for all of it: metadata names the nodes that are alive, and operations on topics, users and quotas may be sent to
whichever; the controller that is named is the leader of the catalogue's log. A leader epoch is a Raft term. acks=all is answered when a majority has the batch on disk and
so have min.insync.replicas; with fewer replicas in sync it is NOT_ENOUGH_REPLICAS, before anything is appended. A Produce that is not settled within its timeout is
REQUEST_TIMED_OUT, and what becomes of it is not known. There is no unclean election: ElectLeaders of that kind is answered with ELIGIBLE_LEADERS_NOT_AVAILABLE.
A consumer that says its rack is sent to a replica in sync there (KIP-392); any replica serves Fetch from version 11 on, up to its own high
watermark. One that has not come as far as the client waits for as long as the request allows, and then answers OFFSET_NOT_AVAILABLE.
Where a partition's leader and a majority of its replicas have ended, or were not heard of for six seconds, metadata names a replica that is there: what is
committed can be read there from any offset, and from the earliest one; Produce, and ListOffsets of the end or of a time, are answered with
NOT_LEADER_OR_FOLLOWER until a majority is back.
A coordinator that other nodes could have replaced asks a quorum before it answers OffsetFetch, and before it vouches for a transaction. DescribeQuorum
knows the offsets of other nodes by estimate, and only on the controller.

With transaction.version 2, a producer that knows it (KIP-890: Java 4, franz-go) raises its epoch with
every transaction and adds partitions by writing to them; others keep to KIP-98's flow, on the same nodes and under the same
transactional id. A transactional batch is appended only while its partition is part of its producer's open transaction,
whatever the client's version. Unlike Kafka, a request that finds the last transaction being completed waits for that before
it is told CONCURRENT_TRANSACTIONS, and an empty transaction may be committed as well as aborted.

## Topic settings

| setting | default | what it means |
| --- | --- | --- |
`)
	for _, p := range topicconfig.All() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.Name, p.Default, p.Doc)
	}
	b.WriteString(differencesTable())
	const page = "../../docs/compatibility.md"
	if *update {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is not what the broker serves; run go test ./log/broker -run %s -update", page, t.Name())
	}
}

var update = flag.Bool("update", false, "rewrite generated files")
