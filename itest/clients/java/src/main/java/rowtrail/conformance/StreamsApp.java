package rowtrail.conformance;

import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts, sums and joins what stands in the topics events (user -> "id,product,amount") and users (user -> name), with
 * exactly_once_v2. Its outputs depend on the inputs alone, however often it is killed.
 *
 * <p>Arguments: bootstrap server, state directory.
 */
public final class StreamsApp {
    private StreamsApp() {}

    public static void main(String[] args) {
        Properties props = new Properties();
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, "shop");
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        props.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        props.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        props.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // Every change of a table is sent on, so that the output shows each of them exactly once.
        props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        props.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
        props.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        props.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // A killed instance is a member until its session ends.
        props.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        props.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);

        KafkaStreams streams = new KafkaStreams(topology(), props);
        streams.setUncaughtExceptionHandler(e -> {
            System.out.println("replacing a thread after " + e);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }

    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> events = builder.stream("events");
        KTable<String, String> users = builder.table("users");

        KTable<String, Long> counts = events.groupByKey().count(
                Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withValueSerde(Serdes.Long()));
        counts.toStream().mapValues(String::valueOf).to("counts");

        // Another key: through a repartition topic.
        events.map((user, event) -> KeyValue.pair(event.split(",")[1], event.split(",")[2]))
                .groupByKey()
                .aggregate(() -> 0L, (product, amount, sum) -> sum + Long.parseLong(amount),
                        Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums").withValueSerde(Serdes.Long()))
                .toStream().mapValues(String::valueOf).to("sums");

        events.leftJoin(users, (event, name) -> event + "," + name).to("enriched");
        counts.join(users, (count, name) -> name + " " + count).toStream().to("named");
        return builder.build();
    }
}
