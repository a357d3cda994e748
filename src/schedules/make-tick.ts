import { encodeMessage } from '../model/message.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { NewInstance } from '../providers/contract/instances.ts';
import type { ScheduleRecord, ScheduleTick } from '../providers/contract/schedules.ts';
import type { NewTask } from '../providers/contract/tasks.ts';
import { dueTicks, maxTicks } from './due-ticks.ts';
import {
  decodeSchedule,
  timingOf,
  type ScheduledOrchestration,
  type ScheduledTask,
} from './schedule-definition.ts';

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
