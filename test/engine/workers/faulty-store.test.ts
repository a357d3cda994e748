import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { ProviderError } from '../../../src/model/failures/errors.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { testOptions } from '../../../src/runtime/test-options.ts';
import { task } from '../../../src/tasks/task.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

interface Faults {
  /** Percentage of calls that fail. */
  readonly percent: number;
  counts: { before: number; after: number };
}

const sync = new Set(['hints', 'close', 'name']);

/** A real store with connection errors: a call fails before it is made or after it has committed. */
function injectFaults(provider: Provider, faults: Faults): Provider {
  let seed = 42;
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed / 2 ** 31;
  };
  return new Proxy(provider, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function' || sync.has(String(key))) {
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      }
      return async (...args: unknown[]): Promise<unknown> => {
        const fault = random() * 100 < faults.percent;
        const after = random() < 0.5;
        if (fault && !after) {
          faults.counts.before += 1;
          throw connectionError(String(key));
        }
        const result: unknown = await Reflect.apply(value, target, args);
        if (fault) {
          faults.counts.after += 1;
          throw connectionError(String(key));
        }
        return result;
      };
    },
  });
}

function connectionError(operation: string): ProviderError {
  return new ProviderError({ operation, message: 'connection lost', retryable: true });
}

async function retryStoreErrors<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
    }
  }
}

it.each([
  ['with fast paths', {}],
  ['without fast paths', testOptions({ fastPaths: false })],
  ['without a warm cache', { warmCacheBytes: 0 }],
])(
  'instances complete although one in five store calls fails before or after commit (%s)',
  async (_title, options) => {
    const folder = await mkdtemp(join(tmpdir(), 'perdure-faults-'));
    folders.push(folder);
    const faults: Faults = { percent: 20, counts: { before: 0, after: 0 } };
    const provider = await openSqlite({ path: join(folder, 'faults.db') });
    await using perdure = await Perdure.open(injectFaults(provider, faults), { pollInterval: 50 });
    const done = new Map<string, number>();
    const add = activity('add', async (ctx, n: number) => {
      done.set(ctx.idempotencyKey, (done.get(ctx.idempotencyKey) ?? 0) + 1);
      return n + 1;
    });
    const child = orchestration('child', async (ctx, n: number) => ctx.call(add, n));
    const run = orchestration('run', async (ctx, n: number) => {
      const parts = await Promise.all([ctx.call(add, n), ctx.call(add, n), ctx.child(child, n)]);
      await ctx.sleep(5);
      return parts.reduce((sum, part) => sum + part, 0) + (await ctx.call(add, 0));
    });
    await perdure.startWorker({
      orchestrations: [run, child],
      activities: [add],
      activityLease: 500,
      orchestrationLease: 500,
      shutdownGrace: 100,
      ...options,
    });
    // The number of faults depends on how calls are batched, so repeat until there are enough.
    let rounds = 0;
    for (; Math.min(faults.counts.before, faults.counts.after) <= 20; rounds += 1) {
      const ids = Array.from({ length: 40 }, (_, n) => `run-${rounds}-${n}`);
      await Promise.all(
        ids.map((id, n) => retryStoreErrors(() => perdure.client.start(run, n, { id }))),
      );
      const results = await Promise.all(
        ids.map((id) => retryStoreErrors(() => perdure.client.handle<number>(id).result())),
      );
      expect(results).toEqual(ids.map((_, n) => 3 * (n + 1) + 1));
    }
    expect(done.size).toBe(rounds * 40 * 4);
  },
);

it('a read of a failed run that the store cannot serve costs onFail no attempt', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-faults-'));
  folders.push(folder);
  const provider = await openSqlite({ path: join(folder, 'faults.db') });
  let failuresLeft = 0;
  const getInstances: Provider['getInstances'] = async (ids) => {
    if (failuresLeft === 0) return provider.getInstances(ids);
    failuresLeft -= 1;
    throw connectionError('getInstances');
  };
  await using perdure = await Perdure.open({ ...provider, getInstances });
  let handled: ((attempts: number) => void) | undefined;
  const attempts = new Promise<number>((resolve) => (handled = resolve));
  const pay = task(
    'pay',
    () => {
      failuresLeft = 2;
      throw new Error('fails');
    },
    { onFail: { handler: (ctx, failed) => handled?.(ctx.attempt * 10 + failed.attempts) } },
  );
  await perdure.startWorker({ tasks: [pay] });
  await perdure.client.runTask(pay, undefined, { id: 'p' });
  expect(await attempts).toBe(11);
  await expect
    .poll(async () => (await perdure.client.get('p'))?.task?.onFail, { interval: 5 })
    .toBe('completed');
});
