package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.junit.jupiter.api.Test;

/** Groups and their offsets through the admin client. */
public class AdminGroupsTest {
    @Test
    void aGroupIsListedDescribedAndDeletedOnceEmpty() throws Exception {
        String topic = Broker.topic(2);
        TopicPartition p0 = new TopicPartition(topic, 0);
        TopicPartition p1 = new TopicPartition(topic, 1);
        String group = Broker.unique("group");
        try (var admin = Broker.admin()) {
            try (var consumer = Broker.consumer(Map.of("group.id", group, "client.id", "judge", "group.instance.id", "fixed"))) {
                consumer.subscribe(List.of(topic));
                GroupTest.pollUntil("assigned", () -> consumer.assignment().size() == 2, consumer);

                var listed = Broker.await(admin.listGroups().all()).stream().filter(g -> g.groupId().equals(group)).toList();
                assertEquals(1, listed.size());
                assertEquals(GroupState.STABLE, listed.get(0).groupState().orElseThrow());
                assertEquals("consumer", listed.get(0).protocol());
                assertFalse(listed.get(0).isSimpleConsumerGroup());

                var described = Broker.await(admin.describeConsumerGroups(List.of(group)).all()).get(group);
                assertEquals(GroupState.STABLE, described.groupState());
                assertEquals(1, described.members().size());
                var only = described.members().iterator().next();
                assertEquals("judge", only.clientId());
                assertEquals("fixed", only.groupInstanceId().orElseThrow());
                assertEquals(Set.of(p0, p1), only.assignment().topicPartitions());
                assertEquals("/127.0.0.1", only.host());

                consumer.commitSync(Map.of(p0, new OffsetAndMetadata(0, "m")));
                assertInstanceOf(GroupNotEmptyException.class,
                        Broker.failure(admin.deleteConsumerGroups(List.of(group)).all()));
                assertInstanceOf(GroupSubscribedToTopicException.class,
                        Broker.failure(admin.deleteConsumerGroupOffsets(group, Set.of(p0)).partitionResult(p0)));
                assertInstanceOf(UnknownMemberIdException.class, Broker.failure(
                        admin.alterConsumerGroupOffsets(group, Map.of(p0, new OffsetAndMetadata(1))).all()));

                Broker.await(admin.removeMembersFromConsumerGroup(group,
                        new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("fixed")))).all());
                assertEquals(GroupState.EMPTY,
                        Broker.await(admin.describeConsumerGroups(List.of(group)).all()).get(group).groupState());
            }
            Broker.await(admin.deleteConsumerGroups(List.of(group)).all());
            assertInstanceOf(GroupIdNotFoundException.class,
                    Broker.failure(admin.describeConsumerGroups(List.of(group)).all()));
            assertInstanceOf(GroupIdNotFoundException.class,
                    Broker.failure(admin.deleteConsumerGroups(List.of(group)).all()));
        }
    }

    @Test
    void offsetsAreAlteredListedAndDeleted() throws Exception {
        String topic = Broker.topic(3);
        String group = Broker.unique("group");
        TopicPartition p0 = new TopicPartition(topic, 0);
        TopicPartition p1 = new TopicPartition(topic, 1);
        Broker.fill(topic, 10);
        try (var admin = Broker.admin()) {
            Broker.await(admin.alterConsumerGroupOffsets(group,
                    Map.of(p0, new OffsetAndMetadata(5, "by hand"), p1, new OffsetAndMetadata(0))).all());
            var all = Broker.await(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
            assertEquals(Set.of(p0, p1), all.keySet());
            assertEquals("by hand", all.get(p0).metadata());
            var some = Broker.await(admin.listConsumerGroupOffsets(Map.of(group,
                    new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(p0)))).partitionsToOffsetAndMetadata(group));
            assertEquals(5, some.get(p0).offset());
            try (var consumer = Broker.consumer(Map.of("group.id", group))) {
                consumer.subscribe(List.of(topic));
                assertEquals(5, Broker.take(consumer, 5).get(0).offset());
            }
            Broker.await(admin.deleteConsumerGroupOffsets(group, Set.of(p1)).all());
            assertEquals(Set.of(p0),
                    Broker.await(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).keySet());
            Broker.await(admin.deleteConsumerGroups(List.of(group)).all());
            assertTrue(Broker.await(admin.listGroups().all()).stream().noneMatch(g -> g.groupId().equals(group)));
        }
    }

    @Test
    void offsetsOfManyGroupsComeInOneCall() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        String a = Broker.unique("group");
        String b = Broker.unique("group");
        try (var admin = Broker.admin()) {
            Broker.await(admin.alterConsumerGroupOffsets(a, Map.of(p, new OffsetAndMetadata(1))).all());
            Broker.await(admin.alterConsumerGroupOffsets(b, Map.of(p, new OffsetAndMetadata(2))).all());
            var offsets = Broker.await(admin.listConsumerGroupOffsets(Map.of(a, new ListConsumerGroupOffsetsSpec(),
                    b, new ListConsumerGroupOffsetsSpec())).all());
            assertEquals(1, offsets.get(a).get(p).offset());
            assertEquals(2, offsets.get(b).get(p).offset());
        }
    }
}
