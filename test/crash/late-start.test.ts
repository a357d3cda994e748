import { describe, expect, test } from 'vitest';
import { activity, orchestration, Perdure, type Clock } from 'perdure';
import { testOptions } from 'perdure/testing';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { systemClock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { engineStores } from '../engine/engine-store.ts';
import { overrideProvider } from './override-provider.ts';

/** A clock that can jump ahead, as for a process that was stopped. */
function jumpingClock(): { readonly clock: Clock; readonly jump: (ms: number) => void } {
  let aheadMs = 0;
  const clock: Clock = {
    now: () => systemClock.now() + aheadMs,
    monotonic: () => systemClock.monotonic() + aheadMs,
    setTimer: (delayMs, callback) => systemClock.setTimer(delayMs, callback),
  };
  return { clock, jump: (ms) => void (aheadMs += ms) };
}

const sleepers: Readonly<
  Record<string, (inner: Provider, sleep: () => void) => Partial<Provider>>
> = {
  'was fetched': (inner, sleep) => ({
    async fetchWorkItems(params) {
      const items = await inner.fetchWorkItems(params);
      if (items.length > 0) sleep();
      return items;
    },
  }),
  'was claimed together with its first turn': (inner, sleep) => ({
    async createInstances(instances) {
      const results = await inner.createInstances(instances);
      sleep();
      return results;
    },
  }),
};

test.for(Object.entries(sleepers))(
  'an activity that %s and whose lease expires before it starts runs once',
  async ([, sleeper]) => {
    const { clock, jump } = jumpingClock();
    const inner = await openSqlite({ path: ':memory:', clock });
    let slept = false;
    const runs: number[] = [];
    const sleep = (): void => {
      if (!slept) jump(11_000);
      slept = true;
    };
    const perdure = await Perdure.open(overrideProvider(inner, sleeper(inner, sleep)), { clock });
    const effect = activity('effect', () => void runs.push(clock.now()));
    const once = orchestration('once', (ctx) => ctx.call(effect));
    await perdure.startWorker({
      orchestrations: [once],
      activities: [effect],
      activityLease: '10s',
      ...testOptions({
        fastPaths: sleeper === sleepers['was claimed together with its first turn'],
      }),
    });
    const handle = await perdure.client.start(once);
    await handle.result({ timeout: '30s' });
    await perdure.close();
    expect(slept).toBe(true);
    expect(runs).toHaveLength(1);
  },
);

describe.each(['SQLite', 'PostgreSQL'] as const)('expired claims (%s)', (kind) => {
  const newStore = engineStores(kind);

  test('15 claims that expire before the handler starts do not make an activity poison', async () => {
    const { clock, jump } = jumpingClock();
    const store = await newStore();
    const inner = await store.open(kind === 'SQLite' ? { clock } : {});
    let dropped = 0;
    // The process is delayed between claim and handler, each time for longer than the lease.
    const sleep = (): void => {
      if (dropped === 15) return;
      dropped += 1;
      jump(11_000);
    };
    const provider = overrideProvider(inner, {
      async fetchWorkItems(params) {
        const items = await inner.fetchWorkItems(params);
        if (items.length > 0) sleep();
        return items;
      },
    });
    const perdure = await Perdure.open(provider, { clock });
    const claims: number[] = [];
    const effect = activity('effect', (ctx) => void claims.push(ctx.attempt));
    const once = orchestration('once', (ctx) => ctx.call(effect));
    await perdure.startWorker({
      orchestrations: [once],
      activities: [effect],
      activityLease: '10s',
      maxClaims: 10,
      ...testOptions({ fastPaths: false }),
    });
    const handle = await perdure.client.start(once);
    await handle.result({ timeout: '60s' });
    await perdure.close();
    await store.remove();
    expect(dropped).toBe(15);
    expect(claims).toEqual([1]);
  });
});
