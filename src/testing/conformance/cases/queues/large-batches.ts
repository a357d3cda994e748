import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import {
  activityCancel,
  child,
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../sample-data.ts';
import { labels, lockMs } from '../../store-under-test.ts';

const size = 1_000;
const numbers = Array.from({ length: size }, (_, index) => index);

export const largeBatches: Capability = {
  title: 'large batches',
  cases: [
    {
      id: 'large/instances',
      title: 'a thousand instances are created, claimed and acked in one call each',
      async run(store) {
        const instances = numbers.map((index) => newInstance(`i${index}`));
        const created = await store.provider.createInstances(instances);
        const keys = created.map((result) => (result.kind === 'created' ? result.instanceKey : -1));
        assert.equal(new Set(keys).size, size);
        const items = await store.claim({ max: size });
        assert.equal(items.length, size);
        const results = await store.provider.ackOrchestrationItems(
          items.map(({ lockToken, messages, instanceId }) => ({
            lockToken: instanceId === 'i500' ? 'never given out' : lockToken,
            messageKeys: messages.map(({ messageKey }) => messageKey),
            turn: newTurn({ events: [event(instanceId)] }),
          })),
        );
        const refused = items.filter((_, index) => results[index]?.ok !== true);
        assert.deepEqual(
          refused.map(({ instanceId }) => instanceId),
          ['i500'],
        );
        const { instances: running } = await store.provider.listInstances({
          filter: { status: ['running'] },
          limit: size,
        });
        assert.equal(running.length, size - 1);
        assert.deepEqual(await store.historyLabels('i999'), ['i999']);
      },
    },
    {
      id: 'large/turn',
      title: 'one turn stores a thousand events, work items, timers, children and messages each',
      async run(store) {
        const fireAt = store.clock.now() + 10;
        await store.begin('reader');
        await store.begin('a', {
          events: numbers.map((index) => event(`e${index}`)),
          workItems: numbers.map((index) => workItem(index)),
          timers: numbers.map((index) => ({ operation: size + index, fireAt })),
          children: numbers.map((index) => child(`kid ${index}`, 2 * size + index)),
          messages: numbers.map((index) => ({
            instanceId: 'reader',
            message: raised(`m${index}`),
          })),
        });
        assert.deepEqual(
          await store.historyLabels('a'),
          numbers.map((index) => `e${index}`),
        );
        const work = await store.claimWork({ max: 2 * size });
        assert.deepEqual(new Set(work.map(({ operation }) => operation)), new Set(numbers));
        const items = await store.claim({ max: 2 * size });
        assert.equal(items.length, size + 1);
        const reader = items.find(({ instanceId }) => instanceId === 'reader') ?? assert.fail();
        assert.deepEqual(
          labels(reader),
          numbers.map((index) => `m${index}`),
        );
        await store.clock.advance(10);
        assert.equal((await store.claimOne({ maxMessages: 2 * size })).messages.length, size);
      },
    },
    {
      id: 'large/work',
      title: 'a thousand work items are renewed and acked in one call each',
      async run(store) {
        await store.begin('a', { workItems: numbers.map((index) => workItem(index)) });
        const items = await store.claimWork({ max: size });
        const renewed = await store.provider.renewWorkItemLocks(items, lockMs);
        assert.ok(renewed.every(({ held }) => held));
        const outcome = { kind: 'completed', payload: null } as const;
        const acks = items.map(({ lockToken }) => ({ lockToken, outcome }));
        const results = await store.provider.ackWorkItems(acks);
        assert.ok(results.every(({ ok }) => ok));
        assert.deepEqual(
          labels(await store.claimOne()),
          items.map(({ operation }) => `activityCompleted ${operation}`),
        );
      },
    },
    {
      id: 'large/cancels',
      title: 'one turn cancels two thousand pending activities',
      async run(store) {
        const operations = Array.from({ length: 2 * size }, (_, index) => index);
        await store.begin('a', { workItems: operations.map((index) => workItem(index)) });
        const running = await store.claimWork({ max: 10 });
        await store.raise('a', 'x');
        const activityCancels = operations.map((operation) => activityCancel(operation));
        await store.commit(await store.claimOne(), { activityCancels });
        const renewed = await store.provider.renewWorkItemLocks(running, lockMs);
        assert.ok(renewed.every((result) => result.held && result.cancel !== null));
        assert.deepEqual(await store.claimWork(), []);
        const { messages } = await store.claimOne({ maxMessages: 2 * size });
        const ended = messages.map(({ operation }) => operation);
        const stopped = new Set(running.map(({ operation }) => operation));
        assert.deepEqual(
          ended.toSorted((a, b) => (a ?? 0) - (b ?? 0)),
          operations.filter((operation) => !stopped.has(operation)),
        );
      },
    },
    {
      id: 'large/cancel-request',
      title: 'one requestCancel() cancels two thousand activities, a hundred of them running',
      async run(store) {
        const operations = Array.from({ length: 2 * size }, (_, index) => index);
        await store.begin('a', { workItems: operations.map((index) => workItem(index)) });
        const running = await store.claimWork({ max: 100 });
        await store.cancel('a');
        const renewed = await store.provider.renewWorkItemLocks(running, lockMs);
        assert.ok(renewed.every((result) => result.held && result.cancel !== null));
        assert.deepEqual(await store.claimWork(), []);
        const { messages } = await store.claimOne({ maxMessages: 3 * size });
        assert.equal(messages.length, 1 + operations.length - running.length);
        const outcome = { kind: 'canceled', leaked: false } as const;
        const acks = running.map(({ lockToken }) => ({ lockToken, outcome }));
        const results = await store.provider.ackWorkItems(acks);
        assert.ok(results.every(({ ok }) => ok));
      },
    },
    {
      id: 'large/cancel-requests',
      title: 'one requestCancel() call cancels a thousand instances',
      async run(store) {
        const half = size / 2;
        const begun = numbers.map((index) =>
          newInstance(`i${index}`, index < half ? { firstTurn: newTurn() } : {}),
        );
        await store.provider.createInstances(begun);
        const results = await store.provider.requestCancel(
          numbers.map((index) => ({
            instanceId: `i${index}`,
            reason: 'x',
            actor: null,
            cleanupMs: 1,
          })),
        );
        const count = (wanted: string) => results.filter(({ status }) => status === wanted).length;
        assert.deepEqual([count('canceling'), count('canceled')], [half, half]);
        const items = await store.claim({ max: size });
        assert.equal(items.length, half);
      },
    },
    {
      id: 'large/payloads',
      title: 'payloads of two megabytes are stored and returned unchanged',
      async run(store) {
        const payload = JSON.stringify('ü'.repeat(1_000_000));
        const start = { ...raised('x'), kind: 'start', payload };
        await store.create('a', { start });
        const item = await store.claimOne();
        assert.equal(item.messages[0]?.payload, payload);
        const events = [{ ...event('x'), payload }];
        await store.commit(item, {
          events,
          customStatus: payload,
          workItems: [workItem(1, { payload })],
        });
        assert.equal((await store.claimWorkOne()).payload, payload);
        assert.equal((await store.record('a')).customStatus, payload);
        assert.deepEqual(await store.history('a'), events);
      },
    },
  ],
};
