"""What all tests share: a list of tests, the node's address, and short ways to make and read topics."""

import functools
import os
import sys
import time
import traceback
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ["BOOTSTRAP"]
DEADLINE = 60  # seconds that any one wait may take

tests = []


def test(function):
    """Registers a test."""
    tests.append(function)
    return function


def run():
    failed = 0
    for function in tests:
        name = function.__name__
        try:
            function()
            print(f"pass {name}", flush=True)
        except BaseException:
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"fail {name}", flush=True)
    # Not sys.exit: a consumer that a failed test left open must not keep the process.
    sys.stdout.flush()
    os._exit(1 if failed else 0)


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def until(what, condition):
    """Polls for a condition that other clients bring about."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {DEADLINE}s in vain for {what}")


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


@functools.cache
def admin():
    """One for all: its answers end with it."""
    return AdminClient({"bootstrap.servers": BOOTSTRAP})


def topic(partitions=1, **config):
    name = unique("py")
    config = {key.replace("_", "."): str(value) for key, value in config.items()}
    for future in admin().create_topics([NewTopic(name, partitions, 1, config=config)]).values():
        future.result(DEADLINE)
    return name


def producer(**config):
    return Producer({"bootstrap.servers": BOOTSTRAP, **{k.replace("_", "."): v for k, v in config.items()}})


def consumer(group=None, **config):
    return Consumer({
        "bootstrap.servers": BOOTSTRAP, "group.id": group or unique("group"), "auto.offset.reset": "earliest",
        "enable.auto.commit": False, **{k.replace("_", "."): v for k, v in config.items()},
    })


def produce(name, records, **config):
    """Produces (key, value) pairs and waits until all are acknowledged; the answer is their offsets by partition."""
    offsets, errors = [], []

    def delivered(error, message):
        (errors if error else offsets).append(error or (message.partition(), message.offset()))

    p = producer(**config)
    for key, value in records:
        p.produce(name, value, key, on_delivery=delivered)
        p.poll(0)
    equal(p.flush(DEADLINE), 0, "unsent records")
    equal(errors, [], "errors of delivery")
    return offsets


def read_all(name, partitions=1, **config):
    """Reads a topic to its end, by assignment."""
    c = consumer(enable_partition_eof=True, **config)
    c.assign([TopicPartition(name, p, 0) for p in range(partitions)])
    messages, ended = [], set()
    deadline = time.monotonic() + DEADLINE
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise AssertionError(f"{name}: read {len(messages)} records and no end of {partitions - len(ended)} partitions")
        message = c.poll(0.5)
        if message is None:
            continue
        if message.error():
            if message.error().name() != "_PARTITION_EOF":
                raise AssertionError(message.error())
            ended.add(message.partition())
        else:
            messages.append(message)
    c.close()
    return messages


def pairs(messages):
    return [(m.key(), m.value()) for m in messages]
