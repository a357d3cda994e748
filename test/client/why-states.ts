import { encodeEvent, type HistoryEvent } from '../../src/model/event.ts';
import { encodeBlockedDetails } from '../../src/model/failures/blocked.ts';
import type { DefinitionKind, PauseDefinition } from '../../src/providers/contract/pausing.ts';
import type { Turn } from '../../src/providers/contract/turn.ts';
import type { NewWorker } from '../../src/providers/contract/workers.ts';
import {
  abandon,
  openSession,
  startJob,
  submitAll,
  taskJob,
} from '../../src/testing/conformance/job-helpers.ts';
import { child, newWorker, workItem } from '../../src/testing/conformance/sample-data.ts';
import type { StoreUnderTest } from '../../src/testing/conformance/store-under-test.ts';
import { createTask, startTask } from '../../src/testing/conformance/task-helpers.ts';

const failure = JSON.stringify({ name: 'E', message: 'card declined', code: 'CARD_DECLINED' });
const retry = JSON.stringify({
  retry: {
    maxAttempts: 10,
    backoff: 'fixed',
    initialDelayMs: 1,
    maxDelayMs: 1,
    factor: 1,
    jitter: 0,
    nonRetryable: [],
  },
});

const started: HistoryEvent = {
  kind: 'executionStarted',
  at: 1,
  name: 'sample',
  version: '1',
  payload: null,
};
const scheduled = (operation: number, name: string): HistoryEvent => ({
  kind: 'activityScheduled',
  at: 1,
  operation,
  name,
  payload: null,
});
export const awaited = (operation: number, name: string): HistoryEvent => ({
  kind: 'eventAwaited',
  at: 1,
  operation,
  name,
});
const timer = (operation: number, fireAt: number): HistoryEvent => ({
  kind: 'timerCreated',
  at: 1,
  operation,
  fireAt,
});

/** Begins instance `a` with these events and turn parts. */
export async function begin(
  store: StoreUnderTest,
  events: readonly HistoryEvent[],
  parts: Partial<Turn> = {},
): Promise<void> {
  await store.begin('a', { events: [started, ...events].map(encodeEvent), ...parts });
}

async function fail(store: StoreUnderTest, delayMs: number): Promise<void> {
  const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
  await store.provider.retryWorkItems([{ lockToken, delayMs, failure }]);
}

async function block(store: StoreUnderTest, code: string, reason: string): Promise<void> {
  await store.create('a');
  const { lockToken } = await store.claimOne();
  const blocked = { reason, buildId: 'b1', details: encodeBlockedDetails({ code, worker: 'w1' }) };
  await store.provider.abandonOrchestrationItems([
    { lockToken, delayMs: 8_000, giveBackClaim: true, blocked },
  ]);
}

async function pause(store: StoreUnderTest, reason: string): Promise<void> {
  await store.provider.pauseInstances([{ instanceId: 'a', tree: false, reason, actor: 'ada' }]);
}

function definition(kind: DefinitionKind, name: string): PauseDefinition {
  return { kind, name, reason: null, actor: null };
}

/** A live worker with the definitions of the states. */
export const liveWorker = newWorker('live', {
  orchestrations: ['sample', 'ship'].map((name) => ({ name, version: '1' })),
  activities: ['charge'],
  tasks: ['mail'],
  heartbeatMs: 3_600_000,
});

/** A state of an instance, and how `why` explains it. */
export interface State {
  readonly state: string;
  /** Default: `liveWorker`. */
  readonly workers?: readonly NewWorker[];
  /** Brings instance `a` into the state. */
  readonly arrange: (store: StoreUnderTest) => Promise<unknown>;
  readonly waits: readonly object[];
  readonly text: string;
  readonly short: string;
}

const childScheduled: HistoryEvent = {
  kind: 'childScheduled',
  at: 1,
  operation: 1,
  name: 'ship',
  version: null,
  childId: 'c',
  payload: null,
};

const charge = workItem(1, { name: 'charge', options: retry });

