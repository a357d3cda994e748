import assert from 'node:assert/strict';
import { isPerdureError } from '../../model/failures/errors.ts';
import type { ClaimedAtInsert, CommitResult } from '../../providers/contract/turn.ts';

/** Expects exactly one element. */
export function only<Item>(items: readonly Item[], what: string): Item {
  assert.equal(items.length, 1, `exactly one ${what} expected, not ${items.length}`);
  return items[0] as Item;
}

export function expectCommitted(result: CommitResult): readonly ClaimedAtInsert[] {
  if (!result.ok) assert.fail(`should be committed, but: ${result.error.message}`);
  return result.claimed;
}

export function expectLockLost(result: CommitResult): void {
  assert.equal(result.ok, false, 'should be refused with LOCK_LOST, but was committed');
  assert.ok(isPerdureError(result.error, 'LOCK_LOST'), `LOCK_LOST expected: ${result.error.stack}`);
}

/** Expects a refusal for another reason than the lock. */
export function expectRefused(result: CommitResult): void {
  assert.equal(result.ok, false, 'should be refused, but was committed');
  assert.ok(!isPerdureError(result.error, 'LOCK_LOST'), 'refused for the lock, not for the item');
}

/** Expects the same elements, in whatever order the store has them. */
export function expectInAnyOrder(actual: readonly unknown[], expected: readonly unknown[]): void {
  assert.deepEqual(inOrder(actual), inOrder(expected));
}

function inOrder(values: readonly unknown[]): readonly unknown[] {
  const texts = new Map(values.map((value) => [value, JSON.stringify(value)]));
  const text = (value: unknown) => texts.get(value) ?? '';
  return values.toSorted((a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0));
}
