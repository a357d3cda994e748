import type { ResolvedRetryPolicy } from '../model/retry-policy.ts';

/** The closure of a step gets this. */
export type StepBody = (first: never, step: never) => unknown;

/** The options of a step, in milliseconds. */
export interface StepSettings {
  readonly retry?: ResolvedRetryPolicy | undefined;
  readonly attemptTimeoutMs?: number | undefined;
  /** From the call until the outcome, including all attempts and the waits between them. */
  readonly timeoutMs?: number | undefined;
  /** A call of `ctx.transaction()`: the closure gets a transaction, and its result commits with it. */
  readonly isTransaction?: true;
}

/** A call of `ctx.run()`: its closure, its options, and its failed attempts so far. */
export class StepCall {
  readonly body: StepBody;
  readonly settings: StepSettings;
  /** The time of the orchestration at the call. */
  readonly calledAt: number;
  #attempts = 0;
  #retryAt: number | undefined;

  constructor(body: StepBody, settings: StepSettings, calledAt: number) {
    this.body = body;
    this.settings = settings;
    this.calledAt = calledAt;
  }

  /** The number of failed attempts. */
  get attempts(): number {
    return this.#attempts;
  }

  /** When the next attempt begins. `undefined`: now. */
  get retryAt(): number | undefined {
    return this.#retryAt;
  }

  /** Applies a failed attempt. */
  retried(attempts: number, retryAt: number): void {
    this.#attempts = attempts;
    this.#retryAt = retryAt;
  }

  /** The timer of the next attempt has fired. */
  due(): void {
    this.#retryAt = undefined;
  }
}
