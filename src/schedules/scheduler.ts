import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import { PeriodicLoop } from '../model/periodic-loop.ts';
import type { Hint, Provider } from '../providers/contract/provider.ts';
import type { ScheduleRecord, ScheduleTick } from '../providers/contract/schedules.ts';
import { planOverlap } from './overlap.ts';
import { decodeSchedule, firingTimesOf, overlapOf } from './schedule-definition.ts';
import { newRuns, tickRunId } from './scheduled-runs.ts';
import { maxTicks, dueTicks } from './ticks.ts';

export interface SchedulerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Maximum time between queries, in case a hint was lost, in milliseconds. */
  readonly recheckMs: number;
  /** Called for each schedule that this process fired, with the delay since it was due, in milliseconds. */
  readonly onFired?: (lateMs: number) => void;
}

const minDueLimit = 100;
const maxDueLimit = 10_000;
const contendedPauseMs = 100;
// Debounces several changes into one query.
const changeDelayMs = 50;

/**
 * Fires the ticks of schedules. Every worker has one; the store ensures that each tick fires once.
 * Sleeps until the next tick, and wakes earlier when a schedule may have changed.
 */
export class Scheduler {
  readonly #params: SchedulerParams;
  readonly #loop: PeriodicLoop;
  #lastPassAt = -Infinity;
  #dueLimit = minDueLimit;
  /** Live runs that hold back buffered ticks. */
  #waitsFor: ReadonlySet<string> = new Set();

  constructor(params: SchedulerParams) {
    this.#params = params;
    const { clock, logger } = params;
    this.#loop = new PeriodicLoop({
      clock,
      round: () => this.#fireDue(),
      onError: (error) => logger.warn({ error }, 'firing schedules failed, will retry'),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Call after this process changed a schedule. Wakes the scheduler after a short delay. */
  changed(): void {
    this.#loop.wakeIn(changeDelayMs);
  }

  /** Call after another process committed a change. Throttled, because few changes concern schedules. */
  changedElsewhere(): void {
    const { clock, recheckMs } = this.#params;
    const passedMs = clock.monotonic() - this.#lastPassAt;
    this.#loop.wakeIn(Math.max(0, recheckMs / 5 - passedMs));
  }

  /** Wakes the scheduler when a run has ended for which a buffered tick waits. */
  onHint(hint: Hint): void {
    if (this.#waitsFor.size === 0) return;
    const hasEnded =
      hint.kind === 'missed' ||
      (hint.kind === 'finished' && hint.instanceIds.some((id) => this.#waitsFor.has(id)));
    if (hasEnded) this.#loop.wakeIn(0);
  }

  /** Fires the due ticks. Returns how long to sleep, in milliseconds. */
  async #fireDue(): Promise<number> {
    const { provider, clock, logger, recheckMs } = this.#params;
    this.#lastPassAt = clock.monotonic();
    const { due, nowMs, nextAt, waitsFor } = await provider.dueSchedules(this.#dueLimit);
    this.#waitsFor = new Set(waitsFor);
    // The schedules furthest behind come first. A full page may starve the rest, so double the limit.
    this.#dueLimit =
      due.length >= this.#dueLimit ? Math.min(2 * this.#dueLimit, maxDueLimit) : minDueLimit;
    if (due.length > 0) {
      // All due schedules share one budget: a catch-up of many would block the event loop for seconds.
      const max = Math.ceil(maxTicks / due.length);
      const ticks = due.map((record) => makeTick(record, nowMs, max));
      const fired: boolean[] = [];
      for (let done = 0; done < ticks.length; done += maxTicks) {
        fired.push(...(await provider.tickSchedules(ticks.slice(done, done + maxTicks))));
      }
      for (const [index, { nextAt: dueAt }] of due.entries()) {
        if (fired[index] === true && dueAt !== null && dueAt <= nowMs)
          this.#params.onFired?.(nowMs - dueAt);
      }
      for (const { name, error } of ticks) {
        if (error !== null)
          logger.error({ schedule: name, error }, 'schedule cannot be decoded, it stops');
      }
      // No tick was ours: another worker fires them, or the store rejects them. Back off.
      return fired.includes(true) ? 0 : contendedPauseMs;
    }
    return nextAt === null ? recheckMs : Math.min(Math.max(0, nextAt - nowMs), recheckMs);
  }
}

/**
 * Returns the starts of a due schedule and its next tick. Both the due ticks and the buffered ones take part. A schedule that
 * cannot be decoded stops with an error.
 */
function makeTick(record: ScheduleRecord, nowMs: number, max = maxTicks): ScheduleTick {
  const { name, revision } = record;
  const nothing = { name, revision, lastTickAt: nowMs, nextAt: null, instances: [], tasks: [] };
  try {
    const definition = decodeSchedule(name, record.definition);
    const { times, tickAt } = firingTimesOf(name, definition);
    const { catchUp } = definition;
    const isDue = record.nextAt !== null && record.nextAt <= nowMs;
    const due = isDue
      ? dueTicks({ timing: times, catchUp, nextAt: record.nextAt, nowMs, max })
      : { ticks: [], nextAt: record.nextAt };
    const ticks = due.ticks.map(tickAt);
    const { starts, ...plan } = planOverlap(overlapOf(definition), record.bufferedTicks, ticks);
    return {
      ...nothing,
      ...plan,
      nextAt: due.nextAt,
      lastTickAt: ticks.at(-1) ?? record.lastTickAt ?? record.nextAt ?? nowMs,
      ...newRuns(
        definition,
        starts.map((at) => tickRunId(name, at)),
      ),
      error: null,
    };
  } catch (error) {
    return { ...nothing, error: error instanceof Error ? error.message : String(error) };
  }
}
