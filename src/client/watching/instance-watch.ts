import { ProviderError } from '../../model/failures/errors.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import { clientClosed } from '../waiting/instance-errors.ts';
import type { InstanceChange } from './watched-ids.ts';
import { platform } from '../../model/platform.ts';

interface Listener {
  readonly ids: readonly string[];
  /** Ids whose first state it has not received. */
  readonly unseen: Set<string>;
  /** The latest states that it has not received. */
  readonly pending: Map<string, InstanceChange>;
  wake: () => void;
  error: Error | undefined;
}

// Minimum time between two messages to one listener, and between two reads.
const spacingMs = 100;
// Reads take at most a fiftieth of the time, so that they cost a busy worker less than 3 % of its throughput.
const pauseFactor = 50;
// The longest pause before a read after a hint that names a watched instance.
const maxPauseMs = 350;
// SQLite reads this many rows in about 4 ms.
const maxSlice = 500;
const defaultRecheckMs = 1_000;

/**
 * Watches instances for all listeners of a process.
 *
 * V1. One read per round covers the union of all watched ids, so the number of listeners does not matter.
 * V2. A hint starts a round, at most every 100 ms. Reads that take long are further apart, unless the hint names a watched
 *     instance. Hints may be lost: without one, a round starts every second.
 * V3. A listener gets the latest state of an id at most once per message: a slow one has no backlog.
 * V4. Without listeners there is no hint subscription, no timer and no read.
 */
export class InstanceWatch {
  readonly #provider: Provider;
  readonly #recheckMs: number;
  readonly #listeners = new Set<Listener>();
  readonly #watched = new Map<string, Set<Listener>>();
  /** The state of each watched id at the last read. */
  readonly #last = new Map<string, InstanceChange>();
  /** When a change of a watched id was found, by `platform.monotonic()`. */
  readonly #changedAt = new Map<string, number>();
  #stopListening: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  /** The earliest times of the next read: after any hint, and after one that names a watched instance. */
  #nextReadAt = 0;
  #nextNamedReadAt = 0;
  #isReading = false;
  #isDue = false;
  #isNamed = false;
  #closed = false;

  constructor(provider: Provider, recheckMs: number = defaultRecheckMs) {
    this.#provider = provider;
    this.#recheckMs = recheckMs;
  }

  /** Yields the state of each id, then the states that changed. Throws the reason of the signal when that aborts. */
  async *changes(
    ids: readonly string[],
    signal?: AbortSignal,
  ): AsyncGenerator<readonly InstanceChange[], void, undefined> {
    if (this.#closed) throw clientClosed();
    const listener: Listener = {
      ids,
      unseen: new Set(ids),
      pending: new Map(),
      wake: () => undefined,
      error: undefined,
    };
    this.#add(listener);
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (listener.error !== undefined) throw listener.error;
        if (listener.pending.size === 0) {
          await this.#wait(listener, signal);
          continue;
        }
        const batch = [...listener.pending.values()];
        listener.pending.clear();
        yield batch;
        await this.#wait(listener, signal, spacingMs);
      }
    } finally {
      this.#remove(listener);
    }
  }

  /** Returns when a change of a watched id was last found, by `platform.monotonic()`. */
  changedAt(id: string): number | undefined {
    return this.#changedAt.get(id);
  }

  /** Rejects all listeners with `CLOSED`. */
  close(): void {
    this.#closed = true;
    this.#fail(clientClosed());
  }

  #wait(listener: Listener, signal: AbortSignal | undefined, ms?: number): Promise<void> {
    if (listener.error !== undefined || signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        platform.clearTimeout(timer);
        signal?.removeEventListener('abort', end);
        listener.wake = () => undefined;
        resolve();
      };
      const timer = ms === undefined ? undefined : platform.setTimeout(end, ms);
      signal?.addEventListener('abort', end, { once: true });
      // During the pause between two messages, only an error ends the wait.
      listener.wake = () => {
        if (ms === undefined || listener.error !== undefined) end();
      };
    });
  }

  #add(listener: Listener): void {
    this.#listeners.add(listener);
    for (const id of listener.ids) {
      const others = this.#watched.get(id);
      if (others === undefined) this.#watched.set(id, new Set([listener]));
      else others.add(listener);
    }
    this.#stopListening ??= this.#provider.hints((hint) => this.#onHint(hint));
    // The first states are read immediately.
    this.#isDue = true;
    this.#schedule(0);
  }

  #remove(listener: Listener): void {
    this.#listeners.delete(listener);
    for (const id of listener.ids) {
      const others = this.#watched.get(id);
      others?.delete(listener);
      if (others?.size !== 0) continue;
      this.#watched.delete(id);
      this.#last.delete(id);
      this.#changedAt.delete(id);
    }
    if (this.#listeners.size > 0) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
    platform.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'emitted' || hint.kind === 'cancelRequested') return;
    this.#isDue = true;
    if ('instanceIds' in hint)
      this.#isNamed ||= hint.instanceIds.some((id) => this.#watched.has(id));
    if (!this.#isReading) this.#schedule(this.#dueAt() - platform.monotonic());
  }

  #dueAt(): number {
    return this.#isNamed ? this.#nextNamedReadAt : this.#nextReadAt;
  }

  #schedule(ms: number): void {
    if (this.#listeners.size === 0) return;
    const at = platform.monotonic() + ms;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    platform.clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = platform.setTimeout(() => void this.#round(), Math.max(ms, 0));
  }

  async #round(): Promise<void> {
    this.#timer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    if (this.#isReading) return;
    this.#isReading = true;
    this.#isDue = false;
    this.#isNamed = false;
    const startedAt = platform.monotonic();
    try {
      const ids = [...this.#watched.keys()];
      for (let from = 0; from < ids.length; from += maxSlice) {
        await this.#read(ids.slice(from, from + maxSlice));
      }
    } catch (error) {
      // A retryable error is retried by the next round.
      const isRetryable = error instanceof ProviderError && error.retryable;
      if (!isRetryable) this.#fail(error as Error);
    }
    this.#isReading = false;
    const endedAt = platform.monotonic();
    const longestMs = Math.max(maxPauseMs, this.#recheckMs);
    const pauseMs = Math.min(longestMs, Math.max(spacingMs, (endedAt - startedAt) * pauseFactor));
    this.#nextReadAt = endedAt + pauseMs;
    this.#nextNamedReadAt = endedAt + Math.min(pauseMs, maxPauseMs);
    this.#schedule(this.#isDue ? this.#dueAt() - endedAt : Math.max(pauseMs, this.#recheckMs));
  }

  async #read(ids: readonly string[]): Promise<void> {
    const found = await this.#provider.readVersions(ids);
    for (const [index, id] of ids.entries()) {
      const version = found[index];
      const state: InstanceChange =
        version === undefined
          ? { id, status: null, executionId: 0, customStatusVersion: 0, version: '' }
          : {
              id,
              name: version.name,
              status: version.status,
              executionId: version.executionId,
              customStatusVersion: version.customStatusVersion,
              version: version.version,
            };
      const listeners = this.#watched.get(id);
      if (listeners === undefined) continue;
      const isNew = this.#last.get(id)?.version !== state.version;
      if (isNew) this.#changedAt.set(id, platform.monotonic());
      this.#last.set(id, state);
      for (const listener of listeners) {
        if (!listener.unseen.delete(id) && !isNew) continue;
        listener.pending.set(id, state);
        listener.wake();
      }
    }
  }

  #fail(error: Error): void {
    for (const listener of this.#listeners) {
      listener.error = error;
      listener.wake();
    }
  }
}
