import { ProviderError } from '../../src/model/failures/errors.ts';
import type { Clock } from '../../src/model/clock.ts';
import type { Hint, Provider } from '../../src/providers/contract/provider.ts';
import { writeMethods, type StoreCall, type WriteMethod } from './store-call.ts';

/** Where a call can be held: before the store sees it, or after it has committed and before the caller hears. */
export type HoldPoint = `${WriteMethod}:${'before' | 'after'}`;

/** What becomes of a held call: it goes on, or the caller is told that the store failed, before or after the commit. */
export type Fate = 'go' | 'fail' | 'commitAndFail';

interface HeldCall {
  readonly point: HoldPoint;
  readonly connection: Connection;
  readonly goOn: (fate: Fate) => void;
}

export interface BoundaryParams {
  readonly store: Provider;
  readonly clock: Clock;
  readonly hints: boolean;
  /** Called after each commit, before any other one. */
  readonly onCommitted: (call: StoreCall, connection: Connection) => Promise<void>;
}

type Method = (...args: readonly unknown[]) => Promise<unknown>;

const written: ReadonlySet<unknown> = new Set(writeMethods);

/**
 * Everything that the processes of a scenario ask of the store passes here: one commit at a time, so that there is
 * one order of commits, and some calls are held until they are released.
 */
export class StoreBoundary {
  readonly #params: BoundaryParams;
  #holdPoints: ReadonlySet<HoldPoint> = new Set();
  #lastCommit: Promise<unknown> = Promise.resolve();
  #changed = Promise.withResolvers<void>();
  #underWay = 0;
  /** Counts whatever happens here: while it moves, the processes are not at rest. */
  moves = 0;
  held: HeldCall[] = [];
  listeners = 0;

  constructor(params: BoundaryParams) {
    this.#params = params;
  }

  get isBusy(): boolean {
    return this.#underWay > 0;
  }

  connect(): Connection {
    return new Connection(this);
  }

  get hints(): boolean {
    return this.#params.hints;
  }

  get store(): Provider {
    return this.#params.store;
  }

  now(): number {
    return this.#params.clock.now();
  }

  /** Lets one held call go on. */
  release(index: number, fate: Fate): string | undefined {
    const [call] = this.held.splice(index % Math.max(this.held.length, 1), 1);
    call?.goOn(fate);
    return call?.point;
  }

  /** Holds calls at these points from now on. */
  holdAt(points: readonly HoldPoint[]): void {
    this.#holdPoints = new Set(points);
  }

  /** Holds nothing any more. */
  open(): void {
    this.#holdPoints = new Set();
    for (const { goOn } of this.held.splice(0)) goOn('go');
  }

  /** Forgets the calls of a process that is gone. */
  forget(connection: Connection): void {
    this.held = this.held.filter((call) => call.connection !== connection);
  }

  async hold(point: HoldPoint, connection: Connection): Promise<Fate> {
    this.moves += 1;
    if (!this.#holdPoints.has(point)) return 'go';
    return new Promise((goOn) => this.held.push({ point, connection, goOn }));
  }

  /** Runs one call at the store, and lets the model see it before the next one. */
  async commit(method: WriteMethod, args: readonly unknown[], from: Connection): Promise<unknown> {
    this.#underWay += 1;
    const commit = this.#lastCommit.then(async () => {
      const inner = this.#params.store[method] as Method;
      const result = await inner(...args);
      const isLook = Array.isArray(result) && result.length === 0;
      if (!isLook) await this.#params.onCommitted({ method, args, result } as StoreCall, from);
      return result;
    });
    this.#lastCommit = commit.catch(() => undefined);
    try {
      return await commit;
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Resolves when there may be something new to fetch. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Something has changed in the store, or time has passed. */
  wakeUp(): void {
    this.moves += 1;
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

interface Fetch {
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

/** The store as one process sees it, until that process is gone. */
export class Connection {
  readonly provider: Provider;
  readonly #boundary: StoreBoundary;
  readonly #listeners = new Set<() => void>();
  #isCut = false;

  constructor(boundary: StoreBoundary) {
    this.#boundary = boundary;
    this.provider = new Proxy(boundary.store, {
      get: (store, property) => {
        if (property === 'hints') return (listener: (hint: Hint) => void) => this.#listen(listener);
        if (property === 'close') return () => Promise.resolve();
        const value: unknown = Reflect.get(store, property);
        if (typeof value !== 'function') return value;
        if (property === 'fetchOrchestrationItems' || property === 'fetchWorkItems') {
          return (params: Fetch) => this.#fetch(property, params);
        }
        return written.has(property)
          ? (...args: readonly unknown[]) => this.#write(property as WriteMethod, args)
          : (...args: readonly unknown[]) => this.#read(value as Method, args);
      },
    });
  }

  /** The process is gone: nothing of it reaches the store any more, and nothing reaches it. */
  cut(): void {
    this.#isCut = true;
    this.#boundary.forget(this);
    for (const stop of this.#listeners) stop();
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  async #read(method: Method, args: readonly unknown[]): Promise<unknown> {
    return this.#ifAlive(await method(...args));
  }

  async #write(method: WriteMethod, args: readonly unknown[]): Promise<unknown> {
    const boundary = this.#boundary;
    const fate = await boundary.hold(`${method}:before`, this);
    await this.#ifAlive(undefined);
    if (fate === 'fail') throw unavailable(method);
    const result = await boundary.commit(method, args, this);
    boundary.wakeUp();
    const lateFate = await boundary.hold(`${method}:after`, this);
    if (fate !== 'go' || lateFate !== 'go') throw unavailable(method);
    return this.#ifAlive(result);
  }

  // Waits are cut up into looks, so that claims too have their place in the order of commits.
  async #fetch(
    method: 'fetchOrchestrationItems' | 'fetchWorkItems',
    params: Fetch,
  ): Promise<unknown> {
    const boundary = this.#boundary;
    const deadline = boundary.now() + params.waitMs;
    const aborted = new Promise<void>((resolve) => {
      params.signal?.addEventListener('abort', () => resolve(), { once: true });
    });
    await boundary.hold(`${method}:before`, this);
    for (;;) {
      await this.#ifAlive(undefined);
      const { changed } = boundary;
      const items =
        params.signal?.aborted === true
          ? []
          : await boundary.commit(method, [{ ...params, waitMs: 0 }], this);
      if ((items as readonly unknown[]).length > 0) {
        boundary.wakeUp();
        const fate = await boundary.hold(`${method}:after`, this);
        if (fate !== 'go') throw unavailable(method);
        return this.#ifAlive(items);
      }
      if (params.signal?.aborted === true || boundary.now() >= deadline) return items;
      await Promise.race([changed, aborted]);
    }
  }

  #listen(listener: (hint: Hint) => void): () => void {
    const boundary = this.#boundary;
    if (!boundary.hints) return () => undefined;
    boundary.listeners += 1;
    const unsubscribe = boundary.store.hints(listener);
    const stop = (): void => {
      if (!this.#listeners.delete(stop)) return;
      boundary.listeners -= 1;
      unsubscribe();
    };
    this.#listeners.add(stop);
    return stop;
  }

  /** A process that is gone never hears an answer. */
  #ifAlive<T>(value: T): T | Promise<T> {
    return this.#isCut ? new Promise<never>(() => undefined) : value;
  }
}

function unavailable(method: string): ProviderError {
  return new ProviderError({
    operation: method,
    message: `${method}: the store cannot be reached. Try again.`,
    retryable: true,
  });
}
