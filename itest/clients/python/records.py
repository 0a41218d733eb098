"""Records: codecs, headers, nulls, limits, times, compacted topics."""

import time

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from judge import DEADLINE, admin, consumer, equal, pairs, produce, producer, read_all, run, test, topic, unique, until


def codec(name):
    def check():
        made = topic(2)
        records = [(b"k%d" % i, b"value %d " % i * 20) for i in range(500)]
        produce(made, records, compression_type=name, linger_ms=20, batch_num_messages=100)
        equal(sorted(pairs(read_all(made, 2))), sorted(records), name)

    check.__name__ = f"codec_{name}"
    test(check)


for each in ["none", "gzip", "snappy", "lz4", "zstd"]:
    codec(each)


@test
def idempotent_records_keep_their_order():
    made = topic()
    records = [(None, b"%d" % i) for i in range(3000)]
    offsets = produce(made, records, enable_idempotence=True, linger_ms=1)
    equal(sorted(offsets), [(0, i) for i in range(3000)])
    equal(pairs(read_all(made)), records)


@test
def acknowledgements():
    for acks in [0, 1, "all"]:
        made = topic()
        produce(made, [(None, b"x")] * 10, acks=acks)
        # Nothing tells when a record that asked for no acknowledgement is there.
        until(f"records of acks={acks}", lambda: len(read_all(made)) == 10)


@test
def headers_nulls_and_times():
    made = topic()
    p = producer()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("\u00fc", b"\x00\xff")]
    p.produce(made, None, b"deleted", headers=headers, timestamp=1700000000123)
    p.produce(made, b"", b"")
    p.produce(made, b"no key", None)
    equal(p.flush(DEADLINE), 0)
    got = read_all(made)
    equal(pairs(got), [(b"deleted", None), (b"", b""), (None, b"no key")])
    equal(got[0].headers(), headers)
    equal(got[0].timestamp(), (1, 1700000000123))
    equal(got[1].headers(), None)


@test
def time_of_the_append():
    made = topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) - 1000
    p = producer()
    p.produce(made, b"x", timestamp=1)
    equal(p.flush(DEADLINE), 0)
    kind, at = read_all(made)[0].timestamp()
    equal(kind, 2)
    equal(before <= at <= before + 120_000, True, f"time {at}")


@test
def a_record_too_large_for_its_topic_is_refused():
    made = topic(max_message_bytes=2000)
    errors = []
    p = producer(message_max_bytes=1000000)
    p.produce(made, b"x" * 5000, on_delivery=lambda error, _: errors.append(error.name() if error else None))
    p.flush(DEADLINE)
    equal(errors, ["MSG_SIZE_TOO_LARGE"])
    produce(made, [(None, b"x" * 1000)])
    equal(len(read_all(made)), 1)


@test
def large_records():
    made = topic(max_message_bytes=8 << 20)
    value = bytes(range(256)) * 4096 * 4
    produce(made, [(None, value)] * 2, message_max_bytes=8 << 20)
    equal([m.value() == value for m in read_all(made, fetch_message_max_bytes=1 << 20)], [True, True])


@test
def times_and_watermarks_find_offsets():
    made = topic()
    p = producer()
    for i in range(10):
        p.produce(made, b"%d" % i, timestamp=1700000000000 + i * 1000)
    equal(p.flush(DEADLINE), 0)
    c = consumer()
    equal(c.get_watermark_offsets(TopicPartition(made, 0), DEADLINE), (0, 10))
    found = c.offsets_for_times([TopicPartition(made, 0, 1700000003500)], DEADLINE)
    equal(found[0].offset, 4)
    found = c.offsets_for_times([TopicPartition(made, 0, 1800000000000)], DEADLINE)
    equal(found[0].offset, OFFSET_END)
    c.assign([TopicPartition(made, 0, 0)])
    until("a record", lambda: c.poll(0.2))
    c.seek(TopicPartition(made, 0, 7))
    equal(until("the record of the seek", lambda: (m := c.poll(0.2)) and m.offset() == 7 and m.value()), b"7")
    c.close()


@test
def an_unknown_topic_is_an_error():
    c = consumer(allow_auto_create_topics=False)
    c.subscribe([unique("absent")])
    error = until("an error", lambda: (m := c.poll(0.2)) and m.error())
    equal(error.name(), "UNKNOWN_TOPIC_OR_PART")
    c.close()


@test
def compacted_topics_keep_the_last_value():
    made = topic(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=100, segment_bytes=4096, delete_retention_ms=0,
    )
    last = {}
    for round in range(20):
        records = [(b"k%d" % i, b"%d of round %d" % (i, round)) for i in range(50)]
        produce(made, records)
        last.update(records)
    produce(made, [(b"k0", None)])
    del last[b"k0"]

    def compacted():
        produce(made, [(b"clock", b"%d" % time.time_ns())])
        return len(read_all(made)) < 500

    until("compaction", compacted)
    got = read_all(made)
    offsets = [m.offset() for m in got]
    equal(offsets, sorted(set(offsets)), "offsets")
    seen = {}
    for m in got:
        seen[m.key()] = m.value()
    equal({k: v for k, v in seen.items() if k != b"clock" and v is not None}, last)


@test
def a_compacted_topic_takes_no_record_without_a_key():
    made = topic(cleanup_policy="compact")
    errors = []
    p = producer()
    p.produce(made, b"x", on_delivery=lambda error, _: errors.append(error.name() if error else None))
    p.flush(DEADLINE)
    equal(errors, ["INVALID_RECORD"])


@test
def deleted_records_are_out_of_range():
    made = topic()
    produce(made, [(None, b"%d" % i) for i in range(10)])
    for future in admin().delete_records([TopicPartition(made, 0, 6)]).values():
        equal(future.result(DEADLINE).low_watermark, 6)
    c = consumer(auto_offset_reset="error")
    c.assign([TopicPartition(made, 0, 2)])
    error = until("an error", lambda: (m := c.poll(0.2)) and m.error())
    equal(error.name(), "_AUTO_OFFSET_RESET")
    c.close()
    try:
        for future in admin().delete_records([TopicPartition(made, 0, 99)]).values():
            future.result(DEADLINE)
        raise AssertionError("records behind the end were deleted")
    except KafkaException as e:
        equal(e.args[0].name(), "OFFSET_OUT_OF_RANGE")


run()
