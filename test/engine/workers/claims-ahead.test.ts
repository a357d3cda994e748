import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, silentLogger, task } from 'perdure';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { makeGate } from '../../tasks/gate.ts';
import { engineStores } from '../engine-store.ts';

// More than the fast runs after which a worker claims ahead.
const fastRuns = 40;

describe.each(['SQLite', 'PostgreSQL'] as const)('claims ahead (%s)', (kind) => {
  const create = engineStores(kind);

  it.each([{ concurrency: { global: 2 } }, { concurrency: { perKey: 2 } }])(
    'a worker without a free slot holds no place of a limit that an operator set: %j',
    async (limits) => {
      const store = await create();
      // Its timers do not fire, so a run that was claimed ahead would not be handed back.
      const perdure = await Perdure.open(await store.open({ clock: new FakeClock() }), {
        logger: silentLogger,
      });
      const gate = makeGate();
      onTestFinished(async () => {
        gate.open();
        await perdure.close();
        await store.remove();
      });
      const { client } = perdure;
      let started = 0;
      const job = task('job', async (_ctx, waits: boolean) => {
        started += 1;
        if (waits) await gate.opened;
      });
      await perdure.startWorker({ tasks: [job], activityConcurrency: 1 });
      for (let run = 0; run < fastRuns; run += 1) {
        await (await client.runTask(job, false)).result();
      }
      await client.limits.set(job, limits);
      for (let run = 0; run < 3; run += 1) await client.runTask(job, true);
      await expect.poll(() => started).toBe(fastRuns + 1);
      await perdure.startWorker({ tasks: [job], activityConcurrency: 5 });
      await expect.poll(() => started).toBe(fastRuns + 2);
    },
  );
});
