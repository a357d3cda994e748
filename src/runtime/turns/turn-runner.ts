import { isPerdureError, NondeterminismError } from '../../model/failures/errors.ts';
import { decodeEvent, type StoredEvent, type TerminalEvent } from '../../model/event.ts';
import { platformFailure, type Failure } from '../../model/failures/failure.ts';
import {
  decodeMessage,
  isStepGuard,
  type Message,
  type StoredMessage,
} from '../../model/message.ts';
import { decodeTrace, type TraceContext } from '../../model/trace-context.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type {
  OrchestrationAbandon,
  OrchestrationItem,
} from '../../providers/contract/orchestration-queue.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import type { FreshReplays } from './fresh-replays.ts';
import { WarmInstance, type ProgramFactory } from './warm-instance.ts';
import type { ResolvedOptions } from '../options.ts';
import { toBlocked } from './blocked-turn.ts';
import { reportBlocked, reportSafely } from '../maintenance/reports.ts';
import { toTurn } from './turn-effects.ts';
import { causesOf } from './turn-trace.ts';
import type { TurnLifecycle } from './turn-lifecycle.ts';
import type { WarmCache } from './warm-cache.ts';
import { platform } from '../../model/platform.ts';

/** A turn that ran and must be acked. The instance is held until then. */
export interface ClaimedTurn {
  readonly kind: 'turn';
  readonly item: OrchestrationItem;
  readonly instance: WarmInstance;
  readonly turn: Turn;
  /** Whether to keep the claim, because steps are due. */
  readonly keep?: boolean;
  /** When the turn began, by `platform.monotonic()`. */
  readonly beganAt: number;
  /** The contexts of the events that the turn received. */
  readonly causes?: readonly TraceContext[];
  /** How late its timers fired, in milliseconds. */
  readonly lateMs?: readonly number[];
}

/** A claim to release. */
export interface ReleasedClaim {
  readonly kind: 'abandon';
  readonly abandon: OrchestrationAbandon;
}

/** A claim to keep without a turn: only its steps are to be run. */
export interface KeptClaim {
  readonly kind: 'hold';
  readonly item: OrchestrationItem;
  readonly instance: WarmInstance;
}

/** The instance was deleted during the claim: there is no ack and no release. */
interface DeletedInstance {
  readonly kind: 'deleted';
}

/** The result of a claim. */
export type ClaimResult = ClaimedTurn | KeptClaim | ReleasedClaim | DeletedInstance;

export interface TurnRunnerParams {
  readonly provider: Provider;
  readonly registry: Registry;
  readonly options: ResolvedOptions;
  readonly cache: WarmCache;
  readonly programs: ProgramFactory;
  readonly turns: TurnLifecycle;
  readonly replays: FreshReplays;
  /** Releases an instance, and runs a turn for outcomes that arrived meanwhile. */
  readonly release: (instance: WarmInstance) => void;
}

const errorPauseMs = 200;
const firstBackoffMs = 1_000;
const maxBackoffMs = 60_000;
// Instances that end in another process are not removed one by one.
const maxBackoffEntries = 10_000;

/** Runs one turn for each claimed instance. Uses its warm copy, or replays its history. */
export class TurnRunner {
  readonly #params: TurnRunnerParams;
  /** The next retry delay of each blocked instance. */
  readonly #backoffMs = new Map<string, number>();

  constructor(params: TurnRunnerParams) {
    this.#params = params;
  }

