import { expect, it } from 'vitest';
import { PerdureError } from '../../src/model/failures/errors.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('children, detached runs and continue-as-new', (open) => {
  const double = activity('double', async (_ctx, n: number) => n * 2);
  const child = orchestration('child', async (ctx, n: number) => {
    if (n < 0) throw new Error('negative');
    return await ctx.call(double, n);
  });

  it('a parent gets the results of its children and a failed child as CHILD_FAILED', async () => {
    const parent = orchestration('parent', async (ctx) => {
      const results = await Promise.all([1, 2, 3].map((n) => ctx.child(child, n)));
      const failed = await ctx
        .child(child, -1)
        .catch((error: Error & { code: string }) => error.code);
      return { results, failed };
    });
    const { client } = await open({ orchestrations: [parent, child], activities: [double] });
    const handle = await client.start(parent, undefined, { id: 'p' });
    expect(await handle.result()).toEqual({ results: [2, 4, 6], failed: 'CHILD_FAILED' });
    const { items } = await client.list({ parentId: 'p' });
    expect(items.map((item) => item.name)).toEqual(['child', 'child', 'child', 'child']);
  });

  it('a child with a taken id fails in its parent with INSTANCE_ALREADY_EXISTS', async () => {
    const parent = orchestration('parent', async (ctx) =>
      ctx
        .child(child, 1, { id: 'taken' })
        .catch((error: Error) => (error.cause as { code: string }).code),
    );
    const waits = orchestration('waits', async (ctx) => ctx.waitFor('never'));
    const { client } = await open({ orchestrations: [parent, child, waits], activities: [double] });
    await client.start(waits, undefined, { id: 'taken' });
    expect(await (await client.start(parent, undefined)).result()).toBe('INSTANCE_ALREADY_EXISTS');
    expect(await client.get('taken')).toMatchObject({ name: 'waits' });
  });

  it('a child that continues as new returns its final result to its parent', async () => {
    const countdown = orchestration('countdown', async (ctx, n: number): Promise<string> => {
      if (n === 0) return `done in execution ${ctx.executionId}`;
      return await ctx.continueAsNew(n - 1);
    });
    const parent = orchestration('parent', async (ctx) => ctx.child(countdown, 3));
    const { client } = await open({ orchestrations: [parent, countdown] });
    expect(await (await client.start(parent, undefined)).result()).toBe('done in execution 4');
  });

  it('children of successive executions of one parent do not collide', async () => {
    const parent = orchestration('parent', async (ctx, n: number): Promise<number> => {
      const result = await ctx.child(child, n);
      return n === 3 ? result : await ctx.continueAsNew(n + 1);
    });
    const { client } = await open({ orchestrations: [parent, child], activities: [double] });
    expect(await (await client.start(parent, 0)).result()).toBe(6);
  });

  it('startDetached() in the turn that continues as new starts the instance', async () => {
    const once = orchestration('once', async (_ctx, n: number) => n);
    const loop = orchestration('loop', async (ctx, n: number): Promise<string> => {
      void ctx.startDetached(once, n, { id: `once-${n}` });
      return n === 2 ? 'end' : await ctx.continueAsNew(n + 1);
    });
    const { client } = await open({ orchestrations: [loop, once] });
    expect(await (await client.start(loop, 0)).result()).toBe('end');
    for (const n of [0, 1, 2]) expect(await client.handle(`once-${n}`).result()).toBe(n);
  });

  it('startDetached() with a taken id resolves for the same start, rejects for another', async () => {
    const other = orchestration('other', async (ctx) => ctx.waitFor('never'));
    const start = orchestration('start', async (ctx, n: number) => {
      const outcomes: unknown[] = [];
      for (const [definition, input] of [
        [child, n],
        [child, n],
        [child, n + 1],
        [other, n],
      ] as const) {
        outcomes.push(
          await ctx.startDetached(definition as typeof child, input, { id: 'free' }).then(
            (id) => id,
            (error: unknown) => (error instanceof PerdureError ? error.code : 'untyped'),
          ),
        );
      }
      return outcomes;
    });
    const { client } = await open({ orchestrations: [start, child, other], activities: [double] });
    const expected = ['free', 'free', 'INSTANCE_ALREADY_EXISTS', 'INSTANCE_ALREADY_EXISTS'];
    expect(await (await client.start(start, 4)).result()).toEqual(expected);
    expect(await client.handle('free').result()).toBe(8);
    await expect(client.start(child, 5, { id: 'free' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
    expect(await (await client.start(start, 4)).result()).toEqual(expected);
  });

  it('unconsumed events are carried into the next execution ahead of newer ones', async () => {
    const run = orchestration('run', async (ctx, got: string[]): Promise<string[]> => {
      got.push((await ctx.waitFor('e')) as string);
      if (got.length === 4) return got;
      return await ctx.continueAsNew(got);
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, []);
    for (const value of ['a', 'b', 'c', 'd']) await handle.raiseEvent('e', value);
    expect(await handle.result()).toEqual(['a', 'b', 'c', 'd']);
    const { items: executions } = await client.listExecutions(handle.id);
    expect(executions.map(({ status }) => status)).toEqual([
      'continuedAsNew',
      'continuedAsNew',
      'continuedAsNew',
      'completed',
    ]);
  });

  it('an instance stays on its version until continueAsNew() names another', async () => {
    const v1 = orchestration(
      'job',
      async (ctx, n: number): Promise<string> => {
        await ctx.waitFor('go');
        return n === 0 ? await ctx.continueAsNew(1, { version: '2' }) : `v1 ${n}`;
      },
      { version: '1' },
    );
    const v2 = orchestration('job', async (_ctx, n: number) => `v2 ${n}`, { version: '2' });
    const { client } = await open({ orchestrations: [v1, v2] });
    const stays = await client.start(v1, 7);
    const moves = await client.start(v1, 0);
    const newest = await client.start('job', 5);
    for (const handle of [stays, moves]) await handle.raiseEvent('go', null);
    expect(await Promise.all([stays, moves, newest].map((handle) => handle.result()))).toEqual([
      'v1 7',
      'v2 1',
      'v2 5',
    ]);
  });
});
