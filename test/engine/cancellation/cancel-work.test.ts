import { expect, it } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

describeEngine('canceling work', (open) => {
  it('queued activities never start after a cancel has committed', async () => {
    let ran = 0;
    const work = activity('work', async () => {
      ran += 1;
    });
    const run = orchestration('run', async (ctx) => {
      await Promise.all(Array.from({ length: 20 }, () => ctx.call(work)));
    });
    const engine = await open({ orchestrations: [run] });
    const handle = await engine.client.start(run, undefined);
    await expect.poll(async () => (await engine.client.history(handle.id)).items.length).toBe(21);
    await handle.cancel();
    await engine.startWorker({ activities: [work] });
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(ran).toBe(0);
  });

  it('cancel() ends an activity that waits for its next attempt', async () => {
    const failed = signalled<void>();
    let attempts = 0;
    const flaky = activity('flaky', async () => {
      attempts += 1;
      failed.resolve();
      throw new Error('again');
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(flaky, undefined, {
        retry: { maxAttempts: Infinity, initialDelay: '1h', jitter: 0 },
      }),
    );
    const { client } = await open({ orchestrations: [run], activities: [flaky] });
    const handle = await client.start(run, undefined);
    await failed.promise;
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(attempts).toBe(1);
  });

  it.each([
    ['completes', 'completed'],
    ['fails', 'failed'],
    ['continues as new', 'completed'],
  ])(
    'an execution that %s cancels its running activities and ignores their results',
    async (how, status) => {
      const started = signalled<void>();
      const told = signalled<unknown>();
      const work = activity('work', async (ctx) => {
        started.resolve();
        told.resolve(await ctx.canceled());
        return 'late';
      });
      const gate = activity('gate', async () => {
        await started.promise;
      });
      const run = orchestration('run', async (ctx, again: boolean): Promise<string> => {
        if (again) {
          await ctx.sleep(20);
          return `execution ${ctx.executionId}`;
        }
        void ctx.call(work);
        await ctx.call(gate);
        if (how === 'fails') throw new Error('no');
        if (how === 'continues as new') return await ctx.continueAsNew(true);
        return 'done';
      });
      const { client } = await open({ orchestrations: [run], activities: [work, gate] });
      const handle = await client.start(run, false);
      expect(await told.promise).toMatchObject({ code: 'OPERATION_CANCELED' });
      expect((await client.wait(handle.id)).status).toBe(status);
      const { items } = await client.history(handle.id);
      expect(items.filter(({ event }) => event.kind === 'activityCompleted').length).toBe(
        how === 'continues as new' ? 0 : 1,
      );
    },
  );

  it('an activity that loses a race gets trigger race_lost and the winner as reason', async () => {
    const told = signalled<unknown>();
    const slow = activity('slow', async (ctx) => {
      told.resolve(await ctx.canceled());
      ctx.throwIfCanceled();
    });
    const run = orchestration('run', async (ctx) => {
      await ctx.race([ctx.call(slow), ctx.sleep(10)]);
      await ctx.waitFor('go');
    });
    const { client } = await open({ orchestrations: [run], activities: [slow] });
    const handle = await client.start(run, undefined);
    expect(await told.promise).toMatchObject({ trigger: 'race_lost', reason: 'race_lost:timeout' });
    await handle.raiseEvent('go', null);
    await handle.result();
  });

  it('a scope that times out cancels its own calls and no others', async () => {
    const told = signalled<unknown>();
    const slow = activity('slow', async (ctx) => {
      told.resolve(await ctx.canceled());
      ctx.throwIfCanceled();
    });
    const quick = activity('quick', async () => 'quick');
    const run = orchestration('run', async (ctx) => {
      const outside = ctx.waitFor('go');
      const inside = await ctx
        .scope(() => ctx.call(slow), { timeout: 20 })
        .catch((error: { trigger: string }) => error.trigger);
      return [inside, await ctx.call(quick), await outside];
    });
    const { client } = await open({ orchestrations: [run], activities: [slow, quick] });
    const handle = await client.start(run, undefined);
    expect(await told.promise).toMatchObject({ trigger: 'timeout' });
    await handle.raiseEvent('go', 'went');
    expect(await handle.result()).toEqual(['timeout', 'quick', 'went']);
  });

  it('a canceled call in wait mode settles after its handler; an abandoned one continues', async () => {
    const started = [signalled<void>(), signalled<void>()];
    const finish = signalled<void>();
    const abandoned = signalled<string>();
    let stoppedAt = 0;
    const waits = activity('waits', async (ctx) => {
      started[0]?.resolve();
      await ctx.canceled();
      await new Promise((resolve) => setTimeout(resolve, 20));
      stoppedAt = Date.now();
      ctx.throwIfCanceled();
    });
    const goes = activity('goes', async (ctx) => {
      started[1]?.resolve();
      await finish.promise;
      abandoned.resolve(ctx.isCanceled ? 'was told' : 'was left alone');
    });
    const settledAt = signalled<number>();
    const note = activity('note', async () => settledAt.resolve(Date.now()));
    const run = orchestration('run', async (ctx) => {
      const both = [
        ctx.call(waits, undefined, { cancellation: 'wait' }),
        ctx.call(goes, undefined, { cancellation: 'abandon' }),
      ];
      await Promise.allSettled(both);
      await ctx.shield(() => ctx.call(note));
      ctx.setCustomStatus('settled');
      throw await both[0]?.catch((error: unknown) => error);
    });
    const { client } = await open({ orchestrations: [run], activities: [waits, goes, note] });
    const handle = await client.start(run, undefined);
    await Promise.all(started.map(({ promise }) => promise));
    await handle.cancel();
    expect(await settledAt.promise).toBeGreaterThanOrEqual(stoppedAt);
    expect(stoppedAt).toBeGreaterThan(0);
    finish.resolve();
    expect(await abandoned.promise).toBe('was left alone');
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
  });

  it('a handler past its point of no return is not canceled, and its result counts', async () => {
    const passed = signalled<void>();
    const finish = signalled<void>();
    const pay = activity('pay', async (ctx) => {
      await ctx.pointOfNoReturn();
      passed.resolve();
      await finish.promise;
      return ctx.isCanceled ? 'canceled' : 'paid';
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(pay, undefined, { cancellation: 'wait' }),
    );
    const { client } = await open({ orchestrations: [run], activities: [pay], activityLease: 900 });
    const handle = await client.start(run, undefined);
    await passed.promise;
    await handle.cancel();
    // Long enough for a renewal, which would deliver the cancel.
    await new Promise((resolve) => setTimeout(resolve, 400));
    finish.resolve();
    expect(await handle.result()).toBe('paid');
    expect(await handle.status()).toMatchObject({
      status: 'completed',
      cancel: { reason: 'canceled' },
    });
  });

  it('pointOfNoReturn() rejects after a cancel, and in a call without wait mode', async () => {
    const started = signalled<void>();
    const go = signalled<void>();
    const answers: unknown[] = [];
    const pay = activity('pay', async (ctx) => {
      started.resolve();
      await go.promise;
      await ctx.pointOfNoReturn().catch((error: { code: string }) => {
        answers.push(error.code);
        throw error;
      });
    });
    const wrong = activity('wrong', async (ctx) => ctx.pointOfNoReturn());
    const run = orchestration('run', async (ctx) => {
      await ctx.call(wrong).catch((error: Error) => {
        ctx.setCustomStatus((error.cause as Error & { code: string }).code);
      });
      await ctx.call(pay, undefined, { cancellation: 'wait' });
    });
    const { client } = await open({ orchestrations: [run], activities: [pay, wrong] });
    const handle = await client.start(run, undefined);
    await started.promise;
    await handle.cancel();
    go.resolve();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(answers).toEqual(['OPERATION_CANCELED']);
    expect(await handle.status()).toMatchObject({ customStatus: 'INVALID_INPUT' });
  });

  it('a handler past its grace is reported as leaked, frees its slot, loses its result', async () => {
    const started = signalled<void>();
    const finish = signalled<void>();
    const leaks: string[] = [];
    const deaf = activity('deaf', async (_ctx, n: number) => {
      if (n === 1) return n;
      started.resolve();
      await finish.promise;
      return n;
    });
    const run = orchestration('run', async (ctx, n: number) => ctx.call(deaf, n));
    const { client } = await open({
      orchestrations: [run],
      activities: [deaf],
      activityConcurrency: 1,
      cancelGrace: 30,
      hooks: { handlerLeaked: ({ activity: name }) => leaks.push(name) },
    });
    const handle = await client.start(run, 0);
    await started.promise;
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(leaks).toEqual(['deaf']);
    expect(await handle.status()).toMatchObject({ status: 'canceled', leaked: 1 });
    // The only slot is free although the handler still runs.
    expect(await (await client.start(run, 1)).result()).toBe(1);
    finish.resolve();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await handle.status()).toMatchObject({ status: 'canceled' });
  });

  it('a canceling instance lists the handlers that still run', async () => {
    const started = signalled<void>();
    const finish = signalled<void>();
    const slow = activity('slow', async (ctx) => {
      started.resolve();
      await Promise.all([finish.promise, ctx.canceled()]);
      ctx.throwIfCanceled();
    });
    const run = orchestration('run', async (ctx) => ctx.call(slow));
    const { client } = await open({ orchestrations: [run], activities: [slow] });
    const handle = await client.start(run, undefined);
    await started.promise;
    await handle.cancel({ reason: 'why not' });
    expect(await handle.status()).toMatchObject({
      status: 'canceling',
      running: [{ name: 'slow', attempt: 1, cancel: { reason: 'why not' } }],
    });
    finish.resolve();
    await expect(handle.result()).rejects.toMatchObject({ reason: 'why not' });
  });

  it('a canceled handler in wait mode that throws its own error fails the instance', async () => {
    const started = signalled<void>();
    const rude = activity('rude', async (ctx) => {
      started.resolve();
      await ctx.canceled();
      throw new Error('could not roll back');
    });
    const run = orchestration('run', async (ctx) => {
      await ctx.call(rude, undefined, {
        cancellation: 'wait',
        retry: { maxAttempts: 5, initialDelay: 1 },
      });
    });
    const { client } = await open({ orchestrations: [run], activities: [rude] });
    const handle = await client.start(run, undefined);
    await started.promise;
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect((await handle.status()).failure?.cause?.message).toBe('could not roll back');
  });

  it('canceling 100 orchestrations of five activities stops all, and other work continues', async () => {
    let running = 0;
    let told = 0;
    const hold = activity('hold', async (ctx) => {
      running += 1;
      await ctx.canceled();
      told += 1;
      ctx.throwIfCanceled();
    });
    const quick = activity('quick', async (_ctx, n: number) => n);
    const holds = orchestration('holds', async (ctx) => {
      await Promise.all(Array.from({ length: 5 }, () => ctx.call(hold)));
    });
    const works = orchestration('works', async (ctx, n: number) => ctx.call(quick, n));
    const { client } = await open({
      orchestrations: [holds, works],
      activities: [hold, quick],
      activityConcurrency: 500,
    });
    const handles = await Promise.all(
      Array.from({ length: 100 }, () => client.start(holds, undefined)),
    );
    await expect.poll(() => running, { timeout: 10_000 }).toBe(500);
    await Promise.all(handles.map((handle) => handle.cancel()));
    const ends = await Promise.all(handles.map((handle) => client.wait(handle.id)));
    expect(ends.every(({ status }) => status === 'canceled')).toBe(true);
    expect(told).toBe(500);
    const others = await Promise.all(Array.from({ length: 50 }, (_, n) => client.start(works, n)));
    expect(await Promise.all(others.map((handle) => handle.result()))).toEqual(
      others.map((_, n) => n),
    );
  });
});
