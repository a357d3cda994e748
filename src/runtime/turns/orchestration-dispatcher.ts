import type { Clock } from '../../model/clock.ts';
import { isPerdureError, LockLostError, type PerdureError } from '../../model/failures/errors.ts';
import { isTerminal } from '../../model/status.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type {
  OrchestrationAbandon,
  OrchestrationItem,
  Runnable,
} from '../../providers/contract/orchestration-queue.ts';
import { claimedSince, type Leases } from '../leases/leases.ts';
import type { WarmInstance } from './warm-instance.ts';
import type { ResolvedOptions } from '../options.ts';
import { pause, withRetries } from '../maintenance/provider-retry.ts';
import type { TimerTurns } from './timer-turns.ts';
import type { WarmCache } from './warm-cache.ts';
import type { ClaimedTurn, KeptClaim, TurnRunner } from './turn-runner.ts';
import type { TurnLifecycle } from './turn-lifecycle.ts';
import { platform } from '../../model/platform.ts';

export interface OrchestrationDispatcherParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly registry: Registry;
  readonly options: ResolvedOptions;
  readonly leases: Leases<ClaimedInstance>;
  readonly runner: TurnRunner;
  readonly cache: WarmCache;
  readonly turns: TurnLifecycle;
  readonly timerTurns: TimerTurns;
  /** Keeps the claim on an instance and runs its steps. */
  readonly hold: (instance: WarmInstance, lockToken: string, claimedAt: number) => void;
  /** Releases an instance, and runs a turn for outcomes that arrived meanwhile. */
  readonly release: (instance: WarmInstance) => void;
  /** Called before each fetch, so at every poll of an idle worker. */
  readonly onPoll: () => void;
  /** Called when the database file was replaced: no later call can succeed. */
  readonly onStoreReplaced: (error: PerdureError) => void;
}

/** A claim on an instance, from fetch to ack. */
export class ClaimedInstance {
  readonly lockToken: string;
  lost = false;

  constructor(lockToken: string) {
    this.lockToken = lockToken;
  }

  onLost(): void {
    this.lost = true;
  }
}

interface RejectedTurn {
  readonly instance: WarmInstance;
  readonly error: unknown;
}

const errorPauseMs = 200;
// Maximum time for due timers before the next fetch.
const maxTimersMs = 100;
// One batch runs its turns while the other is being acked.
const maxBatches = 2;

/** Claims batches of instances, runs their turns, and acks each batch (slow path). */
export class OrchestrationDispatcher {
  readonly #params: OrchestrationDispatcherParams;
  readonly #runnable: readonly Runnable[];
  readonly #stopping = new AbortController();
  readonly #batches = new Set<Promise<void>>();
  /** The pending fetch, and when it ends without a result. */
  #fetching: { readonly controller: AbortController; readonly untilMs: number } | undefined;
  #loop: Promise<void> = Promise.resolve();

  constructor(params: OrchestrationDispatcherParams) {
    this.#params = params;
    this.#runnable = params.registry.runnable();
  }

  /** Starts fetching. Also without registered code: any worker may end an instance whose clean-up limit expired. */
  start(): void {
    this.#loop = this.#fetchUntilStopped();
  }

  /** Ends a pending fetch that would wait past the due time of a warm timer. */
  timerSet(fireAt: number): void {
    if (this.#fetching !== undefined && fireAt <= this.#fetching.untilMs)
      this.#fetching.controller.abort();
  }

  /** Stops fetching, and finishes the turns that have started. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#fetching?.controller.abort();
    await this.#loop;
    await Promise.all(this.#batches);
  }

  async #fetchUntilStopped(): Promise<void> {
    const { clock, options, onStoreReplaced } = this.#params;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#params.onPoll();
      try {
        await this.#runTimers();
        const askedAt = clock.monotonic();
        const items = await this.#fetch();
        if (items.length > 0) this.#begin(items, askedAt);
        else await this.#awaitTimer();
      } catch (error) {
        if (signal.aborted) return;
        if (isPerdureError(error, 'STORE_REPLACED')) {
          onStoreReplaced(error);
          return;
        }
        options.logger.warn({ error }, 'fetching orchestrations failed, will retry');
        await pause(clock, errorPauseMs, signal);
      }
      if (this.#batches.size >= maxBatches) await Promise.race(this.#batches);
    }
  }

  /** Runs due timers of warm instances. */
  async #runTimers(): Promise<void> {
    const begunAt = platform.monotonic();
    while (!this.#stopping.signal.aborted && (await this.#params.timerTurns.run())) {
      if (platform.monotonic() - begunAt > maxTimersMs) return;
    }
  }

