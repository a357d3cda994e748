import assert from 'node:assert/strict';
import type { SessionState, ShutdownResult } from '../../../../providers/contract/sessions.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import {
  abandon,
  claimResults,
  completeLate,
  due,
  jobIds,
  leaseMs,
  openSession,
  readSession,
  settle,
  startJob,
  submit,
  submitAll,
  taskJob,
} from '../../job-helpers.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';

const dayMs = 86_400_000;

async function shutdown(
  { provider }: StoreUnderTest,
  mode: 'graceful' | 'forceful',
  end: 'shutdown' | 'goodbye' = 'shutdown',
): Promise<readonly [ShutdownResult['kind'], SessionState | undefined]> {
  const { kind, session } = await provider.shutdownSession({ sessionId: 's', mode, end });
  return [kind, session?.state];
}

export const sessionEnds: Capability = {
  title: 'session shutdown and expiry',
  cases: [
    {
      id: 'session/shutdown-goes-one-way',
      title: 'a shutdown can change from graceful to forceful, never back; repeats are accepted',
      async run(store) {
        await openSession(store);
        await startJob(store, 'a');
        assert.deepEqual(await shutdown(store, 'graceful'), ['accepted', 'draining']);
        assert.deepEqual(await shutdown(store, 'graceful'), ['repeated', 'draining']);
        assert.deepEqual(await shutdown(store, 'forceful'), ['accepted', 'closing']);
        assert.deepEqual(await shutdown(store, 'forceful'), ['repeated', 'closing']);
        assert.deepEqual(await shutdown(store, 'graceful'), ['downgrade', 'closing']);
        await openSession(store, 'other');
        assert.equal((await readSession(store, 'other')).state, 'open');
      },
    },
    {
      id: 'session/needs-to-be-there',
      title:
        'shutdownSession() and settleSession() of an unknown session return missing and undefined',
      async run(store) {
        assert.deepEqual(await shutdown(store, 'graceful'), ['missing', undefined]);
        assert.deepEqual(await shutdown(store, 'forceful'), ['missing', undefined]);
        assert.equal(await store.provider.settleSession('s', 10), undefined);
      },
    },
    {
      id: 'session/keeps-the-first-reason',
      title: 'a session keeps the reason of its first forceful shutdown',
      async run(store) {
        await openSession(store);
        await shutdown(store, 'graceful');
        assert.equal((await readSession(store)).end, null);
        await shutdown(store, 'forceful', 'goodbye');
        await shutdown(store, 'forceful', 'shutdown');
        await store.clock.advance(leaseMs);
        await due(store);
        assert.equal((await readSession(store)).end, 'goodbye');
        assert.equal((await settle(store)).end, 'goodbye');
      },
    },
    {
      id: 'session/ends-when-nothing-runs',
      title: 'a closing session ends when it is settled after its last run ended',
      async run(store) {
        await openSession(store);
        const { item } = await startJob(store, 'a');
        await submitAll(store, [taskJob('b')]);
        await shutdown(store, 'forceful');
        assert.equal((await readSession(store)).state, 'closing');
        const closing = await settle(store);
        assert.deepEqual([closing.state, closing.openJobs], ['closing', 1]);
        assert.equal((await store.record('b')).status, 'canceled');
        assert.equal((await store.record('a')).status, 'canceling');
        const renewed = await store.renewWork(item.lockToken);
        assert.equal(renewed.held && renewed.cancel?.trigger, 'cancel');
        expectCommitted(await store.ackWork(item.lockToken, { kind: 'canceled', leaked: false }));
        const ended = await settle(store);
        assert.deepEqual([ended.state, ended.end, ended.openJobs], ['ended', 'shutdown', 0]);
        assert.equal(ended.endedAt, store.clock.now());
        assert.deepEqual(await jobIds(store), []);
      },
    },
    {
      id: 'session/waits-for-late-results',
      title: 'a closing session does not end while an abandoned result is unsettled',
      async run(store) {
        await openSession(store);
        await completeLate(store, 'a', { disposable: true });
        await shutdown(store, 'forceful');
        const waiting = await settle(store);
        assert.deepEqual([waiting.state, waiting.openJobs], ['closing', 1]);
        const [result] = await claimResults(store);
        assert.ok(result);
        assert.equal((await settle(store)).state, 'closing');
        await store.provider.settleAbandoned([{ key: result.key, retryInMs: null }]);
        assert.equal((await settle(store)).state, 'ended');
      },
    },
    {
      id: 'session/a-drained-one-keeps-its-replies',
      title: 'a drained session ends with reason shutdown, and its replies can be taken',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a');
        await shutdown(store, 'graceful');
        const draining = await settle(store);
        assert.deepEqual([draining.state, draining.openJobs], ['draining', 1]);
        assert.equal((await store.record('a')).status, 'running');
        expectCommitted(await store.ackWork(item.lockToken));
        const ended = await settle(store);
        assert.deepEqual([ended.state, ended.end], ['ended', 'shutdown']);
        assert.deepEqual(await jobIds(store), ['a']);
        await store.provider.takeJobs([key]);
        assert.deepEqual(await jobIds(store), []);
      },
    },
    {
      id: 'session/an-open-one-is-not-settled',
      title: 'settleSession() of an open session changes nothing',
      async run(store) {
        const session = await openSession(store);
        assert.deepEqual(await settle(store), session);
        await startJob(store, 'a');
        assert.deepEqual(await settle(store), { ...session, openJobs: 1 });
        assert.equal((await store.record('a')).status, 'running');
      },
    },
    {
      id: 'session/closes-in-steps',
      title: 'settleSession() cancels at most limit jobs per call until none is left',
      async run(store) {
        await openSession(store);
        await submitAll(
          store,
          ['a', 'b', 'c', 'd', 'e'].map((id) => taskJob(id)),
        );
        await shutdown(store, 'forceful');
        assert.deepEqual(await openJobsAfter(store, 2), ['closing', 3]);
        assert.deepEqual((await due(store)).sessionIds, ['s']);
        assert.deepEqual(await openJobsAfter(store, 2), ['closing', 1]);
        assert.deepEqual(await openJobsAfter(store, 2), ['ended', 0]);
      },
    },
    {
      id: 'session/an-ended-one-stays-as-it-is',
      title: 'shutdown, renewal and settle do not change an ended session',
      async run(store) {
        await openSession(store);
        await shutdown(store, 'forceful', 'goodbye');
        const ended = await settle(store);
        await store.clock.advance(leaseMs);
        assert.deepEqual(await shutdown(store, 'forceful'), ['repeated', 'ended']);
        assert.deepEqual(await shutdown(store, 'graceful'), ['repeated', 'ended']);
        assert.deepEqual(await store.provider.renewSessions(['s']), [ended]);
        assert.deepEqual((await due(store)).sessionIds, []);
        assert.deepEqual(await settle(store), ended);
      },
    },
    {
      id: 'session/an-expired-lease-closes-it',
      title: 'a session closes exactly when its lease expires, and its jobs are canceled',
      async run(store) {
        await openSession(store);
        await submitAll(store, [taskJob('a')]);
        await store.clock.advance(leaseMs - 1);
        assert.deepEqual((await due(store)).sessionIds, []);
        assert.equal((await readSession(store)).state, 'open');
        await store.clock.advance(1);
        assert.deepEqual((await due(store)).sessionIds, ['s']);
        const closed = await readSession(store);
        assert.deepEqual([closed.state, closed.end], ['closing', 'expired']);
        assert.equal((await submit(store, taskJob('b'))).kind, 'sessionClosed');
        assert.equal((await settle(store)).state, 'ended');
        assert.equal((await store.record('a')).status, 'canceled');
      },
    },
    {
      id: 'session/an-expired-lease-closes-a-draining-one',
      title: 'a draining session closes when its lease expires',
      async run(store) {
        await openSession(store);
        const { item } = await startJob(store, 'a');
        await store.provider.renewWorkItemLocks([{ lockToken: item.lockToken }], 2 * leaseMs);
        await shutdown(store, 'graceful');
        await due(store);
        await settle(store);
        await store.clock.advance(leaseMs);
        assert.deepEqual((await due(store)).sessionIds, ['s']);
        const closed = await settle(store);
        assert.deepEqual([closed.state, closed.end], ['closing', 'expired']);
        assert.equal((await store.record('a')).status, 'canceling');
      },
    },
    {
      id: 'session/is-handed-to-one-settler-at-a-time',
      title: 'dueSessions() returns a closing session once, then again after a pause until it ends',
      async run(store) {
        await openSession(store);
        const { item } = await startJob(store, 'a');
        await shutdown(store, 'forceful');
        assert.deepEqual((await due(store)).sessionIds, ['s']);
        assert.deepEqual((await due(store)).sessionIds, []);
        await settle(store);
        assert.deepEqual((await due(store)).sessionIds, []);
        await store.clock.advance(5_000);
        assert.deepEqual((await due(store)).sessionIds, ['s']);
        expectCommitted(await store.ackWork(item.lockToken, { kind: 'canceled', leaked: false }));
        assert.equal((await settle(store)).state, 'ended');
        await store.clock.advance(10_000);
        assert.deepEqual((await due(store)).sessionIds, []);
      },
    },
    {
      id: 'session/tells-when-to-look-again',
      title: 'dueSessions() returns the next due time, or null if there is none',
      async run(store) {
        const nothing = { sessionIds: [], hasAbandoned: false };
        assert.deepEqual(await due(store), { ...nothing, nextAt: null });
        const { expiresAt } = await openSession(store, 's', { leaseMs: 9_000 });
        await openSession(store, 'later', { leaseMs: 90_000 });
        assert.deepEqual(await due(store), { ...nothing, nextAt: expiresAt });
        const { key } = await startJob(store, 'a');
        assert.deepEqual(await due(store), { ...nothing, nextAt: expiresAt });
        await abandon(store, key);
        const { nextAt } = await due(store);
        assert.ok(nextAt !== null && nextAt <= store.clock.now() + 2_000);
      },
    },
    {
      id: 'session/is-removed-a-day-later',
      title: 'an ended session is deleted after a day, and its untaken replies become claimable',
      async run(store) {
        await openSession(store);
        const { item } = await startJob(store, 'a', { disposable: true });
        await shutdown(store, 'graceful');
        expectCommitted(await store.ackWork(item.lockToken));
        assert.equal((await settle(store)).state, 'ended');
        await store.clock.advance(dayMs - 1);
        await due(store);
        assert.equal((await readSession(store)).state, 'ended');
        await store.clock.advance(1);
        await due(store);
        await due(store);
        const [result] = await claimResults(store);
        assert.equal(result?.key.instanceId, 'a');
        await store.provider.settleAbandoned([{ key: result.key, retryInMs: null }]);
        await store.clock.advance(60_000);
        await due(store);
        assert.deepEqual(await store.provider.getSessions(['s']), [undefined]);
        assert.equal((await store.record('a')).status, 'completed');
        const left = await due(store);
        assert.deepEqual(left, { sessionIds: [], hasAbandoned: false, nextAt: null });
      },
    },
  ],
};

async function openJobsAfter(
  store: StoreUnderTest,
  limit: number,
): Promise<readonly [SessionState, number]> {
  const { state, openJobs } = await settle(store, 's', limit);
  return [state, openJobs];
}
