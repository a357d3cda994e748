import assert from 'node:assert/strict';
import { placeBystander } from '../bystander.ts';
import type { Capability } from '../conformance-case.ts';
import {
  beginTree,
  completed,
  continued,
  createEnded,
  deleteTree,
  expectGone,
  forceDelete,
  numberedEvents,
  yearMs,
} from '../deletion-moves.ts';
import { child, event, newInstance, raised, workItem } from '../sample-data.ts';
import { expectInAnyOrder } from '../expectations.ts';
import { lockMs } from '../store-under-test.ts';

const nothing = {
  instancesDeleted: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
};

export const deletions: Capability = {
  title: 'deleting instances',
  cases: [
    {
      id: 'delete/takes-everything',
      title: 'history, executions, messages, timers, work items and locks go with their instance',
      async run(store) {
        const untouched = await placeBystander(store);
        const before = await store.provider.queueDepths();
        await store.begin('a', { events: numberedEvents(3), outcome: continued });
        const workItems = [workItem(1), workItem(2, { claimMs: lockMs })];
        const timers = [{ operation: 3, fireAt: store.clock.now() + 5 }];
        await store.commit(await store.claimOne(), {
          events: numberedEvents(4),
          workItems,
          timers,
          customStatus: '"x"',
        });
        await store.raise('a', 'x', 'y');
        await store.claimOne();
        assert.deepEqual(await forceDelete(store, 'a'), {
          instancesDeleted: 1,
          executionsDeleted: 2,
          eventsDeleted: 7,
          queueMessagesDeleted: 5,
        });
        await expectGone(store, ['a']);
        assert.deepEqual(await store.history('a', 2), []);
        assert.deepEqual(await store.provider.queueDepths(), before);
        assert.equal((await store.provider.systemMetrics()).finishedExecutions, 0);
        await store.expectIdle();
        await untouched();
      },
    },
    {
      id: 'delete/a-tree-goes-whole',
      title: 'an instance that is over goes with all its descendants, and nobody else does',
      async run(store) {
        const untouched = await placeBystander(store);
        await createEnded(store, 'other');
        const ids = await beginTree(store, completed);
        assert.deepEqual(await deleteTree(store, ids), {
          kind: 'deleted',
          counts: {
            instancesDeleted: 4,
            executionsDeleted: 4,
            eventsDeleted: 4,
            queueMessagesDeleted: 0,
          },
        });
        await expectGone(store, ids);
        assert.equal((await store.record('other')).status, 'completed');
        await untouched();
      },
    },
    {
      id: 'delete/every-end-is-an-end',
      title: 'what is completed, failed, canceled or terminated needs no force',
      async run(store) {
        await createEnded(store, 'completed');
        await store.begin('failed', { outcome: { status: 'failed', failure: '{}' } });
        await store.create('canceled');
        await store.cancel('canceled');
        await store.create('terminated');
        await store.terminate('terminated');
        for (const instanceId of ['completed', 'failed', 'canceled', 'terminated']) {
          assert.equal((await store.record(instanceId)).status, instanceId);
          assert.equal((await deleteTree(store, [instanceId])).kind, 'deleted');
          await expectGone(store, [instanceId]);
        }
      },
    },
    {
      id: 'delete/unknown-ids-count-nothing',
      title: 'unknown ids, and ids given twice, count as nothing, and so does an empty tree',
      async run(store) {
        const { provider } = store;
        assert.deepEqual(await provider.deleteInstancesAtomic([]), []);
        for (const ids of [[], ['nobody'], ['nobody', 'no one']]) {
          assert.deepEqual(await deleteTree(store, ids), { kind: 'deleted', counts: nothing });
        }
        await createEnded(store, 'a', 2);
        assert.deepEqual(await deleteTree(store, ['nobody', 'a', 'no one', 'a']), {
          kind: 'deleted',
          counts: { ...nothing, instancesDeleted: 1, executionsDeleted: 1, eventsDeleted: 2 },
        });
      },
    },
    {
      id: 'delete/what-is-not-over-needs-force',
      title:
        'a pending, a running or a canceling instance is refused without force, and goes with it',
      async run(store) {
        await store.begin('running');
        await store.begin('canceling');
        await store.cancel('canceling');
        await store.create('pending');
        for (const status of ['pending', 'running', 'canceling'] as const) {
          const refused = await store.expectNoChange(() => deleteTree(store, [status]));
          assert.deepEqual(refused, { kind: 'running', instanceId: status, status });
          await forceDelete(store, status);
          await expectGone(store, [status]);
        }
        await store.clock.advance(yearMs);
        await store.expectIdle();
      },
    },
    {
      id: 'delete/between-two-executions-is-running',
      title: 'an instance that has continued as new and not begun again is refused without force',
      async run(store) {
        await store.begin('a', { outcome: continued });
        const refused = await store.expectNoChange(() => deleteTree(store, ['a']));
        assert.deepEqual(refused, { kind: 'running', instanceId: 'a', status: 'running' });
        assert.equal((await forceDelete(store, 'a')).executionsDeleted, 2);
        await store.expectIdle();
      },
    },
    {
      id: 'delete/a-canceled-end-that-waits-is-running',
      title: 'an instance that waits for its last activity to stop is refused without force',
      async run(store) {
        const { claimed } = await store.begin('a', {
          workItems: [workItem(1, { claimMs: lockMs })],
        });
        await store.cancel('a');
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: false } as const;
        await store.commit(await store.claimOne(), { outcome });
        assert.equal((await deleteTree(store, ['a'])).kind, 'running');
        for (const { lockToken } of claimed) {
          await store.ackWork(lockToken, { kind: 'canceled', leaked: false });
        }
        assert.equal((await deleteTree(store, ['a'])).kind, 'deleted');
      },
    },
    {
      id: 'delete/a-running-child-keeps-the-tree',
      title: 'a root that is over stays, with all its tree, while one below it is not over',
      async run(store) {
        const cancellation = 'abandon' as const;
        const children = [child('kid', 1, { cancellation })];
        await store.begin('root', { children, outcome: completed });
        const refused = await store.expectNoChange(() => deleteTree(store, ['kid', 'root']));
        assert.deepEqual(refused, { kind: 'running', instanceId: 'kid', status: 'pending' });
        await store.commit(await store.claimOne(), { outcome: completed });
        assert.equal((await deleteTree(store, ['kid', 'root'])).kind, 'deleted');
      },
    },
    {
      id: 'delete/refuses-to-leave-an-orphan',
      title: 'a parent never goes without its child, with or without force, over or not',
      async run(store) {
        const ids = await beginTree(store);
        const orphan = { kind: 'orphan', instanceId: 'leaf', parentInstanceId: 'left' };
        const partly = ['left', 'right', 'root'];
        const force = await store.expectNoChange(() => deleteTree(store, partly, { force: true }));
        assert.deepEqual(force, orphan);
        await store.terminate('root', { tree: true });
        await store.terminate('left');
        await store.terminate('right');
        await store.terminate('leaf');
        assert.deepEqual(await store.expectNoChange(() => deleteTree(store, partly)), orphan);
        assert.equal((await deleteTree(store, ids)).kind, 'deleted');
        await expectGone(store, ids);
      },
    },
    {
      id: 'delete/children-come-before-their-parents',
      title: 'a tree in which a parent stands before its child is refused',
      async run(store) {
        await beginTree(store, completed);
        const wrong = ['leaf', 'root', 'left', 'right'];
        const refused = await store.expectNoChange(() => deleteTree(store, wrong));
        assert.equal(refused.kind, 'orphan');
        assert.equal(refused.parentInstanceId, 'root');
      },
    },
    {
      id: 'delete/a-child-born-meanwhile-is-no-orphan',
      title: 'a tree that has grown since it was read is refused, and goes when it is read again',
      async run(store) {
        await store.begin('root');
        await store.raise('root', 'grow');
        const underWay = await store.claimOne();
        const read = await store.provider.listChildren(['root']);
        assert.deepEqual(read, [[]]);
        await store.commit(underWay, { children: [child('kid', 1)] });
        const refused = await store.expectNoChange(() =>
          deleteTree(store, ['root'], { force: true }),
        );
        assert.deepEqual(refused, {
          kind: 'orphan',
          instanceId: 'kid',
          parentInstanceId: 'root',
        });
        assert.equal((await forceDelete(store, 'kid', 'root')).instancesDeleted, 2);
        await store.expectIdle();
      },
    },
    {
      id: 'delete/a-later-life-is-not-meant',
      title:
        'a tree whose root is gone or has come again is left alone, with all that its ids mean now',
      async run(store) {
        const { incarnation: rootIncarnation } = await createEnded(store, 'root');
        await forceDelete(store, 'root');
        await createEnded(store, 'kid');
        for (const create of [() => Promise.resolve(), () => createEnded(store, 'root')]) {
          await create();
          const refused = await store.expectNoChange(() =>
            deleteTree(store, ['kid', 'root'], { rootIncarnation, force: true }),
          );
          assert.deepEqual(refused, { kind: 'replaced' });
        }
        const { incarnation } = await store.record('root');
        const result = await deleteTree(store, ['root'], { rootIncarnation: incarnation });
        assert.equal(result.kind, 'deleted');
        await expectGone(store, ['root']);
      },
    },
    {
      id: 'delete/a-dry-run-changes-nothing',
      title: 'a dry run answers what the deletion would, and changes nothing',
      async run(store) {
        const dryRun = true;
        const cancellation = 'abandon' as const;
        const workItems = [workItem(1, { claimMs: lockMs, cancellation })];
        const { incarnation } = await store.begin('a', { workItems, outcome: completed });
        await store.begin('running');
        await beginTree(store, completed);
        const trees = [
          { instanceIds: ['a'], force: false, rootIncarnation: incarnation },
          { instanceIds: ['running'], force: false },
          { instanceIds: ['left', 'root'], force: true },
          { instanceIds: ['right'], force: false, rootIncarnation: 'another' },
          { instanceIds: ['nobody'], force: false },
        ];
        const depths = await store.provider.queueDepths();
        const dry = await store.expectNoChange(() =>
          store.provider.deleteInstancesAtomic(trees.map((tree) => ({ ...tree, dryRun }))),
        );
        assert.deepEqual(await store.provider.queueDepths(), depths);
        assert.deepEqual(
          dry.map(({ kind }) => kind),
          ['deleted', 'running', 'orphan', 'replaced', 'deleted'],
        );
        assert.deepEqual(await store.provider.deleteInstancesAtomic(trees), dry);
        const mixed = [
          { instanceIds: ['running'], force: true, dryRun },
          { instanceIds: ['leaf', 'left', 'right', 'root'], force: true },
        ];
        await store.provider.deleteInstancesAtomic(mixed);
        assert.equal((await store.record('running')).status, 'running');
        await expectGone(store, ['leaf', 'left', 'right', 'root']);
      },
    },
    {
      id: 'delete/a-refused-tree-spares-its-neighbours',
      title: 'in one call each tree is judged for itself',
      async run(store) {
        const untouched = await placeBystander(store);
        await createEnded(store, 'first');
        await store.begin('running');
        const ids = await beginTree(store, completed);
        await createEnded(store, 'last');
        const results = await store.provider.deleteInstancesAtomic(
          [['first'], ['running'], ['root'], ['nobody'], ids, ['last']].map((instanceIds) => ({
            instanceIds,
            force: false,
          })),
        );
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['deleted', 'running', 'orphan', 'deleted', 'deleted', 'deleted'],
        );
        await expectGone(store, ['first', 'last', ...ids]);
        assert.equal((await store.record('running')).status, 'running');
        await untouched();
      },
    },
    {
      id: 'delete/leaves-the-id-free',
      title:
        'a deleted id can be given at once to another name and input, which begins from nothing',
      async run(store) {
        const old = await store.begin('a', { events: numberedEvents(3), customStatus: '"old"' });
        await store.raise('a', 'never read');
        await forceDelete(store, 'a');
        const instanceKey = await store.create('a', { name: 'other', inputHash: 'other' });
        assert.notEqual(instanceKey, old.instanceKey);
        const { status, customStatus, executionId } = await store.record('a');
        assert.deepEqual([status, customStatus, executionId], ['pending', null, 1]);
        const item = await store.claimOne();
        assert.deepEqual(
          [item.name, item.historyLength, item.lastTurn, item.messages.length],
          ['other', 0, null, 1],
        );
        await store.commit(item, { events: [event('new')] });
        assert.deepEqual(await store.historyLabels('a'), ['new']);
        await store.expectIdle();
      },
    },
    {
      id: 'delete/nobody-is-left-to-tell',
      title: 'messages and requests to a deleted instance find nobody, and its timers wake nobody',
      async run(store) {
        const timers = [{ operation: 1, fireAt: store.clock.now() + 50 }];
        await store.begin('a', { timers });
        await forceDelete(store, 'a');
        const message = raised('x');
        const sent = await store.provider.enqueueMessages([{ instanceId: 'a', message }]);
        assert.deepEqual(sent, ['missing']);
        const notFound = { found: false, changed: false, status: null };
        assert.deepEqual(await store.cancel('a'), notFound);
        assert.deepEqual(await store.terminate('a'), notFound);
        await store.begin('a');
        await store.clock.advance(yearMs);
        await store.expectIdle();
      },
    },
    {
      id: 'delete/a-large-tree-goes-at-one-moment',
      title: 'a root goes with 2,000 children in one call, and all of them are gone at once',
      async run(store) {
        const ids = Array.from({ length: 2_000 }, (_, index) => `kid ${index}`);
        await store.begin('root', {
          events: numberedEvents(2_000),
          children: ids.map((id, index) => child(id, index + 1)),
        });
        const firstTurn = { events: numberedEvents(2), workItems: [workItem(1)] };
        for (const item of await store.claim({ max: 2_000 })) await store.commit(item, firstTurn);
        await store.create('other');
        const counts = await forceDelete(store, ...ids, 'root');
        assert.deepEqual(counts, {
          instancesDeleted: 2_001,
          executionsDeleted: 2_001,
          eventsDeleted: 6_000,
          queueMessagesDeleted: 2_000,
        });
        await expectGone(store, [...ids, 'root']);
        await store.commit(await store.claimOne());
        await store.expectIdle();
      },
    },
    {
      id: 'delete/concurrent-deletions-count-once',
      title: 'of deletions of one tree at the same time one counts it, and the others nothing',
      async run(store) {
        const ids = await beginTree(store, completed);
        const results = await Promise.all([0, 1, 2].map(() => deleteTree(store, ids)));
        const counts = results.map((result) =>
          result.kind === 'deleted' ? result.counts.instancesDeleted : -1,
        );
        expectInAnyOrder(counts, [0, 0, 4]);
      },
    },
    {
      id: 'delete/a-start-at-the-same-time-is-whole',
      title: 'an id that is deleted and started at the same time is there whole or not at all',
      async run(store) {
        await createEnded(store, 'a');
        const [, [started]] = await Promise.all([
          deleteTree(store, ['a']),
          store.provider.createInstances([newInstance('a')]),
          deleteTree(store, ['a']),
        ]);
        const [record] = await store.provider.getInstances(['a']);
        assert.equal(started?.kind === 'created', record !== undefined);
        const claimable = await store.claim();
        assert.equal(claimable.length, record === undefined ? 0 : 1);
      },
    },
  ],
};
