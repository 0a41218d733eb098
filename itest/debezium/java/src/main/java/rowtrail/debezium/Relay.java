package rowtrail.debezium;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.JsonByteArray;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs Debezium's embedded engine, and writes its events to Kafka, as Kafka Connect does: a record is sent without waiting for the one
 * before, and one that fails ends all. The first line of standard input is the JSON object of the properties; those that begin
 * with "producer." are the producer's. The end of standard input ends the engine.
 */
public final class Relay {
    private static final String PRODUCER = "producer.";
    private static final int CLOSE_SECONDS = 30;

    private Relay() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, String> given = new ObjectMapper().readValue(in.readLine(), new TypeReference<Map<String, String>>() {});
        Properties engineProps = new Properties();
        Properties producerProps = new Properties();
        given.forEach((key, value) -> {
            if (key.startsWith(PRODUCER)) {
                producerProps.put(key.substring(PRODUCER.length()), value);
            } else {
                engineProps.put(key, value);
            }
        });
        AtomicReference<Throwable> failed = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(producerProps, new ByteArraySerializer(), new ByteArraySerializer())) {
            DebeziumEngine<ChangeEvent<byte[], byte[]>> engine = DebeziumEngine.create(JsonByteArray.class)
                    .using(engineProps)
                    .using((success, message, failure) -> {
                        if (!success) {
                            System.err.println(message);
                            if (failure != null) {
                                failure.printStackTrace();
                            }
                            System.exit(1);
                        }
                    })
                    .notifying((records, committer) -> relay(records, committer, producer, failed))
                    .build();
            ExecutorService executor = Executors.newSingleThreadExecutor();
            executor.execute(engine);
            while (in.readLine() != null) {
                continue;
            }
            engine.close();
            executor.shutdown();
            executor.awaitTermination(CLOSE_SECONDS, TimeUnit.SECONDS);
        }
        System.exit(failed.get() == null ? 0 : 1);
    }

    private static void relay(
            List<ChangeEvent<byte[], byte[]>> records,
            DebeziumEngine.RecordCommitter<ChangeEvent<byte[], byte[]>> committer,
            KafkaProducer<byte[], byte[]> producer,
            AtomicReference<Throwable> failed)
            throws InterruptedException {
        for (ChangeEvent<byte[], byte[]> r : records) {
            producer.send(new ProducerRecord<>(r.destination(), r.key(), r.value()), (meta, failure) -> {
                if (failure != null) {
                    failed.compareAndSet(null, failure);
                }
            });
            committer.markProcessed(r);
        }
        if (failed.get() != null) {
            throw new IllegalStateException("write to Kafka", failed.get());
        }
        committer.markBatchFinished();
    }
}
