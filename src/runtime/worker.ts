/**
 * A worker runs orchestrations, activities and tasks. Its parts, in the order in which a run meets them:
 * first-turns (an instance begins), orchestration-dispatcher and turn-runner (turns with a claim), turns (what a commit
 * leads to), activity-dispatcher and activity-run (side effects), completions (outcomes come back, with the turn in
 * memory where it can), leases (claims are kept alive). A task run has only the middle of it: work-fetcher,
 * activity-dispatcher, completions.
 */
import { Sweeper } from '../management/sweeper.ts';
import type { Clock } from '../model/clock.ts';
import type { PerdureError } from '../model/failures/errors.ts';
import { encodeMessage } from '../model/message.ts';
import { installDeterministicGlobals } from '../orchestration/deterministic-globals.ts';
import { Registry, type Definitions } from '../orchestration/registry.ts';
import type { CreateResult, NewInstance } from '../providers/contract/instances.ts';
import type { Hint, Provider } from '../providers/contract/provider.ts';
import { TaskRegistry, type TaskClient, type TaskDefinition } from '../tasks/task.ts';
import { Scheduler } from '../schedules/scheduler.ts';
import { ActivityDispatcher } from './activities/activity-dispatcher.ts';
import type { ActivityRun } from './activities/activity-run.ts';
import { ProgramFactory, type FaultReport, type WarmInstance } from './turns/warm-instance.ts';
import { Completions } from './turns/completions.ts';
import { FirstTurns, TurnLifecycle } from './turns/turn-lifecycle.ts';
import { FreshReplays } from './turns/fresh-replays.ts';
import { LateResults } from './activities/late-results.ts';
import { Leases } from './leases/leases.ts';
import { resolveOptions, type ResolvedOptions, type WorkerOptions } from './options.ts';
import { OrchestrationDispatcher, type ClaimedInstance } from './turns/orchestration-dispatcher.ts';
import { ProcessTakeover } from './leases/process-takeover.ts';
import { Reclaimer } from './maintenance/reclaimer.ts';
import { SessionReaper } from './maintenance/session-reaper.ts';
import { Slots } from './activities/concurrency.ts';
import { StreamBackpressure } from './activities/emitter.ts';
import { TimerTurns, WarmTimers } from './turns/timer-turns.ts';
import { TurnRunner } from './turns/turn-runner.ts';
import { UnclaimedWorkWatch } from './maintenance/unclaimed-work-watch.ts';
import { WarmCache } from './turns/warm-cache.ts';
import { WatchdogRegistration } from './watchdog/watchdog.ts';
import { WorkHandlers } from './activities/work-handlers.ts';

export interface WorkerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly definitions: Definitions & { readonly tasks?: readonly TaskDefinition[] | undefined };
  readonly options: WorkerOptions;
  /** What activities and tasks see as `ctx.client`. */
  readonly client: TaskClient;
  /** Called once everything has ended. */
  readonly onStopped: () => void;
}

/** Runs what is registered with it until it is stopped. */
export class Worker {
  readonly #provider: Provider;
  readonly #options: ResolvedOptions;
  readonly #cache: WarmCache;
  readonly #orchestrations: OrchestrationDispatcher;
  readonly #activities: ActivityDispatcher;
  readonly #completions: Completions;
  readonly #firstTurns: FirstTurns;
  readonly #activityLeases: Leases<ActivityRun>;
  readonly #orchestrationLeases: Leases<ClaimedInstance>;
  readonly #reclaimer: Reclaimer;
  readonly #unclaimedWork: UnclaimedWorkWatch;
  readonly #sweeper: Sweeper | undefined;
  readonly #scheduler: Scheduler;
  readonly #sessions: SessionReaper;
  readonly #takeover: ProcessTakeover;
  readonly #backpressure: StreamBackpressure;
  readonly #watchdog: WatchdogRegistration;
  readonly #unsubscribe: () => void;
  readonly #onStopped: () => void;
  #stopped: Promise<void> | undefined;

