import { fstatSync, statSync, type BigIntStats } from 'node:fs';
import { basename } from 'node:path';
import type Database from 'better-sqlite3';
import { ProviderError } from '../../../model/failures/errors.ts';

// Bounds the cost (three stat calls, 10 µs) and the commits that are lost with a deleted file.
const checkEveryMs = 100;

/**
 * Detects by device and inode that a file of an open database was deleted or replaced.
 * SQLite does not notice this: the process would keep writing to a file that no longer has a name.
 */
export class DatabaseFiles {
  readonly #opened: readonly { readonly path: string; readonly identity: string }[];
  readonly #onReplaced: () => void;
  #nextCheckAt = Number.NEGATIVE_INFINITY;
  #replaced: string | undefined;

  /** Records the current files. `onReplaced` is called once. */
  constructor(db: Database.Database, onReplaced: () => void) {
    // While a connection is open, SQLite neither deletes nor replaces the -wal and -shm files.
    const paths = db.memory ? [] : [db.name, `${db.name}-wal`, `${db.name}-shm`];
    this.#opened = paths.flatMap((path) => {
      const identity = fileIdentity(path);
      return identity === undefined ? [] : [{ path, identity }];
    });
    this.#onReplaced = onReplaced;
  }

  /** Returns an error after a file was replaced. Checks at most every 100 ms. */
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
 * Returns the device and inode of a path, or `undefined` if there is no such file.
 * Returns `unknown` if they cannot be read. Always `undefined` on Windows, where an open file cannot be deleted and
 * inodes are not stable.
 */
export function fileIdentity(path: string, unknown?: string): string | undefined {
  if (process.platform === 'win32') return undefined;
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stats === undefined ? undefined : toIdentity(stats);
  } catch {
    return unknown;
  }
}

/** Returns the device and inode of an open file. Always `undefined` on Windows, like `fileIdentity`. */
export function identityOfOpen(descriptor: number): string | undefined {
  if (process.platform === 'win32') return undefined;
  return toIdentity(fstatSync(descriptor, { bigint: true }));
}

function toIdentity({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

export function replacedError(operation: string, path: string): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: the open file ${JSON.stringify(basename(path))} was deleted or replaced. Restore the file, then restart this process.`,
    retryable: false,
    code: 'STORE_REPLACED',
  });
}
