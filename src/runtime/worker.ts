/**
 * A worker runs orchestrations, activities and tasks. Its parts, in the order in which a run passes them:
 * - turns/turn-lifecycle: creates an instance with its first turn, and follows up on every committed turn
 * - turns/orchestration-dispatcher, turns/turn-runner: claim instances and run their turns (slow path)
 * - activities/work-fetcher, activities/activity-dispatcher, activities/activity-run: claim work and run handlers
 * - batches/batch-gatherer, batches/batch: group the runs of a task for one call of its handler
 * - turns/completions: commits outcomes, with the next turn of a warm instance (fast path)
 * - steps/step-holder, steps/step-run: keep the claim on an instance and run its steps
 * - leases/leases: renews the claims
 * - leases/worker-registration: lists the worker, and takes over the claims of dead processes
 * A task run passes only work-fetcher, activity-dispatcher, activity-run and completions.
 */
import { hostname } from 'node:os';
import type { RetentionReport } from '../management/retention-records.ts';
import { Sweeper } from '../management/sweeper.ts';
import type { Clock } from '../model/clock.ts';
import type { PerdureError } from '../model/failures/errors.ts';
import type { Logger } from '../model/logger.ts';
import { instruments } from '../model/metrics/instruments.ts';
import type { RunMetrics } from '../model/metrics/run-metrics.ts';
import { encodeMessage } from '../model/message.ts';
import type { MiddlewareChain } from '../model/middleware.ts';
import type { ResolvedRetryPolicy } from '../model/retry-policy.ts';
import { taskActivityName } from '../model/task-call.ts';
import type { Telemetry } from '../model/telemetry.ts';
import { randomToken } from '../model/values/random-id.ts';
import { toAttemptDefaults } from '../orchestration/call-options.ts';
import { installDeterministicGlobals } from '../orchestration/deterministic-globals.ts';
import { Registry, type Definitions } from '../orchestration/registry.ts';
import type { CreateResult, NewInstance } from '../providers/contract/instances.ts';
import type { Hint, Provider } from '../providers/contract/provider.ts';
import type { AttemptLimit, WorkerDefinitions } from '../providers/contract/workers.ts';
import { TaskRegistry, type TaskClient, type TaskDefinition } from '../tasks/task.ts';
import { Scheduler } from '../schedules/scheduler.ts';
import { ActivityDispatcher } from './activities/activity-dispatcher.ts';
import type { ActivityRun } from './activities/activity-run.ts';
import { ProgramFactory, type FaultReport, type WarmInstance } from './turns/warm-instance.ts';
import { Completions } from './turns/completions.ts';
import { FirstTurns, TurnLifecycle, type FirstTurnsParams } from './turns/turn-lifecycle.ts';
import { FreshReplays } from './turns/fresh-replays.ts';
import { LateResults } from './activities/late-results.ts';
import { Leases } from './leases/leases.ts';
import { resolveOptions, type ResolvedOptions, type WorkerOptions } from './options.ts';
import { OrchestrationDispatcher, type ClaimedInstance } from './turns/orchestration-dispatcher.ts';
import { StepHolder } from './steps/step-holder.ts';
import { WorkerRegistration } from './leases/worker-registration.ts';
import {
  readDrainOptions,
  untilDrained,
  type DrainOptions,
  type DrainResult,
} from './maintenance/drain.ts';
import { Reclaimer } from './maintenance/reclaimer.ts';
import { SeriesCounters } from './maintenance/series-counters.ts';
import { SeriesWriter } from './maintenance/series-writer.ts';
import { SessionReaper } from './maintenance/session-reaper.ts';
import { LeakedHandlers, Slots } from './activities/concurrency.ts';
import { StreamBackpressure } from './activities/emitter.ts';
import { TimeoutApplier } from './maintenance/timeout-applier.ts';
import { TimerTurns, WarmTimers, type TimerTurnsParams } from './turns/timer-turns.ts';
import { TurnRunner, type TurnRunnerParams } from './turns/turn-runner.ts';
import { UnclaimedWorkWatch } from './maintenance/unclaimed-work-watch.ts';
import { WarmCache } from './turns/warm-cache.ts';
import { WatchdogRegistration } from './watchdog/watchdog.ts';
import { WorkHandlers } from './activities/work-handlers.ts';
import { platform } from '../model/platform.ts';

