import type { Turn, TurnOutcome } from '../../contract/turn.ts';

/** A turn that concerns nobody but its instance, and of that only its history, its activities and its end. */
export interface PlainTurn extends Turn {
  readonly outcome: Extract<TurnOutcome, { status: 'running' | 'completed' | 'failed' }>;
}

/** Says whether a turn is plain. */
export function isPlain(turn: Turn): turn is PlainTurn {
  const { outcome } = turn;
  return (
    (outcome.status === 'running' ||
      outcome.status === 'completed' ||
      outcome.status === 'failed') &&
    turn.events.length > 0 &&
    turn.timers.length === 0 &&
    turn.timerWithdrawals.length === 0 &&
    turn.children.length === 0 &&
    turn.childCancels.length === 0 &&
    turn.messages.length === 0 &&
    turn.activityCancels.length === 0 &&
    turn.customStatus === undefined &&
    turn.bufferedEvents === undefined
  );
}
