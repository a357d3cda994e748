import type { WorkerOptions } from 'perdure';
import { testOptions } from 'perdure/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { signalled } from '../signalled.ts';

/** The store calls that claim a work item: a fetch, an ack or a start. */
const claims = [
  ['fetchWorkItems', testOptions({ fastPaths: false })],
  ['ackOrchestrationItems', {}],
  ['createInstances', {}],
] as const satisfies readonly (readonly [keyof Provider, WorkerOptions])[];

/**
 * Opens an engine whose store delays the result of one claim until `meanwhile` has resolved and its hints have arrived. No
 * renewal happens within a day.
 */
async function openWithDelayedClaim(
  method: (typeof claims)[number][0],
  options: WorkerOptions,
  meanwhile: (client: Perdure['client']) => Promise<unknown>,
) {
  const provider = await openSqlite({ path: ':memory:' });
  const call = provider[method] as (...args: readonly unknown[]) => Promise<readonly object[]>;
  let isArmed = method !== 'ackOrchestrationItems';
  const perdure = await Perdure.open({
    ...provider,
    async [method](...args: readonly unknown[]) {
      const result = await call(...args);
      if (!isArmed || result.length === 0) return result;
      isArmed = false;
      await meanwhile(perdure.client);
      return result;
    },
  });
  onTestFinished(() => perdure.close());
  let starts = 0;
  const hold = activity('hold', async (ctx) => {
    starts += 1;
    await ctx.canceled();
    ctx.throwIfCanceled();
  });
  const run = orchestration('run', async (ctx) => {
    if (method === 'ackOrchestrationItems') await ctx.waitFor('go');
    await ctx.call(hold);
  });
  await perdure.startWorker({
    orchestrations: [run],
    activities: [hold],
    activityLease: '1d',
    pollInterval: '1d',
    ...options,
  });
  const handle = await perdure.client.start(run, undefined, { id: 'i' });
  if (method === 'ackOrchestrationItems') {
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    isArmed = true;
    await handle.raiseEvent('go', null);
  }
  return { perdure, handle, starts: () => starts };
}

it('a cancel hint stops the handler without a lease renewal', async () => {
  const provider = await openSqlite({ path: ':memory:' });
  const perdure = await Perdure.open({
    ...provider,
    renewWorkItemLocks: () => Promise.reject(new Error('no renewal expected')),
  });
  onTestFinished(() => perdure.close());
  const [begun, told] = [signalled<void>(), signalled<unknown>()];
  const hold = activity('hold', async (ctx) => {
    begun.resolve();
    told.resolve(await ctx.canceled());
    ctx.throwIfCanceled();
  });
  const run = orchestration('run', (ctx) => ctx.call(hold));
  await perdure.startWorker({ orchestrations: [run], activities: [hold], activityLease: '1d' });
  const handle = await perdure.client.start(run, undefined);
  await begun.promise;
  await handle.cancel({ reason: 'known' });
  expect(await told.promise).toMatchObject({ reason: 'known', trigger: 'cancel' });
  await expect(handle.result()).rejects.toMatchObject({ reason: 'known' });
});

describe('a hint that arrives before its claim returns', () => {
  it.each(claims)(
    'a cancel hint before the claim returns keeps the handler from starting (%s)',
    async (method, options) => {
      const { handle, starts } = await openWithDelayedClaim(method, options, (client) =>
        client.cancel('i', { reason: 'overtaken' }),
      );
      await expect(handle.result()).rejects.toMatchObject({ reason: 'overtaken' });
      expect(starts()).toBe(0);
    },
  );

  it.each(claims)(
    'a delete hint before the claim returns keeps the handler from starting (%s)',
    async (method, options) => {
      const { perdure, handle, starts } = await openWithDelayedClaim(method, options, (client) =>
        client.deleteInstance('i', { force: true }),
      );
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
      // close() waits for the handlers that the worker has started.
      await perdure.close();
      expect(starts()).toBe(0);
    },
  );
});
