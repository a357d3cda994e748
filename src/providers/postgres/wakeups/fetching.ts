import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../../model/clock.ts';
import type { Topic } from '../../shared/effects.ts';
import type { Wanted } from './due-query.ts';
import type { Rest } from './wake-ups.ts';

/** What is due, as a look found it. */
interface Due {
  readonly now: number;
  readonly nextAt: number;
}

/** A fetch that claims what is due, or waits for it. */
export interface Fetch<T> {
  readonly operation: string;
  readonly topic: Topic;
  readonly max: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly wanted: Wanted;
  readonly claim: () => Promise<readonly T[]>;
  /** A shorter way to claim, for while there is plenty; it may find nothing though something is due. */
  readonly claimPlainly?: () => Promise<readonly T[]>;
}

/** What a fetch needs of its store. */
export interface FetchSource {
  /** By whose monotonic time waits are timed. */
  readonly clock: Clock;
  readonly isClosing: boolean;
  readonly look: (fetch: Fetch<unknown>) => Promise<Due>;
  readonly wait: (options: {
    readonly fetch: Fetch<unknown>;
    readonly waitMs: number;
    /** When the wait ends by the store's clock: nothing that is due later ends it. */
    readonly until: number;
    readonly seen: number;
    readonly signal: AbortSignal;
  }) => Promise<void>;
  /** Whether the fetch before this one, for the same, found something. */
  readonly isBusy: (fetch: Fetch<unknown>) => boolean;
  readonly setBusy: (fetch: Fetch<unknown>, isBusy: boolean) => void;
  readonly changes: (topic: Topic) => number;
  /** What the fetch before this one left, if this one goes on with its wait. */
  readonly resume: (fetch: Fetch<unknown>) => Rest | undefined;
  readonly rest: (fetch: Fetch<unknown>, rest: Rest) => void;
}

// How long to leave alone what others were just claiming.
const contestedMs = 5;

/** Looks, claims when something is due, and otherwise waits for it; a fetch that does not wait answers at once. */
export async function fetchDue<T>(source: FetchSource, fetch: Fetch<T>): Promise<readonly T[]> {
  const { topic, waitMs, signal } = fetch;
  const { clock } = source;
  const deadline = clock.monotonic() + waitMs;
  const ending = new AbortController();
  const end = (): void => ending.abort();
  const cancelAlarm = waitMs > 0 ? clock.setTimer(waitMs, end) : (): void => undefined;
  signal?.addEventListener('abort', end);
  const isOver = (): boolean => signal?.aborted === true || source.isClosing;
  let known = waitMs > 0 ? source.resume(fetch) : undefined;
  try {
    // Where there was something, there is likely more: no look is needed for that.
    if (fetch.claimPlainly !== undefined && source.isBusy(fetch) && !isOver()) {
      const claimed = await fetch.claimPlainly();
      if (claimed.length > 0) return claimed;
      source.setBusy(fetch, false);
    }
    while (!isOver()) {
      // An idle worker never writes. What changes from here on ends the wait at once.
      const seen = known?.changes ?? source.changes(topic);
      const { nextAt, isDue, aheadMs } =
        known === undefined ? await lookNow(source, fetch) : { ...known, isDue: false };
      known = undefined;
      if (isOver()) return [];
      const isLast = clock.monotonic() >= deadline;
      if (isDue) {
        const claimed = await fetch.claim();
        if (claimed.length > 0) source.setBusy(fetch, true);
        if (claimed.length > 0 || isLast) return claimed;
        await delay(contestedMs);
      } else if (isLast) return [];
      else {
        const dueAt = nextAt - aheadMs;
        const until = Math.min(deadline, dueAt);
        await source.wait({
          fetch,
          waitMs: Math.max(0, until - clock.monotonic()),
          until: until + aheadMs,
          seen,
          signal: ending.signal,
        });
        // No notification arrived while polling was active: that is as good as another look.
        if (dueAt > deadline && clock.monotonic() >= deadline && seen === source.changes(topic)) {
          source.rest(fetch, { topic, changes: seen, nextAt, aheadMs });
          return [];
        }
      }
    }
    return [];
  } catch (error) {
    // A store that closes takes the connection from under a look; the fetch has ended either way.
    if (source.isClosing) return [];
    throw error;
  } finally {
    cancelAlarm();
    signal?.removeEventListener('abort', end);
  }
}

/** Looks, and learns how far the store's clock is ahead of our monotonic clock: waits are durations by the latter. */
async function lookNow(
  { clock, look }: FetchSource,
  fetch: Fetch<unknown>,
): Promise<{ readonly nextAt: number; readonly aheadMs: number; readonly isDue: boolean }> {
  // Before the look: a wait may then end a moment early, and looks once more, but never late.
  const sentAt = clock.monotonic();
  const { now, nextAt } = await look(fetch);
  return { nextAt, aheadMs: now - sentAt, isDue: nextAt <= now };
}
