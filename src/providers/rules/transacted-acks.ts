import type { CommitResult } from '../contract/turn.ts';

/** The result of several acks in one transaction, which commits only if none of them is refused. */
export function allOrNone(items: readonly CommitResult[]): CommitResult {
  const refused = items.find(({ ok }) => !ok);
  return refused === undefined ? { ok: true, claimed: [], items } : { ...refused, items };
}
