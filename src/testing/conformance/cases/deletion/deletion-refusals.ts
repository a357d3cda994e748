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
  yearMs,
} from '../../deletion-helpers.ts';
import { child, workItem } from '../../sample-data.ts';
import { lockMs } from '../../store-under-test.ts';

export const deletionRefusals: Capability = {
  title: 'rejected deletions',
  cases: [
    {
      id: 'delete/what-is-not-over-needs-force',
      title: 'pending, running and canceling instances are deleted only with force',
      async run(store) {
        await store.begin('running');
        await store.begin('canceling');
        await store.cancel('canceling');
        await store.create('pending');
        for (const status of ['pending', 'running', 'canceling'] as const) {
          const refused = await store.expectNoChange(() => deleteTree(store, [status]));
          assert.deepEqual(refused, { kind: 'running', instanceId: status, status });
          await forceDelete(store, status);
          await expectDeleted(store, [status]);
        }
        await store.clock.advance(yearMs);
        await store.expectIdle();
      },
    },
    {
      id: 'delete/between-two-executions-is-running',
      title: 'an instance between two executions is deleted only with force',
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
      title: 'an instance that waits for its last activity to stop is not deleted without force',
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
      title: 'an ended root is not deleted while a descendant has not ended',
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
      title: 'a deletion that omits a child returns orphan, with or without force',
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
        await expectDeleted(store, ids);
      },
    },
    {
      id: 'delete/children-come-before-their-parents',
      title: 'a deletion that lists a parent before its child returns orphan',
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
      title: 'a deletion returns orphan if a child was added after the tree was read',
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
      title: 'a deletion returns replaced if the root was deleted or has another incarnation',
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
        await expectDeleted(store, ['root']);
      },
    },
    {
      id: 'delete/a-refused-tree-spares-its-neighbours',
      title: 'a rejected tree in a batch does not affect the other trees',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
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
        await expectDeleted(store, ['first', 'last', ...ids]);
        assert.equal((await store.record('running')).status, 'running');
        await expectUnchanged();
      },
    },
  ],
};
