import { systemClock, type Clock } from '../../model/clock.ts';
import { notFound, ProviderError } from '../../model/failures/errors.ts';
import { isTerminal } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import type { StateRequest, StateView } from '../../providers/contract/state.ts';
import {
  clientClosed,
  instanceReplaced,
  noVersionInTime,
  overWithoutVersion,
} from './instance-errors.ts';

/** A stored value with its version. */
export interface StoredVersion {
  readonly payload: Payload | null;
  readonly version: number;
}

interface StateWaiterParams {
  readonly provider: Provider;
  /** Times the timeouts of waits. */
  readonly clock: Clock;
  /** Times the polls without a hint. Not the injected clock, which may skip a month. */
  readonly recheckClock?: Clock;
  /** Polling interval of waits without a hint. Default 1 s. */
  readonly recheckMs?: number | undefined;
}

const defaultRecheckMs = 1_000;
// At most 2,000 rows per second: with more waits, polls are further apart.
const waitsPerMs = 2;
const maxBatch = 200;

/**
 * Waits for versions of state and custom status, for all waits of a client.
 *
 * A wait listens before it reads, so it misses no version. Hints name the instances to read again. They may be lost:
 * without one, all waits read again every second. Without waits there is no listener and no timer.
 */
export class StateWaiter {
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #recheckClock: Clock;
  readonly #recheckMs: number;
  readonly #reads: BatchedReads;
  readonly #wakeups = new Map<string, Set<() => void>>();
  readonly #closing = new AbortController();
  #stopListening: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;

  constructor(params: StateWaiterParams) {
    this.#provider = params.provider;
    this.#clock = params.clock;
    this.#recheckClock = params.recheckClock ?? systemClock;
    this.#recheckMs = params.recheckMs ?? defaultRecheckMs;
    this.#reads = new BatchedReads(params.provider);
  }

  /**
   * Resolves with a version above `after` of one incarnation. Rejects with `INSTANCE_OVER` once that has ended without
   * one, with `TIMEOUT`, or with the reason of the signal.
   */
  async wait(
    request: StateRequest,
    timeoutMs: number | undefined,
    signal?: AbortSignal,
  ): Promise<StoredVersion> {
    if (this.#closing.signal.aborted) throw clientClosed();
    signal?.throwIfAborted();
    const wait = new Wait(request);
    const { instanceId } = request;
    const wake = (): void => wait.wake();
    const cancelTimeout =
      timeoutMs === undefined ? undefined : this.#clock.setTimer(timeoutMs, () => wait.timeOut());
    signal?.addEventListener('abort', wake);
    this.#closing.signal.addEventListener('abort', wake);
    this.#add(instanceId, wake);
    try {
      for (;;) {
        const woken = wait.next();
        const isLast = wait.isTimedOut;
        const found = await this.#read(wait, isLast ? timeoutMs : undefined);
        if (found !== undefined) return found;
        if (isLast) throw noVersionInTime(request, timeoutMs ?? 0);
        await woken;
        if (this.#closing.signal.aborted) throw clientClosed();
        signal?.throwIfAborted();
      }
    } finally {
      cancelTimeout?.();
      signal?.removeEventListener('abort', wake);
      this.#closing.signal.removeEventListener('abort', wake);
      this.#remove(instanceId, wake);
    }
  }

  /** Rejects all current and later waits with `CLOSED`. */
  close(): void {
    this.#closing.abort();
  }

  /** Reads what a wait needs. A retryable error of the store counts as no news, until the timeout. */
  async #read(wait: Wait, lastMs: number | undefined): Promise<StoredVersion | undefined> {
    try {
      return wait.check(await this.#reads.read(wait.request));
    } catch (error) {
      if (!(error instanceof ProviderError && error.retryable)) throw error;
      if (lastMs !== undefined) throw noVersionInTime(wait.request, lastMs, error);
      return undefined;
    }
  }

  #add(instanceId: string, wake: () => void): void {
    const others = this.#wakeups.get(instanceId);
    if (others === undefined) this.#wakeups.set(instanceId, new Set([wake]));
    else others.add(wake);
    this.#stopListening ??= this.#provider.hints((hint) => this.#onHint(hint));
    this.#cancelRecheck ??= this.#setRecheck();
  }

  #remove(instanceId: string, wake: () => void): void {
    const others = this.#wakeups.get(instanceId);
    others?.delete(wake);
    if (others?.size === 0) this.#wakeups.delete(instanceId);
    if (this.#wakeups.size > 0) return;
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'missed') this.#wakeAll();
    if (hint.kind !== 'statusSet' && hint.kind !== 'finished') return;
    for (const id of hint.instanceIds) for (const wake of this.#wakeups.get(id) ?? []) wake();
  }

  #setRecheck(): () => void {
    const delayMs = Math.max(this.#recheckMs, this.#wakeups.size / waitsPerMs);
    return this.#recheckClock.setTimer(delayMs, () => {
      this.#cancelRecheck = this.#setRecheck();
      this.#wakeAll();
    });
  }

  #wakeAll(): void {
    for (const wakeups of this.#wakeups.values()) for (const wake of wakeups) wake();
  }
}

/** One wait: what it needs, and whether it was woken since its last read began. */
class Wait {
  readonly request: StateRequest;
  isTimedOut = false;
  #incarnation: string | undefined;
  #wake: () => void = () => undefined;

  constructor(request: StateRequest) {
    this.request = request;
  }

  /** Call it before a read: `wake` during the read resolves the promise, too. */
  next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }

  wake(): void {
    this.#wake();
  }

  timeOut(): void {
    this.isTimedOut = true;
    this.#wake();
  }

  /** Returns the version that the wait needs. Throws if there will be none. */
  check(view: StateView | undefined): StoredVersion | undefined {
    const { instanceId } = this.request;
    if (view === undefined) throw notFound(instanceId);
    this.#incarnation ??= view.incarnation;
    if (view.incarnation !== this.#incarnation) throw instanceReplaced(instanceId);
    const found = view.customStatus ?? view.entries[0];
    if (found !== undefined) return found;
    if (isTerminal(view.status)) throw overWithoutVersion(this.request, view.status);
    return undefined;
  }
}

/** Reads for all waits that are woken in the same microtask in one call, and one call at a time. */
class BatchedReads {
  readonly #provider: Provider;
  #due: { request: StateRequest; result: PromiseWithResolvers<StateView | undefined> }[] = [];
  #isReading = false;

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  read(request: StateRequest): Promise<StateView | undefined> {
    const result = Promise.withResolvers<StateView | undefined>();
    this.#due.push({ request, result });
    if (!this.#isReading) {
      this.#isReading = true;
      queueMicrotask(() => void this.#readAll());
    }
    return result.promise;
  }

  async #readAll(): Promise<void> {
    while (this.#due.length > 0) {
      const batch = this.#due.slice(0, maxBatch);
      this.#due = this.#due.slice(maxBatch);
      try {
        const views = await this.#provider.readStates(batch.map(({ request }) => request));
        for (const [index, { result }] of batch.entries()) result.resolve(views[index]);
      } catch (error) {
        for (const { result } of batch) result.reject(error);
      }
    }
    this.#isReading = false;
  }
}
