import assert from 'node:assert/strict';
import type {
  FindUnclaimedWorkParams,
  UnclaimedWork,
} from '../../../../providers/contract/unclaimed-work.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { createTask } from '../../task-helpers.ts';

const minWaitMs = 1_000;

function find(
  { provider }: StoreUnderTest,
  params: Partial<FindUnclaimedWorkParams> = {},
): Promise<readonly UnclaimedWork[]> {
  const nothing = { runnable: [], activities: [], tasks: [], minWaitMs, limit: 100 };
  return provider.findUnclaimedWork({ ...nothing, ...params });
}

async function names(
  store: StoreUnderTest,
  params: Partial<FindUnclaimedWorkParams> = {},
): Promise<readonly string[]> {
  return (await find(store, params)).map(({ kind, name, version }) =>
    [kind, name, ...(version === null ? [] : [version])].join(' '),
  );
}

export const unclaimedWork: Capability = {
  title: 'unclaimed work',
  cases: [
    {
      id: 'unclaimed/lists-what-the-worker-cannot-run',
      title: 'findUnclaimedWork() lists due names and versions that the worker lacks, once each',
      async run(store) {
        await store.begin('a', {
          workItems: [workItem(1, { name: 'ship' }), workItem(2, { name: 'ship' }), workItem(3)],
        });
        await createTask(store, 'run', { name: 'mail' });
        await createTask(store, 'urgent', { name: 'mail', priority: 9 });
        await store.create('unpicked', { name: 'order' });
        await store.create('on 1', { name: 'order', version: '1' });
        await store.create('on 2', { name: 'order', version: '2' });
        await store.clock.advance(minWaitMs);
        expectInAnyOrder(await names(store), [
          'activity ship',
          'activity activity',
          'task mail',
          'orchestration order',
          'orchestration order 1',
          'orchestration order 2',
        ]);
        const runnable = [
          { name: 'order', version: null },
          { name: 'order', version: '2' },
        ];
        const known = { runnable, activities: ['activity', 'mail'], tasks: ['ship'] };
        expectInAnyOrder(await names(store, known), [
          'activity ship',
          'task mail',
          'orchestration order 1',
        ]);
      },
    },
    {
      id: 'unclaimed/work-must-have-waited',
      title: 'findUnclaimedWork() lists work exactly after it was due for minWaitMs',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.create('b', { name: 'order' });
        await store.clock.advance(minWaitMs - 1);
        assert.deepEqual(await find(store), []);
        await store.clock.advance(1);
        expectInAnyOrder(
          (await find(store)).map(({ name, dueForMs }) => `${name} ${dueForMs}`),
          [`activity ${minWaitMs}`, `order ${minWaitMs}`],
        );
      },
    },
    {
      id: 'unclaimed/only-what-may-be-claimed-counts',
      title: 'findUnclaimedWork() omits work that is held, delayed, flagged or expired',
      async run(store) {
        await store.begin('stopped', { workItems: [workItem(1, { name: 'stopped' })] });
        await store.claimWorkOne({ lockMs: 1 });
        await store.cancel('stopped');
        await store.commit(await store.claimOne(), {
          outcome: { status: 'canceled', reason: 'not wanted', cleanupSkipped: false },
        });
        await store.begin('held', { workItems: [workItem(1, { name: 'held' })] });
        await store.claimWorkOne();
        await store.create('claimed', { name: 'claimed' });
        await store.claimOne();
        const begun = await store.begin('later', {
          timers: [{ operation: 1, fireAt: store.clock.now() + 60_000 }],
        });
        assert.equal(begun.instanceId, 'later');
        await createTask(store, 'late', { name: 'late', runAt: store.clock.now() + 60_000 });
        await createTask(store, 'expired', {
          name: 'expired',
          expiresAt: store.clock.now() + minWaitMs,
        });
        await store.clock.advance(minWaitMs + 1);
        assert.deepEqual(await names(store), []);
      },
    },
    {
      id: 'unclaimed/a-live-claim-shows-that-a-worker-has-the-code',
      title: 'findUnclaimedWork() omits definitions of which a worker holds a claim',
      async run(store) {
        await store.begin('a', {
          workItems: [workItem(1), workItem(2), workItem(3, { name: 'ship' })],
        });
        await store.create('b', { name: 'order' });
        await store.create('c', { name: 'order' });
        await createTask(store, 'run', { name: 'mail' });
        await createTask(store, 'urgent', { name: 'mail', priority: 9 });
        await store.clock.advance(minWaitMs);
        await store.claimWorkOne({ max: 1, names: ['activity'], tasks: [] });
        await store.claimWorkOne({ max: 1, names: [], tasks: ['mail'] });
        await store.claimOne({ max: 1 });
        assert.deepEqual(await names(store), ['activity ship']);
      },
    },
    {
      id: 'unclaimed/a-lapsed-claim-counts-from-its-end',
      title: 'findUnclaimedWork() counts the wait of an expired claim from its expiry',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.create('b', { name: 'order' });
        await store.claimOne();
        await store.clock.advance(lockMs + minWaitMs - 1);
        assert.deepEqual(await names(store), []);
        await store.clock.advance(1);
        expectInAnyOrder(
          (await find(store)).map(({ name, dueForMs }) => `${name} ${dueForMs}`),
          [`activity ${minWaitMs}`, `order ${minWaitMs}`],
        );
      },
    },
    {
      id: 'unclaimed/the-longest-waiting-is-first',
      title: 'findUnclaimedWork() returns the longest due first, at most limit',
      async run(store) {
        for (const name of ['first', 'second', 'third']) {
          await store.create(name, { name });
          await store.clock.advance(10);
        }
        await store.clock.advance(minWaitMs);
        const [first, second, ...others] = await names(store, { limit: 2 });
        assert.deepEqual([first, second], ['orchestration first', 'orchestration second']);
        assert.deepEqual(others, []);
      },
    },
  ],
};
