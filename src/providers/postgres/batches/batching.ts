import { setImmediate } from 'node:timers';
import type { Clock } from '../../../model/clock.ts';
import type { Connections } from '../driver/connection.ts';
import type { Effects } from '../../shared/effects.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import { isFaultOfItem } from '../driver/postgres-errors.ts';
import { Scope } from '../driver/scope.ts';
import type { LimitedDefinitions } from './limited-definitions.ts';
import type { Definitions } from '../tables/definitions.ts';

/** The results of a batch in the order of its items, and its effects. */
export interface BatchResult<Result> {
  readonly results: readonly Result[];
  readonly effects: Effects;
}

/** The parts of a store that a single-statement path uses. */
export interface PathParts {
  readonly connections: Connections;
  readonly definitions: Definitions;
  readonly limited: LimitedDefinitions;
  readonly secrets: Secrets;
  readonly schema: string;
}

/** A kind of write that many calls share. */
export interface BatchWork<Item, Result> {
  readonly operation: string;
  /** Writes the items and returns their results in order. Runs again if the transaction is retried. */
  readonly run: (scope: Scope, items: readonly Item[]) => Promise<readonly Result[]>;
  /** Does the same in one round trip. Returns `undefined` if an item is not eligible; then nothing was written. */
  readonly runSingleStatement?: (
    items: readonly Item[],
  ) => Promise<BatchResult<Result> | undefined>;
  /** The time of the transaction of these items. `null`, and the default: that of the clock. */
  readonly time?: (items: readonly Item[]) => number | null;
  /** The result of an item that caused an error. Without it the call rejects. */
  readonly refused?: (error: Error) => Result;
  /** Maximum concurrent transactions of this kind; 1 keeps calls in order. */
  readonly maxInFlight: number;
  /** Maximum items per transaction, unless a single call has more. Bounds how long row locks are held. Default: 1,000. */
  readonly maxItems?: number;
  /** Number of queued items that starts a transaction without waiting for the end of the event loop iteration. */
  readonly enoughItems?: number;
}

interface Call<Item, Result> {
  readonly items: readonly Item[];
  readonly resolve: (results: readonly Result[]) => void;
  readonly reject: (error: Error) => void;
}

const defaultMaxItems = 1_000;

/** `enoughItems` for turns: larger transactions hardly cost less per turn. */
export const enoughTurns = 32;

/**
 * Batches calls of one kind into shared transactions: calls of the same event loop iteration, and calls that arrive while
 * `maxInFlight` transactions are running.
 *
 * B1. If an item causes an error, its batch is rolled back and retried in halves, so that only this item fails.
 * B2. Promises settle and hints are sent only after COMMIT.
 */
export class Batching<Item, Result> {
  readonly #connections: Connections;
  readonly #clock: Clock | undefined;
  readonly #announce: (effects: Effects) => void;
  readonly #work: BatchWork<Item, Result>;
  #queue: Call<Item, Result>[] = [];
  /** The number of items in the queue. */
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

  /** Adds the items to the next batch. Resolves with their results after the commit. */
  run(items: readonly Item[]): Promise<readonly Result[]> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ items, resolve, reject });
      this.#waiting += items.length;
      if (this.#waiting >= (this.#work.enoughItems ?? Infinity)) this.#flush();
      else this.#scheduleFlush();
    });
  }

  /** Resolves when no call is queued or running. */
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

  /** Commits the items together or, if that fails, in halves. */
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
    const { operation, run, runSingleStatement, time } = this.#work;
    const batch = await runSingleStatement?.(items);
    if (batch !== undefined) {
      this.#announce(batch.effects);
      return batch.results;
    }
    const { scope, results } = await this.#connections.transaction(operation, async (tx) => {
      const scope = new Scope(tx, this.#clock, time?.(items) ?? undefined);
      return { scope, results: await run(scope, items) };
    });
    scope.committed();
    this.#announce(scope.effects);
    return results;
  }
}

type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: Error };
