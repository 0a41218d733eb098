// What the tests of both clients share. Both offer the API of kafkajs; confluent's takes its settings in a block of
// their own, and codecs, acks and starts of reading per client, not per call. `dialect` bridges that.
const assert = require('node:assert');
const { randomUUID } = require('node:crypto');

const brokers = [process.env.BOOTSTRAP];
const deadline = 60_000;
const tests = [];

const unique = (prefix) => `${prefix}-${randomUUID().slice(0, 12)}`;
const test = (name, body) => tests.push([name, body]);

async function until(what, condition) {
  for (const end = Date.now() + deadline; Date.now() < end;) {
    const value = await condition();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited in vain for ${what}`);
}

async function run() {
  let failed = 0;
  for (const [name, body] of tests) {
    try {
      await body();
      console.log(`pass ${name}`);
    } catch (error) {
      failed++;
      console.log(`${error.stack}\nfail ${name}`);
    }
  }
  process.exit(failed ? 1 : 0);
}

// shared registers the tests that both clients have to pass. A dialect has client(), producer(options), consumer(options),
// codecs, send(producer, topic, messages, options), sendOffsets(transaction, {groupId, consumer, topics}) and
// subscribe(consumer, topic).
function shared(dialect) {
  const admin = async (body) => {
    const a = dialect.client().admin();
    await a.connect();
    try {
      return await body(a);
    } finally {
      await a.disconnect();
    }
  };
  const topic = async (numPartitions = 1, configEntries = []) => {
    const name = unique('node');
    assert.strictEqual(await admin((a) => a.createTopics({ topics: [{ topic: name, numPartitions, replicationFactor: 1, configEntries }] })), true);
    return name;
  };
  const send = async (name, messages, options = {}) => {
    const p = dialect.producer(options);
    await p.connect();
    await dialect.send(p, name, messages, options);
    await p.disconnect();
  };
  // A member keeps what it reads; `leave` waits for its end.
  const join = async (name, groupId = unique('group'), options = {}) => {
    const consumer = dialect.consumer({ groupId, ...options });
    const member = { consumer, read: [], leave: () => consumer.disconnect() };
    await consumer.connect();
    await dialect.subscribe(consumer, name);
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        member.read.push({ partition, ...message });
      },
    });
    return member;
  };
  const text = (member) => member.read.map((m) => m.value && m.value.toString());
  const readAll = async (name, count, options) => {
    const member = await join(name, undefined, options);
    await until(`${count} records`, () => member.read.length >= count);
    await member.leave();
    assert.strictEqual(member.read.length, count);
    return member.read;
  };
  const numbers = (from, to) => Array.from({ length: to - from }, (_, i) => String(from + i));
  const messages = (values) => values.map((value) => ({ key: value, value }));

  for (const [name, codec] of Object.entries(dialect.codecs)) {
    test(`codec_${name}`, async () => {
      const made = await topic();
      const want = numbers(0, 300).map((n) => `the same again and again ${n}`);
      await send(made, messages(want), { compression: codec });
      assert.deepStrictEqual((await readAll(made, want.length)).map((m) => m.value.toString()), want);
    });
  }

  test('headers_and_nulls', async () => {
    const made = await topic();
    await send(made, [
      { key: 'deleted', value: null, headers: { a: '1', b: Buffer.from([0, 255]) } },
      { key: null, value: 'no key', timestamp: '1700000000123' },
    ]);
    const [first, second] = await readAll(made, 2);
    assert.strictEqual(first.key.toString(), 'deleted');
    assert.strictEqual(first.value, null);
    assert.strictEqual(first.headers.a.toString(), '1');
    assert.deepStrictEqual([...first.headers.b], [0, 255]);
    assert.ok(second.key === null || second.key === undefined);
    assert.strictEqual(second.value.toString(), 'no key');
    assert.strictEqual(second.timestamp, '1700000000123');
    assert.deepStrictEqual([first.offset, second.offset], ['0', '1']);
  });

  test('an_idempotent_producer_keeps_order', async () => {
    const made = await topic();
    await send(made, messages(numbers(0, 1000)), { idempotent: true });
    assert.deepStrictEqual((await readAll(made, 1000)).map((m) => m.value.toString()), numbers(0, 1000));
  });

  test('members_join_and_leave', async () => {
    const made = await topic(4);
    const group = unique('group');
    const one = await join(made, group);
    await send(made, messages(numbers(0, 100)));
    await until('all records', () => one.read.length >= 100);
    const two = await join(made, group);
    // The second member has its part when it reads records of its own.
    let next = 100;
    await until('a part of the second member', async () => {
      await send(made, messages(numbers(next, next + 20)));
      next += 20;
      return two.read.length > 0;
    });
    await one.leave();
    await send(made, messages(numbers(10_000, 10_100)));
    await until('all records at the one that stays', () => {
      const has = new Set(text(two));
      return numbers(10_000, 10_100).every((n) => has.has(n));
    });
    await two.leave();
    const read = new Set([...text(one), ...text(two)]);
    assert.deepStrictEqual(numbers(0, next).filter((n) => !read.has(n)), []);
  });

  test('transactions_with_offsets', async () => {
    const [source, target, groupId] = [await topic(), await topic(), unique('group')];
    await send(source, messages(numbers(0, 10)));
    const member = await join(source, groupId, { autoCommit: false });
    await until('the records', () => member.read.length >= 10);
    const p = dialect.producer({ transactionalId: unique('tx'), maxInFlightRequests: 1, idempotent: true });
    await p.connect();
    for (const [offset, end] of [['4', 'abort'], ['7', 'commit']]) {
      const transaction = await p.transaction();
      await dialect.send(transaction, target, messages([offset]));
      const topics = [{ topic: source, partitions: [{ partition: 0, offset }] }];
      await dialect.sendOffsets(transaction, { groupId, consumer: member.consumer, topics });
      await transaction[end]();
    }
    await p.disconnect();
    await member.leave();
    assert.deepStrictEqual((await readAll(target, 1)).map((m) => m.value.toString()), ['7']);
    const committed = async () => (await admin((a) => a.fetchOffsets({ groupId, topics: [source] })))[0].partitions[0].offset;
    await until('the offset of the committed transaction', async () => (await committed()) === '7');
    assert.strictEqual((await readAll(target, 2, { readUncommitted: true })).length, 2);
  });

  test('compacted_topics_keep_the_last_value', async () => {
    const made = await topic(1, [
      { name: 'cleanup.policy', value: 'compact' }, { name: 'min.cleanable.dirty.ratio', value: '0.01' },
      { name: 'segment.ms', value: '100' }, { name: 'segment.bytes', value: '4096' },
    ]);
    for (let round = 0; round < 20; round++) {
      await send(made, numbers(0, 30).map((key) => ({ key, value: `${key} of round ${round}` })));
    }
    await until('compaction', async () => {
      await send(made, [{ key: 'clock', value: String(Date.now()) }]);
      const member = await join(made);
      await until('the last key', () => member.read.some((m) => m.key.toString() === 'clock'));
      await member.leave();
      const last = new Map(member.read.map((m) => [m.key.toString(), m.value.toString()]));
      for (const key of numbers(0, 30)) assert.strictEqual(last.get(key), `${key} of round 19`);
      return member.read.length < 300;
    });
  });

  test('administration', async () => {
    const made = await topic(2);
    await send(made, numbers(0, 5).map((value) => ({ value, partition: 0 })));
    await admin(async (a) => {
      assert.strictEqual(await a.createTopics({ topics: [{ topic: made, numPartitions: 2, replicationFactor: 1 }] }), false);
      assert.ok((await a.listTopics()).includes(made));
      const metadata = await a.fetchTopicMetadata({ topics: [made] });
      const [described] = metadata.topics || metadata;
      assert.deepStrictEqual(described.partitions.map((p) => p.leader), [1, 1]);
      const ends = await a.fetchTopicOffsets(made);
      assert.strictEqual(ends.find((p) => p.partition === 0).high, '5');
      await a.deleteTopicRecords({ topic: made, partitions: [{ partition: 0, offset: '3' }] });
      assert.strictEqual((await a.fetchTopicOffsets(made)).find((p) => p.partition === 0).low, '3');
    });
    const groupId = unique('group');
    const member = await join(made, groupId);
    await until('the records', () => member.read.length === 2);
    await admin(async (a) => {
      const { groups } = await a.describeGroups([groupId]);
      assert.strictEqual(groups[0].members.length, 1);
      assert.ok((await a.listGroups()).groups.some((g) => g.groupId === groupId));
    });
    await member.leave();
    await admin(async (a) => {
      await a.deleteGroups([groupId]);
      await a.deleteTopics({ topics: [made] });
      assert.ok(!(await a.listTopics()).includes(made));
    });
  });

  return { admin, topic };
}

module.exports = { assert, brokers, run, shared, test, unique };
