package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.Test;

/** Topics, their partitions, records and settings through the admin client. */
public class AdminTopicsTest {
    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private static Config describe(org.apache.kafka.clients.admin.Admin admin, ConfigResource resource) throws Exception {
        return Broker.await(admin.describeConfigs(List.of(resource)).all()).get(resource);
    }

    @Test
    void createTellsWhatWasMade() throws Exception {
        String topic = Broker.unique("topic");
        try (var admin = Broker.admin()) {
            var created = admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "7200000"))));
            assertEquals(3, Broker.await(created.numPartitions(topic)));
            assertEquals(1, Broker.await(created.replicationFactor(topic)));
            assertNotEquals(Uuid.ZERO_UUID, Broker.await(created.topicId(topic)));
            Config config = Broker.await(created.config(topic));
            assertEquals("7200000", config.get("retention.ms").value());
            assertEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("retention.ms").source());

            var byName = Broker.await(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
            assertEquals(3, byName.partitions().size());
            assertFalse(byName.isInternal());
            byName.partitions().forEach(p -> {
                assertNotNull(p.leader());
                assertEquals(1, p.replicas().size());
                assertEquals(p.replicas(), p.isr());
            });
            Uuid id = byName.topicId();
            assertEquals(Broker.await(created.topicId(topic)), id);
            var byId = Broker.await(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds()).get(id);
            assertEquals(topic, byId.name());
            assertTrue(Broker.await(admin.listTopics().names()).contains(topic));
        }
    }

    @Test
    void defaultsOfPartitionsAndReplicasApply() throws Exception {
        String topic = Broker.unique("topic");
        try (var admin = Broker.admin()) {
            var created = admin.createTopics(List.of(new NewTopic(topic, Optional.empty(), Optional.empty())));
            assertEquals(1, Broker.await(created.numPartitions(topic)));
            assertEquals(1, Broker.await(created.replicationFactor(topic)));
        }
    }

    @Test
    void validateOnlyMakesNothingAndBadTopicsAreRefused() throws Exception {
        try (var admin = Broker.admin()) {
            String topic = Broker.unique("topic");
            var dry = admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1)), new CreateTopicsOptions().validateOnly(true));
            Broker.await(dry.all());
            assertFalse(Broker.await(admin.listTopics().names()).contains(topic));
            Broker.await(admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all());

            assertInstanceOf(TopicExistsException.class, createFailure(admin, new NewTopic(topic, 1, (short) 1)));
            assertInstanceOf(InvalidTopicException.class, createFailure(admin, new NewTopic("no/slash", 1, (short) 1)));
            assertInstanceOf(InvalidPartitionsException.class,
                    createFailure(admin, new NewTopic(Broker.unique("topic"), 0, (short) 1)));
            assertInstanceOf(InvalidReplicationFactorException.class,
                    createFailure(admin, new NewTopic(Broker.unique("topic"), 1, (short) 5)));
            assertInstanceOf(InvalidConfigurationException.class, createFailure(admin,
                    new NewTopic(Broker.unique("topic"), 1, (short) 1).configs(Map.of("no.such.setting", "1"))));
            assertInstanceOf(InvalidConfigurationException.class, createFailure(admin,
                    new NewTopic(Broker.unique("topic"), 1, (short) 1).configs(Map.of("retention.ms", "soon"))));
        }
    }

    private static Throwable createFailure(org.apache.kafka.clients.admin.Admin admin, NewTopic topic) {
        return Broker.failure(admin.createTopics(List.of(topic)).all());
    }

    @Test
    void topicsAreDeletedByNameAndId() throws Exception {
        String a = Broker.topic(1);
        String b = Broker.topic(2);
        try (var admin = Broker.admin()) {
            Uuid id = Broker.await(admin.describeTopics(List.of(b)).allTopicNames()).get(b).topicId();
            Broker.await(admin.deleteTopics(List.of(a)).all());
            Broker.await(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
            Set<String> names = Broker.await(admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
            assertFalse(names.contains(a) || names.contains(b));
            assertInstanceOf(UnknownTopicOrPartitionException.class, Broker.failure(admin.deleteTopics(List.of(a)).all()));
            assertInstanceOf(UnknownTopicIdException.class,
                    Broker.failure(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        }
    }

    @Test
    void partitionsGrowAndNeverShrink() throws Exception {
        String topic = Broker.topic(2);
        Broker.fill(topic, 10);
        try (var admin = Broker.admin()) {
            Broker.await(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
            assertEquals(5, Broker.await(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size());
            assertInstanceOf(InvalidPartitionsException.class,
                    Broker.failure(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all()));
            assertInstanceOf(UnknownTopicOrPartitionException.class,
                    Broker.failure(admin.createPartitions(Map.of("not-there", NewPartitions.increaseTo(3))).all()));
        }
        try (var producer = Broker.producer(Map.of())) {
            assertEquals(0, Broker.await(producer.send(new ProducerRecord<>(topic, 4, "k", "v"))).offset());
        }
    }

    @Test
    void settingsAreReportedWithSourceAndSynonyms() throws Exception {
        String topic = Broker.topic(1, Map.of("cleanup.policy", "compact"));
        try (var admin = Broker.admin()) {
            ConfigResource r = resource(topic);
            Config config = Broker.await(admin.describeConfigs(List.of(r),
                    new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all()).get(r);
            ConfigEntry policy = config.get("cleanup.policy");
            assertEquals("compact", policy.value());
            assertEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, policy.source());
            assertEquals(ConfigEntry.ConfigType.LIST, policy.type());
            assertFalse(policy.synonyms().isEmpty());
            assertNotNull(policy.documentation());
            Set<String> names = config.entries().stream().map(ConfigEntry::name).collect(Collectors.toSet());
            assertTrue(names.containsAll(Set.of("retention.ms", "retention.bytes", "segment.bytes", "segment.ms",
                    "min.insync.replicas", "max.message.bytes", "compression.type", "message.timestamp.type",
                    "min.cleanable.dirty.ratio", "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms")),
                    names.toString());
            assertTrue(config.get("min.insync.replicas").isDefault());

            assertInstanceOf(UnknownTopicOrPartitionException.class,
                    Broker.failure(admin.describeConfigs(List.of(resource("not-there"))).all()));

            String node = Broker.await(admin.describeCluster().nodes()).iterator().next().idString();
            Config broker = describe(admin, new ConfigResource(ConfigResource.Type.BROKER, node));
            assertNotNull(broker.get("num.partitions"));
            assertNotNull(broker.get("default.replication.factor"));
        }
    }

    @Test
    void settingsAreSetAppendedSubtractedAndDeleted() throws Exception {
        String topic = Broker.topic(1, Map.of("retention.ms", "1000000"));
        ConfigResource r = resource(topic);
        try (var admin = Broker.admin()) {
            Broker.await(admin.incrementalAlterConfigs(Map.of(r, List.of(
                    new AlterConfigOp(new ConfigEntry("retention.bytes", "123456789"), OpType.SET),
                    new AlterConfigOp(new ConfigEntry("retention.ms", null), OpType.DELETE),
                    new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), OpType.APPEND)))).all());
            Config config = describe(admin, r);
            assertEquals("123456789", config.get("retention.bytes").value());
            assertNotEquals("1000000", config.get("retention.ms").value());
            assertNotEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("retention.ms").source());
            assertEquals(Set.of("delete", "compact"), Set.of(config.get("cleanup.policy").value().split(",")));

            Broker.await(admin.incrementalAlterConfigs(Map.of(r, List.of(
                    new AlterConfigOp(new ConfigEntry("cleanup.policy", "delete"), OpType.SUBTRACT)))).all());
            assertEquals("compact", describe(admin, r).get("cleanup.policy").value());

            assertInstanceOf(InvalidConfigurationException.class, Broker.failure(admin.incrementalAlterConfigs(Map.of(r, List.of(
                    new AlterConfigOp(new ConfigEntry("retention.ms", "-7"), OpType.SET)))).all()));
            assertInstanceOf(InvalidConfigurationException.class, Broker.failure(admin.incrementalAlterConfigs(Map.of(r, List.of(
                    new AlterConfigOp(new ConfigEntry("unknown.setting", "1"), OpType.SET)))).all()));
            assertInstanceOf(UnknownTopicOrPartitionException.class,
                    Broker.failure(admin.incrementalAlterConfigs(Map.of(resource("not-there"), List.of(
                            new AlterConfigOp(new ConfigEntry("retention.ms", "1000"), OpType.SET)))).all()));
        }
    }

    @Test
    void deletedRecordsAreGoneAndTheStartMoves() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        Broker.fill(topic, 10);
        try (var admin = Broker.admin(); var consumer = Broker.consumer(Map.of())) {
            var result = admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(6)));
            assertEquals(6, Broker.await(result.lowWatermarks().get(p)).lowWatermark());
            consumer.assign(List.of(p));
            assertEquals(6, Broker.take(consumer, 4).get(0).offset());
            assertEquals(Map.of(p, 6L), consumer.beginningOffsets(List.of(p)));
            assertInstanceOf(OffsetOutOfRangeException.class,
                    Broker.failure(admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(11))).all()));
            assertEquals(10, Broker.await(admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(-1)))
                    .lowWatermarks().get(p)).lowWatermark());
            assertEquals(Map.of(p, 10L), consumer.beginningOffsets(List.of(p)));
        }
    }

    @Test
    void offsetsOfEverySpecAreListed() throws Exception {
        String topic = Broker.topic(1, Broker.KEPT);
        TopicPartition p = new TopicPartition(topic, 0);
        try (var producer = Broker.producer(Map.of())) {
            for (long ts : new long[] {1_000, 9_000, 5_000}) {
                Broker.await(producer.send(new ProducerRecord<>(topic, 0, ts, "k", "v")));
            }
        }
        try (var admin = Broker.admin()) {
            Function<OffsetSpec, Long> offset = spec -> {
                try {
                    return Broker.await(admin.listOffsets(Map.of(p, spec)).partitionResult(p)).offset();
                } catch (Exception e) {
                    throw new AssertionError(spec.getClass().getSimpleName(), e);
                }
            };
            assertEquals(0, offset.apply(OffsetSpec.earliest()));
            assertEquals(3, offset.apply(OffsetSpec.latest()));
            assertEquals(1, offset.apply(OffsetSpec.forTimestamp(4_000)));
            assertEquals(-1, offset.apply(OffsetSpec.forTimestamp(10_000)));
            assertEquals(1, offset.apply(OffsetSpec.maxTimestamp()));
            assertEquals(0, offset.apply(OffsetSpec.earliestLocal()));
            assertEquals(-1, offset.apply(OffsetSpec.latestTiered()));
            assertEquals(9_000, Broker.await(admin.listOffsets(Map.of(p, OffsetSpec.maxTimestamp())).partitionResult(p)).timestamp());
        }
    }
}
