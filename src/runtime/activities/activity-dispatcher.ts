import type { Clock } from '../../model/clock.ts';
import { cleanReason } from '../../model/cancel.ts';
import { assertDecoded } from '../../model/encoding/assert-decoded.ts';
import { isEncoded } from '../../model/encoding/envelope.ts';
import { CanceledError, isPerdureError, type PerdureError } from '../../model/failures/errors.ts';
import {
  decodeFailure,
  platformFailure,
  toError,
  type Failure,
} from '../../model/failures/failure.ts';
import { taskNameOf } from '../../model/task-call.ts';
import type { PointOfNoReturn } from '../../providers/contract/cancellation.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { CommitResult } from '../../providers/contract/turn.ts';
import type { HandBackResult, WorkItem } from '../../providers/contract/work-queue.ts';
import type { BreakerOutcome } from '../../tasks/circuit-breaker.ts';
import type { TaskClient } from '../../tasks/task.ts';
import { IndexedList } from './indexed-list.ts';
import { SessionReader } from './session-reader.ts';
import { ActivityRun } from './activity-run.ts';
import type { RunEnvironment } from './run-environment.ts';
import type { AttemptResult } from './attempt-result.ts';
import { blockedFailure } from '../watchdog/blocked-failure.ts';
import { BatchGatherer } from '../batches/batch-gatherer.ts';
import { Emitter, type StreamBackpressure } from './emitter.ts';
import type { Leases } from '../leases/leases.ts';
import type { ResolvedOptions } from '../options.ts';
import { pause, withRetries } from '../maintenance/provider-retry.ts';
import { reportFailedAttempt, reportSafely, reportTaskEnd } from '../maintenance/reports.ts';
import type { SeriesCounters } from '../maintenance/series-counters.ts';
import type { RunningActivityContext } from './running-context.ts';
import { handBackUnencoded, type SettledActivity } from '../turns/completions.ts';
import { ClaimsAhead, type PlaceAhead } from './claims-ahead.ts';
import { StartSlices, type LeakedHandlers, type Slots, type WorkLimiter } from './concurrency.ts';
import { WorkFetcher } from './work-fetcher.ts';
import type { WorkHandler, WorkHandlers } from './work-handlers.ts';
import { nextIteration } from '../../model/platform.ts';

export interface ActivityDispatcherParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly handlers: WorkHandlers;
  readonly options: ResolvedOptions;
  readonly client: TaskClient;
  readonly slots: Slots;
  readonly series: SeriesCounters;
  readonly leaked: LeakedHandlers;
  readonly leases: Leases<ActivityRun>;
  readonly backpressure: StreamBackpressure;
  /** Id of the worker in the watchdog. */
  readonly watchdogId: number;
  readonly settle: (settled: SettledActivity) => void;
  /** An outcome was committed together with writes of the application. */
  readonly committed: (settled: SettledActivity, result: CommitResult) => void;
  /** Called when the database file was replaced: no later call can succeed. */
  readonly onStoreReplaced: (error: PerdureError) => void;
}

const maxBlockedItems = 1_000;

/** Runs activities and tasks in the slots of the worker, and passes on their outcomes. */
export class ActivityDispatcher {
  readonly #params: ActivityDispatcherParams;
  readonly #fetcher: WorkFetcher;
  readonly #environment: RunEnvironment;
  /** The tasks that are handled in batches, by name. */
  readonly #gatherers: ReadonlyMap<string, BatchGatherer>;
  readonly #running = new IndexedList<ActivityRun>();
  readonly #ahead: ClaimsAhead;
  readonly #pendingReleases = new Set<Promise<void>>();
  /** Claims being released whose handler never started. */
  readonly #unstartedReleases = new Set<WorkItem>();
  /** How long an item's handler blocked the event loop past its lease, by item identity. */
  readonly #blockedMs = new Map<string, number>();
  #idle: (() => void) | undefined;

