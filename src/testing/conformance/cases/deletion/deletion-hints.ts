import assert from 'node:assert/strict';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  beginTree,
  completed,
  createEnded,
  deleteTree,
  forceDelete,
  prune,
  runExecutions,
} from '../../deletion-moves.ts';
import { workItem } from '../../sample-data.ts';
import { expectInAnyOrder, only } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import { answered } from '../../time-limit.ts';

export const deletionHints: Capability = {
  title: 'hints of deletions',
  cases: [
    {
      id: 'delete/tells-whoever-waits',
      title:
        'all ids of a tree are told as finished once they are gone, and those of a refused one not',
      async run(store) {
        await store.begin('running');
        const ids = await beginTree(store, completed);
        const { hints, next, stop } = collectHints(store.provider);
        await deleteTree(store, ['running']);
        await deleteTree(store, ids, { dryRun: true });
        assert.deepEqual(hints, []);
        await deleteTree(store, [...ids, 'nobody']);
        expectInAnyOrder((await next('finished')).instanceIds, ids);
        assert.deepEqual(await store.provider.getInstances(['root']), [undefined]);
        stop();
      },
    },
    {
      id: 'delete/tells-whoever-runs-its-work',
      title: 'whoever holds an item of a deleted instance is told, and learns why by renewing',
      async run(store) {
        const workItems = [1, 2, 3].map((operation) => workItem(operation, { claimMs: lockMs }));
        const { claimed } = await store.begin('a', { workItems: [...workItems, workItem(4)] });
        const tokens = claimed.map(({ lockToken }) => lockToken);
        const [first, second, ...others] = tokens;
        assert.ok(first !== undefined && second !== undefined);
        await store.provider.markPointOfNoReturn(first);
        await store.clock.advance(lockMs / 2);
        await store.provider.renewWorkItemLocks([{ lockToken: first }], lockMs);
        await store.provider.renewWorkItemLocks([{ lockToken: second }], lockMs);
        await store.clock.advance(lockMs / 2);
        const { next, stop } = collectHints(store.provider);
        assert.equal((await forceDelete(store, 'a')).queueMessagesDeleted, 4);
        expectInAnyOrder((await next('cancelRequested')).lockTokens, [first, second]);
        stop();
        assert.deepEqual(await store.renewWork(first), { held: false, deleted: true });
        assert.deepEqual(await store.renewWork(first), { held: false, deleted: true });
        for (const lost of others) assert.deepEqual(await store.renewWork(lost), { held: false });
        await store.clock.advance(lockMs / 2);
        assert.deepEqual(await store.renewWork(second), { held: false });
      },
    },
    {
      id: 'delete/tells-of-work-that-outlived-its-instance',
      title: 'also who still runs something of an instance that is over is told of its deletion',
      async run(store) {
        const cancellation = 'abandon' as const;
        const workItems = [workItem(1, { claimMs: lockMs, cancellation })];
        const { claimed } = await store.begin('a', { workItems, outcome: completed });
        const { lockToken } = only(claimed, 'claimed item');
        const { next, stop } = collectHints(store.provider);
        assert.equal((await deleteTree(store, ['a'])).kind, 'deleted');
        assert.deepEqual((await next('cancelRequested')).lockTokens, [lockToken]);
        assert.deepEqual(await store.renewWork(lockToken), { held: false, deleted: true });
        stop();
      },
    },
    {
      id: 'prune/tells-whoever-runs-its-work',
      title: 'whoever holds an item of a pruned execution is told as of a deletion',
      async run(store) {
        const cancellation = 'abandon' as const;
        const workItems = [workItem(1, { claimMs: 10 * lockMs, cancellation })];
        await runExecutions(store, 'a', { count: 3, parts: { workItems } });
        const running = await store.provider.listRunningItems('a');
        assert.equal(running.length, 2);
        const { next, stop } = collectHints(store.provider);
        assert.equal((await prune(store, 'a', { max: 1 })).queueMessagesDeleted, 1);
        const lockToken = only((await next('cancelRequested')).lockTokens, 'token');
        assert.deepEqual(await store.renewWork(lockToken), { held: false, deleted: true });
        assert.equal((await store.provider.listRunningItems('a')).length, 1);
        stop();
      },
    },
    {
      id: 'shared/a-deletion-elsewhere-is-told',
      title: 'whoever runs an item is told that another process has deleted its instance',
      async run(store) {
        const other = await store.reopen();
        await createEnded(store, 'unrelated');
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const tokens = (await store.claimWork()).map(({ lockToken }) => lockToken);
        const told: string[] = [];
        const { promise, resolve } = Promise.withResolvers<void>();
        store.provider.hints((hint) => {
          if (hint.kind === 'cancelRequested') told.push(...hint.lockTokens);
          if (told.length >= tokens.length) resolve();
        });
        await other.deleteInstancesAtomic([{ instanceIds: ['a'], force: true }]);
        await answered(promise, 'a hint of the deletion');
        expectInAnyOrder(told, tokens);
        for (const lockToken of tokens) {
          assert.deepEqual(await store.renewWork(lockToken), { held: false, deleted: true });
        }
      },
    },
  ],
};
