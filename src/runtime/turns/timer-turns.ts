import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import type { TurnAck } from '../../providers/contract/work-queue.ts';
import type { ResolvedOptions } from '../options.ts';
import type { WarmInstance } from './warm-instance.ts';
import type { TurnLifecycle } from './turn-lifecycle.ts';
import type { WarmCache } from './warm-cache.ts';
import { platform } from '../../model/platform.ts';

export interface TimerTurnsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly cache: WarmCache;
  readonly timers: WarmTimers;
  readonly turns: TurnLifecycle;
  /** Releases an instance, and runs a turn for outcomes that arrived meanwhile. */
  readonly release: (instance: WarmInstance) => void;
}

/** A turn that ran in memory and is not yet committed. */
interface RanTurn {
  readonly instance: WarmInstance;
  readonly lastTurn: string;
  readonly operations: readonly number[];
  readonly turn: Turn;
  readonly beganAt: number;
  readonly dueAts: readonly number[];
}

// Pause after a rejected turn: another process probably runs the same timers, and most turns would be rejected.
const contentionPauseMs = 10_000;

/**
 * Runs turns of warm instances when their timers are due (fast path). The turn runs in memory first; then one
 * transaction deletes the timer and commits the turn, without a claim. If the store rejects it, the timer is fetched
 * as a message.
 */
export class TimerTurns {
  readonly #params: TimerTurnsParams;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(params: TimerTurnsParams) {
    this.#params = params;
  }

  /** When the next timer is due, or `Infinity`. */
  nextAt(): number {
    return this.#isPaused ? Infinity : this.#params.timers.nextAt;
  }

  get #isPaused(): boolean {
    return this.#params.clock.monotonic() < this.#pausedUntil;
  }

  /** Runs one batch of due turns. Returns whether there were any. */
  async run(): Promise<boolean> {
    const { clock, timers, options } = this.#params;
    const nowMs = Math.floor(clock.now());
    const due = timers.takeDue(nowMs, options.orchestrationBatch);
    if (this.#isPaused) return false;
    const ran: RanTurn[] = [];
    for (const instance of due) {
      const one =
        instance.isEvicted || instance.hold !== undefined || !instance.tryAcquire()
          ? undefined
          : await this.#runOne(instance, nowMs);
      if (one !== undefined) ran.push(one);
    }
    if (ran.length > 0) await this.#commit(ran, nowMs);
    return due.length > 0;
  }

  /** Runs the turn of an acquired instance. Releases the instance if there is no turn. */
  async #runOne(instance: WarmInstance, nowMs: number): Promise<RanTurn | undefined> {
    const { cache, turns, options, release } = this.#params;
    const { executionId, lastTurn, version } = instance;
    const operations = dueTimers(instance, nowMs);
    const dueAts = operations.map((operation) => instance.timers.get(operation) ?? nowMs);
    if (lastTurn === null || operations.length === 0) {
      release(instance);
      return undefined;
    }
    const beganAt = platform.monotonic();
    const messages = operations.map((operation): Message => {
      return { kind: 'timerFired', executionId, operation };
    });
    try {
      const result = await instance.execution.turn({ messages, nowMs, version });
      if (options.alwaysReplay) await turns.replay(instance, result);
      return {
        instance,
        lastTurn,
        operations,
        dueAts,
        beganAt,
        turn: turns.plan(instance, result, { path: 'fast', nowMs }),
      };
    } catch (error) {
      // The slow path gets the same error with a claim, and handles it.
      options.logger.debug(
        { error, instanceId: instance.instanceId },
        'turn in memory failed, using the slow path',
      );
      cache.evict(instance);
      release(instance);
      return undefined;
    }
  }

  async #commit(ran: readonly RanTurn[], nowMs: number): Promise<void> {
    const { provider, clock, turns, options, release } = this.#params;
    const sentAt = clock.monotonic();
    const acks = ran.map(({ instance, lastTurn, operations, turn }): TurnAck => {
      const { instanceKey, instanceId, incarnation, executionId } = instance;
      const fences = { instanceKey, instanceId, incarnation, executionId, lastTurn };
      return { ...fences, lockTokens: [], timers: operations, asOfMs: nowMs, turn };
    });
    const results = await provider.ackTurns(acks).catch((error: unknown) => {
      options.logger.debug({ error }, 'committing turns in memory failed, using the slow path');
      return [];
    });
    for (const [index, { instance, turn, beganAt, dueAts }] of ran.entries()) {
      const result = results[index];
      if (result?.ok === true) {
        const { claimed } = result;
        turns.committed(instance, turn, { claimed, path: 'fast', nowMs, sentAt, beganAt });
        for (const dueAt of dueAts) options.metrics.timerFired(nowMs - dueAt);
      } else {
        turns.rejected(instance, turn);
        this.#pausedUntil = clock.monotonic() + contentionPauseMs;
      }
      release(instance);
    }
  }
}

