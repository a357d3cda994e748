import {
  CanceledError,
  LockLostError,
  PerdureError,
  ProviderError,
} from '../../model/failures/errors.ts';
import { toFailure, errorClasses, type Failure } from '../../model/failures/failure.ts';
import { decodePayload, encodePayload, type Payload } from '../../model/values/payload.ts';
import { validateInput } from '../../model/values/validate-input.ts';
import type { AttemptSpan } from '../../model/telemetry.ts';
import type { TraceIds } from '../../model/trace-context.ts';
import type { CommitResult } from '../../providers/contract/turn.ts';
import type { CancelInfo, WorkItem } from '../../providers/contract/work-queue.ts';
import {
  isOfWorker,
  timeoutFailure,
  toFailedResult,
  type AttemptResult,
} from './attempt-result.ts';
import {
  nested,
  outsideHandler,
  readTransactionCall,
  reportAfterCommit,
  transactAttempt,
  type AttemptTransaction,
} from './attempt-transaction.ts';
import { callInMiddleware, hasBlocked, hasNoMiddleware, beginAttempt } from './handler-call.ts';
import { disposeOf, type WorkHandler, type WorkOptions } from './work-handlers.ts';
import { watchdogMs } from '../watchdog/watchdog.ts';
import {
  isCancellation,
  RunningActivityContext,
  RunningTaskContext,
  type RunOperations,
} from './running-context.ts';
import { runAsHolder, type LoopHold, type LoopHolder } from '../watchdog/loop-holder.ts';
import type { Indexed } from './indexed-list.ts';
import { RunningBatchRun } from '../batches/batch-contexts.ts';
import type { BatchedAttempt, BatchMember } from '../batches/batch-member.ts';
import type { Emitter } from './emitter.ts';
import type { RunEnvironment } from './run-environment.ts';
import { startIsolated, type IsolatedHandler } from './isolated-handler.ts';
import { callInSpan, reportLeak, reportSafely } from '../maintenance/reports.ts';
import type { StoreTransaction } from '../../model/store-transaction.ts';
import type { TransactionOptions } from '../../orchestration/activity-context.ts';
import { platform } from '../../model/platform.ts';

/** One attempt of an activity or task. Runs the handler, delivers cancels, and returns its result. */
export class ActivityRun implements LoopHolder, RunOperations, BatchedAttempt, Indexed {
  readonly item: WorkItem;
  index = 0;
  readonly #handler: WorkHandler;
  readonly #environment: RunEnvironment;
  readonly #context: RunningActivityContext;
  #activityOptions: WorkOptions = {};
  #finish: ((result: AttemptResult) => void) | undefined;
  #cancelTimeout: (() => void) | undefined;
  #cancelGrace: (() => void) | undefined;
  #stopping: CanceledError | undefined;
  /** Set when the attempt's own timeout aborted it. A scope's timeout arrives as a cancel. */
  #attemptTimeout: CanceledError | undefined;
  #thread: IsolatedHandler | undefined;
  #emitter: Emitter | undefined;
  #transaction: AttemptTransaction<unknown> | undefined;
  #committed: { readonly payload: Payload | null } | undefined;
  #isHandling = false;
  #hasBegun = false;
  #isDeleted = false;
  #isDisposed = false;
  #isLeaked = false;
  #span: AttemptSpan | undefined;
  /** Its place in a batch. Only for tasks with `batch`. */
  #member: BatchMember | undefined;
  #beganAt: number | undefined;
  /** Resolves when a run that was claimed ahead has a slot. */
  #slot: Promise<void> | undefined;

  constructor(item: WorkItem, handler: WorkHandler, environment: RunEnvironment) {
    this.item = item;
    this.#handler = handler;
    this.#environment = environment;
    this.#context = newContext(this, handler, environment);
  }

