import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { readWaitOptions, type WaitOptions } from '../client/handle.ts';
import { readCancelOptions, type CancelOptions } from '../client/managing/stop-request.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import { ChunkReader, JobStream } from './job-stream.ts';
import { jobClosed, streamTaken } from './job-errors.ts';
import type { JobHost, JobRun } from './job-run.ts';

/** A run that is attached to its caller. Closing it, or its session, before the result was taken cancels it. */
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
   * Waits until the job has ended and takes its result. Rejects like the result of an instance. After `TIMEOUT` the job
   * continues; call it again, or close the job. After `close()` it rejects with `JOB_CLOSED`.
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
   * Iterates over the chunks that its handlers emit, in order, for one reader. `ctx.emit` applies backpressure. Ending
   * the iteration early closes the job. Throws if the job does not complete.
   */
  stream<Chunk = unknown>(): AsyncIterableIterator<Chunk, undefined> {
    if (this.#run.isClosed) throw jobClosed(this.id);
    if (this.#hasReader) throw streamTaken(this.id);
    this.#hasReader = true;
    this.#chunks.keep();
    return new JobStream<Chunk>(this.#run, this.#chunks);
  }

  /** Reads its run, also after `close()`. */
  status(): Promise<InstanceInfo<Output>> {
    return this.#run.status() as Promise<InstanceInfo<Output>>;
  }

  /** Cancels the run without giving up the reply: `result()` settles with its outcome. */
  async cancel(options?: CancelOptions): Promise<StopResult> {
    const { wait, ...stop } = readCancelOptions(options);
    return this.#run.cancel(stop, wait);
  }

  /**
   * Gives up the reply and cancels the run unless it has ended. Never waits and never throws. Does nothing if the result
   * was taken. An unsent job is never sent.
   */
  close(): void {
    this.#run.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }
}
