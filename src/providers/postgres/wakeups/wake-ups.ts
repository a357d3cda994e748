import { setTimeout } from 'node:timers';
import type { Clock } from '../../../model/clock.ts';
import type { Hint } from '../../contract/provider.ts';
import type { Effects, Topic } from '../../shared/effects.ts';
import {
  emptyNotice,
  maxDefinitions,
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
  /** Whether a fetch of this process can claim work of one of these definitions. */
  readonly isWanted: (topic: Topic, definitionKeys: readonly number[]) => boolean;
  /** Where to listen. Without it, changes of other processes are only polled. */
  readonly notifications?: Omit<NotificationsOptions, 'onCommit' | 'onGap'> | undefined;
}

/** Counters of the changes of a topic. */
export interface ChangeCounts {
  /** By all processes. */
  readonly all: number;
  /** By other processes. */
  readonly foreign: number;
  /** With work that was not due yet. */
  readonly later: number;
}

/** Why a wait ended: a change by this process, one by others, or neither. */
export type WakeCause = 'own' | 'foreign' | 'none';

interface Waiter {
  readonly topic: Topic;
  /** When its own timer fires. */
  readonly until: number;
  readonly wake: (cause: WakeCause) => void;
  /** Wakes after the delay for changes by other processes. */
  readonly wakeLater: () => void;
}

/** The result of a due query, kept for the next fetch for the same work. */
export interface IdleSnapshot {
  readonly topic: Topic;
  /** The value of `changes` before the query. */
  readonly changes: ChangeCounts;
  /** When the next work is due. */
  readonly nextAt: number;
  /** How far the store's clock was ahead of the monotonic clock. */
  readonly aheadMs: number;
}

// Maximum age of an idle snapshot.
const maxIdleMs = 100;
// Covers clock differences between processes, and lock waits between reading the clock and the commit.
const clockSlackMs = 10_000;
const noChanges: ChangeCounts = { all: 0, foreign: 0, later: 0 };

/**
 * Wakes waiting fetches and sends hints to listeners: after commits of this process, on notifications from other
 * processes, and after a poll every `pollMs`. Polls only while a fetch waits or a listener is registered.
 */
