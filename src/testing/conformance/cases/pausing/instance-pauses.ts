import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import { by, expectNothingClaimable, pause, pausedOf, resume } from '../../pause-helpers.ts';
import { activityCancel, event, newProcess, raised, workItem } from '../../sample-data.ts';
import { labels, lockMs } from '../../store-under-test.ts';
import { createTask, failure } from '../../task-helpers.ts';
import { expectPending, withTimeLimit } from '../../time-limit.ts';

const completed = { status: 'completed', payload: '"over"' } as const;

export const instancePauses: Capability = {
  title: 'pauses of instances',
  cases: [
    {
      id: 'pause/a-missing-instance-is-not-found',
      title: 'a pause or resume of an unknown instance or another incarnation is not found',
      async run(store) {
        const missing = { found: false, changed: false, status: null, paused: false };
        assert.deepEqual([await pause(store, 'x'), await resume(store, 'x')], [missing, missing]);
        await store.begin('a');
        const other = { instanceId: 'a', incarnation: 'other', ...by, tree: false };
        assert.deepEqual(await store.provider.pauseInstances([other]), [missing]);
        assert.equal(await pausedOf(store, 'a'), null);
      },
    },
    {
      id: 'pause/the-first-reason-is-kept',
      title: 'a second pause changes nothing and keeps the first reason, actor and time',
      async run(store) {
        await store.begin('a');
        const at = store.clock.now();
        const first = { found: true, changed: true, status: 'running', paused: true };
        assert.deepEqual(await pause(store, 'a'), first);
        await store.clock.advance(5);
        assert.deepEqual(await pause(store, 'a', { reason: 'other' }), {
          ...first,
          changed: false,
        });
        assert.deepEqual(await pausedOf(store, 'a'), { at, ...by });
      },
    },
    {
      id: 'pause/what-is-over-stays-as-it-is',
      title: 'a pause of a canceling or ended instance changes nothing',
      async run(store) {
        await store.begin('over', { outcome: completed });
        await store.begin('stopping');
        await store.cancel('stopping');
        assert.deepEqual(
          [await pause(store, 'over'), await pause(store, 'stopping')],
          [
            { found: true, changed: false, status: 'completed', paused: false },
            { found: true, changed: false, status: 'canceling', paused: false },
          ],
        );
        assert.equal((await store.claimOne()).instanceId, 'stopping');
      },
    },
    {
      id: 'pause/no-turn-is-claimed',
      title: 'messages and timers of a paused instance are claimed only after the resume',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 2, fireAt: store.clock.now() + 100 }] });
        await store.raise('a', 'before');
        await pause(store, 'a');
        await store.raise('a', 'after');
        await store.clock.advance(100);
        await expectNothingClaimable(store);
        assert.equal((await resume(store, 'a')).changed, true);
        assert.deepEqual(labels(await store.claimOne()), ['before', 'after', 'timerFired 2']);
        assert.equal(await pausedOf(store, 'a'), null);
      },
    },
    {
      id: 'pause/no-work-is-claimed',
      title: 'queued activities of a paused instance are claimed only after the resume',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.begin('b', { workItems: [workItem(1)] });
        await pause(store, 'a');
        assert.equal((await store.claimWorkOne()).instanceId, 'b');
        await resume(store, 'a');
        assert.equal((await store.claimWorkOne()).instanceId, 'a');
      },
    },
    {
      id: 'pause/a-task-run-is-not-claimed',
      title: 'a paused task run is claimed only after the resume, and a running one ends',
      async run(store) {
        await createTask(store, 'a');
        assert.equal((await pause(store, 'a')).status, 'pending');
        await expectNothingClaimable(store);
        await resume(store, 'a');
        const { lockToken } = await store.claimWorkOne();
        assert.equal((await pause(store, 'a')).status, 'running');
        expectCommitted(await store.ackWork(lockToken));
        const { status, paused } = await store.record('a');
        assert.deepEqual({ status, paused }, { status: 'completed', paused: null });
      },
    },
    {
      id: 'pause/a-fast-turn-is-rejected',
      title: 'ackTurns() of a paused instance is rejected; the outcome is kept for the resume',
      async run(store) {
        const begun = await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        const { lockToken } = only(begun.claimed, 'claimed item');
        await pause(store, 'a');
        const parts = { events: [event('never')] };
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [lockToken], parts)));
        expectCommitted(await store.ackWork(lockToken));
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'pause/a-timer-turn-is-rejected',
      title: 'ackTurns() with a due timer of a paused instance is rejected',
      async run(store) {
        const timers = [{ operation: 1, fireAt: store.clock.now() + 100 }];
        const begun = await store.begin('a', { timers });
        await pause(store, 'a');
        await store.clock.advance(100);
        const parts = { events: [event('never')] };
        expectLockLost(await store.ackTurn(begun, [], parts, { timers: [1] }));
        await resume(store, 'a');
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 1']);
      },
    },
    {
      id: 'pause/a-turn-under-way-commits',
      title: 'a turn claimed before the pause commits; its new work waits for the resume',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await pause(store, 'a');
        const timers = [{ operation: 3, fireAt: store.clock.now() + 50 }];
        const workItems = [workItem(1), workItem(2, { claimMs: lockMs })];
        assert.deepEqual(await store.commit(item, { workItems, timers }), []);
        await store.clock.advance(50);
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.deepEqual(
          (await store.claimWork()).map(({ operation }) => operation),
          [1, 2],
        );
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 3']);
      },
    },
    {
      id: 'pause/work-under-way-ends',
      title: 'an activity claimed before the pause can be renewed and acked',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await pause(store, 'a');
        assert.equal((await store.renewWork(lockToken)).held, true);
        expectCommitted(await store.ackWork(lockToken));
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'pause/a-retry-is-kept',
      title: 'a retry during the pause is due after the resume, not before its delay',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await pause(store, 'a');
        const retry = { lockToken, delayMs: 1_000, failure };
        assert.deepEqual(await store.provider.retryWorkItems([retry]), [true]);
        await resume(store, 'a');
        await expectNothingClaimable(store);
        await store.clock.advance(1_000);
        assert.equal((await store.claimWorkOne()).failures, 1);
      },
    },
    {
      id: 'pause/a-lost-claim-waits-for-the-resume',
      title: 'claims whose leases expire during the pause are claimed again after the resume',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        await store.claimOne();
        await store.claimWorkOne();
        await pause(store, 'a');
        await store.clock.advance(lockMs);
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.equal((await store.claimOne()).claims, 2);
        assert.equal((await store.claimWorkOne()).claims, 2);
      },
    },
    {
      id: 'pause/canceled-work-is-ended',
      title: 'a lost claim of a canceled work item can be claimed during the pause, to end it',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { activityCancels: [activityCancel(1)] });
        await pause(store, 'a');
        await store.clock.advance(lockMs);
        const { lockToken, cancel } = await store.claimWorkOne();
        assert.notEqual(cancel, null);
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
      },
    },
    {
      id: 'takeover/leaves-a-paused-instance-paused',
      title: 'a takeover ends claims of a paused instance; they are due after the resume',
      async run(store) {
        const dead = await store.reopen();
        await dead.registerProcess(newProcess('host'));
        await store.begin('a', { workItems: [workItem(1)] });
        await dead.fetchWorkItems({ max: 1, lockMs, waitMs: 0 });
        await pause(store, 'a');
        const [process] = await store.provider.listProcesses('host');
        assert.equal(await store.provider.takeOverClaims([process?.processId ?? '']), 1);
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.equal((await store.claimWorkOne()).claims, 2);
      },
    },
    {
      id: 'pause/a-resume-can-be-repeated',
      title: 'a resume of an instance that is not paused changes nothing',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        const running = { found: true, changed: false, status: 'running', paused: false };
        assert.deepEqual(await resume(store, 'a'), running);
        await pause(store, 'a');
        assert.deepEqual(await resume(store, 'a'), { ...running, changed: true });
        assert.deepEqual(await resume(store, 'a'), running);
      },
    },
    {
      id: 'pause/a-resumed-instance-takes-fast-turns',
      title: 'ackTurns() commits again after a resume',
      async run(store) {
        const begun = await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        const { lockToken } = only(begun.claimed, 'claimed item');
        await pause(store, 'a');
        await resume(store, 'a');
        expectCommitted(await store.ackTurn(begun, [lockToken], { outcome: completed }));
      },
    },
    {
      id: 'pause/a-cancel-ends-the-pause',
      title: 'a cancel of a paused instance ends the pause, so that its code can clean up',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2, { shielded: true })] });
        await pause(store, 'a');
        assert.equal((await store.cancel('a', { reason: 'x' })).changed, true);
        assert.equal(await pausedOf(store, 'a'), null);
        assert.equal((await store.claimWorkOne()).operation, 2);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['cancel', 'activityCanceled 1']);
        await createTask(store, 'task');
        await pause(store, 'task');
        assert.equal((await store.cancel('task')).status, 'canceled');
        await store.create('pending');
        await pause(store, 'pending');
        assert.equal((await store.cancel('pending')).status, 'canceled');
        assert.equal(await pausedOf(store, 'pending'), null);
      },
    },
    {
      id: 'pause/a-terminate-ends-the-pause',
      title: 'a terminate of a paused instance ends it and its pause',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await pause(store, 'a');
        assert.equal((await store.terminate('a')).status, 'terminated');
        assert.equal(await pausedOf(store, 'a'), null);
        await expectNothingClaimable(store);
      },
    },
    {
      id: 'pause/ends-with-the-instance',
      title: 'a turn under way that ends a paused instance ends the pause',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await pause(store, 'a');
        await store.commit(item, { outcome: completed });
        const { status, paused } = await store.record('a');
        assert.deepEqual({ status, paused }, { status: 'completed', paused: null });
        assert.equal((await store.provider.systemMetrics()).pausedInstances, 0);
      },
    },
    {
      id: 'pause/does-not-survive-a-deletion',
      title: 'an instance that is created again after a deletion is not paused',
      async run(store) {
        await store.begin('a');
        await pause(store, 'a');
        const tree = { instanceIds: ['a'], force: true };
        assert.equal((await store.provider.deleteInstancesAtomic([tree]))[0]?.kind, 'deleted');
        await store.create('a');
        assert.equal(await pausedOf(store, 'a'), null);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'pause/does-not-wake-workers',
      title: 'a waiting fetch does not return paused work, and a resume ends the wait',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await pause(store, 'a');
        const turns = store.claim({ waitMs: 60_000 });
        const work = store.claimWork({ waitMs: 60_000 });
        await store.raise('a', 'x');
        await expectPending(turns, 'the fetch of turns');
        await expectPending(work, 'the fetch of work');
        await resume(store, 'a');
        assert.deepEqual((await withTimeLimit(turns, 'after the resume')).map(labels), [['x']]);
        assert.equal((await withTimeLimit(work, 'after the resume')).length, 1);
      },
    },
    {
      id: 'pause/messages-are-kept',
      title: 'a paused instance without queue rows accepts messages and keeps them',
      async run(store) {
        await store.begin('a');
        await pause(store, 'a');
        const message = raised('x');
        assert.deepEqual(await store.provider.enqueueMessages([{ instanceId: 'a', message }]), [
          'enqueued',
        ]);
        await expectNothingClaimable(store);
        await resume(store, 'a');
        assert.deepEqual(labels(await store.claimOne()), ['x']);
      },
    },
    {
      id: 'pause/is-audited',
      title: 'a pause and a resume are recorded once, and not if they change nothing',
      async run(store) {
        await store.begin('a');
        const audit = { actor: 'ops', filter: '{"ids":1}' };
        const paused = { ...audit, auditId: 'one', action: 'pause' } as const;
        const resumed = { ...audit, auditId: 'two', action: 'resume' } as const;
        const again = { ...paused, auditId: 'three' };
        const request = { instanceId: 'a', ...by, tree: false };
        await store.provider.pauseInstances([{ ...request, audit: paused }]);
        await store.provider.pauseInstances([{ ...request, audit: again }]);
        await store.provider.resumeInstances([{ ...request, audit: resumed }]);
        const records = await store.provider.listAudit({ limit: 10 });
        assert.deepEqual(
          records.map(({ auditId, action, actor }) => [auditId, action, actor]),
          [
            ['two', 'resume', 'ops'],
            ['one', 'pause', 'ops'],
          ],
        );
      },
    },
    {
      id: 'pause/is-counted',
      title: 'queue depths and metrics count what is paused apart from what is ready',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await createTask(store, 'task');
        await store.raise('a', 'x');
        await pause(store, 'a');
        await pause(store, 'task');
        const depths = await store.provider.queueDepths();
        for (const { ready, paused } of [depths.orchestrations, depths.activities, depths.tasks]) {
          assert.deepEqual({ ready, paused }, { ready: 0, paused: 1 });
        }
        const { pausedInstances, pausedDefinitions } = await store.provider.systemMetrics();
        assert.deepEqual([pausedInstances, pausedDefinitions], [2, 0]);
      },
    },
  ],
};
