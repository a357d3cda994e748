import { ProviderError } from '../../../src/model/failures/errors.ts';
import type { Clock } from '../../../src/model/clock.ts';
import type { Hint, Provider } from '../../../src/providers/contract/provider.ts';
import { writeMethods, type StoreCall, type WriteMethod } from './store-call.ts';

/** Where a call can be held: before it reaches the store, or after its commit and before its response. */
export type HoldPoint = `${WriteMethod}:${'before' | 'after'}`;

/** The outcome of a held call: success, or a store error before or after the commit. */
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
  /** Called after each commit, before the next one. */
  readonly onCommitted: (call: StoreCall, connection: Connection) => Promise<void>;
}

type Method = (...args: readonly unknown[]) => Promise<unknown>;

const written: ReadonlySet<unknown> = new Set(writeMethods);

/** Methods of the registry. They run in the order of commits, and the model does not observe them. */
const registering: ReadonlySet<unknown> = new Set<keyof Provider>([
  'registerProcess',
  'unregisterProcess',
  'listProcesses',
  'registerWorkers',
  'renewWorkers',
  'unregisterWorkers',
]);

/** The host of all processes of a scenario. */
export const modelHostId = 'host';

/**
 * All store calls of a scenario pass through here: one commit at a time, so that commits have one order. Some calls are
 * held until their release.
 */
export class StoreBoundary {
  readonly #params: BoundaryParams;
  readonly #stores: Provider[] = [];
  readonly #listeners = new Set<(store: Provider) => void>();
  #holdPoints: ReadonlySet<HoldPoint> = new Set();
  #lastCommit: Promise<unknown> = Promise.resolve();
  #changed = Promise.withResolvers<void>();
  #underWay = 0;
  /** Counts all activity here: while it changes, the processes are not idle. */
  moves = 0;
  held: HeldCall[] = [];
  listeners = 0;

  constructor(params: BoundaryParams) {
    this.#params = params;
  }

  get isBusy(): boolean {
    return this.#underWay > 0;
  }

