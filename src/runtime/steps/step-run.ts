import type { Clock } from '../../model/clock.ts';
import {
  CanceledError,
  isPerdureError,
  LockLostError,
  type PerdureError,
  ProviderError,
  type CancelTrigger,
} from '../../model/failures/errors.ts';
import {
  errorClasses,
  platformFailure,
  toFailure,
  type Failure,
} from '../../model/failures/failure.ts';
import { encodeMessage, type Message } from '../../model/message.ts';
import type { StoreTransaction } from '../../model/store-transaction.ts';
import { nextRetryDelayMs } from '../../model/retry-policy.ts';
import type { AttemptSpan } from '../../model/telemetry.ts';
import { encodePayload } from '../../model/values/payload.ts';
import type { StepContext } from '../../orchestration/steps.ts';
import { runInStep } from '../../replay/cancellation/scope.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { Operation } from '../../replay/operations.ts';
import type { StepCall } from '../../replay/step-call.ts';
import { unsupported } from '../activities/attempt-transaction.ts';
import type { LeakedHandlers } from '../activities/concurrency.ts';
import type { Emitter } from '../activities/emitter.ts';
import type { Indexed } from '../activities/indexed-list.ts';
import { callInSpan, reportSafely } from '../maintenance/reports.ts';
import type { ResolvedOptions } from '../options.ts';
import type { WarmInstance } from '../turns/warm-instance.ts';
import { platform } from '../../model/platform.ts';

/** The message with the outcome of an attempt. */
export type StepMessage = Extract<
  Message,
  { readonly kind: 'stepCompleted' | 'stepFailed' | 'stepRetried' }
>;

/**
 * How a transaction ended without a message for the turn: its outcome is stored, its claim is lost, its outcome is unknown,
 * or the codec could not encode its result and it was rolled back.
 */
export type StepTransactionEnd =
  | 'committed'
  | 'lost'
  | 'unknown'
  | { readonly unencoded: PerdureError };

export interface StepRunParams {
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly leaked: LeakedHandlers;
  /** The attempt has ended. Without a message it has no outcome: it was canceled, or its worker stops. */
  readonly onEnd: (
    run: StepRun,
    message: StepMessage | undefined,
    transacted: StepTransactionEnd | undefined,
  ) => void;
  readonly store: Pick<Provider, 'name' | 'transact'>;
  /** The claim on the instance. */
  readonly lockToken: string;
  readonly newEmitter: (run: StepRun) => Emitter;
}

/** One attempt of a step. Calls the closure, applies its timeouts, and delivers a cancel. */
export class StepRun implements StepContext, Indexed {
  index = 0;
  readonly operation: number;
  readonly name: string;
  readonly #step: StepCall;
  readonly #instance: WarmInstance;
  readonly #params: StepRunParams;
  // Created on demand: most closures never use the signal.
  #controller: AbortController | undefined;
  #stopping: CanceledError | undefined;
  /** The timeout that aborted the attempt, with whether it is that of all attempts. */
  #timeout: { readonly ms: number; readonly isFinal: boolean } | undefined;
  #cancelTimers: (() => void)[] | undefined;
  #startedAt = 0;
  #ended = false;
  /** Whether the writes of a transaction are being committed: they cannot be stopped. */
  #isCommitting = false;
  #isLeaked = false;
  #span: AttemptSpan | undefined;
  #emitter: Emitter | undefined;

  constructor(operation: Operation, instance: WarmInstance, params: StepRunParams) {
    this.operation = operation.id;
    this.name = operation.name;
    this.#step = operation.step as StepCall;
    this.#instance = instance;
    this.#params = params;
  }

  get attempt(): number {
    return this.#step.attempts + 1;
  }

