import { setTimeout } from 'node:timers';
import type { Clock } from '../../../model/clock.ts';
import type { Hint } from '../../contract/provider.ts';
import type { Effects, Topic } from '../../shared/effects.ts';
import {
  emptyNotice,
  Notifications,
  type CommitNotice,
  type NotificationsOptions,
} from './notifications.ts';
import type { Transaction } from '../driver/transaction.ts';
import type { DueTimes } from './due-query.ts';

/** The due times that a poll reads. */
export type PolledTimes = Omit<DueTimes, 'nextSessionAt' | 'limited' | 'nextPlainAt'>;

export interface WakeUpsOptions {
  /** The injected clock, or the estimated clock of the database. */
  readonly clock: Clock;
  readonly pollMs: number;
  /** Reads what is due for all waiting fetches, in one statement. */
  readonly query: (flaggedSince: number) => Promise<PolledTimes>;
  /** Where to listen. Without it, changes of other processes are only polled. */
  readonly notifications?: Omit<NotificationsOptions, 'onCommit' | 'onGap'> | undefined;
}

interface Waiter {
  readonly topic: Topic;
  /** When its own timer fires. */
  readonly until: number;
  readonly wake: () => void;
}

/** The result of a due query, kept for the next fetch for the same work. */
export interface IdleSnapshot {
  readonly topic: Topic;
  /** The value of `changes` before the query. */
  readonly changes: number;
  /** When the next work is due. */
  readonly nextAt: number;
  /** How far the store's clock was ahead of the monotonic clock. */
  readonly aheadMs: number;
}

// Maximum age of an idle snapshot.
const maxIdleMs = 100;
// Covers clock differences between processes, and lock waits between reading the clock and the commit.
const clockSlackMs = 10_000;

/**
 * Wakes waiting fetches and sends hints to listeners: after commits of this process, on notifications from other
 * processes, and after a poll every `pollMs`. Polls only while a fetch waits or a listener is registered.
 */
export class WakeUps {
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #query: (flaggedSince: number) => Promise<PolledTimes>;
  readonly #notifications: Notifications | undefined;
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #changes: Record<Topic, number> = { orchestrations: 0, work: 0 };
  readonly #idle = new Map<string, IdleSnapshot & { readonly savedAt: number }>();
  /** The due times of the last poll. */
  #polledNextAt: Readonly<Record<Topic, number>> = { orchestrations: Infinity, work: Infinity };
  #polledScheduleAt = Infinity;
  #poll: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  /** Store time of the last poll for flagged items, and their tokens. */
  #polledAt: number;
  #flagged: ReadonlySet<string> = new Set();
  #closed = false;

  constructor({ clock, pollMs, query, notifications }: WakeUpsOptions) {
    this.#clock = clock;
    this.#pollMs = pollMs;
    this.#query = query;
    this.#polledAt = clock.now();
    this.#notifications =
      notifications === undefined
        ? undefined
        : new Notifications({
            ...notifications,
            onCommit: (notice) => this.#onCommit(notice),
            onGap: () => this.#onGap(),
          });
  }

  /** Starts listening. Resolves after the first connection attempt, whether it succeeded or not. */
  async start(): Promise<void> {
    await this.#notifications?.start();
  }

  /** A counter of changes. Read it before a query and pass it to `wait` as `seen`. */
  changes(topic: Topic): number {
    return this.#changes[topic];
  }

