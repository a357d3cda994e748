import { expect, it, onTestFinished } from 'vitest';
import { LockLostError } from '../../../src/model/failures/errors.ts';
import { Perdure } from '../../../src/perdure.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { watchdogMs } from '../../../src/runtime/watchdog/watchdog.ts';
import { task } from '../../../src/tasks/task.ts';

/** Twice the lease: on a busy machine, the watchdog runs for only a part of it. */
const blockMs = 2_000;

/** Without a running watchdog, a blocked process looks like a suspended one. */
async function watchdogRuns(): Promise<void> {
  await expect.poll(watchdogMs).toBeGreaterThan(0);
}

it('a handler that blocks past its lease fails with EVENT_LOOP_BLOCKED on in-memory SQLite', async () => {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  let calls = 0;
  const computes = task('computes', () => {
    calls += 1;
    for (const endsAt = performance.now() + blockMs; performance.now() < endsAt;);
  });
  await perdure.startWorker({ tasks: [computes], activityLease: '1s' });
  await watchdogRuns();
  const run = await perdure.client.runTask(computes);
  const failure = await run.result({ timeout: '30s' }).catch((error: Error) => error.cause);
  expect(failure).toMatchObject({
    code: 'EVENT_LOOP_BLOCKED',
    message: expect.stringMatching(
      /^Task "computes" blocked the event loop for \d+(?:\.\d)? s, longer than its lease of 1 s/,
    ) as string,
  });
  expect(calls).toBe(1);
});

it('a handler that blocked past its lease does not run again after the ack of its failure is lost', async () => {
  const provider = await openSqlite({ path: ':memory:' });
  let lostAcks = 0;
  const ackWorkItems: typeof provider.ackWorkItems = async (acks) => {
    const isFailure = acks.some(({ outcome }) => outcome.kind === 'failed');
    if (!isFailure || lostAcks > 0) return provider.ackWorkItems(acks);
    lostAcks += 1;
    return acks.map(() => ({ ok: false, error: new LockLostError('ackWorkItems') }));
  };
  const perdure = await Perdure.open({ ...provider, ackWorkItems });
  onTestFinished(() => perdure.close());
  let calls = 0;
  const computes = task('computes', () => {
    calls += 1;
    for (const endsAt = performance.now() + blockMs; performance.now() < endsAt;);
  });
  await perdure.startWorker({ tasks: [computes], activityLease: '1s' });
  await watchdogRuns();
  const run = await perdure.client.runTask(computes);
  const failure = await run.result({ timeout: '30s' }).catch((error: Error) => error.cause);
  expect(failure).toMatchObject({ code: 'EVENT_LOOP_BLOCKED' });
  expect({ calls, lostAcks }).toEqual({ calls: 1, lostAcks: 1 });
});

it('a task that an orchestration calls fails with EVENT_LOOP_BLOCKED if it blocks past its lease', async () => {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  let calls = 0;
  const computes = task('computes', () => {
    calls += 1;
    for (const endsAt = performance.now() + blockMs; performance.now() < endsAt;);
  });
  const caller = orchestration('caller', async (ctx) => {
    await ctx.runTask(computes);
  });
  await perdure.startWorker({
    orchestrations: [caller],
    tasks: [computes],
    activityLease: '1s',
  });
  await watchdogRuns();
  const handle = await perdure.client.start(caller);
  await expect(handle.result({ timeout: '30s' })).rejects.toThrow(/blocked the event loop/);
  expect(calls).toBe(1);
});
