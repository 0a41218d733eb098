package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** What a reader of a compacted topic relies on, before, while and after old records go. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(180)
public class CompactionTest {
    private static final int KEYS = 100;
    private static final int DELETED = 10; // the highest of the keys
    /** The keys, "tick", and what is younger than the last round. */
    private static final int COMPACTED = KEYS + 60;

    /** As soon as the broker can. */
    private static final Map<String, String> SETTINGS = Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
            "segment.ms", "100", "delete.retention.ms", "100", "max.compaction.lag.ms", "500");

    /** A broker looks for work every so often, and drops a tombstone in the round after the one that finds it. */
    private static final Duration ROUNDS = Duration.ofSeconds(90);

    private record Written(String key, String value) {}

    private final Map<Long, Written> written = new HashMap<>();
    private final Map<String, Written> last = new HashMap<>();
    private TopicPartition partition;

    @BeforeEach
    void makeTopic() throws Exception {
        partition = new TopicPartition(Broker.topic(1, SETTINGS), 0);
    }

    private void write(KafkaProducer<String, String> producer, List<Written> records, boolean committed) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Written w : records) {
            sent.add(producer.send(new ProducerRecord<>(partition.topic(), 0, w.key, w.value)));
        }
        for (int i = 0; i < sent.size(); i++) {
            long offset = Broker.await(sent.get(i)).offset();
            if (committed) {
                written.put(offset, records.get(i));
                last.put(records.get(i).key, records.get(i));
            }
        }
    }

    private static List<Written> updates(String round, int count) {
        List<Written> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(new Written("k" + i * 7 % KEYS, round + "." + i + " " + "x".repeat(i % 90)));
        }
        return records;
    }

    /**
     * Reads from the start to the end and checks that what is left is what was written at its offset, that the last
     * record of every key is there, and that the position reaches the end.
     */
    private List<ConsumerRecord<String, String>> readAll(String isolation) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        try (var consumer = Broker.consumer(Map.of("isolation.level", isolation, "check.crcs", true))) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            Broker.eventually("position " + end, () -> {
                consumer.poll(Broker.POLL).forEach(records::add);
                return consumer.position(partition) >= end;
            });
        }
        long before = -1;
        Map<String, String> left = new HashMap<>();
        for (var r : records) {
            assertTrue(r.offset() > before, "offset " + r.offset() + " after " + before);
            before = r.offset();
            Written w = written.get(r.offset());
            if (w == null && isolation.equals("read_uncommitted")) {
                continue; // of an aborted transaction
            }
            assertNotNull(w, "an aborted record at offset " + r.offset());
            assertEquals(w, new Written(r.key(), r.value()), "offset " + r.offset());
            left.put(r.key(), r.value());
        }
        last.forEach((key, w) -> assertEquals(w.value, left.get(key), "last value of " + key));
        return records;
    }

    /** Waits for compaction. Ticks keep the log moving, as time alone closes no segment in Kafka. */
    private void awaitCompaction(String what, java.util.function.Predicate<List<ConsumerRecord<String, String>>> done)
            throws Exception {
        try (var producer = Broker.producer(Map.of())) {
            Broker.eventuallyAsking(what, ROUNDS, () -> {
                write(producer, List.of(new Written("tick", what)), true);
                return done.test(readAll("read_committed"));
            });
        }
    }

    @Test
    void lastValuesAndOffsetsStayAndTheEndIsReached() throws Exception {
        try (var producer = Broker.producer(Map.of("compression.type", "lz4", "batch.size", 4_000))) {
            write(producer, updates("a", 3_000), true);
            readAll("read_committed");
            awaitCompaction("the first round", records -> records.size() <= COMPACTED);
            write(producer, updates("b", 1_000), true);
        }
        awaitCompaction("the second round", records -> records.size() <= COMPACTED);
        try (var consumer = Broker.consumer(Map.of())) {
            assertEquals(0, consumer.beginningOffsets(List.of(partition)).get(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            assertEquals(written.keySet().stream().mapToLong(o -> o).max().orElseThrow() + 1, end);
            // An offset whose record is gone leads to the next one that is left.
            consumer.assign(List.of(partition));
            consumer.seek(partition, 5);
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            Broker.eventually("a record behind offset 5", () -> {
                consumer.poll(Broker.POLL).forEach(records::add);
                return !records.isEmpty();
            });
            assertTrue(records.get(0).offset() > 5);
            var found = consumer.offsetsForTimes(Map.of(partition, 1L)).get(partition);
            assertNotNull(found);
            assertTrue(found.offset() <= records.get(0).offset(), "offset of a time before all: " + found);
        }
    }

    @Test
    void tombstonesEndAKeyAndThenGo() throws Exception {
        List<Written> tombstones = new ArrayList<>();
        for (int i = KEYS - DELETED; i < KEYS; i++) {
            tombstones.add(new Written("k" + i, null));
        }
        try (var producer = Broker.producer(Map.of())) {
            write(producer, updates("a", 1_000), true);
            write(producer, tombstones, true);
        }
        awaitCompaction("the end of the tombstones", records -> records.size() <= COMPACTED
                && records.stream().map(ConsumerRecord::value).allMatch(Objects::nonNull));
        List<ConsumerRecord<String, String>> left = readAll("read_committed");
        tombstones.forEach(t -> assertTrue(left.stream().noneMatch(r -> r.key().equals(t.key)), t.key + " came back"));
        assertEquals(KEYS - DELETED, left.stream().map(ConsumerRecord::key).filter(k -> !k.equals("tick")).distinct().count());
    }

    @Test
    void abortedRecordsNeverWinAndCommittedOnesDo() throws Exception {
        try (var producer = Broker.producer(Map.of("transactional.id", Broker.unique("txn")))) {
            producer.initTransactions();
            for (int i = 0; i < 10; i++) {
                producer.beginTransaction();
                write(producer, updates("txn" + i, 150), i % 2 == 0);
                if (i % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        readAll("read_committed");
        awaitCompaction("a round over transactions", records -> records.size() <= COMPACTED);
        assertTrue(readAll("read_uncommitted").size() <= COMPACTED, "aborted records are still there");
    }
}
