"""Transactions: isolation, fencing, offsets, and a loop of consume, transform and produce that is killed."""

import os
import signal
import subprocess
import sys

from confluent_kafka import KafkaException, TopicPartition

from judge import BOOTSTRAP, DEADLINE, consumer, equal, produce, producer, read_all, run, test, topic, unique, until

LOOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loop.py")


def transactional(name=None):
    p = producer(transactional_id=name or unique("tx"))
    p.init_transactions(DEADLINE)
    return p


def values(made, partitions=1, isolation="read_committed"):
    return [m.value() for m in read_all(made, partitions, isolation_level=isolation)]


def committed(made, want):
    """Waits for what readers of committed records see: a commit is answered before its markers are in all partitions."""
    until(f"committed records {want!r}", lambda: values(made) == want)


@test
def aborted_records_are_seen_by_read_uncommitted_only():
    made = topic()
    p = transactional()
    for i, end in enumerate([p.commit_transaction, p.abort_transaction] * 3):
        p.begin_transaction()
        for n in range(20):
            p.produce(made, b"%d-%d" % (i, n))
        p.flush(DEADLINE)
        end(DEADLINE)
    committed(made, [b"%d-%d" % (i, n) for i in (0, 2, 4) for n in range(20)])
    equal(len(values(made, isolation="read_uncommitted")), 120)


@test
def an_open_transaction_holds_readers_of_committed_records():
    made = topic()
    p = transactional()
    p.begin_transaction()
    p.produce(made, b"open")
    p.flush(DEADLINE)
    produce(made, [(None, b"plain")])
    equal(values(made), [])
    equal(values(made, isolation="read_uncommitted"), [b"open", b"plain"])
    p.commit_transaction(DEADLINE)
    committed(made, [b"open", b"plain"])


@test
def a_replaced_producer_is_fenced():
    made, name = topic(), unique("tx")
    old = transactional(name)
    old.begin_transaction()
    old.produce(made, b"old")
    old.flush(DEADLINE)
    new = transactional(name)
    try:
        old.commit_transaction(DEADLINE)
        raise AssertionError("a fenced producer committed")
    except KafkaException as e:
        equal(e.args[0].fatal(), True, str(e))
        equal("FENCED" in e.args[0].name() or "INVALID_PRODUCER_EPOCH" in e.args[0].name(), True, str(e))
    new.begin_transaction()
    new.produce(made, b"new")
    new.commit_transaction(DEADLINE)
    committed(made, [b"new"])


@test
def a_timeout_above_the_limit_is_refused():
    p = producer(transactional_id=unique("tx"), transaction_timeout_ms=2_000_000_000)
    try:
        p.init_transactions(DEADLINE)
        raise AssertionError("a transaction timeout of 23 days was accepted")
    except KafkaException as e:
        equal(e.args[0].name(), "INVALID_TRANSACTION_TIMEOUT")


@test
def offsets_go_with_the_transaction():
    source, target, group = topic(), topic(), unique("group")
    produce(source, [(None, b"%d" % i) for i in range(10)])
    c = consumer(group, isolation_level="read_committed")
    p = transactional()
    c.subscribe([source])
    until("a record", lambda: c.poll(0.2))
    for offset, end in [(4, p.abort_transaction), (7, p.commit_transaction)]:
        p.begin_transaction()
        p.produce(target, b"%d" % offset)
        p.send_offsets_to_transaction([TopicPartition(source, 0, offset)], c.consumer_group_metadata(), DEADLINE)
        end(DEADLINE)
        want = 7 if offset == 7 else -1001
        until(f"offset {want}", lambda: c.committed([TopicPartition(source, 0)], DEADLINE)[0].offset == want)
    committed(target, [b"7"])
    c.close()


@test
def offsets_of_a_member_that_is_gone_are_refused():
    source, group = topic(), unique("group")
    produce(source, [(None, b"x")])
    c = consumer(group)
    c.subscribe([source])
    until("a record", lambda: c.poll(0.2))
    metadata = c.consumer_group_metadata()
    c.close()
    p = transactional()
    p.begin_transaction()
    try:
        p.send_offsets_to_transaction([TopicPartition(source, 0, 1)], metadata, DEADLINE)
        raise AssertionError("offsets of a member that left were taken")
    except KafkaException as e:
        equal(e.args[0].name() in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"), True, str(e))
        equal(e.args[0].txn_requires_abort(), True)
    p.abort_transaction(DEADLINE)


@test
def a_killed_loop_is_exactly_once():
    source, target, group, name = topic(3), topic(3), unique("group"), unique("tx")
    total, kills = 3000, 4
    produce(source, [(b"%d" % i, b"%d" % i) for i in range(total)], linger_ms=10)

    def start():
        return subprocess.Popen(
            [sys.executable, LOOP, BOOTSTRAP, source, target, group, name], stdout=subprocess.PIPE, text=True)

    for kill in range(kills):
        loop = start()
        # One line per commit: the kill comes in the middle of a transaction behind some of them.
        for _ in range(2 + kill):
            equal(loop.stdout.readline().strip(), "committed")
        loop.send_signal(signal.SIGKILL)
        loop.wait()
    loop = start()
    until("the last record", lambda: len(values(target, 3)) >= total)
    loop.terminate()
    loop.wait()
    equal(sorted(int(v) for v in values(target, 3)), [2 * i for i in range(total)])


run()
