package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Positions: seeking, offsets of times, pausing, committing. */
public class ConsumeTest {
    @Test
    void seekReadsFromThere() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        Broker.fill(topic, 100);
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(p));
            consumer.seek(p, 60);
            var records = Broker.take(consumer, 40);
            assertEquals(60, records.get(0).offset());
            assertEquals(100, consumer.position(p));
            consumer.seekToBeginning(List.of(p));
            assertEquals(0, consumer.position(p));
            consumer.seekToEnd(List.of(p));
            assertEquals(100, consumer.position(p));
            consumer.seek(p, 99);
            assertEquals("v99", Broker.take(consumer, 1).get(0).value());
            assertEquals(0, consumer.currentLag(p).orElse(-1));
        }
    }

    @Test
    void offsetsOfTimesAndEndsAreFound() throws Exception {
        String topic = Broker.topic(2, Broker.KEPT);
        TopicPartition p = new TopicPartition(topic, 0);
        TopicPartition empty = new TopicPartition(topic, 1);
        try (var producer = Broker.producer(Map.of())) {
            for (int i = 0; i < 10; i++) {
                Broker.await(producer.send(new ProducerRecord<>(topic, 0, 10_000L + 100 * i, "k", "v" + i)));
            }
        }
        try (var consumer = Broker.consumer(Map.of())) {
            assertEquals(Map.of(p, 0L, empty, 0L), consumer.beginningOffsets(List.of(p, empty)));
            assertEquals(Map.of(p, 10L, empty, 0L), consumer.endOffsets(List.of(p, empty)));
            var exact = consumer.offsetsForTimes(Map.of(p, 10_300L)).get(p);
            assertEquals(3, exact.offset());
            assertEquals(10_300L, exact.timestamp());
            assertTrue(exact.leaderEpoch().isPresent());
            var between = consumer.offsetsForTimes(Map.of(p, 10_301L)).get(p);
            assertEquals(4, between.offset());
            assertEquals(10_400L, between.timestamp());
            assertNull(consumer.offsetsForTimes(Map.of(p, 99_999L)).get(p));
            assertNull(consumer.offsetsForTimes(Map.of(empty, 0L)).get(empty));
        }
    }

    @Test
    void recordsOfOneBatchAreFoundByTime() throws Exception {
        String topic = Broker.topic(1, Broker.KEPT);
        TopicPartition p = new TopicPartition(topic, 0);
        try (var producer = Broker.producer(Map.of("linger.ms", 500, "compression.type", "zstd"))) {
            for (int i = 0; i < 50; i++) {
                producer.send(new ProducerRecord<>(topic, 0, 50_000L + i, "k", "v" + i));
            }
        }
        try (var consumer = Broker.consumer(Map.of())) {
            var found = consumer.offsetsForTimes(Map.of(p, 50_031L)).get(p);
            assertEquals(31, found.offset());
            assertEquals(50_031L, found.timestamp());
        }
    }

    @Test
    void aPausedPartitionIsNotDelivered() throws Exception {
        String topic = Broker.topic(2);
        TopicPartition p0 = new TopicPartition(topic, 0);
        TopicPartition p1 = new TopicPartition(topic, 1);
        try (var producer = Broker.producer(Map.of())) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(topic, 0, "k", "paused" + i));
                producer.send(new ProducerRecord<>(topic, 1, "k", "flowing" + i));
            }
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(p0, p1));
            consumer.pause(List.of(p0));
            Broker.take(consumer, 10).forEach(r -> assertEquals(1, r.partition()));
            assertEquals(Set.of(p0), consumer.paused());
            consumer.resume(List.of(p0));
            Broker.take(consumer, 10).forEach(r -> assertEquals(0, r.partition()));
        }
    }

    @Test
    void commitsWithMetadataAreThereForTheNextConsumer() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        Broker.fill(topic, 10);
        Map<String, Object> group = Map.of("group.id", Broker.unique("group"));
        try (var consumer = Broker.consumer(group)) {
            consumer.assign(List.of(p));
            assertNull(consumer.committed(Set.of(p)).get(p));
            int epoch = Broker.take(consumer, 10).get(0).leaderEpoch().orElseThrow();
            OffsetAndMetadata sync = new OffsetAndMetadata(4, java.util.Optional.of(epoch), "by sync é");
            consumer.commitSync(Map.of(p, sync));
            assertEquals(sync, consumer.committed(Set.of(p)).get(p));
            AtomicReference<Exception> failed = new AtomicReference<>();
            List<Map<TopicPartition, OffsetAndMetadata>> done = new ArrayList<>();
            consumer.commitAsync(Map.of(p, new OffsetAndMetadata(7, "by async")), (offsets, e) -> {
                failed.set(e);
                done.add(offsets);
            });
            Broker.eventually("commitAsync", () -> {
                consumer.poll(Broker.POLL);
                return !done.isEmpty();
            });
            assertNull(failed.get());
            assertEquals("by async", consumer.committed(Set.of(p)).get(p).metadata());
        }
        try (var consumer = Broker.consumer(group)) {
            consumer.assign(List.of(p));
            assertEquals(7, Broker.take(consumer, 3).get(0).offset());
        }
    }

    @Test
    void withoutResetAndCommitThereIsNoPosition() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        Broker.fill(topic, 5);
        try (var consumer = Broker.consumer(Map.of("auto.offset.reset", "none", "group.id", Broker.unique("group")))) {
            consumer.assign(List.of(p));
            assertThrows(NoOffsetForPartitionException.class, () -> consumer.poll(Duration.ofSeconds(20)));
            consumer.seek(p, 50);
            assertThrows(OffsetOutOfRangeException.class, () -> Broker.take(consumer, 1));
        }
        try (var consumer = Broker.consumer(Map.of("auto.offset.reset", "earliest"))) {
            consumer.assign(List.of(p));
            consumer.seek(p, 50);
            assertEquals(0, Broker.take(consumer, 5).get(0).offset());
        }
        try (var consumer = Broker.consumer(Map.of("auto.offset.reset", "by_duration:PT1H"))) {
            consumer.assign(List.of(p));
            assertEquals(0, Broker.take(consumer, 5).get(0).offset());
        }
    }

    @Test
    void aFetchWaitsForTheFirstRecord() throws Exception {
        String topic = Broker.topic(1);
        try (var consumer = Broker.consumer(Map.of("fetch.max.wait.ms", 20_000));
                var producer = Broker.producer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            assertTrue(consumer.poll(Duration.ofMillis(500)).isEmpty());
            long start = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, 0, "k", "woken"));
            assertEquals("woken", Broker.take(consumer, 1).get(0).value());
            assertTrue(System.nanoTime() - start < 10_000_000_000L, "the fetch sat out its wait");
        }
    }

    @Test
    void partitionsAndTopicsAreListed() throws Exception {
        String topic = Broker.topic(3);
        try (var consumer = Broker.consumer(Map.of())) {
            assertEquals(3, consumer.partitionsFor(topic).size());
            assertEquals(3, consumer.listTopics().get(topic).size());
        }
    }
}
