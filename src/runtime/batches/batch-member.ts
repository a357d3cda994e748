import type { CanceledError } from '../../model/failures/errors.ts';
import type { CommittingAttempt } from '../activities/attempt-transaction.ts';
import type { LoopHolder } from '../watchdog/loop-holder.ts';
import type { RunningBatchRun } from './batch-contexts.ts';
import { afterReturn, settledTwice } from './batch-errors.ts';

/** The attempt of a run that is a member of a batch. */
export interface BatchedAttempt extends LoopHolder, CommittingAttempt {
  readonly batchRun: RunningBatchRun;
  /** Whether the run can still complete. */
  readonly mayCommit: boolean;
  /** Calls the handler with the span of the attempt as the active one. */
  callInSpan<Result>(call: () => Result): Result;
}

/** `entered`: the handler has the run. */
export type MemberState = 'preparing' | 'ready' | 'entered' | 'ended';

/** A run and its batch. The attempt of the run calls it. */
export class BatchMember {
  readonly attempt: BatchedAttempt;
  readonly #onChange: (from: MemberState, to: MemberState) => void;
  readonly #started = Promise.withResolvers<void>();
  readonly #outcome = Promise.withResolvers<unknown>();
  #state: MemberState = 'preparing';
  /** Whether the handler got the run. */
  hasEntered = false;
  canceled: CanceledError | undefined;
  #isSettled = false;
  #isClosed = false;

  constructor(attempt: BatchedAttempt, onChange: (from: MemberState, to: MemberState) => void) {
    this.attempt = attempt;
    this.#onChange = onChange;
    this.#started.promise.catch(() => undefined);
  }

  get state(): MemberState {
    return this.#state;
  }

  /** The run is validated, and its condition holds. Resolves when the batch starts; rejects if the run is canceled before. */
  ready(): Promise<void> {
    if (this.#state === 'preparing') this.#become('ready');
    return this.#started.promise;
  }

  start(): void {
    this.#started.resolve();
  }

  /** Passes the run to the handler. Resolves with its result, or rejects with its error. */
  enter(input: unknown): Promise<unknown> {
    this.attempt.batchRun.enter(this, input);
    this.hasEntered = true;
    if (this.#state !== 'ended') this.#become('entered');
    return this.#outcome.promise;
  }

  /** The run was asked to stop, or its worker stops. */
  cancel(reason: CanceledError): void {
    this.canceled ??= reason;
    this.#started.reject(reason);
    this.#onChange(this.#state, this.#state);
  }

  /** The attempt has ended. */
  end(): void {
    this.#started.resolve();
    this.#become('ended');
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  complete(output: unknown): void {
    this.#settle('complete');
    this.#outcome.resolve(output);
  }

  fail(error: unknown): void {
    this.#settle('fail');
    this.#outcome.reject(error);
  }

  /** The result was committed with a transaction. */
  committed(output: unknown): void {
    this.#isSettled = true;
    this.#outcome.resolve(output);
  }

  /** The handler has returned or thrown: rejects a run that it has not settled. */
  close(error: unknown): void {
    this.#isClosed = true;
    if (!this.#isSettled) this.#outcome.reject(error);
  }

  /** The handler has returned a result for the run. */
  closeWith(output: unknown): void {
    this.#isClosed = true;
    // A canceled run without a result was skipped.
    if (this.canceled !== undefined && output === undefined) this.close(this.canceled);
    else this.#outcome.resolve(output);
  }

  #settle(call: 'complete' | 'fail'): void {
    const { id, taskName } = this.attempt.batchRun;
    if (this.#isClosed) throw afterReturn(taskName, id, call);
    if (this.#isSettled) throw settledTwice(taskName, id, call);
    this.#isSettled = true;
    this.#onChange(this.#state, this.#state);
  }

  #become(state: MemberState): void {
    const from = this.#state;
    this.#state = state;
    this.#onChange(from, state);
  }
}
