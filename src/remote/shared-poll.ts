/** What came of one thing that was waited for. */
export type PollResult<Value> = { readonly key: string } & (
  { readonly value: Value } | { readonly error: Error }
);

/** Waits on the server until some of these have come, or for as long as it may take. */
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
  /** How many of its keys somebody still waits for. */
  wanted: number;
}

const maxKeys = 1_000;
const maxPolls = 2;

/**
 * Waits for many things in few long requests.
 *
 * P1. What is new gets a poll of its own, so that those under way need not be broken off; when there are too many they
 *     are joined into one.
 * P2. What a poll that was broken off would have answered is asked for again, so nothing is lost.
 * P3. When nobody waits, no request is under way.
 */
export class SharedPoll<Request, Value> {
  readonly #ask: Ask<Request, Value>;
  readonly #slots: PollSlots;
  readonly #entries = new Map<string, Entry<Request, Value>>();
  readonly #polls = new Set<Poll>();
  readonly #polled = new Map<string, Poll>();
  readonly #fresh = new Set<string>();
  #isScheduled = false;

  constructor(slots: PollSlots, ask: Ask<Request, Value>) {
    this.#slots = slots;
    this.#ask = ask;
  }

  /** Resolves once it has come; rejects with the reason of the signal when that aborts first. */
  async wait(key: string, request: Request, signal?: AbortSignal): Promise<Value> {
    signal?.throwIfAborted();
    const waiter = Promise.withResolvers<Value>();
    this.#add(key, request, waiter);
    if (signal === undefined) return waiter.promise;
    const giveUp = (): void => {
      this.#remove(key, waiter);
      waiter.reject(signal.reason);
    };
    signal.addEventListener('abort', giveUp);
    try {
      return await waiter.promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** Ends all waits with this error. */
  close(error: Error): void {
    for (const poll of this.#polls) this.#breakOff(poll);
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
    this.#fresh.add(key);
    this.#schedule();
  }

  #remove(key: string, waiter: PromiseWithResolvers<Value>): void {
    const entry = this.#entries.get(key);
    if (entry?.waiters.delete(waiter) !== true || entry.waiters.size > 0) return;
    this.#entries.delete(key);
    this.#fresh.delete(key);
    const poll = this.#polled.get(key);
    if (poll === undefined) return;
    poll.wanted -= 1;
    if (poll.wanted === 0) this.#breakOff(poll);
  }

  #settle(result: PollResult<Value>): void {
    const entry = this.#entries.get(result.key);
    this.#entries.delete(result.key);
    for (const waiter of entry?.waiters ?? []) {
      if ('value' in result) waiter.resolve(result.value);
      else waiter.reject(result.error);
    }
  }

  // Waits that begin together share a poll, also where each begins after an answer of its own.
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      this.#begin();
    }, 0);
  }

  #begin(): void {
    if (this.#fresh.size > 0 && this.#polls.size >= maxPolls) this.#join();
    const keys = [...this.#fresh];
    this.#fresh.clear();
    for (let from = 0; from < keys.length; from += maxKeys) {
      void this.#poll(keys.slice(from, from + maxKeys));
    }
  }

  /** Breaks off the polls that have room left: what they waited for is waited for together with what is new. */
  #join(): void {
    for (const poll of this.#polls) {
      if (poll.keys.length === maxKeys) continue;
      this.#breakOff(poll);
      for (const key of poll.keys) if (this.#entries.has(key)) this.#fresh.add(key);
    }
  }

  #breakOff(poll: Poll): void {
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
    const results = await this.#slots.hold(() => this.#answers(poll));
    if (poll.abort.signal.aborted) return;
    this.#forget(poll);
    for (const result of results) this.#settle(result);
    for (const key of keys) if (this.#entries.has(key)) this.#fresh.add(key);
    if (this.#fresh.size > 0) this.#schedule();
  }

  async #answers({ keys, abort }: Poll): Promise<readonly PollResult<Value>[]> {
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

/** How long the server may let a poll wait. Browsers share few connections, so there polls take turns more often. */
export const pollMs = isNode ? 25_000 : 5_000;

/** Browsers open six connections to a server; two are left for everything that must get through. */
const browserSlots = 4;

/** Bounds how many polls are under way at once, first come, first served. */
export class PollSlots {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count = isNode ? Number.POSITIVE_INFINITY : browserSlots) {
    this.#free = count;
  }

  /** Does something when there is a slot for it. */
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

/** Waits on the server for some things of one session. */
export type AskSession<Request, Value> = (
  sessionId: string,
  requests: readonly Request[],
  signal: AbortSignal,
) => Promise<readonly PollResult<Value>[]>;

/** One shared poll for each session that somebody waits for something of. */
export class SessionPolls<Request, Value> {
  readonly #slots: PollSlots;
  readonly #ask: AskSession<Request, Value>;
  readonly #polls = new Map<string, { readonly poll: SharedPoll<Request, Value>; waits: number }>();

  constructor(slots: PollSlots, ask: AskSession<Request, Value>) {
    this.#slots = slots;
    this.#ask = ask;
  }

  /** Resolves once it has come; rejects with the reason of the signal when that aborts first. */
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
