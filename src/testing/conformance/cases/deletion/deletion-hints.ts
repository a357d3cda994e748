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
} from '../../deletion-helpers.ts';
import { workItem } from '../../sample-data.ts';
import { expectInAnyOrder, only } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import { withTimeLimit } from '../../time-limit.ts';

export const deletionHints: Capability = {
  title: 'deletion hints',
  cases: [
    {
      id: 'delete/notifies-waiting-clients',
      title: 'a deletion emits finished for all its ids; rejections and dry runs do not',
      async run(store) {
        await store.begin('running');
        const ids = await beginTree(store, completed);
        const { hints, next, stop } = collectHints(store.provider);
        await deleteTree(store, ['running']);
        await deleteTree(store, ids, { dryRun: true });
        assert.deepEqual(
          hints.filter(({ kind }) => kind !== 'committed'),
          [],
        );
        await deleteTree(store, [...ids, 'nobody']);
        expectInAnyOrder((await next('finished')).instanceIds, ids);
        assert.deepEqual(await store.provider.getInstances(['root']), [undefined]);
        stop();
      },
    },
    {
      id: 'delete/notifies-running-handlers',
      title:
        'a deletion emits cancelRequested for held work items, and their renewals return deleted',
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
      title: 'deleting an ended instance emits cancelRequested for its abandoned work item',
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
      id: 'prune/notifies-running-handlers',
      title: 'a prune emits cancelRequested for held work items of the pruned execution',
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
      title: 'a deletion by another process emits cancelRequested for work items held here',
      async run(store) {
        const other = await store.reopen();
        await createEnded(store, 'unrelated');
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const tokens = (await store.claimWork()).map(({ lockToken }) => lockToken);
        const received: string[] = [];
        const { promise, resolve } = Promise.withResolvers<void>();
        store.provider.hints((hint) => {
          if (hint.kind === 'cancelRequested') received.push(...hint.lockTokens);
          if (received.length >= tokens.length) resolve();
        });
        await other.deleteInstancesAtomic([{ instanceIds: ['a'], force: true }]);
        await withTimeLimit(promise, 'a hint of the deletion');
        expectInAnyOrder(received, tokens);
        for (const lockToken of tokens) {
          assert.deepEqual(await store.renewWork(lockToken), { held: false, deleted: true });
        }
      },
    },
  ],
};
