import assert from 'node:assert/strict';
import { randomToken } from '../../../../model/values/random-id.ts';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { deleteTree, forceDelete } from '../../deletion-helpers.ts';
import { child, event, raised, workItem } from '../../sample-data.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import { labels, lockMs, type BegunInstance, type StoreUnderTest } from '../../store-under-test.ts';

/** A turn that writes to every table. */
const fullTurn = {
  events: [event('late')],
  workItems: [workItem(7)],
  timers: [{ operation: 8, fireAt: 0 }],
  children: [child('late', 9)],
  messages: [{ instanceId: 'a', message: raised('late') }],
  customStatus: '"late"',
  outcome: { status: 'completed', payload: '"late"' },
} as const;

/** Begins `a` with one claimed work item. */
async function beginHeld(store: StoreUnderTest): Promise<BegunInstance & { lockToken: string }> {
  const begun = await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
  return { ...begun, lockToken: only(begun.claimed, 'claimed item').lockToken };
}

/** Deletes `a` and begins it again with the same values. */
async function deleteAndBeginAgain(
  store: StoreUnderTest,
): Promise<BegunInstance & { lockToken: string }> {
  await forceDelete(store, 'a');
  return beginHeld(store);
}

/** Calls `late` with the token of a deleted incarnation. Nothing may change, and the new one keeps its claim. */
async function callAfterDeletion<Result>(
  store: StoreUnderTest,
  late: (former: BegunInstance & { lockToken: string }) => Promise<Result>,
): Promise<Result> {
  const expectUnchanged = await createUnrelatedInstance(store);
  const former = await beginHeld(store);
  const again = await deleteAndBeginAgain(store);
  const result = await store.expectNoChange(() => late(former));
  await store.expectIdle();
  assert.deepEqual(await store.renewWork(again.lockToken), { held: true, cancel: null });
  expectCommitted(await store.ackTurn(again, [again.lockToken], { events: [event('new')] }));
  await store.expectIdle();
  assert.deepEqual(await store.historyLabels('a'), ['begun', 'new']);
  await expectUnchanged();
  return result;
}