  constructor(params: WorkerParams) {
    const { provider, clock, definitions, options: given, client } = params;
    const registry = new Registry(definitions);
    const options = resolveOptions(given, registry.buildId);
    const { logger } = options;
    const cache = new WarmCache(options.warmCacheBytes);
    const timers = new WarmTimers((fireAt) => this.#orchestrations.timerSet(fireAt));
    const slots = new Slots(options.activityConcurrency);
    this.#watchdog = new WatchdogRegistration({ provider, clock, options });
    const programs = new ProgramFactory({
      registry,
      options,
      onBroken: (report) => this.#wake(report),
      watchdogId: this.#watchdog.id,
    });
    const replays = new FreshReplays({ provider, programs, options });
    const turns = new TurnLifecycle({
      provider,
      registry,
      options,
      cache,
      timers,
      slots,
      replays,
      startClaimed: (items, claimedAt) => this.#activities.startClaimed(items, claimedAt),
    });
    this.#provider = provider;
    this.#onStopped = params.onStopped;
    this.#options = options;
    this.#cache = cache;
    this.#activityLeases = new Leases<ActivityRun>({
      clock,
      leaseMs: options.activityLeaseMs,
      logger,
      renew: (runs) => this.#renewActivities(runs),
    });
    this.#orchestrationLeases = new Leases<ClaimedInstance>({
      clock,
      leaseMs: options.orchestrationLeaseMs,
      logger,
      renew: (claims) =>
        provider.renewOrchestrationLocks(
          claims.map(({ lockToken }) => lockToken),
          options.orchestrationLeaseMs,
        ),
    });
    this.#reclaimer = new Reclaimer({ provider, clock, logger });
    // Hints and the next tick wake it; this is for schedules that another process put while no hint came.
    const recheckMs = 5 * options.pollIntervalMs;
    this.#scheduler = new Scheduler({ provider, clock, logger, recheckMs });
    const tasks = new TaskRegistry(definitions.tasks ?? []);
    this.#unclaimedWork = new UnclaimedWorkWatch({
      store: provider,
      clock,
      logger,
      runnable: registry.runnable(),
      activities: registry.activities().map(({ name }) => name),
      tasks: tasks.all().map(({ name }) => name),
    });
    this.#sessions = new SessionReaper({
      store: provider,
      clock,
      logger,
      lateResults: new LateResults({ store: provider, registry, tasks, client, logger }),
      idleMs: 2 * options.pollIntervalMs,
    });
    this.#takeover = new ProcessTakeover({
      store: provider,
      logger,
      leaseMs: Math.max(options.activityLeaseMs, options.orchestrationLeaseMs),
    });
    this.#backpressure = new StreamBackpressure(clock);
    this.#completions = new Completions({
      provider,
      clock,
      options,
      cache,
      turns,
      isHeld: (lockToken) => this.#activityLeases.isHeld(lockToken),
      onAcked: ({ item }) => this.#activityLeases.remove(item.lockToken),
      onFailQueued: (task) => this.#activities.expectOnFail(task),
    });
    this.#activities = new ActivityDispatcher({
      provider,
      clock,
      handlers: new WorkHandlers(registry, tasks, provider),
      options,
      client,
      slots,
      leases: this.#activityLeases,
      backpressure: this.#backpressure,
      watchdogId: this.#watchdog.id,
      settle: (settled) => this.#completions.settle(settled),
      onStoreReplaced: (error) => this.#onStoreReplaced(error),
    });
    const release = (live: WarmInstance): void => this.#completions.release(live);
    this.#orchestrations = new OrchestrationDispatcher({
      provider,
      clock,
      registry,
      options,
      leases: this.#orchestrationLeases,
      runner: new TurnRunner({
        provider,
        registry,
        options,
        cache,
        programs,
        turns,
        replays,
        release,
      }),
      turns,
      timerTurns: new TimerTurns({ provider, clock, options, cache, timers, turns, release }),
      release,
      onPoll: () => {
        this.#reclaimer.runIfDue();
        this.#unclaimedWork.queryIfDue();
      },
      onStoreReplaced: (error) => this.#onStoreReplaced(error),
    });
    this.#firstTurns = new FirstTurns({
      provider,
      clock,
      registry,
      programs,
      turns,
      options,
      replays,
    });
    const { retention } = options;
    this.#sweeper = retention && new Sweeper({ store: provider, clock, logger, retention });
    this.#unsubscribe = provider.hints((hint) => this.#onHint(hint));
    if (options.deterministicGlobals) installDeterministicGlobals();
  }

  /** Begins to fetch work. */
  start(): void {
    this.#watchdog.start();
    this.#orchestrations.start();
    this.#activities.start();
    this.#sweeper?.start();
    this.#scheduler.start();
    this.#sessions.start();
    this.#takeover.start();
  }

  /** Creates an instance together with its first turn, if this worker can run it. */
  startInstance(instance: NewInstance): Promise<CreateResult> | undefined {
    return this.#options.fastPaths ? this.#firstTurns.start(instance) : undefined;
  }

  /** Looks whether a schedule is due: one of this process was changed. */
  scheduleChanged(): void {
    this.#scheduler.changed();
  }

  /** Looks when sessions are due: one of this process was opened or changed. */
  sessionChanged(): void {
    this.#sessions.changed();
  }

  /**
   * Stops fetching, lets running activities finish within `shutdownGrace`, aborts the signals of the rest, and hands
   * them back so that another worker can take them at once. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    // In the order in which one leads to the other, so that nothing is claimed for us after we stopped looking.
    const swept = this.#sweeper?.stop();
    await this.#scheduler.stop();
    await this.#sessions.stop();
    await this.#firstTurns.stop();
    await this.#orchestrations.stop();
    await this.#activities.stop();
    await this.#completions.drained();
    await this.#activities.released();
    await this.#reclaimer.stop();
    await this.#unclaimedWork.stop();
    await swept;
    await this.#takeover.stop();
    this.#activityLeases.stop();
    this.#orchestrationLeases.stop();
    this.#unsubscribe();
    this.#watchdog.stop();
    this.#cache.clear();
    this.#onStopped();
  }

  async #renewActivities(runs: readonly ActivityRun[]): Promise<readonly boolean[]> {
    const renewals = runs.map((run) => ({ lockToken: run.lockToken, ...run.takeHeartbeat() }));
    try {
      const { activityLeaseMs } = this.#options;
      const results = await this.#provider.renewWorkItemLocks(renewals, activityLeaseMs);
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

  /** Nothing that this worker does can be stored any more: it stops, visibly. */
  #onStoreReplaced(error: PerdureError): void {
    if (this.#stopped !== undefined) return;
    const { logger, name } = this.#options;
    logger.error({ error, worker: name }, 'the file of the store was replaced; the worker stops');
    void this.stop();
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'cancelRequested') this.#onCancelRequested(hint);
    if (hint.kind === 'changed') {
      this.#scheduler.changedElsewhere();
      this.#takeover.changedElsewhere();
    }
    this.#backpressure.onHint(hint);
    // What was ended or deleted from outside would otherwise stay in memory until others crowd it out.
    if (hint.kind === 'finished') this.#cache.evictIdle(hint.instanceIds);
  }

  /** Stops what a hint brought the requests of, and renews the rest, which tells what there is to know. */
  #onCancelRequested({ lockTokens, cancels }: Extract<Hint, { kind: 'cancelRequested' }>): void {
    const unknown = lockTokens.filter((token) => {
      const cancel = cancels?.get(token);
      const run = cancel && this.#activityLeases.find(token);
      if (cancel !== undefined) run?.onCancel(cancel);
      return run === undefined;
    });
    void this.#activityLeases.renewNow(unknown);
  }

  /** The code of an instance broke between its turns: ask for one, so that it is told. */
  #wake({ instanceId, turnId, failure }: FaultReport): void {
    const message = encodeMessage({ kind: 'wake', broken: { turnId, failure } });
    this.#provider.enqueueMessages([{ instanceId, message }]).catch((error: unknown) => {
      this.#options.logger.error({ error, instanceId }, 'waking a broken instance failed');
    });
  }
}
