import type { NewTimer } from '../contract/turn.ts';

/** When the message of a new timer becomes visible, for a turn that commits at `now` by the store's clock. */
export function timerDueAt({ fireAt, delayMs }: NewTimer, now: number): number {
  return Math.ceil(delayMs === undefined ? fireAt : now + delayMs);
}