/** The states of the instance `a`. */
export const states: readonly State[] = [
  {
    state: 'pending, claimable',
    arrange: async (store) => {
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'worker', reason: 'queued', name: 'sample', claims: 0 }],
    short: 'Waits for a worker, due for 5 s',
    text: 'Waiting for a worker with orchestration `sample`: due for 5 s.',
  },
  {
    state: 'released with a delay',
    arrange: async (store) => {
      await store.create('a');
      const { lockToken } = await store.claimOne();
      await store.provider.abandonOrchestrationItems([
        { lockToken, delayMs: 2_000, giveBackClaim: true },
      ]);
    },
    waits: [{ kind: 'delay' }],
    short: 'Released by a worker: next claim in 2 s',
    text: 'A worker released it: the next claim is possible in 2 s.',
  },
  {
    state: 'running a turn',
    arrange: async (store) => {
      await store.create('a');
      await store.claim({ worker: 'w1' });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'turn', worker: 'w1' }],
    short: 'Runs a turn on `w1`',
    text: 'A turn has been running on worker `w1` for 3 s; its lease ends in 7 s.',
  },
  {
    state: 'a turn whose lease expired',
    arrange: async (store) => {
      await store.create('a');
      await store.claim({ worker: 'w1' });
      await store.clock.advance(14_000);
    },
    waits: [{ kind: 'worker', claims: 1, expired: { worker: 'w1' } }],
    short: 'Lost its worker: its turn waits for another one',
    text: 'The lease of worker `w1` expired 4 s ago during a turn (claim 1). Waiting for another worker with orchestration `sample`.',
  },
  {
    state: 'an activity that is queued',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'activity', name: 'charge', state: 'queued', attempt: 1, maxAttempts: 10 }],
    short: 'Waits for a worker to run `charge`, due for 3 s',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been due for 3 s, and no worker has claimed it.',
  },
  {
    state: 'an activity that runs, with a heartbeat',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
      await store.clock.advance(3_000);
      await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '1' }], 10_000);
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'activity', state: 'running', worker: 'w1', heartbeat: 1 }],
    short: 'Runs `charge`, heartbeat 2 s ago',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been running on worker `w1` for 5 s, last heartbeat 2 s ago.',
  },
  {
    state: 'an activity between two attempts',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      for (let attempt = 0; attempt < 3; attempt += 1) await fail(store, attempt < 2 ? 0 : 12_000);
    },
    waits: [{ kind: 'activity', state: 'retrying', attempt: 4 }],
    short: 'Retrying `charge`: attempt 4 of 10 starts in 12 s',
    text: 'Retrying `charge`: attempt 4 of 10 starts in 12 s. Last error: card declined (CARD_DECLINED).',
  },
  {
    state: 'an activity whose lease expired',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.claimWorkOne({ worker: 'w1' });
      await store.clock.advance(14_000);
    },
    waits: [{ kind: 'activity', state: 'queued', expired: { worker: 'w1' } }],
    short: 'Lost its worker: `charge` waits for another one',
    text: 'Waiting for activity `charge`: the lease of worker `w1` expired 4 s ago, and attempt 1 of 10 waits for another worker.',
  },
  {
    state: 'a timer',
    arrange: async (store) => begin(store, [timer(1, store.clock.now() + 12_000)]),
    waits: [{ kind: 'timer', operation: 1 }],
    short: 'Sleeps for another 12 s',
    text: 'Waiting for a timer: fires in 12 s.',
  },
  {
    state: 'an event',
    arrange: async (store) => begin(store, [awaited(1, 'approved')]),
    waits: [{ kind: 'event', name: 'approved' }],
    short: 'Waits for event `approved`',
    text: 'Waiting for event `approved`.',
  },
  {
    state: 'a detached start',
    arrange: async (store) =>
      begin(store, [
        {
          kind: 'detachedStarted',
          at: 1,
          operation: 1,
          name: 'mail',
          version: null,
          childId: 'm',
          payload: null,
        },
      ]),
    waits: [{ kind: 'detached', id: 'm', name: 'mail' }],
    short: 'Starts `mail`',
    text: 'Waiting for the start of detached instance `m`.',
  },
  {
    state: 'a child',
    arrange: async (store) => {
      await begin(store, [childScheduled], { children: [child('c', 1, { name: 'ship' })] });
      await store.clock.advance(1_000);
    },
    waits: [{ kind: 'child', id: 'c', name: 'ship', status: 'pending' }],
    short: 'Waits for child `ship`',
    text: 'Waiting for child `c` of `ship`: pending. Child: Waiting for a worker with orchestration `ship`: due for 1 s.',
  },
  {
    state: 'several operations',
    arrange: async (store) => {
      const now = store.clock.now();
      const events = [1, 2, 3, 4].map((operation) => awaited(operation, `e${operation}`));
      await begin(store, [...events, timer(5, now + 3_600_000)]);
    },
    waits: [1, 2, 3, 4, 5].map((operation) => ({ operation })),
    short: 'Waits for event `e1`; 4 more',
    text: 'Waiting for 5 operations: event `e1`; event `e2`; event `e3`; and 2 more.',
  },
  {
    state: 'canceling, with code that cleans up',
    arrange: async (store) => {
      await begin(store, [awaited(1, 'x')]);
      await store.cancel('a', { reason: 'no longer needed', actor: 'ada', cleanupMs: 60_000 });
      await store.commit(await store.claimOne());
    },
    waits: [{ kind: 'cancel', phase: 'cleanup', actor: 'ada' }, { kind: 'event' }],
    short: 'Canceling: waits for event `x`, 60 s left',
    text: 'Canceling by `ada` (no longer needed): its code may clean up for 60 s more. Waiting for event `x`.',
  },
  {
    state: 'canceling, with a handler in its grace',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.claimWorkOne({ worker: 'w1' });
      await store.cancel('a', { reason: 'stop', actor: null });
      await store.commit(await store.claimOne(), {
        outcome: { status: 'canceled', reason: 'stop', cleanupSkipped: false },
      });
      await store.clock.advance(1_000);
    },
    waits: [
      { kind: 'cancel', phase: 'handlers' },
      { kind: 'activity', state: 'running', cancel: { reason: 'stop' } },
    ],
    short: 'Canceling: waits for `charge` to stop',
    text: 'Canceling (stop): only running work keeps it from its end. Waiting for activity `charge`: attempt 1 of 10 has been running on worker `w1` for 1 s, asked to stop.',
  },
  {
    state: 'canceling, with a handler past its point of no return',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
      await store.provider.markPointOfNoReturn(lockToken);
      await store.cancel('a', { reason: 'stop', actor: null });
      await store.commit(await store.claimOne(), {
        outcome: { status: 'canceled', reason: 'stop', cleanupSkipped: false },
      });
    },
    waits: [{ kind: 'cancel' }, { kind: 'activity', pointOfNoReturn: true }],
    short: 'Canceling: waits for `charge` to stop',
    text: 'Canceling (stop): only running work keeps it from its end. Waiting for activity `charge`: attempt 1 of 10 has been running on worker `w1` for 0 ms, past its point of no return.',
  },
  {
    state: 'blocked by a disagreement',
    arrange: async (store) => {
      await store.create('a');
      const { lockToken } = await store.claimOne();
      const details = encodeBlockedDetails({
        code: 'NONDETERMINISM',
        worker: 'w1',
        eventId: 3,
        recorded: { kind: 'activityScheduled', name: 'charge', text: 'activity "charge"' },
        issued: { kind: 'timerCreated', text: 'timer' },
      });
      const blocked = { reason: 'long text', buildId: 'b1', details };
      await store.provider.abandonOrchestrationItems([
        { lockToken, delayMs: 8_000, giveBackClaim: true, blocked },
      ]);
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'blocked', code: 'NONDETERMINISM', eventId: 3, buildId: 'b1', worker: 'w1' }],
    short: 'Blocked: recorded `charge`, issued timer',
    text: 'Blocked for 5 s (NONDETERMINISM): event 3 of its history is activity "charge", but the code issued timer. Build `b1` retries it in 3 s; another build retries it immediately.',
  },
  {
    state: 'blocked without details',
    arrange: async (store) => {
      await store.create('a');
      const { lockToken } = await store.claimOne();
      const blocked = { reason: 'Undecodable.', buildId: 'b1' };
      await store.provider.abandonOrchestrationItems([
        { lockToken, delayMs: 8_000, giveBackClaim: true, blocked },
      ]);
    },
    waits: [{ kind: 'blocked', code: 'INTERNAL', reason: 'Undecodable.' }],
    short: 'Blocked (INTERNAL): Undecodable',
    text: 'Blocked for 0 ms (INTERNAL): Undecodable. Build `b1` retries it in 8 s; another build retries it immediately.',
  },
  {
    state: 'a task run that is queued, with priority and expiry',
    arrange: async (store) => {
      const expiresInMs = 60_000;
      await createTask(store, 'a', { name: 'mail', priority: 5, dedupeKey: 'k', expiresInMs });
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'task', name: 'mail', state: 'queued', priority: 5, dedupeKey: 'k' }],
    short: 'Waits for a worker to run `mail`, due for 2 s',
    text: 'Waiting for task `mail`: attempt 1 has been due for 2 s, and no worker has claimed it. Its priority is 5. Unclaimed, it expires in 58 s.',
  },
  {
    state: 'a task run with a delay',
    arrange: (store) => createTask(store, 'a', { name: 'mail', delayMs: 12_000 }),
    waits: [{ kind: 'task', state: 'queued' }],
    short: 'Starts `mail` in 12 s',
    text: 'Waiting for task `mail`: attempt 1 starts in 12 s.',
  },
  {
    state: 'a task run that runs',
    arrange: (store) => startTask(store, 'a', { name: 'mail' }, { worker: 'w1' }),
    waits: [{ kind: 'task', state: 'running', worker: 'w1' }],
    short: 'Runs `mail`',
    text: 'Waiting for task `mail`: attempt 1 has been running on worker `w1` for 0 ms.',
  },
  {
    state: 'a task run between two attempts',
    arrange: async (store) => {
      await createTask(store, 'a', { name: 'mail' });
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
        const delayMs = attempt < 2 ? 0 : 12_000;
        await store.provider.retryWorkItems([{ lockToken, delayMs, failure, maxAttempts: 8 }]);
      }
    },
    waits: [
      {
        kind: 'task',
        state: 'retrying',
        attempt: 4,
        maxAttempts: 8,
        lastFailure: { message: 'card declined', code: 'CARD_DECLINED' },
      },
    ],
    short: 'Retrying `mail`: attempt 4 of 8 starts in 12 s',
    text: 'Retrying `mail`: attempt 4 of 8 starts in 12 s. Last error: card declined (CARD_DECLINED).',
  },
  {
    state: 'a task run that retries without a limit',
    arrange: async (store) => {
      const { lockToken } = await startTask(store, 'a', { name: 'mail' });
      const retry = { lockToken, delayMs: 12_000, failure, maxAttempts: null };
      await store.provider.retryWorkItems([retry]);
    },
    waits: [{ kind: 'task', state: 'retrying', attempt: 2 }],
    short: 'Retrying `mail`: attempt 2 starts in 12 s',
    text: 'Retrying `mail`: attempt 2 starts in 12 s. Last error: card declined (CARD_DECLINED).',
  },
  {
    state: 'a task run whose second attempt runs, with a heartbeat',
    arrange: async (store) => {
      const first = await startTask(store, 'a', { name: 'mail' });
      await store.provider.retryWorkItems([
        { lockToken: first.lockToken, delayMs: 0, failure, maxAttempts: 8 },
      ]);
      const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
      await store.clock.advance(3_000);
      await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '1' }], 10_000);
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'task', state: 'running', worker: 'w1', attempt: 2, maxAttempts: 8 }],
    short: 'Runs `mail`: attempt 2 of 8, heartbeat 2 s ago',
    text: 'Waiting for task `mail`: attempt 2 of 8 has been running on worker `w1` for 5 s, last heartbeat 2 s ago. Last error: card declined (CARD_DECLINED).',
  },
  {
    state: 'a failure handler between two attempts',
    arrange: async (store) => {
      const first = await startTask(store, 'a', { name: 'mail', onFail: { options: null } });
      await store.ackWork(first.lockToken, { kind: 'failed', failure });
      const { lockToken } = await store.claimWorkOne();
      const retry = { lockToken, delayMs: 12_000, failure, maxAttempts: 3 };
      await store.provider.retryWorkItems([retry]);
    },
    waits: [{ kind: 'ended' }, { kind: 'onFail', state: 'retrying', attempt: 2, maxAttempts: 3 }],
    short: 'Failed: card declined (`CARD_DECLINED`)',
    text: 'Failed now: card declined (CARD_DECLINED). Retrying the failure handler of task `mail`: attempt 2 of 3 starts in 12 s. Last error: card declined (CARD_DECLINED).',
  },
  {
    state: 'a task run that failed, with its failure handler',
    arrange: async (store) => {
      const { lockToken } = await startTask(store, 'a', {
        name: 'mail',
        onFail: { options: null },
      });
      await store.ackWork(lockToken, { kind: 'failed', failure });
      await store.clock.advance(1_000);
    },
    waits: [
      { kind: 'ended', status: 'failed', failure: { code: 'CARD_DECLINED' }, onFail: 'queued' },
      { kind: 'onFail', state: 'queued' },
    ],
    short: 'Failed: card declined (`CARD_DECLINED`)',
    text: 'Failed 1 s ago: card declined (CARD_DECLINED). Waiting for the failure handler of task `mail`: attempt 1 has been due for 1 s, and no worker has claimed it.',
  },
  {
    state: 'a task run that expired',
    arrange: async (store) => {
      await createTask(store, 'a', { name: 'mail', expiresInMs: 1_000 });
      await store.clock.advance(3_000);
      await store.claimWork();
    },
    waits: [{ kind: 'ended', status: 'expired' }],
    short: 'Expired: no worker claimed it in time',
    text: 'Expired now: no worker claimed it in time.',
  },
  {
    state: 'a job of an open session',
    arrange: async (store) => {
      await openSession(store, 's');
      await submitAll(store, [taskJob('a', { name: 'mail' })]);
    },
    waits: [{ kind: 'task' }, { kind: 'job', sessionId: 's', sessionState: 'open' }],
    short: 'Waits for a worker to run `mail`',
    text: 'Waiting for task `mail`: attempt 1 has been due for 0 ms, and no worker has claimed it. It is a job of session `s` (open).',
  },
  {
    state: 'an abandoned job that runs',
    arrange: async (store) => {
      await openSession(store, 's');
      const { key } = await startJob(store, 'a', { name: 'mail' });
      await store.clock.advance(1_000);
      await abandon(store, key);
      await store.clock.advance(1_000);
    },
    waits: [
      { kind: 'cancel', phase: 'handlers' },
      { kind: 'task', state: 'running' },
      { kind: 'job' },
    ],
    short: 'Canceling: waits for `mail` to stop',
    text: 'Canceling (closed): only running work keeps it from its end. Waiting for task `mail`: attempt 1 has been running on a worker for 2 s, asked to stop. It is a job of session `s`, abandoned 1 s ago.',
  },
  {
    state: 'completed',
    arrange: async (store) => {
      await begin(store, [], { outcome: { status: 'completed', payload: null } });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'completed' }],
    short: 'Completed',
    text: 'Completed 5 s ago.',
  },
  {
    state: 'terminated',
    arrange: async (store) => {
      await begin(store, []);
      await store.terminate('a', { reason: 'wrong input', actor: 'ada' });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'terminated', reason: 'wrong input', actor: 'ada' }],
    short: 'Terminated by `ada`: wrong input',
    text: 'Terminated by `ada` 5 s ago: wrong input.',
  },
  {
    state: 'failed as poison',
    arrange: async (store) => {
      const poison = JSON.stringify({ name: 'E', message: 'claimed 10 times', code: 'POISON' });
      await begin(store, [], { outcome: { status: 'failed', failure: poison } });
    },
    waits: [{ kind: 'ended', status: 'failed', failure: { code: 'POISON' } }],
    short: 'Failed: claimed 10 times (`POISON`)',
    text: 'Failed now: claimed 10 times (POISON).',
  },
  {
    state: 'canceled, with a leaked handler',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      const { lockToken } = await store.claimWorkOne();
      await store.cancel('a', { reason: 'stop', actor: null });
      await store.commit(await store.claimOne(), {
        outcome: { status: 'canceled', reason: 'stop', cleanupSkipped: true },
      });
      await store.ackWork(lockToken, { kind: 'canceled', leaked: true });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'canceled', leaked: 1, cleanupSkipped: true }],
    short: 'Canceled: stop; 1 handler leaked',
    text: 'Canceled 5 s ago: stop. Its clean-up did not finish within its limit. 1 handler still ran after the grace.',
  },
  {
    state: 'pending, without a live worker',
    workers: [],
    arrange: async (store) => {
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'worker', reason: 'noWorker', name: 'sample' }],
    short: 'No live worker has `sample`',
    text: 'No live worker has orchestration `sample`, due for 5 s. Start a worker that registers it.',
  },
  {
    state: 'pending, with a stale worker',
    workers: [{ ...liveWorker, heartbeatMs: 1_000 }],
    arrange: async (store) => {
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'worker', reason: 'noWorker' }],
    short: 'No live worker has `sample`',
    text: 'No live worker has orchestration `sample`, due for 5 s. Start a worker that registers it.',
  },
  {
    state: 'due, with workers of other versions',
    workers: ['1', '9', '11', '12'].map((version) =>
      newWorker(version, { orchestrations: [{ name: 'sample', version }] }),
    ),
    arrange: (store) => store.create('a', { version: '10' }),
    waits: [{ kind: 'worker', reason: 'noWorker', version: '10', nearestVersion: '9' }],
    short: 'No live worker has `sample` version `10`',
    text: 'No live worker has orchestration `sample` version `10`, due for 0 ms. The nearest version that a live worker has is `9`. Start a worker that registers it.',
  },
  {
    state: 'a turn whose lease expired, without a live worker',
    workers: [],
    arrange: async (store) => {
      await store.create('a');
      await store.claim({ worker: 'w1' });
      await store.clock.advance(14_000);
    },
    waits: [{ kind: 'worker', reason: 'noWorker', expired: { worker: 'w1' } }],
    short: 'No live worker has `sample`',
    text: 'The lease of worker `w1` expired 4 s ago during a turn (claim 1). No live worker has orchestration `sample`, due for 4 s. Start a worker that registers it.',
  },
  {
    state: 'a queued activity that no live worker has',
    workers: [{ ...liveWorker, activities: ['other'] }],
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'activity', state: 'queued', unclaimed: 'noWorker' }],
    short: 'No live worker has `charge`',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been due for 3 s, and no live worker has its code. Start a worker that registers activity `charge`.',
  },
  {
    state: 'a task run before its first attempt, with the limit of the newest worker',
    workers: [
      {
        ...liveWorker,
        attemptLimits: [
          { kind: 'activity', name: 'mail', maxAttempts: 2 },
          { kind: 'task', name: 'mail', maxAttempts: 8 },
        ],
      },
      newWorker('older', {
        tasks: ['mail'],
        runningMs: 60_000,
        attemptLimits: [{ kind: 'task', name: 'mail', maxAttempts: 3 }],
      }),
    ],
    arrange: (store) => createTask(store, 'a', { name: 'mail', delayMs: 12_000 }),
    waits: [{ kind: 'task', state: 'queued', attempt: 1, maxAttempts: 8 }],
    short: 'Starts `mail` in 12 s',
    text: 'Waiting for task `mail`: attempt 1 of 8 starts in 12 s.',
  },
  {
    state: 'a task run in its first attempt, with the limit of its worker',
    workers: [
      { ...liveWorker, attemptLimits: [{ kind: 'task', name: 'mail', maxAttempts: 8 }] },
      newWorker('older', {
        tasks: ['mail'],
        runningMs: 60_000,
        attemptLimits: [{ kind: 'task', name: 'mail', maxAttempts: 3 }],
      }),
    ],
    arrange: (store) => startTask(store, 'a', { name: 'mail' }, { worker: 'older' }),
    waits: [{ kind: 'task', state: 'running', attempt: 1, maxAttempts: 3 }],
    short: 'Runs `mail`',
    text: 'Waiting for task `mail`: attempt 1 of 3 has been running on worker `older` for 0 ms.',
  },
  {
    state: 'a retrying activity that no live worker has',
    workers: [],
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await fail(store, 12_000);
    },
    waits: [{ kind: 'activity', state: 'retrying', unclaimed: 'noWorker' }],
    short: 'No live worker has `charge`',
    text: 'Retrying `charge`: attempt 2 of 10 starts in 12 s, and no live worker has its code. Last error: card declined (CARD_DECLINED). Start a worker that registers activity `charge`.',
  },
  {
    state: 'a queued activity while all workers are busy',
    workers: [{ ...liveWorker, slots: { activities: 2, orchestrations: 1, inUse: 2 } }],
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'activity', state: 'queued', unclaimed: 'busy' }],
    short: 'Waits for a free worker to run `charge`, due for 3 s',
    text: 'Waiting for activity `charge`: attempt 1 of 10 has been due for 3 s, and all live workers that have its code are busy.',
  },
  {
    state: 'a task run that no live worker has',
    workers: [{ ...liveWorker, tasks: [], activities: ['mail'] }],
    arrange: async (store) => {
      await createTask(store, 'a', { name: 'mail', priority: 5 });
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'task', unclaimed: 'noWorker' }],
    short: 'No live worker has `mail`',
    text: 'Waiting for task `mail`: attempt 1 has been due for 2 s, and no live worker has its code. Start a worker that registers task `mail`. Its priority is 5.',
  },
  {
    state: 'paused',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await pause(store, 'bad deploy');
      await store.raise('a', 'x');
      await store.clock.advance(5_000);
    },
    waits: [
      { kind: 'paused', target: 'instance', reason: 'bad deploy', actor: 'ada' },
      { kind: 'activity', unclaimed: 'paused' },
    ],
    short: 'Paused by `ada`: bad deploy',
    text: 'Paused by `ada` 5 s ago: bad deploy. Resume it with `client.resume(id)`. Waiting for activity `charge`: attempt 1 of 10 is paused.',
  },
  {
    state: 'pending, with a paused definition',
    workers: [],
    arrange: async (store) => {
      await store.provider.pauseDefinitions([definition('orchestration', 'sample')]);
      await store.create('a');
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'paused', target: 'orchestration', name: 'sample' }],
    short: 'Paused with orchestration `sample`',
    text: 'Orchestration `sample` was paused 5 s ago. Resume it with `client.resume({ kind: "orchestration", name: "sample" })`.',
  },
  {
    state: 'a queued activity with a paused definition',
    arrange: async (store) => {
      await begin(store, [scheduled(1, 'charge')], { workItems: [charge] });
      await store.provider.pauseDefinitions([
        definition('activity', 'charge'),
        definition('activity', 'other'),
        definition('task', 'charge'),
      ]);
    },
    waits: [
      { kind: 'paused', target: 'activity', name: 'charge' },
      { kind: 'activity', unclaimed: 'paused' },
    ],
    short: 'Paused with activity `charge`',
    text: 'Activity `charge` was paused now. Resume it with `client.resume({ kind: "activity", name: "charge" })`. Waiting for activity `charge`: attempt 1 of 10 is paused.',
  },
  {
    state: 'activities of 5 paused definitions',
    arrange: async (store) => {
      const names = ['a1', 'a2', 'a3', 'a4', 'a5'];
      await begin(
        store,
        names.map((name, index) => scheduled(index + 1, name)),
        { workItems: names.map((name, index) => workItem(index + 1, { name })) },
      );
      await store.provider.pauseDefinitions(names.map((name) => definition('activity', name)));
    },
    waits: [
      ...Array.from({ length: 5 }, () => ({ kind: 'paused', target: 'activity' })),
      ...Array.from({ length: 5 }, () => ({ kind: 'activity', unclaimed: 'paused' })),
    ],
    short: 'Paused with activity `a1`',
    text: [
      ...['a1', 'a2', 'a3'].map(
        (name) =>
          `Activity \`${name}\` was paused now. Resume it with \`client.resume({ kind: "activity", name: "${name}" })\`.`,
      ),
      '2 more of its definitions are paused.',
      'Waiting for 5 operations: activity `a1` (attempt 1 is paused); activity `a2` (attempt 1 is paused); activity `a3` (attempt 1 is paused); and 2 more.',
    ].join(' '),
  },
  {
    state: 'a timer that is past due',
    arrange: async (store) => {
      await begin(store, [timer(1, store.clock.now() + 1_000)]);
      await store.clock.advance(3_000);
    },
    waits: [{ kind: 'timer', operation: 1 }],
    short: 'Waits for a turn: its timer was due 2 s ago',
    text: 'Waiting for a timer: was due 2 s ago.',
  },
  {
    state: 'a child that stops',
    arrange: async (store) => {
      const withdrawn: HistoryEvent = {
        kind: 'operationWithdrawn',
        at: 1,
        target: 1,
        targetKind: 'child',
        trigger: 'race_lost',
        reason: 'lost',
        childId: 'c',
      };
      const awaitedChild: HistoryEvent = { ...childScheduled, cancellation: 'wait' };
      const children = [child('c', 1, { name: 'ship' })];
      await begin(store, [awaitedChild, withdrawn], { children });
      await store.commit(await store.claimOne(), {
        events: [{ ...started, name: 'ship' }, awaited(1, 'x')].map(encodeEvent),
      });
      await store.cancel('c', { reason: 'stop', actor: null, cleanupMs: 60_000 });
      await store.commit(await store.claimOne());
    },
    waits: [{ kind: 'child', id: 'c', isStopping: true, status: 'canceling' }],
    short: 'Waits for child `ship` to stop',
    text: 'Waiting for child `c` of `ship` to stop: canceling. Child: Canceling (stop): its code may clean up for 60 s more. Waiting for event `x`.',
  },
  {
    state: 'blocked by undecodable data',
    arrange: (store) => block(store, 'UNDECODABLE', 'Event 2 cannot be decoded.'),
    waits: [{ kind: 'blocked', code: 'UNDECODABLE', reason: 'Event 2 cannot be decoded.' }],
    short: 'Blocked (UNDECODABLE): Event 2 cannot be decoded',
    text: 'Blocked for 0 ms (UNDECODABLE): Event 2 cannot be decoded. Build `b1` retries it in 8 s; another build retries it immediately.',
  },
  {
    state: 'blocked by an unregistered version',
    arrange: (store) => block(store, 'UNREGISTERED', 'Version 2 is not registered'),
    waits: [{ kind: 'blocked', code: 'UNREGISTERED', worker: 'w1' }],
    short: 'Blocked (UNREGISTERED): Version 2 is not registered',
    text: 'Blocked for 0 ms (UNREGISTERED): Version 2 is not registered. Build `b1` retries it in 8 s; another build retries it immediately.',
  },
  {
    state: 'a task run that was skipped',
    arrange: async (store) => {
      const { lockToken } = await startTask(store, 'a', { name: 'mail' });
      await store.ackWork(lockToken, { kind: 'skipped' });
      await store.clock.advance(5_000);
    },
    waits: [{ kind: 'ended', status: 'skipped' }],
    short: 'Skipped: its condition did not hold',
    text: 'Skipped 5 s ago: its condition did not hold.',
  },
];
