import assert from 'node:assert/strict';
import { isPerdureError } from '../../model/failures/errors.ts';
import type { ClaimedAtInsert, CommitResult } from '../../providers/contract/turn.ts';

/** Expects exactly one element. */
export function only<Item>(items: readonly Item[], what: string): Item {
  assert.equal(items.length, 1, `expected exactly one ${what}, got ${items.length}`);
  return items[0] as Item;
}

export function expectCommitted(result: CommitResult): readonly ClaimedAtInsert[] {
  if (!result.ok) assert.fail(`expected a commit, got: ${result.error.message}`);
  return result.claimed;
}

export function expectLockLost(result: CommitResult): void {
  assert.equal(result.ok, false, 'expected LOCK_LOST, but it was committed');
  assert.ok(isPerdureError(result.error, 'LOCK_LOST'), `expected LOCK_LOST: ${result.error.stack}`);
}

/** Expects an error other than `LOCK_LOST`. */
export function expectRefused(result: CommitResult): void {
  assert.equal(result.ok, false, 'expected an error, but it was committed');
  assert.ok(!isPerdureError(result.error, 'LOCK_LOST'), 'expected an error other than LOCK_LOST');
}

/** Expects the same elements in any order. */
export function expectInAnyOrder(actual: readonly unknown[], expected: readonly unknown[]): void {
  assert.deepEqual(inOrder(actual), inOrder(expected));
}

function inOrder(values: readonly unknown[]): readonly unknown[] {
  const texts = new Map(values.map((value) => [value, JSON.stringify(value)]));
  const text = (value: unknown) => texts.get(value) ?? '';
  return values.toSorted((a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0));
}
