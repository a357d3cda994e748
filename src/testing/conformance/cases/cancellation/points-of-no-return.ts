import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import { activityCancel, startMessage, workItem } from '../../sample-data.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import type { Turn } from '../../../../providers/contract/turn.ts';

/** Claims a work item and marks its point of no return. Returns its token. */
async function beginPastPointOfNoReturn(store: StoreUnderTest): Promise<string> {
  await store.begin('a', { workItems: [workItem(1)] });
  const { lockToken } = await store.claimWorkOne();
  const passed = await store.provider.markPointOfNoReturn(lockToken);
  assert.deepEqual(passed, { kind: 'passed' });
  return lockToken;
}

export const pointsOfNoReturn: Capability = {
  title: 'points of no return',
  cases: [
    {
      id: 'no-return/may-be-marked-again',
      title: 'markPointOfNoReturn() is idempotent, also after a cancel',
      async run(store) {
        const lockToken = await beginPastPointOfNoReturn(store);
        const again = () => store.provider.markPointOfNoReturn(lockToken);
        assert.deepEqual(await store.expectNoChange(again), { kind: 'passed' });
        await store.cancel('a');
        assert.deepEqual(await again(), { kind: 'passed' });
      },
    },
    {
      id: 'no-return/an-earlier-request-wins',
      title: 'markPointOfNoReturn() after a cancel returns the cancel, which stays in effect',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.cancel('a', { reason: 'stop' });
        const requestedAt = store.clock.now();
        await store.clock.advance(7);
        const cancel = { reason: 'stop', trigger: 'cancel', requestedAt };
        const result = await store.provider.markPointOfNoReturn(lockToken);
        assert.deepEqual(result, { kind: 'canceled', cancel });
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel });
      },
    },
    {
      id: 'no-return/needs-a-held-item',
      title: 'markPointOfNoReturn() with an unknown, expired or settled token returns lost',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [expired, settled] = await store.claimWork();
        assert.ok(expired && settled);
        expectCommitted(await store.ackWork(settled.lockToken));
        await store.clock.advance(lockMs);
        for (const token of ['never given out', '', expired.lockToken, settled.lockToken]) {
          assert.deepEqual(await store.provider.markPointOfNoReturn(token), { kind: 'lost' });
        }
        const { lockToken } = await store.claimWorkOne();
        await store.cancel('a');
        const renewed = await store.renewWork(lockToken);
        assert.ok(renewed.held && renewed.cancel, 'the next claim can be canceled');
      },
    },
    {
      id: 'no-return/later-requests-are-not-delivered',
      title: 'cancels after the point of no return are recorded but not delivered at renewal',
      async run(store) {
        const lockToken = await beginPastPointOfNoReturn(store);
        await store.raise('a', 'x');
        const activityCancels = [activityCancel(1, 'lost')];
        await store.commit(await store.claimOne(), { activityCancels });
        await store.cancel('a', { reason: 'later' });
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        const [running] = await store.provider.listRunningItems('a');
        assert.deepEqual(running?.cancel, { reason: 'lost', trigger: 'cancel' });
        await store.commit(await store.claimOne());
        expectCommitted(await store.ackWork(lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'no-return/is-kept-over-attempts',
      title: 'the point of no return persists across retries, abandons and expired leases',
      async run(store) {
        const lockToken = await beginPastPointOfNoReturn(store);
        await store.provider.retryWorkItems([{ lockToken, delayMs: 500, failure: '{}' }]);
        await store.cancel('a');
        await store.clock.advance(500);
        const second = await store.claimWorkOne();
        assert.deepEqual([second.cancel, second.failures], [null, 1]);
        const abandon = { lockToken: second.lockToken, delayMs: 0, giveBackClaim: true };
        assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [true]);
        const third = await store.claimWorkOne();
        assert.equal(third.cancel, null);
        await store.clock.advance(lockMs);
        const fourth = await store.claimWorkOne();
        assert.equal(fourth.cancel, null);
        expectCommitted(await store.ackWork(fourth.lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['cancel', 'activityCompleted 1']);
      },
    },
    {
      id: 'no-return/belongs-to-one-item',
      title: 'a point of no return does not protect other work items of the instance',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [one, two] = await store.claimWorkInOrder();
        assert.ok(one && two);
        await store.provider.markPointOfNoReturn(one.lockToken);
        await store.cancel('a');
        const renewed = await store.provider.renewWorkItemLocks([one, two], lockMs);
        assert.deepEqual(
          renewed.map((result) => result.held && result.cancel?.reason),
          [undefined, 'not wanted'],
        );
      },
    },
    {
      id: 'no-return/a-fast-turn-may-settle-it',
      title: 'ackTurns() settles a work item canceled after its point of no return',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs })];
        const begun = await store.begin('a', { workItems });
        const [token = ''] = begun.claimed.map(({ lockToken }) => lockToken);
        await store.provider.markPointOfNoReturn(token);
        await store.raise('a', 'x');
        const activityCancels = [activityCancel(1)];
        await store.commit(await store.claimOne(), { turnId: begun.turnId, activityCancels });
        expectCommitted(await store.ackTurn(begun, [token]));
        await store.expectIdle();
      },
    },
    {
      id: 'no-return/outlives-every-cancel-between-attempts',
      title: 'a delayed work item past its point of no return survives every cancel',
      async run(store) {
        const activityCancels = [activityCancel(1)];
        const completed = { status: 'completed', payload: null } as const;
        const canceled = { status: 'canceled', reason: 'x', cleanupSkipped: false } as const;
        const start = startMessage();
        const continued = { status: 'continuedAsNew', version: '1', start } as const;
        const turns: readonly Partial<Turn>[] = [
          { activityCancels },
          { outcome: completed },
          { outcome: canceled },
          { outcome: continued },
        ];
        for (const [index, parts] of turns.entries()) {
          await store.begin(`a${index}`, { workItems: [workItem(1)] });
          const { lockToken } = await store.claimWorkOne();
          await store.provider.markPointOfNoReturn(lockToken);
          await store.provider.retryWorkItems([{ lockToken, delayMs: 500, failure: '{}' }]);
          await store.raise(`a${index}`, 'x');
          await store.commit(await store.claimOne(), parts);
          await store.clock.advance(500);
          const next = await store.claimWorkOne();
          assert.deepEqual([next.instanceId, next.cancel], [`a${index}`, null]);
          expectCommitted(await store.ackWork(next.lockToken));
          for (const item of await store.claim()) await store.commit(item, { outcome: completed });
        }
      },
    },
  ],
};
