import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../../model/clock.ts';
import type { Effects, Topic } from '../../shared/effects.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { DueTimes, Wanted } from './due-query.ts';
import type { IdleSnapshot, WakeUps } from './wake-ups.ts';

/** How queues claim work. */
export interface QueueAccess extends StoreAccess {
  /** Claims due work, or waits for it. */
  fetch<T>(fetch: Fetch<T>): Promise<readonly T[]>;
  /** Claims in one transaction. Not batched: each claimer has its own tokens. */
  claim<T>(operation: string, work: (scope: Scope) => Promise<readonly T[]>): Promise<readonly T[]>;
  /** Publishes a claim that was one statement: the clock that it read and the end of its leases. */
  claimed(claim: {
    readonly now: number;
    readonly sentAt: number;
    readonly effects: Effects;
  }): void;
  /** The monotonic clock, for `sentAt`. */
  monotonic(): number;
}

/** A fetch that claims due work, or waits for it. */
export interface Fetch<T> {
  readonly operation: string;
  readonly topic: Topic;
  readonly max: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly wanted: Wanted;
  readonly claim: (due: DueTimes) => Promise<readonly T[]>;
  /** A cheaper claim, tried first after a fetch that found work. It may return nothing although work is due. */
  readonly claimInOneStatement?: () => Promise<readonly T[]>;
}

/** The store parts that fetches use. */
interface FetchParts {
  /** Waits are timed by its monotonic time. */
  readonly clock: Clock;
  readonly wakeUps: WakeUps;
  readonly isClosing: () => boolean;
  readonly dueTimes: (operation: string, wanted: Wanted) => Promise<DueTimes>;
}

// Delay before the next query after other workers claimed everything that was due.
const contestedMs = 5;

/** Fetches due work. An idle fetch reads and waits, but never writes. */
export class Fetching {
  readonly #parts: FetchParts;
  /** Keys of fetches whose last claim found work. */
  readonly #busy = new Set<string>();
  readonly #waiting = new Set<Fetch<unknown>>();

  constructor(parts: FetchParts) {
    this.#parts = parts;
  }

  /** The definitions that the waiting fetches can claim. */
  get waitingFor(): Wanted {
    const all = Array.from(this.#waiting, ({ wanted }) => wanted);
    return {
      runnable: union(all.map(({ runnable }) => runnable)),
      buildId: all.find(({ buildId }) => buildId !== undefined)?.buildId,
      names: union(all.map(({ names }) => names)),
      tasks: union(all.map(({ tasks }) => tasks)),
    };
  }

  /** Claims due work, or waits up to `waitMs` for it. Returns nothing after an abort or when the store closes. */
  async fetch<T>(fetch: Fetch<T>): Promise<readonly T[]> {
    const { clock, isClosing } = this.#parts;
    const { waitMs, signal } = fetch;
    const ending = new AbortController();
    const end = (): void => ending.abort();
    const cancelTimer = waitMs > 0 ? clock.setTimer(waitMs, end) : (): void => undefined;
    signal?.addEventListener('abort', end);
    const call: Call<T> = {
      fetch,
      key: JSON.stringify([fetch.topic, fetch.wanted]),
      deadline: clock.monotonic() + waitMs,
      ending: ending.signal,
      isOver: () => signal?.aborted === true || isClosing(),
    };
    try {
      return await this.#run(call);
    } catch (error) {
      // A closing store ends the connection during the query. The fetch has ended either way.
      if (isClosing()) return [];
      throw error;
    } finally {
      cancelTimer();
      signal?.removeEventListener('abort', end);
    }
  }

  async #run<T>(call: Call<T>): Promise<readonly T[]> {
    const { fetch, key, deadline, isOver } = call;
    let idle = fetch.waitMs > 0 ? this.#parts.wakeUps.restoreIdle(key) : undefined;
    const claimed = await this.#claimWhileBusy(call);
    if (claimed.length > 0) return claimed;
    while (!isOver()) {
      const due = idle === undefined ? await this.#queryDue(fetch) : { ...idle, isDue: false };
      idle = undefined;
      if (isOver()) return [];
      const isLast = this.#parts.clock.monotonic() >= deadline;
      if ('times' in due && due.isDue) {
        const found = await fetch.claim(due.times);
        if (found.length > 0) this.#busy.add(key);
        if (found.length > 0 || isLast) return found;
        await delay(contestedMs);
      } else if (isLast || (await this.#waitUntilDue(call, due))) return [];
    }
    return [];
  }

  /** After a fetch that found work there is likely more: claims without a query before it. */
  async #claimWhileBusy<T>({ fetch, key, isOver }: Call<T>): Promise<readonly T[]> {
    if (fetch.claimInOneStatement === undefined || !this.#busy.has(key) || isOver()) return [];
    const claimed = await fetch.claimInOneStatement();
    if (claimed.length === 0) this.#busy.delete(key);
    return claimed;
  }

  async #queryDue({ topic, operation, wanted }: Fetch<unknown>) {
    const { clock, wakeUps, dueTimes } = this.#parts;
    // Before the query: a later change ends the wait, and the wait may end early but never late.
    const changes = wakeUps.changes(topic);
    const sentAt = clock.monotonic();
    const times = await dueTimes(operation, wanted);
    const { now, nextAt } = times;
    return {
      topic,
      changes,
      nextAt: nextAt[topic],
      aheadMs: now - sentAt,
      isDue: nextAt[topic] <= now,
      times,
    };
  }

  /** Waits for a change, a due time or the deadline. Returns whether the deadline passed without a change. */
  async #waitUntilDue(call: Call<unknown>, idle: IdleSnapshot): Promise<boolean> {
    const { clock, wakeUps } = this.#parts;
    const { fetch, key, deadline, ending: signal } = call;
    const { topic, changes, nextAt, aheadMs } = idle;
    const dueAt = nextAt - aheadMs;
    const until = Math.min(deadline, dueAt);
    const waitMs = Math.max(0, until - clock.monotonic());
    this.#waiting.add(fetch);
    await wakeUps.wait({ topic, waitMs, until: until + aheadMs, seen: changes, signal });
    this.#waiting.delete(fetch);
    // No notification arrived while polling was active, so the next fetch can skip its query.
    const isIdle =
      dueAt > deadline && clock.monotonic() >= deadline && changes === wakeUps.changes(topic);
    if (isIdle) wakeUps.saveIdle(key, { topic, changes, nextAt, aheadMs });
    return isIdle;
  }
}

/** One call of `fetch`. */
interface Call<T> {
  readonly fetch: Fetch<T>;
  /** Equal for fetches that wait for the same work. */
  readonly key: string;
  /** Monotonic time. */
  readonly deadline: number;
  readonly ending: AbortSignal;
  readonly isOver: () => boolean;
}

/** All entries of the lists; `undefined`, which means all, if one of the lists is. */
function union<T>(lists: readonly (readonly T[] | undefined)[]): readonly T[] | undefined {
  return lists.includes(undefined) ? undefined : lists.flatMap((list) => list ?? []);
}
