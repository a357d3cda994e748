import { decodePayload } from '../model/values/payload.ts';
import type { JobChunk } from './backend.ts';
import { jobClosed } from './job-errors.ts';
import type { JobRun, JobHost } from './job-run.ts';
import { pause } from './retrying.ts';

/**
 * The chunks of a job, in order, for one reader. Ends when the job has completed; throws its error if it ended otherwise.
 * Returning early closes the job.
 */
export class JobStream<Chunk> implements AsyncIterableIterator<Chunk, undefined> {
  readonly #run: JobRun;
  readonly #chunks: ChunkReader;
  readonly #release: () => void;
  #last: Promise<unknown> = Promise.resolve();
  #isDone = false;

  constructor(run: JobRun, chunks: ChunkReader) {
    this.#run = run;
    this.#chunks = chunks;
    this.#release = run.hold();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Chunk, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Called by `break`. */
  return(): Promise<IteratorResult<Chunk, undefined>> {
    if (!this.#isDone) this.#run.close();
    this.#finish();
    return Promise.resolve({ done: true, value: undefined });
  }

  async throw(error: unknown): Promise<IteratorResult<Chunk, undefined>> {
    await this.return();
    throw error;
  }

  async #next(): Promise<IteratorResult<Chunk, undefined>> {
    if (this.#isDone) return { done: true, value: undefined };
    try {
      const chunk = await this.#chunks.next();
      if (chunk !== undefined) return { done: false, value: chunk.value as Chunk };
      const error = await this.#run.takeError();
      if (error !== undefined) throw error;
    } catch (error) {
      this.#finish();
      throw error;
    }
    this.#finish();
    return { done: true, value: undefined };
  }

  #finish(): void {
    this.#isDone = true;
    this.#release();
  }
}

const pageSize = 64;
const firstDiscardMs = 1_000;
const longestDiscardMs = 30_000;
const busyDiscardMs = 100;

/**
 * Reads the chunks of a job for its stream. Discards them while the caller only waits for the result: backpressure would
 * otherwise block the handler forever. A stream that begins later misses discarded chunks.
 */
export class ChunkReader {
  readonly #run: JobRun;
  readonly #host: JobHost;
  /** The last chunk returned; the next read deletes all chunks up to it. */
  #after = 0;
  #page: JobChunk[] = [];
  #isOver = false;
  #discarding: AbortController | undefined;

  constructor(run: JobRun, host: JobHost) {
    this.#run = run;
    this.#host = host;
  }

  /** Resolves with the next chunk; `undefined` after the last one. */
  async next(): Promise<{ readonly value: unknown } | undefined> {
    for (;;) {
      this.#throwIfClosed();
      const chunk = this.#page.shift();
      if (chunk !== undefined) {
        this.#after = chunk.seq;
        return { value: decodePayload(chunk.payload) };
      }
      if (this.#isOver || !(await this.#run.stored())) return undefined;
      await this.#read(this.#run.unwanted, true);
    }
  }

  /** Starts to discard chunks after a pause, until `keep()`. */
  discard(): void {
    if (this.#discarding !== undefined) return;
    this.#discarding = new AbortController();
    const signal = AbortSignal.any([this.#discarding.signal, this.#run.unwanted]);
    // The wait for the result reports the same error.
    this.#discardUntil(signal).catch(() => undefined);
  }

  /** Stops discarding chunks. */
  keep(): void {
    this.#discarding?.abort();
    this.#discarding = undefined;
  }

  async #discardUntil(signal: AbortSignal): Promise<void> {
    let idleMs = firstDiscardMs;
    for (let waitMs = firstDiscardMs; !this.#isOver;) {
      await pause({ signal, clock: this.#host.backend.clock }, waitMs);
      if (signal.aborted || this.#run.isOver || !(await this.#run.stored())) return;
      await this.#read(signal, false);
      if (signal.aborted) return;
      const last = this.#page.at(-1);
      if (last !== undefined) this.#after = last.seq;
      idleMs = last === undefined ? Math.min(idleMs * 2, longestDiscardMs) : firstDiscardMs;
      waitMs = last === undefined ? idleMs : busyDiscardMs;
      this.#page = [];
    }
  }

  async #read(signal: AbortSignal, wait: boolean): Promise<void> {
    const { backend } = this.#host;
    const request = { after: this.#after, limit: pageSize, wait };
    const read = () => backend.read(this.#run.key, request, signal);
    try {
      const { chunks, over } = await this.#host.retry(read);
      if (signal.aborted) return;
      this.#page = [...chunks];
      this.#isOver = over;
    } catch (error) {
      this.#throwIfClosed();
      throw error;
    }
  }

  #throwIfClosed(): void {
    if (this.#host.gone !== undefined) throw this.#host.gone;
    if (this.#run.isClosed) throw jobClosed(this.#run.key.instanceId);
  }
}
