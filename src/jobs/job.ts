import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { readWaitOptions, type WaitOptions } from '../client/handle.ts';
import { readCancelOptions, type CancelOptions } from '../client/managing/stop-request.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import { ChunkReader, JobStream } from './job-stream.ts';
import { jobClosed, streamTaken } from './job-errors.ts';
import type { JobHost, JobRun } from './job-run.ts';

/**
 * A run that is attached to its caller: closing it before its result was taken cancels it, and so does the end of its
 * session.
 */
export class Job<Output = unknown> implements AsyncDisposable {
  readonly id: string;
  readonly sessionId: string;
  readonly #run: JobRun;
  readonly #chunks: ChunkReader;
  #waiting = 0;
  #hasReader = false;

  constructor(run: JobRun, host: JobHost) {
    this.id = run.key.instanceId;
    this.sessionId = run.key.sessionId;
    this.#run = run;
    this.#chunks = new ChunkReader(run, host);
  }

  /**
   * Waits until the job is over and takes its result. Rejects as the result of an instance does; with `TIMEOUT` the job
   * goes on and may be closed or asked again; after `close()` it rejects with `JOB_CLOSED`.
   */
  async result(options?: WaitOptions): Promise<Output> {
    const timeoutMs = readWaitOptions(options, 'result()');
    this.#waiting += 1;
    if (!this.#hasReader) this.#chunks.discard();
    try {
      return (await this.#run.result(timeoutMs)) as Output;
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#chunks.keep();
    }
  }

  /**
   * The chunks that its handlers emit, in order; there is one reader. A handler that emits waits for it. Ending the
   * iteration early closes the job; a job that does not complete ends it with an error.
   */
  stream<Chunk = unknown>(): AsyncIterableIterator<Chunk, undefined> {
    if (this.#run.isClosed) throw jobClosed(this.id);
    if (this.#hasReader) throw streamTaken(this.id);
    this.#hasReader = true;
    this.#chunks.keep();
    return new JobStream<Chunk>(this.#run, this.#chunks);
  }

  /** Reads what is known of its run; also after it was closed. */
  status(): Promise<InstanceInfo<Output>> {
    return this.#run.status() as Promise<InstanceInfo<Output>>;
  }

  /** Asks it to stop, without giving up the reply: `result()` tells how it ended. */
  async cancel(options?: CancelOptions): Promise<StopResult> {
    const { wait, ...stop } = readCancelOptions(options);
    return this.#run.cancel(stop, wait);
  }

  /**
   * Gives up the reply and, unless the job is over, cancels it. Never waits, never throws, and does nothing when the
   * result was taken. A job that was not sent yet is never sent.
   */
  close(): void {
    this.#run.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }
}
