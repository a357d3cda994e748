import assert from 'node:assert/strict';
import type { DefinitionKind } from '../../../../providers/contract/pausing.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import { event, newInstance, newTurn, workItem } from '../../sample-data.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { createTask } from '../../task-helpers.ts';
import { expectPending, withTimeLimit } from '../../time-limit.ts';

const by = { reason: 'bad deploy', actor: 'ops' };

async function pause({ provider }: StoreUnderTest, kind: DefinitionKind, name: string) {
  return only(await provider.pauseDefinitions([{ kind, name, ...by }]), 'result');
}

async function resume({ provider }: StoreUnderTest, kind: DefinitionKind, name: string) {
  return only(await provider.resumeDefinitions([{ kind, name }]), 'result');
}

export const definitionPauses: Capability = {
  title: 'pauses of definitions',
  cases: [
    {
      id: 'pause/a-definition-keeps-its-first-reason',
      title: 'a second pause of a definition changes nothing; the list has the first reason',
      async run(store) {
        const at = store.clock.now();
        assert.deepEqual(await pause(store, 'task', 'task'), { found: false, changed: true });
        await createTask(store, 'a');
        await store.clock.advance(5);
        const [again] = await store.provider.pauseDefinitions([
          { kind: 'task', name: 'task', reason: 'other', actor: null },
        ]);
        assert.deepEqual(again, { found: true, changed: false });
        assert.deepEqual(await store.provider.listPausedDefinitions(), [
          { kind: 'task', name: 'task', at, ...by },
        ]);
      },
    },
    {
      id: 'shared/a-paused-definition-is-not-claimed',
      title: 'no turn, activity or task run of a paused definition is claimed, in any process',
      async run(store) {
        const other = await store.reopen();
        const fetch = { max: 10, lockMs, waitMs: 0 };
        await other.fetchWorkItems(fetch);
        await store.begin('a', { workItems: [workItem(1), workItem(2, { name: 'free' })] });
        await store.raise('a', 'x');
        await createTask(store, 't');
        await createTask(store, 'u', { name: 'activity' });
        await pause(store, 'orchestration', 'sample');
        await pause(store, 'activity', 'activity');
        await pause(store, 'task', 'task');
        assert.deepEqual(await other.fetchOrchestrationItems(fetch), []);
        const runnable = [{ name: 'sample', version: '1' }];
        assert.deepEqual(await other.fetchOrchestrationItems({ ...fetch, runnable }), []);
        const names = { names: ['activity', 'free'], tasks: ['task', 'activity'] };
        assert.deepEqual(
          (await other.fetchWorkItems({ ...fetch, ...names })).map(({ name, kind }) => [
            name,
            kind,
          ]),
          [
            ['free', 'activity'],
            ['activity', 'task'],
          ],
        );
        const depths = await store.provider.queueDepths();
        assert.deepEqual([depths.orchestrations.paused, depths.activities.paused], [1, 1]);
        assert.equal((await store.provider.systemMetrics()).pausedDefinitions, 3);
      },
    },
    {
      id: 'pause/a-definition-is-resumed',
      title: 'a resume of a definition ends the waits of workers; a second one changes nothing',
      async run(store) {
        await createTask(store, 'a');
        await pause(store, 'task', 'task');
        const waiting = store.claimWork({ waitMs: 60_000 });
        await expectPending(waiting, 'the fetch');
        assert.deepEqual(await resume(store, 'task', 'task'), { found: true, changed: true });
        assert.equal((await withTimeLimit(waiting, 'after the resume')).length, 1);
        assert.deepEqual(await resume(store, 'task', 'task'), { found: true, changed: false });
        assert.deepEqual(await store.provider.listPausedDefinitions(), []);
      },
    },
    {
      id: 'pause/a-fast-turn-of-a-definition-is-rejected',
      title: 'ackTurns() of an instance is rejected while its definition is paused',
      async run(store) {
        const begun = await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        const { lockToken } = only(begun.claimed, 'claimed item');
        await pause(store, 'orchestration', 'sample');
        expectLockLost(await store.ackTurn(begun, [lockToken], { events: [event('never')] }));
        await pause(store, 'activity', 'unrelated');
        await resume(store, 'orchestration', 'sample');
        expectCommitted(await store.ackTurn(begun, [lockToken], { events: [event('now')] }));
      },
    },
    {
      id: 'pause/a-first-turn-of-a-definition-is-not-run',
      title: 'a start with a first turn stores only its start message while its name is paused',
      async run(store) {
        await store.begin('known');
        await pause(store, 'orchestration', 'sample');
        const firstTurn = newTurn({ events: [event('never')] });
        const [result] = await store.provider.createInstances([newInstance('a', { firstTurn })]);
        assert.equal(result?.kind === 'created' && result.withoutTurn, true);
        assert.equal((await store.record('a')).status, 'pending');
        assert.deepEqual([await store.claim(), await store.claimWork()], [[], []]);
        await resume(store, 'orchestration', 'sample');
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'pause/a-paused-activity-is-not-claimed-at-insert',
      title: 'no ack, start or fast turn claims an item of a paused activity at its insert',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs })];
        const known = await store.begin('known', { workItems });
        const { lockToken } = only(known.claimed, 'claimed item');
        await pause(store, 'activity', 'activity');
        const firstTurn = newTurn({ events: [event('one')], workItems });
        const [started] = await store.provider.createInstances([newInstance('a', { firstTurn })]);
        assert.deepEqual(started?.kind === 'created' && started.claimed, []);
        const next = { events: [event('two')], workItems: [workItem(2, { claimMs: lockMs })] };
        const committed = await store.ackTurn(known, [lockToken], next);
        assert.deepEqual(committed.ok && committed.claimed, []);
        await store.raise('known', 'x');
        const claimed = await store.commit(await store.claimOne(), {
          workItems: [workItem(3, { claimMs: lockMs })],
        });
        assert.deepEqual(claimed, []);
        assert.deepEqual(await store.claimWork(), []);
        await resume(store, 'activity', 'activity');
        assert.equal((await store.claimWork()).length, 3);
      },
    },
    {
      id: 'pause/a-cancel-passes-a-paused-definition',
      title: 'a canceling instance of a paused definition is claimed, so that its cancel ends',
      async run(store) {
        await store.begin('a');
        await store.begin('b');
        await store.raise('b', 'x');
        await pause(store, 'orchestration', 'sample');
        const waiting = store.claim({ waitMs: 60_000 });
        await expectPending(waiting, 'the fetch');
        await store.cancel('a');
        const item = only(await withTimeLimit(waiting, 'after the cancel'), 'instance');
        assert.equal(item.instanceId, 'a');
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: false } as const;
        await store.commit(item, { outcome });
        assert.equal((await store.record('a')).status, 'canceled');
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'pause/is-not-reported-as-unclaimed',
      title: 'work that is paused is not reported as unclaimed',
      async run(store) {
        await createTask(store, 'a');
        await createTask(store, 'b', { name: 'other' });
        await store.provider.pauseInstances([{ instanceId: 'b', ...by, tree: false }]);
        await pause(store, 'task', 'task');
        await store.clock.advance(60_000);
        const wanted = { runnable: [], activities: [], tasks: [], minWaitMs: 1_000, limit: 10 };
        assert.deepEqual(await store.provider.findUnclaimedWork(wanted), []);
      },
    },
  ],
};