  constructor(params: ActivityDispatcherParams) {
    this.#params = params;
    const { clock, options, client, leases, watchdogId } = params;
    this.#environment = {
      clock,
      options,
      client,
      leases,
      watchdogId,
      store: params.provider,
      starts: new StartSlices(),
      leaked: params.leaked,
      markPointOfNoReturn: (lockToken) => this.#markPointOfNoReturn(lockToken),
      cancelRun: (item, reason) => this.#cancelRun(item, reason),
      newEmitter: (item, context) => this.#newEmitter(item, context),
      sessions: new SessionReader(params.provider, clock, options),
      onBlocked: (item, blockedMs) => this.#onBlocked(item, blockedMs),
    };
    this.#gatherers = new Map(
      params.handlers
        .batches()
        .map((batch) => [batch.task, new BatchGatherer(batch, this.#environment, params.slots)]),
    );
    this.#ahead = new ClaimsAhead(clock);
    this.#fetcher = new WorkFetcher({
      ...params,
      ahead: this.#ahead,
      batches: [...this.#gatherers.values()],
      take: (item, claimedAt) => this.#take(item, claimedAt),
    });
  }

  start(): void {
    this.#fetcher.start();
  }

  /** Starts items that an ack claimed for this process. Their slots are already taken. */
  startClaimed(items: readonly WorkItem[], claimedAt: number): void {
    for (const item of items) {
      const accepted = this.#accept(item, claimedAt);
      if (accepted?.gatherer !== undefined || accepted === undefined) this.#params.slots.release(1);
      if (accepted !== undefined) this.#start(accepted);
    }
  }

  /** Announces a queued `onFail` item. */
  expectOnFail(task: string): void {
    this.#fetcher.expectOnFail(task);
  }

