import type { JobChunks } from './job-chunks.ts';
import type { JobRun } from './job-run.ts';

/**
 * The chunks of a job, in order, for one reader. It ends when the job has completed, and throws what the job ended with
 * when it did not. Whoever leaves before gives the job up.
 */
export class JobStream<Chunk> implements AsyncIterableIterator<Chunk, undefined> {
  readonly #run: JobRun;
  readonly #chunks: JobChunks;
  readonly #release: () => void;
  #last: Promise<unknown> = Promise.resolve();
  #isDone = false;

  constructor(run: JobRun, chunks: JobChunks) {
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
