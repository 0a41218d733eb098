package rowtrail.debezium;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/** Writes events as Connect's JSON converter does, with its schemas and without them, both in one line. */
final class EventWriter {
    private final OutputStream out;
    private final Form plain = new Form(false);
    private final Form schemas = new Form(true);

    EventWriter(OutputStream out) {
        this.out = out;
    }

    void write(SourceRecord record) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        text(line, "{\"topic\":\"" + record.topic() + "\",\"plain\":");
        plain.write(line, record);
        text(line, ",\"schemas\":");
        schemas.write(line, record);
        text(line, "}\n");
        synchronized (out) {
            line.writeTo(out);
        }
    }

    void flush() throws IOException {
        synchronized (out) {
            out.flush();
        }
    }

    private static void text(OutputStream out, String text) throws IOException {
        out.write(text.getBytes(StandardCharsets.UTF_8));
    }

    /** The converters of one setting of schemas.enable; all others are at their defaults. */
    private static final class Form {
        private final JsonConverter key = new JsonConverter();
        private final JsonConverter value = new JsonConverter();
        private final JsonConverter header = new JsonConverter();

        Form(boolean enable) {
            Map<String, String> config = Map.of("schemas.enable", String.valueOf(enable));
            key.configure(config, true);
            value.configure(config, false);
            header.configure(Map.of("schemas.enable", String.valueOf(enable), "converter.type", "header"));
        }

        void write(OutputStream out, SourceRecord r) throws IOException {
            text(out, "{\"key\":");
            json(out, key, r.topic(), r.keySchema(), r.key());
            text(out, ",\"value\":");
            json(out, value, r.topic(), r.valueSchema(), r.value());
            text(out, ",\"headers\":{");
            String separator = "\"";
            for (Header h : r.headers()) {
                text(out, separator + h.key() + "\":");
                json(out, header, r.topic(), h.schema(), h.value());
                separator = ",\"";
            }
            text(out, "}}");
        }

        private static void json(OutputStream out, JsonConverter converter, String topic, Schema schema, Object value)
                throws IOException {
            byte[] bytes = value == null ? null : converter.fromConnectData(topic, schema, value);
            out.write(bytes == null ? "null".getBytes(StandardCharsets.UTF_8) : bytes);
        }
    }
}
