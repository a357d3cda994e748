import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';
import { unavailable, withTimeout } from '../http/errors.ts';
import { Tokens, type Caller, type ServerToken } from './tokens.ts';

/** Returns the current list of accepted tokens. */
export type LoadTokens = () => readonly ServerToken[] | Promise<readonly ServerToken[]>;

export interface TokenSourceParams {
  readonly load: LoadTokens;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Maximum age of a list before it is loaded again. */
  readonly maxAgeMs: number;
  /** Timeout of one call, in milliseconds. Default: 10 s. */
  readonly longestLoadMs?: number | undefined;
}

// An unknown token may have just been added. Reload for it, but at most once per second.
const shortestAgeMs = 1_000;
// While the source fails, the last list stays in use for this long.
const longestAgeMs = 5 * 60_000;
const longestLoadMs = 10_000;

/** Tokens from a function. The list is loaded again when it is older than `maxAgeMs`. */
export class TokenSource {
  readonly #params: TokenSourceParams;
  #tokens: Tokens | undefined;
  #loadedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #loading: Promise<void> | undefined;

  constructor(params: TokenSourceParams) {
    this.#params = params;
  }

  /** Loads the first list. Rejects if the call fails or the list is invalid. */
  async start(): Promise<void> {
    await this.#load();
  }

  /** Returns the caller of a token. For an unknown token, loads a newer list first. */
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
    throw unavailable('The server cannot load its tokens.');
  }

  async #tryLoad(): Promise<void> {
    try {
      this.#loading ??= this.#load();
      await this.#loading;
    } catch (error) {
      this.#params.logger.error({ error }, 'loading tokens failed');
    } finally {
      this.#loading = undefined;
    }
  }

  async #load(): Promise<void> {
    this.#triedAt = performance.now();
    const { load, clock, longestLoadMs: ms = longestLoadMs } = this.#params;
    const startedAt = this.#triedAt;
    const timeout = (): Error => new Error(`\`tokens()\` took longer than ${ms} ms.`);
    this.#tokens = new Tokens(await withTimeout(load(), ms, timeout), clock);
    // The age counts from the start of the call: the list may miss changes made while it ran.
    this.#loadedAt = startedAt;
  }
}
