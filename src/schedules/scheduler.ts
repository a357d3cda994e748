import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import { encodeMessage } from '../model/message.ts';
import { Rounds } from '../model/periodic-loop.ts';
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
  /** How long it trusts in hearing of changes before it looks for itself. */
  readonly recheckMs: number;
}

const minDue = 100;
const maxDue = 10_000;
const contendedPauseMs = 100;
// Many changes at once are one reason to look.
const changePauseMs = 50;

/**
 * Makes the ticks of schedules happen. Every worker has one; that a tick happens once is the store's doing. It sleeps
 * until the next tick, and looks earlier when a schedule may have changed.
 */
export class Scheduler {
  readonly #params: SchedulerParams;
  readonly #rounds: Rounds;
  #lastLookAt = -Infinity;
  #due = minDue;

  constructor(params: SchedulerParams) {
    this.#params = params;
    const { clock, logger } = params;
    this.#rounds = new Rounds({
      clock,
      round: () => this.#look(),
      onError: (error) => logger.warn({ error }, 'looking at schedules failed; trying again'),
    });
  }

  start(): void {
    this.#rounds.start();
  }

  stop(): Promise<void> {
    return this.#rounds.stop();
  }

  /** A schedule of this process changed: look soon. */
  changed(): void {
    this.#rounds.wakeIn(changePauseMs);
  }

  /** Another process changed something, most likely no schedule: look, but not each time. */
  changedElsewhere(): void {
    const { clock, recheckMs } = this.#params;
    const passedMs = clock.monotonic() - this.#lastLookAt;
    this.#rounds.wakeIn(Math.max(0, recheckMs / 5 - passedMs));
  }

  /** Makes happen what is due; answers how long to sleep. */
  async #look(): Promise<number> {
    const { provider, clock, logger, recheckMs } = this.#params;
    this.#lastLookAt = clock.monotonic();
    const { due, nowMs, nextAt } = await provider.dueSchedules(this.#due);
    // Those that are far behind come first, and would keep the others waiting until they have caught up.
    this.#due = due.length === this.#due ? Math.min(2 * this.#due, maxDue) : minDue;
    if (due.length > 0) {
      // Shared between them: ticks of many that catch up at once would hold up the process for seconds.
      const max = Math.ceil(maxTicks / due.length);
      const ticks = due.map((record) => makeTick(record, nowMs, max));
      const happened: boolean[] = [];
      for (let done = 0; done < ticks.length; done += maxTicks) {
        happened.push(...(await provider.tickSchedules(ticks.slice(done, done + maxTicks))));
      }
      for (const { name, error } of ticks) {
        if (error !== null) logger.error({ schedule: name, error }, 'a schedule cannot be read');
      }
      // Where none was ours, another worker is at it, or the store has trouble: no reason to hurry.
      return happened.includes(true) ? 0 : contendedPauseMs;
    }
    return nextAt === null ? recheckMs : Math.min(Math.max(0, nextAt - nowMs), recheckMs);
  }
}

/** The id of what a tick starts: the same in every process, so that no tick starts anything twice. */
function tickInstanceId(schedule: string, tickMs: number): string {
  return `${schedule}@${new Date(tickMs).toISOString()}`;
}

/** What a due schedule starts now, and when it fires next. One that cannot be read says so, and stands still. */
export function makeTick(record: ScheduleRecord, nowMs: number, max = maxTicks): ScheduleTick {
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
  const { name, version, payload, inputHash } = target;
  return {
    instanceId: tickInstanceId(schedule, at),
    incarnation: randomToken(),
    name,
    version,
    inputHash,
    start: encodeMessage({ kind: 'start', name, version, payload }),
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
  };
}
