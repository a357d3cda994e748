import assert from 'node:assert/strict';
import type { AuditEntry } from '../../../../providers/contract/management.ts';
import type { ScheduledRuns, ScheduleRecord } from '../../../../providers/contract/schedules.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { newInstance } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { createTask, expectStatus, newTask, putSchedule, tickOf } from '../../task-helpers.ts';

async function read(store: StoreUnderTest, name = 'a'): Promise<ScheduleRecord> {
  return only(await store.provider.listSchedules({ limit: 1, names: [name] }), 'schedule');
}

async function ids(store: StoreUnderTest): Promise<readonly string[]> {
  const { instances } = await store.provider.listInstances({ filter: {}, limit: 100 });
  return instances.map(({ instanceId }) => instanceId).toSorted();
}

/** Starts the task `instanceId` by a tick that allows overlap. */
async function tickTask(store: StoreUnderTest, instanceId: string): Promise<void> {
  const tick = tickOf(await read(store), { tasks: [newTask(instanceId)] });
  assert.deepEqual(await store.provider.tickSchedules([tick]), [true]);
}

/** Claims the only claimable task and completes it. */
async function endTask(store: StoreUnderTest): Promise<void> {
  const { lockToken } = await store.claimWorkOne();
  expectCommitted(await store.ackWork(lockToken));
}

const buffered = { bufferedTicks: [7], skipped: 2 };

function triggerOf(record: ScheduleRecord, parts: Partial<ScheduledRuns> = {}): ScheduledRuns {
  return {
    name: record.name,
    ifRevision: record.revision,
    instances: [],
    tasks: [],
    areTracked: true,
    ...parts,
  };
}

const audit: AuditEntry = {
  auditId: 'audit 1',
  action: 'trigger',
  actor: 'ops',
  filter: '{"schedule":"a"}',
};

