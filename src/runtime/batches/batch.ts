import type { Clock } from '../../model/clock.ts';
import { PerdureError, type CanceledError } from '../../model/failures/errors.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { BatchContext, BatchRun } from '../../tasks/batch.ts';
import type { TaskClient } from '../../tasks/task.ts';
import type { LeakedHandlers, StartSlices, WorkLimiter } from '../activities/concurrency.ts';
import { hasBlocked } from '../activities/handler-call.ts';
import { reportSafely } from '../maintenance/reports.ts';
import type { ResolvedOptions } from '../options.ts';
import { runAsHolder, type LoopHolder } from '../watchdog/loop-holder.ts';
import { watchdogMs } from '../watchdog/watchdog.ts';
import { RunningBatchContext, type RunningBatchRun } from './batch-contexts.ts';

/** The batches of a task, in the code of the worker. */
export interface WorkBatch {
  readonly task: string;
  readonly max: number;
  readonly waitMs: number;
  /** Maximum batches of the task in this worker. */
  readonly concurrency: number;
  /** The circuit breaker of the task. */
  readonly breaker: WorkLimiter | undefined;
  call(context: BatchContext, runs: readonly BatchRun[]): unknown;
}

/** The attempt of a run that is a member of a batch. */
export interface BatchedAttempt extends LoopHolder {
  readonly item: WorkItem;
  readonly batchRun: RunningBatchRun;
  /** Calls the handler with the span of the attempt as the active one. */
  callInSpan<Result>(call: () => Result): Result;
  /** Hands the run back. */
  abandon(): void;
}

/** What all batches of a worker share. */
export interface BatchEnvironment {
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly client: TaskClient;
  readonly starts: StartSlices;
  readonly leaked: LeakedHandlers;
  readonly leases: { pendingRenewal(lockToken: string): Promise<unknown> | undefined };
  readonly onBlocked: (item: WorkItem, blockedMs: number) => void;
}

/** A run and its batch. The attempt of the run calls it. */
export class BatchMember {
  readonly attempt: BatchedAttempt;
  readonly #onChange: () => void;
  readonly #started = Promise.withResolvers<void>();
  readonly #outcome = Promise.withResolvers<unknown>();
  state: 'preparing' | 'ready' | 'entered' | 'ended' = 'preparing';
  /** Whether the handler got the run. */
  hasEntered = false;
  canceled: CanceledError | undefined;
  #isSettled = false;
  #isClosed = false;

  constructor(attempt: BatchedAttempt, onChange: () => void) {
    this.attempt = attempt;
    this.#onChange = onChange;
    this.#started.promise.catch(() => undefined);
  }

  /** The run is validated, and its condition holds. Resolves when the batch starts; rejects if the run is canceled before. */
  ready(): Promise<void> {
    if (this.state === 'preparing') this.#become('ready');
    return this.#started.promise;
  }

  start(): void {
    this.#started.resolve();
  }

  /** Passes the run to the handler. Resolves with its result, or rejects with its error. */
  enter(input: unknown): Promise<unknown> {
    this.attempt.batchRun.enter(this, input);
    this.hasEntered = true;
    if (this.state !== 'ended') this.#become('entered');
    return this.#outcome.promise;
  }

  /** The run was asked to stop, or its worker stops. */
  cancel(reason: CanceledError): void {
    this.canceled ??= reason;
    this.#started.reject(reason);
    this.#onChange();
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
    this.#onChange();
  }

  #become(state: BatchMember['state']): void {
    this.state = state;
    this.#onChange();
  }
}

/**
 * Runs of a task that share one call of its handler. Each member remains an attempt of its own, with its lease, signal,
 * timeout, span and outcome.
 *
 * - B1. A batch has at most `max` members, and one slot from its first claim until its members and its handler have ended.
 * - B2. The handler gets only runs whose lease is held and that are not known to be canceled when it is called.
 * - B3. A run ends as `completed` only if the handler settled it so, or returned a result for it.
 * - B4. What ends one run, such as a cancel, a timeout or a lost lease, does not end the others.
 */
export class Batch {
  readonly #batch: WorkBatch;
  readonly #environment: BatchEnvironment;
  readonly #onEnded: () => void;
  readonly #members: BatchMember[] = [];
  readonly #context: RunningBatchContext;
  readonly #allEntered = Promise.withResolvers<void>();
  #phase: 'gathering' | 'closed' | 'starting' | 'entering' | 'running' | 'returned' = 'gathering';
  #cancelGrace: (() => void) | undefined;
  #isLeaked = false;
  #hasEnded = false;

  constructor(batch: WorkBatch, environment: BatchEnvironment, onEnded: () => void) {
    this.#batch = batch;
    this.#environment = environment;
    this.#onEnded = onEnded;
    this.#context = new RunningBatchContext(batch.task, environment);
  }

  /** How many more runs it can gather. */
  get places(): number {
    return this.#phase === 'gathering' ? this.#batch.max - this.#live().length : 0;
  }

