package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a producer sends is what a consumer gets, at the offsets the producer was told. */
public class ProduceTest {
    @ParameterizedTest(name = "codec {0}")
    @ValueSource(strings = {"none", "gzip", "snappy", "lz4", "zstd"})
    void everyCodecRoundTrips(String codec) throws Exception {
        String topic = Broker.topic(1);
        int count = 500;
        try (var producer = Broker.producer(Map.of("compression.type", codec, "linger.ms", 50))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "key" + i, "value ".repeat(i % 50) + i)));
            }
            for (int i = 0; i < count; i++) {
                assertEquals(i, Broker.await(sent.get(i)).offset());
            }
        }
        try (var consumer = Broker.consumer(Map.of("check.crcs", true))) {
            TopicPartition p = new TopicPartition(topic, 0);
            consumer.assign(List.of(p));
            var records = Broker.take(consumer, count);
            for (int i = 0; i < count; i++) {
                assertEquals(i, records.get(i).offset());
                assertEquals("key" + i, records.get(i).key());
                assertEquals("value ".repeat(i % 50) + i, records.get(i).value());
            }
        }
    }

    @ParameterizedTest(name = "acks {0}")
    @ValueSource(strings = {"0", "1", "all"})
    void everyAcksIsAnswered(String acks) throws Exception {
        String topic = Broker.topic(1);
        try (var producer = Broker.producer(Map.of("acks", acks, "enable.idempotence", false))) {
            for (int i = 0; i < 20; i++) {
                long offset = Broker.await(producer.send(new ProducerRecord<>(topic, "k", "v" + i))).offset();
                assertEquals(acks.equals("0") ? -1 : i, offset);
            }
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = Broker.take(consumer, 20);
            assertEquals("v19", records.get(19).value());
        }
    }

    @Test
    void headersNullKeysAndNullValuesRoundTrip() throws Exception {
        String topic = Broker.topic(1, Broker.KEPT);
        List<Header> headers = List.of(new RecordHeader("a", "1".getBytes(StandardCharsets.UTF_8)),
                new RecordHeader("a", null), new RecordHeader("empty", new byte[0]));
        try (var producer = Broker.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_123L, null, "no key", headers));
            producer.send(new ProducerRecord<>(topic, 0, "tombstone", null));
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "", "")));
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = Broker.take(consumer, 3);
            var first = records.get(0);
            assertNull(first.key());
            assertEquals("no key", first.value());
            assertEquals(1_700_000_000_123L, first.timestamp());
            Header[] got = first.headers().toArray();
            assertEquals(3, got.length);
            for (int i = 0; i < got.length; i++) {
                assertEquals(headers.get(i).key(), got[i].key());
                assertArrayEquals(headers.get(i).value(), got[i].value());
            }
            assertEquals("tombstone", records.get(1).key());
            assertNull(records.get(1).value());
            assertEquals("", records.get(2).key());
            assertEquals("", records.get(2).value());
            assertTrue(first.leaderEpoch().isPresent());
        }
    }

    @Test
    void idempotentProducerKeepsOrderOverManyRequestsInFlight() throws Exception {
        String topic = Broker.topic(1);
        int count = 5_000;
        Map<String, Object> props = Map.of("enable.idempotence", true, "max.in.flight.requests.per.connection", 5,
                "batch.size", 500, "linger.ms", 0);
        try (var producer = Broker.producer(props)) {
            Future<RecordMetadata> last = null;
            for (int i = 0; i < count; i++) {
                last = producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(i)));
            }
            assertEquals(count - 1, Broker.await(last).offset());
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = Broker.take(consumer, count);
            for (int i = 0; i < count; i++) {
                assertEquals(Integer.toString(i), records.get(i).value());
            }
        }
    }

    @Test
    void recordsUpToTheTopicsLimitAreTakenAndLargerOnesRefused() throws Exception {
        String topic = Broker.topic(1, Map.of("max.message.bytes", "200000"));
        try (var producer = Broker.producer(Map.of("max.request.size", 5_000_000, "buffer.memory", 10_000_000))) {
            String large = "x".repeat(190_000);
            assertEquals(0, Broker.await(producer.send(new ProducerRecord<>(topic, "k", large))).offset());
            assertInstanceOf(RecordTooLargeException.class,
                    Broker.failure(producer.send(new ProducerRecord<>(topic, "k", "y".repeat(300_000)))));
            assertEquals(1, Broker.await(producer.send(new ProducerRecord<>(topic, "k", "small"))).offset());
        }
        // Far below the record's size: the first batch is returned all the same.
        try (var consumer = Broker.consumer(Map.of("max.partition.fetch.bytes", 1_000, "fetch.max.bytes", 1_000))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = Broker.take(consumer, 2);
            assertEquals(190_000, records.get(0).value().length());
            assertEquals("small", records.get(1).value());
        }
    }

    @Test
    void batchesTooLargeTogetherAreSplitByTheProducer() throws Exception {
        String topic = Broker.topic(1, Map.of("max.message.bytes", "10000"));
        try (var producer = Broker.producer(Map.of("batch.size", 100_000, "linger.ms", 200))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 40; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, "k", i + "z".repeat(1_000))));
            }
            for (Future<RecordMetadata> f : sent) {
                Broker.await(f);
            }
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = Broker.take(consumer, 40);
            for (int i = 0; i < 40; i++) {
                assertEquals(i + "z".repeat(1_000), records.get(i).value());
            }
        }
    }

    @Test
    void appendTimeReplacesTheProducersTimestamp() throws Exception {
        String topic = Broker.topic(1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        RecordMetadata sent;
        try (var producer = Broker.producer(Map.of())) {
            sent = Broker.await(producer.send(new ProducerRecord<>(topic, 0, 1_000L, "k", "v")));
        }
        assertTrue(sent.timestamp() >= before, "timestamp " + sent.timestamp() + " of the answer");
        try (var consumer = Broker.consumer(Map.of("check.crcs", true))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            assertEquals(sent.timestamp(), Broker.take(consumer, 1).get(0).timestamp());
        }
    }

    @Test
    void aRecordWithoutAKeyIsRefusedByACompactedTopic() throws Exception {
        String topic = Broker.topic(1, Map.of("cleanup.policy", "compact"));
        try (var producer = Broker.producer(Map.of())) {
            assertInstanceOf(InvalidRecordException.class,
                    Broker.failure(producer.send(new ProducerRecord<>(topic, 0, null, "keyless"))));
            Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "v")));
        }
    }

    @Test
    void defaultPartitionerSpreadsKeysAsTheConsumerFindsThem() throws Exception {
        String topic = Broker.topic(6);
        Map<String, Integer> partitions = new java.util.HashMap<>();
        try (var producer = Broker.producer(Map.of())) {
            for (int i = 0; i < 60; i++) {
                String key = "key" + i;
                partitions.put(key, Broker.await(producer.send(new ProducerRecord<>(topic, key, "v"))).partition());
            }
        }
        assertEquals(6, partitions.values().stream().distinct().count());
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(partitions.values().stream().distinct().map(p -> new TopicPartition(topic, p)).toList());
            for (var record : Broker.take(consumer, 60)) {
                assertEquals(partitions.get(record.key()), record.partition());
            }
        }
    }

    @Test
    void aTopicIsMadeByTheFirstProduce() throws Exception {
        String topic = Broker.unique("auto");
        try (var producer = Broker.producer(Map.of())) {
            assertEquals(0, Broker.await(producer.send(new ProducerRecord<>(topic, "k", "v"))).offset());
        }
    }

    @Test
    void producingToADeletedTopicFailsAndARecreatedOneStartsAtZero() throws Exception {
        String topic = Broker.topic(1);
        try (var producer = Broker.producer(Map.of()); var admin = Broker.admin()) {
            assertEquals(0, Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "v"))).offset());
            Broker.await(admin.deleteTopics(List.of(topic)).all());
            assertInstanceOf(UnknownTopicOrPartitionException.class,
                    Broker.failure(admin.describeTopics(List.of(topic)).allTopicNames()));
            Broker.await(admin.createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(topic, 1, (short) 1))).all());
            assertEquals(0, Broker.await(producer.send(new ProducerRecord<>(topic, 0, "k", "again"))).offset());
        }
        try (var consumer = Broker.consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            assertEquals("again", Broker.take(consumer, 1).get(0).value());
        }
    }
}
