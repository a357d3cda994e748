import type Database from 'better-sqlite3';
import type { Clock } from '../../../model/clock.ts';
import type { Effects, Topic } from '../../shared/effects.ts';
import type { Hint } from '../../contract/provider.ts';
import type { CancelInfo } from '../../contract/work-queue.ts';
import type { ChangeLog, ForeignChanges } from './change-log.ts';
import { ChangeWatch } from './change-watch.ts';

/** A claim whose handler should stop. Without a request its item was deleted. */
interface Flagged {
  readonly lockToken: string;
  readonly cancel?: CancelInfo;
}

interface Waiter {
  readonly topic: Topic;
  /** When it wakes without a change. */
  readonly until: number;
  readonly wake: (cause: WakeCause) => void;
}

/** Why a wait ended: a change by this process, one by others, or neither. */
export type WakeCause = 'own' | 'foreign' | 'none';

// Tolerated clock difference between two checks, or two processes, without missing a request.
const clockSlackMs = 1_000;

/**
 * Wakes waiting fetches and notifies listeners of changes: of this process after a commit, of others by a watch.
 * The watch runs only while there is a waiter or listener.
 */
export class WakeUps {
  readonly #clock: Clock;
  readonly #watch: ChangeWatch;
  readonly #changeLog: ChangeLog;
  readonly #flaggedSince: (time: number, now: number) => readonly Flagged[];
  readonly #waiters = new Set<Waiter>();
  readonly #listeners = new Set<(hint: Hint) => void>();
  /** When this process last read the cancel requests of others, and the tokens it found. */
  #checkedAt: number;
  #announced: ReadonlySet<string> = new Set();

  constructor(options: {
    readonly db: Database.Database;
    readonly clock: Clock;
    readonly pollMs: number;
    readonly changeLog: ChangeLog;
    /** The claims whose items were flagged or deleted at `time` or later. */
    readonly flaggedSince: (time: number, now: number) => readonly Flagged[];
    /** Called at each poll. */
    readonly onPoll: () => void;
  }) {
    const { db, clock, pollMs, changeLog, flaggedSince, onPoll } = options;
    this.#clock = clock;
    this.#changeLog = changeLog;
    this.#flaggedSince = flaggedSince;
    this.#checkedAt = clock.now();
    this.#watch = new ChangeWatch({ db, pollMs, onPoll, onChange: () => this.#onChange() });
  }

  /** Resolves on a change, at `until`, on abort, or on close. The caller queries again. */
  wait(options: {
    readonly topic: Topic;
    readonly until: number;
    readonly signal?: AbortSignal | undefined;
  }): Promise<WakeCause> {
    return new Promise((resolve) => {
      let cancelAlarm = (): void => undefined;
      const wake = (cause: WakeCause): void => {
        this.#waiters.delete(waiter);
        cancelAlarm();
        options.signal?.removeEventListener('abort', end);
        this.#stopWatchIfIdle();
        resolve(cause);
      };
      const end = (): void => wake('none');
      const waiter = { topic: options.topic, until: options.until, wake };
      this.#waiters.add(waiter);
      cancelAlarm = this.#clock.setTimer(options.until - this.#clock.now(), end);
      options.signal?.addEventListener('abort', end);
      this.#watch.start();
    });
  }

  listen(listener: (hint: Hint) => void): () => void {
    // Wrapped, so that one function can listen twice.
    const entry = (hint: Hint): void => listener(hint);
    // Start the watch first, so that a new listener gets no earlier changes.
    this.#watch.start();
    if (this.#listeners.size === 0) this.#changeLog.skip();
    this.#listeners.add(entry);
    return () => {
      this.#listeners.delete(entry);
      this.#stopWatchIfIdle();
    };
  }

  /** Notifies waiters and listeners of a commit of this process. */
  announce(effects: Effects): void {
    this.#watch.expectOwnWrites();
    for (const waiter of this.#waiters) {
      if (effects.dueAt[waiter.topic] < waiter.until) waiter.wake('own');
    }
    const { finished: instanceIds, outputs } = effects;
    if (instanceIds.length > 0) this.#notify({ kind: 'finished', instanceIds, outputs });
    if (effects.cancelRequested.length > 0) {
      const { cancelRequested: lockTokens, cancels } = effects;
      this.#notify({ kind: 'cancelRequested', lockTokens, cancels });
    }
    if (effects.statusSet.size > 0) {
      this.#notify({ kind: 'statusSet', instanceIds: [...effects.statusSet] });
    }
    if (effects.messages.size > 0) {
      this.#notify({ kind: 'messages', instanceKeys: [...effects.messages] });
    }
    if (effects.emitted.size > 0) {
      this.#notify({ kind: 'emitted', instanceIds: [...effects.emitted] });
    }
    this.#notify({ kind: 'committed' });
  }

  /** Ends all waits and notifies listeners, after the store became unusable: their next call rejects. */
  wakeAll(): void {
    for (const { wake } of this.#waiters) wake('none');
    this.#notify({ kind: 'changed' });
  }

  /** Ends all waits and removes all listeners. */
  close(): void {
    this.#listeners.clear();
    for (const { wake } of this.#waiters) wake('none');
    this.#stopWatchIfIdle();
  }

  #notify(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        listener(hint);
      } catch (error) {
        // As with an EventTarget, an error of a listener is thrown globally and does not affect the commit.
        process.nextTick(() => {
          throw error;
        });
      }
    }
  }

  /** Called when another connection has committed. */
  #onChange(): void {
    for (const { wake } of this.#waiters) wake('foreign');
    this.#notify({ kind: 'changed' });
    this.#notifyForeignChanges();
    const fresh = this.#readNewCancels();
    if (fresh.length === 0) return;
    const cancels = new Map<string, CancelInfo>();
    for (const { lockToken, cancel } of fresh)
      if (cancel !== undefined) cancels.set(lockToken, cancel);
    const lockTokens = fresh.map(({ lockToken }) => lockToken);
    this.#notify({ kind: 'cancelRequested', lockTokens, cancels });
  }

  /** Notifies listeners of instances that other processes ended or whose custom status they set. */
  #notifyForeignChanges(): void {
    if (this.#listeners.size === 0) return;
    let changes: ForeignChanges;
    try {
      changes = this.#changeLog.read();
    } catch {
      // Nothing is lost: the log keeps unread rows until the next commit.
      return;
    }
    const { finished, statusSet, missed } = changes;
    if (finished.length > 0) this.#notify({ kind: 'finished', instanceIds: finished });
    if (statusSet.length > 0) this.#notify({ kind: 'statusSet', instanceIds: statusSet });
    if (missed) this.#notify({ kind: 'missed' });
  }

  /** The claims flagged since the last check and not yet announced. */
  #readNewCancels(): readonly Flagged[] {
    if (this.#listeners.size === 0) return [];
    const now = this.#clock.now();
    let flagged: readonly Flagged[];
    try {
      flagged = this.#flaggedSince(this.#checkedAt - clockSlackMs, now);
    } catch {
      // The workers get the request at their next renewal.
      return [];
    }
    const fresh = flagged.filter(({ lockToken }) => !this.#announced.has(lockToken));
    this.#checkedAt = now;
    this.#announced = new Set(flagged.map(({ lockToken }) => lockToken));
    return fresh;
  }

  #stopWatchIfIdle(): void {
    if (this.#waiters.size === 0 && this.#listeners.size === 0) this.#watch.stop();
  }
}
