package rowtrail.conformance;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Assertions;

/** The broker under judgement: where it is, what it advertises, and clients of it with short timeouts. */
final class Broker {
    static final Duration POLL = Duration.ofMillis(200);
    static final Duration PATIENCE = Duration.ofSeconds(30);

    private static final AtomicInteger NAMES = new AtomicInteger();

    private Broker() {}

    static String bootstrap() {
        return System.getProperty("bootstrap");
    }

    /** A name no other test and no earlier run against the same data directory uses. */
    static String unique(String prefix) {
        return prefix + "-" + ProcessHandle.current().pid() + "-" + NAMES.incrementAndGet();
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap(), "request.timeout.ms", 20_000, "default.api.timeout.ms", 30_000));
    }

    /** Creates a topic of a fresh name. */
    static String topic(int partitions, Map<String, String> configs) throws Exception {
        String name = unique("topic");
        try (Admin admin = admin()) {
            await(admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all());
        }
        return name;
    }

    /** For records with made-up timestamps, which age would delete. */
    static final Map<String, String> KEPT = Map.of("retention.ms", "-1");

    static String topic(int partitions) throws Exception {
        return topic(partitions, Map.of());
    }

    static KafkaProducer<String, String> producer(Map<String, Object> overrides) {
        Map<String, Object> props = new HashMap<>(Map.of("bootstrap.servers", bootstrap(), "delivery.timeout.ms", 30_000,
                "request.timeout.ms", 15_000, "max.block.ms", 30_000, "linger.ms", 5));
        props.putAll(overrides);
        return new KafkaProducer<>(props, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> overrides) {
        Map<String, Object> props = new HashMap<>(Map.of("bootstrap.servers", bootstrap(), "auto.offset.reset", "earliest",
                "enable.auto.commit", false, "default.api.timeout.ms", 30_000));
        props.putAll(overrides);
        return new KafkaConsumer<>(props, new StringDeserializer(), new StringDeserializer());
    }

    /** Sends count records to partition 0, keys k0.. and values v0.., and waits for all. */
    static void fill(String topic, int count) throws Exception {
        try (var producer = producer(Map.of())) {
            List<Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, "k" + i, "v" + i)));
            }
            for (Future<?> f : sent) {
                await(f);
            }
        }
    }

    /** Polls until count records are here, and fails when they do not come or when more than count come. */
    static <K, V> List<ConsumerRecord<K, V>> take(Consumer<K, V> consumer, int count) {
        List<ConsumerRecord<K, V>> records = new ArrayList<>();
        eventually("only " + count + " records expected", () -> {
            consumer.poll(POLL).forEach(records::add);
            return records.size() >= count;
        });
        Assertions.assertEquals(count, records.size(), "records polled");
        return records;
    }

    static <T> T await(Future<T> future) throws Exception {
        return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    /** The exception a call of the broker ends with. */
    static Throwable failure(Future<?> future) {
        return Assertions.assertThrows(ExecutionException.class, () -> await(future)).getCause();
    }

    static void eventually(String what, BooleanSupplier condition) {
        eventually(what, PATIENCE, condition);
    }

    private static void eventually(String what, Duration patience, BooleanSupplier condition) {
        long deadline = System.nanoTime() + patience.toNanos();
        while (!condition.getAsBoolean()) {
            Assertions.assertTrue(System.nanoTime() < deadline, what + " did not happen in " + patience);
        }
    }

    /** As eventually, for conditions that ask the broker; an exception fails the test. */
    static void eventuallyAsking(String what, Callable<Boolean> condition) {
        eventuallyAsking(what, PATIENCE, condition);
    }

    static void eventuallyAsking(String what, Duration patience, Callable<Boolean> condition) {
        eventually(what, patience, () -> {
            try {
                TimeUnit.MILLISECONDS.sleep(50); // between two questions, not a wait for an effect
                return condition.call();
            } catch (Exception e) {
                throw new AssertionError(what, e);
            }
        });
    }
}
