import type { PollSlots } from './poll-slots.ts';
import { SharedPoll, type PollResult } from './shared-poll.ts';

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
