import { expect, it } from 'vitest';
import type { Handle } from '../../../src/client/handle.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

describeEngine('cancellation modes', (open) => {
  it.each<[string, (handle: Handle) => Promise<unknown>, string]>([
    ['canceled', (handle) => handle.cancel(), 'canceled'],
    ['terminated', (handle) => handle.terminate({ tree: true }), 'terminated'],
    ['completed', (handle) => handle.raiseEvent('go', null), 'completed'],
  ])('an activity and a child in abandon mode outlive a %s instance', async (_how, end, status) => {
    const started = signalled<void>();
    const finish = signalled<void>();
    const ended = signalled<string>();
    const left = activity('left', async (ctx) => {
      started.resolve();
      await finish.promise;
      ended.resolve(ctx.isCanceled ? 'was told' : 'was left alone');
    });
    const kid = orchestration('kid', async (ctx) => ctx.waitFor('end'));
    const run = orchestration('run', async (ctx) => {
      void ctx.call(left, undefined, { cancellation: 'abandon' });
      void ctx.child(kid, undefined, { id: 'kid', cancellation: 'abandon' });
      await ctx.waitFor('go');
    });
    const { client } = await open({
      orchestrations: [run, kid],
      activities: [left],
      activityLease: 600,
    });
    const handle = await client.start(run);
    await started.promise;
    await expect.poll(async () => (await client.get('kid'))?.status).toBe('running');
    await end(handle);
    expect(await client.wait(handle.id)).toMatchObject({ status });
    // Long enough for a renewal, which would deliver a cancel.
    await new Promise((resolve) => setTimeout(resolve, 250));
    finish.resolve();
    expect(await ended.promise).toBe('was left alone');
    await client.raiseEvent('kid', 'end', 'well');
    expect(await client.handle('kid').result()).toBe('well');
  });

  it('a child canceled by another caller rejects in its parent, which can catch it', async () => {
    const kid = orchestration('kid', async (ctx) => ctx.waitFor('never'));
    const run = orchestration('run', async (ctx, input: { id: string; catches: boolean }) => {
      const child = ctx.child(kid, undefined, { id: input.id });
      if (!input.catches) return child;
      return child.catch((error: { trigger: string; reason: string }) => [
        error.trigger,
        error.reason,
      ]);
    });
    const { client } = await open({ orchestrations: [run, kid] });
    const catches = await client.start(run, { id: 'one', catches: true });
    const fails = await client.start(run, { id: 'two', catches: false });
    for (const id of ['one', 'two']) {
      await expect.poll(async () => (await client.get(id))?.status).toBe('running');
      await client.cancel(id, { reason: 'by somebody else' });
    }
    expect(await catches.result()).toEqual(['cancel', 'by somebody else']);
    await expect(fails.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect((await fails.status()).failure).toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await fails.status()).not.toHaveProperty('cancel');
  });

  it('a timed-out attempt has stopped before the next attempt starts', async () => {
    let running = 0;
    const seen: number[] = [];
    const slow = activity('slow', async (ctx) => {
      running += 1;
      seen.push(running);
      if (ctx.attempt < 3) await ctx.canceled();
      await new Promise((resolve) => setTimeout(resolve, 20));
      running -= 1;
      ctx.throwIfCanceled();
      return ctx.attempt;
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(slow, undefined, {
        attemptTimeout: 100,
        retry: { maxAttempts: 3, initialDelay: 1, jitter: 0 },
      }),
    );
    const { client } = await open({ orchestrations: [run], activities: [slow] });
    expect(await (await client.start(run)).result()).toBe(3);
    expect(seen).toEqual([1, 1, 1]);
  });

  it('a failing instance waits for its open shield, not for other operations', async () => {
    const done: string[] = [];
    const note = activity('note', async (_ctx, what: string) => void done.push(what));
    const run = orchestration('run', async (ctx) => {
      void ctx.shield(async () => {
        await ctx.waitFor('go');
        await ctx.call(note, 'shielded');
      });
      void ctx.waitFor('go').then(() => ctx.call(note, 'not shielded'));
      await ctx.sleep(1);
      throw new Error('enough');
    });
    const { client } = await open({ orchestrations: [run], activities: [note] });
    const handle = await client.start(run);
    await expect
      .poll(async () => (await client.exportHistory(handle.id)).events.map(({ kind }) => kind))
      .toContain('operationWithdrawn');
    expect(await handle.status()).toMatchObject({ status: 'running' });
    await handle.raiseEvent('go', null);
    await expect(handle.result()).rejects.toThrow('enough');
    expect(done).toEqual(['shielded']);
  });
});
