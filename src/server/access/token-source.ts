import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { unavailable } from '../http/errors.ts';
import { Tokens, type Caller, type ServerToken } from './tokens.ts';

/** Returns the tokens that a server accepts now. */
export type LoadTokens = () => readonly ServerToken[] | Promise<readonly ServerToken[]>;

export interface TokenSourceParams {
  readonly load: LoadTokens;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a list is used before it is loaded again. */
  readonly maxAgeMs: number;
  /** How long one call may take. Default 10 s. */
  readonly longestLoadMs?: number | undefined;
}

// A token that was added just now is found soon; unknown tokens must not make the server load without pause.
const shortestAgeMs = 1_000;
// A source that fails must neither lock out every caller immediately nor keep a revoked token valid for long.
const longestAgeMs = 5 * 60_000;

// A call that never settles must not keep every caller waiting for ever.
const longestLoadMs = 10_000;

/** Tokens from a function, which is called again as the list ages. */
export class TokenSource {
  readonly #params: TokenSourceParams;
  #tokens: Tokens | undefined;
  #loadedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;

  constructor(params: TokenSourceParams) {
    this.#params = params;
  }

  /** Loads the first list; rejects with what is wrong with it. */
  async start(): Promise<void> {
    await this.#load();
  }

  /** Returns whose token it is; an unknown one is looked up in a newer list. */
  async find(token: string): Promise<Caller | undefined> {
    const found = (await this.#noOlderThan(this.#params.maxAgeMs)).find(token);
    return found ?? (await this.#noOlderThan(shortestAgeMs)).find(token);
  }

  async #noOlderThan(maxAgeMs: number): Promise<Tokens> {
    const nowMs = performance.now();
    const isOld = nowMs - this.#loadedAt > maxAgeMs;
    const mayTry = nowMs - this.#triedAt > Math.min(maxAgeMs, shortestAgeMs);
    if (this.#loading !== undefined ? isOld : isOld && mayTry) await this.#tryLoad();
    if (this.#tokens !== undefined && performance.now() - this.#loadedAt < longestAgeMs) {
      return this.#tokens;
    }
    throw unavailable('The tokens of the server cannot be loaded.');
  }

  async #tryLoad(): Promise<void> {
    try {
      this.#loading ??= this.#load();
      await this.#loading;
    } catch (error) {
      this.#params.logger.error({ err: error }, 'the tokens cannot be loaded');
    } finally {
      this.#loading = undefined;
    }
  }

  async #load(): Promise<void> {
    this.#triedAt = performance.now();
    const { load, clock } = this.#params;
    const startedAt = this.#triedAt;
    this.#tokens = new Tokens(await inTime(load, this.#params.longestLoadMs), clock);
    // From the call on: what changed while it ran may not be in the list.
    this.#loadedAt = startedAt;
  }
}

async function inTime<Value>(
  work: () => Value | Promise<Value>,
  ms = longestLoadMs,
): Promise<Value> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`The call took longer than ${ms} ms.`)), ms);
  try {
    return await Promise.race([work(), late]);
  } finally {
    clearTimeout(timer);
  }
}
