/** The outcome of one wait. */
export type PollResult<Value> = { readonly key: string } & (
  | { readonly value: Value }
  | { readonly error: Error }
);

/** Makes one long request; resolves with the results that came in time, possibly none. */
export type Ask<Request, Value> = (
  requests: readonly Request[],
  signal: AbortSignal,
) => Promise<readonly PollResult<Value>[]>;

interface Entry<Request, Value> {
  readonly request: Request;
  readonly waiters: Set<PromiseWithResolvers<Value>>;
}

interface Poll {
  readonly keys: readonly string[];
  readonly abort: AbortController;
  /** Number of its keys that still have a waiter. */
  wanted: number;
}

const maxKeys = 1_000;
const maxPolls = 2;

/**
 * Long polling: batches many waits into few requests.
 *
 * P1. New waits start a poll of their own instead of aborting the running ones. At `maxPolls`, polls with room are
 *     aborted and joined with the new waits.
 * P2. The keys of an aborted poll are requested again, so no result is lost.
 * P3. Without waits there is no request.
 */
export class SharedPoll<Request, Value> {
  readonly #ask: Ask<Request, Value>;
  readonly #slots: PollSlots;
  readonly #entries = new Map<string, Entry<Request, Value>>();
  readonly #polls = new Set<Poll>();
  readonly #polled = new Map<string, Poll>();
  readonly #unpolled = new Set<string>();
  #isScheduled = false;

  constructor(slots: PollSlots, ask: Ask<Request, Value>) {
    this.#slots = slots;
    this.#ask = ask;
  }

  /** Resolves with the result. Rejects with the reason of the signal if that aborts first. */
  async wait(key: string, request: Request, signal?: AbortSignal): Promise<Value> {
    signal?.throwIfAborted();
    const waiter = Promise.withResolvers<Value>();
    this.#add(key, request, waiter);
    if (signal === undefined) return waiter.promise;
    const onAbort = (): void => {
      this.#remove(key, waiter);
      waiter.reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    try {
      return await waiter.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Rejects all waits with this error. */
  close(error: Error): void {
    for (const poll of this.#polls) this.#abort(poll);
    for (const key of this.#entries.keys()) this.#settle({ key, error });
  }

  #add(key: string, request: Request, waiter: PromiseWithResolvers<Value>): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      entry.waiters.add(waiter);
      return;
    }
    this.#entries.set(key, { request, waiters: new Set([waiter]) });
    const poll = this.#polled.get(key);
    if (poll !== undefined) {
      poll.wanted += 1;
      return;
    }
    this.#unpolled.add(key);
    this.#schedule();
  }

  #remove(key: string, waiter: PromiseWithResolvers<Value>): void {
    const entry = this.#entries.get(key);
    if (entry?.waiters.delete(waiter) !== true || entry.waiters.size > 0) return;
    this.#entries.delete(key);
    this.#unpolled.delete(key);
    const poll = this.#polled.get(key);
    if (poll === undefined) return;
    poll.wanted -= 1;
    if (poll.wanted === 0) this.#abort(poll);
  }

  #settle(result: PollResult<Value>): void {
    const entry = this.#entries.get(result.key);
    this.#entries.delete(result.key);
    for (const waiter of entry?.waiters ?? []) {
      if ('value' in result) waiter.resolve(result.value);
      else waiter.reject(result.error);
    }
  }

  // Debounced by one macrotask, so that waits that begin together share a poll.
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      this.#begin();
    }, 0);
  }

  #begin(): void {
    if (this.#unpolled.size > 0 && this.#polls.size >= maxPolls) this.#join();
    const keys = [...this.#unpolled];
    this.#unpolled.clear();
    for (let from = 0; from < keys.length; from += maxKeys) {
      void this.#poll(keys.slice(from, from + maxKeys));
    }
  }

  /** Aborts the polls with room left and adds their keys to the new ones. */
  #join(): void {
    for (const poll of this.#polls) {
      if (poll.keys.length === maxKeys) continue;
      this.#abort(poll);
      for (const key of poll.keys) if (this.#entries.has(key)) this.#unpolled.add(key);
    }
  }

  #abort(poll: Poll): void {
    this.#forget(poll);
    poll.abort.abort();
  }

  #forget(poll: Poll): void {
    this.#polls.delete(poll);
    for (const key of poll.keys) this.#polled.delete(key);
  }

  async #poll(keys: readonly string[]): Promise<void> {
    const poll: Poll = { keys, abort: new AbortController(), wanted: keys.length };
    this.#polls.add(poll);
    for (const key of keys) this.#polled.set(key, poll);
    const results = await this.#slots.hold(() => this.#request(poll));
    if (poll.abort.signal.aborted) return;
    this.#forget(poll);
    for (const result of results) this.#settle(result);
    for (const key of keys) if (this.#entries.has(key)) this.#unpolled.add(key);
    if (this.#unpolled.size > 0) this.#schedule();
  }

  async #request({ keys, abort }: Poll): Promise<readonly PollResult<Value>[]> {
    const { signal } = abort;
    const requests = keys.flatMap((key) => this.#entries.get(key)?.request ?? []);
    if (signal.aborted || requests.length === 0) return [];
    try {
      return await this.#ask(requests, signal);
    } catch (error) {
      return keys.map((key) => ({ key, error: error as Error }));
    }
  }
}

const isNode =
  (globalThis as { process?: { versions?: { node?: unknown } } }).process?.versions?.node !==
  undefined;

/** How long the server may hold a poll. Shorter in browsers, where polls share few connections. */
export const pollMs = isNode ? 25_000 : 5_000;

/** Browsers open six connections per server; two stay free for other requests. */
const browserSlots = 4;

/** Limits the number of concurrent polls, in FIFO order. */
export class PollSlots {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count = isNode ? Number.POSITIVE_INFINITY : browserSlots) {
    this.#free = count;
  }

  /** Runs `work` once a slot is free. */
  async hold<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/** Makes one long request for waits of one session. */
export type AskSession<Request, Value> = (
  sessionId: string,
  requests: readonly Request[],
  signal: AbortSignal,
) => Promise<readonly PollResult<Value>[]>;

/** One shared poll per session with waits. */
export class SessionPolls<Request, Value> {
  readonly #slots: PollSlots;
  readonly #ask: AskSession<Request, Value>;
  readonly #polls = new Map<string, { readonly poll: SharedPoll<Request, Value>; waits: number }>();

  constructor(slots: PollSlots, ask: AskSession<Request, Value>) {
    this.#slots = slots;
    this.#ask = ask;
  }

  /** Resolves with the result. Rejects with the reason of the signal if that aborts first. */
  async wait(
    wanted: { readonly sessionId: string; readonly key: string; readonly request: Request },
    signal: AbortSignal,
  ): Promise<Value> {
    const { sessionId, key, request } = wanted;
    const shared = this.#polls.get(sessionId) ?? this.#begin(sessionId);
    shared.waits += 1;
    try {
      return await shared.poll.wait(key, request, signal);
    } finally {
      shared.waits -= 1;
      if (shared.waits === 0) this.#polls.delete(sessionId);
    }
  }

  #begin(sessionId: string): { readonly poll: SharedPoll<Request, Value>; waits: number } {
    const ask = (requests: readonly Request[], signal: AbortSignal) =>
      this.#ask(sessionId, requests, signal);
    const shared = { poll: new SharedPoll<Request, Value>(this.#slots, ask), waits: 0 };
    this.#polls.set(sessionId, shared);
    return shared;
  }
}