  /** Stops fetching, waits up to `shutdownGrace` for the handlers, then releases the rest. */
  async stop(): Promise<void> {
    await this.#fetcher.stop();
    for (const gatherer of this.#gatherers.values()) gatherer.stop();
    this.#ahead.handBack();
    if (this.#running.size > 0) await this.#endRunning();
    await this.released();
  }

  /** Resolves when no release is pending. */
  async released(): Promise<void> {
    while (this.#pendingReleases.size > 0) await Promise.all(this.#pendingReleases);
  }

  async #endRunning(): Promise<void> {
    const { clock, options } = this.#params;
    const finished = new AbortController();
    const idle = new Promise<void>((resolve) => (this.#idle = resolve));
    await Promise.race([idle, pause(clock, options.shutdownGraceMs, finished.signal)]);
    finished.abort();
    const reason = new CanceledError('the worker is shutting down', 'shutdown');
    for (const run of this.#running.values()) run.abort(reason);
    // Handlers that react to their signal end within this iteration. The others are released without waiting.
    await nextIteration();
    for (const run of this.#running.values()) run.abandon();
    if (this.#running.size > 0) await idle;
  }

  #take(item: WorkItem, claimedAt: number): void {
    const { slots } = this.#params;
    // Acks may have claimed items for the last slots while the fetch waited. Leave this item to others.
    const isFull = slots.free === 0 && item.cancel === null && !this.#hasPlace(item);
    if (isFull && !this.#mayWait(item)) {
      this.#abandon(item, this.#gatherers.get(taskNameOf(item.name, item.kind))?.noPlace);
      return;
    }
    const accepted = this.#accept(item, claimedAt);
    if (accepted === undefined) return;
    if (isFull) {
      const place = this.#ahead.add(accepted.run);
      accepted.run.waitFor(place.granted);
      this.#start(accepted, place);
      return;
    }
    if (accepted.gatherer === undefined) slots.take(1);
    this.#start(accepted);
  }

  /** Whether an item may wait for a slot. One that is limited may not: another worker may have a slot for its place. */
  #mayWait(item: WorkItem): boolean {
    if (!this.#ahead.isFast || this.#fetcher.isStopping || item.limited === true) return false;
    const handler = this.#params.handlers.find(item);
    return handler !== undefined && handler.limiter === undefined && handler.batch === undefined;
  }

  /** Whether an item joins a batch, which has its slot already. */
  #hasPlace(item: WorkItem): boolean {
    if (this.#gatherers.size === 0 || item.kind === 'onFail') return false;
    return this.#gatherers.get(taskNameOf(item.name, item.kind))?.hasPlace(item) === true;
  }

  /** Creates the run of an item. Settles or releases an item that must not run, and returns `undefined`. */
  #accept(item: WorkItem, claimedAt: number): AcceptedRun | undefined {
    const { handlers, clock, settle } = this.#params;
    const handler = handlers.find(item);
    const admission = this.#decide(item, handler, clock.monotonic());
    if (admission.kind === 'run') return this.#newRun(item, admission.handler, claimedAt);
    const hasOnFail = handler?.hasOnFail === true;
    const fail = (failure: Failure): void =>
      settle({ item, outcome: { kind: 'failed', failure }, hasOnFail });
    if (admission.kind === 'cancel') settle({ item, outcome: { kind: 'canceled', leaked: false } });
    else if (admission.kind === 'blocked') fail(this.#blockedFailure(item, handler));
    else if (admission.kind === 'poison') fail(poison(item));
    else if (admission.kind === 'encoded') this.#handBackEncoded(item, admission.error);
    else this.#abandon(item, admission);
    return undefined;
  }

  /** Decides what happens to a claimed item. Changes nothing. */
  #decide(item: WorkItem, handler: WorkHandler | undefined, nowMs: number): Admission {
    if (item.cancel !== null) return { kind: 'cancel' };
    if (this.#blockedMs.size > 0 && this.#blockedMs.has(identityOf(item))) {
      return { kind: 'blocked' };
    }
    if (this.#isPoison(item)) return { kind: 'poison' };
    if (handler === undefined || this.#fetcher.isStopping) return { kind: 'release', delayMs: 0 };
    if (mayBeEncoded(item)) {
      const error = encodedErrorOf(item);
      if (error !== undefined) return { kind: 'encoded', error };
    }
    const { limiter } = handler;
    if (limiter !== undefined && limiter.capacity(nowMs) < 1) {
      // The breaker opened while the fetch waited.
      return { kind: 'release', delayMs: delayUntilAvailable(limiter, nowMs) };
    }
    if (handler.batch !== undefined) {
      const gatherer = this.#gatherers.get(handler.batch.task);
      if (gatherer?.mayAdd(item) !== true) return { kind: 'release', ...gatherer?.noPlace };
    }
    return { kind: 'run', handler };
  }

  #newRun(item: WorkItem, handler: WorkHandler, claimedAt: number): AcceptedRun {
    const run = new ActivityRun(item, handler, this.#environment);
    this.#params.leases.add(run, claimedAt);
    const { batch } = handler;
    if (batch === undefined) return { run, handler };
    const gatherer = this.#gatherers.get(batch.task);
    return { run, handler, gatherer };
  }

  /**
   * Remembers an item that blocked the event loop past its lease. It fails at its next claim instead of running
   * again, until an outcome of it is committed: the ack of that failure can get lost too.
   */
  #onBlocked(item: WorkItem, blockedMs: number): void {
    if (this.#blockedMs.size >= maxBlockedItems) this.#blockedMs.clear();
    this.#blockedMs.set(identityOf(item), blockedMs);
  }

  /** Call after an outcome of an item was committed. */
  committed(item: WorkItem): void {
    if (this.#blockedMs.size > 0) this.#blockedMs.delete(identityOf(item));
  }

  #blockedFailure(item: WorkItem, handler: WorkHandler | undefined): Failure {
    const blockedMs = this.#blockedMs.get(identityOf(item)) ?? 0;
    return blockedFailure(
      handler?.label ?? `${item.kind} ${JSON.stringify(item.name)}`,
      blockedMs,
      this.#params.options.activityLeaseMs,
    );
  }

  /**
   * Whether an item was claimed more than `maxClaims` times without an outcome. Claims whose handler never started do not
   * count: their release gives the claim back. This process may claim the item again before that release is stored, or
   * before the earlier run ends because of its lost lease. Subtracts those claims, which the store still counts.
   */
  #isPoison(item: WorkItem): boolean {
    const { maxClaims } = this.#params.options;
    if (item.claims <= maxClaims) return false;
    const unbegun = [...this.#unstartedReleases];
    for (const run of this.#running.values()) if (!run.hasBegun) unbegun.push(run.item);
    const identity = identityOf(item);
    const own = unbegun.filter((other) => identityOf(other) === identity).length;
    return item.claims - own > maxClaims;
  }

  /** Cancels the run of a handler that called `ctx.cancel()`. The renewal delivers the result to the handler. */
  async #cancelRun({ instanceId, lockToken }: WorkItem, reason: string | undefined): Promise<void> {
    const { provider, clock, options, leases } = this.#params;
    // If this run was deleted, the id may belong to another run.
    await leases.renewNow([lockToken]);
    if (!leases.isHeld(lockToken)) return;
    const cleanupMs = options.cleanupTimeoutMs;
    const request = { instanceId, reason: cleanReason(reason), actor: null, cleanupMs };
    const deadline = clock.monotonic() + options.activityLeaseMs;
    await withRetries({ clock, logger: options.logger, deadline }, () =>
      provider.requestCancel([request]),
    );
    await leases.renewNow([lockToken]);
  }

  #newEmitter(item: WorkItem, context: RunningActivityContext): Emitter {
    const { provider: store, clock, options, leases, backpressure: room } = this.#params;
    const renewNow = () => leases.renewNow([item.lockToken]);
    return new Emitter({ item, context, store, clock, options, backpressure: room, renewNow });
  }

  async #markPointOfNoReturn(lockToken: string): Promise<PointOfNoReturn> {
    const { provider, leases } = this.#params;
    const mark = await provider.markPointOfNoReturn(lockToken);
    // The renewal distinguishes a deletion from a lost lease.
    if (mark.kind === 'lost') await leases.renewNow([lockToken]);
    return mark;
  }

  #start({ run, handler, gatherer }: AcceptedRun, place?: PlaceAhead): void {
    const { kind, name, claims, failures, nowMs, dueAt } = run.item;
    const { series, options } = this.#params;
    series.waited(name, nowMs, nowMs - dueAt);
    options.metrics.waited(kind, nowMs - dueAt);
    if (kind === 'task' && claims === 1 && failures === 0) {
      series.started(name, nowMs);
      options.metrics.started(name);
    }
    this.#running.add(run);
    if (gatherer !== undefined) run.join(gatherer.add(run));
    void this.#follow(run, handler, place);
  }

  async #follow(
    run: ActivityRun,
    { limiter, hasOnFail, batch }: WorkHandler,
    place: PlaceAhead | undefined,
  ): Promise<void> {
    const { clock, options, settle } = this.#params;
    let startedAt = clock.monotonic();
    if (place !== undefined) void place.granted.then(() => (startedAt = clock.monotonic()));
    const endAttempt = limiter?.start();
    const result = await run.run();
    const endedAt = clock.monotonic();
    endAttempt?.(breakerOutcomes[result.kind], endedAt);
    if (run.hasBegun) this.#report(run, result, endedAt - (run.beganAt ?? startedAt));
    if (result.kind === 'retry') this.#retry(run, result);
    else if (result.kind === 'abandoned') this.#abandon(run.item, { run, ...result });
    else if (result.kind !== 'lost' && result.kind !== 'deleted') {
      const ran = { worker: options.name, startedAt: run.item.nowMs };
      const { item, onDiscarded } = run;
      const settled = { item, outcome: result, ran, hasOnFail, onDiscarded };
      if ('commit' in result) this.#params.committed(settled, result.commit);
      else settle(settled);
    }
    this.#running.delete(run);
    // A batch has one slot for all of its runs.
    if (place?.hasSlot === false) this.#ahead.leave(place);
    else if (batch === undefined) this.#freeSlot(endedAt - startedAt);
    if (this.#running.size === 0) this.#idle?.();
  }

  /** Passes the slot of a run on, or frees it. */
  #freeSlot(heldMs: number): void {
    this.#ahead.ended(heldMs);
    if (!this.#ahead.grantNext()) this.#params.slots.release(1);
  }

  #retry(run: ActivityRun, result: AttemptResult & { kind: 'retry' }): void {
    const { provider, options } = this.#params;
    const { instanceId, lockToken } = run.item;
    const { delayMs, maxAttempts } = result;
    const failure = JSON.stringify(result.failure);
    const retry = { instanceId, lockToken, delayMs, failure, maxAttempts };
    this.#release(run.item, async () => {
      await this.#storeHeartbeat(run);
      const results = await provider.retryWorkItems([retry]);
      // Not reported if the work was deleted or its lease was lost.
      if (results[0] === true) reportFailedAttempt(options.logger, run.item, result);
      return results;
    });
  }

  #abandon(
    item: WorkItem,
    {
      run,
      delayMs = 0,
      unencoded,
    }: {
      readonly run?: ActivityRun;
      readonly delayMs?: number;
      /** Why the codec could not encode the result. */
      readonly unencoded?: PerdureError | undefined;
    } = {},
  ): void {
    const { lockToken } = item;
    const unstarted = run?.hasBegun !== true;
    const abandon =
      unencoded === undefined
        ? { lockToken, delayMs, giveBackClaim: true, unstarted }
        : { ...handBackUnencoded(lockToken, unencoded), unstarted };
    if (unstarted) this.#unstartedReleases.add(item);
    this.#release(item, async () => {
      if (run !== undefined) await this.#storeHeartbeat(run);
      return this.#params.provider.abandonWorkItems([abandon]);
    });
  }

  /** Hands back an item that the codec cannot decode, with the reason for operators. */
  #handBackEncoded(item: WorkItem, error: PerdureError): void {
    const { provider, options } = this.#params;
    const { instanceId, name, lockToken } = item;
    const abandon = { ...handBackUnencoded(lockToken, error), unstarted: true };
    options.logger.warn(
      { error, instanceId, activity: name, retryInMs: abandon.delayMs },
      'work cannot be decoded, will retry',
    );
    this.#unstartedReleases.add(item);
    this.#release(item, () => provider.abandonWorkItems([abandon]));
  }

  /** Stores the last heartbeat for the next attempt, even if no renewal came in between. */
  async #storeHeartbeat(run: ActivityRun): Promise<void> {
    const { provider, options } = this.#params;
    const heartbeat = run.takeHeartbeat();
    if (heartbeat.heartbeat === undefined) return;
    const { instanceId, lockToken } = run.item;
    const renewal = { instanceId, lockToken, ...heartbeat };
    await provider.renewWorkItemLocks([renewal], options.activityLeaseMs);
  }

  #release(item: WorkItem, call: () => Promise<readonly HandBackResult[]>): void {
    const work = this.#releaseWithRetries(item, call).finally(() => {
      this.#params.leases.remove(item.lockToken);
      this.#unstartedReleases.delete(item);
      this.#pendingReleases.delete(work);
    });
    this.#pendingReleases.add(work);
  }

  async #releaseWithRetries(
    item: WorkItem,
    call: () => Promise<readonly HandBackResult[]>,
  ): Promise<void> {
    const { clock, options } = this.#params;
    const deadline = clock.monotonic() + options.activityLeaseMs;
    try {
      const [result] = await withRetries({ clock, logger: options.logger, deadline }, call);
      // The run was canceled meanwhile, so it ended instead.
      if (typeof result === 'string') {
        reportTaskEnd(this.#params, { item, status: result, nowMs: this.#params.clock.now() });
      }
    } catch (error) {
      options.logger.error({ error }, 'releasing work failed, its lease will expire');
    }
  }

  #report(run: ActivityRun, result: AttemptResult, durationMs: number): void {
    const { options, series } = this.#params;
    series.attempted(run.item.name, run.item.nowMs + durationMs, durationMs);
    options.metrics.attempt(outcomeNames[result.kind], durationMs);
    run.endSpan(outcomeNames[result.kind], result);
    if (result.kind !== 'retry') reportFailedAttempt(options.logger, run.item, result);
    const { attemptEnded } = options.hooks;
    if (attemptEnded === undefined) return;
    const outcome = outcomeNames[result.kind];
    const { instanceId, kind, name: activity, failures } = run.item;
    const attempt = { instanceId, kind, activity, attempt: failures + 1, durationMs, outcome };
    reportSafely(options.logger, () =>
      attemptEnded({
        ...attempt,
        ...('failure' in result && { error: toError(result.failure) }),
        ...(result.kind === 'retry' && { retryInMs: result.delayMs }),
      }),
    );
  }
}

