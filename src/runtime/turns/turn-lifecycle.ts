import type { Clock } from '../../model/clock.ts';
import { isIncoming, type HistoryEvent } from '../../model/event.ts';
import { NondeterminismError } from '../../model/failures/errors.ts';
import { decodeFailure, toError } from '../../model/failures/failure.ts';
import { decodeMessage, stepGuardOperation } from '../../model/message.ts';
import { decodeTrace, traceOfExecution, type TraceContext } from '../../model/trace-context.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type { CreateResult, NewInstance } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { ClaimedAtInsert, NewWorkItem, Turn } from '../../providers/contract/turn.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TurnResult } from '../../replay/execution.ts';
import type { Slots } from '../activities/concurrency.ts';
import { PendingWork } from '../maintenance/pending-work.ts';
import { reportFailedInstance, reportSafely } from '../maintenance/reports.ts';
import type { SeriesCounters } from '../maintenance/series-counters.ts';
import type { ResolvedOptions } from '../options.ts';
import type { FreshReplays } from './fresh-replays.ts';
import { WarmInstance, type ProgramFactory } from './warm-instance.ts';
import { toTurn, type TurnSubject } from './turn-effects.ts';
import { dropsTurns, traceTurn } from './turn-trace.ts';
import type { WarmCache } from './warm-cache.ts';
import type { WarmTimers } from './timer-turns.ts';
import { platform } from '../../model/platform.ts';

export interface TurnLifecycleParams {
  readonly provider: Provider;
  readonly registry: Registry;
  readonly options: ResolvedOptions;
  readonly cache: WarmCache;
  readonly timers: WarmTimers;
  readonly slots: Slots;
  readonly replays: FreshReplays;
  readonly series: SeriesCounters;
  /** Starts items that a commit claimed for this process. */
  readonly startClaimed: (items: readonly WorkItem[], claimedAt: number) => void;
}

/** When a turn ran. `nowMs` is the store's time on the slow path, and this process's clock on the fast path. */
export interface TurnTime {
  readonly path: 'fast' | 'slow';
  readonly nowMs: number;
}

/** Plans a turn, and follows up when it was committed or rejected. Shared by all paths. */
export class TurnLifecycle {
  readonly #params: TurnLifecycleParams;
  /** Unawaited operations of turns that end their instance. Logged after the commit. */
  readonly #neverAwaited = new WeakMap<Turn, readonly string[]>();

  constructor(params: TurnLifecycleParams) {
    this.#params = params;
  }

  /** With `alwaysReplay`: replaces the code by a copy replayed to the end of the turn. Throws `NondeterminismError`. */
  async replay(instance: WarmInstance, result: TurnResult): Promise<void> {
    instance.code = await this.#params.replays.replay(instance, instance.code, result);
    instance.code.execution.holder = instance;
  }

  /** Derives the turn to commit, and takes slots for the activities that this process will run. */
  plan(subject: TurnSubject, result: TurnResult, time: TurnTime): Turn {
    const { options, registry, slots, provider } = this.#params;
    const instance = subject instanceof WarmInstance ? subject : undefined;
    if (instance !== undefined) forgetResolved(instance, result.events);
    const mayClaim = options.fastPaths && (instance === undefined || instance.queued.size === 0);
    let budget = mayClaim ? slots.free : 0;
    const turn = toTurn({
      subject,
      firstEventId: result.firstEventId,
      events: result.events,
      storeNowMs:
        time.path === 'slow' || provider.clockIsEstimate !== true ? time.nowMs : undefined,
      carried: result.carried,
      bufferedEvents: result.bufferedEvents,
      stepGuard: guardOf(instance, result),
      rejections: result.rejections,
      carriedUpdates: result.carriedUpdates,
      closesAwakeables: result.closesAwakeables,
      cleanupMs: options.cleanupTimeoutMs,
      streamLimitBytes: options.streamLimitBytes,
      worker: options.name,
      claimMs: (activity) => {
        if (budget === 0 || !registry.isClaimable(activity)) return undefined;
        budget -= 1;
        return options.activityLeaseMs;
      },
    });
    slots.take(claimCount(turn));
    const { neverAwaited } = result;
    if (neverAwaited !== undefined) this.#neverAwaited.set(turn, neverAwaited);
    return turn;
  }

