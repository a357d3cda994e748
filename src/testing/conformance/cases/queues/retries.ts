import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { activityCancel, workItem } from '../../sample-data.ts';
import { expectCommitted } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';

const failure = '{"name":"Error","message":"no"}';

export const retries: Capability = {
  title: 'retries and abandoned work items',
  cases: [
    {
      id: 'retry/counts-a-failure-and-resets-the-claims',
      title: 'retryWorkItems() adds a failure and resets the claims',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const counts: string[] = [];
        for (let attempt = 0; attempt < 3; attempt++) {
          await store.claimWorkOne();
          await store.clock.advance(lockMs);
          const { lockToken, claims, failures } = await store.claimWorkOne();
          counts.push(`${claims} claims, ${failures} failures`);
          const retry = { lockToken, delayMs: 0, failure };
          assert.deepEqual(await store.provider.retryWorkItems([retry]), [true]);
        }
        const { claims, failures } = await store.claimWorkOne();
        assert.deepEqual({ claims, failures }, { claims: 1, failures: 3 });
        assert.deepEqual(counts, [
          '2 claims, 0 failures',
          '2 claims, 1 failures',
          '2 claims, 2 failures',
        ]);
      },
    },
    {
      id: 'retry/waits-its-delay',
      title: 'a retried work item is hidden for exactly its delay',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.provider.retryWorkItems([{ lockToken, delayMs: 500, failure }]);
        await store.clock.advance(499);
        await store.expectIdle();
        await store.clock.advance(1);
        assert.equal((await store.claimWorkOne()).operation, 1);
      },
    },
    {
      id: 'retry/is-no-outcome',
      title: 'retryWorkItems() enqueues no message and keeps the work item unchanged',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { options: '{"x":1}' })] });
        const first = await store.claimWorkOne();
        const { lockToken } = first;
        await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '"half"' }], lockMs);
        const retry = [{ lockToken, delayMs: 0, failure }];
        await store.expectNoChange(() => store.provider.retryWorkItems(retry));
        assert.deepEqual(await store.claim(), []);
        const second = await store.claimWorkOne();
        assert.deepEqual(
          { ...second, lockToken },
          { ...first, lockToken, failures: 1, heartbeat: '"half"' },
        );
      },
    },
    {
      id: 'retry/needs-a-held-item',
      title: 'retryWorkItems() with an unknown, expired or settled token returns false',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [expired, settled] = await store.claimWork();
        assert.ok(expired && settled);
        expectCommitted(await store.ackWork(settled.lockToken));
        await store.clock.advance(lockMs);
        const tokens = ['never given out', expired.lockToken, settled.lockToken];
        const late = tokens.map((lockToken) => ({ lockToken, delayMs: 0, failure }));
        const results = await store.expectNoChange(() => store.provider.retryWorkItems(late));
        assert.deepEqual(results, [false, false, false]);
        const { operation, claims, failures } = await store.claimWorkOne();
        assert.deepEqual(
          { operation, claims, failures },
          { operation: expired.operation, claims: 2, failures: 0 },
        );
      },
    },
    {
      id: 'abandon-work/waits-its-delay',
      title: 'an abandoned work item is hidden for exactly its delay and counts no failure',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const abandon = { lockToken, delayMs: 500, giveBackClaim: false };
        assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [true]);
        await store.clock.advance(499);
        await store.expectIdle();
        await store.clock.advance(1);
        const { claims, failures } = await store.claimWorkOne();
        assert.deepEqual({ claims, failures }, { claims: 2, failures: 0 });
      },
    },
    {
      id: 'abandon-work/keeps-its-explanation',
      title: 'abandonWorkItems() stores its explanation as the last failure and counts no failure',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const explanation = JSON.stringify({ name: 'Error', message: 'why' });
        const abandon = { lockToken, delayMs: 0, giveBackClaim: true, explanation };
        assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [true]);
        const details = await store.provider.inspectInstance({ instanceId: 'a', maxPending: 1 });
        const [pending] = details?.pending ?? [];
        assert.deepEqual([pending?.lastFailure, pending?.failures], [explanation, 0]);
        const { claims, failures } = await store.claimWorkOne();
        assert.deepEqual({ claims, failures }, { claims: 1, failures: 0 });
      },
    },
    {
      id: 'abandon-work/needs-a-held-item',
      title: 'abandonWorkItems() with an unknown, expired or settled token returns false',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [expired, settled] = await store.claimWork();
        assert.ok(expired && settled);
        expectCommitted(await store.ackWork(settled.lockToken));
        await store.clock.advance(lockMs);
        const tokens = ['never given out', expired.lockToken, settled.lockToken];
        const late = tokens.map((lockToken) => ({
          lockToken,
          delayMs: 60_000,
          giveBackClaim: true,
        }));
        const results = await store.expectNoChange(() => store.provider.abandonWorkItems(late));
        assert.deepEqual(results, [false, false, false]);
        const { operation, claims } = await store.claimWorkOne();
        assert.deepEqual({ operation, claims }, { operation: expired.operation, claims: 2 });
      },
    },
    {
      id: 'abandon-work/unstarted-is-given-back-after-its-lease',
      title:
        'abandonWorkItems() with unstarted gives back an expired claim unless it was claimed again',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const claimed = await store.claimWork();
        const [left, taken] = claimed.toSorted((x, y) => x.operation - y.operation);
        assert.ok(left && taken);
        await store.clock.advance(lockMs);
        const [first] = await store.claimWork({ max: 1 });
        assert.ok(first);
        const again = [left, taken].find(({ operation }) => operation === first.operation);
        const back = [left, taken].map(({ lockToken }) => ({
          lockToken,
          delayMs: 0,
          giveBackClaim: true,
          unstarted: true,
        }));
        const results = await store.provider.abandonWorkItems(back);
        assert.deepEqual(results, [again !== left, again !== taken]);
        const { operation, claims } = await store.claimWorkOne();
        assert.notEqual(operation, first.operation);
        assert.deepEqual([first.claims, claims], [2, 1]);
        expectCommitted(await store.ackWork(first.lockToken));
      },
    },
    {
      id: 'retry/a-flagged-item-ends-instead',
      title: 'retrying or abandoning a flagged work item settles it as canceled',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [one, two] = (await store.claimWork()).toSorted((x, y) => x.operation - y.operation);
        assert.ok(one && two);
        await store.raise('a', 'go');
        const activityCancels = [1, 2].map((operation) => activityCancel(operation));
        await store.commit(await store.claimOne(), { activityCancels });
        const retry = { lockToken: one.lockToken, delayMs: 0, failure };
        const abandon = { lockToken: two.lockToken, delayMs: 0, giveBackClaim: true };
        assert.deepEqual(await store.provider.retryWorkItems([retry]), [true]);
        assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [true]);
        await store.clock.advance('1d');
        assert.deepEqual(await store.claimWork(), []);
        assert.deepEqual(labels(await store.claimOne()), [
          'activityCanceled 1',
          'activityCanceled 2',
        ]);
      },
    },
  ],
};
