import { watch, type FSWatcher } from 'node:fs';
import type Database from 'better-sqlite3';
import { platform } from '../../../model/platform.ts';

// How long to poll every millisecond after a write of this process: another process probably responds to it.
const alertMs = 20;
const alertPollMs = 1;
// How long to poll at the full rate after the last activity.
const activeMs = 250;
// Polling interval while idle, in case the operating system misses a write.
const idlePollMs = 50;

/**
 * Detects commits of other connections by `PRAGMA data_version`.
 *
 * It polls while there is activity: every millisecond after a write of this process. A 5 ms timer costs 1-2 % of a core, so when idle it
 * watches the write-ahead log with `fs.watch` and polls every 50 ms. A write makes it active again.
 */
export class ChangeWatch {
  readonly #pollMs: number;
  readonly #logFile: string | undefined;
  readonly #onPoll: () => void;
  readonly #onChange: () => void;
  readonly #dataVersion: () => number | undefined;
  #seenVersion: number | undefined;
  #poll: NodeJS.Timeout | undefined;
  #watcher: FSWatcher | undefined;
  #activeUntil = 0;
  #alertUntil = 0;
  /** The interval of the running poll. */
  #everyMs: number | undefined;

  constructor(options: {
    readonly db: Database.Database;
    readonly pollMs: number;
    readonly onPoll: () => void;
    readonly onChange: () => void;
  }) {
    this.#pollMs = options.pollMs;
    this.#onPoll = options.onPoll;
    this.#onChange = options.onChange;
    // A database in memory has no other connections.
    this.#logFile = options.db.memory ? undefined : `${options.db.name}-wal`;
    // A prepared statement takes 1.3 µs, `.pragma()` 11 µs.
    const statement = options.db.prepare<[], number>('PRAGMA data_version').pluck();
    this.#dataVersion = () => statement.get();
    this.#seenVersion = this.#dataVersion();
  }

  /** Starts or resumes the watch. Changes since the last check are reported immediately. */
  start(): void {
    if (this.#logFile === undefined || this.#poll !== undefined) return;
    this.#enterActive();
    this.#check();
  }

  stop(): void {
    platform.clearInterval(this.#poll);
    this.#poll = undefined;
    this.#everyMs = undefined;
    this.#closeWatcher();
  }

  /** Stays active after writes of this process: `fs.watch` events for them cost more than polling, and others may respond to them. */
  expectOwnWrites(): void {
    if (this.#poll === undefined) return;
    this.#alertUntil = platform.monotonic() + alertMs;
    this.#enterActive();
  }

  #enterActive(): void {
    const now = platform.monotonic();
    this.#activeUntil = now + activeMs;
    this.#closeWatcher();
    this.#pollEvery(now < this.#alertUntil ? Math.min(alertPollMs, this.#pollMs) : this.#pollMs);
  }

  #enterIdle(): void {
    if (this.#logFile === undefined || this.#watcher !== undefined) return;
    let watcher: FSWatcher;
    try {
      watcher = watch(this.#logFile);
    } catch {
      // Without a watcher, polling at the full rate works too.
      return;
    }
    this.#watcher = watcher;
    const onWrite = (): void => {
      if (this.#watcher !== watcher) return;
      this.#enterActive();
      this.#check();
    };
    watcher.on('change', onWrite);
    watcher.on('error', onWrite);
    this.#pollEvery(Math.max(idlePollMs, this.#pollMs));
    // Detects writes from before the watcher was set up.
    this.#check();
  }

  #pollEvery(ms: number): void {
    if (ms === this.#everyMs) return;
    platform.clearInterval(this.#poll);
    this.#everyMs = ms;
    this.#poll = platform.setInterval(() => {
      const now = platform.monotonic();
      if (now > this.#activeUntil) this.#enterIdle();
      else if (now > this.#alertUntil) this.#pollEvery(this.#pollMs);
      this.#onPoll();
      this.#check();
    }, ms);
  }

  #closeWatcher(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #check(): void {
    let version: number | undefined;
    try {
      version = this.#dataVersion();
    } catch {
      // A listener reads the database itself, and reports the error to its caller.
      version = undefined;
    }
    if (version !== undefined && version === this.#seenVersion) return;
    this.#seenVersion = version;
    this.#enterActive();
    this.#onChange();
  }
}
