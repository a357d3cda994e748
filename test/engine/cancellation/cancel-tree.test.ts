import { expect, it } from 'vitest';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine } from '../describe-engine.ts';

describeEngine('canceling and terminating trees', (open) => {
  const leaf = orchestration('leaf', async (ctx) => {
    await ctx.waitFor('go');
    return 'leaf';
  });
  const middle = orchestration('middle', async (ctx, id: string) =>
    ctx.child(leaf, undefined, { id: `${id}-leaf` }),
  );

  it('cancel() reaches all descendants', async () => {
    const root = orchestration('root', async (ctx) =>
      Promise.all([ctx.child(middle, 'a', { id: 'a' }), ctx.child(middle, 'b', { id: 'b' })]),
    );
    const { client } = await open({ orchestrations: [root, middle, leaf] });
    const handle = await client.start(root, undefined);
    for (const id of ['a-leaf', 'b-leaf']) {
      await expect.poll(async () => (await client.get(id))?.status).toBe('running');
    }
    await handle.cancel({ reason: 'all of it' });
    await expect(handle.result()).rejects.toMatchObject({ reason: 'all of it' });
    for (const id of ['a', 'b', 'a-leaf', 'b-leaf']) {
      expect(await client.wait(id)).toMatchObject({ status: 'canceled' });
    }
  });

  it('cancel() leaves a child in abandon mode running and waits for one in wait mode', async () => {
    const slow = orchestration('slow', async (ctx) => {
      try {
        await ctx.waitFor('go');
      } finally {
        await ctx.shield(() => ctx.waitFor('released'));
      }
    });
    const root = orchestration('root', async (ctx) => {
      await Promise.all([
        ctx.child(leaf, undefined, { id: 'left', cancellation: 'abandon' }),
        ctx.child(slow, undefined, { id: 'slow', cancellation: 'wait' }),
      ]);
    });
    const { client } = await open({ orchestrations: [root, leaf, slow] });
    const handle = await client.start(root, undefined);
    for (const id of ['left', 'slow']) {
      await expect.poll(async () => (await client.get(id))?.status).toBe('running');
    }
    await handle.cancel();
    await expect.poll(async () => (await client.get('slow'))?.status).toBe('canceling');
    expect(await handle.status()).toMatchObject({ status: 'canceling' });
    await client.raiseEvent('slow', 'released', null);
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await client.get('slow')).toMatchObject({ status: 'canceled' });
    await client.raiseEvent('left', 'go', null);
    expect(await client.handle('left').result()).toBe('leaf');
  });

  it.each(['completes', 'fails', 'continues as new'])(
    'a parent that %s cancels its children, except in abandon mode',
    async (how) => {
      const root = orchestration('root', async (ctx, again: boolean): Promise<string> => {
        if (again) return 'again';
        void ctx.child(leaf, undefined, { id: 'child' });
        void ctx.child(leaf, undefined, { id: 'kept', cancellation: 'abandon' });
        await ctx.waitFor('go');
        if (how === 'fails') throw new Error('no');
        return how === 'completes' ? 'done' : await ctx.continueAsNew(true);
      });
      const { client } = await open({ orchestrations: [root, leaf] });
      const handle = await client.start(root, false);
      for (const id of ['child', 'kept']) {
        await expect.poll(async () => (await client.get(id))?.status).toBe('running');
      }
      await handle.raiseEvent('go', null);
      expect(await client.wait('child')).toMatchObject({ status: 'canceled' });
      expect(await client.get('kept')).toMatchObject({ status: 'running' });
    },
  );

  it('a child started in a shield during clean-up runs to completion', async () => {
    const undo = orchestration('undo', async (ctx) => {
      await ctx.sleep(5);
      return 'undone';
    });
    const root = orchestration('root', async (ctx) => {
      try {
        await ctx.waitFor('never');
      } finally {
        ctx.setCustomStatus(await ctx.shield(() => ctx.child(undo)));
      }
    });
    const { client } = await open({ orchestrations: [root, undo] });
    const handle = await client.start(root, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await handle.status()).toMatchObject({ customStatus: 'undone' });
  });

  it('terminate() runs no orchestration code, stops handlers and cancels children', async () => {
    const seen: string[] = [];
    const started = Promise.withResolvers<void>();
    const work = activity('work', async (ctx) => {
      started.resolve();
      await ctx.canceled();
      seen.push('handler');
      ctx.throwIfCanceled();
    });
    const root = orchestration('root', async (ctx) => {
      try {
        await Promise.all([ctx.call(work), ctx.child(middle, 'm', { id: 'm' })]);
      } finally {
        seen.push('code');
      }
    });
    const parent = orchestration('parent', async (ctx) =>
      ctx
        .child(root, undefined, { id: 'root' })
        .catch((error: Error) => (error.cause as { code: string }).code),
    );
    const { client } = await open({
      orchestrations: [parent, root, middle, leaf],
      activities: [work],
    });
    const handle = await client.start(parent, undefined);
    await started.promise;
    await expect.poll(async () => (await client.get('m-leaf'))?.status).toBe('running');
    expect(await client.terminate('root', { reason: 'stuck', actor: 'ops' })).toEqual({
      found: true,
      changed: true,
      status: 'terminated',
    });
    expect(await handle.result()).toBe('INSTANCE_TERMINATED');
    expect(await client.get('root')).toMatchObject({
      status: 'terminated',
      terminated: { reason: 'stuck', actor: 'ops' },
    });
    await expect(client.handle('root').result()).rejects.toMatchObject({
      code: 'INSTANCE_TERMINATED',
    });
    expect(await client.wait('m-leaf')).toMatchObject({ status: 'canceled' });
    await expect.poll(() => seen).toEqual(['handler']);
    const last = (await client.history('root')).items.at(-1)?.event;
    expect(last).toMatchObject({ kind: 'executionTerminated', reason: 'stuck' });
  });

  it('terminate({ tree: true }) terminates all descendants immediately', async () => {
    const root = orchestration('root', async (ctx) => ctx.child(middle, 't', { id: 't' }));
    const { client } = await open({ orchestrations: [root, middle, leaf] });
    const handle = await client.start(root, undefined);
    await expect.poll(async () => (await client.get('t-leaf'))?.status).toBe('running');
    await handle.terminate({ tree: true });
    for (const id of [handle.id, 't', 't-leaf']) {
      expect(await client.get(id)).toMatchObject({ status: 'terminated' });
    }
  });

  it('a blocked instance can be canceled and terminated', async () => {
    const one = orchestration('changing', async (ctx) => {
      await ctx.sleep(1);
      await ctx.waitFor('go');
    });
    const two = orchestration('changing', async (ctx) => {
      await ctx.waitFor('other');
    });
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [one] });
    const ids = ['canceled', 'terminated'];
    for (const id of ids) {
      await engine.client.start(one, undefined, { id });
      await expect
        .poll(async () => (await engine.client.history(id)).items.at(-1)?.event.kind)
        .toBe('eventAwaited');
    }
    await worker.stop();
    await engine.startWorker({ orchestrations: [two] });
    for (const id of ids) {
      await engine.client.raiseEvent(id, 'go', null);
      await expect.poll(async () => (await engine.client.get(id))?.blocked).toBeTruthy();
    }
    await engine.client.terminate('terminated');
    expect(await engine.client.get('terminated')).toMatchObject({ status: 'terminated' });
    await engine.client.cancel('canceled', { cleanupTimeout: 100 });
    expect(await engine.client.wait('canceled')).toMatchObject({
      status: 'canceled',
      cleanupSkipped: true,
    });
  });
});
