import { describe, expect, it } from 'vitest';
import { isVisited, oneInstance, sumSteps } from './audit-sums.ts';

const entry = { auditId: 'a', action: 'cancelBulk', actor: 'me', filter: '{}' } as const;

describe('sumSteps', () => {
  it('adds the counts of steps with one audit id and keeps the smallest key', () => {
    const [sum, ...others] = sumSteps([
      { entry, counts: oneInstance, progressKey: 7 },
      { entry, counts: { instances: 2, eventsDeleted: 3 }, progressKey: 5 },
      { entry, progressKey: 6 },
    ]);
    expect(others).toEqual([]);
    expect(sum).toEqual({
      ...entry,
      reason: null,
      instanceId: null,
      instances: 3,
      instancesDeleted: 0,
      executionsDeleted: 0,
      eventsDeleted: 3,
      queueMessagesDeleted: 0,
      progressKey: 5,
    });
  });

  it('returns operations in the order of their first steps and drops steps without an entry', () => {
    const other = { ...entry, auditId: 'b', reason: 'why', instanceId: 'x' };
    const sums = sumSteps([{ entry: other }, { entry: undefined, counts: oneInstance }, { entry }]);
    expect(sums.map(({ auditId }) => auditId)).toEqual(['b', 'a']);
    expect(sums[0]).toMatchObject({ reason: 'why', instanceId: 'x', progressKey: null });
  });
});

describe('isVisited', () => {
  it('is true from the smallest visited key on', () => {
    expect([4, 5, 6].map((key) => isVisited(key, 5))).toEqual([false, true, true]);
    expect(isVisited(5, null)).toBe(false);
    expect(isVisited(5, undefined)).toBe(false);
  });
});
