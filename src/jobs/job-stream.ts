import { decodePayload } from '../model/values/payload.ts';
import type { JobChunk } from './backend.ts';
import { jobClosed } from './job-errors.ts';
import type { JobRun, JobHost } from './job-run.ts';
import { pause } from './retrying.ts';

/**
 * The chunks of a job, in order, for one reader. It ends when the job has completed, and throws what the job ended with
 * when it did not. Whoever leaves before gives the job up.
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

  /** What `break` calls. */
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
 * Reads the chunks of a job, for its stream or, while somebody waits for its result alone, to drop them: a handler
 * that emits waits for whoever reads, and would else wait for ever. Chunks that were dropped are missing in a stream
 * that is begun later.
 */
export class ChunkReader {
  readonly #run: JobRun;
  readonly #host: JobHost;
  /** The last chunk that was handed out: the store forgets those up to it at the next read. */
  #after = 0;
  #page: JobChunk[] = [];
  #isOver = false;
  #discarding: AbortController | undefined;

  constructor(run: JobRun, host: JobHost) {
    this.#run = run;
    this.#host = host;
  }

  /** The next chunk; `undefined` after the last one. */
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

  /** Drops chunks from soon on, until told to stop. */
  discard(): void {
    if (this.#discarding !== undefined) return;
    this.#discarding = new AbortController();
    const signal = AbortSignal.any([this.#discarding.signal, this.#run.unwanted]);
    // A failed read says nothing that the wait for the result does not say as well.
    this.#discardUntil(signal).catch(() => undefined);
  }

  /** Stops dropping chunks: a reader has come, or nobody waits any more. */
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