export class WakeUps {
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #query: (flaggedSince: number) => Promise<PolledTimes>;
  readonly #isWanted: WakeUpsOptions['isWanted'];
  readonly #notifications: Notifications | undefined;
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #changes: Record<Topic, ChangeCounts> = {
    orchestrations: noChanges,
    work: noChanges,
  };
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

  constructor({ clock, pollMs, query, isWanted, notifications }: WakeUpsOptions) {
    this.#isWanted = isWanted;
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

  /** Counts of changes. Read them before a query and pass them to `wait` as `seen`. */
  changes(topic: Topic): ChangeCounts {
    return this.#changes[topic];
  }

  /** Resolves on a change, after `waitMs`, on abort or on close. The caller then queries again. */
  wait(options: {
    readonly topic: Topic;
    readonly waitMs: number;
    /** The end of the wait by the store's clock. Work that is due later does not end it. */
    readonly until: number;
    /** The value of `changes` before the caller's query. */
    readonly seen?: ChangeCounts | undefined;
    readonly signal?: AbortSignal | undefined;
    /** How long changes by other processes may wait, to leave them to another worker. Default: 0. */
    readonly foreignDelayMs?: number | undefined;
  }): Promise<WakeCause> {
    const { topic, waitMs, until, seen, signal, foreignDelayMs = 0 } = options;
    if (this.#closed || signal?.aborted === true) return Promise.resolve('none');
    const now = this.#changes[topic];
    const cause = seen === undefined ? 'none' : causeOf(seen, now);
    if (cause === 'own' || (cause === 'foreign' && foreignDelayMs === 0))
      return Promise.resolve(cause);
    return new Promise((resolve) => {
      let cancelAlarm = (): void => undefined;
      let delayed: NodeJS.Timeout | undefined;
      const wake = (cause: WakeCause): void => {
        this.#waiters.delete(waiter);
        cancelAlarm();
        clearTimeout(delayed);
        signal?.removeEventListener('abort', end);
        this.#stopPollIfIdle();
        resolve(cause);
      };
      const end = (): void => wake('none');
      const wakeLater = (): void => {
        if (foreignDelayMs === 0) wake('foreign');
        else delayed ??= setTimeout(() => wake('foreign'), foreignDelayMs);
      };
      const waiter = { topic, until, wake, wakeLater };
      this.#waiters.add(waiter);
      cancelAlarm = this.#clock.setTimer(waitMs, end);
      signal?.addEventListener('abort', end);
      if (cause === 'foreign') wakeLater();
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
      changes.all === this.#changes[topic].all &&
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
    this.#wake(dueAt, 'own');
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

  /**
   * Publishes a claim of this process. The end of its lease is no new work: it ends the waits beyond it, and a snapshot is
   * valid until then.
   */
  announceClaim(topic: Topic, leaseEnd: number): void {
    const nextAt = Math.min(leaseEnd, this.#polledNextAt[topic]);
    this.#polledNextAt = { ...this.#polledNextAt, [topic]: nextAt };
    for (const waiter of this.#waiters) {
      if (waiter.topic === topic && leaseEnd < waiter.until) waiter.wake('own');
    }
    this.#hint({ kind: 'committed' });
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
    for (const { wake } of this.#waiters) wake('none');
    this.#stopPollIfIdle();
    await this.#notifications?.close();
    await this.#polling;
  }

  /** The part of the effects that other processes need. */
  #noticeOf(effects: Effects): CommitNotice | undefined {
    const { dueAt, finished, cancelRequested, emitted, statusSet, messages } = effects;
    // The next poll of each process reads what is due later.
    const horizon = this.#clock.now() + this.#pollMs;
    const topics = ['orchestrations', 'work'] as const;
    const soon = topics.filter((topic) => dueAt[topic] <= horizon);
    const isNeeded =
      soon.length > 0 ||
      finished.length > 0 ||
      cancelRequested.length > 0 ||
      emitted.size > 0 ||
      statusSet.size > 0 ||
      messages.size > 0;
    if (!isNeeded) return undefined;
    return {
      dueAt: Object.fromEntries(soon.map((topic) => [topic, Math.max(dueAt[topic], 0)])),
      definitions: Object.fromEntries(
        soon.flatMap((topic) => {
          const keys = effects.dueDefinitions[topic];
          return keys === 'any' || keys.size > maxDefinitions ? [] : [[topic, [...keys]]];
        }),
      ),
      finished,
      cancelRequested,
      emitted: [...emitted],
      statusSet: [...statusSet],
      messages: Array.from(messages, String),
      more: false,
    };
  }

  #onCommit(notice: CommitNotice): void {
    const { finished, cancelRequested, emitted, statusSet, messages, more } = notice;
    this.#wake(this.#wantedTimes(notice), 'foreign');
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

  /** The due times of work that a fetch of this process can claim. */
  #wantedTimes({ dueAt, definitions }: CommitNotice): CommitNotice['dueAt'] {
    const wanted: Partial<Record<Topic, number>> = {};
    for (const topic of ['orchestrations', 'work'] as const) {
      const keys = definitions[topic];
      if (dueAt[topic] !== undefined && (keys === undefined || this.#isWanted(topic, keys)))
        wanted[topic] = dueAt[topic];
    }
    return wanted;
  }

  #onGap(): void {
    if (this.#closed) return;
    this.#wake({ orchestrations: Number.NEGATIVE_INFINITY, work: Number.NEGATIVE_INFINITY }, 'own');
    this.#hint({ kind: 'changed' });
    this.#hint({ kind: 'missed' });
    if (this.#listeners.size > 0) void this.#pollNow();
  }

  #wake(dueAt: Readonly<Partial<Record<Topic, number>>>, cause: 'own' | 'foreign'): void {
    for (const topic of ['orchestrations', 'work'] as const) {
      const at = dueAt[topic] ?? Infinity;
      if (at === Infinity) continue;
      const { all, foreign, later } = this.#changes[topic];
      this.#changes[topic] = {
        all: all + 1,
        foreign: foreign + (cause === 'foreign' ? 1 : 0),
        later: later + (at > this.#clock.now() ? 1 : 0),
      };
      for (const waiter of this.#waiters) {
        if (waiter.topic !== topic || at >= waiter.until) continue;
        if (cause === 'own') waiter.wake(cause);
        else waiter.wakeLater();
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
      if (nextAt[waiter.topic] < waiter.until) waiter.wake('none');
    }
  }
}

function causeOf(seen: ChangeCounts, now: ChangeCounts): WakeCause {
  const foreign = now.foreign - seen.foreign;
  if (now.all - seen.all > foreign) return 'own';
  return foreign > 0 ? 'foreign' : 'none';
}
