const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs');

const { assert, brokers, run, shared, test } = require('./judge');

const client = () => new Kafka({ brokers, logLevel: logLevel.NOTHING });

const { admin, topic } = shared({
  client,
  // The others are plug-ins of other authors.
  codecs: { none: CompressionTypes.None, gzip: CompressionTypes.GZIP },
  producer: ({ compression, ...options }) => client().producer({ allowAutoTopicCreation: false, ...options }),
  send: (producer, name, messages, { compression } = {}) => producer.send({ topic: name, messages, acks: -1, compression }),
  consumer: ({ autoCommit, ...options }) => client().consumer({ heartbeatInterval: 100, maxWaitTimeInMs: 100, ...options }),
  sendOffsets: (transaction, { groupId, topics }) => transaction.sendOffsets({ consumerGroupId: groupId, topics }),
  subscribe: (consumer, name) => consumer.subscribe({ topics: [name], fromBeginning: true }),
});

test('settings', async () => {
  const made = await topic();
  const resource = { type: ConfigResourceTypes.TOPIC, name: made };
  await admin(async (a) => {
    await a.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '60000' }] }] });
    const { resources } = await a.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] });
    assert.strictEqual(resources[0].configEntries[0].configValue, '60000');
    await a.createPartitions({ topicPartitions: [{ topic: made, count: 3 }] });
    const { topics } = await a.fetchTopicMetadata({ topics: [made] });
    assert.strictEqual(topics[0].partitions.length, 3);
    const cluster = await a.describeCluster();
    assert.deepStrictEqual([cluster.controller, cluster.brokers.length], [1, 1]);
  });
});

test('offsets_of_groups', async () => {
  const made = await topic();
  const groupId = `g-${made}`;
  await admin(async (a) => {
    await a.setOffsets({ groupId, topic: made, partitions: [{ partition: 0, offset: '7' }] });
    assert.strictEqual((await a.fetchOffsets({ groupId, topics: [made] }))[0].partitions[0].offset, '7');
    // The client commits its sign for the start, not an offset.
    await a.resetOffsets({ groupId, topic: made, earliest: true });
    assert.strictEqual((await a.fetchOffsets({ groupId, topics: [made] }))[0].partitions[0].offset, '-2');
    await a.deleteGroups([groupId]);
  });
});

run();
