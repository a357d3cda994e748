import { setImmediate } from 'node:timers';
import type { Clock } from '../model/clock.ts';
import { CanceledError } from '../model/errors.ts';
import { platformFailure } from '../model/failure.ts';
import type { ActivityClient } from '../orchestration/activity-context.ts';
import type { Registry } from '../orchestration/registry.ts';
import type { PointOfNoReturn } from '../providers/cancellation.ts';
import type { Provider } from '../providers/provider.ts';
import type { WorkItem } from '../providers/work-queue.ts';
import { ActivityRun, type AttemptResult } from './activity-run.ts';
import type { Leases } from './leases.ts';
import type { ResolvedOptions } from './options.ts';
import { pause, withRetries } from './provider-retry.ts';
import { reportSafely } from './report-safely.ts';
import type { SettledActivity } from './settled-activity.ts';
import type { Slots } from './slots.ts';

export interface ActivityDispatcherParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly registry: Registry;
  readonly options: ResolvedOptions;
  readonly client: ActivityClient;
  readonly slots: Slots;
  readonly leases: Leases<ActivityRun>;
  readonly settle: (settled: SettledActivity) => void;
}

const errorPauseMs = 200;
const flaggedBatch = 100;

/** Fetches as many activities as there are free slots, runs them, and passes their outcomes on. */
export class ActivityDispatcher {
  readonly #params: ActivityDispatcherParams;
  readonly #stopping = new AbortController();
  readonly #running = new Set<ActivityRun>();
  readonly #handingBack = new Set<Promise<void>>();
  #loop: Promise<void> = Promise.resolve();
  #slotFreed: (() => void) | undefined;
  #idle: (() => void) | undefined;

  constructor(params: ActivityDispatcherParams) {
    this.#params = params;
    params.slots.onFree(() => this.#slotFreed?.());
  }

  /** Begins to fetch; also with no activity registered, because anyone may end one that was asked to stop. */
  start(): void {
    this.#loop = this.#fetchUntilStopped();
  }

  /** Starts items that an ack claimed for this process; their slots are taken already. */
  startClaimed(items: readonly WorkItem[]): void {
    const claimedAt = this.#params.clock.now();
    for (const item of items) {
      const run = this.#accept(item, Math.min(claimedAt, item.nowMs));
      if (run === undefined) this.#params.slots.release(1);
      else this.#start(run);
    }
  }

  /** Stops fetching, lets running handlers finish within the grace, then hands the rest back. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#slotFreed?.();
    await this.#loop;
    if (this.#running.size > 0) await this.#endRunning();
    await this.handedBack();
  }

  /** Resolves when nothing is on its way back to the queue. */
  async handedBack(): Promise<void> {
    while (this.#handingBack.size > 0) await Promise.all(this.#handingBack);
  }

  async #endRunning(): Promise<void> {
    const { clock, options } = this.#params;
    const finished = new AbortController();
    const idle = new Promise<void>((resolve) => (this.#idle = resolve));
    await Promise.race([idle, pause(clock, options.shutdownGraceMs, finished.signal)]);
    finished.abort();
    const reason = new CanceledError('the worker is shutting down', 'shutdown');
    for (const run of this.#running) run.abort(reason);
    // Handlers that heed their signal end in this moment; the others are handed back without waiting for them.
    await new Promise((resolve) => setImmediate(resolve));
    for (const run of this.#running) run.handBack();
    if (this.#running.size > 0) await idle;
  }

  async #fetchUntilStopped(): Promise<void> {
    const { clock, registry, options, slots } = this.#params;
    const { signal } = this.#stopping;
    const names = registry.activityNames();
    while (!signal.aborted) {
      try {
        if (slots.free > 0) await this.#fetch(slots.free, names, signal);
        else await this.#fetchFlagged();
      } catch (error) {
        if (signal.aborted) return;
        options.logger.warn({ error }, 'fetching activities failed; trying again');
        await pause(clock, errorPauseMs, signal);
      }
    }
  }

  /** With no slot free there is still work that needs none: items of dead workers that were asked to stop. */
  async #fetchFlagged(): Promise<void> {
    const freed = new AbortController();
    this.#slotFreed = () => freed.abort();
    await this.#fetch(flaggedBatch, [], freed.signal);
  }

  async #fetch(max: number, names: readonly string[], signal: AbortSignal): Promise<void> {
    const { provider, clock, options } = this.#params;
    const items = await provider.fetchWorkItems({
      max,
      lockMs: options.activityLeaseMs,
      waitMs: options.pollIntervalMs,
      signal,
      names,
    });
    // The claim may be much later than the call; by the store's clock it was at `nowMs`, and ours has gone on since.
    const claimedAt = clock.now();
    for (const item of items) this.#take(item, Math.min(claimedAt, item.nowMs));
  }

  #take(item: WorkItem, claimedAt: number): void {
    const { slots } = this.#params;
    // While the fetch waited, acks may have claimed items of their own for the last slots: leave this one to others.
    if (slots.free === 0 && item.cancel === null) this.#handBack(item);
    else {
      const run = this.#accept(item, claimedAt);
      if (run === undefined) return;
      slots.take(1);
      this.#start(run);
    }
  }

  /** Decides whether the item is to be run; what is not is settled or handed back at once. */
  #accept(item: WorkItem, claimedAt: number): ActivityRun | undefined {
    const { registry, options, leases, settle } = this.#params;
    const definition = registry.findActivity(item.name);
    if (item.cancel !== null) settle({ item, outcome: { kind: 'canceled', leaked: false } });
    else if (item.claims > options.maxClaims) {
      settle({ item, outcome: { kind: 'failed', failure: poison(item) } });
    } else if (definition === undefined || this.#stopping.signal.aborted) this.#handBack(item);
    else {
      const run = new ActivityRun({
        ...this.#params,
        item,
        definition,
        markPointOfNoReturn: (lockToken) => this.#markPointOfNoReturn(lockToken),
      });
      leases.add(run, claimedAt);
      return run;
    }
    return undefined;
  }

  async #markPointOfNoReturn(lockToken: string): Promise<PointOfNoReturn> {
    const { provider, leases } = this.#params;
    const answer = await provider.markPointOfNoReturn(lockToken);
    // Why it is lost, the renewal tells: a deletion is no lost lease.
    if (answer.kind === 'lost') await leases.renewNow([lockToken]);
    return answer;
  }

  #start(run: ActivityRun): void {
    const { leases, slots } = this.#params;
    // A process that slept since the claim may have lost the item: somebody else may even have completed it.
    if (!leases.isLive(run.lockToken)) {
      leases.remove(run.lockToken);
      slots.release(1);
      return;
    }
    this.#running.add(run);
    void this.#follow(run);
  }