  /** Handles a commit: caches or evicts the instance, and starts the activities that the commit claimed. */
  committed(
    instance: WarmInstance,
    turn: Turn,
    commit: TurnTime & {
      readonly claimed: readonly ClaimedAtInsert[];
      /** Monotonic time before the commit was sent. Leases of the claimed items start here. */
      readonly sentAt: number;
      /** When the turn began, by `platform.monotonic()`. */
      readonly beganAt: number;
      /** Whether the claim on the instance is kept. */
      readonly kept?: boolean;
      /** The contexts of the events that the turn received. */
      readonly causes?: readonly TraceContext[] | undefined;
    },
  ): void {
    const { cache, options } = this.#params;
    instance.lastTurn = turn.turnId;
    for (const { operation, claimMs } of turn.workItems) {
      if (claimMs === undefined) instance.queued.add(operation);
    }
    for (const { operation, fireAt } of turn.timers) {
      if (operation === stepGuardOperation) instance.isGuarded = true;
      // The end of a back-off is fetched, so that the same claim runs the step.
      else if (!instance.execution.pendingSteps.has(operation))
        instance.timers.set(operation, Math.ceil(fireAt));
    }
    if (turn.timerWithdrawals.includes(stepGuardOperation)) instance.isGuarded = false;
    instance.code.faults.committed(turn.turnId);
    this.#count(instance, turn, commit.nowMs);
    this.#measure(instance, turn, commit);
    this.#report(instance, turn, commit.path);
    if (turn.outcome.status === 'failed')
      reportFailedInstance(options.logger, instance, turn.outcome.failure);
    if (turn.outcome.status !== 'running') this.#warnUnawaited(instance, turn);
    if (turn.outcome.status !== 'running') cache.evict(instance);
    else if (options.warmCacheBytes === 0) {
      if (commit.kept !== true) cache.evict(instance);
    } else if (!instance.isEvicted && !(commit.kept === true && turn.timers.length === 0))
      this.#keep(instance, turn);
    this.#startClaimed(instance, turn, commit);
  }

  #keep(instance: WarmInstance, { timers: set }: Turn): void {
    const { cache, timers, options, provider } = this.#params;
    cache.put(instance);
    // A store with its own clock may reject a timer that is due by ours.
    if (instance.isEvicted || !options.fastPaths || provider.clockIsEstimate === true) return;
    for (const { operation, fireAt, delayMs } of set) {
      if (delayMs === undefined && instance.timers.has(operation))
        timers.add(instance, operation, Math.ceil(fireAt));
    }
  }

  /** Handles a turn that was rejected or whose commit is unknown. Evicts the instance. */
  rejected(instance: WarmInstance | undefined, turn: Turn): void {
    this.#params.slots.release(claimCount(turn));
    if (instance !== undefined) this.#params.cache.evict(instance);
  }

  #startClaimed(
    instance: WarmInstance,
    turn: Turn,
    { claimed, nowMs, sentAt }: Parameters<TurnLifecycle['committed']>[2],
  ): void {
    const { slots, startClaimed } = this.#params;
    const unclaimed = claimCount(turn) - claimed.length;
    if (unclaimed > 0) slots.release(unclaimed);
    if (claimed.length === 0) return;
    const find = finder(turn.workItems);
    const trace = traceOfExecution(instance.trace, instance.executionId);
    const items: WorkItem[] = [];
    for (const { operation, lockToken } of claimed) {
      const item = find(operation);
      if (item === undefined) continue;
      items.push({
        kind: 'activity',
        lockToken,
        instanceKey: instance.instanceKey,
        instanceId: instance.instanceId,
        incarnation: instance.incarnation,
        executionId: instance.executionId,
        operation,
        name: item.name,
        orchestration: instance.name,
        payload: item.payload,
        options: item.options,
        trace,
        claims: 1,
        failures: 0,
        heartbeat: null,
        cancel: null,
        nowMs,
        dueAt: nowMs,
      });
    }
    startClaimed(items, sentAt);
  }

  #warnUnawaited(instance: WarmInstance, turn: Turn): void {
    const operations = this.#neverAwaited.get(turn);
    if (operations === undefined) return;
    const { options, replays } = this.#params;
    const { logger } = options;
    const { instanceId, name: orchestration } = instance;
    void replays.placesOfUnawaited(instance).then((places) =>
      reportSafely(logger, () => {
        logger.warn(
          { instanceId, orchestration, operations, ...(places.length > 0 && { places }) },
          'orchestration ended with operations that it never awaited',
        );
      }),
    );
  }

  #count({ name, executionId, execution }: WarmInstance, turn: Turn, nowMs: number): void {
    const { series, options } = this.#params;
    const { status } = turn.outcome;
    if (executionId === 1 && turn.firstEventId === 1) {
      series.started(name, nowMs);
      options.metrics.started(name);
    }
    if (status !== 'running' && status !== 'continuedAsNew') {
      const durationMs = nowMs - execution.startedAt;
      series.ended(name, nowMs, status, durationMs);
      options.metrics.ended(name, status, durationMs);
    }
  }

  #measure(
    instance: WarmInstance,
    turn: Turn,
    commit: Parameters<TurnLifecycle['committed']>[2],
  ): void {
    const { metrics, telemetry, logger } = this.#params.options;
    const endedAt = platform.monotonic();
    metrics.turn(commit.path, endedAt - commit.beganAt);
    if (telemetry === undefined || dropsTurns(telemetry, instance)) return;
    const { path, beganAt, causes } = commit;
    reportSafely(logger, () =>
      traceTurn(telemetry, instance, turn, { path, beganAt, endedAt, causes }),
    );
  }

  #report(instance: WarmInstance, turn: Turn, path: 'fast' | 'slow'): void {
    const { options } = this.#params;
    const { turnCommitted } = options.hooks;
    if (turnCommitted === undefined) return;
    reportSafely(options.logger, () =>
      turnCommitted({
        instanceId: instance.instanceId,
        executionId: instance.executionId,
        orchestration: instance.name,
        events: turn.events.length,
        path,
        status: turn.outcome.status,
        ...(turn.outcome.status === 'failed' && {
          error: toError(decodeFailure(turn.outcome.failure)),
        }),
      }),
    );
  }
}

