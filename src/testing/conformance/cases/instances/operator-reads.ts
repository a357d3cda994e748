import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  beginTree,
  completed,
  createEnded,
  forceDelete,
  numberedEvents,
  prune,
  runExecutions,
} from '../../deletion-helpers.ts';
import { detached, raised, workItem } from '../../sample-data.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { createTask, newTask, startTask } from '../../task-helpers.ts';
import { lockMs } from '../../store-under-test.ts';

export const operatorReads: Capability = {
  title: 'operator reads',
  cases: [
    {
      id: 'family/children-come-in-the-order-asked',
      title: 'listChildren() returns the direct children per id, and none for unknown ids',
      async run(store) {
        await beginTree(store);
        const { provider } = store;
        const lists = await provider.listChildren(['left', 'nobody', 'root', 'leaf', 'left']);
        const [left, nobody, root, leaf, again] = lists;
        assert.equal(lists.length, 5);
        assert.deepEqual([left, nobody, leaf, again], [['leaf'], [], [], ['leaf']]);
        expectInAnyOrder(root ?? [], ['left', 'right']);
        assert.deepEqual(await provider.listChildren([]), []);
      },
    },
    {
      id: 'family/detached-ones-have-no-parent',
      title: 'a detached instance is a root and not a child of its starter',
      async run(store) {
        await store.begin('a', { children: [detached('free')] });
        assert.deepEqual(await store.provider.listChildren(['a']), [[]]);
        assert.equal(await store.provider.getParentId('free'), null);
        assert.equal((await forceDelete(store, 'a')).instancesDeleted, 1);
        assert.equal((await store.record('free')).status, 'pending');
      },
    },
    {
      id: 'family/a-parent-is-named',
      title: 'getParentId() returns the parent, null for a root and undefined for unknown ids',
      async run(store) {
        await beginTree(store, completed);
        const ids = ['leaf', 'left', 'root', 'nobody'];
        const parents = await Promise.all(ids.map((id) => store.provider.getParentId(id)));
        assert.deepEqual(parents, ['left', 'root', null, undefined]);
      },
    },
    {
      id: 'figures/queues-are-counted',
      title: 'queueDepths() counts ready, delayed and claimed entries with the oldest ready time',
      async run(store) {
        const { provider, clock } = store;
        const none = { ready: 0, delayed: 0, claimed: 0, paused: 0, oldestReadyAt: null };
        const empty = { orchestrations: none, activities: none, tasks: none, messages: 0 };
        assert.deepEqual(await provider.queueDepths(), empty);
        const fireAt = clock.now() + 10 * lockMs;
        const workItems = [workItem(1), workItem(2), workItem(3, { claimMs: lockMs }), workItem(4)];
        await store.begin('waits', { workItems, timers: [{ operation: 9, fireAt }] });
        const [first] = await store.claimWork({ max: 1 });
        const retry = { lockToken: first?.lockToken ?? '', delayMs: 5 * lockMs, failure: '{}' };
        await provider.retryWorkItems([retry]);
        const since = clock.now();
        await store.create('held');
        await store.claimOne();
        await clock.advance(1);
        await store.create('ready');
        await store.raise('ready', 'x');
        const oldestReadyAt = since;
        assert.deepEqual(await provider.queueDepths(), {
          orchestrations: { ready: 1, delayed: 1, claimed: 1, paused: 0, oldestReadyAt: since + 1 },
          activities: { ready: 2, delayed: 1, claimed: 1, paused: 0, oldestReadyAt },
          tasks: none,
          messages: 4,
        });
        await clock.advance(lockMs);
        const { orchestrations, activities } = await provider.queueDepths();
        assert.deepEqual(
          [orchestrations.ready, orchestrations.claimed, activities.ready, activities.claimed],
          [2, 0, 3, 0],
        );
      },
    },
    {
      id: 'figures/queues-are-counted-in-parts',
      title: 'queueDepths() counts each of 10,100 entries once',
      async run(store) {
        const { provider } = store;
        const count = 10_100;
        await store.create('receives');
        const messages = Array.from({ length: count - 1 }, (_, index) => ({
          instanceId: 'receives',
          message: raised(`${index}`),
        }));
        await provider.enqueueMessages(messages);
        const runs = Array.from({ length: count }, (_, index) => newTask(`t${index}`));
        for (let at = 0; at < count; at += 2_000) {
          await provider.createTasks(runs.slice(at, at + 2_000));
        }
        await store.claimWork({ max: 10 });
        const depths = await provider.queueDepths();
        assert.equal(depths.messages, count);
        assert.deepEqual([depths.tasks.ready, depths.tasks.claimed], [count - 10, 10]);
        assert.equal(depths.orchestrations.ready, 1);
      },
    },
    {
      id: 'figures/queues-by-definition',
      title: 'definitionQueues() counts the entries of each definition in their states',
      async run(store) {
        const { provider, clock } = store;
        const read = () => provider.definitionQueues({ cap: 100, limit: 10 });
        assert.deepEqual(await read(), []);
        const since = clock.now();
        const workItems = [
          ...[1, 2, 3].map((operation) => workItem(operation, { name: 'charge' })),
          workItem(4, { name: 'mail' }),
        ];
        const fireAt = clock.now() + 10 * lockMs;
        await store.begin('a', { workItems, timers: [{ operation: 9, fireAt }] });
        const [held, failed] = await store.claimWork({ names: ['charge'], max: 2 });
        const retry = { lockToken: failed?.lockToken ?? '', delayMs: 5 * lockMs, failure: '{}' };
        await provider.retryWorkItems([retry]);
        await clock.advance(1);
        await createTask(store, 'urgent', { name: 'resize', priority: 5 });
        await createTask(store, 'later', { name: 'resize', priority: -5, runAt: fireAt });
        const none = { ready: 0, delayed: 0, claimed: 0, paused: 0, oldestReadyAt: null };
        const [charge, mail, resize, sample] = [
          { kind: 'activity', name: 'charge', ...none, capped: false },
          { kind: 'activity', name: 'mail', ...none, capped: false },
          { kind: 'task', name: 'resize', ...none, capped: false },
          { kind: 'orchestration', name: 'sample', ...none, capped: false },
        ];
        assert.deepEqual(await read(), [
          { ...charge, ready: 1, delayed: 1, claimed: 1, oldestReadyAt: since },
          { ...mail, ready: 1, oldestReadyAt: since },
          { ...resize, ready: 1, delayed: 1, oldestReadyAt: since + 1 },
          { ...sample, delayed: 1 },
        ]);
        await store.cancel('a');
        const canceled = (await read()).find(({ name }) => name === 'charge');
        assert.equal(canceled?.claimed, 1);
        assert.ok(held);
        const { orchestrations, activities, tasks } = await provider.queueDepths();
        for (const [kind, total] of [
          ['orchestration', orchestrations],
          ['activity', activities],
          ['task', tasks],
        ] as const) {
          const own = (await read()).filter((one) => one.kind === kind);
          for (const state of ['ready', 'delayed', 'claimed', 'paused'] as const) {
            assert.equal(
              own.reduce((sum, one) => sum + one[state], 0),
              total[state],
              `${kind} ${state}`,
            );
          }
        }
      },
    },
    {
      id: 'figures/queues-by-definition-are-paused',
      title: 'definitionQueues() counts entries of paused instances and definitions as paused',
      async run(store) {
        const { provider } = store;
        const workItems = [workItem(1, { name: 'charge' }), workItem(2, { name: 'mail' })];
        await store.begin('a', { workItems });
        await store.begin('b', { workItems });
        await store.claimWork({ names: ['charge'], max: 1 });
        await provider.pauseInstances([
          { instanceId: 'a', tree: false, reason: null, actor: null },
          { instanceId: 'b', tree: false, reason: null, actor: null },
        ]);
        const states = async () =>
          (await provider.definitionQueues({ cap: 100, limit: 10 })).map((one) => [
            one.name,
            one.ready,
            one.claimed,
            one.paused,
            one.oldestReadyAt,
          ]);
        expectInAnyOrder(await states(), [
          ['charge', 0, 1, 1, null],
          ['mail', 0, 0, 2, null],
        ]);
        await provider.resumeInstances([
          { instanceId: 'a', tree: false },
          { instanceId: 'b', tree: false },
        ]);
        await provider.pauseDefinitions([
          { kind: 'activity', name: 'mail', reason: null, actor: null },
        ]);
        const mail = (await states()).find(([name]) => name === 'mail');
        assert.deepEqual(mail, ['mail', 0, 0, 2, null]);
      },
    },
    {
      id: 'figures/queues-by-definition-are-capped',
      title: 'definitionQueues() stops at its cap and returns the longest waiting first',
      async run(store) {
        const { provider, clock } = store;
        const first = clock.now();
        await createTask(store, 'old', { name: 'resize', priority: -50 });
        await clock.advance(10);
        for (const id of ['r1', 'r2', 'r3']) await createTask(store, id, { name: 'resize' });
        await createTask(store, 'm1', { name: 'mail' });
        const read = (limit: number) => provider.definitionQueues({ cap: 2, limit });
        const [resize, mail] = await read(10);
        assert.deepEqual(
          [resize?.name, resize?.ready, resize?.capped, resize?.oldestReadyAt],
          ['resize', 2, true, first],
        );
        assert.deepEqual([mail?.name, mail?.ready, mail?.capped], ['mail', 1, false]);
        assert.equal((await read(1)).length, 1);
      },
    },
    {
      id: 'figures/the-store-is-counted',
      title: 'systemMetrics() counts instances per status, finished executions and bytes',
      async run(store) {
        const { provider } = store;
        const none = { pending: 0, running: 0, canceling: 0 };
        const noEnds = {
          completed: 0,
          failed: 0,
          canceled: 0,
          terminated: 0,
          skipped: 0,
          expired: 0,
        };
        const before = await provider.systemMetrics();
        assert.deepEqual(before.instances, { ...none, ...noEnds });
        assert.equal(before.finishedExecutions, 0);
        await runExecutions(store, 'eternal', { count: 4 });
        await createEnded(store, 'c1', 2_000);
        await createEnded(store, 'c2');
        await store.begin('failed', { outcome: { status: 'failed', failure: '{}' } });
        await store.begin('canceling');
        await store.cancel('canceling');
        for (const id of ['p1', 'p2', 'p3']) await store.create(id);
        await store.cancel('p3');
        await store.terminate('p2');
        const { lockToken } = await startTask(store, 'skipped');
        await store.ackWork(lockToken, { kind: 'skipped' });
        await createTask(store, 'expired', { expiresAt: store.clock.now() });
        assert.deepEqual(await store.claimWork(), []);
        const now = await provider.systemMetrics();
        assert.deepEqual(now.instances, {
          pending: 1,
          running: 1,
          canceling: 1,
          completed: 2,
          failed: 1,
          canceled: 1,
          terminated: 1,
          skipped: 1,
          expired: 1,
        });
        assert.equal(now.finishedExecutions, 3);
        assert.equal(now.pendingReclaims, 0);
        assert.ok(now.storageBytes > before.storageBytes, 'a store that grows takes up more');
        assert.ok(now.reclaimableBytes >= 0 && now.reclaimableBytes < now.storageBytes);
        await prune(store, 'eternal', { keepLast: 3 });
        assert.equal((await provider.systemMetrics()).finishedExecutions, 2);
      },
    },
    {
      id: 'figures/an-instance-is-measured',
      title:
        'measureInstance() counts the data of one instance and returns undefined for unknown ids',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await runExecutions(store, 'a', { count: 3 });
        await store.raise('a', 'go', 'on');
        await store.commit(await store.claimOne(), {
          events: numberedEvents(4),
          workItems: [workItem(1), workItem(2)],
          timers: [{ operation: 3, fireAt: store.clock.now() + lockMs }],
          children: [],
        });
        await store.raise('a', 'x');
        const { provider } = store;
        assert.deepEqual(await provider.measureInstance('a'), {
          executions: 3,
          events: 7,
          children: 0,
          messages: 2,
          activities: 2,
        });
        assert.equal(await provider.measureInstance('nobody'), undefined);
        await forceDelete(store, 'a');
        await beginTree(store);
        assert.equal((await provider.measureInstance('root'))?.children, 2);
        await expectUnchanged();
      },
    },
  ],
};
