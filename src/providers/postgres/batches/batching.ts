import { setImmediate } from 'node:timers';
import type { Clock } from '../../../model/clock.ts';
import type { Connections } from '../driver/connection.ts';
import type { Effects } from '../../shared/effects.ts';
import { isFaultOfItem } from '../driver/postgres-errors.ts';
import { Scope } from '../driver/scope.ts';

/** The results of a batch in the order of its items, and its effects. */
export interface BatchResult<Result> {
  readonly results: readonly Result[];
  readonly effects: Effects;
}

/** One kind of write, as it is done for many items at once. */
export interface BatchWork<Item, Result> {
  readonly operation: string;
  /** Writes the items and answers each, in their order; runs again when the transaction has to. */
  readonly run: (scope: Scope, items: readonly Item[]) => Promise<readonly Result[]>;
  /** Does the same for plain items in one round trip; `undefined` when one of them is not, and nothing was written. */
  readonly runPlain?: (items: readonly Item[]) => Promise<BatchResult<Result> | undefined>;
  /** The answer for an item that alone cannot be written; without it its call is rejected. */
  readonly refused?: (error: Error) => Result;
  /** How many transactions of this kind run at once; 1 where calls must follow each other. */
  readonly maxInFlight: number;
  /** How many items share one, unless a call has more. Default 1,000, which bounds how long it holds its rows. */
  readonly maxItems?: number;
  /** So many items wait for no others: the server works on them while the process prepares the next. */
  readonly enoughItems?: number;
}

interface Call<Item, Result> {
  readonly items: readonly Item[];
  readonly resolve: (results: readonly Result[]) => void;
  readonly reject: (error: Error) => void;
}

const defaultMaxItems = 1_000;

/** Enough turns for one transaction: a larger one hardly costs less for each. */
export const enoughTurns = 32;

/**
 * Lets all calls of one kind share transactions: those made in one turn of the event loop, as long as they are not
 * enough, and those that come while as many transactions as allowed are under way.
 *
 * B1. If an item spoils its batch, the batch is rolled back and run again in halves, so that only this item fails.
 * B2. Promises settle, waiters wake and hints go out only after COMMIT.
 */
export class Batching<Item, Result> {
  readonly #connections: Connections;
  readonly #clock: Clock | undefined;
  readonly #announce: (effects: Effects) => void;
  readonly #work: BatchWork<Item, Result>;
  #queue: Call<Item, Result>[] = [];
  /** How many items the queue holds. */
  #waiting = 0;
  #inFlight = 0;
  #flushIsDue = false;
  #drained: (() => void)[] = [];

  constructor(
    parts: {
      readonly connections: Connections;
      readonly clock: Clock | undefined;
      readonly announce: (effects: Effects) => void;
    },
    work: BatchWork<Item, Result>,
  ) {
    this.#connections = parts.connections;
    this.#clock = parts.clock;
    this.#announce = parts.announce;
    this.#work = work;
  }

  /** Writes the items in the next batch; settles once that has committed. */
  run(items: readonly Item[]): Promise<readonly Result[]> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ items, resolve, reject });
      this.#waiting += items.length;
      if (this.#waiting >= (this.#work.enoughItems ?? Infinity)) this.#flush();
      else this.#scheduleFlush();
    });
  }

  /** Resolves when nothing waits or is under way. */
  drain(): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  get #isIdle(): boolean {
    return this.#queue.length === 0 && this.#inFlight === 0;
  }

  #scheduleFlush(): void {
    if (this.#flushIsDue || this.#inFlight >= this.#work.maxInFlight) return;
    this.#flushIsDue = true;
    setImmediate(() => {
      this.#flushIsDue = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#inFlight < this.#work.maxInFlight) {
      this.#inFlight += 1;
      void this.#settle(this.#takeBatch()).finally(() => {
        this.#inFlight -= 1;
        if (this.#queue.length > 0) this.#scheduleFlush();
        else if (this.#isIdle) for (const drained of this.#drained.splice(0)) drained();
      });
    }
  }

  #takeBatch(): readonly Call<Item, Result>[] {
    const { maxItems = defaultMaxItems } = this.#work;
    let size = 0;
    const end = this.#queue.findIndex(({ items }) => (size += items.length) > maxItems);
    const batch = this.#queue.splice(0, end === -1 ? this.#queue.length : Math.max(end, 1));
    for (const { items } of batch) this.#waiting -= items.length;
    return batch;
  }

  async #settle(calls: readonly Call<Item, Result>[]): Promise<void> {
    const outcomes = await this.#commit(calls.flatMap(({ items }) => items));
    let start = 0;
    for (const { items, resolve, reject } of calls) {
      const own = outcomes.slice(start, start + items.length);
      start += items.length;
      const failed = own.find((outcome) => !outcome.ok);
      if (failed?.ok === false) reject(failed.error);
      else resolve(own.flatMap((outcome) => (outcome.ok ? [outcome.value] : [])));
    }
  }

  /** Commits the items together, or in parts where that fails. */
  async #commit(items: readonly Item[]): Promise<readonly Outcome<Result>[]> {
    try {
      return (await this.#transact(items)).map((value) => ({ ok: true, value }));
    } catch (error) {
      if (items.length > 1 && isFaultOfItem(error)) return this.#commitHalves(items);
      return this.#failed(items, error as Error);
    }
  }

  async #commitHalves(items: readonly Item[]): Promise<readonly Outcome<Result>[]> {
    const middle = Math.ceil(items.length / 2);
    const first = await this.#commit(items.slice(0, middle));
    return [...first, ...(await this.#commit(items.slice(middle)))];
  }

  #failed(items: readonly Item[], error: Error): readonly Outcome<Result>[] {
    const { refused } = this.#work;
    const outcome: Outcome<Result> =
      refused !== undefined && isFaultOfItem(error)
        ? { ok: true, value: refused(error) }
        : { ok: false, error };
    return items.map(() => outcome);
  }

  async #transact(items: readonly Item[]): Promise<readonly Result[]> {
    const { operation, run, runPlain } = this.#work;
    const plain = await runPlain?.(items);
    if (plain !== undefined) {
      this.#announce(plain.effects);
      return plain.results;
    }
    const { scope, results } = await this.#connections.transaction(operation, async (tx) => {
      const scope = new Scope(tx, this.#clock);
      return { scope, results: await run(scope, items) };
    });
    scope.committed();
    this.#announce(scope.effects);
    return results;
  }
}

type Outcome<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: Error };
