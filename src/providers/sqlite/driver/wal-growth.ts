import { closeSync, fstatSync, openSync, realpathSync, writeSync } from 'node:fs';
import type Database from 'better-sqlite3';
import { fileIdentity, identityOfOpen } from './database-files.ts';
import { isBusy } from './sqlite-errors.ts';

/** The pages of the write-ahead log between two checkpoints: 16 MiB. */
export const checkpointPages = 4_000;

// A process that commits less often gains less than the growth costs.
const commitsBefore = 64;
const stepBytes = 1024 * 1024;
const maxBytes = (checkpointPages + 256) * 4_120;

/**
 * Fills the write-ahead log of a busy process with zeros, up to its size at a checkpoint.
 *
 * Flushing overwritten bytes takes half the time of flushing appended ones, which change the size and the block map of the
 * file. After the first checkpoint SQLite overwrites the log from its start. Only the first pass appends.
 * SQLite ignores bytes behind the last valid frame. They are written under the write lock, so no frame can be there.
 *
 * The lock is that of the open database. If its files were replaced, the path leads to the log of another one, which is never
 * written.
 */
export class WalGrowth {
  readonly #db: Database.Database;
  /** The log that SQLite has open. */
  readonly #log: LogFile | undefined;
  #commits = 0;
  #isOver: boolean;
  #file: number | undefined;

  constructor(db: Database.Database) {
    this.#db = db;
    this.#log = db.memory ? undefined : findLog(db.name);
    // Without a flush per commit there is nothing to gain.
    this.#isOver = this.#log === undefined || db.pragma('synchronous', { simple: true }) !== 2;
  }

  /** Call it after each commit, outside a transaction. Writes 1 MiB at a time. */
  committed(): void {
    if (this.#isOver) return;
    this.#commits += 1;
    if (this.#commits < commitsBefore) return;
    try {
      this.#grow();
    } catch (error) {
      // Another process writes. A full disk or a missing file is reported by the next commit, if it matters.
      if (!isBusy(error)) this.close();
    }
  }

  /** Ends the growth. */
  close(): void {
    this.#isOver = true;
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #grow(): void {
    if (this.#log === undefined) return;
    this.#file ??= openSync(this.#log.path, 'r+');
    if (identityOfOpen(this.#file) !== this.#log.identity) {
      this.close();
      return;
    }
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      const { size } = fstatSync(this.#file);
      const bytes = Math.min(stepBytes, maxBytes - size);
      // An empty log has no header yet.
      if (size > 0 && bytes > 0) writeSync(this.#file, Buffer.alloc(bytes), 0, bytes, size);
      if (bytes < stepBytes) this.close();
    } finally {
      this.#db.exec('ROLLBACK');
    }
  }
}

interface LogFile {
  readonly path: string;
  readonly identity: string | undefined;
}

/** Finds the log of a database that is open. Returns `undefined` if its files are gone. */
function findLog(name: string): LogFile | undefined {
  try {
    // SQLite creates it beside the file that a link leads to.
    const path = `${realpathSync(name)}-wal`;
    return { path, identity: fileIdentity(path) };
  } catch {
    return undefined;
  }
}
