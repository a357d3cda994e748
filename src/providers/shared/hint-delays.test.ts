import { expect, it } from 'vitest';
import { HintDelays, sinceWhen } from './hint-delays.ts';

it('each miss doubles the delay from 4 to 32 ms, and a fetch that finds work resets it', () => {
  const delays = new HintDelays({ isEnabled: true });
  const seen = Array.from({ length: 6 }, () => {
    const delayMs = delays.get('work');
    delays.missed('work');
    return delayMs;
  });
  expect(seen).toEqual([0, 4, 8, 16, 32, 32]);
  expect(delays.get('other')).toBe(0);
  delays.found('work');
  expect(delays.get('work')).toBe(0);
});

it('disabled delays stay 0 after a miss', () => {
  const delays = new HintDelays({ isEnabled: false });
  delays.missed('work');
  expect(delays.get('work')).toBe(0);
});

it('work that is always due now counts from the first query', () => {
  const first = sinceWhen({ nextAt: 10, now: 10, before: Infinity });
  expect(first).toBe(10);
  expect(sinceWhen({ nextAt: 14, now: 14, before: first })).toBe(10);
  expect(sinceWhen({ nextAt: 12, now: 14, before: first })).toBe(12);
  expect(sinceWhen({ nextAt: 15, now: 14, before: first })).toBe(Infinity);
});
