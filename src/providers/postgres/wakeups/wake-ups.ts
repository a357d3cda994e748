import { setTimeout } from 'node:timers';
import type { Clock } from '../../../model/clock.ts';
import type { Hint } from '../../contract/provider.ts';
import type { Effects, Topic } from '../../shared/effects.ts';
import { Notifications, type News, type NotificationsOptions } from './notifications.ts';
import type { Transaction } from '../driver/transaction.ts';

/** What one look at the store found, for everything that this process waits for. */
export interface Look {
  /** The store's clock. */
  readonly now: number;
  /** When the next thing of the topic is due by the store's clock; the past means now. */
  readonly nextAt: Readonly<Record<Topic, number>>;
  /** When the next schedule is due. */
  readonly nextScheduleAt: number;
  /** The tokens of items that are held and were flagged since the time asked for. */
  readonly flagged: readonly string[];
}

export interface WakeUpsOptions {
  /** The store's clock: that of the database as far as it is known here, or the injected one. */
  readonly clock: Clock;
  readonly pollMs: number;
  /** One query. */
  readonly look: (flaggedSince: number) => Promise<Look>;
  /** Where to listen; absent: only polling. */
  readonly notifications?: Omit<NotificationsOptions, 'onNews' | 'onGap'> | undefined;
}

interface Waiter {
  readonly topic: Topic;
  /** When it wakes by itself. */
  readonly until: number;
  readonly wake: () => void;
}

/** What a fetch that found nothing knows for the next. */
export interface Rest {
  readonly topic: Topic;
  /** What `changes` said before its last look. */
  readonly changes: number;
  /** When the next thing is due. */
  readonly nextAt: number;
  /** How far the store's clock was ahead of our monotonic clock at that look. */
  readonly aheadMs: number;
}

// How soon a fetch must follow the one before for it to be the same wait going on.
const restMs = 100;
// How far the clocks of two looks, or of two processes, may be apart without a request being overlooked, and how long
// one may wait for rows that others hold between reading the clock and its commit.
const clockSlackMs = 10_000;

/**
 * Tells waiting fetches and listeners that something has changed: in this process after a commit, across processes
 * by notifications, and by one look per `pollMs` for what nobody told of, while somebody waits or listens.
 */
export class WakeUps {
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #look: (flaggedSince: number) => Promise<Look>;
  readonly #notifications: Notifications | undefined;
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #changes: Record<Topic, number> = { orchestrations: 0, work: 0 };
  readonly #rests = new Map<string, Rest & { readonly endedAt: number }>();
  /** When the next thing was due by the last poll. */
  #polledNextAt: Readonly<Record<Topic, number>> = { orchestrations: Infinity, work: Infinity };
  #polledScheduleAt = Infinity;
  #poll: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  /** When this process last looked for cancel requests of others, and what it found. */
  #lookedAt: number;
  #announced: ReadonlySet<string> = new Set();
  #closed = false;

  constructor({ clock, pollMs, look, notifications }: WakeUpsOptions) {
    this.#clock = clock;
    this.#pollMs = pollMs;
    this.#look = look;
    this.#lookedAt = clock.now();
    this.#notifications =
      notifications === undefined
        ? undefined
        : new Notifications({
            ...notifications,
            onNews: (news) => this.#onNews(news),
            onGap: () => this.#onGap(),
          });
  }

  /** Begins to listen to other processes; resolves after the first try. */
  async start(): Promise<void> {
    await this.#notifications?.start();
  }

  /** Counts the changes of a topic. Taken before a look, it tells `wait` of what came after that. */
  changes(topic: Topic): number {
    return this.#changes[topic];
  }