export interface WorkerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly definitions: Definitions & { readonly tasks?: readonly TaskDefinition[] | undefined };
  readonly options: WorkerOptions;
  /** The `ctx.client` of activities and tasks. */
  readonly client: TaskClient;
  /** Called after the worker has stopped. */
  readonly onStopped: () => void;
  readonly telemetry?: Telemetry | undefined;
  /** Counts the work of all workers of this process. */
  readonly metrics?: RunMetrics | undefined;
  readonly middleware?: MiddlewareChain | undefined;
}

/** Dependencies that most parts of a worker share. */
interface WorkerContext extends Pick<WorkerParams, 'provider' | 'clock' | 'client'> {
  readonly store: Provider;
  readonly registry: Registry;
  readonly tasks: TaskRegistry;
  readonly options: ResolvedOptions;
  readonly logger: Logger;
  readonly series: SeriesCounters;
}

type TurnParts = FirstTurnsParams & TurnRunnerParams & TimerTurnsParams;

/** Runs the registered orchestrations, activities and tasks until it is stopped. */
export class Worker {
  /** Resolves when the worker has stopped: after `stop()`, or by itself because the database file was replaced. */
  readonly stopped: Promise<void>;
  readonly #onStopped: () => void;
  readonly #context: WorkerContext;
  readonly #options: ResolvedOptions;
  readonly #cache: WarmCache;
  readonly #slots: Slots;
  readonly #backpressure: StreamBackpressure;
  readonly #watchdog: WatchdogRegistration;
  readonly #activityLeases: Leases<ActivityRun>;
  readonly #orchestrationLeases: Leases<ClaimedInstance>;
  readonly #completions: Completions;
  readonly #activities: ActivityDispatcher;
  readonly #orchestrations: OrchestrationDispatcher;
  readonly #steps: StepHolder;
  readonly #firstTurns: FirstTurns;
  readonly #reclaimer: Reclaimer;
  readonly #unclaimedWork: UnclaimedWorkWatch;
  readonly #scheduler: Scheduler;
  readonly #sessions: SessionReaper;
  readonly #timeouts: TimeoutApplier;
  readonly #registration: WorkerRegistration;
  readonly #seriesWriter: SeriesWriter;
  readonly #sweeper: Sweeper | undefined;
  readonly #unsubscribe: () => void;
  readonly #endGauges: () => void;
  #stopping: Promise<void> | undefined;

