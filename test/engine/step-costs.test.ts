import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, silentLogger } from '../../src/index.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { makeGate } from '../tasks/gate.ts';
import { engineStores } from './engine-store.ts';

/** Calls that neither write for one instance nor depend on the number of its steps. */
const periodic = new Set(['registerWorkers', 'renewWorkers', 'writeSeries', 'hints', 'close']);

/** Counts the calls of the methods of a store. */
function countCalls(inner: Provider): {
  readonly provider: Provider;
  readonly counts: Map<string, number>;
} {
  const counts = new Map<string, number>();
  const provider = new Proxy(inner, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...args: readonly unknown[]): unknown => {
        const name = String(property);
        if (!periodic.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
        return Reflect.apply(value, target, args);
      };
    },
  });
  return { provider, counts };
}

describe.each(['SQLite', 'PostgreSQL'] as const)('cost of steps (%s)', (kind) => {
  const newStore = engineStores(kind);

  it('a step costs one call of the store, its ack', async () => {
    const steps = 40;
    const run = orchestration('run', async (ctx) => {
      for (let index = 0; index < steps; index += 1) await ctx.run('step', () => index);
    });
    const store = await newStore();
    const { provider, counts } = countCalls(await store.open());
    const perdure = await Perdure.open(provider, { logger: silentLogger, pollInterval: '10s' });
    onTestFinished(async () => {
      await perdure.close();
      await store.remove();
    });
    await perdure.startWorker({ orchestrations: [run], heartbeat: '1m' });
    await (await perdure.client.start(run)).result();
    const acks = counts.get('ackOrchestrationItems') ?? 0;
    expect(acks).toBeGreaterThanOrEqual(steps);
    expect(acks).toBeLessThanOrEqual(steps + 2);
    const others = [...counts].filter(
      ([name, count]) => name !== 'ackOrchestrationItems' && count > steps / 2,
    );
    expect(others).toEqual([]);
  });

  it('a step that waits for its next attempt holds no slot', async () => {
    const failed = makeGate();
    const flaky = orchestration('flaky', (ctx) =>
      ctx.run(
        'flaky',
        (step) => {
          if (step.attempt > 1) return 'second';
          failed.open();
          throw new Error('again');
        },
        { retry: { maxAttempts: 2, initialDelay: '1h' } },
      ),
    );
    const quick = orchestration('quick', (ctx) => ctx.run('quick', () => 'done'));
    const store = await newStore();
    const perdure = await Perdure.open(await store.open(), { logger: silentLogger });
    onTestFinished(async () => {
      await perdure.close();
      await store.remove();
    });
    await perdure.startWorker({ orchestrations: [flaky, quick], stepConcurrency: 1 });
    const { client } = perdure;
    const waiting = await client.start(flaky);
    await failed.opened;
    expect(await (await client.start(quick)).result({ timeout: '10s' })).toBe('done');
    expect((await waiting.status()).status).toBe('running');
  });
});
