import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { testOptions } from 'perdure/testing';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock, type Clock } from '../../../src/model/clock.ts';
import { activity, isolatedActivity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import { task } from '../../../src/tasks/task.ts';
import { engineStores, type StoreKind } from '../engine-store.ts';

/** A clock that can jump ahead, as if a handler had blocked the event loop. */
function jumpingClock(): { readonly clock: Clock; readonly jump: (ms: number) => void } {
  let aheadMs = 0;
  const clock: Clock = {
    now: () => systemClock.now() + aheadMs,
    monotonic: () => systemClock.monotonic() + aheadMs,
    setTimer: (delayMs, callback) => systemClock.setTimer(delayMs, callback),
  };
  return { clock, jump: (ms) => void (aheadMs += ms) };
}

const count = 20;
const numbers = Array.from({ length: count }, (_, index) => index);

describe.each<StoreKind>(['SQLite', 'PostgreSQL'])(
  'a lease that expires during a batch (%s)',
  (kind) => {
    const newStore = engineStores(kind);

    async function open() {
      const { clock, jump } = jumpingClock();
      const store = await newStore();
      onTestFinished(() => store.remove());
      const perdure = await Perdure.open(await store.open({ clock }), { clock });
      onTestFinished(() => perdure.close());
      let hasBlocked = false;
      const block = (): void => {
        if (!hasBlocked) jump(60_000);
        hasBlocked = true;
      };
      // With maxClaims 1, an item whose dropped claim is counted would end as poison.
      const options = { activityLease: '30s', orchestrationLease: '30s', maxClaims: 1 } as const;
      return { client: perdure.client, perdure, block, options };
    }

    it.each([true, false])(
      'activities batched behind a blocking one run once, their claims uncounted (fast paths: %s)',
      async (fastPaths) => {
        const { perdure, client, block, options } = await open();
        const calls: number[] = [];
        const blocker = activity('blocker', () => block());
        const work = activity('work', (_ctx, n: number) => void calls.push(n));
        const run = orchestration('run', async (ctx) => {
          const blocked = ctx.call(blocker, undefined, { priority: 1 });
          await ctx.all(numbers.map((n) => ctx.call(work, n)));
          await Promise.allSettled([blocked]);
        });
        const definitions = { orchestrations: [run], activities: [blocker, work] };
        await perdure.startWorker({ ...definitions, ...options, ...testOptions({ fastPaths }) });
        await (await client.start(run)).result();
        expect(calls.toSorted((a, b) => a - b)).toEqual(numbers);
      },
    );

    it('tasks batched behind a blocking one run once, their claims uncounted', async () => {
      const { perdure, client, block, options } = await open();
      const calls: number[] = [];
      const blocker = task('blocker', () => block());
      const work = task('work', (_ctx, n: number) => void calls.push(n), { condition: () => true });
      const first = await client.runTask(blocker, undefined, { priority: 1 });
      const runs = await Promise.all(numbers.map((n) => client.runTask(work, n)));
      await perdure.startWorker({ tasks: [blocker, work], ...options });
      await Promise.all(runs.map((run) => run.result()));
      await first.result().catch(() => undefined);
      expect(calls.toSorted((a, b) => a - b)).toEqual(numbers);
    });

    it('isolated handlers batched behind a blocking one run once', async () => {
      const { perdure, client, block, options } = await open();
      const folder = await mkdtemp(join(tmpdir(), 'perdure-late-'));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      const path = join(folder, 'starts');
      const module = new URL('./isolated-handlers.ts', import.meta.url);
      const blocker = activity('blocker', () => block());
      const note = isolatedActivity<{ path: string; n: number }, void>('note', {
        module,
        exportName: 'note',
      });
      const run = orchestration('run', async (ctx) => {
        const blocked = ctx.call(blocker);
        await ctx.all([1, 2, 3].map((n) => ctx.call(note, { path, n })));
        await Promise.allSettled([blocked]);
      });
      await perdure.startWorker({ orchestrations: [run], activities: [blocker, note], ...options });
      await (await client.start(run)).result();
      const lines = (await readFile(path, 'utf8')).trim().split('\n');
      expect(lines.toSorted()).toEqual(['1', '2', '3']);
    });

    it('turns batched behind a blocking one run once', async () => {
      const { perdure, client, block, options } = await open();
      const calls: string[] = [];
      const run = orchestration('run', async (ctx) => {
        calls.push(ctx.instanceId);
        if (ctx.instanceId === 'first') block();
      });
      const first = await client.start(run, undefined, { id: 'first' });
      const others = numbers.slice(0, 5).map((n) => `other-${n}`);
      const handles = await Promise.all(others.map((id) => client.start(run, undefined, { id })));
      // The next fetch may claim an expired item before the batch abandons it. That claim counts.
      await perdure.startWorker({ orchestrations: [run], ...options, maxClaims: 2 });
      await Promise.all(handles.map((handle) => handle.result()));
      await first.result().catch(() => undefined);
      expect(calls.filter((id) => id !== 'first').toSorted()).toEqual(others);
    });
  },
);