  async #follow(run: ActivityRun): Promise<void> {
    const { clock, slots, settle } = this.#params;
    const startedAt = clock.now();
    const result = await run.run();
    this.#report(run, result, clock.now() - startedAt);
    if (result.kind === 'retry') this.#retry(run, result);
    else if (result.kind === 'handBack') this.#handBack(run.item, run);
    else if (result.kind !== 'lost' && result.kind !== 'deleted')
      settle({ item: run.item, outcome: result });
    this.#running.delete(run);
    slots.release(1);
    if (this.#running.size === 0) this.#idle?.();
  }

  #retry(run: ActivityRun, result: AttemptResult & { kind: 'retry' }): void {
    const { lockToken } = run.item;
    const retry = { lockToken, delayMs: result.delayMs, failure: JSON.stringify(result.failure) };
    this.#giveUpClaim(lockToken, async () => {
      await this.#storeHeartbeat(run);
      return this.#params.provider.retryWorkItems([retry]);
    });
  }

  #handBack(item: WorkItem, run?: ActivityRun): void {
    const { lockToken } = item;
    const abandon = { lockToken, delayMs: 0, giveBackClaim: true };
    this.#giveUpClaim(lockToken, async () => {
      if (run !== undefined) await this.#storeHeartbeat(run);
      return this.#params.provider.abandonWorkItems([abandon]);
    });
  }

  /** What the handler reported last is there for the next attempt, whether or not a renewal came between. */
  async #storeHeartbeat(run: ActivityRun): Promise<void> {
    const { provider, options } = this.#params;
    const heartbeat = run.takeHeartbeat();
    if (heartbeat.heartbeat === undefined) return;
    const { lockToken } = run;
    await provider.renewWorkItemLocks([{ lockToken, ...heartbeat }], options.activityLeaseMs);
  }

  #giveUpClaim(lockToken: string, call: () => Promise<unknown>): void {
    const work = this.#callUntilHeard(call).finally(() => {
      this.#params.leases.remove(lockToken);
      this.#handingBack.delete(work);
    });
    this.#handingBack.add(work);
  }

  async #callUntilHeard(call: () => Promise<unknown>): Promise<void> {
    const { clock, options } = this.#params;
    const deadline = clock.now() + options.activityLeaseMs;
    try {
      await withRetries({ clock, logger: options.logger, deadline }, call);
    } catch (error) {
      options.logger.error({ error }, 'handing an activity back failed; its lease will run out');
    }
  }

  #report(run: ActivityRun, result: AttemptResult, durationMs: number): void {
    const { options } = this.#params;
    const { attemptEnded } = options.hooks;
    if (attemptEnded === undefined) return;
    const outcome = outcomeNames[result.kind];
    const { instanceId, name, failures } = run.item;
    reportSafely(options.logger, () =>
      attemptEnded({ instanceId, activity: name, attempt: failures + 1, durationMs, outcome }),
    );
  }
}

const outcomeNames = {
  completed: 'completed',
  failed: 'failed',
  canceled: 'canceled',
  retry: 'retried',
  lost: 'lost',
  deleted: 'deleted',
  handBack: 'lost',
} as const;

function poison(item: WorkItem) {
  return platformFailure(
    'POISON',
    `Activity ${JSON.stringify(item.name)} was claimed ${item.claims} times without ever finishing an attempt; its workers probably crashed. Look at their logs, mend the handler, and start again.`,
  );
}