  /** In the format of activities. */
  get idempotencyKey(): string {
    const { instanceId, incarnation, executionId } = this.#instance;
    return `${instanceId}/${incarnation}/${executionId}.${this.operation}`;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#stopping !== undefined) this.#controller.abort(this.#stopping);
    return this.#controller.signal;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  throwIfCanceled(): void {
    if (this.#stopping !== undefined) throw this.#stopping;
  }

  emit(chunk: unknown): Promise<boolean> {
    const emitted = this.#emitChunk(chunk);
    // A closure that does not await its emits is canceled through its signal.
    emitted.catch(() => undefined);
    return emitted;
  }

  async #emitChunk(chunk: unknown): Promise<boolean> {
    this.throwIfCanceled();
    const what = `The chunk of step ${JSON.stringify(this.name)}`;
    const payload = encodePayload(chunk, what, this.#params.options.payloadLimitBytes) ?? 'null';
    if (this.#ended) return false;
    this.#emitter ??= this.#params.newEmitter(this);
    return this.#emitter.emit(payload);
  }

  /** Calls the closure. Ends without a call if the timeout of the step has passed. */
  start(): void {
    const { clock } = this.#params;
    const { timeoutMs, attemptTimeoutMs } = this.#step.settings;
    this.#startedAt = Math.floor(clock.now());
    if (timeoutMs !== undefined) {
      const leftMs = this.#step.calledAt + timeoutMs - this.#startedAt;
      // The first attempt always begins: it cannot be late by more than the commit of its turn.
      if (leftMs <= 0 && this.#step.attempts > 0) {
        this.#timeout = { ms: timeoutMs, isFinal: true };
        this.#end(this.#toTimeout());
        return;
      }
      this.#limit(Math.max(leftMs, 1), { ms: timeoutMs, isFinal: true });
    }
    if (attemptTimeoutMs !== undefined)
      this.#limit(attemptTimeoutMs, { ms: attemptTimeoutMs, isFinal: false });
    this.#beginSpan();
    void this.#run();
  }

  /** Aborts the signal and starts the grace. */
  abort(trigger: CancelTrigger, reason: string): void {
    if (this.#ended || this.#stopping !== undefined) return;
    const { clock, options } = this.#params;
    this.#stopping = new CanceledError(reason, trigger);
    this.#clearTimers();
    this.#cancelTimers = [clock.setTimer(options.cancelGraceMs, () => this.#leak())];
    this.#controller?.abort(this.#stopping);
  }

  async #run(): Promise<void> {
    try {
      if (this.#step.settings.isTransaction === true) {
        await this.#transact();
        return;
      }
      const body = this.#step.body as (step: StepContext) => unknown;
      const output = await runInStep(this.name, () => callInSpan(this.#span, () => body(this)));
      // Chunks that the closure did not await are stored before its outcome, which may end the claim.
      if (this.#emitter !== undefined) await this.#emitter.drain();
      this.#end(this.#stopping === undefined ? this.#completed(output) : this.#toLate());
    } catch (error) {
      if (this.#stopping === undefined) await this.#emitter?.drain();
      this.#end(this.#toFailed(error));
    } finally {
      if (this.#isLeaked) this.#params.leaked.remove();
    }
  }

  /** Runs the closure in a transaction, which also stores its outcome as a message to the instance. */
  async #transact(): Promise<void> {
    const { store, lockToken } = this.#params;
    const { instanceId } = this.#instance;
    const what = `step ${JSON.stringify(this.name)}`;
    if (store.transact === undefined) throw unsupported(what, store.name);
    const body = this.#step.body as (tx: StoreTransaction, step: StepContext) => unknown;
    let thrown: { readonly error: unknown } | undefined;
    try {
      const result = await store.transact({
        signal: this.signal,
        write: async (tx) => {
          this.#isCommitting = false;
          thrown = undefined;
          try {
            const output = await runInStep(this.name, () =>
              callInSpan(this.#span, () => body(tx, this)),
            );
            if (this.#emitter !== undefined) await this.#emitter.drain();
            if (this.#stopping !== undefined) throw this.#stopping;
            const message = encodeMessage(this.#toCompleted(output));
            this.#isCommitting = true;
            return { kind: 'message', ack: { instanceId, lockToken, message } };
          } catch (error) {
            thrown = { error };
            throw error;
          }
        },
      });
      this.#isCommitting = false;
      if (!result.ok && !(result.error instanceof LockLostError)) throw result.error;
      this.#end(undefined, result.ok ? 'committed' : 'lost');
    } catch (error) {
      this.#isCommitting = false;
      if (thrown !== undefined) throw error;
      if (error instanceof ProviderError && error.retryable) this.#end(undefined, 'unknown');
      // A step that was stopped meanwhile does not run again, so the codec does not matter.
      else if (this.#stopping === undefined && isPerdureError(error, 'CODEC_FAILED'))
        this.#end(undefined, { unencoded: error });
      else throw error;
    }
  }

  #completed(output: unknown): StepMessage {
    try {
      return this.#toCompleted(output);
    } catch (error) {
      return this.#failed({ ...toFailure(error), nonRetryable: true });
    }
  }

  /** Throws an error that is not retryable if the result cannot be stored. */
  #toCompleted(output: unknown): StepMessage {
    const what = `The result of step ${JSON.stringify(this.name)}`;
    try {
      const payload = encodePayload(output, what, this.#params.options.payloadLimitBytes);
      return { kind: 'stepCompleted', ...this.#answer(), payload };
    } catch (error) {
      throw Object.assign(error as Error, { nonRetryable: true });
    }
  }

  /** A result after the abort counts only if the timeout of an attempt was the reason: then the attempt failed. */
  #toLate(): StepMessage | undefined {
    return this.#timeout === undefined ? undefined : this.#toTimeout();
  }

  #toFailed(error: unknown): StepMessage | undefined {
    const stopping = this.#stopping;
    if (this.#timeout !== undefined) return this.#toTimeout();
    if (stopping !== undefined) return undefined;
    return this.#retryOrFail(toFailure(error), errorClasses(error));
  }

  #toTimeout(): StepMessage {
    const { ms = 0, isFinal = true } = this.#timeout ?? {};
    const what = `step ${JSON.stringify(this.name)}`;
    const message = isFinal
      ? `Step ${JSON.stringify(this.name)} did not finish within ${ms} ms, its timeout.`
      : `Attempt ${this.attempt} of ${what} took longer than ${ms} ms.`;
    const failure = platformFailure('TIMEOUT', message);
    return isFinal
      ? this.#failed(failure)
      : this.#retryOrFail({ ...failure, nonRetryable: false }, []);
  }

  #retryOrFail(failure: Failure, classes: readonly string[]): StepMessage {
    const { retry, timeoutMs } = this.#step.settings;
    const attempts = this.attempt;
    const delayMs =
      retry === undefined
        ? undefined
        : nextRetryDelayMs(retry, attempts, { failure, classes }, () => platform.random());
    if (delayMs === undefined) return this.#failed(failure);
    const at = this.#params.clock.now() + delayMs;
    const deadline = timeoutMs === undefined ? Infinity : this.#step.calledAt + timeoutMs;
    const retryAt = Math.ceil(Math.min(at, deadline));
    return { kind: 'stepRetried', ...this.#answer(), attempts, failure, retryAt };
  }

  #failed(failure: Failure): StepMessage {
    const attempts = this.attempt;
    const counted = attempts > 1 ? { ...failure, attempts } : failure;
    return { kind: 'stepFailed', ...this.#answer(), failure: counted };
  }

  #answer() {
    return {
      executionId: this.#instance.executionId,
      operation: this.operation,
      name: this.name,
      worker: this.#params.options.name,
      startedAt: this.#startedAt,
    };
  }

  #limit(ms: number, timeout: { readonly ms: number; readonly isFinal: boolean }): void {
    const cancel = this.#params.clock.setTimer(ms, () => {
      if (this.#stopping !== undefined) return;
      this.#timeout = timeout;
      this.abort('timeout', `the step took longer than ${timeout.ms} ms`);
    });
    (this.#cancelTimers ??= []).push(cancel);
  }

  #clearTimers(): void {
    for (const cancel of this.#cancelTimers ?? []) cancel();
    this.#cancelTimers = undefined;
  }

  // JavaScript cannot be stopped from outside: free the slot and ignore the result.
  #leak(): void {
    if (this.#ended || this.#isCommitting) return;
    const { options, leaked } = this.#params;
    const { instanceId } = this.#instance;
    this.#isLeaked = true;
    options.metrics.leaked();
    leaked.add();
    this.#end(this.#toLate());
    reportSafely(options.logger, () => {
      options.logger.warn(
        { instanceId, step: this.name, graceMs: options.cancelGraceMs },
        'step still runs after its grace, its slot is freed and its result will be ignored',
      );
    });
    reportSafely(options.logger, () => {
      options.hooks.handlerLeaked?.({ instanceId, activity: this.name });
    });
  }

  #beginSpan(): void {
    const { telemetry, logger, name: worker } = this.#params.options;
    if (telemetry === undefined) return;
    const { instanceId, executionId, name: orchestration, trace } = this.#instance;
    const { operation, name, attempt } = this;
    reportSafely(logger, () => {
      this.#span = telemetry.attempt({
        kind: 'step',
        name,
        instanceId,
        executionId,
        operation,
        orchestration,
        attempt,
        isRetry: attempt > 1,
        waitedMs: 0,
        worker,
        trace,
      });
    });
  }

  #end(message: StepMessage | undefined, transacted?: StepTransactionEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#clearTimers();
    const span = this.#span;
    if (span?.end !== undefined) {
      const failure = message !== undefined && 'failure' in message ? message.failure : undefined;
      const ended = transacted === 'committed' ? 'completed' : 'canceled';
      const outcome = message === undefined ? ended : outcomes[message.kind];
      reportSafely(this.#params.options.logger, () => span.end?.(outcome, failure));
    }
    this.#params.onEnd(this, message, transacted);
  }
}

const outcomes = {
  stepCompleted: 'completed',
  stepFailed: 'failed',
  stepRetried: 'retried',
} as const;