  /** Runs the turns one at a time. Checks `isHeld` before each: a turn whose lease expired does not run. */
  async run(
    items: readonly OrchestrationItem[],
    isHeld: (lockToken: string) => boolean,
  ): Promise<readonly ClaimResult[]> {
    const warm = await Promise.all(items.map((item) => this.#acquireWarm(item)));
    const cold = items.filter((_, index) => warm[index] === undefined);
    for (const instance of warm) this.#params.options.metrics.lookedUp(instance !== undefined);
    const traces = await this.#readTraces(cold);
    let histories: ReadonlyMap<number, readonly StoredEvent[]>;
    try {
      histories = await this.#readHistories(cold);
    } catch (error) {
      this.#params.options.logger.warn({ error }, 'reading histories failed, will retry');
      for (const instance of warm) if (instance !== undefined) this.#params.release(instance);
      return items.map(({ lockToken }) => retryLater(lockToken));
    }
    const results: ClaimResult[] = [];
    for (const [index, item] of items.entries()) {
      const instance = warm[index];
      // Its steps may have lost an earlier claim while the histories were read. The next claim replays it.
      const isEvicted = instance?.isEvicted === true;
      if (isHeld(item.lockToken) && !isEvicted) {
        const history = histories.get(item.instanceKey) ?? [];
        const trace = traces?.get(item.instanceKey);
        results.push(await this.#runOne(item, instance, { history, trace }));
      } else {
        if (instance !== undefined) this.#params.release(instance);
        results.push(handBack(item.lockToken));
      }
    }
    return results;
  }

  async #acquireWarm(item: OrchestrationItem): Promise<WarmInstance | undefined> {
    const { cache } = this.#params;
    const instance = cache.get(item.instanceKey);
    if (instance === undefined) return undefined;
    await instance.acquire();
    const isCurrent =
      !instance.isEvicted &&
      instance.incarnation === item.incarnation &&
      instance.executionId === item.executionId &&
      instance.lastTurn === item.lastTurn;
    if (isCurrent) return instance;
    cache.evict(instance);
    this.#params.release(instance);
    return undefined;
  }

  /** Reads the trace contexts of instances that are not warm. Only with telemetry, which must not fail a turn. */
  async #readTraces(
    items: readonly OrchestrationItem[],
  ): Promise<ReadonlyMap<number, TraceContext | undefined> | undefined> {
    const { provider, options } = this.#params;
    if (options.telemetry === undefined || items.length === 0) return undefined;
    try {
      const headers = await provider.readHeaders(items.map(({ instanceKey }) => instanceKey));
      return new Map(
        items.map(({ instanceKey }, index) => [instanceKey, decodeTrace(headers[index])]),
      );
    } catch (error) {
      options.logger.debug({ error }, 'reading trace contexts failed');
      return undefined;
    }
  }

  async #readHistories(
    items: readonly OrchestrationItem[],
  ): Promise<ReadonlyMap<number, readonly StoredEvent[]>> {
    const cold = items.filter((item) => item.historyLength > 0);
    if (cold.length === 0) return new Map();
    const histories = await this.#params.provider.readHistory(
      cold.map(({ instanceKey, executionId }) => ({ instanceKey, executionId, after: 0 })),
    );
    return new Map(cold.map((item, index) => [item.instanceKey, histories[index] ?? []]));
  }

  async #runOne(
    item: OrchestrationItem,
    warm: WarmInstance | undefined,
    stored: StoredParts,
  ): Promise<ClaimResult> {
    const { options, turns, replays } = this.#params;
    const beganAt = platform.monotonic();
    let instance = warm;
    try {
      const disagreement = options.alwaysReplay ? replays.take(item.incarnation) : undefined;
      if (disagreement !== undefined) throw disagreement;
      const isResumed = item.messages.every(isStepGuard);
      const isPoisoned = item.claims > options.maxClaims;
      if (isPoisoned && !isResumed) {
        return this.#end(item, instance, {
          kind: 'executionFailed',
          at: item.nowMs,
          failure: poison(item),
        });
      }
      const messages = item.messages.map((message) => toMessage(message, item.lastTurn));
      instance ??= await this.#rebuild(item, messages, stored);
      instance.isGuarded = isResumed;
      if (isResumed) {
        const { pendingSteps } = instance.execution;
        if (pendingSteps.size > 0 && !isPoisoned) return { kind: 'hold', item, instance };
        // The steps, not the turn, probably crashed the workers.
        const { executionId } = item;
        const failure = poison(item, 'step');
        for (const [operation, { name }] of pendingSteps)
          messages.push({ kind: 'stepFailed', executionId, operation, name, failure });
        instance.isGuarded = false;
      }
      const lateMs = latenessOf(messages, instance.timers, { ...stored, nowMs: item.nowMs });
      instance.claim = item.lockToken;
      const { version } = instance;
      const result = await instance.execution.turn({ messages, nowMs: item.nowMs, version });
      if (options.alwaysReplay) await turns.replay(instance, result);
      instance.claim = undefined;
      this.#backoffMs.delete(item.instanceId);
      return {
        kind: 'turn',
        item,
        instance,
        beganAt,
        ...(result.dueSteps === true && { keep: true }),
        ...(options.telemetry !== undefined && { causes: causesOf(messages) }),
        ...(lateMs.length > 0 && { lateMs }),
        turn: turns.plan(instance, result, { path: 'slow', nowMs: item.nowMs }),
      };
    } catch (error) {
      const isSuperseded = await this.#isSuperseded(item);
      if (isSuperseded !== false) {
        this.#evict(instance);
        return isSuperseded === true ? { kind: 'deleted' } : retryLater(item.lockToken);
      }
      if (error instanceof NondeterminismError && options.onNondeterminism === 'fail') {
        const failure = platformFailure('NONDETERMINISM', error.message);
        return this.#end(item, instance, { kind: 'executionFailed', at: item.nowMs, failure });
      }
      const expired = item.messages.find(({ kind }) => kind === 'cleanupExpired');
      if (expired !== undefined) return this.#skipCleanup(item, instance, expired);
      this.#evict(instance);
      return this.block(item, error);
    }
  }

  #evict(instance: WarmInstance | undefined): void {
    if (instance === undefined) return;
    this.#params.cache.evict(instance);
    this.#params.release(instance);
  }

  /**
   * Whether the instance was deleted or retried after its claim. A deleted or pruned history reads as damaged. Returns
   * `undefined` if the store cannot be read.
   */
  async #isSuperseded(item: OrchestrationItem): Promise<boolean | undefined> {
    const { instanceId, instanceKey, executionId } = item;
    const { provider, options } = this.#params;
    let isDeleted: boolean;
    try {
      const [record] = await provider.getInstances([instanceId]);
      // Compares the key: a start that was retried across a deletion has the same incarnation in both instances.
      isDeleted = record?.instanceKey !== instanceKey;
      if (!isDeleted && record?.executionId === executionId) return false;
    } catch (error) {
      options.logger.warn(
        { error, instanceId },
        'checking whether an instance was deleted failed, will retry its turn',
      );
      return undefined;
    }
    const cause = isDeleted ? 'instance was deleted' : 'execution was superseded';
    options.logger.debug({ instanceId, executionId }, `turn was dropped because its ${cause}`);
    return true;
  }

  async #rebuild(
    item: OrchestrationItem,
    messages: readonly Message[],
    { history, trace }: StoredParts,
  ): Promise<WarmInstance> {
    const version = this.#pickVersion(item, messages);
    const instance = this.#createInstance(item, { version, trace }, 'create');
    await instance.acquire();
    instance.claim = item.lockToken;
    try {
      await instance.execution.replay(history.map(decodeEvent));
    } catch (error) {
      instance.discard();
      throw error;
    }
    return instance;
  }

  #pickVersion(item: OrchestrationItem, messages: readonly Message[]): string {
    const start = messages.find((message) => message.kind === 'start');
    const version = item.version ?? start?.version ?? null;
    return version ?? this.#params.registry.latest(item.name)?.version ?? 'unknown';
  }

  #createInstance(
    item: OrchestrationItem,
    { version, trace }: { readonly version: string; readonly trace?: TraceContext | undefined },
    kind: 'create' | 'createInert',
  ): WarmInstance {
    const { instanceKey, instanceId, incarnation, executionId, name, parent, lastTurn } = item;
    const subject = { instanceId, executionId, name, version, parent, trace };
    const { programs } = this.#params;
    const code = programs[kind]({ ...subject, incarnation });
    return new WarmInstance({ instanceKey, subject, incarnation, code, lastTurn });
  }

  /** Ends a canceling instance whose clean-up limit expired and whose code cannot run here. */
  #skipCleanup(
    item: OrchestrationItem,
    instance: WarmInstance | undefined,
    expired: StoredMessage,
  ): ClaimedTurn {
    const message = decodeMessage(expired);
    const reason = message.kind === 'cleanupExpired' ? message.reason : 'canceled';
    return this.#end(item, instance, {
      kind: 'executionCanceled',
      at: item.nowMs,
      reason,
      cleanupSkipped: true,
    });
  }

  /** Ends an instance without running its code. */
  #end(item: OrchestrationItem, warm: WarmInstance | undefined, event: TerminalEvent): ClaimedTurn {
    const version = this.#pickVersion(item, []);
    const instance = warm ?? this.#createInstance(item, { version }, 'createInert');
    if (warm === undefined) instance.tryAcquire();
    const turn = toTurn({
      subject: instance,
      firstEventId: item.historyLength + 1,
      events: [event],
      claimMs: () => undefined,
      cleanupMs: this.#params.options.cleanupTimeoutMs,
      streamLimitBytes: this.#params.options.streamLimitBytes,
      worker: this.#params.options.name,
    });
    return { kind: 'turn', item, instance, turn, beganAt: platform.monotonic() };
  }

  // Blocks instead of failing: a bad deploy must not end instances. A build that agrees unblocks it.
  /** Returns how to release the claim of an instance whose turn cannot run or cannot be stored. */
  block(item: OrchestrationItem, error: unknown): ReleasedClaim {
    const { options } = this.#params;
    const { instanceId, lockToken, name } = item;
    const delayMs = this.#backoffMs.get(instanceId) ?? firstBackoffMs;
    if (this.#backoffMs.size >= maxBackoffEntries) this.#backoffMs.clear();
    this.#backoffMs.set(instanceId, Math.min(delayMs * 2, maxBackoffMs));
    const reason = error instanceof Error ? error.message : String(error);
    options.metrics.blocked();
    reportSafely(options.logger, () =>
      reportBlocked(options.logger, { instanceId, orchestration: name, retryInMs: delayMs }, error),
    );
    reportSafely(options.logger, () =>
      options.hooks.instanceBlocked?.({
        instanceId,
        orchestration: name,
        reason,
        retryInMs: delayMs,
      }),
    );
    return {
      kind: 'abandon',
      abandon: {
        instanceId,
        lockToken,
        delayMs,
        // Undecodable data stays undecodable: those claims count, so the instance ends as poison.
        giveBackClaim: !isPerdureError(error, 'UNDECODABLE'),
        blocked: toBlocked(error, { worker: options.name, buildId: options.buildId }),
      },
    };
  }
}

