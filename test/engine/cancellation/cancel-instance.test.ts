import { expect, it } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

describeEngine('canceling an instance', (open) => {
  it('cancel() passes its reason to a running handler and records reason and actor', async () => {
    const started = signalled<void>();
    const seen = signalled<unknown>();
    const work = activity('work', async (ctx) => {
      started.resolve();
      seen.resolve(await ctx.canceled());
      ctx.throwIfCanceled();
    });
    const run = orchestration('run', async (ctx) => ctx.call(work));
    const { client } = await open({ orchestrations: [run], activities: [work] });
    const handle = await client.start(run, undefined, { id: 'x' });
    await started.promise;
    expect(await handle.cancel({ reason: 'changed my mind', actor: 'jo' })).toEqual({
      found: true,
      changed: true,
      status: 'canceling',
    });
    expect(await seen.promise).toMatchObject({
      code: 'OPERATION_CANCELED',
      trigger: 'cancel',
      reason: 'changed my mind',
    });
    await expect(handle.result()).rejects.toMatchObject({
      code: 'OPERATION_CANCELED',
      reason: 'changed my mind',
    });
    expect(await client.get('x')).toMatchObject({
      status: 'canceled',
      cancel: { reason: 'changed my mind', actor: 'jo', requestedAt: expect.any(Number) as number },
      endedAt: expect.any(Number) as number,
    });
    const { items } = await client.list({ status: 'canceled' });
    expect(items.map(({ id }) => id)).toEqual(['x']);
  });

  it('cancel() of a pending instance ends it immediately, and it never runs', async () => {
    let ran = false;
    const run = orchestration('run', async () => {
      ran = true;
    });
    const engine = await open();
    const handle = await engine.client.start(run, undefined);
    expect(await handle.cancel({ reason: 'early' })).toMatchObject({
      changed: true,
      status: 'canceled',
    });
    await engine.startWorker({ orchestrations: [run] });
    await expect(handle.result()).rejects.toMatchObject({ reason: 'early' });
    expect(ran).toBe(false);
  });

  it.each([
    ['sleeping', 'timerCreated'],
    ['waiting', 'eventAwaited'],
  ])('cancel() of a %s instance withdraws its operation and ends it', async (how, last) => {
    const run = orchestration('run', async (ctx) => {
      if (how === 'sleeping') await ctx.sleep('1h');
      else await ctx.waitFor('never');
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await expect
      .poll(async () => (await client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe(last);
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    const kinds = (await client.history(handle.id)).items.map(({ event }) => event.kind);
    expect(kinds).toEqual([
      'executionStarted',
      last,
      'cancelRequested',
      'operationWithdrawn',
      'executionCanceled',
    ]);
  });

  it('clean-up runs in a shield after a cancel; unshielded calls reject', async () => {
    const started = signalled<void>();
    const done: string[] = [];
    const step = activity('step', async (ctx, name: string) => {
      if (name === 'hold') {
        started.resolve();
        await ctx.canceled();
        ctx.throwIfCanceled();
      }
      done.push(name);
      return name;
    });
    const saga = orchestration('saga', async (ctx) => {
      await ctx.call(step, 'reserve');
      try {
        await ctx.call(step, 'hold');
      } finally {
        await ctx.call(step, 'refused').catch((error: { code: string }) => {
          ctx.setCustomStatus(error.code);
        });
        await ctx.shield(async () => {
          await ctx.call(step, 'release');
          await ctx.call(step, 'notify');
        });
      }
    });
    const { client } = await open({ orchestrations: [saga], activities: [step] });
    const handle = await client.start(saga, undefined);
    await started.promise;
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(done).toEqual(['reserve', 'release', 'notify']);
    const info = await client.get(handle.id);
    expect(info).toMatchObject({ customStatus: 'OPERATION_CANCELED' });
    expect(info).not.toHaveProperty('cleanupSkipped');
  });

  it('code that returns or throws after a cancel completes or fails, with the cancel recorded', async () => {
    const run = orchestration('run', async (ctx, how: string) => {
      try {
        await ctx.waitFor('never');
      } catch {
        if (how === 'return') return 'anyway';
        throw new Error('clean-up failed');
      }
      return undefined;
    });
    const { client } = await open({ orchestrations: [run] });
    const returns = await client.start(run, 'return');
    const fails = await client.start(run, 'throw');
    for (const handle of [returns, fails]) {
      await expect.poll(async () => (await handle.status()).status).toBe('running');
      await handle.cancel({ reason: 'stop' });
    }
    expect(await returns.result()).toBe('anyway');
    await expect(fails.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    for (const handle of [returns, fails]) {
      expect(await handle.status()).toMatchObject({ cancel: { reason: 'stop' } });
    }
  });

  it('clean-up beyond cleanupTimeout is ended and sets cleanupSkipped', async () => {
    const run = orchestration('run', async (ctx) => {
      try {
        await ctx.waitFor('never');
      } finally {
        await ctx.shield(() => ctx.waitFor('neither'));
      }
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel({ reason: 'enough', cleanupTimeout: 60 });
    await expect(handle.result()).rejects.toMatchObject({ reason: 'enough' });
    expect(await handle.status()).toMatchObject({ status: 'canceled', cleanupSkipped: true });
  });

  it('cleanupTimeout ends a canceled instance whose code no worker has registered', async () => {
    const gone = orchestration('gone', async (ctx) => ctx.waitFor('never'));
    const other = orchestration('other', async () => 1);
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [gone] });
    const handle = await engine.client.start(gone, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await worker.stop();
    await engine.startWorker({ orchestrations: [other] });
    await handle.cancel({ cleanupTimeout: 50 });
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await handle.status()).toMatchObject({ cleanupSkipped: true });
  });

  it('cancel() called twice keeps the first reason; unknown and ended instances do not reject', async () => {
    const run = orchestration('run', async (ctx) => {
      await ctx.waitFor('never');
    });
    const engine = await open();
    const { client } = engine;
    await client.start(run, undefined, { id: 'a' });
    const worker = await engine.startWorker({ orchestrations: [run] });
    await expect.poll(async () => (await client.get('a'))?.status).toBe('running');
    await worker.stop();
    expect(await client.cancel('a', { reason: 'first' })).toMatchObject({
      changed: true,
      status: 'canceling',
    });
    expect(await client.cancel('a', { reason: 'second' })).toEqual({
      found: true,
      changed: false,
      status: 'canceling',
    });
    expect(await client.cancel('nobody')).toEqual({ found: false, changed: false, status: null });
    await engine.startWorker({ orchestrations: [run] });
    await expect(client.handle('a').result()).rejects.toMatchObject({ reason: 'first' });
    expect(await client.cancel('a')).toEqual({ found: true, changed: false, status: 'canceled' });
    expect(await client.terminate('a')).toEqual({
      found: true,
      changed: false,
      status: 'canceled',
    });
  });

  it('cancel() describes a reason that is not a string and truncates a megabyte', async () => {
    const run = orchestration('run', async () => 1);
    const { client } = await open();
    await client.start(run, undefined, { id: 'odd' });
    await client.start(run, undefined, { id: 'long' });
    await client.cancel('odd', { reason: { why: 'no idea' } as unknown as string });
    await client.cancel('long', { reason: 'x'.repeat(1_048_576) });
    expect((await client.get('odd'))?.cancel?.reason).toBe('{"why":"no idea"}');
    const reason = (await client.get('long'))?.cancel?.reason ?? '';
    expect(reason.length).toBeLessThan(5_000);
    expect(reason).toMatch(/cut from 1048576 characters/);
  });

  it('cancel({ wait: true }) resolves once no handler of the instance runs', async () => {
    const started = signalled<void>();
    let stopped = false;
    const work = activity('work', async (ctx) => {
      started.resolve();
      await ctx.canceled();
      await new Promise((resolve) => setTimeout(resolve, 30));
      stopped = true;
    });
    const run = orchestration('run', async (ctx) => ctx.call(work));
    const { client } = await open({ orchestrations: [run], activities: [work] });
    const handle = await client.start(run, undefined);
    await started.promise;
    expect(await handle.cancel({ wait: true })).toMatchObject({ status: 'canceled' });
    expect(stopped).toBe(true);
  });
});
