import type { JobRun } from './job-run.ts';

/** Sends jobs in FIFO order, at most `limit` concurrently. A job frees its place when it has ended or was given up. */
export class SendQueue {
  readonly #limit: number;
  readonly #unsent = new Set<JobRun>();
  readonly #running = new Set<JobRun>();
  #isOpen = false;
  #onSent: (() => void)[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The jobs that have not ended. */
  *runs(): Iterable<JobRun> {
    yield* this.#unsent;
    yield* this.#running;
  }

  get isEmpty(): boolean {
    return this.#unsent.size === 0 && this.#running.size === 0;
  }

  add(run: JobRun): void {
    this.#unsent.add(run);
    this.#sendMore();
  }

  withdraw(run: JobRun): void {
    if (this.#unsent.delete(run)) this.#resolveIfSent();
  }

  /** Starts to send. */
  open(): void {
    this.#isOpen = true;
    this.#sendMore();
  }

  /** Removes and returns all unsent jobs. */
  takeUnsent(): readonly JobRun[] {
    const unsent = [...this.#unsent];
    this.#unsent.clear();
    this.#resolveIfSent();
    return unsent;
  }

  /** Resolves once the submissions of all added jobs have settled. */
  allSent(): Promise<void> {
    if (this.#isSent) return Promise.resolve();
    return new Promise((resolve) => this.#onSent.push(resolve));
  }

  get #isSent(): boolean {
    return this.#unsent.size === 0 && ![...this.#running].some((run) => run.isSending);
  }

  #resolveIfSent(): void {
    if (this.#onSent.length === 0 || !this.#isSent) return;
    const waiting = this.#onSent;
    this.#onSent = [];
    for (const resolve of waiting) resolve();
  }

  #sendMore(): void {
    if (!this.#isOpen) return;
    for (const run of this.#unsent) {
      if (this.#running.size >= this.#limit) return;
      this.#unsent.delete(run);
      this.#running.add(run);
      void this.#send(run);
    }
  }

  async #send(run: JobRun): Promise<void> {
    const sending = run.send();
    await run.stored();
    this.#resolveIfSent();
    await sending;
    this.#running.delete(run);
    this.#resolveIfSent();
    this.#sendMore();
  }
}
