package rowtrail.debezium;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Runs Debezium's embedded engine for one capture after the other. Each line of standard input is the JSON object of a
 * capture's properties, or names a connector in capture.properties, of whose properties the names are told. Each event is a line of standard output; the line {"end":true}, with an error where there was one,
 * follows the first record of the topic that the property capture.until names.
 */
public final class Capture {
    private static final String UNTIL = "capture.until";
    private static final String PROPERTIES = "capture.properties";
    private static final int CLOSE_SECONDS = 30;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Capture() {}

    public static void main(String[] args) throws Exception {
        try (OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16)) {
            System.setOut(System.err); // what others print is no event
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                Map<String, String> properties = MAPPER.readValue(line, new TypeReference<Map<String, String>>() {});
                String of = properties.get(PROPERTIES);
                String error = of == null ? capture(properties, new EventWriter(out)) : null;
                Map<String, Object> end = error == null ? Map.of("end", true) : Map.of("end", true, "error", error);
                if (of != null) {
                    end = Map.of("end", true, "properties", names(of));
                }
                synchronized (out) {
                    out.write(MAPPER.writeValueAsBytes(end));
                    out.write('\n');
                    out.flush();
                }
            }
        }
        System.exit(0); // threads of a connector that did not end are not waited for
    }

    /** Returns the names of a connector's properties. */
    private static Set<String> names(String connector) throws ReflectiveOperationException {
        return new TreeSet<>(((Connector) Class.forName(connector).getDeclaredConstructor().newInstance()).config().names());
    }

    /** Returns why the engine ended by itself, or null when it saw the end. */
    private static String capture(Map<String, String> properties, EventWriter writer) throws Exception {
        Properties props = new Properties();
        props.putAll(properties);
        String until = (String) props.remove(UNTIL);
        CountDownLatch over = new CountDownLatch(1);
        AtomicReference<String> error = new AtomicReference<>();
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                .using(props)
                .using((success, message, failure) -> {
                    if (!success || over.getCount() > 0) {
                        error.compareAndSet(null, message + (failure == null ? "" : ": " + causes(failure)));
                    }
                    over.countDown();
                })
                .notifying((records, committer) -> {
                    boolean last = write(records, writer, until);
                    for (RecordChangeEvent<SourceRecord> record : records) {
                        committer.markProcessed(record);
                    }
                    committer.markBatchFinished();
                    if (last) {
                        over.countDown();
                    }
                })
                .build();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        over.await();
        String ended = error.get();
        try {
            engine.close();
        } catch (IllegalStateException e) {
            // It has ended by itself.
        }
        executor.shutdown();
        if (!executor.awaitTermination(CLOSE_SECONDS, TimeUnit.SECONDS)) {
            executor.shutdownNow();
        }
        return ended;
    }

    private static boolean write(List<RecordChangeEvent<SourceRecord>> records, EventWriter writer, String until) {
        boolean last = false;
        try {
            for (RecordChangeEvent<SourceRecord> event : records) {
                writer.write(event.record());
                last |= event.record().topic().equals(until);
            }
            writer.flush();
        } catch (IOException e) {
            throw new IllegalStateException("write an event", e);
        }
        return last;
    }

    private static String causes(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable t = failure; t != null; t = t.getCause()) {
            text.append(text.length() == 0 ? "" : " because of ").append(t);
        }
        return text.toString();
    }
}
