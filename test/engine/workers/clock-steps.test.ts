import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, type TestContext } from 'vitest';
import { activity, orchestration, Perdure, task, type Clock } from '../../../src/index.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { engineStores } from '../engine-store.ts';

const hourMs = 3_600_000;

/** The system clock with a wall time that can be stepped. */
class SteppedClock implements Clock {
  aheadMs = 0;
  now = (): number => systemClock.now() + this.aheadMs;
  monotonic = (): number => systemClock.monotonic();
  setTimer = (delayMs: number, callback: () => void) => systemClock.setTimer(delayMs, callback);
}

// These tests wait for leases, so they run concurrently.
describe.concurrent.each(['SQLite', 'PostgreSQL'] as const)(
  'a stepped worker clock (%s)',
  (kind) => {
    const newStore = engineStores(kind);

    /** Returns a clock, and a function that opens an engine with it. PostgreSQL uses the clock of its server. */
    async function prepare({ onTestFinished }: TestContext) {
      const store = await newStore();
      const clock = new SteppedClock();
      const opened: Perdure[] = [];
      onTestFinished(async () => {
        await Promise.all(opened.map((perdure) => perdure.close()));
        await store.remove();
      });
      const open = async (): Promise<Perdure> => {
        const provider = await store.open(kind === 'SQLite' ? { clock } : {});
        const options = kind === 'SQLite' ? {} : { clock };
        const perdure = await Perdure.open(provider, options);
        opened.push(perdure);
        return perdure;
      };
      return { clock, open };
    }

    it.for([hourMs, -hourMs])(
      'a clock step of %d ms does not end a healthy activity',
      async (stepMs, context) => {
        const { clock, open } = await prepare(context);
        const started = Promise.withResolvers<void>();
        const finish = Promise.withResolvers<void>();
        let runs = 0;
        const steady = activity('steady', async () => {
          runs += 1;
          started.resolve();
          await finish.promise;
          return 'done';
        });
        const calls = orchestration('calls', (ctx) => ctx.call(steady));
        const definitions = {
          orchestrations: [calls],
          activities: [steady],
          activityLease: 2_000,
          orchestrationLease: 2_000,
          maxClaims: 2,
        };
        const [first, second] = [await open(), await open()];
        await first.startWorker(definitions);
        await second.startWorker(definitions);
        const handle = await first.client.start(calls);
        await started.promise;
        clock.aheadMs = stepMs;
        // Two leases: without renewals the other worker would claim the activity.
        await delay(4_500);
        finish.resolve();
        expect(await handle.result({ timeout: '30s' })).toBe('done');
        expect(runs).toBe(1);
      },
    );

    it.for([hourMs, -hourMs])(
      'a clock step of %d ms does not delay new work',
      async (stepMs, context) => {
        const { clock, open } = await prepare(context);
        const perdure = await open();
        const work = task('work', () => 'done');
        const step = activity('step', () => 'ok');
        const flow = orchestration('flow', async (ctx) => {
          await ctx.sleep(200);
          return ctx.call(step);
        });
        await perdure.startWorker({ tasks: [work], orchestrations: [flow], activities: [step] });
        clock.aheadMs = stepMs;
        const before = performance.now();
        const run = await perdure.client.runTask(work, undefined, { delay: 200 });
        const handle = await perdure.client.start(flow);
        expect(await run.result({ timeout: '20s' })).toBe('done');
        expect(await handle.result({ timeout: '20s' })).toBe('ok');
        expect(performance.now() - before).toBeGreaterThanOrEqual(190);
      },
    );
  },
);

describe('ctx.sleep() on SQLite', () => {
  const newStore = engineStores('SQLite');
  const nap = orchestration('nap', async (ctx) => {
    await ctx.sleep(6_000);
  });

  it.each(['setForward', 'setBack'] as const)(
    'a stepped clock neither shortens nor extends ctx.sleep() (%s)',
    async (step) => {
      const store = await newStore();
      const clock = new FakeClock();
      const perdure = await Perdure.open(await store.open({ clock }));
      await perdure.startWorker({ orchestrations: [nap] });
      const handle = await perdure.client.start(nap);
      await clock.advance(1_000);
      await clock[step]('1h');
      // A process that opens the file after the step uses the same time.
      const later = await Perdure.open(await store.open({ clock }));
      await later.startWorker({ orchestrations: [nap] });
      await clock.advance(4_999);
      expect((await handle.status()).status).toBe('running');
      await clock.advance(1);
      await handle.result();
      await Promise.all([perdure.close(), later.close()]);
      await store.remove();
    },
  );
});
