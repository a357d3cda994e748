import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import type { TurnAck } from '../../providers/contract/work-queue.ts';
import type { LiveInstance } from './live-instance.ts';
import type { ResolvedOptions } from '../options.ts';
import type { Turns } from './turns.ts';
import type { WarmCache } from './warm-cache.ts';
import type { WarmTimers } from './warm-timers.ts';

export interface TimerTurnsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly cache: WarmCache;
  readonly timers: WarmTimers;
  readonly turns: Turns;
  /** Lets go of an instance, and gives what settled meanwhile its turn. */
  readonly release: (live: LiveInstance) => void;
}

/** A turn that ran in memory and waits for its commit. */
interface RanTurn {
  readonly live: LiveInstance;
  readonly lastTurn: string;
  readonly operations: readonly number[];
  readonly turn: Turn;
}

// Refused turns are work for nothing. Where another process is after the same timers, nearly all would be.
const restMs = 10_000;

/**
 * Gives instances that are live here their turn when a timer of theirs is due: the turn runs in memory first, and one
 * transaction takes the timer and commits the turn, without a claim. Where the store refuses, the timer is fetched like
 * any message.
 */
export class TimerTurns {
  readonly #params: TimerTurnsParams;
  #restsUntil = Number.NEGATIVE_INFINITY;

  constructor(params: TimerTurnsParams) {
    this.#params = params;
  }

  /** When there will be something to run; never, if nothing is known of. */
  nextAt(): number {
    return this.#isResting ? Infinity : this.#params.timers.nextAt;
  }

  get #isResting(): boolean {
    return this.#params.clock.monotonic() < this.#restsUntil;
  }

  /** Runs the turns that are due, one batch of them; says whether there were any. */
  async run(): Promise<boolean> {
    const { clock, timers, options } = this.#params;
    const nowMs = Math.floor(clock.now());
    const due = timers.takeDue(nowMs, options.orchestrationBatch);
    if (this.#isResting) return false;
    const ran: RanTurn[] = [];
    for (const live of due) {
      const one = live.gone || !live.tryAcquire() ? undefined : await this.#runOne(live, nowMs);
      if (one !== undefined) ran.push(one);
    }
    if (ran.length > 0) await this.#commit(ran, nowMs);
    return due.length > 0;
  }

  /** Runs the turn of an instance that was acquired, and lets go of it if there is none. */
  async #runOne(live: LiveInstance, nowMs: number): Promise<RanTurn | undefined> {
    const { cache, turns, options, release } = this.#params;
    const { executionId, lastTurn, version } = live;
    const operations = dueTimers(live, nowMs);
    if (lastTurn === null || operations.length === 0) {
      release(live);
      return undefined;
    }
    const messages = operations.map((operation): Message => {
      return { kind: 'timerFired', executionId, operation };
    });
    try {
      const result = await live.execution.turn({ messages, nowMs, version });
      if (options.alwaysReplay) await turns.replay(live, result);
      return {
        live,
        lastTurn,
        operations,
        turn: turns.plan(live, result, { path: 'fast', nowMs }),
      };
    } catch (error) {
      // The slow path meets the same trouble with a claim in hand, and knows what to do about it.
      options.logger.debug({ error, instanceId: live.instanceId }, 'a turn in memory failed');
      cache.evict(live);
      release(live);
      return undefined;
    }
  }

  async #commit(ran: readonly RanTurn[], nowMs: number): Promise<void> {
    const { provider, clock, turns, options, release } = this.#params;
    const sentAt = clock.monotonic();
    const acks = ran.map(({ live, lastTurn, operations, turn }): TurnAck => {
      const { instanceKey, incarnation, executionId } = live;
      const fences = { instanceKey, incarnation, executionId, lastTurn };
      return { ...fences, lockTokens: [], timers: operations, asOfMs: nowMs, turn };
    });
    const results = await provider.ackTurns(acks).catch((error: unknown) => {
      options.logger.debug({ error }, 'committing turns in memory failed');
      return [];
    });
    for (const [index, { live, turn }] of ran.entries()) {
      const result = results[index];
      if (result?.ok === true) {
        const { claimed } = result;
        turns.committed(live, turn, { claimed, path: 'fast', nowMs, sentAt });
      } else {
        turns.refused(live, turn);
        this.#restsUntil = clock.monotonic() + restMs;
      }
      release(live);
    }
  }
}

/** The timers of an instance that are due, in the order in which they became so. */
function dueTimers({ timers }: LiveInstance, nowMs: number): readonly number[] {
  const due: (readonly [number, number])[] = [];
  for (const timer of timers) if (timer[1] <= nowMs) due.push(timer);
  return due.sort(([a, aAt], [b, bAt]) => aAt - bAt || a - b).map(([operation]) => operation);
}
