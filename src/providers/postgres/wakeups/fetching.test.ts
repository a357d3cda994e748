import { expect, it } from 'vitest';
import { systemClock } from '../../../model/clock.ts';
import type { DueTimes } from './due-query.ts';
import { Fetching } from './fetching.ts';
import type { WakeUps } from './wake-ups.ts';

/** Fetches of tasks. Work is always due. */
function openFetching() {
  const wakeUps: Pick<WakeUps, 'changes' | 'restoreIdle' | 'saveIdle'> = {
    changes: () => ({ all: 0, foreign: 0, later: 0 }),
    restoreIdle: () => undefined,
    saveIdle: () => undefined,
  };
  const due: DueTimes = {
    now: 2,
    nextAt: { orchestrations: Infinity, work: 1 },
    nextScheduleAt: Infinity,
    nextSessionAt: Infinity,
    flagged: [],
    limited: [],
    nextPlainAt: 1,
  };
  const fetching = new Fetching({
    clock: systemClock,
    isClockReal: true,
    wakeUps: wakeUps as WakeUps,
    isClosing: () => false,
    dueTimes: () => Promise.resolve(due),
  });
  const claims: string[] = [];
  const fetch = (tasks: readonly string[], waitMs: number) =>
    fetching.fetch({
      operation: 'fetchWorkItems',
      topic: 'work',
      max: 1,
      waitMs,
      wanted: { runnable: [], buildId: undefined, names: [], tasks },
      claim: () => Promise.resolve([claims.push('general')]),
      claimInOneStatement: () => Promise.resolve([claims.push('statement')]),
    });
  return { fetching, fetch, claims };
}

it('fetches without a wait keep a bounded number of keys, however many lists of tasks they have', async () => {
  const { fetching, fetch } = openFetching();
  for (let n = 0; n < 2_000; n += 1) await fetch([`task ${n}`], 0);
  expect(fetching.keyCount).toBeLessThanOrEqual(100);
  await fetch(['awaited'], 60_000);
  const named = { version: null };
  expect(fetching.wants('work', { name: 'awaited', ...named })).toBe(true);
  expect(fetching.wants('work', { name: 'task 1', ...named })).toBe(false);
});

it('a fetch that found work claims in one statement next time', async () => {
  const { fetch, claims } = openFetching();
  for (let n = 0; n < 3; n += 1) await fetch(['a'], 0);
  expect(claims).toEqual(['general', 'statement', 'statement']);
});
