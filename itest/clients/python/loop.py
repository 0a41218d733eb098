"""Reads, doubles and writes in transactions until it is killed; prints a line per commit."""

import sys

from confluent_kafka import Consumer, Producer

bootstrap, source, target, group, name = sys.argv[1:]
reader = Consumer({
    "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    "isolation.level": "read_committed", "session.timeout.ms": 6000,
})
writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 10000})
writer.init_transactions(60)
reader.subscribe([source])
while True:
    messages = reader.consume(100, 0.5)
    if not messages:
        continue
    writer.begin_transaction()
    for message in messages:
        if message.error():
            raise SystemExit(str(message.error()))
        writer.produce(target, b"%d" % (2 * int(message.value())), message.key())
    writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), 60)
    writer.commit_transaction(60)
    print("committed", flush=True)