export const deletionFencing: Capability = {
  title: 'fencing of deleted instances',
  cases: [
    {
      id: 'former-life/a-turn-is-lost',
      title: 'a turn ack of a deleted instance is rejected, also after the id is reused',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        await forceDelete(store, 'a');
        expectLockLost(await store.expectNoChange(() => store.ack(item, fullTurn)));
        await store.expectIdle();
        await store.begin('a');
        await store.raise('a', 'anew');
        const again = await store.claimOne();
        expectLockLost(await store.expectNoChange(() => store.ack(item, fullTurn)));
        assert.deepEqual(labels(again), ['anew']);
        await store.commit(again);
        await store.expectIdle();
      },
    },
    {
      id: 'former-life/a-first-turn-is-lost',
      title: 'a first turn ack of a deleted instance is rejected; the next start is claimable',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        await forceDelete(store, 'a');
        await store.create('a');
        expectLockLost(await store.expectNoChange(() => store.ack(item, fullTurn)));
        const again = await store.claimOne();
        assert.deepEqual([again.claims, labels(again)], [1, ['start']]);
        await store.commit(again);
      },
    },
    {
      id: 'former-life/a-result-is-lost',
      title: 'a work item ack of a deleted instance is rejected',
      async run(store) {
        expectLockLost(await callAfterDeletion(store, ({ lockToken }) => store.ackWork(lockToken)));
      },
    },
    {
      id: 'former-life/a-fast-turn-is-lost',
      title: 'a fast-path turn of a deleted instance is rejected with its old and new fences',
      async run(store) {
        const former = await beginHeld(store);
        const again = await deleteAndBeginAgain(store);
        const tokens = [former.lockToken];
        const { instanceKey, incarnation, turnId: lastTurn } = again;
        for (const fences of [{}, { instanceKey }, { instanceKey, incarnation, lastTurn }]) {
          expectLockLost(
            await store.expectNoChange(() => store.ackTurn(former, tokens, fullTurn, fences)),
          );
        }
        expectLockLost(await store.expectNoChange(() => store.ackTurn(former, [], fullTurn)));
        expectCommitted(await store.ackTurn(again, [again.lockToken]));
      },
    },
    {
      id: 'former-life/a-renewal-is-lost',
      title: 'a renewal of a deleted work item returns deleted and stores no heartbeat',
      async run(store) {
        const results = await callAfterDeletion(store, async ({ lockToken }) => [
          only(
            await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '"late"' }], lockMs),
            'result',
          ),
        ]);
        assert.deepEqual(results, [{ held: false, deleted: true }]);
      },
    },
    {
      id: 'former-life/work-cannot-be-handed-back',
      title: 'abandon and retry of a deleted work item return false',
      async run(store) {
        const results = await callAfterDeletion(store, async ({ lockToken }) => [
          ...(await store.provider.abandonWorkItems([
            { lockToken, delayMs: 0, giveBackClaim: true },
          ])),
          ...(await store.provider.retryWorkItems([{ lockToken, delayMs: 0, failure: '{}' }])),
        ]);
        assert.deepEqual(results, [false, false]);
      },
    },
    {
      id: 'former-life/has-no-point-of-no-return',
      title: 'markPointOfNoReturn() of a deleted work item returns lost',
      async run(store) {
        const result = await callAfterDeletion(store, ({ lockToken }) =>
          store.provider.markPointOfNoReturn(lockToken),
        );
        assert.deepEqual(result, { kind: 'lost' });
      },
    },
    {
      id: 'former-life/a-claim-cannot-be-handed-back',
      title: 'renewal and abandon of a claim on a deleted instance return false',
      async run(store) {
        await store.create('a');
        const { lockToken } = await store.claimOne();
        await forceDelete(store, 'a');
        await store.create('a');
        const { provider } = store;
        const blocked = { reason: 'late', buildId: 'late' };
        const abandon = { lockToken, delayMs: 5_000, giveBackClaim: true, blocked };
        assert.deepEqual(await provider.renewOrchestrationLocks([lockToken], lockMs), [false]);
        assert.deepEqual(await provider.abandonOrchestrationItems([abandon]), [false]);
        assert.equal((await store.record('a')).blocked, null);
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'former-life/a-child-sends-no-message',
      title: 'the ack of a deleted child sends nothing to the next incarnation of its parent',
      async run(store) {
        await store.begin('root', { children: [child('kid', 1)] });
        const item = await store.claimOne();
        await forceDelete(store, 'kid', 'root');
        await store.begin('root');
        const messages = [{ instanceId: 'root', message: raised('late') }];
        const { outcome } = fullTurn;
        expectLockLost(await store.ack(item, { messages, outcome }));
        await store.expectIdle();
      },
    },
    {
      id: 'former-life/is-not-read',
      title: 'readHistory() with the instance key of a deleted instance returns no events',
      async run(store) {
        const { instanceKey } = await store.begin('a');
        await forceDelete(store, 'a');
        await store.begin('a');
        const range = { instanceKey, executionId: 1, after: 0 };
        assert.deepEqual(await store.provider.readHistory([range]), [[]]);
      },
    },
    {
      id: 'former-life/a-canceling-instance-stays-gone',
      title: 'the clean-up limit of a deleted instance does not affect its next incarnation',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        await store.cancel('a', { cleanupMs: 100 });
        await forceDelete(store, 'a');
        const begun = await store.begin('a');
        await store.clock.advance(10 * lockMs);
        await store.expectIdle();
        assert.equal((await store.record('a')).incarnation, begun.incarnation);
        assert.equal((await store.record('a')).status, 'running');
      },
    },
    {
      id: 'former-life/a-race-ends-one-way',
      title: 'acks and renewals concurrent with a deletion commit before it or are rejected',
      async run(store) {
        for (const isFirst of [true, false]) {
          const { lockToken } = await beginHeld(store);
          await store.raise('a', 'go');
          const item = await store.claimOne();
          const deletion = () => forceDelete(store, 'a');
          const counts = isFirst ? deletion() : undefined;
          const [turn, , result] = await Promise.all([
            store.ack(item, { events: [event('raced')], workItems: [workItem(2)] }),
            store.renewWork(lockToken),
            store.ackWork(lockToken),
          ]);
          const { instancesDeleted, eventsDeleted } = await (counts ?? deletion());
          assert.equal(instancesDeleted, 1);
          assert.equal(eventsDeleted, turn.ok ? 2 : 1);
          if (!turn.ok) expectLockLost(turn);
          // Either of these two may commit first.
          if (!result.ok) expectLockLost(result);
          assert.ok(result.ok || isFirst);
          assert.deepEqual(await store.provider.getInstances(['a']), [undefined]);
          await store.expectIdle();
        }
      },
    },
    {
      id: 'former-life/tokens-are-told-apart',
      title: 'renewals return deleted only for tokens of deleted work items',
      async run(store) {
        const former = await beginHeld(store);
        const again = await deleteAndBeginAgain(store);
        const tokens = [former.lockToken, again.lockToken, randomToken(), '', "'; --"];
        const renewals = tokens.map((lockToken) => ({ lockToken }));
        assert.deepEqual(await store.provider.renewWorkItemLocks(renewals, lockMs), [
          { held: false, deleted: true },
          { held: true, cancel: null },
          { held: false },
          { held: false },
          { held: false },
        ]);
        expectCommitted(await store.ackWork(again.lockToken));
        assert.deepEqual(await store.renewWork(again.lockToken), { held: false });
        assert.equal((await deleteTree(store, ['a'])).kind, 'running');
      },
    },
  ],
};
