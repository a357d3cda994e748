import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import { encodeMessage } from '../model/message.ts';
import { PeriodicLoop } from '../model/periodic-loop.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { NewInstance } from '../providers/contract/instances.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { ScheduleRecord, ScheduleTick } from '../providers/contract/schedules.ts';
import type { NewTask } from '../providers/contract/tasks.ts';
import { maxTicks, dueTicks } from './ticks.ts';
import {
  decodeSchedule,
  timingOf,
  type ScheduledOrchestration,
  type ScheduledTask,
} from './schedule-definition.ts';

export interface SchedulerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Maximum time between queries, in case a hint was lost, in milliseconds. */
  readonly recheckMs: number;
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

  /** Fires the due ticks. Returns how long to sleep, in milliseconds. */
  async #fireDue(): Promise<number> {
    const { provider, clock, logger, recheckMs } = this.#params;
    this.#lastPassAt = clock.monotonic();
    const { due, nowMs, nextAt } = await provider.dueSchedules(this.#dueLimit);
    // The schedules furthest behind come first. A full page may starve the rest, so double the limit.
    this.#dueLimit =
      due.length === this.#dueLimit ? Math.min(2 * this.#dueLimit, maxDueLimit) : minDueLimit;
    if (due.length > 0) {
      // All due schedules share one budget: a catch-up of many would block the event loop for seconds.
      const max = Math.ceil(maxTicks / due.length);
      const ticks = due.map((record) => makeTick(record, nowMs, max));
      const fired: boolean[] = [];
      for (let done = 0; done < ticks.length; done += maxTicks) {
        fired.push(...(await provider.tickSchedules(ticks.slice(done, done + maxTicks))));
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

/** Returns the instance id of a tick. It is the same in every process, which deduplicates the tick. */
function tickInstanceId(schedule: string, tickMs: number): string {
  return `${schedule}@${new Date(tickMs).toISOString()}`;
}

/** Returns the starts of a due schedule and its next tick. A schedule that cannot be decoded stops with an error. */
function makeTick(record: ScheduleRecord, nowMs: number, max = maxTicks): ScheduleTick {
  const { name, revision, nextAt } = record;
  const nothing = { name, revision, lastTickAt: nowMs, nextAt: null, instances: [], tasks: [] };
  if (nextAt === null) return { ...nothing, error: null };
  try {
    const definition = decodeSchedule(name, record.definition);
    const { catchUp, target } = definition;
    const due = dueTicks({ timing: timingOf(definition), catchUp, nextAt, nowMs, max });
    return {
      ...nothing,
      nextAt: due.nextAt,
      lastTickAt: due.ticks.at(-1) ?? record.lastTickAt ?? nextAt,
      instances:
        target.kind === 'orchestration' ? due.ticks.map((at) => toInstance(name, at, target)) : [],
      tasks: target.kind === 'task' ? due.ticks.map((at) => toTask(name, at, target)) : [],
      error: null,
    };
  } catch (error) {
    return { ...nothing, error: error instanceof Error ? error.message : String(error) };
  }
}

function toInstance(schedule: string, at: number, target: ScheduledOrchestration): NewInstance {
  const { name, version, payload, inputHash, tags } = target;
  const tagged = tags !== undefined && { tags };
  return {
    instanceId: tickInstanceId(schedule, at),
    incarnation: randomToken(),
    name,
    version,
    inputHash,
    start: encodeMessage({ kind: 'start', name, version, payload, ...tagged }),
    ...tagged,
  };
}

function toTask(schedule: string, at: number, target: ScheduledTask): NewTask {
  const { name, payload, inputHash, options, priority, expiresInMs, dedupeKey } = target;
  return {
    instanceId: tickInstanceId(schedule, at),
    incarnation: randomToken(),
    name,
    inputHash,
    payload,
    options,
    priority,
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(dedupeKey !== undefined && { dedupeKey }),
    ...(target.onFail && { onFail: { options } }),
    ...(target.tags !== undefined && { tags: target.tags }),
  };
}