/** What the store has of an instance that is not warm. */
interface StoredParts {
  readonly history: readonly StoredEvent[];
  readonly trace: TraceContext | undefined;
}

/** Returns how late timers fire, in milliseconds. Reads the due time from the history if this process did not set it. */
function latenessOf(
  messages: readonly Message[],
  timers: ReadonlyMap<number, number>,
  { history, nowMs }: Pick<StoredParts, 'history'> & { readonly nowMs: number },
): readonly number[] {
  const fired = messages.flatMap((message) =>
    message.kind === 'timerFired' ? [message.operation] : [],
  );
  if (fired.length === 0) return fired;
  const created = history.filter(({ kind }) => kind === 'timerCreated').map(decodeEvent);
  return fired.flatMap((operation) => {
    const timer = created.find((event) => 'operation' in event && event.operation === operation);
    const dueAt = timer?.kind === 'timerCreated' ? timer.fireAt : timers.get(operation);
    return dueAt === undefined ? [] : [nowMs - dueAt];
  });
}

/** Ignores a reported fault unless the instance is still at the turn after which its code failed. */
function toMessage(stored: StoredMessage, lastTurn: string | null): Message {
  const message = decodeMessage(stored);
  const outdated = message.kind === 'wake' && message.broken?.turnId !== lastTurn;
  return outdated ? { kind: 'wake' } : message;
}

/** Releases a claim after an error of the store. */
function retryLater(lockToken: string): ReleasedClaim {
  return {
    kind: 'abandon',
    abandon: { lockToken, delayMs: errorPauseMs, giveBackClaim: true },
  };
}

/** Releases a claim whose turn did not start, because its lease expired or its instance was evicted. */
function handBack(lockToken: string): ReleasedClaim {
  return {
    kind: 'abandon',
    abandon: { lockToken, delayMs: 0, giveBackClaim: true, evenIfExpired: true },
  };
}

function poison(item: OrchestrationItem, what: 'turn' | 'step' = 'turn'): Failure {
  return platformFailure(
    'POISON',
    `The ${what} was claimed ${item.claims - 1} times without a commit. Its workers probably crashed, or its data cannot be decoded: check their logs.`,
  );
}