  get #kind(): string {
    return this.item.kind === 'activity' ? 'activity' : 'task';
  }

  get lockToken(): string {
    return this.item.lockToken;
  }

  describeHold(): LoopHold {
    const { watchdogId } = this.#environment;
    const handler = this.#handler;
    const { instanceId, lockToken, nowMs: startedAt, options } = this.item;
    const hold = {
      kind: 'handler',
      watchdogId,
      what: handler.label,
      instanceId,
      lockToken,
    } as const;
    return { ...hold, startedAt, ...(handler.hasOnFail && { onFail: { options } }) };
  }

  /** Whether user code was called: the condition of a task, or the handler. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** The monotonic time at which a batch handler got the run. */
  get beganAt(): number | undefined {
    return this.#beganAt;
  }

  /** Makes the run a member of a batch. Call it before `run()`. */
  join(member: BatchMember): void {
    this.#member = member;
  }

  /** Makes user code wait for a slot. Call it before `run()`. */
  waitFor(slot: Promise<void>): void {
    this.#slot = slot;
  }

  get batchRun(): RunningBatchRun {
    if (this.#context instanceof RunningBatchRun) return this.#context;
    throw new Error('The run is not a member of a batch.');
  }

  callInSpan<Result>(call: () => Result): Result {
    return callInSpan(this.#span, call);
  }

  /** The ids of the span of the attempt, for log lines. */
  get traceIds(): TraceIds | undefined {
    return this.#span?.ids;
  }

  /** Marks the call of user code, and begins the span of the attempt: one that never begins has none. */
  #markBegun(): void {
    this.#hasBegun = true;
    const { telemetry, logger, name } = this.#environment.options;
    if (telemetry === undefined || this.#span !== undefined) return;
    reportSafely(logger, () => (this.#span = beginAttempt(telemetry, this.item, name)));
  }

  /** Ends the span of the attempt. */
  endSpan(outcome: string, result: AttemptResult): void {
    const span = this.#span;
    if (span?.end === undefined) return;
    const failure = 'failure' in result ? result.failure : undefined;
    reportSafely(this.#environment.options.logger, () => span.end?.(outcome, failure));
  }

  /** Returns the heartbeat since the last renewal, for the next one. */
  takeHeartbeat(): { readonly heartbeat?: Payload | null } {
    return this.#context.takeHeartbeat();
  }

  putBackHeartbeat(heartbeat: { readonly heartbeat?: Payload | null }): void {
    this.#context.putBackHeartbeat(heartbeat);
  }

  /** Runs the attempt. Never rejects. */
  run(): Promise<AttemptResult> {
    return new Promise((resolve) => {
      this.#finish = resolve;
      void this.#execute();
    });
  }

  /** Delivers a cancel from the store. */
  onCancel(cancel: CancelInfo): void {
    this.abort(new CanceledError(cancel.reason, cancel.trigger));
  }

  /**
   * After this, the store delivers only a terminate or a deletion, and the attempt has no timeout. A lost lease and a
   * worker shutdown still end the attempt. Throws if the handler is already canceled.
   */
  async pointOfNoReturn(): Promise<void> {
    this.#context.throwIfCanceled();
    if (this.#activityOptions.cancellation !== 'wait') throw noPointOfNoReturn(this.#handler.label);
    // The timeout must not fire between the mark in the store and its confirmation.
    this.#cancelTimeout?.();
    const mark = await this.#environment
      .markPointOfNoReturn(this.lockToken)
      .catch((error: unknown) => {
        this.#restartTimeout();
        throw error;
      });
    if (mark.kind === 'canceled') this.onCancel(mark.cancel);
    if (mark.kind === 'lost') this.onLost();
    this.#context.throwIfCanceled();
  }

  emit(payload: Payload): Promise<boolean> {
    this.#emitter ??= this.#environment.newEmitter(this.item, this.#context);
    return this.#emitter.emit(payload);
  }

  async transaction<Value>(
    work: (tx: StoreTransaction) => Value | Promise<Value>,
    options?: TransactionOptions,
  ): Promise<Value> {
    const { label } = this.#handler;
    const timeoutMs = readTransactionCall(label, work, options);
    if (this.#transaction !== undefined) throw nested(label);
    if (this.#finish === undefined || !this.#isHandling) throw outsideHandler(label);
    this.#context.throwIfCanceled();
    return transactAttempt(this, { label, timeoutMs, ...this.#environment }, work);
  }

  get isRefusedByCancel(): boolean {
    return this.item.kind !== 'activity' || this.#activityOptions.cancellation === undefined;
  }

  get mayCommit(): boolean {
    const stopping = this.#stopping;
    return this.#finish !== undefined && (stopping === undefined || this.#mayComplete(stopping));
  }

  assertMayCommit(): void {
    const stopping = this.#stopping;
    if (stopping !== undefined && !this.#mayComplete(stopping)) throw stopping;
    if (this.#finish === undefined) throw outsideHandler(this.#handler.label);
  }

  openTransaction(transaction: AttemptTransaction<unknown>): void {
    this.#transaction = transaction;
  }

  closeTransaction(): void {
    this.#transaction = undefined;
  }

  drain(): Promise<unknown> {
    return this.#emitter?.drain() ?? Promise.resolve();
  }

  commit(payload: Payload | null, commit: CommitResult): void {
    this.#committed = { payload };
    // The item is gone: a renewal would report a lost lease.
    this.#environment.leases.remove(this.lockToken);
    this.#end({ kind: 'completed', payload, commit });
  }

  /** Whether a handler that ignores the cancel still completes: the orchestration waits for its outcome. */
  #mayComplete(stopping: CanceledError): boolean {
    if (this.item.kind !== 'activity' || this.#isDeleted) return false;
    const isOwn = stopping === this.#attemptTimeout || isOfWorker(stopping);
    return this.#activityOptions.cancellation === 'wait' && !isOwn;
  }

  refuse(error: Error): Error {
    this.#transaction?.settle();
    if (error instanceof CanceledError) this.abort(error);
    else if (error instanceof LockLostError) this.onLost();
    return this.#stopping ?? error;
  }

  /** Whether a commit is in progress. Then `call` runs after it, unless it has committed. */
  #isCommitting(call: () => void): boolean {
    const retry = (): void => {
      if (this.#committed === undefined) call();
    };
    return this.#transaction?.isCommitting(retry) === true;
  }

  cancelRun(reason: string | undefined): Promise<void> {
    return this.#environment.cancelRun(this.item, reason);
  }

  /** The item was deleted with its instance or execution. The handler has its grace; its result is dropped. */
  onDeleted(): void {
    this.#isDeleted = true;
    this.abort(new CanceledError(`the instance of this ${this.#kind} was deleted`, 'deleted'));
  }

  /** The lease expired: another worker may run the item, so the result is dropped. */
  onLost(): void {
    if (this.#isDeleted || this.#isCommitting(() => this.onLost())) return;
    if (!this.#hasBegun) {
      // No user code was called, so there is nothing to cancel. The store takes an unstarted item back even after its
      // lease, unless another worker has claimed it.
      this.abandon();
      return;
    }
    this.abort(new CanceledError(`the lease on this ${this.#kind} was lost`, 'lease_lost'));
    this.#end({ kind: 'lost' });
  }

  /** Aborts the handler's signal and starts its grace. */
  abort(reason: CanceledError): void {
    if (this.#stopping !== undefined || this.#finish === undefined) return;
    this.#stopping = reason;
    this.#cancelTimeout?.();
    const { clock, options } = this.#environment;
    this.#cancelGrace = clock.setTimer(options.cancelGraceMs, () => this.#onGraceExpired());
    this.#context.abort(reason);
    this.#member?.cancel(reason);
    if (!this.#mayComplete(reason)) this.#transaction?.abort(reason);
    // The handler has not started, so there is nothing to wait for.
    if (!this.#hasBegun) this.#end(this.#toResult(reason));
  }

  /** Ends the attempt without an outcome: the item returns to the queue. */
  abandon(unencoded?: PerdureError): void {
    if (this.#isCommitting(() => this.abandon(unencoded))) return;
    this.#end({ kind: 'abandoned', unencoded });
  }

  async #execute(): Promise<void> {
    try {
      const input = await this.#prepare();
      if (input === undefined) return;
      const session = this.#environment.sessions.read(this.item);
      if (session !== undefined) this.#context.session = await session;
      const handler = this.#handler;
      if (handler.isSkipped !== undefined) {
        const skipped = await this.#begin(() => {
          this.#markBegun();
          return callInSpan(this.#span, () =>
            handler.isSkipped?.(this.#context, input.value, this.item),
          );
        });
        if (skipped?.value === true) this.#end({ kind: 'skipped' });
        if (skipped?.value !== false) return;
      }
      const loaded =
        handler.load === undefined ? undefined : await handler.load(input.value, this.item);
      const member = this.#member;
      const output =
        member === undefined
          ? await this.#begin(() => this.#runHandler(input.value, loaded))
          : await this.#runInBatch(member, input.value);
      if (output === undefined) return;
      if (this.#committed !== undefined) {
        reportAfterCommit(this.#environment.options, this.item, { ...this.#committed, ...output });
        return;
      }
      // Chunks that the handler did not await are stored before its outcome ends the claim.
      if (this.#emitter !== undefined) await this.#emitter.drain();
      const result = this.#completed(output.value);
      if (this.#hasNoRecipient) await this.#dispose(result);
      this.#end(result);
    } catch (error) {
      if (this.#committed !== undefined) {
        reportAfterCommit(this.#environment.options, this.item, { ...this.#committed, error });
        return;
      }
      if (!this.#hasBegun && isUnreachable(error)) {
        // A read of the worker failed, not the handler: it must not cost an attempt.
        this.abandon();
        return;
      }
      if (this.#stopping === undefined) await this.#emitter?.drain();
      this.#end(this.#toResult(error));
    } finally {
      if (this.#isLeaked) this.#environment.leaked.remove();
    }
  }

  /**
   * Waits for a start slice, then calls `call`, unless the attempt has ended or is canceled.
   * The checks and the call are synchronous, so no code starts after its lease expired or after a known cancel.
   *
   * For an isolated handler this runs twice: before its thread starts, and again when its module is loaded. Loading takes
   * long enough for a cancel or a lost lease, so the handler is checked again directly before it is called. Its timeout
   * limits the load first, and restarts in full for the handler.
   */
  async #begin<T>(call: () => T): Promise<{ readonly value: Awaited<T> } | undefined> {
    const { starts, leases } = this.#environment;
    // The timeout does not include the wait for the start, unless user code has begun: then it runs on.
    if (!this.#hasBegun) this.#cancelTimeout?.();
    if (this.#slot !== undefined) {
      await this.#slot;
      this.#slot = undefined;
      if (this.#finish === undefined) return undefined;
    }
    const admitted = starts.admit();
    if (admitted !== undefined) await admitted;
    for (let asked = leases.pendingRenewal(this.lockToken); asked !== undefined;) {
      await asked;
      asked = leases.pendingRenewal(this.lockToken);
    }
    if (this.#finish === undefined) return undefined;
    this.#context.throwIfCanceled();
    if (!leases.isHeld(this.lockToken)) {
      // The process was suspended or blocked. Another worker may already run or have completed the item.
      this.onLost();
      return undefined;
    }
    if (!this.#hasBegun) this.#restartTimeout();
    return { value: await call() };
  }

  /** Waits for the batch of the run, then passes the run to its handler. The wait does not count for the timeout. */
  async #runInBatch(
    member: BatchMember,
    input: unknown,
  ): Promise<{ readonly value: unknown } | undefined> {
    const { clock, leases } = this.#environment;
    this.#cancelTimeout?.();
    await member.ready();
    if (this.#finish === undefined) return undefined;
    this.#context.throwIfCanceled();
    if (!leases.isHeld(this.lockToken)) {
      this.onLost();
      return undefined;
    }
    this.#restartTimeout();
    this.#beganAt = clock.monotonic();
    this.#isHandling = true;
    this.#markBegun();
    return { value: await this.#around(input, () => member.enter(input)) };
  }

  #runHandler(input: unknown, loaded: unknown): unknown {
    const { item } = this;
    const handler = this.#handler;
    const { options } = this.#environment;
    const { isolated } = handler;
    if (isolated === undefined) {
      this.#isHandling = true;
      this.#markBegun();
      const begunAt = platform.monotonic();
      const watchdogAt = watchdogMs();
      try {
        const handle = (): unknown => handler.run(this.#context, input, item, loaded);
        const call = hasNoMiddleware(options, item)
          ? handle
          : (): unknown => this.#around(input, handle);
        return runAsHolder(
          this,
          this.#span === undefined ? call : () => callInSpan(this.#span, call),
        );
      } finally {
        const ms = platform.monotonic() - begunAt;
        if (hasBlocked(options, ms, watchdogAt)) this.#environment.onBlocked(item, ms);
      }
    }
    return this.#around(input, () => this.#runIsolated(isolated, input));
  }

  #runIsolated(isolated: NonNullable<WorkHandler['isolated']>, input: unknown): unknown {
    const { item } = this;
    const handler = this.#handler;
    const { options } = this.#environment;
    this.#thread = startIsolated({
      isolated,
      context: this.#context,
      payload:
        handler.inputSchema === undefined
          ? item.payload
          : encodePayload(input, `The input of ${handler.label}`),
      lastHeartbeat: item.heartbeat,
      payloadLimitBytes: options.payloadLimitBytes,
      begin: async (call) => {
        await this.#begin(() => {
          this.#markBegun();
          call();
        });
      },
    });
    return this.#thread.result;
  }

  /** Calls the handler inside the middleware of its kind. */
  #around(input: unknown, call: () => unknown): unknown {
    const { item } = this;
    const { options } = this.#environment;
    if (hasNoMiddleware(options, item)) return call();
    this.#markBegun();
    return callInMiddleware(options, { item, context: this.#context, input }, call);
  }

  /** Decodes and validates the input. A failure is final: a retry would fail in the same way. */
  async #prepare(): Promise<{ readonly value: unknown } | undefined> {
    const { item } = this;
    const handler = this.#handler;
    try {
      this.#activityOptions = handler.options(item);
      this.#restartTimeout();
      const value = decodePayload(item.payload);
      // Without a schema, nothing is awaited.
      if (handler.inputSchema === undefined) return { value };
      return { value: await validateInput(handler.inputSchema, value, capitalize(handler.label)) };
    } catch (error) {
      this.#end({ kind: 'failed', failure: { ...toFailure(error), nonRetryable: true } });
      return undefined;
    }
  }

  #completed(output: unknown): AttemptResult {
    const { options } = this.#environment;
    const what = `The result of ${this.#handler.label}`;
    try {
      return { kind: 'completed', payload: encodePayload(output, what, options.payloadLimitBytes) };
    } catch (error) {
      return { kind: 'failed', failure: { ...toFailure(error), nonRetryable: true } };
    }
  }

  /** Whether the result has no recipient. */
  get #hasNoRecipient(): boolean {
    const stopping = this.#stopping;
    if (stopping === undefined || stopping === this.#attemptTimeout) return false;
    if (isOfWorker(stopping)) return false;
    // With `cancellation: 'wait'`, the orchestration receives the result.
    return (
      this.#isDeleted ||
      this.item.kind === 'task' ||
      this.#activityOptions.cancellation === undefined
    );
  }

  get #disposal(): Parameters<typeof disposeOf>[0] {
    const { options, client } = this.#environment;
    return { item: this.item, handler: this.#handler, options, client };
  }

  /** Disposes of a result that came too late. */
  async #dispose(result: AttemptResult): Promise<void> {
    if (result.kind !== 'completed') return;
    this.#isDisposed = true;
    await disposeOf(this.#disposal, result.payload);
  }

  /** Disposes of a result that the store rejects. A cancel may be stored before it reaches this worker. */
  get onDiscarded(): ((payload: Payload | null) => Promise<void>) | undefined {
    if (this.#isDisposed || this.#handler.onAbandoned === undefined) return undefined;
    return (payload) => disposeOf(this.#disposal, payload);
  }

  #toResult(error: unknown): AttemptResult {
    const stopping = this.#stopping;
    if (stopping === undefined) return this.#failed(toFailure(error), errorClasses(error));
    if (stopping === this.#attemptTimeout) {
      const { attemptTimeoutMs = 0 } = this.#activityOptions;
      return this.#failed(timeoutFailure(this.item, this.#handler.label, attemptTimeoutMs), []);
    }
    if (stopping.trigger === 'shutdown') return { kind: 'abandoned' };
    if (isCancellation(error, stopping)) return { kind: 'canceled', leaked: false };
    // After a cancel, an error of the handler's own is recorded but not retried.
    return { kind: 'failed', failure: toFailure(error) };
  }

  #failed(failure: Failure, classes: readonly string[]): AttemptResult {
    return toFailedResult(this.item, this.#activityOptions, failure, classes);
  }

  /** Starts the timeout of the attempt with its full duration, instead of an earlier one. */
  #restartTimeout(): void {
    const { attemptTimeoutMs } = this.#activityOptions;
    if (attemptTimeoutMs === undefined) return;
    this.#cancelTimeout?.();
    const { clock } = this.#environment;
    this.#cancelTimeout = clock.setTimer(attemptTimeoutMs, () => {
      const reason = `the attempt took longer than ${attemptTimeoutMs} ms`;
      this.#attemptTimeout = new CanceledError(reason, 'timeout');
      this.abort(this.#attemptTimeout);
    });
  }

  #onGraceExpired(): void {
    if (this.#isCommitting(() => this.#onGraceExpired())) return;
    if (this.#thread === undefined) this.#leak();
    else void this.#thread.kill().then(() => this.#end(this.#toResult(this.#stopping)));
  }

  // JavaScript cannot be stopped from outside: free the slot and ignore the result.
  #leak(): void {
    const { options, leaked } = this.#environment;
    const result = this.#toResult(this.#stopping);
    this.#isLeaked = true;
    options.metrics.leaked();
    leaked.add();
    this.#end(result.kind === 'canceled' ? { ...result, leaked: true } : result);
    reportLeak(options, this.item);
  }

  #end(result: AttemptResult): void {
    const finish = this.#finish;
    if (finish === undefined) return;
    this.#finish = undefined;
    this.#cancelTimeout?.();
    this.#cancelGrace?.();
    this.#context.end();
    this.#transaction?.abort(new CanceledError('the attempt has ended', 'lease_lost'));
    // The thread must not outlive the attempt.
    void this.#thread?.kill();
    this.#member?.end();
    finish(this.#isDeleted ? { kind: 'deleted' } : result);
  }
}

function newContext(
  run: ActivityRun,
  handler: WorkHandler,
  environment: RunEnvironment,
): RunningActivityContext {
  if (run.item.kind === 'activity' && !handler.isTask)
    return new RunningActivityContext(run, environment);
  return handler.batch === undefined
    ? new RunningTaskContext(run, environment)
    : new RunningBatchRun(run, environment);
}

function isUnreachable(error: unknown): boolean {
  return error instanceof ProviderError && error.retryable;
}

function capitalize(what: string): string {
  return what.charAt(0).toUpperCase() + what.slice(1);
}

function noPointOfNoReturn(what: string): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    `${capitalize(what)} cannot pass a point of no return: its caller does not wait for it when it is canceled. Call it with { cancellation: 'wait' }.`,
  );
}
