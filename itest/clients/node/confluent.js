const { KafkaJS } = require('@confluentinc/kafka-javascript');

const { brokers, run, shared } = require('./judge');

const client = () => new KafkaJS.Kafka({ kafkaJS: { brokers, logLevel: KafkaJS.logLevel.NOTHING } });

shared({
  client,
  codecs: { none: 'none', gzip: 'gzip', snappy: 'snappy', lz4: 'lz4', zstd: 'zstd' },
  producer: ({ compression = 'none', maxInFlightRequests, ...kafkaJS }) => client().producer({
    'compression.codec': compression, 'linger.ms': 5, kafkaJS: { acks: -1, ...kafkaJS },
  }),
  send: (producer, topic, messages) => producer.send({ topic, messages }),
  consumer: (kafkaJS) => client().consumer({ kafkaJS: { fromBeginning: true, ...kafkaJS } }),
  sendOffsets: (transaction, { consumer, topics }) => transaction.sendOffsets({ consumer, topics }),
  subscribe: (consumer, topic) => consumer.subscribe({ topics: [topic] }),
});

run();
