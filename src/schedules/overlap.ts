import type { WhileRunning } from '../providers/contract/schedules.ts';

/**
 * Policy for a tick while an earlier run of the schedule has not ended. `'allow'` starts its run, and `'skip'` drops the tick.
 * `'buffer'` starts its run when the earlier one has ended. `'cancelRunning'` also cancels the earlier one.
 */
export type Overlap = 'allow' | 'skip' | 'buffer' | 'cancelRunning';

/** Maximum ticks that a schedule can buffer. */
export const maxBufferLimit = 100;

/** The policy of a schedule. */
export interface OverlapPolicy {
  readonly overlap: Overlap;
  /** Maximum buffered ticks. Only `'buffer'` has more than one. */
  readonly bufferLimit: number;
}

/** What a pass does with the ticks of a schedule. */
export interface OverlapPlan {
  /** The ticks whose runs start, if no run is live or overlap is allowed. */
  readonly starts: readonly number[];
  readonly bufferedTicks: readonly number[];
  readonly skipped: number;
  /** What happens instead if a run is live. Absent: runs may overlap. */
  readonly whileRunning?: WhileRunning;
}

// As for a cancel by a client.
const cleanupMs = 300_000;

/**
 * Plans due ticks together with the buffered ones. Both outcomes are computed here; the store decides between them in the
 * transaction of the tick, where it knows whether a run is live.
 */
export function planOverlap(
  { overlap, bufferLimit }: OverlapPolicy,
  buffered: readonly number[],
  due: readonly number[],
): OverlapPlan {
  const ticks = [...new Set([...buffered, ...due])].sort((a, b) => a - b);
  const none = { bufferedTicks: [], skipped: 0 };
  switch (overlap) {
    case 'allow':
      return { starts: ticks, ...none };
    case 'skip':
      return {
        starts: ticks.slice(0, 1),
        bufferedTicks: [],
        skipped: Math.max(0, ticks.length - 1),
        whileRunning: { bufferedTicks: [], skipped: ticks.length },
      };
    case 'buffer': {
      const [first, ...rest] = ticks;
      return {
        starts: first === undefined ? [] : [first],
        ...keepEarliest(rest, bufferLimit),
        whileRunning: keepEarliest(ticks, bufferLimit),
      };
    }
    case 'cancelRunning': {
      const newest = ticks.slice(-1);
      const skipped = ticks.length - newest.length;
      // Buffered ticks have already requested the cancel.
      const cancel = due.length > 0 && {
        cancel: { reason: 'canceled by the next tick of its schedule', cleanupMs },
      };
      return {
        starts: newest,
        bufferedTicks: [],
        skipped,
        whileRunning: { bufferedTicks: newest, skipped, ...cancel },
      };
    }
  }
}

function keepEarliest(ticks: readonly number[], limit: number) {
  const bufferedTicks = ticks.slice(0, limit);
  return { bufferedTicks, skipped: ticks.length - bufferedTicks.length };
}
