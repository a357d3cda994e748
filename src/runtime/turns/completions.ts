import type { Clock } from '../../model/clock.ts';
import type { Ran } from '../../model/event.ts';
import { isPerdureError, LockLostError, type PerdureError } from '../../model/failures/errors.ts';
import { platformFailure, type Failure } from '../../model/failures/failure.ts';
import type { Message } from '../../model/message.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { CommitResult, Turn } from '../../providers/contract/turn.ts';
import type {
  WorkItem,
  WorkItemAbandon,
  WorkOutcome,
} from '../../providers/contract/work-queue.ts';
import { PendingWork } from '../maintenance/pending-work.ts';
import { withRetries } from '../maintenance/provider-retry.ts';
import { reportTaskEnd } from '../maintenance/reports.ts';
import type { SeriesCounters } from '../maintenance/series-counters.ts';
import type { ResolvedOptions } from '../options.ts';
import type { WarmInstance } from './warm-instance.ts';
import type { TurnLifecycle } from './turn-lifecycle.ts';
import type { WarmCache } from './warm-cache.ts';
import { platform } from '../../model/platform.ts';

/** The final outcome of an activity or task. */
export type Outcome =
  | { readonly kind: 'completed'; readonly payload: Payload | null }
  | { readonly kind: 'failed'; readonly failure: Failure }
  /** The task's condition was false. */
  | { readonly kind: 'skipped' }
  | { readonly kind: 'canceled'; readonly leaked: boolean };

/** A work item with its final outcome, not yet acked. */
export interface SettledActivity {
  readonly item: WorkItem;
  readonly outcome: Outcome;
  /** Worker and start time. Absent if the handler did not run. */
  readonly ran?: Ran;
  /** Whether the task has an `onFail` handler. */
  readonly hasOnFail?: boolean;
  /** Disposes of a task result that the store rejects. */
  readonly onDiscarded?: ((payload: Payload | null) => Promise<void>) | undefined;
}

export interface CompletionsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly cache: WarmCache;
  readonly turns: TurnLifecycle;
  readonly series: SeriesCounters;
  /** Whether the lease of a claim is still valid. */
  readonly isHeld: (lockToken: string) => boolean;
  /** The item was acked, rejected or given up: stop renewing its lease. */
  readonly onAcked: (settled: SettledActivity, accepted: boolean) => void;
  /** A run failed, and its `onFail` item is queued. */
  readonly onFailQueued: (task: string) => void;
}

const maxAcks = 1_000;
/** The delay after which work is tried again that the codec could not encode or decode. */
const codecRetryMs = 5_000;

/**
 * Commits activity outcomes. Fast path: if the instance is warm in this process, run its next turn in memory, then
 * ack
 * the activity and the turn in one transaction. Slow path: enqueue the outcome as a message for the next claim.
 */
export class Completions {
  readonly #params: CompletionsParams;
  #dueInstances: WarmInstance[] = [];
  readonly #ended: SettledActivity[] = [];
  readonly #pending = new PendingWork();

  constructor(params: CompletionsParams) {
    this.#params = params;
  }

  settle(settled: SettledActivity): void {
    if (settled.item.kind !== 'activity') {
      this.#ackSoon(settled);
      return;
    }
    const { cache, options } = this.#params;
    const { instanceKey, executionId, incarnation } = settled.item;
    const instance = options.fastPaths ? cache.get(instanceKey) : undefined;
    const fits =
      instance !== undefined &&
      instance.hold === undefined &&
      settled.outcome.kind !== 'canceled' &&
      instance.executionId === executionId &&
      instance.incarnation === incarnation;
    if (options.fastPaths) options.metrics.lookedUp(instance !== undefined);
    if (!fits) {
      this.#pending.add(this.#ack([settled]));
      return;
    }
    instance.settled.push(settled);
    this.#scheduleTurn(instance);
  }

  /** Reports an outcome that was committed together with writes of the application. */
  committed(settled: SettledActivity, result: CommitResult): void {
    this.#acked(settled, result, this.#params.clock.now());
  }