/** What happens to a claimed item. */
type Admission =
  /** It was canceled before this claim. */
  | { readonly kind: 'cancel' }
  /** Its handler blocked the event loop of this process past its lease, so it fails. */
  | { readonly kind: 'blocked' }
  /** It was claimed too often without an outcome, so it fails. */
  | { readonly kind: 'poison' }
  /** The codec cannot decode it, or there is none. */
  | { readonly kind: 'encoded'; readonly error: PerdureError }
  /** Hand it back, to be claimed again after the delay. */
  | { readonly kind: 'release'; readonly delayMs?: number }
  | { readonly kind: 'run'; readonly handler: WorkHandler };

interface AcceptedRun {
  readonly run: ActivityRun;
  readonly handler: WorkHandler;
  /** Groups it with other runs. Only for tasks with `batch`. */
  readonly gatherer?: BatchGatherer | undefined;
}

const outcomeNames = {
  completed: 'completed',
  failed: 'failed',
  skipped: 'skipped',
  canceled: 'canceled',
  retry: 'retried',
  lost: 'lost',
  deleted: 'deleted',
  abandoned: 'lost',
} as const;

/** Only outcomes that the handler caused count for the breaker. */
const breakerOutcomes: Readonly<Record<AttemptResult['kind'], BreakerOutcome>> = {
  completed: 'succeeded',
  failed: 'failed',
  retry: 'failed',
  skipped: 'neither',
  canceled: 'neither',
  lost: 'neither',
  deleted: 'neither',
  abandoned: 'neither',
};

