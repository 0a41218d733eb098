package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.junit.jupiter.api.Test;

/** Transactions as producers, consumers and operators see them. */
public class TransactionTest {
    private static final Map<String, Object> COMMITTED = Map.of("isolation.level", "read_committed");

    private static KafkaProducer<String, String> transactional(String id) {
        KafkaProducer<String, String> producer = Broker.producer(Map.of("transactional.id", id, "transaction.timeout.ms", 30_000));
        producer.initTransactions();
        return producer;
    }

    @Test
    void abortedRecordsAreReadOnlyUncommitted() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        try (var producer = transactional(Broker.unique("txn"))) {
            for (int i = 0; i < 10; i++) {
                producer.beginTransaction();
                for (int j = 0; j < 5; j++) {
                    producer.send(new ProducerRecord<>(topic, 0, "k", i + "." + j));
                }
                if (i % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
        try (var consumer = Broker.consumer(COMMITTED)) {
            consumer.assign(List.of(p));
            List<String> values = Broker.take(consumer, 25).stream().map(ConsumerRecord::value).toList();
            assertEquals("0.0", values.get(0));
            assertTrue(values.stream().allMatch(v -> (v.charAt(0) - '0') % 2 == 0), values.toString());
            Broker.eventually("position at the end, past the last marker", () -> {
                consumer.poll(Broker.POLL);
                return consumer.position(p) == 60;
            });
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(p));
            Broker.take(consumer, 50);
        }
    }

    @Test
    void anOpenTransactionHoldsCommittedReadersBack() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        Broker.fill(topic, 3);
        try (var producer = transactional(Broker.unique("txn")); var consumer = Broker.consumer(COMMITTED);
                var all = Broker.consumer(Map.of())) {
            producer.beginTransaction();
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "open")));
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "open too")));
            assertEquals(3, consumer.endOffsets(List.of(p)).get(p), "last stable offset");
            assertEquals(5, all.endOffsets(List.of(p)).get(p), "high watermark");
            consumer.assign(List.of(p));
            Broker.take(consumer, 3);
            assertTrue(consumer.poll(Duration.ofMillis(500)).isEmpty());
            producer.commitTransaction();
            assertEquals("open", Broker.take(consumer, 2).get(0).value());
            assertEquals(6, consumer.endOffsets(List.of(p)).get(p));
        }
    }

    @Test
    void offsetsCommitWithTheTransaction() throws Exception {
        String in = Broker.topic(1);
        String out = Broker.topic(1);
        TopicPartition p = new TopicPartition(in, 0);
        Broker.fill(in, 10);
        String group = Broker.unique("group");
        Map<String, Object> props = Map.of("group.id", group, "isolation.level", "read_committed");
        try (var producer = transactional(Broker.unique("txn")); var consumer = Broker.consumer(props)) {
            consumer.subscribe(List.of(in));
            var records = Broker.take(consumer, 10);
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(out, 0, "k", "dropped"));
            producer.sendOffsetsToTransaction(Map.of(p, new OffsetAndMetadata(9)), consumer.groupMetadata());
            producer.abortTransaction();
            assertEquals(null, consumer.committed(Set.of(p)).get(p));
            producer.beginTransaction();
            records.forEach(r -> producer.send(new ProducerRecord<>(out, 0, r.key(), r.value())));
            producer.sendOffsetsToTransaction(Map.of(p, new OffsetAndMetadata(10, "in txn")), consumer.groupMetadata());
            producer.commitTransaction();
            assertEquals(new OffsetAndMetadata(10, "in txn"), consumer.committed(Set.of(p)).get(p));
        }
        try (var consumer = Broker.consumer(COMMITTED)) {
            consumer.assign(List.of(new TopicPartition(out, 0)));
            assertEquals("v0", Broker.take(consumer, 10).get(0).value());
        }
    }

    @Test
    void aSecondInstanceFencesTheFirst() throws Exception {
        String topic = Broker.topic(1);
        String id = Broker.unique("txn");
        try (var first = transactional(id)) {
            first.beginTransaction();
            Broker.await(first.send(new ProducerRecord<>(topic, 0, "k", "zombie")));
            try (var second = transactional(id)) {
                KafkaException e = assertThrows(KafkaException.class, first::commitTransaction);
                assertTrue(isFenced(e), "commit of the fenced instance: " + e);
                second.beginTransaction();
                second.send(new ProducerRecord<>(topic, 0, "k", "heir"));
                second.commitTransaction();
            }
        }
        try (var consumer = Broker.consumer(COMMITTED)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            assertEquals("heir", Broker.take(consumer, 1).get(0).value());
        }
    }

    private static boolean isFenced(Throwable e) {
        return e instanceof ProducerFencedException || e instanceof InvalidProducerEpochException
                || e.getCause() != null && isFenced(e.getCause());
    }

    @Test
    void aTransactionThatIsLeftOpenTimesOut() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        try (var producer = Broker.producer(Map.of("transactional.id", Broker.unique("txn"), "transaction.timeout.ms", 2_000));
                var consumer = Broker.consumer(COMMITTED)) {
            producer.initTransactions();
            producer.beginTransaction();
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "left")));
            assertEquals(0, consumer.endOffsets(List.of(p)).get(p));
            Broker.eventuallyAsking("abort by timeout", () -> consumer.endOffsets(List.of(p)).get(p) == 2);
            KafkaException e = assertThrows(KafkaException.class, producer::commitTransaction);
            // With transactions of version 2 the epoch behind ours may be our own: it is the state that is wrong.
            assertTrue(isFenced(e) || e instanceof InvalidTxnStateException, "commit after the timeout: " + e);
        }
    }

    @Test
    void emptyTransactionsAndReuseWork() throws Exception {
        String topic = Broker.topic(2);
        String id = Broker.unique("txn");
        try (var producer = transactional(id)) {
            for (int i = 0; i < 20; i++) {
                producer.beginTransaction();
                if (i % 3 == 1) {
                    producer.send(new ProducerRecord<>(topic, i % 2, "k", "v" + i));
                }
                if (i % 4 == 3) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        try (var consumer = Broker.consumer(COMMITTED)) {
            consumer.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1)));
            assertEquals(Set.of("v1", "v4", "v10", "v13", "v16"),
                    Set.copyOf(Broker.take(consumer, 5).stream().map(ConsumerRecord::value).toList()));
        }
    }

    @Test
    void operatorsSeeAndAbortTransactions() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        String id = Broker.unique("txn");
        try (var admin = Broker.admin(); var producer = transactional(id); var consumer = Broker.consumer(COMMITTED)) {
            producer.beginTransaction();
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "hanging")));

            var listed = Broker.await(admin.listTransactions().all()).stream()
                    .filter(t -> t.transactionalId().equals(id)).toList();
            assertEquals(1, listed.size());
            assertEquals(TransactionState.ONGOING, listed.get(0).state());

            var described = Broker.await(admin.describeTransactions(List.of(id)).all()).get(id);
            assertEquals(TransactionState.ONGOING, described.state());
            assertEquals(Set.of(p), described.topicPartitions());
            assertEquals(30_000, described.transactionTimeoutMs());

            var producers = Broker.await(admin.describeProducers(List.of(p)).partitionResult(p)).activeProducers();
            assertEquals(1, producers.size());
            var state = producers.get(0);
            assertEquals(described.producerId(), state.producerId());
            assertEquals(described.producerEpoch(), state.producerEpoch());
            assertEquals(0, state.currentTransactionStartOffset().orElse(-1));
            assertEquals(0, state.lastSequence());

            Broker.await(admin.abortTransaction(new AbortTransactionSpec(p, state.producerId(), (short) state.producerEpoch(),
                    state.coordinatorEpoch().orElse(0))).all());
            assertEquals(2, consumer.endOffsets(List.of(p)).get(p));
            assertTrue(Broker.await(admin.describeProducers(List.of(p)).partitionResult(p)).activeProducers().stream()
                    .allMatch(a -> a.currentTransactionStartOffset().isEmpty()));
        }
    }

    @Test
    void fenceProducersEndsTheTransaction() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        String id = Broker.unique("txn");
        try (var admin = Broker.admin(); var producer = transactional(id); var consumer = Broker.consumer(COMMITTED)) {
            producer.beginTransaction();
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "v")));
            var fence = admin.fenceProducers(List.of(id));
            Broker.await(fence.all());
            assertTrue(Broker.await(fence.epochId(id)) > 0);
            KafkaException e = assertThrows(KafkaException.class, producer::commitTransaction);
            assertTrue(isFenced(e), "commit of the fenced producer: " + e);
            Broker.eventuallyAsking("abort marker", () -> consumer.endOffsets(List.of(p)).get(p) == 2);
        }
    }
}
