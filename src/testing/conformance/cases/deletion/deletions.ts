import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  beginTree,
  completed,
  continued,
  createEnded,
  deleteTree,
  expectDeleted,
  forceDelete,
  numberedEvents,
  yearMs,
} from '../../deletion-helpers.ts';
import { child, event, newInstance, raised, workItem } from '../../sample-data.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';

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
      title: 'a deletion removes history, executions, messages, timers, work items and locks',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
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
        await expectDeleted(store, ['a']);
        assert.deepEqual(await store.history('a', 2), []);
        assert.deepEqual(await store.provider.queueDepths(), before);
        assert.equal((await store.provider.systemMetrics()).finishedExecutions, 0);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'delete/a-tree-goes-whole',
      title: 'deleting an ended tree removes all its descendants and no other instance',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
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
        await expectDeleted(store, ids);
        assert.equal((await store.record('other')).status, 'completed');
        await expectUnchanged();
      },
    },
    {
      id: 'delete/every-end-is-an-end',
      title: 'completed, failed, canceled and terminated instances are deleted without force',
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
          await expectDeleted(store, [instanceId]);
        }
      },
    },
    {
      id: 'delete/unknown-ids-count-nothing',
      title: 'unknown ids, duplicate ids and empty trees add nothing to the deletion counts',
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
      id: 'delete/a-dry-run-changes-nothing',
      title: 'a deletion dry run returns the results of the deletion and changes nothing',
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
        await expectDeleted(store, ['leaf', 'left', 'right', 'root']);
      },
    },
    {
      id: 'delete/leaves-the-id-free',
      title: 'a deleted id can be reused immediately with another name and input',
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
      id: 'delete/leaves-no-message-to-a-parent',
      title:
        'enqueueMessages(), requestCancel() and terminate() do not find a deleted instance; its timers never fire',
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
      title: 'a root with 2,000 children is deleted in one call',
      async run(store) {
        const ids = Array.from({ length: 2_000 }, (_, index) => `kid ${index}`);
        await store.begin('root', {
          events: numberedEvents(2_000),
          children: ids.map((id, index) => child(id, index + 1)),
        });
        const firstTurn = { events: numberedEvents(2), workItems: [workItem(1)] };
        const items = await store.claim({ max: 2_000 });
        await Promise.all(items.map((item) => store.commit(item, firstTurn)));
        await store.create('other');
        const counts = await forceDelete(store, ...ids, 'root');
        assert.deepEqual(counts, {
          instancesDeleted: 2_001,
          executionsDeleted: 2_001,
          eventsDeleted: 6_000,
          queueMessagesDeleted: 2_000,
        });
        await expectDeleted(store, [...ids, 'root']);
        await store.commit(await store.claimOne());
        await store.expectIdle();
      },
    },
    {
      id: 'delete/concurrent-deletions-count-once',
      title: 'concurrent deletions of one tree count it once',
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
      title: 'a start concurrent with a deletion creates a complete instance or none',
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
