import type { DebounceState, TurnState } from '../contract/inspection.ts';
import type { SessionState } from '../contract/sessions.ts';

/** The turn state of an instance as a store reads it. Flags are booleans, or 0 and 1. */
export interface TurnStateRow {
  readonly historyLength: number;
  readonly isClosing: boolean | 0 | 1;
  readonly nextAt: number | null;
  readonly heldUntil: number | null;
  readonly waitingKey: string | null;
  readonly cleanupAt: number | null;
  readonly claims: number | null;
  readonly lockedUntil: number | null;
  readonly claimedBy: string | null;
  readonly claimedAt: number | null;
  /** The columns of a debounced run are set until it starts. */
  readonly debounceKey: string | null;
  readonly moves: number | null;
  readonly runAt: number | null;
  readonly sessionId: string | null;
  readonly sessionState: SessionState | null;
  readonly sessionExpiresAt: number | null;
  readonly abandonedAt: number | null;
}

/** Converts the row of an instance, by the store's clock. */
export function toTurnState(row: TurnStateRow, nowMs: number): TurnState {
  const { lockedUntil, claimedBy: worker, claimedAt, heldUntil } = row;
  const { sessionId, sessionState, sessionExpiresAt, abandonedAt } = row;
  const isHeld = lockedUntil !== null && lockedUntil > nowMs;
  return {
    nowMs,
    historyLength: row.historyLength,
    isClosing: row.isClosing === true || row.isClosing === 1,
    dueAt: row.nextAt,
    heldUntil: heldUntil !== null && heldUntil > nowMs ? heldUntil : null,
    waitingKey: row.waitingKey,
    cleanupAt: row.cleanupAt,
    claims: row.claims ?? 0,
    held: isHeld ? { worker, claimedAt, lockedUntil } : null,
    expired: lockedUntil === null || isHeld ? null : { worker, at: lockedUntil },
    debounce: toDebounce(row),
    job:
      sessionId === null || sessionState === null || sessionExpiresAt === null
        ? null
        : { sessionId, sessionState, expiresAt: sessionExpiresAt, abandonedAt },
  };
}

function toDebounce({ debounceKey, moves, runAt }: TurnStateRow): DebounceState | null {
  if (debounceKey === null || moves === null || runAt === null) return null;
  return { key: debounceKey, startsAt: runAt, moves };
}
