"""AdminClient: topics, settings, groups and their offsets, offsets of partitions, the cluster."""

from confluent_kafka import (ConsumerGroupTopicPartitions, ConsumerGroupState, IsolationLevel, KafkaException,
                             TopicCollection, TopicPartition)
from confluent_kafka.admin import (AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec,
                                   ResourceType)

from judge import DEADLINE, admin, consumer, equal, produce, producer, run, test, topic, unique, until


def only(futures):
    (future,) = futures.values()
    return future.result(DEADLINE)


def refused(code, call):
    try:
        call()
    except KafkaException as e:
        equal(e.args[0].name(), code)
        return
    raise AssertionError(f"not refused with {code}")


@test
def topics_are_made_described_and_deleted():
    a, name = admin(), unique("admin")
    refused("INVALID_PARTITIONS", lambda: only(a.create_topics([NewTopic(name, 0, 1)])))
    refused("INVALID_REPLICATION_FACTOR", lambda: only(a.create_topics([NewTopic(name, 1, 7)])))
    refused("TOPIC_EXCEPTION", lambda: only(a.create_topics([NewTopic("no/topic", 1, 1)])))
    refused("INVALID_CONFIG", lambda: only(a.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "tidy"})])))
    only(a.create_topics([NewTopic(name, 2, 1)], validate_only=True))
    equal(name in a.list_topics(timeout=DEADLINE).topics, False)
    only(a.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "60000"})]))
    refused("TOPIC_ALREADY_EXISTS", lambda: only(a.create_topics([NewTopic(name, 2, 1)])))
    described = only(a.describe_topics(TopicCollection([name])))
    equal((described.name, len(described.partitions), described.is_internal), (name, 2, False))
    equal([p.leader.id for p in described.partitions], [1, 1])
    only(a.create_partitions([NewPartitions(name, 5)]))
    refused("INVALID_PARTITIONS", lambda: only(a.create_partitions([NewPartitions(name, 3)])))
    equal(len(a.list_topics(name, DEADLINE).topics[name].partitions), 5)
    only(a.delete_topics([name]))
    refused("UNKNOWN_TOPIC_OR_PART", lambda: only(a.delete_topics([name])))
    refused("UNKNOWN_TOPIC_OR_PART", lambda: only(a.describe_topics(TopicCollection([name]))))


@test
def a_topic_made_again_is_empty():
    name = topic()
    produce(name, [(None, b"old")] * 5)
    only(admin().delete_topics([name]))
    only(admin().create_topics([NewTopic(name, 1, 1)]))
    equal(produce(name, [(None, b"new")]), [(0, 0)])


def settings(resource):
    return only(admin().describe_configs([resource]))


@test
def settings_are_altered_one_by_one():
    name = topic(retention_ms=60000)

    def alter(key, operation, value=None):
        entry = ConfigEntry(key, value, incremental_operation=operation)
        only(admin().incremental_alter_configs([ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])]))

    resource = ConfigResource(ResourceType.TOPIC, name)
    alter("max.message.bytes", AlterConfigOpType.SET, "5000")
    got = settings(resource)
    equal((got["max.message.bytes"].value, got["retention.ms"].value), ("5000", "60000"))
    equal((got["max.message.bytes"].is_default, got["segment.bytes"].is_default), (False, True))
    alter("max.message.bytes", AlterConfigOpType.DELETE)
    equal(settings(resource)["max.message.bytes"].value, "1048588")
    alter("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    equal(set(settings(resource)["cleanup.policy"].value.split(",")), {"compact", "delete"})
    alter("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")
    equal(settings(resource)["cleanup.policy"].value, "compact")
    refused("INVALID_CONFIG", lambda: alter("max.message.bytes", AlterConfigOpType.SET, "many"))
    refused("INVALID_CONFIG", lambda: alter("no.such.key", AlterConfigOpType.SET, "1"))


@test
def settings_of_the_broker_and_all_at_once():
    broker = settings(ConfigResource(ResourceType.BROKER, "1"))
    equal(broker["num.partitions"].value, "1")
    name = topic(retention_ms=60000)
    resource = ConfigResource(ResourceType.TOPIC, name, set_config={"max.message.bytes": "7000"})
    only(admin().alter_configs([resource]))
    got = settings(ConfigResource(ResourceType.TOPIC, name))
    equal((got["max.message.bytes"].value, got["retention.ms"].value), ("7000", "-1"), "what is not named is unset")


@test
def offsets_of_partitions_by_every_spec():
    name = topic()
    p = producer()
    for at in [1000, 3000, 2000]:
        p.produce(name, b"x", timestamp=at)
        p.flush(DEADLINE)
    only(admin().delete_records([TopicPartition(name, 0, 1)]))
    partition = TopicPartition(name, 0)
    for spec, want in [(OffsetSpec.earliest(), 1), (OffsetSpec.latest(), 3), (OffsetSpec.for_timestamp(2500), 1),
                       (OffsetSpec.for_timestamp(5000), -1), (OffsetSpec.max_timestamp(), 1)]:
        equal(only(admin().list_offsets({partition: spec})).offset, want, str(spec))
    got = only(admin().list_offsets({partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED))
    equal(got.offset, 3)


@test
def offsets_of_groups_are_listed_altered_and_deleted():
    name, group = topic(2), unique("group")
    produce(name, [(None, b"x")] * 20)
    c = consumer(group)
    c.subscribe([name])
    until("a record", lambda: c.poll(0.2))
    c.commit(offsets=[TopicPartition(name, 0, 3), TopicPartition(name, 1, 4)], asynchronous=False)

    def listed():
        got = only(admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return sorted((p.topic, p.partition, p.offset) for p in got.topic_partitions)

    def alter():
        change = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 1, metadata="by hand")])
        got = only(admin().alter_consumer_group_offsets([change]))
        equal([p.error for p in got.topic_partitions], [None])

    equal(listed(), [(name, 0, 3), (name, 1, 4)])
    change = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 1)])
    try:
        got = only(admin().alter_consumer_group_offsets([change]))
        equal([p.error.name() for p in got.topic_partitions], ["UNKNOWN_MEMBER_ID"])
    except KafkaException as e:
        equal(e.args[0].name(), "UNKNOWN_MEMBER_ID")
    refused("NON_EMPTY_GROUP", lambda: only(admin().delete_consumer_groups([group])))
    listing = admin().list_consumer_groups(states={ConsumerGroupState.STABLE}).result(DEADLINE)
    equal(group in [g.group_id for g in listing.valid], True, "the group among the stable ones")
    c.close()
    alter()
    equal(listed(), [(name, 0, 1), (name, 1, 4)])
    listing = admin().list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(DEADLINE)
    equal(group in [g.group_id for g in listing.valid], True, "the group among the empty ones")
    only(admin().delete_consumer_groups([group]))
    refused("GROUP_ID_NOT_FOUND", lambda: only(admin().delete_consumer_groups([group])))
    equal(listed(), [])


@test
def the_cluster_is_described():
    got = admin().describe_cluster().result(DEADLINE)
    equal([n.id for n in got.nodes], [1])
    equal(got.controller.id, 1)
    equal(admin().list_topics(timeout=DEADLINE).cluster_id, got.cluster_id)


run()
