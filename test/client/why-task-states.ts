import {
  abandon,
  openSession,
  startJob,
  submitAll,
  taskJob,
} from '../../src/testing/conformance/job-helpers.ts';
import type { LimitOverride } from '../../src/providers/contract/limits.ts';
import type { StoreUnderTest } from '../../src/testing/conformance/store-under-test.ts';
import { newWorker } from '../../src/testing/conformance/sample-data.ts';
import { createTask, startTask } from '../../src/testing/conformance/task-helpers.ts';
import { type State, failure, liveWorker } from './why-arrangements.ts';

async function limitMail(store: StoreUnderTest, override: LimitOverride): Promise<void> {
  await store.provider.setLimits({ kind: 'task', name: 'mail', override });
}

/** The states of the task run or job `a`. */
export const taskStates: readonly State[] = [
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
    state: 'a task run that waits for a place of its key',
    arrange: async (store) => {
      const lane = { key: 'acme', weight: 1 };
      await limitMail(store, { perKey: 2 });
      for (const id of ['x', 'y', 'a']) await createTask(store, id, { name: 'mail', lane });
      await store.claimWork({ worker: 'w1', lockMs: 60_000 });
      await store.clock.advance(12_000);
    },
    waits: [
      {
        kind: 'task',
        state: 'queued',
        key: 'acme',
        unclaimed: 'limited',
        limit: { by: 'perKey', max: 2, running: 2, ahead: 0 },
      },
    ],
    short: 'Waits for a place of `mail` for key `acme`: 2 of 2 in use',
    text: 'Waiting for a place: task `mail` allows 2 at a time for key `acme`, both are in use. Attempt 1 has been due for 12 s.',
  },
  {
    state: 'a task run that waits for a place of its task',
    arrange: async (store) => {
      await limitMail(store, { global: 1 });
      for (const id of ['x', 'y', 'a']) await createTask(store, id, { name: 'mail' });
      await store.claimWork({ worker: 'w1', lockMs: 60_000 });
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'task', unclaimed: 'limited', limit: { by: 'global', max: 1, ahead: 1 } }],
    short: 'Waits for a place of `mail`: 1 of 1 in use',
    text: 'Waiting for a place: task `mail` allows 1 at a time, it is in use. Attempt 1 has been due for 2 s, with 1 ahead of it.',
  },
  {
    state: 'a task run that waits for its rate',
    arrange: async (store) => {
      const rate = { limit: 1, perMs: 60_000, burst: 0, perKey: false };
      await limitMail(store, { rate });
      for (const id of ['x', 'a']) await createTask(store, id, { name: 'mail' });
      await store.claimWork({ worker: 'w1', lockMs: 60_000 });
      await store.clock.advance(2_000);
    },
    waits: [{ kind: 'task', unclaimed: 'limited', limit: { by: 'rate', max: 1, perMs: 60_000 } }],
    short: 'Waits for the rate of `mail`, next start in 58 s',
    text: 'Waiting for its rate: task `mail` starts 1 per minute, the next one in 58 s. Attempt 1 has been due for 2 s.',
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