  add(attempt: BatchedAttempt): BatchMember {
    const member = new BatchMember(attempt, () => this.#changed());
    this.#members.push(member);
    return member;
  }

  /** Stops gathering: the handler is called once every run is ready. */
  close(): void {
    if (this.#phase !== 'gathering') return;
    this.#phase = 'closed';
    this.#changed();
  }

  /** Hands its runs back. Only while it gathers. */
  handBack(): void {
    for (const { attempt } of this.#live()) attempt.abandon();
  }

  #live(): readonly BatchMember[] {
    return this.#members.filter(({ state }) => state !== 'ended');
  }

  #changed(): void {
    const live = this.#live();
    if (this.#phase === 'gathering') {
      if (live.length === 0) this.#end();
    } else if (this.#phase === 'closed') {
      if (live.every(({ state }) => state === 'ready')) void this.#start();
    } else if (this.#phase === 'entering') {
      if (live.every(({ state }) => state === 'entered')) this.#allEntered.resolve();
    } else if (this.#phase !== 'starting') this.#follow(live);
  }

  /** Follows the runs while the handler runs, and afterwards. */
  #follow(live: readonly BatchMember[]): void {
    const unsettled = this.#members.filter(({ hasEntered, isSettled }) => hasEntered && !isSettled);
    const last = unsettled.findLast(({ canceled }) => canceled !== undefined)?.canceled;
    const isCanceled = unsettled.every(({ canceled }) => canceled !== undefined);
    if (last !== undefined && isCanceled) this.#context.abort(last);
    if (live.length > 0) return;
    if (this.#phase === 'returned' || this.#context.isCanceled) this.#end();
    else if (this.#cancelGrace === undefined) {
      const { clock, options } = this.#environment;
      this.#cancelGrace = clock.setTimer(options.cancelGraceMs, () => this.#leak());
    }
  }

  async #start(): Promise<void> {
    const { starts, leases } = this.#environment;
    this.#phase = 'starting';
    const admitted = starts.admit();
    if (admitted !== undefined) await admitted;
    for (;;) {
      const renewals = this.#live().flatMap(
        ({ attempt }) => leases.pendingRenewal(attempt.item.lockToken) ?? [],
      );
      if (renewals.length === 0) break;
      await Promise.all(renewals);
    }
    this.#phase = 'entering';
    // Each attempt checks its lease and enters. Without middleware, all of them do so before the next event loop iteration.
    for (const member of this.#live()) member.start();
    this.#changed();
    await this.#allEntered.promise;
    await this.#call(this.#live());
    this.#phase = 'returned';
    if (this.#isLeaked) this.#environment.leaked.remove();
    this.#changed();
  }

  async #call(members: readonly BatchMember[]): Promise<void> {
    // Ended by middleware that waited, or while it did.
    for (const member of this.#members) {
      if (member.hasEntered && member.state === 'ended') member.close(member.canceled);
    }
    if (members.length === 0) return;
    this.#phase = 'running';
    let result: unknown;
    try {
      result = await this.#callHandler(members);
    } catch (error) {
      for (const member of members) member.close(error);
      return;
    }
    const { task } = this.#batch;
    const isComplete = Array.isArray(result) && result.length === members.length;
    for (const [index, member] of members.entries()) {
      const { id } = member.attempt.batchRun;
      if (isComplete) member.closeWith((result as unknown[])[index]);
      else if (result !== undefined) member.close(invalidResult(task, result, members.length));
      else member.close(member.canceled ?? unsettled(task, id));
    }
  }

  #callHandler(members: readonly BatchMember[]): unknown {
    const runs = members.map(({ attempt }) => attempt.batchRun);
    const [{ attempt }] = members as readonly [BatchMember];
    const call = (): unknown => attempt.callInSpan(() => this.#batch.call(this.#context, runs));
    // The watchdog fails a run that blocks the event loop. Of several runs, none is known to be at fault: their leases
    // expire, and each runs alone at its third claim.
    if (members.length > 1) return call();
    const { options, onBlocked } = this.#environment;
    const begunAt = performance.now();
    const watchdogAt = watchdogMs();
    try {
      return runAsHolder(attempt, call);
    } finally {
      const ms = performance.now() - begunAt;
      if (hasBlocked(options, ms, watchdogAt)) onBlocked(attempt.item, ms);
    }
  }

  /** All runs are settled, but the handler does not return. */
  #leak(): void {
    if (this.#hasEnded) return;
    const { options, leaked } = this.#environment;
    this.#isLeaked = true;
    leaked.add();
    this.#end();
    reportSafely(options.logger, () =>
      options.logger.warn(
        { task: this.#batch.task, graceMs: options.cancelGraceMs },
        'batch handler still runs after its runs have ended, its slot is freed',
      ),
    );
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#cancelGrace?.();
    this.#onEnded();
  }
}

function settledTwice(task: string, id: string, call: string): PerdureError {
  return new PerdureError(
    'BATCH_RUN_SETTLED',
    `run.${call}() of task ${JSON.stringify(task)} was called for run ${JSON.stringify(id)}, which is already settled. Settle each run once.`,
  );
}

function afterReturn(task: string, id: string, call: string): PerdureError {
  return new PerdureError(
    'OUTSIDE_HANDLER',
    `run.${call}() of task ${JSON.stringify(task)} was called for run ${JSON.stringify(id)} after the batch handler had returned. Await it in the handler.`,
  );
}

function unsettled(task: string, id: string): PerdureError {
  return new PerdureError(
    'BATCH_RUN_UNSETTLED',
    `The batch handler of task ${JSON.stringify(task)} returned without settling run ${JSON.stringify(id)}. Call run.complete() or run.fail() for each run, or return an array of results.`,
  );
}

function invalidResult(task: string, result: unknown, count: number): PerdureError {
  const given = Array.isArray(result)
    ? `${result.length} results`
    : `a value of type ${typeof result}`;
  return new PerdureError(
    'BATCH_RUN_UNSETTLED',
    `The batch handler of task ${JSON.stringify(task)} returned ${given} for ${count} runs. Return one result per run, in their order, or nothing.`,
  );
}
