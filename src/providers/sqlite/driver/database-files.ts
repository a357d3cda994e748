import { statSync } from 'node:fs';
import { basename } from 'node:path';
import type Database from 'better-sqlite3';
import { ProviderError } from '../../../model/failures/errors.ts';

// Bounds both the cost (three stat calls, 10 µs) and the commits that can be lost with a deleted file.
const checkEveryMs = 100;

/**
 * The files of an open database, by device and inode. A process keeps writing to a file that was deleted or replaced, and
 * nothing of that survives it: SQLite does not notice.
 */
export class DatabaseFiles {
  readonly #opened: readonly { readonly path: string; readonly identity: string }[];
  readonly #onReplaced: () => void;
  #nextCheckAt = Number.NEGATIVE_INFINITY;
  #replaced: string | undefined;

  /** Takes the files that the paths name now; `onReplaced` is called once. */
  constructor(db: Database.Database, onReplaced: () => void) {
    // While a connection is open, SQLite itself neither deletes nor replaces the write-ahead log and its index.
    const paths = db.memory ? [] : [db.name, `${db.name}-wal`, `${db.name}-shm`];
    this.#opened = paths.flatMap((path) => {
      const identity = fileIdentity(path);
      return identity === undefined ? [] : [{ path, identity }];
    });
    this.#onReplaced = onReplaced;
  }

  /** The error of an operation once a file is known to be another; looks for that at most every 100 ms. */
  replacedError(operation: string, nowMs: number): ProviderError | undefined {
    if (nowMs >= this.#nextCheckAt && this.#replaced === undefined) {
      this.#nextCheckAt = nowMs + checkEveryMs;
      this.#replaced = this.#opened.find(
        ({ path, identity }) => fileIdentity(path, identity) !== identity,
      )?.path;
      if (this.#replaced !== undefined) this.#onReplaced();
    }
    return this.#replaced === undefined ? undefined : replacedError(operation, this.#replaced);
  }
}

/**
 * The device and inode that a path leads to; `undefined` if there is no such file. `unknown` is returned where they cannot
 * be read. Windows: always `undefined`, because an open file cannot be deleted there, and inodes are not stable.
 */
export function fileIdentity(path: string, unknown?: string): string | undefined {
  if (process.platform === 'win32') return undefined;
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stats === undefined ? undefined : `${stats.dev}:${stats.ino}`;
  } catch {
    return unknown;
  }
}

export function replacedError(operation: string, path: string): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: the file ${basename(path)} was deleted or replaced while it was open, so this process no longer uses the store. Put the file back, then restart the process.`,
    retryable: false,
    code: 'STORE_REPLACED',
  });
}
