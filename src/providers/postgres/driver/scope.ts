import type { Clock } from '../../../model/clock.ts';
import type { Statement, Transaction } from './connection.ts';
import { Effects } from '../../shared/effects.ts';

/** The database time in milliseconds. It is stable within a statement, so index conditions can use it. */
const databaseTime = 'floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint';

/** The authoritative time: the first parameter (the clock of a test) or, if that is NULL, the database time. */
export const nowSql = `(SELECT coalesce($1::bigint, ${databaseTime}))`;

const clockStatement: Statement = {
  name: 'perdure_clock',
  text: `SELECT ${databaseTime} AS "now"`,
};

/** The first parameter of a statement with `nowSql`: the time of a test clock, or `null`. */
export function nowParameter(clock: Clock | undefined): number | null {
  return clock === undefined ? null : Math.floor(clock.now());
}

/** The transaction of a batch, with its time and its effects. */
export class Scope {
  readonly tx: Transaction;
  /** Notifications to send after the commit. */
  readonly effects = new Effects();
  readonly #clock: Clock | undefined;
  readonly #time: number | undefined;
  readonly #afterCommit: (() => void)[] = [];
  #now: number | undefined;

  /** `time` replaces the clock. */
  constructor(tx: Transaction, clock: Clock | undefined, time?: number) {
    this.tx = tx;
    this.#clock = clock;
    this.#time = time;
    this.#now = time;
  }

  /** The authoritative time, read once per batch by `begin`. */
  get now(): number {
    if (this.#now === undefined)
      throw new Error('The time is not available before begin() has read it.');
    return this.#now;
  }

  /** The time that `begin` has read, or `undefined` before that. */
  get readAt(): number | undefined {
    return this.#now;
  }

  /** The first parameter of statements with `nowSql`, also before `begin` has read the time. */
  get nowParameter(): number | null {
    return this.#now ?? nowParameter(this.#clock);
  }

  /** Reads the clock and runs the first reads of the batch, in one round trip. */
  async begin<Reads extends readonly unknown[]>(
    ...reads: Reads
  ): Promise<{ [I in keyof Reads]: Awaited<Reads[I]> }> {
    const [now, ...results] = await Promise.all([this.#time ?? this.#readClock(), ...reads]);
    this.#now = now;
    return results;
  }

  /** Registers a callback to run after the commit. */
  afterCommit(callback: () => void): void {
    this.#afterCommit.push(callback);
  }

  committed(): void {
    for (const callback of this.#afterCommit) callback();
  }

  async #readClock(): Promise<number> {
    if (this.#clock !== undefined) return Math.floor(this.#clock.now());
    return readClock(this.tx);
  }
}

/** Reads the clock of the database. */
export async function readClock(tx: Transaction): Promise<number> {
  const [row] = await tx.query<{ now: number }>(clockStatement, []);
  if (row === undefined) throw new Error('The clock query returned no row.');
  return row.now;
}
