import Database from 'better-sqlite3';
import { SimHost } from '../engine/sim-host.ts';
import type { SimProcess } from '../engine/scheduler.ts';
import type { HostProcesses } from '../../../src/runtime/leases/host-processes.ts';
import { Batch } from '../../../src/runtime/batches/batch.ts';
import { CompletionWaiter } from '../../../src/client/waiting/completion-waiter.ts';
import { LiveSession } from '../../../src/jobs/live-session.ts';
import { DeferredWrites } from '../../../src/providers/sqlite/batches/deferred-writes.ts';
import { Lanes } from '../../../src/providers/sqlite/limits/lanes.ts';
import { InstanceStops } from '../../../src/providers/sqlite/stopping/instance-stops.ts';
import { InstanceLocks } from '../../../src/providers/sqlite/tables/instance-locks.ts';
import { InstanceRows } from '../../../src/providers/sqlite/tables/instance-rows.ts';
import { ItemCancels } from '../../../src/providers/sqlite/tables/item-cancels.ts';
import { Messages } from '../../../src/providers/sqlite/tables/messages.ts';
import { WorkItems } from '../../../src/providers/sqlite/tables/work-items.ts';
import { WakeUps } from '../../../src/providers/sqlite/wakeups/wake-ups.ts';
import { MessageBatch } from '../../../src/replay/message-batch.ts';
import { Slots, StartSlices } from '../../../src/runtime/activities/concurrency.ts';
import { ActivityRun } from '../../../src/runtime/activities/activity-run.ts';
import { Leases } from '../../../src/runtime/leases/leases.ts';
import { TurnLifecycle } from '../../../src/runtime/turns/turn-lifecycle.ts';
import { WarmCache } from '../../../src/runtime/turns/warm-cache.ts';
import { Completions } from '../../../src/runtime/turns/completions.ts';
import { Sweeper } from '../../../src/management/sweeper.ts';
import { StreamRows } from '../../../src/providers/sqlite/tables/stream-rows.ts';
import { Emitter } from '../../../src/runtime/activities/emitter.ts';
import { Scheduler } from '../../../src/schedules/scheduler.ts';
import { SessionReaper } from '../../../src/runtime/maintenance/session-reaper.ts';
import { WarmInstance } from '../../../src/runtime/turns/warm-instance.ts';
import { Tombstones } from '../../../src/providers/sqlite/tables/tombstones.ts';
import { BatchGatherer } from '../../../src/runtime/batches/batch-gatherer.ts';
import { SendQueue } from '../../../src/jobs/send-queue.ts';
import { JobRun } from '../../../src/jobs/job-run.ts';
import { BatchMember } from '../../../src/runtime/batches/batch-member.ts';
import { StepHolder } from '../../../src/runtime/steps/step-holder.ts';
import { Reclaimer } from '../../../src/runtime/maintenance/reclaimer.ts';
import { SessionRows } from '../../../src/providers/sqlite/jobs/session-rows.ts';
import type { PlantedBug } from './planted-bug.ts';
import { never, replace, replacePlatformFunction } from './replace.ts';

/** Replaces the statements of savepoints by one without effect, or one that fails. */
function replaceSavepoints(replacement: string): () => () => void {
  const statements = /^(?:SAVEPOINT|RELEASE|ROLLBACK TO) item$/;
  const of = Database as unknown as { readonly prototype: Database.Database };
  return replace(
    of,
    'prepare',
    (original) =>
      function prepare(this: unknown, sql: string) {
        return original.call(this, statements.test(sql) ? replacement : sql);
      },
  );
}