export interface FirstTurnsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly registry: Registry;
  readonly programs: ProgramFactory;
  readonly turns: TurnLifecycle;
  readonly options: ResolvedOptions;
  readonly replays: FreshReplays;
}

/** Creates an instance together with its first turn (fast path). Needs its code in this process. */
export class FirstTurns {
  readonly #params: FirstTurnsParams;
  readonly #pending = new PendingWork();
  #stopped = false;

  constructor(params: FirstTurnsParams) {
    this.#params = params;
  }

  /** Declines new starts, and waits for the pending ones. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#pending.idle();
  }

  /** Returns `undefined` if this process cannot run the instance. */
  start(newInstance: NewInstance): Promise<CreateResult> | undefined {
    const { registry } = this.#params;
    const version = newInstance.version ?? registry.latest(newInstance.name)?.version;
    if (this.#stopped || version === undefined) return undefined;
    if (registry.find(newInstance.name, version) === undefined) return undefined;
    const created = this.#create(newInstance, version);
    this.#pending.watch(created);
    return created;
  }

  async #create(newInstance: NewInstance, version: string): Promise<CreateResult> {
    const { provider, clock, programs, turns, options, replays } = this.#params;
    const { instanceId, incarnation, name, headers } = newInstance;
    const trace = options.telemetry === undefined ? undefined : decodeTrace(headers);
    const subject: TurnSubject = { instanceId, executionId: 1, name, version, parent: null, trace };
    const beganAt = platform.monotonic();
    let code = programs.create({ ...subject, incarnation });
    const { execution } = code;
    const nowMs = Math.floor(clock.now());
    const messages = [decodeMessage(newInstance.start)];
    let ran;
    try {
      ran = await execution.turn({ messages, nowMs, version });
      if (options.alwaysReplay) code = await replays.replay({ ...subject, incarnation }, code, ran);
    } catch (error) {
      // The code cannot run this start. Store it without a turn: the slow path blocks the instance.
      execution.dispose();
      if (!(error instanceof NondeterminismError)) throw error;
      const [kept] = await provider.createInstances([newInstance]);
      return kept as CreateResult;
    }
    const time = { path: 'fast', nowMs } as const;
    const firstTurn = turns.plan(subject, ran, time);
    const sentAt = clock.monotonic();
    let result: CreateResult | undefined;
    try {
      [result] = await provider.createInstances([{ ...newInstance, firstTurn }]);
    } finally {
      if (result?.kind !== 'created' || result.withoutTurn === true) {
        code.execution.dispose();
        turns.rejected(undefined, firstTurn);
      }
    }
    if (result?.kind === 'created' && result.withoutTurn !== true) {
      const { instanceKey, claimed } = result;
      const instance = new WarmInstance({
        instanceKey,
        subject,
        incarnation,
        code,
        lastTurn: null,
      });
      turns.committed(instance, firstTurn, { ...time, claimed, sentAt, beganAt });
    }
    // The codec refused the start or its turn. Without the turn, the slow path blocks the instance.
    if (result?.kind === 'refused') [result] = await provider.createInstances([newInstance]);
    return result as CreateResult;
  }
}

function forgetResolved({ queued, timers }: WarmInstance, events: readonly HistoryEvent[]): void {
  if (queued.size === 0 && timers.size === 0) return;
  for (const event of events) {
    const resolved =
      event.kind === 'operationWithdrawn'
        ? event.target
        : isIncoming(event) && 'operation' in event
          ? event.operation
          : undefined;
    if (resolved === undefined) continue;
    queued.delete(resolved);
    timers.delete(resolved);
  }
}

/** Whether a turn adds or withdraws the timer that its instance has while its steps run. */
function guardOf(
  instance: WarmInstance | undefined,
  result: TurnResult,
): 'add' | 'withdraw' | undefined {
  const isGuarded = instance?.isGuarded ?? false;
  const isDue = result.dueSteps === true;
  if (isDue === isGuarded) return undefined;
  return isDue ? 'add' : 'withdraw';
}

/** Returns a function that finds a work item by its operation. */
function finder(items: Turn['workItems']): (operation: number) => NewWorkItem | undefined {
  const [only] = items;
  if (items.length === 1) return (operation) => (only?.operation === operation ? only : undefined);
  const byOperation = new Map(items.map((item) => [item.operation, item]));
  return (operation) => byOperation.get(operation);
}

function claimCount(turn: Turn): number {
  let count = 0;
  for (const item of turn.workItems) if (item.claimMs !== undefined) count += 1;
  return count;
}
