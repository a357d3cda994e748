import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from './gate.ts';

describeEngine(
  'dedupe keys',
  (open) => {
    const keyed = { dedupeKey: 'customer 7' };

    it('runTask() with the dedupe key of an active run returns that run', async () => {
      const work = task('work', (_ctx, n: number) => n);
      const { client, startWorker } = await open();
      const first = await client.runTask(work, 1, keyed);
      const second = await client.runTask(work, 2, keyed);
      expect(second).toMatchObject({ id: first.id, created: false });
      const other = await client.runTask('other task', 1, keyed);
      expect(other.created).toBe(true);
      await startWorker({ tasks: [work] });
      expect(await second.result()).toBe(1);
      const third = await client.runTask(work, 3, keyed);
      expect(third.created).toBe(true);
      expect(await third.result()).toBe(3);
    });

    it('concurrent runTask() calls with one dedupe key create and return one run', async () => {
      const { client, reopen } = await open();
      const elsewhere = await reopen();
      const handles = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          (n % 2 === 0 ? client : elsewhere.client).runTask('work', n, keyed),
        ),
      );
      expect(new Set(handles.map(({ id }) => id)).size).toBe(1);
      expect(handles.filter(({ created }) => created)).toHaveLength(1);
    });

    it.each(['cancel', 'terminate'] as const)(
      'after %s() the dedupe key is held until the handler has stopped',
      async (stop) => {
        const [started, mayEnd] = [makeGate(), makeGate()];
        let calls = 0;
        const work = task('work', async (ctx) => {
          calls += 1;
          if (calls > 1) return;
          started.open();
          await aborted(ctx.signal);
          await mayEnd.opened;
        });
        const { client } = await open({ tasks: [work] });
        const first = await client.runTask(work, undefined, keyed);
        await started.opened;
        await first[stop]();
        expect(await client.runTask(work, undefined, keyed)).toMatchObject({ id: first.id });
        mayEnd.open();
        await expect
          .poll(async () => (await client.runTask(work, undefined, keyed)).created, { interval: 5 })
          .toBe(true);
      },
    );

    it('a dedupe key is free again after a failed, skipped or expired run', async () => {
      const fails = task('fails', () => {
        throw new Error('no');
      });
      const skips = task('skips', () => undefined, { condition: () => false });
      const { client } = await open({ tasks: [fails, skips] });
      for (const [name, options] of [
        [fails, {}],
        [skips, {}],
        [task('nobody', () => undefined), { expiresIn: 20 }],
      ] as const) {
        const handle = await client.runTask(name, undefined, { ...keyed, ...options });
        await client.wait(handle.id);
        expect(await client.runTask(name, undefined, keyed)).toMatchObject({ created: true });
      }
    });
  },
  modesWithoutTurns,
);
