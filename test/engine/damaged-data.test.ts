import { expect, it } from 'vitest';
import { FailedError, isPerdureError } from '../../src/model/failures/errors.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('damaged data and poison', (open) => {
  const step = activity('step', async (_ctx, n: number) => n);
  const waits = orchestration('waits', async (ctx, n: number) => {
    const first = await ctx.call(step, n);
    await ctx.waitFor('go');
    return first;
  });
  const parent = orchestration('parent', async (ctx) =>
    ctx.child(waits, 1, { id: 'child' }).catch((error: FailedError) => error.code),
  );

  it.each([
    [
      'history',
      `UPDATE history SET data = '{broken' WHERE event_id = 2 AND instance_key = (SELECT instance_key FROM instances WHERE instance_id = 'bad')`,
    ],
    [
      'messages',
      `UPDATE orchestrator_queue SET data = '{broken' WHERE instance_key = (SELECT instance_key FROM instances WHERE instance_id = 'bad')`,
    ],
  ])('an instance with undecodable %s ends as poison and affects no other', async (_what, sql) => {
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [waits], activities: [step] });
    const bad = await engine.client.start(waits, 1, { id: 'bad' });
    const good = await engine.client.start(waits, 2, { id: 'good' });
    for (const { id } of [bad, good]) {
      await expect
        .poll(async () => (await engine.client.history(id)).items.at(-1)?.event.kind)
        .toBe('eventAwaited');
    }
    await worker.stop();
    for (const handle of [bad, good]) await handle.raiseEvent('go', null);
    expect(await engine.tamper(sql)).toBe(1);
    await engine.startWorker({ orchestrations: [waits], activities: [step], maxClaims: 1 });
    expect(await good.result()).toBe(2);
    await expect(bad.result()).rejects.toMatchObject({ code: 'POISON' });
    expect((await engine.client.get('bad'))?.failure).toMatchObject({ code: 'POISON' });
  });

  it('an activity beyond maxClaims fails with POISON, which the orchestration can catch', async () => {
    const run = orchestration('run', async (ctx) =>
      ctx
        .call(step, 1)
        .catch((error: FailedError) => [
          isPerdureError(error, 'POISON'),
          error instanceof FailedError,
          error.failure.code,
        ]),
    );
    const engine = await open({ orchestrations: [run] });
    const handle = await engine.client.start(run, undefined);
    await expect.poll(() => engine.tamper('UPDATE worker_queue SET claims = 10')).toBe(1);
    await engine.startWorker({ activities: [step] });
    expect(await handle.result()).toEqual([true, true, 'POISON']);
  });

  it('the parent of a child that ends as poison gets POISON', async () => {
    const engine = await open({ orchestrations: [parent] });
    const handle = await engine.client.start(parent, undefined);
    await expect
      .poll(() =>
        engine.tamper(
          `UPDATE instance_locks SET claims = 10 WHERE instance_key = (SELECT instance_key FROM instances WHERE instance_id = 'child')`,
        ),
      )
      .toBe(1);
    await engine.startWorker({ orchestrations: [waits], activities: [step] });
    expect(await handle.result()).toBe('POISON');
  });

  it('raiseEvent() beyond maxBufferedEvents rejects, counting events already delivered to the code', async () => {
    const collect = orchestration('collect', async (ctx, count: number) => {
      await ctx.waitFor('start');
      const got: unknown[] = [];
      for (let i = 0; i < count; i += 1) got.push(await ctx.waitFor('item'));
      return got;
    });
    const engine = await open({ orchestrations: [collect] }, { maxBufferedEvents: 3 });
    const handle = await engine.client.start(collect, 3);
    for (const n of [0, 1, 2]) {
      await handle.raiseEvent('item', n);
      // Each event is delivered before the next is raised: the limit applies although the queue is empty.
      await expect
        .poll(async () => (await engine.client.history(handle.id)).items.length)
        .toBe(3 + n);
    }
    await expect(handle.raiseEvent('item', 3)).rejects.toMatchObject({ code: 'EVENT_BUFFER_FULL' });
    await handle.terminate();
  });
});