  constructor(params: WorkerParams) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#onStopped = () => {
      params.onStopped();
      resolve();
    };
    this.#context = createContext(params);
    const { provider, clock, options } = this.#context;
    this.#options = options;
    this.#cache = new WarmCache(options.warmCacheBytes);
    this.#backpressure = new StreamBackpressure(clock);
    this.#watchdog = new WatchdogRegistration(this.#context);
    const slots = new Slots(options.activityConcurrency);
    this.#slots = slots;
    const leaked = new LeakedHandlers();
    const turnParts = this.#createTurnParts(slots);
    this.#activityLeases = this.#createActivityLeases();
    this.#orchestrationLeases = this.#createOrchestrationLeases();
    this.#completions = this.#createCompletions(turnParts);
    this.#activities = this.#createActivityDispatcher(slots, leaked);
    this.#steps = new StepHolder({ ...turnParts, leaked, backpressure: this.#backpressure });
    this.#orchestrations = this.#createOrchestrationDispatcher(turnParts);
    this.#firstTurns = new FirstTurns(turnParts);
    this.#reclaimer = new Reclaimer(this.#context);
    this.#unclaimedWork = createUnclaimedWorkWatch(this.#context);
    this.#scheduler = createScheduler(this.#context);
    this.#sessions = createSessionReaper(this.#context);
    this.#timeouts = createTimeoutApplier(this.#context);
    this.#registration = createRegistration(this.#context, slots, leaked);
    this.#seriesWriter = new SeriesWriter({ ...this.#context, keepMs: options.keepSeriesMs });
    this.#sweeper = createSweeper(this.#context);
    this.#unsubscribe = provider.hints((hint) => this.#onHint(hint));
    this.#endGauges = this.#observeGauges(slots);
    if (options.deterministicGlobals) installDeterministicGlobals();
  }

  #observeGauges(slots: Slots): () => void {
    const { metrics } = this.#options;
    const ends = [
      metrics.observe(instruments.slots, () => [
        [{ state: 'used' }, slots.taken],
        [{ state: 'free' }, slots.free],
      ]),
      metrics.observe(instruments.warmInstances, () => [[{}, this.#cache.size]]),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  /**
   * The metrics of this process in the text format of Prometheus, for processes without a server. Counts the work of all
   * workers of the same `Perdure` object, since it was opened.
   */
  get metrics(): string {
    return this.#options.metrics.text();
  }

  /** The parts that run and commit turns, on every path. */
  #createTurnParts(slots: Slots): TurnParts {
    const programs = new ProgramFactory({
      ...this.#context,
      onFault: (report) => this.#reportFault(report),
      watchdogId: this.#watchdog.id,
    });
    const parts = {
      ...this.#context,
      cache: this.#cache,
      timers: new WarmTimers((fireAt) => this.#orchestrations.timerSet(fireAt)),
      slots,
      programs,
      replays: new FreshReplays({ ...this.#context, programs }),
      release: (instance: WarmInstance) => this.#completions.release(instance),
    };
    const turns = new TurnLifecycle({
      ...parts,
      startClaimed: (items, claimedAt) => this.#activities.startClaimed(items, claimedAt),
    });
    return { ...parts, turns };
  }

  #createActivityLeases(): Leases<ActivityRun> {
    const leaseMs = this.#options.activityLeaseMs;
    return new Leases({ ...this.#context, leaseMs, renew: (runs) => this.#renewActivities(runs) });
  }

  #createOrchestrationLeases(): Leases<ClaimedInstance> {
    const { provider, options } = this.#context;
    const leaseMs = options.orchestrationLeaseMs;
    return new Leases<ClaimedInstance>({
      ...this.#context,
      leaseMs,
      renew: (claims) =>
        provider.renewOrchestrationLocks(
          claims.map(({ lockToken }) => lockToken),
          leaseMs,
        ),
    });
  }

  #createCompletions(turnParts: TurnParts): Completions {
    return new Completions({
      ...turnParts,
      series: this.#context.series,
      isHeld: (lockToken) => this.#activityLeases.isHeld(lockToken),
      onAcked: ({ item }, accepted) => {
        this.#activityLeases.remove(item.lockToken);
        if (accepted) this.#activities.committed(item);
      },
      onFailQueued: (task) => this.#activities.expectOnFail(task),
    });
  }

  #createActivityDispatcher(slots: Slots, leaked: LeakedHandlers): ActivityDispatcher {
    const { registry, tasks, provider } = this.#context;
    return new ActivityDispatcher({
      ...this.#context,
      handlers: new WorkHandlers(registry, tasks, provider),
      slots,
      leaked,
      leases: this.#activityLeases,
      backpressure: this.#backpressure,
      watchdogId: this.#watchdog.id,
      settle: (settled) => this.#completions.settle(settled),
      committed: (settled, result) => this.#completions.committed(settled, result),
      onStoreReplaced: (error) => this.#onStoreReplaced(error),
    });
  }

  #createOrchestrationDispatcher(turnParts: TurnParts): OrchestrationDispatcher {
    return new OrchestrationDispatcher({
      ...turnParts,
      leases: this.#orchestrationLeases,
      runner: new TurnRunner(turnParts),
      hold: (...claim) => this.#steps.hold(...claim),
      timerTurns: new TimerTurns(turnParts),
      onPoll: () => {
        this.#reclaimer.runIfDue();
        this.#unclaimedWork.queryIfDue();
      },
      onStoreReplaced: (error) => this.#onStoreReplaced(error),
    });
  }

  /** Starts fetching work. */
  start(): void {
    this.#watchdog.start();
    this.#orchestrations.start();
    this.#activities.start();
    this.#sweeper?.start();
    this.#scheduler.start();
    this.#sessions.start();
    this.#timeouts.start();
    this.#registration.start();
    this.#seriesWriter.start();
  }

  /** Creates an instance together with its first turn. Returns `undefined` if this worker cannot run it. */
  startInstance(instance: NewInstance): Promise<CreateResult> | undefined {
    return this.#options.fastPaths ? this.#firstTurns.start(instance) : undefined;
  }

  /** Wakes the scheduler. Call it after this process changed a schedule. */
  scheduleChanged(): void {
    this.#scheduler.changed();
  }

  /** Wakes the session reaper. Call it after this process opened or changed a session. */
  sessionChanged(): void {
    this.#sessions.changed();
  }

  /**
   * Stops the worker. Running handlers have `shutdownGrace` to finish; then their signals are aborted and their work is
   * released for other workers. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  /**
   * Works until no due work is left for this worker, at most `maxMs`; then stops it. For functions that a platform ends after a
   * time. Timers and retries that are not due stay in the store.
   */
  async drain(options: DrainOptions): Promise<DrainResult> {
    const { maxMs } = readDrainOptions(options);
    const { provider, clock } = this.#context;
    const { orchestrations, activities, tasks } = definitionsOf(this.#context);
    const names = {
      orchestration: new Set(orchestrations.map(({ name }) => name)),
      activity: new Set([...activities, ...tasks.map(taskActivityName)]),
      task: new Set(tasks),
    };
    const ended = new AbortController();
    void this.stopped.then(() => ended.abort());
    const isDrained = await untilDrained({
      provider,
      clock,
      maxMs,
      signal: ended.signal,
      isOwn: ({ kind, name }) => names[kind].has(name),
      isWorking: () => this.#slots.taken > 0,
    });
    await this.stop();
    return { isDrained };
  }

  async #stop(): Promise<void> {
    // Producers stop before their consumers, so that no part claims work for one that has stopped.
    const swept = this.#sweeper?.stop();
    await this.#scheduler.stop();
    await this.#sessions.stop();
    await this.#timeouts.stop();
    await this.#firstTurns.stop();
    await this.#orchestrations.stop();
    await this.#steps.stop();
    await this.#activities.stop();
    await this.#completions.drained();
    await this.#activities.released();
    await this.#reclaimer.stop();
    await this.#unclaimedWork.stop();
    await swept;
    await this.#seriesWriter.stop();
    await this.#registration.stop();
    this.#activityLeases.stop();
    this.#orchestrationLeases.stop();
    this.#unsubscribe();
    this.#endGauges();
    this.#watchdog.stop();
    this.#cache.clear();
    this.#onStopped();
  }

  async #renewActivities(runs: readonly ActivityRun[]): Promise<readonly boolean[]> {
    const renewals = runs.map((run) => {
      const { instanceId, lockToken } = run.item;
      return { instanceId, lockToken, ...run.takeHeartbeat() };
    });
    try {
      const { activityLeaseMs } = this.#options;
      const results = await this.#context.provider.renewWorkItemLocks(renewals, activityLeaseMs);
      return results.map((result, index) => {
        if (!result.held && result.deleted === true) runs[index]?.onDeleted();
        if (result.held && result.cancel !== null) runs[index]?.onCancel(result.cancel);
        return result.held;
      });
    } catch (error) {
      for (const [index, run] of runs.entries()) run.putBackHeartbeat(renewals[index] ?? {});
      throw error;
    }
  }

  /** Stops the worker: its writes can no longer reach the store. */
  #onStoreReplaced(error: PerdureError): void {
    if (this.#stopping !== undefined) return;
    const { logger, name } = this.#options;
    logger.error({ error, worker: name }, 'database file was replaced, stopping the worker');
    void this.stop();
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'cancelRequested') this.#onCancelRequested(hint);
    if (hint.kind === 'changed' || hint.kind === 'committed') {
      this.#timeouts.committed();
      this.#sessions.committed();
    }
    if (hint.kind === 'changed') {
      this.#scheduler.changedElsewhere();
      this.#registration.changedElsewhere();
    }
    this.#scheduler.onHint(hint);
    this.#steps.onHint(hint);
    this.#backpressure.onHint(hint);
    // Otherwise an instance that another process ended would stay cached until it is evicted for space.
    if (hint.kind === 'finished') this.#cache.evictIdle(hint.instanceIds);
  }

  /** Cancels the runs whose request came with the hint. Renews the others: the renewal returns their request. */
  #onCancelRequested({ lockTokens, cancels }: Extract<Hint, { kind: 'cancelRequested' }>): void {
    const unknown = lockTokens.filter((token) => {
      const cancel = cancels?.get(token);
      const run = cancel && this.#activityLeases.find(token);
      if (cancel !== undefined) run?.onCancel(cancel);
      return run === undefined;
    });
    void this.#activityLeases.renewNow(unknown);
  }

  /** Requests a turn that records a failure of orchestration code between two turns. */
  #reportFault({ instanceId, turnId, failure }: FaultReport): void {
    const message = encodeMessage({ kind: 'wake', broken: { turnId, failure } });
    this.#context.provider.enqueueMessages([{ instanceId, message }]).catch((error: unknown) => {
      this.#options.logger.error(
        { error, instanceId },
        'requesting a turn for a failed instance failed',
      );
    });
  }
}

