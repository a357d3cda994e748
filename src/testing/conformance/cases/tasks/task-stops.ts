import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { collectHints } from '../../collect-hints.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import {
  collectFinished,
  createTask,
  expectStatus,
  expectTokenRejected,
  failure,
  outcomes,
  startTask,
} from '../../task-helpers.ts';

const canceled = { found: true, changed: true, status: 'canceled' } as const;
const canceling = { found: true, changed: true, status: 'canceling' } as const;

export const taskStops: Capability = {
  title: 'task cancel, terminate and delete',
  cases: [
    {
      id: 'task-cancel/a-queued-run-ends-at-once',
      title: 'requestCancel() ends a queued or delayed run immediately as canceled',
      async run(store) {
        const finished = collectFinished(store);
        const now = store.clock.now();
        await createTask(store, 'queued', { onFail: { options: null } });
        await createTask(store, 'delayed', { runAt: now + 100, expiresAt: now + 200 });
        for (const id of ['queued', 'delayed']) {
          assert.deepEqual(await store.cancel(id, { reason: 'no need', actor: 'ann' }), canceled);
          const { status, endedAt, startedAt, cancel } = await store.record(id);
          assert.deepEqual([status, endedAt, startedAt], ['canceled', now, null]);
          assert.deepEqual(cancel, { reason: 'no need', actor: 'ann', requestedAt: now });
          assert.deepEqual(await store.history(id), []);
        }
        assert.deepEqual(finished(), ['queued', 'delayed']);
        await store.clock.advance(1_000);
        await store.expectNoChange(() => store.expectIdle());
      },
    },
    {
      id: 'task-cancel/between-attempts-ends-at-once',
      title: 'requestCancel() ends a retried or abandoned run immediately as canceled',
      async run(store) {
        const { provider } = store;
        const retried = await startTask(store, 'retried');
        await provider.retryWorkItems([{ lockToken: retried.lockToken, delayMs: 50, failure }]);
        const { lockToken } = await startTask(store, 'handed-back');
        await provider.abandonWorkItems([{ lockToken, delayMs: 50, giveBackClaim: true }]);
        for (const id of ['retried', 'handed-back']) {
          assert.deepEqual(await store.cancel(id), canceled);
        }
        await store.clock.advance(50);
        await store.expectIdle();
      },
    },
    {
      id: 'task-cancel/a-held-run-is-canceling',
      title: 'requestCancel() of a held run sets canceling until the ack and emits cancelRequested',
      async run(store) {
        const { next } = collectHints(store.provider);
        const { lockToken } = await startTask(store, 'a');
        const requestedAt = store.clock.now();
        assert.deepEqual(await store.cancel('a', { reason: 'stop', actor: 'ann' }), canceling);
        assert.deepEqual((await next('cancelRequested')).lockTokens, [lockToken]);
        const cancel = { reason: 'stop', requestedAt, trigger: 'cancel' } as const;
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel });
        await store.clock.advance(5);
        const { status, endedAt } = await store.record('a');
        assert.deepEqual([status, endedAt], ['canceling', null]);
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: true }));
        const ended = await store.record('a');
        assert.deepEqual(
          [ended.status, ended.endedAt, ended.leaked, ended.cancel?.actor],
          ['canceled', store.clock.now(), 1, 'ann'],
        );
        assert.deepEqual((await next('finished')).instanceIds, ['a']);
      },
    },
    {
      id: 'task-cancel/a-handed-back-run-ends-instead',
      title: 'retrying or abandoning a canceling run ends it as canceled',
      async run(store) {
        const { provider } = store;
        const finished = collectFinished(store);
        const first = await startTask(store, 'retried');
        const second = await startTask(store, 'handed-back');
        await Promise.all([store.cancel('retried'), store.cancel('handed-back')]);
        const retry = { lockToken: first.lockToken, delayMs: 0, failure };
        assert.deepEqual(await provider.retryWorkItems([retry]), ['canceled']);
        const abandon = { lockToken: second.lockToken, delayMs: 0, giveBackClaim: true };
        assert.deepEqual(await provider.abandonWorkItems([abandon]), ['canceled']);
        assert.deepEqual(await provider.abandonWorkItems([abandon]), [false]);
        for (const id of ['retried', 'handed-back']) await expectStatus(store, id, 'canceled');
        assert.deepEqual(finished(), ['retried', 'handed-back']);
        await store.expectIdle();
      },
    },
    {
      id: 'task-cancel/a-lost-worker-does-not-hold-it',
      title: 'a canceling run with an expired lease is claimable by any worker',
      async run(store) {
        const { lockToken } = await startTask(store, 'a');
        await store.cancel('a');
        assert.deepEqual(await store.claimWork(), []);
        await store.clock.advance(lockMs);
        const item = await store.claimWorkOne({ names: [], tasks: [] });
        assert.equal(item.cancel?.reason, 'not wanted');
        await expectStatus(store, 'a', 'canceling');
        await expectTokenRejected(store, lockToken);
        expectCommitted(await store.ackWork(item.lockToken, { kind: 'canceled', leaked: false }));
        await expectStatus(store, 'a', 'canceled');
      },
    },
    {
      id: 'task-cancel/of-a-lost-worker-ends-at-once',
      title: 'requestCancel() ends a run with an expired lease immediately',
      async run(store) {
        const { lockToken } = await startTask(store, 'a');
        await store.clock.advance(lockMs);
        assert.deepEqual(await store.cancel('a'), canceled);
        await expectTokenRejected(store, lockToken);
        await store.expectIdle();
      },
    },
    {
      id: 'task-cancel/the-first-request-is-kept',
      title: 'later requestCancel() calls on a canceling or ended run change nothing',
      async run(store) {
        const { lockToken } = await startTask(store, 'a');
        await store.cancel('a', { reason: 'first' });
        await store.clock.advance(1);
        const again = () => store.cancel('a', { reason: 'second', actor: 'ann' });
        const unchanged = { found: true, changed: false };
        assert.deepEqual(await store.expectNoChange(again), { ...unchanged, status: 'canceling' });
        expectCommitted(await store.ackWork(lockToken));
        assert.deepEqual(await store.expectNoChange(again), { ...unchanged, status: 'canceled' });
        for (const [index, outcome] of outcomes.entries()) {
          const id = `${index}`;
          const item = await startTask(store, id);
          expectCommitted(await store.ackWork(item.lockToken, outcome));
          const late = await store.expectNoChange(() => store.cancel(id));
          assert.deepEqual(late, { ...unchanged, status: outcome.kind });
        }
      },
    },
    {
      id: 'task-cancel/races-have-one-winner',
      title: 'exactly one of a concurrent cancel, completion and failure ends the run',
      async run(store) {
        const { provider } = store;
        const finished = collectFinished(store);
        for (let round = 0; round < 24; round += 1) {
          const id = `r${round}`;
          const now = store.clock.now();
          const { lockToken } = await startTask(store, id, { expiresAt: now + 1 });
          await store.clock.advance(1);
          const order = permutation(round);
          const results = await callInOrder(order, {
            canceled: () => store.cancel(id),
            completed: () => store.ackWork(lockToken, { kind: 'completed', payload: '1' }),
            failed: () => store.ackWork(lockToken, { kind: 'failed', failure }),
            fetched: () => provider.fetchWorkItems({ max: 1, lockMs, waitMs: 0 }),
          });
          const { status, output, failure: failed, endedAt } = await store.record(id);
          const acks = [results.completed, results.failed].filter(({ ok }) => ok);
          assert.deepEqual(acks, [{ ok: true, claimed: [], ended: status }]);
          assert.equal(results.canceled.changed, status === 'canceled');
          assert.deepEqual(results.fetched, []);
          assert.equal(output !== null, status === 'completed');
          assert.equal(failed !== null, status === 'failed');
          assert.equal(endedAt, store.clock.now());
          assert.deepEqual(
            finished().filter((one) => one === id),
            [id],
          );
        }
        await store.expectIdle();
      },
    },
    {
      id: 'task-terminate/ends-at-once',
      title: 'terminate() ends a queued or held run immediately, and late acks change nothing',
      async run(store) {
        const finished = collectFinished(store);
        await createTask(store, 'queued');
        const ended = { found: true, changed: true, status: 'terminated' } as const;
        assert.deepEqual(await store.terminate('queued', { reason: 'over' }), ended);
        const { lockToken } = await startTask(store, 'held', { onFail: { options: null } });
        assert.deepEqual(await store.provider.markPointOfNoReturn(lockToken), { kind: 'passed' });
        assert.deepEqual(await store.terminate('held', { reason: 'over', actor: 'ann' }), ended);
        const { status, endedAt, terminated } = await store.record('held');
        assert.deepEqual([status, endedAt], ['terminated', store.clock.now()]);
        assert.deepEqual(terminated, { reason: 'over', actor: 'ann' });
        assert.deepEqual(await store.history('held'), []);
        const renewed = await store.renewWork(lockToken);
        assert.ok(renewed.held && renewed.cancel?.reason === 'over');
        const late = await store.expectNoChange(() =>
          store.ackWork(lockToken, { kind: 'failed', failure }),
        );
        assert.deepEqual(late, { ok: true, claimed: [] });
        assert.deepEqual(finished(), ['queued', 'held']);
        const unchanged = { found: true, changed: false, status: 'terminated' };
        assert.deepEqual(await store.terminate('held'), unchanged);
        await store.expectIdle();
      },
    },
    {
      id: 'task-terminate/a-canceling-run-keeps-its-request',
      title: 'terminate() of a canceling run keeps its cancel on record',
      async run(store) {
        const { lockToken } = await startTask(store, 'a');
        await store.cancel('a', { reason: 'first' });
        assert.equal((await store.terminate('a')).changed, true);
        const { status, cancel } = await store.record('a');
        assert.deepEqual([status, cancel?.reason], ['terminated', 'first']);
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        await expectStatus(store, 'a', 'terminated');
        await store.expectIdle();
      },
    },
    {
      id: 'task-delete/takes-everything-with-it',
      title: 'a forced deletion of a run invalidates its token and frees id and dedupe key',
      async run(store) {
        const { provider } = store;
        const { lockToken } = await startTask(store, 'a', { dedupeKey: 'k' });
        const tree = { instanceIds: ['a'], force: false };
        const [running] = await provider.deleteInstancesAtomic([tree]);
        assert.deepEqual(running, { kind: 'running', instanceId: 'a', status: 'running' });
        const [deleted] = await provider.deleteInstancesAtomic([{ ...tree, force: true }]);
        assert.deepEqual(deleted, {
          kind: 'deleted',
          counts: {
            instancesDeleted: 1,
            executionsDeleted: 1,
            eventsDeleted: 0,
            queueMessagesDeleted: 1,
          },
        });
        assert.deepEqual(await store.renewWork(lockToken), { held: false, deleted: true });
        const again = await startTask(store, 'a', { dedupeKey: 'k' });
        await expectTokenRejected(store, lockToken);
        const other = await createTask(store, 'b', { dedupeKey: 'k' });
        assert.deepEqual(other, { kind: 'active', instanceId: 'a' });
        expectCommitted(await store.ackWork(again.lockToken));
      },
    },
    {
      id: 'task-delete/what-is-over-can-be-deleted',
      title: 'a terminated run is deleted without force while its handler still runs',
      async run(store) {
        const { provider } = store;
        const { lockToken } = await startTask(store, 'a', { dedupeKey: 'k' });
        await store.terminate('a');
        const results = await provider.deleteInstancesAtomic([
          { instanceIds: ['a'], force: false },
        ]);
        assert.equal(only(results, 'result').kind, 'deleted');
        await expectTokenRejected(store, lockToken);
        assert.equal((await createTask(store, 'b', { dedupeKey: 'k' })).kind, 'created');
      },
    },
  ],
};

/** Returns one of the 24 permutations of four indexes. */
function permutation(number: number): readonly number[] {
  const left = [0, 1, 2, 3];
  return [6, 2, 1, 1].map((size, index) => {
    const [taken] = left.splice(Math.floor(number / size) % (4 - index), 1);
    return taken ?? 0;
  });
}

/** Makes concurrent calls in the given order, and returns the results by name. */
async function callInOrder<Results extends Readonly<Record<string, unknown>>>(
  order: readonly number[],
  calls: { readonly [Name in keyof Results]: () => Promise<Results[Name]> },
): Promise<Results> {
  const entries = Object.entries(calls) as [string, () => Promise<unknown>][];
  const results = await Promise.all(
    order.map(async (index) => {
      const [name, call] = entries[index] ?? assert.fail();
      return [name, await call()] as const;
    }),
  );
  return Object.fromEntries(results) as Results;
}
