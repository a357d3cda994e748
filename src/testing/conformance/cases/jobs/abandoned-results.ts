import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import {
  abandon,
  claimResults,
  completeLate,
  due,
  jobIds,
  openSession,
  startJob,
  startOrchestration,
} from '../../job-helpers.ts';
import { event, newTurn } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { failure } from '../../task-helpers.ts';

/** dueSessions() checks an abandoned run within this time. */
const abandonedCheckMs = 2_000;

async function claimedIds(
  store: StoreUnderTest,
  ...names: Parameters<typeof claimResults> extends [unknown, ...infer Names] ? Names : never
): Promise<readonly string[]> {
  const results = await claimResults(store, ...names);
  return results.map(({ key }) => key.instanceId).toSorted();
}

export const abandonedResults: Capability = {
  title: 'abandoned results',
  cases: [
    {
      id: 'abandoned/a-late-result-is-claimed',
      title: 'a run that completes after its abandon is claimable with its output',
      async run(store) {
        await openSession(store);
        const key = await completeLate(store, 'a', { disposable: true });
        const late = await startOrchestration(store, 'b', {}, { disposable: true });
        await abandon(store, late);
        const { lockToken, messages, historyLength } = await store.claimOne();
        const messageKeys = messages.map(({ messageKey }) => messageKey);
        // Large, so that a store may keep it in the history alone.
        const payload = JSON.stringify('late'.repeat(1_000));
        const outcome = { status: 'completed', payload } as const;
        const events = [{ ...event('end'), kind: 'executionCompleted', payload }];
        const turn = newTurn({ firstEventId: historyLength + 1, events, outcome });
        const acks = [{ lockToken, messageKeys, turn }];
        expectCommitted(only(await store.provider.ackOrchestrationItems(acks), 'result'));
        await store.clock.advance(abandonedCheckMs);
        assert.equal((await due(store)).hasAbandoned, true);
        const results = await claimResults(store);
        assert.deepEqual(
          results.toSorted((x, y) => (x.name < y.name ? 1 : -1)),
          [
            { key, kind: 'task', name: 'task', output: '"done"', attempt: 1 },
            { key: late, kind: 'orchestration', name: 'sample', output: payload, attempt: 1 },
          ],
        );
      },
    },
    {
      id: 'abandoned/a-result-that-came-before-it',
      title: 'a disposable result not taken before the abandon is claimable immediately',
      async run(store) {
        await openSession(store);
        const { key, item } = await startJob(store, 'a', { disposable: true });
        expectCommitted(await store.ackWork(item.lockToken));
        assert.deepEqual(await claimedIds(store), []);
        const result = await abandon(store, key);
        assert.deepEqual(result, { found: true, changed: false, status: 'completed' });
        assert.deepEqual(await claimedIds(store), ['a']);
      },
    },
    {
      id: 'abandoned/only-named-ones',
      title: 'claimAbandoned() returns only results of the named tasks and orchestrations',
      async run(store) {
        await openSession(store);
        await completeLate(store, 'a', { disposable: true, name: 'mine' });
        await completeLate(store, 'b', { disposable: true, name: 'theirs' });
        await store.clock.advance(abandonedCheckMs);
        await due(store);
        assert.deepEqual(await claimedIds(store, [], ['mine', 'theirs']), []);
        assert.deepEqual(await claimedIds(store, ['other', 'mine'], []), ['a']);
        assert.deepEqual(await claimedIds(store, ['theirs'], []), ['b']);
      },
    },
    {
      id: 'abandoned/only-completed-disposable-ones',
      title: 'abandoned runs that are not completed or not disposable are forgotten',
      async run(store) {
        await openSession(store);
        await completeLate(store, 'plain');
        for (const [id, outcome] of [
          ['failed', { kind: 'failed', failure }],
          ['canceled', { kind: 'canceled', leaked: false }],
          ['discarded', { kind: 'completed', payload: '1' }],
        ] as const) {
          const { key, item } = await startJob(store, id, { disposable: true });
          await abandon(store, key);
          expectCommitted(await store.ackWork(item.lockToken, outcome));
        }
        await store.clock.advance(abandonedCheckMs);
        assert.equal((await due(store)).hasAbandoned, false);
        assert.deepEqual(await claimedIds(store), []);
        assert.deepEqual(await jobIds(store), []);
      },
    },
    {
      id: 'abandoned/has-one-claimant-at-a-time',
      title: 'a claimed result is claimable again only after its claim expires',
      async run(store) {
        await openSession(store);
        await completeLate(store, 'a', { disposable: true });
        await store.clock.advance(abandonedCheckMs);
        await due(store);
        const results = await Promise.all([claimResults(store), claimResults(store)]);
        assert.equal(results.flat().length, 1);
        assert.deepEqual(await claimedIds(store), []);
        await store.clock.advance(9_999);
        assert.deepEqual(await claimedIds(store), []);
        await store.clock.advance(1);
        assert.equal(only(await claimResults(store), 'result').attempt, 2);
      },
    },
    {
      id: 'abandoned/is-retried-until-done',
      title: 'settleAbandoned() with retryInMs makes a result claimable again after the delay',
      async run(store) {
        const { provider } = store;
        await openSession(store);
        const key = await completeLate(store, 'a', { disposable: true });
        await store.clock.advance(abandonedCheckMs);
        await due(store);
        only(await claimResults(store), 'result');
        await provider.settleAbandoned([{ key, retryInMs: 500 }]);
        await store.clock.advance(499);
        assert.deepEqual(await claimedIds(store), []);
        const { hasAbandoned, nextAt } = await due(store);
        assert.deepEqual([hasAbandoned, nextAt], [false, store.clock.now() + 1]);
        await store.clock.advance(1);
        assert.equal((await due(store)).hasAbandoned, true);
        assert.equal(only(await claimResults(store), 'result').attempt, 2);
        await provider.settleAbandoned([{ key, retryInMs: null }]);
        assert.deepEqual(await jobIds(store), []);
        await provider.settleAbandoned([{ key, retryInMs: null }]);
        assert.equal((await due(store)).hasAbandoned, false);
      },
    },
  ],
};
