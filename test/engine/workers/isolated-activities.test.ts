import { expect, it, onTestFinished } from 'vitest';
import { ProviderError } from '../../../src/model/failures/errors.ts';
import { encodePayload } from '../../../src/model/values/payload.ts';
import { isolatedActivity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { describeEngine } from '../describe-engine.ts';
import { Declined } from './isolated-handlers.ts';

const module = new URL('./isolated-handlers.ts', import.meta.url);

const hasThread = (): boolean => process.getActiveResourcesInfo().includes('MessagePort');
const expectThread = async (): Promise<void> => await expect.poll(hasThread).toBe(true);
const expectNoThread = async (): Promise<void> => await expect.poll(hasThread).toBe(false);

describeEngine('isolated activities', (open) => {
  it('an isolated handler gets its input and context and returns its result', async () => {
    const add = isolatedActivity<{ a: number; b: number }>('add', { module, exportName: 'add' });
    const run = orchestration('run', async (ctx) => ctx.call(add, { a: 2, b: 3 }));
    const { client } = await open({ orchestrations: [run], activities: [add] });
    const handle = await client.start(run, undefined, { id: 'i' });
    expect(await handle.result()).toEqual({ sum: 5, attempt: 1, instanceId: 'i' });
  });

  it('a handler that blocks its thread is terminated after the grace, not leaked', async () => {
    const spin = isolatedActivity('spin', { module, exportName: 'spin' });
    const run = orchestration('run', async (ctx) => ctx.call(spin));
    const { client } = await open({
      orchestrations: [run],
      activities: [spin],
      activityConcurrency: 1,
      cancelGrace: 50,
    });
    const handle = await client.start(run, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await handle.status()).not.toHaveProperty('leaked');
    await expectNoThread();
  });

  it('an isolated handler that throws after its attemptTimeout fails with TIMEOUT', async () => {
    const failing = isolatedActivity('failing', { module, exportName: 'failWithTrigger' });
    const run = orchestration('run', async (ctx) =>
      ctx.call(failing, undefined, { attemptTimeout: 400 }),
    );
    const { client } = await open({ orchestrations: [run], activities: [failing] });
    const handle = await client.start(run);
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect((await handle.status()).failure?.cause).toMatchObject({ code: 'TIMEOUT' });
    await expectNoThread();
  });

  it('nonRetryable matches the class of an error thrown in the thread', async () => {
    const declined = isolatedActivity('decline', { module, exportName: 'decline' });
    const run = orchestration('run', async (ctx) =>
      ctx.call(declined, undefined, {
        retry: { maxAttempts: 5, initialDelay: 1, nonRetryable: [Declined] },
      }),
    );
    const { client } = await open({ orchestrations: [run], activities: [declined] });
    await expect((await client.start(run)).result()).rejects.toMatchObject({
      failure: { cause: { message: 'attempt 1' } },
    });
  });

  it('stop() ends the thread, and another worker runs the attempt immediately', async () => {
    const stuck = isolatedActivity('work', { module, exportName: 'spin' });
    const quick = isolatedActivity<undefined, number>('work', { module, exportName: 'quick' });
    const run = orchestration('run', async (ctx) => ctx.call(quick));
    const engine = await open();
    const leaving = await engine.startWorker({
      orchestrations: [run],
      activities: [stuck],
      activityLease: '1h',
      shutdownGrace: 20,
    });
    const handle = await engine.client.start(run);
    await expectThread();
    await leaving.stop();
    await expectNoThread();
    await engine.startWorker({ orchestrations: [run], activities: [quick] });
    expect(await handle.result()).toBe(1);
  });

  it('a lost lease ends the thread, and the ack of the new holder counts', async () => {
    const stuck = isolatedActivity('work', { module, exportName: 'spin' });
    const quick = isolatedActivity<undefined, number>('work', { module, exportName: 'quick' });
    const run = orchestration('run', async (ctx) => ctx.call(quick));
    const engine = await open();
    await engine.startWorker({
      orchestrations: [run],
      activities: [stuck],
      activityConcurrency: 1,
      activityLease: 600,
      cancelGrace: '1h',
    });
    const handle = await engine.client.start(run);
    await expectThread();
    const thief = await engine.openProvider();
    onTestFinished(() => thief.close());
    let stolen: WorkItem | undefined;
    // The worker can claim the item again before the thief does.
    await expect
      .poll(async () => {
        await engine.tamper('UPDATE worker_queue SET locked_until = 1, next_at = 1');
        [stolen] = await thief.fetchWorkItems({ max: 1, lockMs: 60_000, waitMs: 0 });
        return stolen;
      })
      .toBeDefined();
    await expectNoThread();
    const outcome = { kind: 'completed', payload: encodePayload('stolen', 'it') } as const;
    const [ack] = await thief.ackWorkItems([{ lockToken: stolen?.lockToken ?? '', outcome }]);
    expect(ack).toMatchObject({ ok: true });
    expect(await handle.result()).toBe('stolen');
  });

  it('an isolated handler that observes its signal ends as canceled', async () => {
    const listen = isolatedActivity('listen', { module, exportName: 'listen' });
    const run = orchestration('run', async (ctx) => ctx.call(listen));
    const { client } = await open({ orchestrations: [run], activities: [listen] });
    const handle = await client.start(run, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
  });

  it.each([
    ['fail', 'too far', 'FAR'],
    ['exit', 'exited with code 3', undefined],
    ['missing', 'does not export a function', 'INVALID_OPTION'],
  ])('a broken isolated handler (%s) fails its call', async (exportName, message, code) => {
    const broken = isolatedActivity('broken', { module, exportName });
    const run = orchestration('run', async (ctx) => ctx.call(broken));
    const { client } = await open({ orchestrations: [run], activities: [broken] });
    const handle = await client.start(run, undefined);
    await expect(handle.result()).rejects.toThrow(message);
    expect((await handle.status()).failure?.cause?.code).toBe(code);
  });
});

it('a store error at the point of no return of an isolated handler keeps its code', async () => {
  const pays = isolatedActivity('pays', { module, exportName: 'pays' });
  const run = orchestration('run', async (ctx) =>
    ctx.call(pays, undefined, { cancellation: 'wait' }),
  );
  const store = await openSqlite({ path: ':memory:' });
  const markPointOfNoReturn = (): Promise<never> =>
    Promise.reject(
      new ProviderError({ operation: 'mark', message: 'connection lost', retryable: true }),
    );
  await using perdure = await Perdure.open(Object.assign(store, { markPointOfNoReturn }));
  await perdure.startWorker({ orchestrations: [run], activities: [pays] });
  const handle = await perdure.client.start(run);
  await expect(handle.result()).rejects.toThrow('connection lost');
  expect((await handle.status()).failure?.cause?.code).toBe('PROVIDER');
});

// In one mode and with a long timeout: a thread takes a second to start on a busy machine.
it('an isolated attempt that blocks is terminated at attemptTimeout; the next attempt runs', async () => {
  const spinOnce = isolatedActivity<undefined, number>('once', { module, exportName: 'spinOnce' });
  const run = orchestration('run', async (ctx) =>
    ctx.call(spinOnce, undefined, {
      attemptTimeout: 1_500,
      retry: { maxAttempts: 20, initialDelay: 1, backoff: 'fixed' },
    }),
  );
  await using perdure = await Perdure.open(':memory:');
  await perdure.startWorker({
    orchestrations: [run],
    activities: [spinOnce],
    activityConcurrency: 1,
    cancelGrace: 20,
  });
  expect(await (await perdure.client.start(run)).result()).toBeGreaterThan(1);
  await expectNoThread();
}, 60_000);