  /** Connects a process. `store` is its own provider on the database of the scenario. */
  connect({ store = this.store, pid }: { readonly store?: Provider; readonly pid?: number } = {}) {
    if (!this.#stores.includes(store)) {
      this.#stores.push(store);
      for (const add of this.#listeners) add(store);
    }
    return new Connection(this, store, pid);
  }

  /** Subscribes to the hints of all providers, as if each were polled immediately. */
  listen(listener: (hint: Hint) => void): () => void {
    const unsubscribe: (() => void)[] = [];
    const add = (store: Provider): void => void unsubscribe.push(store.hints(listener));
    for (const store of this.#stores) add(store);
    this.#listeners.add(add);
    return () => {
      this.#listeners.delete(add);
      for (const stop of unsubscribe) stop();
    };
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

  /** Releases one held call. */
  release(index: number, fate: Fate): string | undefined {
    const [call] = this.held.splice(index % Math.max(this.held.length, 1), 1);
    call?.goOn(fate);
    return call?.point;
  }

  /** Sets the points at which calls are held. */
  holdAt(points: readonly HoldPoint[]): void {
    this.#holdPoints = new Set(points);
  }

  /** Releases all calls and holds no more. */
  open(): void {
    this.#holdPoints = new Set();
    for (const { goOn } of this.held.splice(0)) goOn('go');
  }

  /** Drops the held calls of a crashed process. */
  forget(connection: Connection): void {
    this.held = this.held.filter((call) => call.connection !== connection);
  }

  async hold(point: HoldPoint, connection: Connection): Promise<Fate> {
    this.moves += 1;
    if (!this.#holdPoints.has(point)) return 'go';
    return new Promise((goOn) => this.held.push({ point, connection, goOn }));
  }

  /** Runs one call at the store, and lets the model observe it before the next one. */
  async commit(method: WriteMethod, args: readonly unknown[], from: Connection): Promise<unknown> {
    return this.serialize(async () => {
      const inner = from.store[method] as Method;
      const result = await inner(...args);
      const isLook = Array.isArray(result) && result.length === 0;
      if (!isLook) await this.#params.onCommitted({ method, args, result } as StoreCall, from);
      return result;
    });
  }

  /** Runs a step after all earlier ones. */
  async serialize<T>(step: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    const commit = this.#lastCommit.then(step);
    this.#lastCommit = commit.catch(() => undefined);
    try {
      return await commit;
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Resolves when a fetch may find new entries. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Wakes fetches after a change in the store or of the clock. */
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

/** The store of one process, until that process crashes. */
export class Connection {
  readonly provider: Provider;
  readonly store: Provider;
  readonly #boundary: StoreBoundary;
  readonly #listeners = new Set<() => void>();
  readonly #pid: number | undefined;
  #isCut = false;
  /** Calls that were held when the process crashed still reach the store. */
  #reachesStore = false;

  constructor(boundary: StoreBoundary, own: Provider, pid: number | undefined) {
    this.#boundary = boundary;
    this.store = own;
    this.#pid = pid;
    this.provider = new Proxy(own, {
      get: (store, property) => {
        if (property === 'hints') return (listener: (hint: Hint) => void) => this.#listen(listener);
        if (property === 'close') return () => Promise.resolve();
        const value: unknown = Reflect.get(store, property);
        if (typeof value !== 'function') return value;
        if (property === 'fetchOrchestrationItems' || property === 'fetchWorkItems') {
          return (params: Fetch) => this.#fetch(property, params);
        }
        if (registering.has(property)) {
          return (...args: readonly unknown[]) =>
            this.#register(property as keyof Provider, value as Method, args);
        }
        return written.has(property)
          ? (...args: readonly unknown[]) => this.#write(property as WriteMethod, args)
          : (...args: readonly unknown[]) => this.#read(value as Method, args);
      },
    });
  }

  /**
   * The process crashed: no new call reaches the store, and no response reaches the process. Held calls are lost, or
   * with `inFlight` reach the store when they are released.
   */
  cut({ inFlight }: { readonly inFlight: boolean }): void {
    this.#isCut = true;
    this.#reachesStore = inFlight;
    if (!inFlight) this.#boundary.forget(this);
    for (const stop of this.#listeners) stop();
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  // The worker registers with the pid of its simulated process, and sees no other one. `World` runs the takeovers.
  async #register(
    name: keyof Provider,
    method: Method,
    args: readonly unknown[],
  ): Promise<unknown> {
    if (this.#isCut) return this.#ifAlive(undefined);
    const pid = this.#pid;
    const call = (): Promise<unknown> => {
      if (pid === undefined) return method(...args);
      if (name === 'listProcesses') return Promise.resolve([]);
      if (name === 'registerProcess') {
        const process = { hostId: modelHostId, pid, startTime: '1' };
        return method({ ...(args[0] as object), ...process });
      }
      if (name === 'renewWorkers') return method({ ...(args[0] as object), hostId: null });
      return method(...args);
    };
    return this.#ifAlive(await this.#boundary.serialize(call));
  }

  async #read(method: Method, args: readonly unknown[]): Promise<unknown> {
    return this.#ifAlive(await method(...args));
  }

  async #write(method: WriteMethod, args: readonly unknown[]): Promise<unknown> {
    const boundary = this.#boundary;
    await this.#ifAlive(undefined);
    const fate = await boundary.hold(`${method}:before`, this);
    if (!this.#reachesStore) await this.#ifAlive(undefined);
    if (fate === 'fail') throw unavailable(method);
    const result = await boundary.commit(method, args, this);
    boundary.wakeUp();
    const lateFate = await boundary.hold(`${method}:after`, this);
    if (fate !== 'go' || lateFate !== 'go') throw unavailable(method);
    return this.#ifAlive(result);
  }

  // A waiting fetch is split into queries, so that claims have a place in the order of commits.
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
    // The code of a crashed process runs on in this simulation; it must not subscribe again.
    if (!boundary.hints || this.#isCut) return () => undefined;
    boundary.listeners += 1;
    const unsubscribe = boundary.listen(listener);
    const stop = (): void => {
      if (!this.#listeners.delete(stop)) return;
      boundary.listeners -= 1;
      unsubscribe();
    };
    this.#listeners.add(stop);
    return stop;
  }

  /** A crashed process gets no response. */
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