  async #fetch(): Promise<readonly OrchestrationItem[]> {
    const { provider, clock, options } = this.#params;
    const nowMs = Math.floor(clock.now());
    // Return before the next warm timer is due, so that the fetch does not claim it.
    const leftMs = Math.max(this.#params.timerTurns.nextAt() - nowMs - 1, 0);
    const waitMs = Math.min(options.pollIntervalMs, leftMs);
    const controller = new AbortController();
    this.#fetching = { controller, untilMs: nowMs + waitMs };
    if (this.#stopping.signal.aborted) controller.abort();
    try {
      return await provider.fetchOrchestrationItems({
        max: options.orchestrationBatch,
        lockMs: options.orchestrationLeaseMs,
        waitMs,
        signal: controller.signal,
        runnable: this.#runnable,
        buildId: options.buildId,
        worker: options.name,
      });
    } finally {
      this.#fetching = undefined;
    }
  }

  /** Waits for the timer that ended the fetch, if it is due within 1 ms. */
  async #awaitTimer(): Promise<void> {
    const { clock, timerTurns } = this.#params;
    const leftMs = timerTurns.nextAt() - clock.now();
    if (leftMs > 0 && leftMs <= 1) await pause(clock, leftMs, this.#stopping.signal);
  }

  #begin(items: readonly OrchestrationItem[], askedAt: number): void {
    const batch = this.#process(items, askedAt)
      // Turns handle their own errors. An error here is a defect of Perdure, and must not end the process.
      .catch((error: unknown) => {
        this.#params.options.logger.error({ error }, 'processing a batch of turns failed');
      })
      .finally(() => this.#batches.delete(batch));
    this.#batches.add(batch);
  }

  async #process(items: readonly OrchestrationItem[], askedAt: number): Promise<void> {
    const { clock, leases, runner } = this.#params;
    const claims = items.map(({ lockToken, nowMs }) => {
      const claim = new ClaimedInstance(lockToken);
      leases.add(claim, claimedSince(clock, nowMs, askedAt));
      return claim;
    });
    try {
      const ran = await runner.run(items, (lockToken) => leases.isHeld(lockToken));
      for (const one of ran) {
        if (one.kind === 'hold') this.#hold(one, claimedSince(clock, one.item.nowMs, askedAt));
      }
      await Promise.all([
        this.#ack(
          ran.flatMap((one) => (one.kind === 'turn' ? [one] : [])),
          ({ nowMs }) => claimedSince(clock, nowMs, askedAt),
        ),
        this.#abandon(ran.flatMap((one) => (one.kind === 'abandon' ? [one.abandon] : []))),
      ]);
    } finally {
      for (const { lockToken } of claims) leases.remove(lockToken);
    }
  }

  async #ack(
    claimed: readonly ClaimedTurn[],
    claimedAt: (item: OrchestrationItem) => number,
  ): Promise<void> {
    if (claimed.length === 0) return;
    const { provider, clock, options, turns, release } = this.#params;
    const acks = claimed.map(({ item, turn, keep = false }) => ({
      instanceId: item.instanceId,
      lockToken: item.lockToken,
      messageKeys: item.messages.map(({ messageKey }) => messageKey),
      turn,
      ...(keep && !this.#stopping.signal.aborted && { keep }),
    }));
    const sentAt = clock.monotonic();
    const deadline = sentAt + options.orchestrationLeaseMs;
    const retry = { clock, logger: options.logger, deadline };
    const results = await withRetries(retry, () => provider.ackOrchestrationItems(acks)).catch(
      // The leases expire and the turns run again, in any worker.
      (error: unknown) => claimed.map(() => ({ ok: false as const, error })),
    );
    const rejected: RejectedTurn[] = [];
    const blocked: OrchestrationAbandon[] = [];
    for (const [index, { item, instance, turn, beganAt, causes, lateMs }] of claimed.entries()) {
      const result = results[index];
      if (result?.ok === true) {
        const commit = {
          claimed: result.claimed,
          path: 'slow',
          nowMs: item.nowMs,
          sentAt,
          beganAt,
          causes,
          kept: result.kept === true,
        } as const;
        turns.committed(instance, turn, commit);
        if (result.kept === true) this.#params.hold(instance, item.lockToken, claimedAt(item));
        for (const ms of lateMs ?? []) options.metrics.timerFired(ms);
      } else {
        turns.rejected(instance, turn);
        // The claim still holds: release it with the reason instead of letting it expire, which would count it.
        if (isPerdureError(result?.error, 'CODEC_FAILED'))
          blocked.push(this.#params.runner.block(item, result.error).abandon);
        else rejected.push({ instance, error: result?.error });
      }
      release(instance);
    }
    if (blocked.length > 0) await this.#abandon(blocked);
    if (rejected.length > 0) await this.#report(rejected);
  }

  /** Keeps a claim whose turn has nothing to commit. */
  #hold({ item, instance }: KeptClaim, claimedAt: number): void {
    const { release, hold, cache } = this.#params;
    // A claim of a stopping worker expires, or its steps are released immediately.
    instance.lastTurn = item.lastTurn;
    cache.put(instance);
    hold(instance, item.lockToken, claimedAt);
    release(instance);
  }

  /** Logs why turns were rejected. Often the instance was ended or deleted while its turn ran. */
  async #report(rejected: readonly RejectedTurn[]): Promise<void> {
    const { provider, options } = this.#params;
    const ids = rejected.map(({ instance }) => instance.instanceId);
    // Used only for the log level, so a failed query is ignored.
    const records = await provider.getInstances(ids).catch(() => undefined);
    for (const [index, { instance, error }] of rejected.entries()) {
      const { instanceId, instanceKey } = instance;
      const record = records?.[index];
      const isKnown = records !== undefined && error instanceof LockLostError;
      const fields = { error, instanceId };
      if (isKnown && record?.instanceKey !== instanceKey) {
        options.logger.debug(fields, 'turn was dropped because its instance was deleted');
      } else if (isKnown && record !== undefined && isTerminal(record.status)) {
        options.logger.debug(fields, 'turn was dropped because its instance has ended');
      } else options.logger.warn(fields, 'turn was not committed and will run again');
    }
  }

  async #abandon(abandons: readonly OrchestrationAbandon[]): Promise<void> {
    if (abandons.length === 0) return;
    const { provider, clock, options } = this.#params;
    const deadline = clock.monotonic() + options.orchestrationLeaseMs;
    try {
      const retry = { clock, logger: options.logger, deadline };
      await withRetries(retry, () => provider.abandonOrchestrationItems(abandons));
    } catch (error) {
      options.logger.error({ error }, 'releasing instances failed, their leases will expire');
    }
  }
}
