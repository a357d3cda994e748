import { hash } from 'node:crypto';

/**
 * Starts of deleted instances. A client repeats a start whose response was lost. If the instance of the first attempt was
 * deleted meanwhile, the repeat must not run it again.
 *
 * R1. A deletion records the start of each root that began within `repeatWindowMs`, in the same transaction.
 * R2. A start that replaces an instance records the replaced start likewise.
 * R3. A repeat whose start was recorded creates nothing. Starts that are no repeats do not read the records.
 * R4. A record names the id and the incarnation, as a hash: a deleted id must not be kept, and another start of the id is new.
 */
export interface DeletedStart {
  readonly startKey: string;
  /** From then on, no client repeats the start. */
  readonly expiresAt: number;
}

/** A start, and whether it repeats one whose outcome is unknown. */
export interface RepeatableStart {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly isRepeat?: boolean;
}

/** An instance that is about to be deleted. */
interface DeletedRow {
  readonly instanceId: string;
  readonly incarnation: string;
  /** The parent of a child. Its start is part of a turn, which no client repeats. */
  readonly parentInstanceId: string | null;
  readonly createdAt: number;
  /** When its execution began or, if it did not begin, ended: the latest time at which a start may have replaced it. */
  readonly begunAt: number | null;
}

/** How long a client may repeat a start, from when the store has committed it. Ten minutes. */
export const repeatWindowMs = 600_000;

/** The key under which a start is recorded. */
export function deletedStartKey({ instanceId, incarnation }: RepeatableStart): string {
  return hash('sha256', JSON.stringify([instanceId, incarnation]), 'base64url');
}

/** The start of an instance that another start is about to replace. */
export function replacedStarts(
  row: Omit<DeletedRow, 'createdAt' | 'begunAt'>,
  now: number,
): readonly DeletedStart[] {
  return repeatableStarts([{ ...row, createdAt: now, begunAt: null }], now);
}

/** The starts of deleted instances that a client may still repeat. */
export function repeatableStarts(
  rows: readonly DeletedRow[],
  now: number,
): readonly DeletedStart[] {
  return rows.flatMap((row) => {
    const expiresAt = Math.max(row.createdAt, row.begunAt ?? now) + repeatWindowMs;
    const isRepeatable = row.parentInstanceId === null && expiresAt > now;
    return isRepeatable ? [{ startKey: deletedStartKey(row), expiresAt }] : [];
  });
}
