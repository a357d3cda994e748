import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from './gate.ts';

describeEngine(
  'runs that are claimed before a slot is free',
  (open) => {
    it('a canceled run never starts, and every other run starts once', async () => {
      const [blocked, mayEnd] = [makeGate(), makeGate()];
      const calls: string[] = [];
      const work = task('work', async (_, what: string) => {
        calls.push(what);
        if (what !== 'block') return;
        blocked.open();
        await mayEnd.opened;
      });
      const { client, startWorker } = await open();
      const enqueue = (what: string) => client.runTask(work, what);
      for (let count = 0; count < 60; count += 1) await enqueue('quick');
      await enqueue('block');
      const later = [];
      for (let number = 0; number < 20; number += 1) later.push(await enqueue(`later ${number}`));
      await startWorker({ tasks: [work], activityConcurrency: 1 });
      await blocked.opened;
      await later[3]?.cancel();
      mayEnd.open();
      const results = await Promise.allSettled(later.map((handle) => handle.result()));
      expect(
        results.flatMap(({ status }, number) => (status === 'rejected' ? [number] : [])),
      ).toEqual([3]);
      expect(calls).not.toContain('later 3');
      const started = calls.filter((what) => what.startsWith('later'));
      expect(new Set(started).size).toBe(19);
      expect(started).toHaveLength(19);
    });

    it('stop() hands runs back that have not started, and another worker runs them', async () => {
      const blocked = makeGate();
      let first = true;
      const calls: string[] = [];
      const work = task('work', async (ctx, what: string) => {
        calls.push(what);
        if (what !== 'block' || !first) return;
        first = false;
        blocked.open();
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
        ctx.throwIfCanceled();
      });
      const { client, startWorker } = await open();
      for (let count = 0; count < 60; count += 1) await client.runTask(work, 'quick');
      const rest = [await client.runTask(work, 'block')];
      for (let number = 0; number < 20; number += 1) {
        rest.push(await client.runTask(work, `later ${number}`));
      }
      const settings = { tasks: [work], activityConcurrency: 1, shutdownGrace: 0 };
      const worker = await startWorker(settings);
      await blocked.opened;
      await worker.stop();
      expect(calls.filter((what) => what.startsWith('later'))).toEqual([]);
      await startWorker(settings);
      await Promise.all(rest.map((handle) => handle.result()));
      expect(calls.filter((what) => what.startsWith('later'))).toHaveLength(20);
    });
  },
  modesWithoutTurns,
);
