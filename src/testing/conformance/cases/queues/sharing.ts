import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { collectHints } from '../../collect-hints.ts';
import { abandon, openSession, startJob, submit, taskJob } from '../../job-helpers.ts';
import { event, newInstance, newTurn, workItem } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost, only } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';
import { withTimeLimit, expectPending } from '../../time-limit.ts';

const fetch = { max: 100, lockMs, waitMs: 0 };

export const sharing: Capability = {
  title: 'stores shared by several processes',
  cases: [
    {
      id: 'shared/state-survives-a-restart',
      title: 'committed state is readable after the store is closed and reopened',
      async run(store) {
        await store.begin('a', {
          events: [event('one')],
          workItems: [workItem(1)],
          timers: [{ operation: 2, fireAt: store.clock.now() + 10 }],
          customStatus: '"busy"',
        });
        const record = await store.record('a');
        await store.provider.close();
        const again = await store.reopen();
        assert.deepEqual(await again.getInstances(['a']), [record]);
        const history = { instanceId: 'a', executionId: 1, after: 0, limit: 10 };
        assert.deepEqual(await again.readInstanceHistory(history), [event('one')]);
        assert.equal(only(await again.fetchWorkItems(fetch), 'work item').operation, 1);
        await store.clock.advance(10);
        const { messages } = only(await again.fetchOrchestrationItems(fetch), 'instance');
        assert.equal(only(messages, 'message').kind, 'timerFired');
      },
    },
    {
      id: 'shared/claims-exclude-each-other',
      title: 'a claim of one process excludes other processes until it expires',
      async run(store) {
        const other = await store.reopen();
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        const work = await store.claimWorkOne();
        assert.deepEqual(await other.fetchOrchestrationItems(fetch), []);
        assert.deepEqual(await other.fetchWorkItems(fetch), []);
        await store.clock.advance(lockMs);
        assert.equal(only(await other.fetchOrchestrationItems(fetch), 'instance').claims, 2);
        assert.equal(only(await other.fetchWorkItems(fetch), 'work item').claims, 2);
        expectLockLost(await store.ack(item));
        expectLockLost(await store.ackWork(work.lockToken));
      },
    },
    {
      id: 'shared/a-token-works-in-every-process',
      title: 'another process can ack a claim with its token',
      async run(store) {
        const other = await store.reopen();
        await store.create('a');
        const { lockToken, messages } = await store.claimOne();
        const messageKeys = messages.map(({ messageKey }) => messageKey);
        const turn = newTurn({ events: [event('elsewhere')] });
        expectCommitted(
          only(await other.ackOrchestrationItems([{ lockToken, messageKeys, turn }]), 'result'),
        );
        assert.deepEqual(await store.historyLabels('a'), ['elsewhere']);
      },
    },
    {
      id: 'shared/starts-are-idempotent-across-processes',
      title: 'concurrent starts of one id by two processes create one instance',
      async run(store) {
        const other = await store.reopen();
        const [here, there] = await Promise.all([
          store.provider.createInstances([newInstance('a')]),
          other.createInstances([newInstance('a')]),
        ]);
        const kinds = [...here, ...there].map(({ kind }) => kind);
        expectInAnyOrder(kinds, ['created', 'exists']);
        assert.equal((await store.claimOne()).messages.length, 1);
      },
    },
    {
      id: 'shared/a-cancel-elsewhere-is-told',
      title: 'a cancel by another process emits cancelRequested once per held work item',
      async run(store) {
        const other = await store.reopen();
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const items = await store.claimWork();
        const tokens = items.map(({ lockToken }) => lockToken);
        const received: string[] = [];
        const { promise, resolve } = Promise.withResolvers<void>();
        store.provider.hints((hint) => {
          if (hint.kind === 'cancelRequested') received.push(...hint.lockTokens);
          if (received.length >= tokens.length) resolve();
        });
        await other.requestCancel([
          { instanceId: 'a', reason: 'x', actor: null, cleanupMs: 60_000 },
        ]);
        await withTimeLimit(promise, 'a hint of the cancel');
        expectInAnyOrder(received, tokens);
      },
    },
    {
      id: 'shared/an-end-elsewhere-is-told',
      title: 'an end or deletion by another process emits finished or missed',
      async run(store) {
        const other = await store.reopen();
        await store.create('a');
        await store.create('b');
        const received = new Set<string>();
        const { promise, resolve } = Promise.withResolvers<void>();
        store.provider.hints((hint) => {
          if (hint.kind === 'finished') for (const id of hint.instanceIds) received.add(id);
          if (hint.kind === 'missed' || (received.has('a') && received.has('b'))) resolve();
        });
        await other.terminate([{ instanceId: 'a', reason: 'x', actor: null, tree: false }]);
        await other.deleteInstancesAtomic([{ instanceIds: ['b'], force: true }]);
        await withTimeLimit(promise, 'a hint of the ends');
      },
    },
    {
      id: 'shared/custom-status-elsewhere-is-told',
      title: 'a custom status set by another process emits statusSet or missed',
      async run(store) {
        const other = await store.reopen();
        await store.create('a');
        const { promise, resolve } = Promise.withResolvers<void>();
        store.provider.hints((hint) => {
          const isNotified = hint.kind === 'statusSet' && hint.instanceIds.includes('a');
          if (isNotified || hint.kind === 'missed') resolve();
        });
        const [item] = await other.fetchOrchestrationItems({ max: 1, lockMs, waitMs: 0 });
        assert.ok(item);
        const { lockToken } = item;
        const messageKeys = item.messages.map(({ messageKey }) => messageKey);
        const turn = newTurn({ customStatus: '"half"' });
        await other.ackOrchestrationItems([{ lockToken, messageKeys, turn }]);
        await withTimeLimit(promise, 'a hint of the custom status');
      },
    },
    {
      id: 'shared/a-cancel-elsewhere-ends-a-wait',
      title: 'a waiting fetch resolves when another process cancels an instance',
      async run(store) {
        const other = await store.reopen();
        await store.begin('a');
        const waiting = store.claim({ waitMs: 60_000 });
        await expectPending(waiting, 'the fetch');
        await other.requestCancel([
          { instanceId: 'a', reason: 'x', actor: null, cleanupMs: 60_000 },
        ]);
        const item = only(await withTimeLimit(waiting, 'after a cancel elsewhere'), 'instance');
        assert.deepEqual(labels(item), ['cancel']);
      },
    },
    {
      id: 'shared/work-from-elsewhere-ends-a-wait',
      title: 'a waiting fetch resolves when another process creates an instance',
      async run(store) {
        const other = await store.reopen();
        const waiting = other.fetchOrchestrationItems({ ...fetch, waitMs: 60_000 });
        await expectPending(waiting, 'the fetch');
        await store.create('a');
        const item = only(await withTimeLimit(waiting, 'after a start elsewhere'), 'instance');
        assert.equal(item.instanceId, 'a');
      },
    },
    {
      id: 'shared/a-session-is-seen-everywhere',
      title: 'sessions and jobs are shared between processes, and any process can end them',
      async run(store) {
        const other = await store.reopen();
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const [session] = await other.renewSessions(['s']);
        assert.deepEqual([session?.state, session?.openJobs], ['open', 1]);
        const received = collectHints(store.provider);
        await other.shutdownSession({ sessionId: 's', mode: 'forceful', end: 'shutdown' });
        await other.settleSession('s', 10);
        assert.deepEqual((await received.next('cancelRequested')).lockTokens, [item.lockToken]);
        received.stop();
        assert.equal((await submit(store, taskJob('b'))).kind, 'sessionClosed');
        assert.equal((await abandon(store, key)).status, 'canceling');
      },
    },
    {
      id: 'shared/a-stream-is-read-elsewhere',
      title: 'chunks emitted by one process notify other processes and are readable there',
      async run(store) {
        const other = await store.reopen();
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        const received = collectHints(other);
        const limits = { maxChunks: 10, maxBytes: 100 };
        const { lockToken } = item;
        const request = { lockToken, chunks: ['1'], ...limits };
        assert.deepEqual(await store.provider.appendChunks([request]), ['appended']);
        await received.next('changed', 'emitted');
        received.stop();
        const page = await other.readChunks({ ...key, after: 0, limit: 10 });
        assert.deepEqual(page, { chunks: [{ seq: 1, payload: '1' }], over: false });
      },
    },
  ],
};