function createContext(params: WorkerParams): WorkerContext {
  const { provider, clock, client, definitions, options } = params;
  const registry = new Registry(definitions);
  const resolved = resolveOptions(options, registry.buildId, params);
  const tasks = new TaskRegistry(definitions.tasks ?? []);
  const { logger } = resolved;
  const series = new SeriesCounters();
  const shared = { provider, store: provider, clock, client, registry, tasks };
  return { ...shared, options: resolved, logger, series };
}

function createUnclaimedWorkWatch(context: WorkerContext): UnclaimedWorkWatch {
  return new UnclaimedWorkWatch({ ...context, own: definitionsOf(context) });
}

/** The definitions that the worker can run. */
function definitionsOf({ registry, tasks }: WorkerContext): WorkerDefinitions {
  return {
    orchestrations: registry
      .runnable()
      .flatMap(({ name, version }) => (version === null ? [] : { name, version })),
    activities: registry.activities().map(({ name }) => name),
    tasks: tasks.all().map(({ name }) => name),
  };
}

/** The limits of attempts by the retry policies of the worker's code, for operators. */
function attemptLimitsOf({ registry, tasks }: WorkerContext): readonly AttemptLimit[] {
  const limitOf = (
    kind: AttemptLimit['kind'],
    name: string,
    retry: ResolvedRetryPolicy | undefined,
  ): readonly AttemptLimit[] =>
    retry === undefined || retry.maxAttempts === null
      ? []
      : [{ kind, name, maxAttempts: retry.maxAttempts }];
  return [
    ...registry
      .activities()
      .flatMap(({ name, defaults }) =>
        limitOf('activity', name, toAttemptDefaults(defaults).retry),
      ),
    ...tasks
      .all()
      .flatMap(({ name, retry, onFail }) => [
        ...limitOf('task', name, retry),
        ...limitOf('onFail', name, onFail?.retry),
      ]),
  ];
}

