import type { Clock } from '../../../model/clock.ts';
import type { Statement, Transaction } from './connection.ts';
import { Effects } from '../../shared/effects.ts';

/** The time of the database in whole milliseconds; stable within a statement, so that an index can be compared with it. */
const databaseTime = 'floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint';

/** The time that decides, in a statement whose first parameter is that of a test's clock, or NULL. */
export const nowSql = `(SELECT coalesce($1::bigint, ${databaseTime}))`;

const readClock: Statement = { name: 'perdure_clock', text: `SELECT ${databaseTime} AS "now"` };

/** A test's clock, if there is one, as the first parameter of a statement with `nowSql`. */
export function nowParameter(clock: Clock | undefined): number | null {
  return clock === undefined ? null : Math.floor(clock.now());
}

/** The transaction that a batch runs in. */
export class Scope {
  readonly tx: Transaction;
  /** What to tell others once the transaction has committed. */
  readonly effects = new Effects();
  readonly #clock: Clock | undefined;
  readonly #afterCommit: (() => void)[] = [];
  #now: number | undefined;

  constructor(tx: Transaction, clock: Clock | undefined) {
    this.tx = tx;
    this.#clock = clock;
  }

  /** The time that decides; one value for the whole batch, read by `begin`. */
  get now(): number {
    if (this.#now === undefined) throw new Error('The clock is read by the first statements.');
    return this.#now;
  }

  /** The time that `begin` has read, if it has. */
  get readAt(): number | undefined {
    return this.#now;
  }

  /** The first parameter of statements that compare with the clock while it is being read. */
  get nowParameter(): number | null {
    return this.#now ?? nowParameter(this.#clock);
  }

  /** Reads the clock together with the first reads of the batch: they travel in one round trip. */
  async begin<Reads extends readonly unknown[]>(
    ...reads: Reads
  ): Promise<{ [I in keyof Reads]: Awaited<Reads[I]> }> {
    const [now, ...results] = await Promise.all([this.#readClock(), ...reads]);
    this.#now = now;
    return results;
  }

  /** Runs once the transaction has committed. */
  afterCommit(callback: () => void): void {
    this.#afterCommit.push(callback);
  }

  committed(): void {
    for (const callback of this.#afterCommit) callback();
  }

  async #readClock(): Promise<number> {
    if (this.#clock !== undefined) return Math.floor(this.#clock.now());
    const [row] = await this.tx.query<{ now: number }>(readClock, []);
    if (row === undefined) throw new Error('The clock has no answer.');
    return row.now;
  }
}
