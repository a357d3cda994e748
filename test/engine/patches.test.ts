import { expect, it } from 'vitest';
import { event } from '../../src/index.ts';
import { activity } from '../../src/orchestration/activity.ts';
import {
  orchestration,
  type OrchestrationDefinition,
} from '../../src/orchestration/orchestration.ts';
import type { OrchestrationContext } from '../../src/orchestration/orchestration-context.ts';
import { describeEngine } from './describe-engine.ts';

const go = event('go');
const work = activity('work', async (_ctx, label: string) => label);

/** A deploy of the same version of an orchestration. */
function deploy(
  body: (ctx: OrchestrationContext<string>) => Promise<unknown>,
): OrchestrationDefinition<string> {
  return orchestration('deployed', async (ctx: OrchestrationContext<string>) => {
    const before = await body(ctx);
    await ctx.waitFor(go);
    return [before, await ctx.call(work, 'last')];
  });
}

const first = deploy((ctx) => ctx.call(work, 'old'));
const second = deploy(async (ctx) =>
  ctx.patched('two') ? ctx.call(work, 'second') : ctx.call(work, 'old'),
);
const third = deploy(async (ctx) => {
  if (!ctx.patched('two')) return ctx.call(work, 'old');
  const result = await ctx.call(work, 'second');
  return ctx.patched('three') ? [result, await ctx.run('third', () => 'third')] : result;
});
const fourth = deploy(async (ctx) => {
  ctx.deprecatePatch('two');
  const result = await ctx.call(work, 'second');
  return ctx.patched('three') ? [result, await ctx.run('third', () => 'third')] : result;
});

describeEngine('patches', (open) => {
  it('a rolling deploy of three versions replays the instances of each, and blocks none', async () => {
    const { client, startWorker } = await open(undefined);
    const blocked: string[] = [];
    const handles = [];
    const deploys = [first, second, third];
    for (const [index, definition] of deploys.entries()) {
      const worker = await startWorker({
        orchestrations: [definition],
        activities: [work],
        buildId: `build ${index}`,
        warmCacheBytes: 0,
        hooks: { instanceBlocked: ({ instanceId }) => blocked.push(instanceId) },
      });
      for (let copy = 0; copy < 3; copy++) {
        handles.push(await client.start(definition, 'x', { id: `deploy-${index}-${copy}` }));
      }
      // All are in flight when the next deploy begins.
      for (const { id } of handles) {
        await expect
          .poll(async () => (await client.history(id)).items.at(-1)?.event.kind, { timeout: 5_000 })
          .toBe('eventAwaited');
      }
      if (index < deploys.length - 1) await worker.stop();
    }
    for (const { id } of handles) await client.raiseEvent(id, go);
    const results = await Promise.all(handles.map((handle) => handle.result()));
    const old = ['old', 'last'];
    const patched = ['second', 'last'];
    const newest = [['second', 'third'], 'last'];
    expect(results).toEqual([old, old, old, patched, patched, patched, newest, newest, newest]);
    expect(blocked).toEqual([]);
  });

  it('workers of two deploys at once complete the instances of both', async () => {
    const { client, startWorker } = await open(undefined);
    const common = { activities: [work], warmCacheBytes: 0, pollInterval: 50 };
    const old = await startWorker({ ...common, orchestrations: [first], buildId: 'old' });
    const startAll = (prefix: string) =>
      Promise.all(
        Array.from({ length: 6 }, (_, copy) =>
          client.start('deployed', 'x', { id: `${prefix}-${copy}` }),
        ),
      );
    const handles = await startAll('before');
    const isWaiting = async (id: string): Promise<boolean> =>
      (await client.history(id)).items.at(-1)?.event.kind === 'eventAwaited';
    for (const { id } of handles) await expect.poll(() => isWaiting(id)).toBe(true);
    await startWorker({ ...common, orchestrations: [second], buildId: 'new' });
    handles.push(...(await startAll('during')));
    for (const { id } of handles) await expect.poll(() => isWaiting(id)).toBe(true);
    // Either worker may claim each of them. The old code hands back those that recorded the patch.
    for (const { id } of handles.slice(3)) await client.raiseEvent(id, go);
    const results = await Promise.all(handles.slice(3).map((handle) => handle.result()));
    await old.stop();
    for (const { id } of handles.slice(0, 3)) await client.raiseEvent(id, go);
    results.unshift(...(await Promise.all(handles.slice(0, 3).map((handle) => handle.result()))));
    expect(results.slice(0, 6)).toEqual(Array.from({ length: 6 }, () => ['old', 'last']));
    for (const result of results.slice(6)) {
      expect([
        ['old', 'last'],
        ['second', 'last'],
      ]).toContainEqual(result);
    }
    expect((await client.list({ blocked: true })).items).toEqual([]);
  });

  it('deprecatePatch replays an execution that recorded the patch, and records it in new ones', async () => {
    const { client, startWorker } = await open(undefined);
    const common = { activities: [work], warmCacheBytes: 0 };
    const before = await startWorker({ ...common, orchestrations: [third], buildId: 'before' });
    const inFlight = await client.start(third, 'x', { id: 'in flight' });
    await expect
      .poll(async () => (await client.history(inFlight.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    await before.stop();
    await startWorker({ ...common, orchestrations: [fourth], buildId: 'after' });
    const fresh = await client.start(fourth, 'x', { id: 'fresh' });
    for (const { id } of [inFlight, fresh]) await client.raiseEvent(id, go);
    expect([await inFlight.result(), await fresh.result()]).toEqual([
      [['second', 'third'], 'last'],
      [['second', 'third'], 'last'],
    ]);
    const marks = (await client.history('fresh')).items.flatMap(({ event: one }) =>
      one.kind === 'patchMarked' ? [one.id] : [],
    );
    expect(marks).toEqual(['two', 'three']);
  });

  it('code that removed a patch disagrees with executions that recorded it', async () => {
    const { client, startWorker } = await open(undefined);
    const common = { activities: [work], warmCacheBytes: 0, pollInterval: 20 };
    const before = await startWorker({ ...common, orchestrations: [second], buildId: 'before' });
    const handle = await client.start(second, 'x', { id: 'patched' });
    await expect
      .poll(async () => (await client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    await before.stop();
    const removed = deploy((ctx) => ctx.call(work, 'second'));
    await startWorker({
      ...common,
      orchestrations: [removed],
      buildId: 'after',
      onNondeterminism: 'fail',
    });
    await client.raiseEvent(handle.id, go);
    await expect(handle.result()).rejects.toThrow('patch "two"');
  });
});
