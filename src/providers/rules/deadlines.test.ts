import { expect, it } from 'vitest';
import { deadlineOf, startsAt } from './deadlines.ts';

it('startsAt() is the delay, the time, or now, and never in the past', () => {
  expect(startsAt({}, 1_000)).toBe(1_000);
  expect(startsAt({ delayMs: 5 }, 1_000)).toBe(1_005);
  expect(startsAt({ runAt: 3_000.2 }, 1_000)).toBe(3_001);
  expect(startsAt({ runAt: 10 }, 1_000)).toBe(1_000);
});

it('deadlineOf() counts from when the instance may start', () => {
  expect(deadlineOf(100, { delayMs: 5 }, 1_000)).toEqual({ timeoutMs: 100, dueAt: 1_105 });
});
