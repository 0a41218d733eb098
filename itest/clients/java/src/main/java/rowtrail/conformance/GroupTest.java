package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.junit.jupiter.api.Test;

/** Groups of the classic protocol; ConsumerProtocolTest runs the same against group.protocol=consumer. */
public class GroupTest {
    /** What every consumer here is configured with. */
    Map<String, Object> protocol() {
        return Map.of("session.timeout.ms", 10_000, "heartbeat.interval.ms", 500);
    }

    /** What makes rebalances incremental. */
    Map<String, Object> incremental() {
        return Map.of("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
    }

    KafkaConsumer<String, String> member(String group, Map<String, Object> more) {
        Map<String, Object> props = new HashMap<>(protocol());
        props.put("group.id", group);
        props.put("metadata.max.age.ms", 2_000);
        props.putAll(more);
        return Broker.consumer(props);
    }

    @Test
    void twoMembersShareThePartitionsAndOneInheritsAll() throws Exception {
        String topic = Broker.topic(4);
        String group = Broker.unique("group");
        try (var a = member(group, Map.of())) {
            a.subscribe(List.of(topic));
            pollUntil("a has all", () -> a.assignment().size() == 4, a);
            try (var b = member(group, Map.of())) {
                b.subscribe(List.of(topic));
                pollUntil("2 and 2", () -> a.assignment().size() == 2 && b.assignment().size() == 2, a, b);
                Set<TopicPartition> both = new HashSet<>(a.assignment());
                both.addAll(b.assignment());
                assertEquals(4, both.size());
            }
            pollUntil("a has all again", () -> a.assignment().size() == 4, a);
        }
    }

    @Test
    void everyRecordIsReadOnceWhileMembersComeAndGo() throws Exception {
        String topic = Broker.topic(3);
        String group = Broker.unique("group");
        Map<String, Integer> seen = new HashMap<>();
        try (var producer = Broker.producer(Map.of()); var a = member(group, Map.of())) {
            a.subscribe(List.of(topic), new CommitOnRevoke(a));
            for (int i = 0; i < 300; i++) {
                producer.send(new ProducerRecord<>(topic, i % 3, "k", "first" + i));
            }
            try (var b = member(group, Map.of())) {
                b.subscribe(List.of(topic), new CommitOnRevoke(b));
                Broker.eventually("the first 300", () -> {
                    count(a, seen);
                    count(b, seen);
                    return seen.size() == 300;
                });
                b.commitSync();
            }
            for (int i = 0; i < 300; i++) {
                producer.send(new ProducerRecord<>(topic, i % 3, "k", "second" + i));
            }
            Broker.eventually("the second 300", () -> {
                count(a, seen);
                return seen.size() == 600;
            });
        }
        seen.forEach((value, times) -> assertEquals(1, times, value));
    }

    @Test
    void groupsReadTheSameTopicIndependently() throws Exception {
        String topic = Broker.topic(1);
        Broker.fill(topic, 50);
        for (int i = 0; i < 3; i++) {
            try (var consumer = member(Broker.unique("fan-out"), Map.of())) {
                consumer.subscribe(List.of(topic));
                assertEquals("v0", Broker.take(consumer, 50).get(0).value());
            }
        }
    }

    @Test
    void incrementalRebalanceKeepsWhatStays() throws Exception {
        String topic = Broker.topic(6);
        String group = Broker.unique("group");
        List<TopicPartition> revoked = new CopyOnWriteArrayList<>();
        List<TopicPartition> lost = new CopyOnWriteArrayList<>();
        try (var a = member(group, incremental()); var b = member(group, incremental())) {
            a.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    revoked.addAll(partitions);
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

                @Override
                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    lost.addAll(partitions);
                }
            });
            pollUntil("a has all", () -> a.assignment().size() == 6, a);
            b.subscribe(List.of(topic));
            pollUntil("3 and 3", () -> a.assignment().size() == 3 && b.assignment().size() == 3, a, b);
            assertEquals(3, revoked.size(), "only what moves is revoked: " + revoked);
            assertTrue(lost.isEmpty(), "lost: " + lost);
            assertEquals(new HashSet<>(revoked), b.assignment());
        }
    }

    @Test
    void aStaticMemberKeepsItsPartitionsOverARestart() throws Exception {
        String topic = Broker.topic(4);
        String group = Broker.unique("group");
        List<Collection<TopicPartition>> assigned = new CopyOnWriteArrayList<>();
        try (var a = member(group, Map.of("group.instance.id", "one"))) {
            a.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    assigned.add(List.copyOf(partitions));
                }
            });
            Set<TopicPartition> before;
            try (var b = member(group, Map.of("group.instance.id", "two"))) {
                b.subscribe(List.of(topic));
                pollUntil("2 and 2", () -> a.assignment().size() == 2 && b.assignment().size() == 2, a, b);
                before = Set.copyOf(b.assignment());
            }
            Set<TopicPartition> ofA = Set.copyOf(a.assignment());
            int rebalances = assigned.size();
            try (var again = member(group, Map.of("group.instance.id", "two"))) {
                again.subscribe(List.of(topic));
                pollUntil("two is back", () -> again.assignment().size() == 2, a, again);
                assertEquals(before, again.assignment());
                assertEquals(ofA, a.assignment());
                assertEquals(rebalances, assigned.size(), "the restart of a static member moved partitions: " + assigned);
            }
        }
    }

    @Test
    void ofTwoMembersWithOneInstanceIdOneIsFenced() throws Exception {
        String topic = Broker.topic(1);
        String group = Broker.unique("group");
        List<Throwable> fenced = new ArrayList<>();
        var a = member(group, Map.of("group.instance.id", "same"));
        var b = member(group, Map.of("group.instance.id", "same"));
        try {
            a.subscribe(List.of(topic));
            pollUntil("a is in", () -> a.assignment().size() == 1, a);
            b.subscribe(List.of(topic));
            Broker.eventually("one of both is fenced", () -> {
                for (var c : List.of(a, b)) {
                    try {
                        c.poll(Broker.POLL);
                    } catch (RuntimeException e) {
                        fenced.add(e);
                    }
                }
                return !fenced.isEmpty();
            });
            checkFenced(fenced.get(0));
        } finally {
            a.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(1)));
            b.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(1)));
        }
    }

    /** What the fenced one of two members with one instance id is told. */
    void checkFenced(Throwable e) {
        assertInstanceOf(FencedInstanceIdException.class, e);
    }

    @Test
    void newPartitionsAndTopicsOfAPatternAreFound() throws Exception {
        String prefix = Broker.unique("pattern");
        try (var admin = Broker.admin(); var consumer = member(Broker.unique("group"), Map.of())) {
            Broker.await(admin.createTopics(List.of(
                    new org.apache.kafka.clients.admin.NewTopic(prefix + "-a", 1, (short) 1))).all());
            consumer.subscribe(Pattern.compile(Pattern.quote(prefix) + "-.*"));
            pollUntil("the first topic", () -> consumer.assignment().size() == 1, consumer);
            Broker.await(admin.createTopics(List.of(
                    new org.apache.kafka.clients.admin.NewTopic(prefix + "-b", 1, (short) 1))).all());
            pollUntil("the second topic", () -> consumer.assignment().size() == 2, consumer);
            Broker.await(admin.createPartitions(Map.of(prefix + "-a",
                    org.apache.kafka.clients.admin.NewPartitions.increaseTo(3))).all());
            pollUntil("new partitions", () -> consumer.assignment().size() == 4, consumer);
        }
    }

    @Test
    void autoCommitIsThereAfterClose() throws Exception {
        String topic = Broker.topic(1);
        String group = Broker.unique("group");
        Broker.fill(topic, 20);
        try (var consumer = member(group, Map.of("enable.auto.commit", true))) {
            consumer.subscribe(List.of(topic));
            Broker.take(consumer, 20);
        }
        TopicPartition p = new TopicPartition(topic, 0);
        try (var consumer = member(group, Map.of())) {
            assertEquals(20, consumer.committed(Set.of(p)).get(p).offset());
        }
    }

    private static void count(KafkaConsumer<String, String> consumer, Map<String, Integer> seen) {
        consumer.poll(Duration.ofMillis(100)).forEach(r -> seen.merge(r.value(), 1, Integer::sum));
    }

    @SafeVarargs
    static void pollUntil(String what, java.util.function.BooleanSupplier condition, KafkaConsumer<String, String>... consumers) {
        Broker.eventually(what, () -> {
            for (var c : consumers) {
                c.poll(Duration.ofMillis(100));
            }
            return condition.getAsBoolean();
        });
    }

    private record CommitOnRevoke(KafkaConsumer<String, String> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            consumer.commitSync();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
    }
}
