import { expect, it } from 'vitest';
import { activity, isolatedActivity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

describeEngine('cancellation by workers without the code', (open) => {
  it('a worker without activities ends the canceled work of a dead worker', async () => {
    const run = orchestration('run', async (ctx) => ctx.call('hold'));
    const engine = await open({ orchestrations: [run] });
    const handle = await engine.client.start(run);
    const dead = await engine.openProvider();
    try {
      const held = await dead.fetchWorkItems({ max: 1, lockMs: 300, waitMs: 5_000 });
      expect(held).toHaveLength(1);
      await handle.cancel({ reason: 'left behind' });
      await expect(handle.result()).rejects.toMatchObject({ reason: 'left behind' });
      expect(await handle.status()).not.toHaveProperty('cleanupSkipped');
    } finally {
      await dead.close();
    }
  });

  it('a worker without orchestrations ends an instance after its cleanupTimeout', async () => {
    const run = orchestration('run', async (ctx) => ctx.waitFor('never'));
    const other = activity('other', async () => 1);
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [run] });
    const handle = await engine.client.start(run);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await worker.stop();
    await engine.startWorker({ activities: [other] });
    await handle.cancel({ cleanupTimeout: 50 });
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await handle.status()).toMatchObject({ status: 'canceled', cleanupSkipped: true });
  });

  it('terminate() reaches a handler past its point of no return; cancel() does not', async () => {
    const passed = signalled<void>();
    const told = signalled<string>();
    const pay = activity('pay', async (ctx) => {
      await ctx.pointOfNoReturn();
      passed.resolve();
      told.resolve((await ctx.canceled()).reason);
      ctx.throwIfCanceled();
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(pay, undefined, { cancellation: 'wait' }),
    );
    const { client } = await open({ orchestrations: [run], activities: [pay] });
    const handle = await client.start(run);
    await passed.promise;
    await handle.cancel({ reason: 'asked' });
    await handle.terminate({ reason: 'told' });
    expect(await told.promise).toBe('told');
  });

  it('pointOfNoReturn() in an isolated handler rejects unless its call is in wait mode', async () => {
    const module = new URL('../workers/isolated-handlers.ts', import.meta.url);
    const pays = isolatedActivity('pays', { module, exportName: 'pays' });
    const run = orchestration('run', async (ctx) => {
      const asked = await ctx.call(pays).catch((error: { cause: Error }) => error.cause.message);
      return [asked, await ctx.call(pays, undefined, { cancellation: 'wait' })];
    });
    const { client } = await open({ orchestrations: [run], activities: [pays] });
    expect(await (await client.start(run)).result()).toEqual([
      expect.stringMatching(/^Activity "pays" cannot pass a point of no return/),
      'paid',
    ]);
  });
});

it('a turn that commits after a cancel keeps its shielded activity and child', async () => {
  const provider = await openSqlite({ path: ':memory:' });
  let meanwhile: (() => Promise<unknown>) | undefined;
  const perdure = await Perdure.open({
    ...provider,
    async ackOrchestrationItems(acks) {
      if (acks.some(({ turn }) => turn.children.length > 0)) {
        await meanwhile?.();
        meanwhile = undefined;
      }
      return provider.ackOrchestrationItems(acks);
    },
  });
  try {
    const work = activity('work', async (_ctx, n: string) => n);
    const kid = orchestration('kid', async (_ctx, n: string) => n);
    const run = orchestration('run', async (ctx) => {
      await ctx.waitFor('go');
      const shielded = ctx.shield(() =>
        ctx.all([ctx.call(work, 'activity'), ctx.child(kid, 'child')]),
      );
      const plain = [ctx.call(work, 'x'), ctx.child(kid, 'y')];
      await Promise.allSettled(plain);
      ctx.setCustomStatus(await shielded);
      await Promise.all(plain);
    });
    await perdure.startWorker({ orchestrations: [run, kid], activities: [work] });
    const handle = await perdure.client.start(run);
    meanwhile = () => handle.cancel({ reason: 'meanwhile' });
    await handle.raiseEvent('go', null);
    await expect(handle.result()).rejects.toMatchObject({ reason: 'meanwhile' });
    expect(await handle.status()).toMatchObject({ customStatus: ['activity', 'child'] });
  } finally {
    await perdure.close();
  }
});