/** Returns the operations of due timers, in the order of their due times. */
function dueTimers({ timers }: WarmInstance, nowMs: number): readonly number[] {
  const due: (readonly [number, number])[] = [];
  for (const timer of timers) if (timer[1] <= nowMs) due.push(timer);
  return due.sort(([a, aAt], [b, bAt]) => aAt - bAt || a - b).map(([operation]) => operation);
}

interface Entry {
  readonly handle: WarmInstance['handle'];
  readonly operation: number;
  readonly fireAt: number;
}

// Below this size, outdated entries are not removed early.
const fewEntries = 1_024;

/**
 * The timers of warm instances, in a binary heap by due time. Outdated entries stay until they are due or a sweep
 * removes them: timers that fired or were withdrawn, timers whose instance left the cache, and timers of a canceling
 * instance, whose turns need a claim. Entries do not keep their instance in memory.
 */
export class WarmTimers {
  readonly #onFirst: (fireAt: number) => void;
  #heap: Entry[] = [];
  #sweepAt = fewEntries;

  /** `onFirst` is called with a timer that is due before all others. */
  constructor(onFirst: (fireAt: number) => void) {
    this.#onFirst = onFirst;
  }

  /** Adds a timer of a committed turn. */
  add(instance: WarmInstance, operation: number, fireAt: number): void {
    if (this.#heap.length >= this.#sweepAt) this.#sweep();
    this.#heap.push({ handle: instance.handle, operation, fireAt });
    this.#siftUp(this.#heap.length - 1);
    if (this.#heap[0]?.handle === instance.handle && this.#heap[0].operation === operation)
      this.#onFirst(fireAt);
  }

  /** Number of entries, including outdated ones. */
  get size(): number {
    return this.#heap.length;
  }

  /** When the next timer is due, or `Infinity`. */
  get nextAt(): number {
    this.#dropOutdated();
    return this.#heap[0]?.fireAt ?? Infinity;
  }

  /** Removes due timers and returns up to `max` of their instances. An instance may appear more than once. */
  takeDue(nowMs: number, max: number): readonly WarmInstance[] {
    const due: WarmInstance[] = [];
    while (due.length < max && this.nextAt <= nowMs) {
      const first = this.#pop();
      if (first?.handle.instance !== undefined) due.push(first.handle.instance);
    }
    return due;
  }

  #dropOutdated(): void {
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      if (isPending(first)) return;
      this.#pop();
    }
  }

  #sweep(): void {
    // A sorted array is a valid heap.
    this.#heap = this.#heap.filter(isPending).sort((a, b) => a.fireAt - b.fireAt);
    this.#sweepAt = Math.max(2 * this.#heap.length, fewEntries);
  }

  #pop(): Entry | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (last !== undefined && heap.length > 0) {
      heap[0] = last;
      this.#siftDown();
    }
    return first;
  }

  #siftUp(from: number): void {
    const heap = this.#heap;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (this.#fireAt(above) <= this.#fireAt(at)) return;
      [heap[at], heap[above]] = [heap[above] as Entry, heap[at] as Entry];
      at = above;
    }
  }

  #siftDown(): void {
    const heap = this.#heap;
    for (let at = 0; ;) {
      const left = 2 * at + 1;
      const below = this.#fireAt(left + 1) < this.#fireAt(left) ? left + 1 : left;
      if (this.#fireAt(at) <= this.#fireAt(below)) return;
      [heap[at], heap[below]] = [heap[below] as Entry, heap[at] as Entry];
      at = below;
    }
  }

  #fireAt(index: number): number {
    return this.#heap[index]?.fireAt ?? Infinity;
  }
}

function isPending({ handle: { instance }, operation, fireAt }: Entry): boolean {
  return (
    instance !== undefined &&
    instance.hold === undefined &&
    !instance.execution.isCanceling &&
    instance.timers.get(operation) === fireAt
  );
}