/** Whether an item can contain encoded text. Called for every item. */
function mayBeEncoded({ payload, heartbeat, failure }: WorkItem): boolean {
  return (
    (payload !== null && isEncoded(payload)) ||
    (heartbeat !== null && isEncoded(heartbeat)) ||
    failure !== undefined
  );
}

/** The error of an item that is still encoded. */
function encodedErrorOf({ payload, heartbeat, failure }: WorkItem): PerdureError | undefined {
  try {
    assertDecoded(payload);
    assertDecoded(heartbeat);
    if (failure !== undefined) assertDecoded(null, { failure: decodeFailure(failure) });
    return undefined;
  } catch (error) {
    return isPerdureError(error) ? error : undefined;
  }
}

/** Identifies an item across its claims. */
function identityOf({ instanceKey, incarnation, executionId, operation, kind }: WorkItem): string {
  return `${kind} ${instanceKey} ${incarnation} ${executionId} ${operation}`;
}

function delayUntilAvailable(limiter: WorkLimiter, nowMs: number): number {
  return Math.max(0, (limiter.availableAt ?? nowMs) - nowMs);
}

function poison(item: WorkItem) {
  return platformFailure(
    'POISON',
    `${item.kind === 'activity' ? 'Activity' : 'Task'} ${JSON.stringify(item.name)} was claimed ${item.claims - 1} times without an outcome. Its workers probably crashed: check their logs, fix the handler, and start it again.`,
  );
}
