import { afterEach, expect, it } from 'vitest';
import { silentLogger } from '../../model/logger.ts';
import type { AppliedTimeouts, ApplyTimeouts } from '../../providers/contract/cancellation.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import { TimeoutApplier } from './timeout-applier.ts';

const appliers: TimeoutApplier[] = [];
afterEach(async () => {
  for (const applier of appliers.splice(0)) await applier.stop();
});

/** An applier on a store whose results come from `next`. Returns the times of its calls. */
function start(next: (nowMs: number) => Omit<AppliedTimeouts, 'nowMs'>) {
  const clock = new FakeClock({ startAt: 0 });
  const calls: number[] = [];
  const store = {
    applyTimeouts({ cleanupMs }: ApplyTimeouts): Promise<AppliedTimeouts> {
      expect(cleanupMs).toBe(7);
      const nowMs = clock.now();
      calls.push(nowMs);
      return Promise.resolve({ ...next(nowMs), nowMs });
    },
  };
  const applier = new TimeoutApplier({
    store,
    clock,
    logger: silentLogger,
    cleanupMs: 7,
    idleMs: 20_000,
  });
  appliers.push(applier);
  applier.start();
  return { applier, clock, calls };
}

it('sleeps until the next timeout passes, at most its idle time', async () => {
  const { clock, calls } = start((now) => ({ canceled: 0, nextAt: now < 5_000 ? 5_000 : null }));
  await clock.advance(30_000);
  expect(calls).toEqual([0, 5_000, 25_000]);
});

it('applies again immediately while timeouts are due', async () => {
  let left = 2;
  const { clock, calls } = start(() => ({ canceled: left-- > 0 ? 500 : 0, nextAt: null }));
  await clock.advance(100);
  expect(calls).toEqual([0, 0, 0]);
});

it('a commit causes a query, at most once a second', async () => {
  const { applier, clock, calls } = start(() => ({ canceled: 0, nextAt: null }));
  await clock.advance(100);
  for (let commits = 0; commits < 5; commits += 1) applier.committed();
  await clock.advance(2_000);
  expect(calls).toEqual([0, 1_000]);
  applier.committed();
  await clock.advance(1);
  expect(calls).toEqual([0, 1_000, 2_100]);
});
