import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, raised, workItem } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, only } from '../../expectations.ts';
import { labels } from '../../store-under-test.ts';

const gibberish = ['', '{', 'null', '{"__proto__":{"polluted":true}}', '\u{1f9e8} not JSON'];

export const undecodableData: Capability = {
  title: 'unknown and corrupt data',
  cases: [
    {
      id: 'data/events-come-back-as-they-are',
      title: 'events of unknown kinds with invalid JSON are returned as written',
      async run(store) {
        const events = gibberish.map((text) => ({
          kind: 'fromTheFuture',
          at: 3,
          data: text,
          payload: text,
        }));
        const begun = await store.begin('a', { events });
        assert.deepEqual(await store.history('a'), events);
        const read = { instanceKey: begun.instanceKey, executionId: 1, after: 0 };
        assert.deepEqual(await store.provider.readHistory([read]), [events]);
      },
    },
    {
      id: 'data/messages-come-back-as-they-are',
      title: 'messages of unknown kinds with invalid JSON are returned as enqueued',
      async run(store) {
        await store.begin('a');
        const sent = gibberish.map((text) => ({
          kind: 'fromTheFuture',
          executionId: null,
          operation: null,
          data: text,
          payload: text,
        }));
        await store.provider.enqueueMessages(sent.map((message) => ({ instanceId: 'a', message })));
        const { messages } = await store.claimOne();
        assert.deepEqual(
          messages.map(({ messageKey: _key, ...message }) => message),
          sent,
        );
      },
    },
    {
      id: 'data/work-comes-back-as-it-is',
      title: 'work item payloads, options and results with invalid JSON are returned as stored',
      async run(store) {
        const workItems = gibberish.map((text, operation) =>
          workItem(operation, { payload: text, options: text }),
        );
        await store.begin('a', { workItems });
        const items = (await store.claimWork()).toSorted((x, y) => x.operation - y.operation);
        assert.deepEqual(
          items.map(({ payload, options }) => [payload, options]),
          gibberish.map((text) => [text, text]),
        );
        const acks = items.map(({ lockToken, payload }) => ({
          lockToken,
          outcome: { kind: 'completed', payload } as const,
        }));
        for (const result of await store.provider.ackWorkItems(acks)) expectCommitted(result);
        const { messages } = await store.claimOne();
        assert.deepEqual(
          messages.map(({ payload }) => payload),
          gibberish,
        );
      },
    },
    {
      id: 'data/results-come-back-as-they-are',
      title: 'outputs, failures and custom statuses with invalid JSON are returned as stored',
      async run(store) {
        for (const [index, text] of gibberish.entries()) {
          const done = { status: 'completed', payload: text } as const;
          await store.begin(`done ${index}`, { customStatus: text, outcome: done });
          const failed = { status: 'failed', failure: text } as const;
          await store.begin(`failed ${index}`, { outcome: failed });
          const [a, b] = await store.provider.getInstances([`done ${index}`, `failed ${index}`]);
          assert.deepEqual([a?.output, a?.customStatus, b?.failure], [text, text, text]);
        }
        assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false);
      },
    },
    {
      id: 'data/unreadable-history-can-be-continued',
      title: 'a turn can be appended to a history that cannot be decoded',
      async run(store) {
        await store.begin('a', { events: [{ kind: '?', at: 0, data: '{', payload: '{' }] });
        await store.raise('a', 'x');
        const outcome = {
          status: 'failed',
          failure: '{"name":"Error","message":"unreadable"}',
        } as const;
        await store.commit(await store.claimOne(), { events: [event('gave up')], outcome });
        assert.equal((await store.record('a')).status, 'failed');
        assert.equal((await store.history('a')).length, 2);
      },
    },
    {
      id: 'data/corrupt-messages-harm-no-neighbour',
      title: 'corrupt messages affect only the claim of their own instance',
      async run(store) {
        for (const id of ['before', 'damaged', 'after']) await store.begin(id);
        for (const id of ['before', 'damaged', 'after']) {
          await store.raise(id, `for ${id}`);
          await store.clock.advance(1);
        }
        await store.corrupt({ instanceId: 'damaged', rows: 'messages' });
        const items = await store.claim();
        const sound = items.filter(({ instanceId }) => instanceId !== 'damaged');
        assert.deepEqual(sound.map(labels), [['for before'], ['for after']]);
        const damaged =
          items.find(({ instanceId }) => instanceId === 'damaged') ?? (await store.claimOne());
        assert.equal(damaged.instanceId, 'damaged');
        assert.notEqual(only(damaged.messages, 'message').data, raised('for damaged').data);
        for (const item of items) await store.commit(item, { events: [event('read')] });
      },
    },
    {
      id: 'data/corrupt-events-harm-no-neighbour',
      title: 'a corrupt history does not affect other histories read in the same call',
      async run(store) {
        const keys: number[] = [];
        for (const id of ['before', 'damaged', 'after'])
          keys.push((await store.begin(id)).instanceKey);
        await store.corrupt({ instanceId: 'damaged', rows: 'events' });
        const reads = keys.map((instanceKey) => ({ instanceKey, executionId: 1, after: 0 }));
        const [before, damaged, after] = await store.provider.readHistory(reads);
        assert.deepEqual([before, after], [[event('begun')], [event('begun')]]);
        assert.equal(damaged?.length, 1);
        assert.notEqual(damaged[0]?.data, event('begun').data);
      },
    },
    {
      id: 'data/corrupt-work-harms-no-neighbour',
      title: 'a corrupt work item is claimed, and so are the other work items',
      async run(store) {
        for (const id of ['before', 'damaged', 'after']) {
          await store.begin(id, { workItems: [workItem(1)] });
        }
        await store.corrupt({ instanceId: 'damaged', rows: 'workItems' });
        const items = await store.claimWork();
        expectInAnyOrder(
          items.map(({ instanceId }) => instanceId),
          ['after', 'before', 'damaged'],
        );
        for (const { lockToken, payload, instanceId } of items) {
          assert.equal(payload === '"input 1"', instanceId !== 'damaged');
          const outcome = { kind: 'failed', failure: '{"name":"Error","message":"?"}' } as const;
          expectCommitted(await store.ackWork(lockToken, outcome));
        }
      },
    },
  ],
};
