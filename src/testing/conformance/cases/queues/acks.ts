import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { event } from '../../sample-data.ts';
import { labels } from '../../store-under-test.ts';

export const acks: Capability = {
  title: 'turn acks',
  cases: [
    {
      id: 'ack/deletes-the-named-messages',
      title: 'an ack deletes exactly the messages it names; the others are claimed again',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a');
        await store.raise('a', '1', '2', '3', '4');
        const item = await store.claimOne();
        const keys = item.messages.map(({ messageKey }) => messageKey);
        const named = [keys[0], keys[2]].filter((key) => key !== undefined);
        await store.commit(item, { events: [event('read 1 and 3')] }, named);
        const rest = await store.claimOne();
        assert.deepEqual(labels(rest), ['2', '4']);
        await store.commit(rest);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'ack/leaves-later-arrivals',
      title: 'messages that arrive during a turn survive its ack and are claimed next',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        await store.raise('a', 'later', 'later still');
        await store.commit(item, { events: [event('one')] });
        const next = await store.claimOne();
        assert.deepEqual(labels(next), ['later', 'later still']);
        assert.equal(next.historyLength, 1);
        await store.commit(next);
        await store.expectIdle();
      },
    },
    {
      id: 'ack/spares-messages-of-others',
      title: 'an ack that names a message of another instance does not delete it',
      async run(store) {
        await store.begin('a');
        await store.begin('b');
        await store.raise('a', 'mine');
        await store.raise('b', 'yours');
        const [a, b] = (await store.claim()).toSorted((x, y) =>
          x.instanceId < y.instanceId ? -1 : 1,
        );
        assert.ok(a && b);
        const keys = [...a.messages, ...b.messages].map(({ messageKey }) => messageKey);
        await store.ack(a, {}, keys);
        const abandon = { lockToken: b.lockToken, delayMs: 0, giveBackClaim: true };
        assert.deepEqual(await store.provider.abandonOrchestrationItems([abandon]), [true]);
        const again = await store.claim();
        const left = again.find(({ instanceId }) => instanceId === 'b');
        assert.ok(left);
        assert.deepEqual(labels(left), ['yours']);
      },
    },
    {
      id: 'ack/appends-events-in-order',
      title: 'an ack appends events in order, and reads return every field unchanged',
      async run(store) {
        const events = [
          {
            kind: 'executionStarted',
            at: 17,
            data: '{"name":"x","version":"1"}',
            payload: '{"a":1}',
          },
          { kind: 'timerCreated', at: 18, data: '{"operation":1,"fireAt":99}', payload: null },
        ];
        await store.begin('a', { events });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        assert.equal(item.historyLength, 2);
        await store.commit(item, { events: [event('three'), event('four')] });
        assert.deepEqual(await store.history('a'), [...events, event('three'), event('four')]);
        const { instanceKey } = item;
        const [read] = await store.provider.readHistory([
          { instanceKey, executionId: 1, after: 0 },
        ]);
        assert.deepEqual(read, [...events, event('three'), event('four')]);
      },
    },
    {
      id: 'ack/without-events-is-a-turn',
      title: 'an ack without events deletes its messages and becomes the last turn',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'ignored');
        await store.commit(await store.claimOne(), { turnId: 'the empty turn' });
        await store.expectIdle();
        await store.raise('a', 'x');
        const { lastTurn, historyLength } = await store.claimOne();
        assert.deepEqual(
          { lastTurn, historyLength },
          { lastTurn: 'the empty turn', historyLength: 1 },
        );
      },
    },
    {
      id: 'ack/makes-an-instance-running',
      title: 'the first ack sets running and startedAt; later acks keep startedAt',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        assert.equal((await store.record('a')).status, 'pending');
        await store.clock.advance(7);
        const startedAt = store.clock.now();
        await store.commit(item, { version: '5' });
        const first = await store.record('a');
        assert.deepEqual(
          { status: first.status, startedAt: first.startedAt, version: first.version },
          { status: 'running', startedAt, version: '5' },
        );
        await store.clock.advance(7);
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { version: '5' });
        assert.deepEqual(await store.record('a'), first);
      },
    },
    {
      id: 'ack/records-the-turn-as-the-last',
      title: 'the next claim returns the id of the last committed turn',
      async run(store) {
        await store.create('a');
        const turnIds: (string | null)[] = [];
        for (const turnId of ['t1', 't2']) {
          const item = await store.claimOne();
          turnIds.push(item.lastTurn);
          await store.commit(item, { turnId });
          await store.raise('a', 'x');
        }
        turnIds.push((await store.claimOne()).lastTurn);
        assert.deepEqual(turnIds, [null, 't1', 't2']);
      },
    },
    {
      id: 'ack/completes-an-instance',
      title: 'a completed instance has output and endedAt, and no failure',
      async run(store) {
        await store.begin('a');
        await store.clock.advance(50);
        await store.raise('a', 'x');
        const before = await store.record('a');
        const outcome = { status: 'completed', payload: '{"total":3}' } as const;
        await store.commit(await store.claimOne(), { outcome });
        const endedAt = store.clock.now();
        const status = 'completed';
        assert.deepEqual(await store.record('a'), {
          ...before,
          status,
          output: '{"total":3}',
          endedAt,
        });
      },
    },
    {
      id: 'ack/fails-an-instance',
      title: 'a failed instance has failure and endedAt, and no output',
      async run(store) {
        await store.begin('a');
        await store.clock.advance(50);
        await store.raise('a', 'x');
        const before = await store.record('a');
        const failure = '{"name":"Error","message":"no"}';
        await store.commit(await store.claimOne(), { outcome: { status: 'failed', failure } });
        const endedAt = store.clock.now();
        assert.deepEqual(await store.record('a'), {
          ...before,
          status: 'failed',
          failure,
          endedAt,
        });
      },
    },
    {
      id: 'ack/sets-keeps-and-clears-the-custom-status',
      title: 'an ack sets the custom status, keeps it if omitted, and clears it with null',
      async run(store) {
        await store.create('a');
        const seen: (string | null)[] = [];
        for (const part of [{}, { customStatus: '{"at":1}' }, {}, { customStatus: null }]) {
          await store.commit(await store.claimOne(), part);
          seen.push((await store.record('a')).customStatus);
          await store.raise('a', 'x');
        }
        assert.deepEqual(seen, [null, '{"at":1}', '{"at":1}', null]);
      },
    },
    {
      id: 'ack/counts-the-versions-of-the-custom-status',
      title: 'customStatusVersion counts every change, also several within one turn',
      async run(store) {
        await store.create('a');
        const set = { kind: 'customStatusSet', at: 1, data: '{"operation":1}', payload: '1' };
        const seen: number[] = [];
        for (const part of [
          {},
          { customStatus: '1' },
          {},
          { customStatus: '1', events: [set, set, set] },
          { customStatus: null },
        ]) {
          await store.commit(await store.claimOne(), part);
          seen.push((await store.record('a')).customStatusVersion);
          await store.raise('a', 'x');
        }
        assert.deepEqual(seen, [0, 1, 1, 4, 5]);
      },
    },
  ],
};
