"""Groups of the classic and of the consumer protocol: members that join and leave, commits, static members."""

import threading

from confluent_kafka import ConsumerGroupState, KafkaException, TopicPartition

from judge import (DEADLINE, admin, consumer, equal, produce, run, test, topic, unique, until)


class Member:
    """A consumer on a thread of its own, which remembers what it has and what it read."""

    def __init__(self, group, made, **config):
        self.assigned, self.lost, self.read, self.stop, self.error = set(), [], [], threading.Event(), None
        self.consumer = consumer(group, **config)
        self.incremental = config.get("partition_assignment_strategy") == "cooperative-sticky" or \
            config.get("group_protocol") == "consumer"
        self.consumer.subscribe([made], on_assign=self.on_assign, on_revoke=self.on_revoke)
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def on_assign(self, _, partitions):
        got = {p.partition for p in partitions}
        self.assigned = self.assigned | got if self.incremental else got

    def on_revoke(self, _, partitions):
        self.lost.extend(p.partition for p in partitions)
        self.assigned -= {p.partition for p in partitions}
        self.commit()

    def commit(self):
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as e:
            if e.args[0].name() != "_NO_OFFSET":  # nothing was read since the last commit
                raise

    def loop(self):
        try:
            while not self.stop.is_set():
                message = self.consumer.poll(0.05)
                if message is None:
                    continue
                if message.error():
                    raise AssertionError(message.error())
                self.read.append(message.value())
            self.commit()
            self.consumer.close()
        except BaseException as e:
            self.error = e

    def leave(self):
        self.stop.set()
        self.thread.join(DEADLINE)
        equal(self.thread.is_alive(), False, "a member that should have left")
        if self.error:
            raise self.error


def join_and_leave(**config):
    made, group = topic(6), unique("group")
    produce(made, [(b"%d" % i, b"a%d" % i) for i in range(120)])
    first = Member(group, made, **config)
    until("all partitions", lambda: len(first.assigned) == 6)
    until("all records", lambda: len(first.read) == 120)
    second = Member(group, made, **config)
    until("halves", lambda: len(first.assigned) == len(second.assigned) == 3 and not first.assigned & second.assigned)
    produce(made, [(b"%d" % i, b"b%d" % i) for i in range(120)])
    until("the second records", lambda: len(set(first.read)) + len(set(second.read)) >= 240)
    lost = set(first.lost)
    first.leave()
    until("partitions of the one that left", lambda: len(second.assigned) == 6)
    produce(made, [(b"%d" % i, b"c%d" % i) for i in range(120)])
    until("the third records", lambda: sum(v[:1] == b"c" for v in second.read) >= 120)
    second.leave()
    want = sorted(b"%c%d" % (c, i) for c in b"abc" for i in range(120))
    equal(sorted(first.read + second.read), want, "records, each read once")
    return lost, second


@test
def range_members_join_and_leave():
    join_and_leave(partition_assignment_strategy="range")


@test
def round_robin_members_join_and_leave():
    join_and_leave(partition_assignment_strategy="roundrobin")


@test
def cooperative_members_give_up_no_more_than_they_must():
    lost, second = join_and_leave(partition_assignment_strategy="cooperative-sticky")
    equal(len(lost), 3, "partitions given up by the first member")
    equal(set(second.lost) <= set(range(6)), True)


@test
def members_of_the_consumer_protocol_join_and_leave():
    lost, _ = join_and_leave(group_protocol="consumer")
    equal(len(lost), 3, "partitions given up by the first member")


@test
def assignors_of_the_consumer_protocol():
    for assignor in ["uniform", "range"]:
        join_and_leave(group_protocol="consumer", group_remote_assignor=assignor)


@test
def a_static_member_keeps_its_partitions_over_a_restart():
    made, group = topic(4), unique("group")
    config = {"session_timeout_ms": 30000}
    first = Member(group, made, group_instance_id="one", **config)
    second = Member(group, made, group_instance_id="two", **config)
    until("halves", lambda: len(first.assigned) == len(second.assigned) == 2)
    had, lost = set(second.assigned), list(first.lost)
    second.leave()
    again = Member(group, made, group_instance_id="two", **config)
    until("the same partitions", lambda: again.assigned == had)
    equal(first.lost, lost, "partitions that the other member lost")
    first.leave()
    again.leave()


@test
def a_static_member_that_was_replaced_is_fenced():
    made, group = topic(), unique("group")
    first = Member(group, made, group_instance_id="one")
    until("an assignment", lambda: first.assigned)
    second = Member(group, made, group_instance_id="one")
    until("the fence", lambda: first.error is not None)
    equal("FENCED_INSTANCE_ID" in str(first.error) or "_FATAL" in str(first.error), True, str(first.error))
    until("its partitions", lambda: second.assigned)
    second.leave()


@test
def commits_keep_their_metadata():
    made, group = topic(2), unique("group")
    produce(made, [(None, b"x")] * 10)
    c = consumer(group)
    c.commit(offsets=[TopicPartition(made, 0, 3, metadata="m\u00e9tadonn\u00e9es"), TopicPartition(made, 1, 1)], asynchronous=False)
    got = c.committed([TopicPartition(made, 0), TopicPartition(made, 1)], DEADLINE)
    equal([(p.offset, p.metadata or "") for p in got], [(3, "m\u00e9tadonn\u00e9es"), (1, "")])
    c.close()


@test
def many_groups_read_the_same_records():
    made = topic(3)
    produce(made, [(None, b"%d" % i) for i in range(60)])
    members = [Member(unique("group"), made) for _ in range(4)]
    for member in members:
        until("all records", lambda: len(member.read) == 60)
        member.leave()
        equal(len(set(member.read)), 60)


@test
def a_pattern_finds_topics_that_appear():
    prefix = unique("pattern")
    group = unique("group")
    c = consumer(group, topic_metadata_refresh_interval_ms=200)
    c.subscribe([f"^{prefix}-.*"])
    c.poll(0.2)
    values = set()
    for i in range(2):
        produce(f"{prefix}-{i}", [(None, b"%d" % i)])
        until("its record", lambda: (m := c.poll(0.2)) and not m.error() and (values.add(m.value()) or b"%d" % i in values))
    equal(values, {b"0", b"1"})
    c.close()


@test
def a_group_is_described_with_its_members():
    made, group = topic(2), unique("group")
    member = Member(group, made, client_id="described")
    until("partitions", lambda: len(member.assigned) == 2)
    described = admin().describe_consumer_groups([group])[group].result(DEADLINE)
    equal(described.state, ConsumerGroupState.STABLE)
    equal([m.client_id for m in described.members], ["described"])
    equal({p.partition for p in described.members[0].assignment.topic_partitions}, {0, 1})
    member.leave()
    described = admin().describe_consumer_groups([group])[group].result(DEADLINE)
    equal(described.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD), True, str(described.state))


run()
