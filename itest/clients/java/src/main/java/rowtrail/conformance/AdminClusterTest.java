package rowtrail.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.junit.jupiter.api.Test;

/** The cluster itself: nodes, disks, features, placement, users, quotas, permissions. */
public class AdminClusterTest {
    @Test
    void theClusterIsDescribed() throws Exception {
        try (var admin = Broker.admin()) {
            var cluster = admin.describeCluster();
            assertFalse(Broker.await(cluster.clusterId()).isEmpty());
            var nodes = Broker.await(cluster.nodes());
            assertEquals(1, nodes.size());
            var node = nodes.iterator().next();
            assertEquals(node.id(), Broker.await(cluster.controller()).id());
            assertEquals(Broker.bootstrap(), node.host() + ":" + node.port());
        }
    }

    @Test
    void logDirsTellSizes() throws Exception {
        String topic = Broker.topic(1);
        Broker.fill(topic, 1_000);
        try (var admin = Broker.admin()) {
            int node = Broker.await(admin.describeCluster().nodes()).iterator().next().id();
            var dirs = Broker.await(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node);
            assertEquals(1, dirs.size());
            var dir = dirs.values().iterator().next();
            assertNull(dir.error());
            assertTrue(dir.totalBytes().isPresent());
            var replica = dir.replicaInfos().get(new TopicPartition(topic, 0));
            assertNotNull(replica);
            assertTrue(replica.size() > 5_000, "size " + replica.size());
            assertFalse(replica.isFuture());
        }
    }

    @Test
    void featuresAreDescribed() throws Exception {
        try (var admin = Broker.admin()) {
            assertNotNull(Broker.await(admin.describeFeatures().featureMetadata()));
        }
    }

    @Test
    void thePreferredLeaderIsElected() throws Exception {
        String topic = Broker.topic(2);
        TopicPartition p = new TopicPartition(topic, 0);
        try (var admin = Broker.admin()) {
            var result = Broker.await(admin.electLeaders(ElectionType.PREFERRED, Set.of(p)).partitions());
            assertInstanceOf(ElectionNotNeededException.class, result.get(p).orElseThrow());
        }
    }

    @Test
    void reassignmentsAreListedAndChecked() throws Exception {
        String topic = Broker.topic(1);
        TopicPartition p = new TopicPartition(topic, 0);
        try (var admin = Broker.admin()) {
            assertTrue(Broker.await(admin.listPartitionReassignments().reassignments()).isEmpty());
            int node = Broker.await(admin.describeCluster().nodes()).iterator().next().id();
            Broker.await(admin.alterPartitionReassignments(Map.of(p,
                    Optional.of(new NewPartitionReassignment(List.of(node))))).all());
            assertInstanceOf(InvalidReplicaAssignmentException.class, Broker.failure(admin.alterPartitionReassignments(
                    Map.of(p, Optional.of(new NewPartitionReassignment(List.of(node + 77))))).all()));
            assertInstanceOf(NoReassignmentInProgressException.class,
                    Broker.failure(admin.alterPartitionReassignments(Map.of(p, Optional.empty())).all()));
            assertTrue(Broker.await(admin.listPartitionReassignments(Set.of(p)).reassignments()).isEmpty());
        }
    }

    @Test
    void scramUsersAreMadeDescribedAndRemoved() throws Exception {
        String user = Broker.unique("user");
        try (var admin = Broker.admin()) {
            Broker.await(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user,
                    new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096), "secret"))).all());
            var described = Broker.await(admin.describeUserScramCredentials(List.of(user)).description(user));
            assertEquals(List.of(new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)), described.credentialInfos());
            assertTrue(Broker.await(admin.describeUserScramCredentials().users()).contains(user));
            Broker.await(admin.alterUserScramCredentials(
                    List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))).all());
            assertFalse(Broker.await(admin.describeUserScramCredentials().users()).contains(user));
        }
    }

    @Test
    void quotasAreSetDescribedAndRemoved() throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, Broker.unique("client")));
        ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(
                ClientQuotaEntity.CLIENT_ID, entity.entries().get(ClientQuotaEntity.CLIENT_ID))));
        try (var admin = Broker.admin()) {
            Broker.await(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                    List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0))))).all());
            assertEquals(Map.of(entity, Map.of("producer_byte_rate", 1_000_000.0)),
                    Broker.await(admin.describeClientQuotas(filter).entities()));
            Broker.await(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                    List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all());
            assertTrue(Broker.await(admin.describeClientQuotas(filter).entities()).isEmpty());
        }
    }

    @Test
    void permissionsWorkOrAreToldToBeOff() throws Exception {
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, Broker.unique("topic"), PatternType.LITERAL),
                new AccessControlEntry("User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW));
        try (var admin = Broker.admin()) {
            var described = admin.describeAcls(AclBindingFilter.ANY).values();
            try {
                Broker.await(described);
            } catch (java.util.concurrent.ExecutionException e) {
                assertInstanceOf(SecurityDisabledException.class, e.getCause());
                return;
            }
            Broker.await(admin.createAcls(List.of(binding)).all());
            assertEquals(List.of(binding), List.copyOf(Broker.await(admin.describeAcls(binding.toFilter()).values())));
            Broker.await(admin.deleteAcls(List.of(binding.toFilter())).all());
            assertTrue(Broker.await(admin.describeAcls(binding.toFilter()).values()).isEmpty());
        }
    }
}