  /** Resolves on a change, after `waitMs`, on abort or on close. The caller then queries again. */
  wait(options: {
    readonly topic: Topic;
    readonly waitMs: number;
    /** The end of the wait by the store's clock. Work that is due later does not end it. */
    readonly until: number;
    /** The value of `changes` before the caller's query. */
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

  /** Keeps the due times of a fetch that found nothing, for `restoreIdle`. */
  saveIdle(key: string, snapshot: IdleSnapshot): void {
    this.#idle.set(key, { ...snapshot, savedAt: performance.now() });
  }

  /**
   * Due times for a fetch that follows an idle one directly, if they are still valid. It then needs no query.
   * Only for fetches that wait: a commit of another process may not be notified yet.
   */
  restoreIdle(key: string): IdleSnapshot | undefined {
    const saved = this.#idle.get(key);
    if (saved === undefined) return undefined;
    this.#idle.delete(key);
    const { savedAt, ...snapshot } = saved;
    const { topic, changes, aheadMs } = snapshot;
    const nextAt = Math.min(snapshot.nextAt, this.#polledNextAt[topic]);
    const isValid =
      performance.now() < savedAt + maxIdleMs &&
      changes === this.#changes[topic] &&
      nextAt - aheadMs > this.#clock.monotonic();
    return isValid ? { ...snapshot, nextAt } : undefined;
  }

  listen(listener: (hint: Hint) => void): () => void {
    // Wrapped, so that a function can be registered twice.
    const entry = (hint: Hint): void => listener(hint);
    if (this.#listeners.size === 0) this.#polledAt = this.#clock.now();
    this.#listeners.add(entry);
    this.#schedulePoll();
    return () => {
      this.#listeners.delete(entry);
      this.#stopPollIfIdle();
    };
  }

  /** Publishes the effects of a commit: wakes fetches, sends hints, notifies other processes. */
  announce(effects: Effects): void {
    const {
      dueAt,
      finished: instanceIds,
      outputs,
      cancels,
      emitted,
      statusSet,
      messages,
    } = effects;
    this.#wake(dueAt);
    if (instanceIds.length > 0) this.#hint({ kind: 'finished', instanceIds, outputs });
    if (effects.cancelRequested.length > 0) {
      this.#hint({ kind: 'cancelRequested', lockTokens: effects.cancelRequested, cancels });
    }
    if (statusSet.size > 0) this.#hint({ kind: 'statusSet', instanceIds: [...statusSet] });
    if (messages.size > 0) this.#hint({ kind: 'messages', instanceKeys: [...messages] });
    if (emitted.size > 0) this.#hint({ kind: 'emitted', instanceIds: [...emitted] });
    this.#hint({ kind: 'committed' });
    const notice = this.#noticeOf(effects);
    if (notice !== undefined) this.#notifications?.notify(notice);
  }

  /** Publishes effects with the application's transaction: PostgreSQL delivers them on its commit. */
  async announceWithin(tx: Transaction, effects: Effects): Promise<void> {
    const notice = this.#noticeOf(effects);
    if (notice !== undefined) await this.#notifications?.notifyWithin(tx, notice);
  }

  /** Notifies other processes that this one has registered, so that those of its host check it from now on. */
  announceProcess(): void {
    this.#notifications?.notify({ ...emptyNotice(), more: false, registered: true });
  }

  /** Checks the listening connection after another connection timed out. */
  checkConnection(): void {
    this.#notifications?.checkConnection();
  }

  /** Ends all waits, removes all listeners, and disconnects. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#listeners.clear();
    for (const { wake } of this.#waiters) wake();
    this.#stopPollIfIdle();
    await this.#notifications?.close();
    await this.#polling;
  }

  /** The part of the effects that other processes need. */
  #noticeOf(effects: Effects): CommitNotice | undefined {
    const { dueAt, finished, cancelRequested, emitted, statusSet, messages } = effects;
    // The next poll of each process reads what is due later.
    const horizon = this.#clock.now() + this.#pollMs;
    const soon = Object.entries(dueAt).filter(([, at]) => at <= horizon);
    const isNeeded =
      soon.length > 0 ||
      finished.length > 0 ||
      cancelRequested.length > 0 ||
      emitted.size > 0 ||
      statusSet.size > 0 ||
      messages.size > 0;
    if (!isNeeded) return undefined;
    return {
      dueAt: Object.fromEntries(soon.map(([topic, at]) => [topic, Math.max(at, 0)])),
      finished,
      cancelRequested,
      emitted: [...emitted],
      statusSet: [...statusSet],
      messages: Array.from(messages, String),
      more: false,
    };
  }

  #onCommit(notice: CommitNotice): void {
    const { dueAt, finished, cancelRequested, emitted, statusSet, messages, more } = notice;
    this.#wake(dueAt);
    if (finished.length > 0) this.#hint({ kind: 'finished', instanceIds: finished });
    if (cancelRequested.length > 0) {
      this.#hint({ kind: 'cancelRequested', lockTokens: cancelRequested });
    }
    if (emitted.length > 0) this.#hint({ kind: 'emitted', instanceIds: emitted });
    if (statusSet.length > 0) this.#hint({ kind: 'statusSet', instanceIds: statusSet });
    if (messages.length > 0) this.#hint({ kind: 'messages', instanceKeys: messages.map(Number) });
    this.#hint({ kind: 'committed' });
    if (notice.registered === true) this.#hint({ kind: 'changed' });
    if (more) this.#onGap();
  }

  #onGap(): void {
    if (this.#closed) return;
    this.#wake({ orchestrations: Number.NEGATIVE_INFINITY, work: Number.NEGATIVE_INFINITY });
    this.#hint({ kind: 'changed' });
    this.#hint({ kind: 'missed' });
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

  #hint(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        listener(hint);
      } catch (error) {
        // As with an EventTarget: an error of a listener is uncaught and does not fail the commit.
        process.nextTick(() => {
          throw error;
        });
      }
    }
  }

  #schedulePoll(): void {
    if (this.#poll !== undefined || this.#polling !== undefined || this.#closed) return;
    // Jitter, so that processes that started together do not poll together.
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
    this.#polling ??= this.#pollOnce();
    await this.#polling;
    this.#polling = undefined;
    if (this.#waiters.size > 0 || this.#listeners.size > 0) this.#schedulePoll();
  }

  async #pollOnce(): Promise<void> {
    let found: PolledTimes;
    try {
      found = await this.#query(this.#polledAt - clockSlackMs);
    } catch {
      // A waiting fetch queries again at its deadline and reports the error to its caller.
      return;
    }
    if (this.#closed) return;
    this.#polledAt = found.now;
    this.#polledNextAt = found.nextAt;
    this.#wakeIfDue(found.nextAt);
    // The scheduler of this process does not expect the earlier time yet.
    if (found.nextScheduleAt < this.#polledScheduleAt) this.#hint({ kind: 'changed' });
    this.#polledScheduleAt = found.nextScheduleAt;
    const lockTokens = found.flagged.filter((token) => !this.#flagged.has(token));
    this.#flagged = new Set(found.flagged);
    if (lockTokens.length > 0) this.#hint({ kind: 'cancelRequested', lockTokens });
    // Without LISTEN, instances that other processes ended since the last poll are unknown.
    if (this.#notifications === undefined) this.#hint({ kind: 'missed' });
  }

  #wakeIfDue(nextAt: Readonly<Record<Topic, number>>): void {
    for (const waiter of this.#waiters) {
      if (nextAt[waiter.topic] < waiter.until) waiter.wake();
    }
  }
}