/** Guards of the runtime, the client and the SQLite provider, removed one by one. */
export const engineBugs: readonly PlantedBug[] = [
  {
    fault: 'a handler starts although its lease has ended',
    breakEngine: replace(Leases, 'isHeld', () => () => true),
  },
  {
    fault: 'a worker counts a lease from the response instead of the request',
    breakEngine: replace(
      Leases,
      'add',
      (original) =>
        function add(this: unknown, lease: unknown, claimedAt: number) {
          return original.call(this, lease, claimedAt + 150);
        },
    ),
  },
  {
    fault: 'a worker measures leases with the wall clock, which steps',
    breakClock: (clock, wall) => ({ ...clock, monotonic: () => wall.now() }),
    weather: { skewMs: 2_000, storeWakes: false, pollMs: 250, rates: { step: 0.1, stop: 0.012 } },
  },
  {
    fault: 'alarms wait for the wall clock, which steps back',
    breakClock: (clock, wall) => ({
      ...clock,
      setTimer: (delayMs, callback) => {
        const at = wall.now() + delayMs;
        let cancel = (): void => undefined;
        const arm = (waitMs: number): void => {
          cancel = clock.setTimer(waitMs, () => {
            const leftMs = at - wall.now();
            if (leftMs > 0) arm(leftMs);
            else callback();
          });
        };
        arm(delayMs);
        return () => cancel();
      },
    }),
    weather: { skewMs: 2_000, storeWakes: false, pollMs: 250, rates: { step: 0.1, stop: 0.012 } },
  },
  {
    fault: 'the clock of the store follows the steps of the wall clock',
    breakStoreClock: (clock) => {
      const aheadMs = clock.now() - clock.monotonic();
      return { ...clock, monotonic: () => clock.now() - aheadMs };
    },
    weather: { skewMs: 0, rates: { storeStep: 0.02 } },
  },
  {
    fault: 'all handlers of a claimed batch start in one iteration of the event loop',
    breakEngine: replace(StartSlices, 'admit', never),
    weather: { burns: true },
  },
  {
    fault: 'a lost lease does not end its run',
    breakEngine: replace(ActivityRun, 'onLost', never),
  },
  {
    fault: 'a delivered cancel does not abort its run',
    breakEngine: replace(ActivityRun, 'onCancel', never),
  },
  {
    fault: 'a slot is not freed when its run ends',
    breakEngine: replace(Slots, 'release', never),
  },
  {
    fault: 'a warm instance stays cached after its turn was refused',
    breakEngine: replace(TurnLifecycle, 'rejected', never),
  },
  {
    fault: 'a warm instance that ended elsewhere runs its next turn',
    breakEngine: replace(WarmCache, 'evict', never),
  },
  {
    fault: 'outcomes that wait for a busy instance are forgotten',
    breakEngine: replace(Completions, 'release', never),
  },
  {
    fault: 'the answer in the same turn as a cancel is dropped',
    breakEngine: replace(MessageBatch, 'answerTo', never),
  },
  {
    fault: 'events that a turn did not await are not carried over',
    breakEngine: replace(
      MessageBatch,
      'carry',
      (original) =>
        function carry(this: unknown) {
          return original.call(this, []);
        },
    ),
  },
  {
    fault: 'a commit does not wake a fetch that waits for work',
    breakEngine: replace(
      WakeUps,
      'announce',
      (original) =>
        function announce(this: unknown, effects: object) {
          const dueAt = { work: Infinity, orchestrations: Infinity };
          return original.call(this, Object.assign(Object.create(effects) as object, { dueAt }));
        },
    ),
  },
  {
    fault: 'a due timer does not wake a fetch',
    breakEngine: replace(
      WakeUps,
      'wait',
      (original) =>
        function wait(this: unknown, options: object) {
          return original.call(this, { ...options, until: Number.MAX_SAFE_INTEGER });
        },
    ),
  },
  {
    fault: 'an expired lease of a work item is accepted',
    breakEngine: replace(
      WorkItems,
      'heldBy',
      (original) =>
        function heldBy(this: unknown, token: string, _now: number, options: unknown) {
          return original.call(this, token, 0, options);
        },
    ),
  },
  {
    fault: 'an expired claim of an instance is accepted',
    breakEngine: replace(
      InstanceRows,
      'getHeld',
      (original) =>
        function getHeld(this: unknown, token: string) {
          return original.call(this, token, 0);
        },
    ),
  },
  {
    fault: 'an expired claim of an instance is renewed',
    breakEngine: replace(
      InstanceLocks,
      'renew',
      (original) =>
        function renew(this: unknown, token: string, _now: number, until: number) {
          return original.call(this, token, 0, until);
        },
    ),
  },
  {
    fault: 'a cancel does not reach claimed work',
    breakEngine: replace(ItemCancels, 'cancelRequested', () => () => []),
  },
  {
    fault: 'an instance ends as canceled while its work runs',
    breakEngine: replace(ItemCancels, 'hasAttended', () => () => false),
  },
  {
    fault: 'the children of an instance are not canceled with it',
    breakEngine: replace(InstanceStops, 'requestChildren', never),
  },
  {
    fault: 'an ack leaves its messages in the queue',
    breakEngine: replace(Messages, 'delete', never),
  },
  {
    fault: 'a released instance with messages is not claimable',
    breakEngine: replace(InstanceLocks, 'touch', () => () => true),
  },
  {
    fault: 'writes that were deferred in a group are dropped',
    breakEngine: replace(DeferredWrites, 'flush', never),
  },
  {
    fault: 'a bad item of a group has no savepoint',
    breakEngine: replaceSavepoints('DELETE FROM instances WHERE FALSE'),
    finding: /\bbad\d/,
  },
  {
    fault: 'a bad item of a group fails the others',
    breakEngine: replaceSavepoints('ROLLBACK TO none'),
  },
  {
    fault: 'deferred writes of a group that was rolled back are kept',
    breakEngine: replace(DeferredWrites, 'discard', never),
  },
  {
    fault: 'an enqueued item does not make its lane ready',
    breakEngine: replace(Lanes, 'enqueue', never),
  },
  {
    fault: 'a closed session does not cancel its jobs',
    breakEngine: replace(LiveSession, 'leave', () => () => Promise.resolve()),
  },
  {
    fault: 'a schedule that was put does not fire',
    breakEngine: replace(Scheduler, 'start', never),
  },
  {
    fault: 'a client waits for an output and reads none',
    breakEngine: replace(
      CompletionWaiter,
      'waitForOutput',
      () => () => new Promise<never>(() => undefined),
    ),
  },
  {
    fault: 'a handler that blocked its process past its lease starts again',
    breakEngine: replacePlatformFunction('awake', () => 0),
    weather: { burns: true },
  },
  {
    fault: 'a run is not aborted when its worker stops',
    breakEngine: replace(ActivityRun, 'abort', never),
  },
  {
    fault: 'a batch does not close when its wait has passed',
    breakEngine: replace(Batch, 'close', never),
  },
  {
    fault: 'a settled item stays in the queue',
    breakEngine: replace(WorkItems, 'delete', never),
  },
  {
    fault: 'a closing instance never becomes canceled',
    breakEngine: replace(InstanceStops, 'finishClosing', () => () => true),
  },
  {
    fault: 'a worker does not list the dead processes of its host',
    breakStore: ({ provider }) => ({
      renewWorkers: async (params) => ({ ...(await provider.renewWorkers(params)), processes: [] }),
      listProcesses: async () => [],
    }),
    weather: { hosts: 1 },
  },
  {
    fault: 'a suspended process counts as dead',
    breakEngine: replace(
      SimHost,
      'seenBy',
      (original) =>
        function seenBy(this: unknown, process: SimProcess) {
          const host = original.call(this, process) as HostProcesses;
          return { ...host, hasDied: () => true };
        },
    ),
    weather: { hosts: 1 },
  },
  {
    fault: 'ended instances are never swept',
    breakEngine: replace(Sweeper, 'start', never),
  },
  {
    fault: 'chunks are not stored',
    breakEngine: replace(StreamRows, 'append', never),
  },
  {
    fault: 'a run ends before its chunks are stored',
    breakEngine: replace(Emitter, 'drain', () => () => Promise.resolve()),
  },
  {
    fault: 'a withdrawn operation is not canceled',
    breakEngine: replace(ItemCancels, 'cancelOperations', () => () => []),
  },
  {
    fault: 'expired sessions are not ended',
    breakEngine: replace(SessionReaper, 'start', never),
  },
  {
    fault: 'a warm instance runs two turns at a time',
    breakEngine: replace(WarmInstance, 'tryAcquire', () => () => true),
  },
  {
    fault: 'the store forgets which instances were deleted',
    breakEngine: replace(Tombstones, 'has', () => () => false),
  },
  {
    fault: 'the store does not learn that a reply was taken',
    breakEngine: replace(LiveSession, 'sendTaken', never),
  },
  {
    fault: 'a batch takes more runs than it has places',
    breakEngine: replace(BatchGatherer, 'mayAdd', () => () => true),
  },
  {
    fault: 'a drain does not wait for jobs that are not sent',
    breakEngine: replace(SendQueue, 'allSent', () => () => Promise.resolve()),
  },
  {
    fault: 'a closed job is not canceled',
    breakEngine: replace(JobRun, 'close', never),
  },
  {
    fault: 'a canceled member of a batch is not aborted',
    breakEngine: replace(BatchMember, 'cancel', never),
  },
  {
    fault: 'the handler of a deleted instance is not aborted',
    breakEngine: replace(ActivityRun, 'onDeleted', never),
  },
  {
    fault: 'hints do not wake an instance with running steps',
    breakEngine: replace(StepHolder, 'onHint', never),
  },
  {
    fault: 'rows of deleted instances are not reclaimed',
    breakEngine: replace(Reclaimer, 'runIfDue', never),
  },
  {
    fault: 'the clean-up of an instance is never due',
    breakEngine: replace(InstanceLocks, 'selectCleanupDue', () => () => []),
  },
  {
    fault: 'a session with open jobs counts as empty',
    breakEngine: replace(SessionRows, 'countOpenJobs', () => () => 0),
  },
];