/** Hints and due ticks wake the scheduler. `recheckMs` finds schedules of other processes whose hint was lost. */
function createScheduler(context: WorkerContext): Scheduler {
  const { metrics, pollIntervalMs } = context.options;
  return new Scheduler({
    ...context,
    recheckMs: 5 * pollIntervalMs,
    onFired: (lateMs) => metrics.ticked(lateMs),
  });
}

function createSessionReaper(context: WorkerContext): SessionReaper {
  const idleMs = 2 * context.options.pollIntervalMs;
  return new SessionReaper({ ...context, lateResults: new LateResults(context), idleMs });
}

function createTimeoutApplier(context: WorkerContext): TimeoutApplier {
  const { pollIntervalMs, cleanupTimeoutMs: cleanupMs } = context.options;
  // Commits cause queries, so this only replaces lost hints.
  return new TimeoutApplier({ ...context, cleanupMs, idleMs: 30 * pollIntervalMs });
}

function createRegistration(
  context: WorkerContext,
  slots: Slots,
  leaked: LeakedHandlers,
): WorkerRegistration {
  const { store, logger, options } = context;
  const { name, buildId, heartbeatMs } = options;
  const workerId = randomToken();
  const definitions = definitionsOf(context);
  const attemptLimits = attemptLimitsOf(context);
  // Not the worker's clock: an injected one may skip a month.
  const startedAt = platform.monotonic();
  const worker = {
    workerId,
    heartbeatMs,
    leaseMs: Math.max(options.activityLeaseMs, options.orchestrationLeaseMs),
    describe: () => ({
      workerId,
      name,
      host: hostname(),
      pid: process.pid,
      buildId,
      ...definitions,
      slots: {
        activities: options.activityConcurrency,
        orchestrations: options.orchestrationBatch,
        inUse: slots.taken,
      },
      leaked: leaked.count,
      heartbeatMs,
      attemptLimits,
      runningMs: platform.monotonic() - startedAt,
    }),
  };
  return new WorkerRegistration({ store, logger, worker, host: options.host });
}

function createSweeper(context: WorkerContext): Sweeper | undefined {
  const { retention, metrics } = context.options;
  const onSwept = ({ outcome, deleted }: RetentionReport): void =>
    metrics.swept(outcome, deleted.instancesDeleted);
  return retention && new Sweeper({ ...context, retention, onSwept });
}