  /** Resolves at a change, after `waitMs`, on abort, or at the end; the caller looks again for itself. */
  wait(options: {
    readonly topic: Topic;
    readonly waitMs: number;
    /** When that is by the store's clock: nothing that is due later ends the wait. */
    readonly until: number;
    /** What `changes` said before the caller looked. */
    readonly seen?: number | undefined;
    readonly signal?: AbortSignal | undefined;
  }): Promise<void> {
    const { topic, waitMs, until, seen, signal } = options;
    if (this.#closed || signal?.aborted === true) return Promise.resolve();
    if (seen !== undefined && seen !== this.#changes[topic]) return Promise.resolve();
    return new Promise((resolve) => {
      let cancelAlarm = (): void => undefined;
      const wake = (): void => {
        this.#waiters.delete(waiter);
        cancelAlarm();
        signal?.removeEventListener('abort', wake);
        this.#stopPollIfIdle();
        resolve();
      };
      const waiter = { topic, until, wake };
      this.#waiters.add(waiter);
      cancelAlarm = this.#clock.setTimer(waitMs, wake);
      signal?.addEventListener('abort', wake);
      this.#schedulePoll();
    });
  }

  /** Keeps what a fetch found that ended with nothing, so that the next like it need not look again. */
  rest(key: string, rest: Rest): void {
    this.#rests.set(key, { ...rest, endedAt: performance.now() });
  }

  /**
   * What is known without a look for a fetch that goes on with the wait of the one before: nothing was told since, and
   * the poll has looked meanwhile. Only for one that waits: what others have just committed may not be told yet.
   */
  resume(key: string): Rest | undefined {
    const rest = this.#rests.get(key);
    if (rest === undefined) return undefined;
    this.#rests.delete(key);
    const nextAt = Math.min(rest.nextAt, this.#polledNextAt[rest.topic]);
    const holds =
      performance.now() < rest.endedAt + restMs &&
      rest.changes === this.#changes[rest.topic] &&
      nextAt - rest.aheadMs > this.#clock.monotonic();
    return holds ? { ...rest, nextAt } : undefined;
  }

  listen(listener: (hint: Hint) => void): () => void {
    // Wrapped, so that the same function listening twice is two listeners.
    const entry = (hint: Hint): void => listener(hint);
    if (this.#listeners.size === 0) this.#lookedAt = this.#clock.now();
    this.#listeners.add(entry);
    this.#schedulePoll();
    return () => {
      this.#listeners.delete(entry);
      this.#stopPollIfIdle();
    };
  }

  /** Passes on what a commit of this process has changed, here and to others. */
  announce(effects: Effects): void {
    const { dueAt, finished: instanceIds, outputs, cancels, emitted, statusSet } = effects;
    this.#wake(dueAt);
    if (instanceIds.length > 0) this.#tell({ kind: 'finished', instanceIds, outputs });
    if (effects.cancelRequested.length > 0) {
      this.#tell({ kind: 'cancelRequested', lockTokens: effects.cancelRequested, cancels });
    }
    if (statusSet.size > 0) this.#tell({ kind: 'statusSet', instanceIds: [...statusSet] });
    if (emitted.size > 0) this.#tell({ kind: 'emitted', instanceIds: [...emitted] });
    const news = this.#newsOf(effects);
    if (news !== undefined) this.#notifications?.tell(news);
  }

  /** Has a transaction of the application pass on what it has changed when it commits. */
  async announceWithin(tx: Transaction, effects: Effects): Promise<void> {
    const news = this.#newsOf(effects);
    if (news !== undefined) await this.#notifications?.tellWithin(tx, news);
  }

  /** Another connection went silent: finds out whether the one that listens is still alive. */
  onSilence(): void {
    this.#notifications?.probe();
  }

  /** Ends all waits, forgets all listeners, and hangs up. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#listeners.clear();
    for (const { wake } of this.#waiters) wake();
    this.#stopPollIfIdle();
    await this.#notifications?.close();
    await this.#polling;
  }

  /** What is worth telling other processes. */
  #newsOf({ dueAt, finished, cancelRequested, emitted, statusSet }: Effects): News | undefined {
    // Nobody waits for longer than until the next poll.
    const horizon = this.#clock.now() + this.#pollMs;
    const soon = Object.entries(dueAt).filter(([, at]) => at <= horizon);
    const isNews =
      soon.length > 0 ||
      finished.length > 0 ||
      cancelRequested.length > 0 ||
      emitted.size > 0 ||
      statusSet.size > 0;
    if (!isNews) return undefined;
    return {
      dueAt: Object.fromEntries(soon.map(([topic, at]) => [topic, Math.max(at, 0)])),
      finished,
      cancelRequested,
      emitted: [...emitted],
      statusSet: [...statusSet],
      more: false,
    };
  }

  #onNews({ dueAt, finished, cancelRequested, emitted, statusSet, more }: News): void {
    this.#wake(dueAt);
    if (finished.length > 0) this.#tell({ kind: 'finished', instanceIds: finished });
    if (cancelRequested.length > 0) {
      this.#tell({ kind: 'cancelRequested', lockTokens: cancelRequested });
    }
    if (emitted.length > 0) this.#tell({ kind: 'emitted', instanceIds: emitted });
    if (statusSet.length > 0) this.#tell({ kind: 'statusSet', instanceIds: statusSet });
    if (more) this.#onGap();
  }

  #onGap(): void {
    if (this.#closed) return;
    this.#wake({ orchestrations: Number.NEGATIVE_INFINITY, work: Number.NEGATIVE_INFINITY });
    this.#tell({ kind: 'changed' });
    this.#tell({ kind: 'missed' });
    if (this.#listeners.size > 0) void this.#pollNow();
  }

  #wake(dueAt: Readonly<Partial<Record<Topic, number>>>): void {
    for (const topic of ['orchestrations', 'work'] as const) {
      const at = dueAt[topic] ?? Infinity;
      if (at === Infinity) continue;
      this.#changes[topic] += 1;
      for (const waiter of this.#waiters) {
        if (waiter.topic === topic && at < waiter.until) waiter.wake();
      }
    }
  }

  #tell(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        listener(hint);
      } catch (error) {
        // As with an EventTarget: the listener's error is the process's business, not the commit's.
        process.nextTick(() => {
          throw error;
        });
      }
    }
  }

  #schedulePoll(): void {
    if (this.#poll !== undefined || this.#polling !== undefined || this.#closed) return;
    // Spread, so that processes that began together do not ask together.
    const inMs = this.#pollMs * (1 + Math.random() / 10);
    this.#poll = setTimeout(() => void this.#pollNow(), inMs);
  }

  #stopPollIfIdle(): void {
    if (this.#waiters.size > 0 || this.#listeners.size > 0) return;
    clearTimeout(this.#poll);
    this.#poll = undefined;
  }

  async #pollNow(): Promise<void> {
    clearTimeout(this.#poll);
    this.#poll = undefined;
    this.#polling ??= this.#lookAround();
    await this.#polling;
    this.#polling = undefined;
    if (this.#waiters.size > 0 || this.#listeners.size > 0) this.#schedulePoll();
  }

  async #lookAround(): Promise<void> {
    let found: Look;
    try {
      found = await this.#look(this.#lookedAt - clockSlackMs);
    } catch {
      // Whoever waits asks for itself in the end, and meets the same trouble with somebody to report it to.
      return;
    }
    if (this.#closed) return;
    this.#lookedAt = found.now;
    this.#polledNextAt = found.nextAt;
    this.#wakeIfDue(found.nextAt);
    // Whoever makes ticks does not expect this one.
    if (found.nextScheduleAt < this.#polledScheduleAt) this.#tell({ kind: 'changed' });
    this.#polledScheduleAt = found.nextScheduleAt;
    const news = found.flagged.filter((token) => !this.#announced.has(token));
    this.#announced = new Set(found.flagged);
    if (news.length > 0) this.#tell({ kind: 'cancelRequested', lockTokens: news });
    // Without LISTEN nothing tells what other processes ended since the last poll.
    if (this.#notifications === undefined) this.#tell({ kind: 'missed' });
  }

  #wakeIfDue(nextAt: Readonly<Record<Topic, number>>): void {
    for (const waiter of this.#waiters) {
      if (nextAt[waiter.topic] < waiter.until) waiter.wake();
    }
  }
}