  /** Runs that end in the same event loop iteration share one call. */
  #ackSoon(settled: SettledActivity): void {
    this.#ended.push(settled);
    if (this.#ended.length === 1) platform.setImmediate(() => this.#flushEnded());
  }

  #flushEnded(): void {
    for (let rest = this.#ended.splice(0); rest.length > 0; rest = rest.slice(maxAcks)) {
      this.#pending.add(this.#ack(rest.slice(0, maxAcks)));
    }
  }

  /** Releases an acquired instance, and runs a turn for outcomes that arrived meanwhile. */
  release(instance: WarmInstance): void {
    instance.release();
    this.#scheduleTurn(instance);
  }

  /** Schedules a turn for the settled outcomes, unless the instance is busy. */
  #scheduleTurn(instance: WarmInstance): void {
    if (instance.settled.length === 0 || !instance.tryAcquire()) return;
    this.#dueInstances.push(instance);
    // Activities that settle in the same event loop iteration share one turn of their instance.
    if (this.#dueInstances.length === 1) platform.setImmediate(() => this.#flush());
  }

  /** Resolves when no commit is pending. */
  async drained(): Promise<void> {
    while (this.#dueInstances.length > 0 || this.#ended.length > 0 || this.#pending.size > 0) {
      this.#flush();
      this.#flushEnded();
      await this.#pending.idle();
    }
  }

  #flush(): void {
    const due = this.#dueInstances;
    this.#dueInstances = [];
    for (const instance of due) this.#pending.add(this.#runTurns(instance));
  }

  async #runTurns(instance: WarmInstance): Promise<void> {
    while (instance.settled.length > 0) {
      const batch = instance.settled.splice(0);
      const isHeld = batch.every(({ item }) => this.#params.isHeld(item.lockToken));
      if (instance.isEvicted || instance.hold !== undefined || !isHeld) await this.#ack(batch);
      else await this.#runTurn(instance, batch);
    }
    instance.release();
  }

  async #runTurn(instance: WarmInstance, batch: readonly SettledActivity[]): Promise<void> {
    const { provider, clock, turns, cache, options } = this.#params;
    const beganAt = platform.monotonic();
    const time = { path: 'fast', nowMs: Math.floor(clock.now()) } as const;
    const { nowMs } = time;
    const messages = batch
      .map(toMessage)
      .filter((message): message is Message => message !== undefined);
    const lockTokens = batch.map(({ item }) => item.lockToken);
    instance.items = lockTokens;
    let turn: Turn;
    try {
      const result = await instance.execution.turn({ messages, nowMs, version: instance.version });
      if (options.alwaysReplay) await turns.replay(instance, result);
      turn = turns.plan(instance, result, time);
      instance.items = undefined;
    } catch (error) {
      // The slow path gets the same error with a claim, and handles it.
      options.logger.debug(
        { error, instanceId: instance.instanceId },
        'turn in memory failed, using the slow path',
      );
      cache.evict(instance);
      await this.#ack(batch);
      return;
    }
    const { instanceKey, instanceId, incarnation, executionId, lastTurn } = instance;
    const sentAt = clock.monotonic();
    try {
      const [commit] =
        lastTurn === null
          ? []
          : await provider.ackTurns([
              { instanceKey, instanceId, incarnation, executionId, lastTurn, lockTokens, turn },
            ]);
      if (commit?.ok === true) {
        for (const settled of batch) this.#params.onAcked(settled, true);
        turns.committed(instance, turn, { ...time, claimed: commit.claimed, sentAt, beganAt });
        return;
      }
    } catch (error) {
      options.logger.debug(
        { error, instanceId: instance.instanceId },
        'committing a turn in memory failed, using the slow path',
      );
    }
    // If the turn did commit, the items no longer exist and this ack changes nothing.
    turns.rejected(instance, turn);
    await this.#ack(batch);
  }

  async #ack(batch: readonly SettledActivity[]): Promise<void> {
    const { provider, clock, options, onAcked } = this.#params;
    const acks = batch.map((settled) => ({
      instanceId: settled.item.instanceId,
      lockToken: settled.item.lockToken,
      outcome: toWorkOutcome(settled),
    }));
    try {
      const deadline = clock.monotonic() + options.activityLeaseMs;
      const retry = { clock, logger: options.logger, deadline };
      const results = await withRetries(retry, () => provider.ackWorkItems(acks));
      // Without a codec, nothing is awaited here.
      if (results.some(isUnencoded)) await this.#handBack(batch, results);
      const nowMs = clock.now();
      batch.forEach((settled, index) => {
        const result = results[index];
        if (result?.ok === false && !(result.error instanceof LockLostError)) {
          options.logger.error(
            { error: result.error, instanceId: settled.item.instanceId },
            'store rejected an ack',
          );
        }
        this.#acked(settled, result, nowMs);
      });
    } catch (error) {
      options.logger.error(
        { error, items: batch.length },
        'acking activities failed, their leases will expire',
      );
      for (const settled of batch) onAcked(settled, false);
    }
  }

  /** Hands items back whose outcome cannot be encoded. They run again, and the claim does not count. */
  async #handBack(
    batch: readonly SettledActivity[],
    results: readonly CommitResult[],
  ): Promise<void> {
    const abandons = batch.flatMap(({ item: { lockToken } }, index) => {
      const result = results[index];
      return result?.ok === false && isPerdureError(result.error, 'CODEC_FAILED')
        ? [handBackUnencoded(lockToken, result.error)]
        : [];
    });
    if (abandons.length > 0) await this.#params.provider.abandonWorkItems(abandons);
  }

  #acked(settled: SettledActivity, result: CommitResult | undefined, nowMs: number): void {
    this.#params.onAcked(settled, result?.ok === true);
    if (result?.ok !== true || result.ended === undefined) return;
    const { item, outcome } = settled;
    reportTaskEnd(this.#params, { item, status: result.ended, outcome, nowMs });
    if (result.ended === 'failed' && settled.hasOnFail === true) {
      this.#params.onFailQueued(item.name);
    }
    if (result.ended === 'canceled') this.#discard(settled);
  }

  /** Disposes of a result that came after a cancel that had not reached this worker. */
  #discard({ outcome, onDiscarded }: SettledActivity): void {
    if (outcome.kind !== 'completed' || onDiscarded === undefined) return;
    this.#pending.add(onDiscarded(outcome.payload));
  }
}

