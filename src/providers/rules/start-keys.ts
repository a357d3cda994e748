import type { Debounce } from '../../model/admission-options.ts';

/**
 * Keys of starts that find another run: the windows of dedupe keys, and debounced runs.
 *
 * K1. A dedupe window names the run that was created with it, from its creation until its end, whatever the run's status.
 *     It is replaced only after its end. A deleted run has none.
 * K2. A debounce key names at most one run that has not started. A run has started once a worker has claimed it.
 * K3. A start with a debounce key either replaces the start of that run or creates another run. Whether the run has started
 *     is decided under the lock that its claim takes, so no input is lost.
 * K4. A run never begins later than its first start plus the `maxWait` of the newest.
 * K5. The row of a run that has not started is never deleted by a sweep.
 */
export type StartKeyKind = 'dedupe' | 'debounce';

/** How long the key of a debounced run is kept after its time to start, so that repeated requests find it. */
const keptMs = 86_400_000;

/** The expired keys that a start with a key deletes: more than it adds, so that they do not accumulate. */
export const maxSwept = 10;

/** When a debounced run begins that was first requested at `createdAt`, in milliseconds from `now`. */
export function movedDelay(
  { delayMs = 0, debounce }: { readonly delayMs?: number; readonly debounce: Debounce },
  { createdAt, now }: { readonly createdAt: number; readonly now: number },
): number {
  const { maxWaitMs = Infinity } = debounce;
  return Math.ceil(Math.max(0, Math.min(delayMs, createdAt + maxWaitMs - now)));
}

/** When the key of a debounced run may be swept that begins at `startsAt`. */
export function debounceExpiry(startsAt: number): number {
  return startsAt + keptMs;
}

/** When the window of a dedupe key ends. */
export function windowEnd(createdAt: number, dedupeMs: number): number {
  return createdAt + Math.ceil(dedupeMs);
}