export const scheduleRuns: Capability = {
  title: 'overlap, triggers and buffered ticks of schedules',
  cases: [
    {
      id: 'schedule/a-tick-keeps-its-runs',
      title: 'tickSchedules() appends its runs to the last 20 and adds skipped ticks',
      async run(store) {
        await putSchedule(store, 'a');
        for (let n = 10; n < 35; n += 1) await tickTask(store, `t${n}`);
        const tick = tickOf(await read(store), { skipped: 3, bufferedTicks: [5, 6] });
        await store.provider.tickSchedules([tick]);
        await store.provider.tickSchedules([tickOf(await read(store), { skipped: 1 })]);
        const { runIds, skippedTicks, bufferedTicks } = await read(store);
        const last = Array.from({ length: 20 }, (_, index) => `t${15 + index}`);
        assert.deepEqual([runIds, skippedTicks, bufferedTicks], [last, 4, []]);
      },
    },
    {
      id: 'schedule/a-tick-waits-for-the-run',
      title: 'a tick with whileRunning starts nothing while a run of the schedule is live',
      async run(store) {
        const { provider } = store;
        await putSchedule(store, 'a');
        await tickTask(store, 'live');
        for (let n = 0; n < 25; n += 1) {
          const run = triggerOf(await read(store), { tasks: [newTask(`t${n}`)] });
          await provider.startScheduledRuns(run);
          const stop = { instanceId: `t${n}`, reason: 'test', actor: null, tree: false };
          await provider.terminate([stop]);
          const kept = tickOf(await read(store), { whileRunning: buffered });
          assert.deepEqual(await provider.tickSchedules([kept]), [true]);
        }
        const before = await read(store);
        const tick = tickOf(before, { tasks: [newTask('second')], whileRunning: buffered });
        assert.deepEqual(await provider.tickSchedules([tick]), [true]);
        const after = await read(store);
        assert.ok(after.runIds.includes('live') && !after.runIds.includes('second'));
        assert.deepEqual(
          [after.bufferedTicks, after.skippedTicks, after.nextAt, after.lastTickAt],
          [[7], before.skippedTicks + 2, tick.nextAt, tick.lastTickAt],
        );
        assert.equal((await ids(store)).includes('second'), false);
        await expectStatus(store, 'live', 'pending');
      },
    },
    {
      id: 'schedule/a-run-that-ended-is-not-live',
      title: 'a tick with whileRunning starts its run after the earlier ones ended or were deleted',
      async run(store) {
        const { provider } = store;
        await putSchedule(store, 'a');
        await tickTask(store, 'first');
        await endTask(store);
        const second = tickOf(await read(store), {
          instances: [newInstance('second')],
          whileRunning: buffered,
        });
        assert.deepEqual(await provider.tickSchedules([second]), [true]);
        await provider.deleteInstancesAtomic([{ instanceIds: ['second'], force: true }]);
        const third = tickOf(await read(store), {
          tasks: [newTask('third')],
          bufferedTicks: [9],
          whileRunning: buffered,
        });
        assert.deepEqual(await provider.tickSchedules([third]), [true]);
        const { runIds, bufferedTicks, skippedTicks, lastInstanceId } = await read(store);
        assert.deepEqual(runIds, ['first', 'second', 'third']);
        assert.deepEqual([bufferedTicks, skippedTicks, lastInstanceId], [[9], 0, 'third']);
      },
    },
    {
      id: 'schedule/a-tick-cancels-the-run',
      title: 'a tick with whileRunning.cancel cancels every live run in its transaction',
      async run(store) {
        const { provider } = store;
        await putSchedule(store, 'a');
        await tickTask(store, 'waiting');
        await tickTask(store, 'running');
        const cancel = { reason: 'next tick', cleanupMs: 1_000 };
        const tick = tickOf(await read(store), {
          tasks: [newTask('next')],
          whileRunning: { ...buffered, cancel },
        });
        assert.deepEqual(await provider.tickSchedules([tick]), [true]);
        await expectStatus(store, 'waiting', 'canceled');
        await expectStatus(store, 'running', 'canceled');
        assert.equal((await ids(store)).includes('next'), false);
        assert.deepEqual((await read(store)).bufferedTicks, [7]);
        const stale = tickOf(await read(store), { whileRunning: { ...buffered, cancel } });
        await tickTask(store, 'other');
        assert.deepEqual(await provider.tickSchedules([stale]), [false]);
        await expectStatus(store, 'other', 'pending');
      },
    },
    {
      id: 'schedule/a-buffered-tick-is-due-after-the-run',
      title: 'dueSchedules() returns a schedule with buffered ticks once its runs have ended',
      async run(store) {
        const { provider } = store;
        const now = store.clock.now();
        await putSchedule(store, 'a', now + 60_000);
        await tickTask(store, 'live');
        const tick = tickOf(await read(store), { nextAt: now + 60_000, whileRunning: buffered });
        await provider.tickSchedules([tick]);
        const due = async () => {
          const { due: found, waitsFor } = await provider.dueSchedules(9);
          return [found.map(({ name }) => name), waitsFor];
        };
        assert.deepEqual(await due(), [[], ['live']]);
        await provider.setSchedulePaused('a', true);
        assert.deepEqual(await due(), [[], []]);
        await provider.setSchedulePaused('a', false);
        await endTask(store);
        assert.deepEqual(await due(), [['a'], []]);
        assert.deepEqual((await read(store)).bufferedTicks, [7]);
        const started = tickOf(await read(store), {
          nextAt: now + 60_000,
          tasks: [newTask('buffered')],
          whileRunning: buffered,
        });
        assert.deepEqual(await provider.tickSchedules([started]), [true]);
        assert.deepEqual(await due(), [[], []]);
      },
    },
    {
      id: 'shared/one-run-at-a-time',
      title: 'concurrent ticks with whileRunning by two processes leave one live run',
      async run(store) {
        const other = await store.reopen();
        await putSchedule(store, 'a');
        for (let round = 0; round < 10; round += 1) {
          const record = await read(store);
          const tick = (id: string) =>
            tickOf(record, { tasks: [newTask(id)], whileRunning: { ...buffered, skipped: 1 } });
          await Promise.all([
            store.provider.tickSchedules([tick(`mine ${round}`)]),
            other.tickSchedules([tick(`theirs ${round}`)]),
          ]);
        }
        assert.equal((await ids(store)).length, 1);
        assert.equal((await read(store)).skippedTicks, 9);
      },
    },
    {
      id: 'schedule/a-trigger-moves-no-tick',
      title: 'startScheduledRuns() starts runs also while paused, and keeps ticks and revision',
      async run(store) {
        const { provider } = store;
        await putSchedule(store, 'a');
        await provider.setSchedulePaused('a', true);
        const before = await read(store);
        await store.clock.advance(5);
        const runs = triggerOf(before, { instances: [newInstance('i')], tasks: [newTask('t')] });
        assert.deepEqual(await provider.startScheduledRuns(runs), [
          { instanceId: 'i', created: true },
          { instanceId: 't', created: true },
        ]);
        assert.deepEqual(await read(store), {
          ...before,
          runIds: ['i', 't'],
          lastInstanceId: 't',
        });
        assert.equal((await store.claimOne()).instanceId, 'i');
        assert.equal((await store.claimWorkOne()).instanceId, 't');
      },
    },
    {
      id: 'schedule/untracked-runs-leave-no-trace',
      title: 'startScheduledRuns() without tracking leaves the schedule unchanged',
      async run(store) {
        const before = await putSchedule(store, 'a');
        const runs = triggerOf(before, { tasks: [newTask('t')], areTracked: false });
        await store.provider.startScheduledRuns(runs);
        assert.deepEqual(await read(store), before);
        assert.deepEqual(await ids(store), ['t']);
      },
    },
    {
      id: 'schedule/a-trigger-can-be-repeated',
      title: 'startScheduledRuns() with a taken id or a held dedupe key creates nothing',
      async run(store) {
        const { provider } = store;
        const record = await putSchedule(store, 'a');
        await createTask(store, 'holder', { dedupeKey: 'k' });
        const runs = () =>
          triggerOf(record, {
            instances: [newInstance('i')],
            tasks: [newTask('t'), newTask('new', { dedupeKey: 'k' })],
            audit,
          });
        await provider.startScheduledRuns(runs());
        const again = await store.expectNoChange(() => provider.startScheduledRuns(runs()));
        assert.deepEqual(again, [
          { instanceId: 'i', created: false },
          { instanceId: 't', created: false },
          { instanceId: 'holder', created: false },
        ]);
        assert.equal((await provider.listAudit({ limit: 9 })).length, 1);
      },
    },
    {
      id: 'schedule/a-trigger-needs-the-revision',
      title: 'startScheduledRuns() of an unknown or changed schedule changes nothing',
      async run(store) {
        const { provider } = store;
        const old = await putSchedule(store, 'a');
        await putSchedule(store, 'a');
        const runs = triggerOf(old, { tasks: [newTask('t')], audit });
        assert.equal(await provider.startScheduledRuns(runs), undefined);
        assert.equal(await provider.startScheduledRuns({ ...runs, name: 'none' }), undefined);
        assert.deepEqual(await ids(store), []);
        assert.deepEqual(await provider.listAudit({ limit: 9 }), []);
      },
    },
    {
      id: 'schedule/a-trigger-is-audited',
      title: 'startScheduledRuns() records one audit entry for the calls of an operation',
      async run(store) {
        const { provider } = store;
        const record = await putSchedule(store, 'a');
        await provider.startScheduledRuns(triggerOf(record, { tasks: [newTask('t')], audit }));
        await provider.startScheduledRuns(triggerOf(record, { tasks: [newTask('t')], audit }));
        await provider.startScheduledRuns(triggerOf(record, { tasks: [newTask('u')], audit }));
        const entry = only(await provider.listAudit({ limit: 9 }), 'audit entry');
        const { auditId, action, actor, filter, instancesDeleted } = entry;
        assert.deepEqual({ auditId, action, actor, filter }, audit);
        assert.equal(instancesDeleted, 0);
      },
    },
    {
      id: 'schedule/a-rejected-trigger-changes-nothing',
      title: 'startScheduledRuns() with a run that the store rejects starts none of them',
      async run(store) {
        const { provider } = store;
        const record = await putSchedule(store, 'a');
        const tasks = [newTask('half'), newTask('x', { priority: 1_000 })];
        await assert.rejects(provider.startScheduledRuns(triggerOf(record, { tasks, audit })));
        assert.deepEqual(await ids(store), []);
        assert.deepEqual(await read(store), record);
        assert.deepEqual(await provider.listAudit({ limit: 9 }), []);
      },
    },
  ],
};
