import { useEffect, useMemo } from 'preact/hooks';
import { effect, signal, type ReadonlySignal } from '@preact/signals';
import { ApiError } from '../api/api-error.ts';
import { reconnections } from '../api/connection.ts';
import { session } from '../api/session.ts';
import { isLive } from './live.ts';

/** What a page reads from the server. Old data stays visible while it is read again. */
export interface Resource<Value> {
  readonly data: ReadonlySignal<Value | undefined>;
  readonly error: ReadonlySignal<ApiError | undefined>;
  /** Reads again, at most one request at a time. */
  reload(): void;
}

export interface ResourceOptions {
  /** Reads again after this time, while the page is live. After a slow read, ten times its duration. */
  readonly everyMs?: number;
}

const pauseFactor = 10;
const longestPauseMs = 60_000;

/**
 * Reads from the server while the component is mounted: at first, when `key` changes, every `everyMs`, on `reload`, and
 * after the connection was lost. A new key clears the data.
 */
export function useResource<Value>(
  key: string,
  load: (signal: AbortSignal) => Promise<Value>,
  { everyMs }: ResourceOptions = {},
): Resource<Value> {
  const reader = useMemo(() => new Reader(load, everyMs), [key]);
  useEffect(() => reader.start(), [reader]);
  return reader;
}

class Reader<Value> implements Resource<Value> {
  readonly data = signal<Value | undefined>(undefined);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly #load: (signal: AbortSignal) => Promise<Value>;
  readonly #everyMs: number | undefined;
  #running: AbortController | undefined;
  #again = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = true;
  #lastMs = 0;

  constructor(load: (signal: AbortSignal) => Promise<Value>, everyMs: number | undefined) {
    this.#load = load;
    this.#everyMs = everyMs;
  }

  start(): () => void {
    this.#isStopped = false;
    let seen = -1;
    let wasSignedOut = false;
    // Also reads once when the page becomes live again, and after a new login.
    const dispose = effect(() => {
      const isSignedOut = session.value?.state === 'signedOut';
      const changed = seen !== reconnections.value || (wasSignedOut && !isSignedOut);
      if ((isLive.value || seen === -1) && changed) this.reload();
      else if (isLive.value && this.#timer === undefined) this.#schedule();
      seen = reconnections.value;
      wasSignedOut = isSignedOut;
    });
    return () => {
      dispose();
      this.#isStopped = true;
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#running?.abort();
      this.#running = undefined;
    };
  }

  reload(): void {
    if (this.#isStopped) return;
    if (this.#running !== undefined) {
      this.#again = true;
      return;
    }
    void this.#read();
  }

  async #read(): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    const startedAt = performance.now();
    try {
      const value = await this.#load(running.signal);
      this.#lastMs = performance.now() - startedAt;
      if (running.signal.aborted) return;
      this.data.value = value;
      this.error.value = undefined;
    } catch (error) {
      if (running.signal.aborted) return;
      this.error.value = error instanceof ApiError ? error : unexpected(error);
    } finally {
      if (this.#running === running) {
        this.#running = undefined;
        if (this.#again) {
          this.#again = false;
          this.reload();
        } else this.#schedule();
      }
    }
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const isFailing = this.error.peek()?.isUnreachable === true;
    const everyMs = isFailing ? Math.min(this.#everyMs ?? 5_000, 5_000) : this.#everyMs;
    if (everyMs === undefined || this.#isStopped) return;
    // What is slow to read takes much of the server's time: the graph of a map of 100,000 items, for example.
    const pauseMs = Math.max(everyMs, Math.min(this.#lastMs * pauseFactor, longestPauseMs));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (isLive.peek()) this.reload();
    }, pauseMs);
  }
}

function unexpected(error: unknown): ApiError {
  return new ApiError(-1, 'UNEXPECTED', error instanceof Error ? error.message : String(error));
}
