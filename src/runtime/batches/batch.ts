import type { Clock } from '../../model/clock.ts';
import type { CanceledError } from '../../model/failures/errors.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { BatchContext, BatchRun } from '../../tasks/batch.ts';
import type { TaskClient } from '../../tasks/task.ts';
import type { LeakedHandlers, StartSlices, WorkLimiter } from '../activities/concurrency.ts';
import { hasBlocked } from '../activities/handler-call.ts';
import { reportSafely } from '../maintenance/reports.ts';
import type { ResolvedOptions } from '../options.ts';
import { runAsHolder } from '../watchdog/loop-holder.ts';
import { watchdogMs } from '../watchdog/watchdog.ts';
import { RunningBatchContext } from './batch-contexts.ts';
import { invalidResult, unsettled } from './batch-errors.ts';
import { BatchMember, type BatchedAttempt, type MemberState } from './batch-member.ts';
import { BatchTransaction } from './batch-transaction.ts';
import { platform } from '../../model/platform.ts';

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

/** What all batches of a worker share. */
export interface BatchEnvironment {
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly client: TaskClient;
  readonly starts: StartSlices;
  readonly leaked: LeakedHandlers;
  readonly store: Pick<Provider, 'name' | 'transact'>;
  readonly leases: { pendingRenewal(lockToken: string): Promise<unknown> | undefined };
  readonly onBlocked: (item: WorkItem, blockedMs: number) => void;
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
  readonly #counts = { preparing: 0, ready: 0, entered: 0, ended: 0 };
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
    const transaction = new BatchTransaction({
      task: batch.task,
      ...environment,
      members: () => this.#members.filter(({ hasEntered }) => hasEntered),
      isRunning: () => this.#phase === 'running',
      throwIfCanceled: () => this.#context.throwIfCanceled(),
    });
    this.#context = new RunningBatchContext(batch.task, { ...environment, transaction });
  }

  /** How many more runs it can gather. */
  get places(): number {
    return this.#phase === 'gathering' ? this.#batch.max - this.#liveCount : 0;
  }

  add(attempt: BatchedAttempt): BatchMember {
    const member = new BatchMember(attempt, (from, to) => this.#count(from, to));
    this.#members.push(member);
    this.#counts.preparing += 1;
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

  get #liveCount(): number {
    return this.#members.length - this.#counts.ended;
  }

  #count(from: MemberState, to: MemberState): void {
    this.#counts[from] -= 1;
    this.#counts[to] += 1;
    this.#changed();
  }

  #changed(): void {
    const live = this.#liveCount;
    if (this.#phase === 'gathering') {
      if (live === 0) this.#end();
    } else if (this.#phase === 'closed') {
      if (live === this.#counts.ready) void this.#start();
    } else if (this.#phase === 'entering') {
      if (live === this.#counts.entered) this.#allEntered.resolve();
    } else if (this.#phase !== 'starting') this.#follow(live);
  }

  /** Follows the runs while the handler runs, and afterwards. */
  #follow(live: number): void {
    this.#abortIfCanceled();
    if (live > 0) return;
    if (this.#phase === 'returned' || this.#context.isCanceled) this.#end();
    else if (this.#cancelGrace === undefined) {
      const { clock, options } = this.#environment;
      this.#cancelGrace = clock.setTimer(options.cancelGraceMs, () => this.#leak());
    }
  }

  /** Aborts the signal of the batch if every run that is not settled was canceled. */
  #abortIfCanceled(): void {
    let last: CanceledError | undefined;
    for (const { hasEntered, isSettled, canceled } of this.#members) {
      if (!hasEntered || isSettled) continue;
      // Without a cancel, the first run decides.
      if (canceled === undefined) return;
      last = canceled;
    }
    if (last !== undefined) this.#context.abort(last);
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
      for (const member of members) member.close(member.canceled ?? error);
      return;
    }
    const { task } = this.#batch;
    const isComplete = Array.isArray(result) && result.length === members.length;
    for (const [index, member] of members.entries()) {
      const { id } = member.attempt.batchRun;
      if (isComplete) member.closeWith((result as unknown[])[index]);
      else if (member.canceled !== undefined) member.close(member.canceled);
      else if (result === undefined) member.close(unsettled(task, id));
      else member.close(invalidResult(task, result, members.length));
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
    const begunAt = platform.monotonic();
    const watchdogAt = watchdogMs();
    try {
      return runAsHolder(attempt, call);
    } finally {
      const ms = platform.monotonic() - begunAt;
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
