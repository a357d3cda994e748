import { describe, expect, it } from 'vitest';
import { chooseDue, isClaimed, isHeldBy, planHandBack, planHoldBack } from './claims.ts';

describe('isClaimed', () => {
  it.each([
    ['a lease that lasts', { lockToken: 'a', lockedUntil: 11 }, true],
    ['a lease that ends now', { lockToken: 'a', lockedUntil: 10 }, false],
    ['no token', { lockToken: null, lockedUntil: 11 }, false],
    ['no lease', { lockToken: 'a', lockedUntil: null }, false],
  ])('%s', (_, lock, expected) => {
    expect(isClaimed(lock, 10)).toBe(expected);
  });

  it('requires the secret of the claim where a token is checked', () => {
    const lock = { lockToken: 'a', lockedUntil: 11 };
    expect(isHeldBy(lock, 'a', 10)).toBe(true);
    expect(isHeldBy(lock, 'b', 10)).toBe(false);
    expect(isHeldBy(lock, 'a', 11)).toBe(false);
    expect(isHeldBy(undefined, 'a', 10)).toBe(false);
  });

  it('accepts an expired lease of the same token with evenIfExpired', () => {
    const lock = { lockToken: 'a', lockedUntil: 5 };
    expect(isHeldBy(lock, 'a', 10, { evenIfExpired: true })).toBe(true);
    expect(isHeldBy(lock, 'a', 10, { evenIfExpired: undefined })).toBe(false);
    expect(isHeldBy(lock, 'b', 10, { evenIfExpired: true })).toBe(false);
    expect(isHeldBy(undefined, 'a', 10, { evenIfExpired: true })).toBe(false);
  });
});

describe('planHandBack', () => {
  const item = { claims: 3, cancelRequested: 0 } as const;
  const abandon = { lockToken: '1.a', delayMs: 4.2, giveBackClaim: false };

  it('keeps the claims of an abandoned item, or gives one back', () => {
    const requeue = {
      kind: 'requeue',
      nextAt: 105,
      failure: undefined,
      maxAttempts: null,
      unstarted: false,
    };
    expect(planHandBack(item, abandon, 100)).toEqual({ ...requeue, claims: 3 });
    const back = { ...abandon, giveBackClaim: true, unstarted: true };
    expect(planHandBack(item, back, 100)).toEqual({ ...requeue, claims: 2, unstarted: true });
    expect(planHandBack({ ...item, claims: 0 }, back, 100)).toMatchObject({ claims: 0 });
  });

  it('resets the claims of a retried item and records its failure', () => {
    expect(planHandBack(item, { lockToken: '1.a', delayMs: 0, failure: '{}' }, 100)).toEqual({
      kind: 'requeue',
      nextAt: 100,
      claims: 0,
      failure: '{}',
      maxAttempts: null,
      unstarted: false,
    });
  });

  it.each([true, 1] as const)('cancels an item whose cancelRequested is %j', (cancelRequested) => {
    expect(planHandBack({ claims: 3, cancelRequested }, abandon, 100)).toEqual({ kind: 'cancel' });
  });
});

describe('planHoldBack', () => {
  it('holds an instance back for its delay', () => {
    expect(planHoldBack({ delayMs: 0 }, 100)).toEqual({ heldUntil: null, dueAt: 100 });
    expect(planHoldBack({ delayMs: 5 }, 100)).toEqual({ heldUntil: 105, dueAt: 105 });
    expect(planHoldBack({ delayMs: 4.2 }, 100)).toEqual({ heldUntil: 105, dueAt: 105 });
  });

  it('offers a blocked instance to other builds immediately', () => {
    const blocked = { reason: 'nondeterminism', buildId: 'b1' };
    expect(planHoldBack({ delayMs: 5, blocked }, 100)).toEqual({ heldUntil: 105, dueAt: 100 });
  });
});

const due = (key: number, nextAt: number) => ({ key, nextAt });

function choose(max: number, trusted: ReturnType<typeof due>[], suspects: typeof trusted = []) {
  return chooseDue({ max, trusted, suspects, keyOf: ({ key }) => key }).map(({ key }) => key);
}

describe('chooseDue', () => {
  it('returns the longest due first, up to the maximum, each once', () => {
    expect(choose(3, [due(1, 30), due(2, 10), due(3, 20), due(4, 40), due(2, 10)])).toEqual([
      2, 3, 1,
    ]);
    expect(choose(0, [due(1, 30)])).toEqual([]);
  });

  it('returns a suspect alone, and only when nothing else is due', () => {
    expect(choose(5, [due(1, 30)], [due(2, 10)])).toEqual([1]);
    expect(choose(5, [], [due(3, 20), due(2, 10)])).toEqual([2]);
  });

  it('returns a suspect that has waited 5 minutes longer than the backlog', () => {
    expect(choose(5, [due(1, 300_010)], [due(2, 10)])).toEqual([1]);
    expect(choose(5, [due(1, 300_011)], [due(2, 10)])).toEqual([2]);
  });
});