/** Whether an outcome was not stored because the codec failed. */
function isUnencoded(result: CommitResult): boolean {
  return !result.ok && isPerdureError(result.error, 'CODEC_FAILED');
}

/** How an item is handed back whose payload the codec cannot decode, or whose outcome it cannot encode. */
export function handBackUnencoded(lockToken: string, error: PerdureError): WorkItemAbandon {
  const explanation = JSON.stringify(platformFailure('CODEC_FAILED', error.message));
  return { lockToken, delayMs: codecRetryMs, giveBackClaim: true, explanation };
}

/** The message that the store would enqueue for this outcome. A turn in memory applies it directly. */
function toMessage(settled: SettledActivity): Message | undefined {
  const { executionId, operation } = settled.item;
  const { outcome, ran } = settled;
  switch (outcome.kind) {
    case 'completed':
      return {
        kind: 'activityCompleted',
        executionId,
        operation,
        payload: outcome.payload,
        ...ran,
      };
    case 'failed':
      return { kind: 'activityFailed', executionId, operation, failure: outcome.failure, ...ran };
    case 'skipped':
    case 'canceled':
      return undefined;
  }
}

/** Converts the outcome to the provider contract. */
function toWorkOutcome({ item, outcome, ran, hasOnFail }: SettledActivity): WorkOutcome {
  if (outcome.kind === 'skipped') return outcome;
  const known = ran !== undefined && { ran };
  if (outcome.kind !== 'failed') return { ...outcome, ...known };
  return {
    kind: 'failed',
    failure: JSON.stringify(outcome.failure),
    ...known,
    // `onFail` gets the headers of the run.
    ...(hasOnFail === true && { onFail: { options: item.options } }),
  };
}
