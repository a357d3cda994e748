import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../../model/clock.ts';
import type { Topic } from '../../shared/effects.ts';
import { HintDelays, sinceWhen } from '../../shared/hint-delays.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { DueTimes, Wanted } from './due-query.ts';
import type { ChangeCounts, IdleSnapshot, WakeCause, WakeUps } from './wake-ups.ts';

/** How queues claim work. */
export interface QueueAccess extends StoreAccess {
  /** Claims due work, or waits for it. */
  fetch<T>(fetch: Fetch<T>): Promise<readonly T[]>;
  /** Claims in one transaction. Not batched: each claimer has its own tokens. */
  claim<T>(operation: string, work: (scope: Scope) => Promise<readonly T[]>): Promise<readonly T[]>;
  /** Publishes a claim that was one statement: the clock that it read and the end of its leases. */
  claimed(claim: {
    readonly topic: Topic;
    readonly now: number;
    readonly sentAt: number;
    readonly leaseEnd: number;
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
  /**
   * A cheaper claim, tried first after a fetch that found work and after a hint. It may return nothing although work is
   * due.
   */
  readonly claimInOneStatement?: () => Promise<readonly T[]>;
  /** Query at least this often what is due, for work that the cheaper claim leaves out. Default: never. */
  readonly generalEveryMs?: number;
}

/** The store parts that fetches use. */
interface FetchParts {
  /** Waits are timed by its monotonic time. */
  readonly clock: Clock;
  /** Whether the clock is that of the database, and not one of a test. */
  readonly isClockReal: boolean;
  readonly wakeUps: WakeUps;
  readonly isClosing: () => boolean;
  readonly dueTimes: (operation: string, wanted: Wanted) => Promise<DueTimes>;
}

// Delay before the next query after other workers claimed everything that was due.
const contestedMs = 5;
// Fetches without a wait name the tasks that may start more runs now, so they have many keys.
const maxBusy = 100;

/**
 * Fetches due work. An idle fetch reads and waits, but never writes.
 *
 * F1. A hint names work that is due now, so a fetch claims without a query.
 * F2. Hints reach all processes. A fetch that finds nothing after a hint of another process delays the next ones; see
 *     `HintDelays`.
 * F3. A claim that is not full has taken all that was due. The next fetch waits for a hint without a query.
 */
export class Fetching {
  readonly #parts: FetchParts;
  /** Keys of fetches whose last claim found work, at most `maxBusy`. */
  readonly #busy = new Set<string>();
  readonly #waiting = new Set<Fetch<unknown>>();
  readonly #delays: HintDelays;
  /** What fetches that waited have asked for, by key. */
  readonly #wanted = new Map<string, Pick<Fetch<unknown>, 'topic' | 'wanted'>>();
  /** The last due queries of fetches with `generalEveryMs`, by key. */
  readonly #queried = new Map<
    string,
    { readonly idle: IdleSnapshot; readonly queriedAt: number }
  >();

  constructor(parts: FetchParts) {
    this.#parts = parts;
    this.#delays = new HintDelays({ isEnabled: parts.isClockReal });
  }

  /** The number of keys that are kept. */
  get keyCount(): number {
    return this.#busy.size + this.#wanted.size + this.#queried.size;
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

  /** Whether a fetch of this process that waits can claim work of this definition. */
  wants(topic: Topic, { name, version }: NamedDefinition): boolean {
    for (const one of this.#wanted.values()) {
      if (one.topic !== topic) continue;
      const { runnable, names, tasks } = one.wanted;
      const isWanted =
        topic === 'orchestrations'
          ? (runnable?.some(
              (each) => each.name === name && (each.version ?? '') === (version ?? ''),
            ) ?? true)
          : (names?.includes(name) ?? true) || (tasks?.includes(name) ?? true);
      if (isWanted) return true;
    }
    return false;
  }

  /** Claims due work, or waits up to `waitMs` for it. Returns nothing after an abort or when the store closes. */
  async fetch<T>(fetch: Fetch<T>): Promise<readonly T[]> {
    const { clock, isClosing } = this.#parts;
    const { waitMs, signal } = fetch;
    const ending = new AbortController();
    const end = (): void => ending.abort();
    const cancelTimer = waitMs > 0 ? clock.setTimer(waitMs, end) : (): void => undefined;
    signal?.addEventListener('abort', end);
    const key = JSON.stringify([fetch.topic, fetch.wanted]);
    if (waitMs > 0 && !this.#wanted.has(key)) {
      this.#wanted.set(key, { topic: fetch.topic, wanted: fetch.wanted });
    }
    const call: Call<T> = {
      fetch,
      key,
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
    if (idle === undefined && this.#busy.has(key)) {
      const claimed = await this.#claimInOneStatement(call);
      if (claimed.length > 0) return claimed;
      this.#busy.delete(key);
    }
    let cause: WakeCause = 'none';
    let dueSince = Infinity;
    while (!isOver()) {
      const due: Due = idle ?? (await this.#queryDue(call));
      idle = undefined;
      if (isOver()) return [];
      const isLast = this.#parts.clock.monotonic() >= deadline;
      const delayMs = isLast || cause === 'own' ? 0 : this.#delays.get(key);
      const { times, nextAt } = due;
      if (times !== undefined) dueSince = sinceWhen({ nextAt, now: times.now, before: dueSince });
      if (times !== undefined && dueSince + delayMs <= times.now) {
        const found = await fetch.claim(times);
        if (found.length > 0) this.#found(key);
        if (found.length > 0 || isLast) return found;
        await delay(contestedMs);
        continue;
      }
      if (isLast) return [];
      if (cause === 'foreign') this.#delays.missed(key);
      const dueAt = Math.min(nextAt, dueSince) + delayMs;
      const ended = await this.#waitUntilDue(call, { ...due, nextAt: dueAt });
      if (ended === 'idle') return [];
      cause = ended;
      if (cause === 'none' || (cause === 'foreign' && this.#delays.get(key) > 0)) continue;
      const claimed = await this.#claimInOneStatement(call);
      if (claimed.length > 0) return claimed;
    }
    return [];
  }

  #found(key: string): void {
    this.#busy.add(key);
    const [oldest = key] = this.#busy;
    if (this.#busy.size > maxBusy) this.#busy.delete(oldest);
    this.#delays.found(key);
  }

  /** Claims without a query before it. */
  async #claimInOneStatement<T>({ fetch, key, isOver }: Call<T>): Promise<readonly T[]> {
    const { clock, wakeUps } = this.#parts;
    const { claimInOneStatement, topic, max, generalEveryMs = Infinity } = fetch;
    const last = this.#queried.get(key);
    const isAllowed = last === undefined || clock.monotonic() - last.queriedAt < generalEveryMs;
    if (claimInOneStatement === undefined || !isAllowed || isOver()) return [];
    const changes = wakeUps.changes(topic);
    const claimed = await claimInOneStatement();
    if (claimed.length === 0) return claimed;
    this.#found(key);
    // Nothing else was due when it ran, and nothing that was known of then becomes due before `nextAt`.
    const isKnown = generalEveryMs < Infinity && last?.idle.changes.later === changes.later;
    if (isKnown && claimed.length < max) wakeUps.saveIdle(key, { ...last.idle, changes });
    return claimed;
  }

  async #queryDue({ fetch, key }: Call<unknown>): Promise<Due> {
    const { topic, operation, wanted, generalEveryMs } = fetch;
    const { clock, wakeUps, dueTimes } = this.#parts;
    // Before the query: a later change ends the wait, and the wait may end early but never late.
    const changes = wakeUps.changes(topic);
    const sentAt = clock.monotonic();
    const times = await dueTimes(operation, wanted);
    const { now, nextAt } = times;
    const idle = { topic, changes, nextAt: nextAt[topic], aheadMs: now - sentAt };
    if (generalEveryMs !== undefined) this.#queried.set(key, { idle, queriedAt: sentAt });
    return { ...idle, times };
  }

  /** Waits for a change, a due time or the deadline. Returns `idle` if the deadline passed without a change. */
  async #waitUntilDue(call: Call<unknown>, idle: IdleSnapshot): Promise<WakeCause | 'idle'> {
    const { clock, wakeUps } = this.#parts;
    const { fetch, key, deadline, ending: signal } = call;
    const { topic, changes: seen, nextAt, aheadMs } = idle;
    const dueAt = nextAt - aheadMs;
    const until = Math.min(deadline, dueAt);
    const waitMs = Math.max(0, until - clock.monotonic());
    const foreignDelayMs = this.#delays.get(key);
    this.#waiting.add(fetch);
    const cause = await wakeUps.wait({
      topic,
      waitMs,
      until: until + aheadMs,
      seen,
      signal,
      foreignDelayMs,
    });
    this.#waiting.delete(fetch);
    // No notification arrived while polling was active, so the next fetch can skip its query.
    const isIdle =
      dueAt > deadline && clock.monotonic() >= deadline && isSame(seen, wakeUps.changes(topic));
    if (!isIdle) return cause;
    wakeUps.saveIdle(key, { topic, changes: seen, nextAt, aheadMs });
    return 'idle';
  }
}

function isSame(one: ChangeCounts, other: ChangeCounts): boolean {
  return one.all === other.all;
}

interface NamedDefinition {
  readonly name: string;
  readonly version: string | null;
}

/** The result of a due query, or of an earlier one without its times. */
interface Due extends IdleSnapshot {
  readonly times?: DueTimes;
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
