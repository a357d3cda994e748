import type { JobRun } from './job-run.ts';

/** Sends jobs in their order, at most so many at once: a job leaves room when it is over or given up. */
export class SendQueue {
  readonly #limit: number;
  readonly #unsent = new Set<JobRun>();
  readonly #underWay = new Set<JobRun>();
  #isOpen = false;
  #onSent: (() => void)[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Jobs that are not over. */
  *runs(): Iterable<JobRun> {
    yield* this.#unsent;
    yield* this.#underWay;
  }

  get isEmpty(): boolean {
    return this.#unsent.size === 0 && this.#underWay.size === 0;
  }

  add(run: JobRun): void {
    this.#unsent.add(run);
    this.#sendMore();
  }

  withdraw(run: JobRun): void {
    if (this.#unsent.delete(run)) this.#tellIfSent();
  }

  /** Begins to send. */
  open(): void {
    this.#isOpen = true;
    this.#sendMore();
  }

  /** Takes out all jobs that were not sent. */
  takeUnsent(): readonly JobRun[] {
    const unsent = [...this.#unsent];
    this.#unsent.clear();
    this.#tellIfSent();
    return unsent;
  }

  /** Resolves once the store has answered for all that were added until now. */
  allSent(): Promise<void> {
    if (this.#isSent) return Promise.resolve();
    return new Promise((resolve) => this.#onSent.push(resolve));
  }

  get #isSent(): boolean {
    return this.#unsent.size === 0 && ![...this.#underWay].some((run) => run.isSending);
  }

  #tellIfSent(): void {
    if (this.#onSent.length === 0 || !this.#isSent) return;
    const told = this.#onSent;
    this.#onSent = [];
    for (const resolve of told) resolve();
  }

  #sendMore(): void {
    if (!this.#isOpen) return;
    for (const run of this.#unsent) {
      if (this.#underWay.size >= this.#limit) return;
      this.#unsent.delete(run);
      this.#underWay.add(run);
      void this.#send(run);
    }
  }

  async #send(run: JobRun): Promise<void> {
    const sending = run.send();
    await run.stored();
    this.#tellIfSent();
    await sending;
    this.#underWay.delete(run);
    this.#tellIfSent();
    this.#sendMore();
  }
}
