import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { systemClock, type Clock } from '../../../src/model/clock.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Hint, Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';

/** The system clock, with a count of pending timers. */
class CountingClock implements Clock {
  readonly #alarms = new Set<object>();

  get alarmCount(): number {
    return this.#alarms.size;
  }

  now(): number {
    return systemClock.now();
  }

  monotonic(): number {
    return systemClock.monotonic();
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    const alarm = {};
    this.#alarms.add(alarm);
    const cancel = systemClock.setTimer(delayMs, () => {
      this.#alarms.delete(alarm);
      callback();
    });
    return () => {
      this.#alarms.delete(alarm);
      cancel();
    };
  }
}

/** Counts the listeners on the hints of a store and on the signals of its fetches. */
class Listeners {
  readonly hints = new Set<(hint: Hint) => void>();
  readonly signals = new Set<AbortSignal>();

  watch(provider: Provider): Provider {
    return {
      ...provider,
      hints: (listener) => {
        this.hints.add(listener);
        const stop = provider.hints(listener);
        return () => {
          this.hints.delete(listener);
          stop();
        };
      },
      fetchWorkItems: (params) => {
        if (params.signal) this.signals.add(params.signal);
        return provider.fetchWorkItems(params);
      },
      fetchOrchestrationItems: (params) => {
        if (params.signal) this.signals.add(params.signal);
        return provider.fetchOrchestrationItems(params);
      },
    };
  }

  get onSignals(): number {
    return countListeners(this.signals);
  }
}

function countListeners(signals: Iterable<AbortSignal>): number {
  return [...signals].reduce((sum, signal) => sum + getEventListeners(signal, 'abort').length, 0);
}

function processListeners(): readonly string[] {
  return process.eventNames().map((name) => `${String(name)} ${process.listenerCount(name)}`);
}

it('100 canceled orchestrations of five running activities leave no timer and no listener', async () => {
  const clock = new CountingClock();
  const listeners = new Listeners();
  const provider = await openSqlite({ path: ':memory:', clock });
  await using perdure = await Perdure.open(listeners.watch(provider), { clock });
  const { client } = perdure;
  const handed: AbortSignal[] = [];
  const hold = activity('hold', async (ctx) => {
    handed.push(ctx.signal);
    await ctx.canceled();
    ctx.throwIfCanceled();
  });
  const holds = orchestration('holds', async (ctx) => {
    await Promise.all(
      Array.from({ length: 5 }, () => ctx.call(hold, undefined, { attemptTimeout: '1h' })),
    );
  });
  const idle = orchestration('idle', async () => 'ran');
  await perdure.startWorker({
    orchestrations: [holds, idle],
    activities: [hold],
    activityConcurrency: 500,
    pollInterval: '1h',
  });
  // Count after the worker has run once and no client waits.
  await (await client.start(idle)).result();
  await expect.poll(() => listeners.hints.size).toBe(1);
  const counts = () => ({
    alarms: clock.alarmCount,
    hints: listeners.hints.size,
    onSignals: listeners.onSignals,
    process: processListeners(),
  });
  const before = counts();

  const handles = await Promise.all(Array.from({ length: 100 }, () => client.start(holds)));
  await expect.poll(() => handed.length, { timeout: 10_000 }).toBe(500);
  expect(clock.alarmCount).toBeGreaterThan(500);
  expect(countListeners(handed)).toBe(500);
  const results = handles.map((handle) => handle.result().catch((error: unknown) => error));
  await Promise.all(handles.map((handle) => handle.cancel()));
  for (const end of await Promise.all(results)) {
    expect(end).toMatchObject({ code: 'OPERATION_CANCELED' });
  }
  expect(handed.every(({ aborted }) => aborted)).toBe(true);
  expect(countListeners(handed)).toBe(0);
  // Each kind of lease may have one pending renewal timer.
  await expect.poll(() => clock.alarmCount).toBeLessThanOrEqual(before.alarms + 2);
  await expect.poll(() => ({ ...counts(), alarms: before.alarms })).toEqual(before);

  await perdure.close();
  expect(counts()).toEqual({ alarms: 0, hints: 0, onSignals: 0, process: before.process });
});
