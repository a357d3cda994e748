import { encodeMessage } from '../model/message.ts';
import { carriedSettings, startTimes } from '../model/start-settings.ts';
import type { StartAttempt } from '../model/values/start-attempt.ts';
import { encodeTrace, toTrace, type TraceContext } from '../model/trace-context.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { NewInstance } from '../providers/contract/instances.ts';
import { withTrace } from '../providers/contract/scheduled-work.ts';
import type { NewTask } from '../providers/contract/tasks.ts';
import type {
  ScheduleDefinition,
  ScheduledOrchestration,
  ScheduledTask,
} from './schedule-definition.ts';

/** Runs of a schedule, as the store creates them. */
export interface NewRuns {
  readonly instances: readonly NewInstance[];
  readonly tasks: readonly NewTask[];
}

/** Returns the instance id of a tick. It is the same in every process, which deduplicates the tick. */
export function tickRunId(schedule: string, tickMs: number): string {
  return `${schedule}@${new Date(tickMs).toISOString()}`;
}

/** Returns the instance id of a trigger. A repeated call with the same key finds the same run. */
export function triggerRunId(schedule: string, key: string): string {
  return `${schedule}@trigger-${key}`;
}

/**
 * Creates the runs of a schedule with the given ids. `trace`: the context of the caller. Absent: they link to that of the
 * schedule. `attempt`: of a caller that may repeat the call.
 */
export function newRuns(
  { target, trace: stored }: ScheduleDefinition,
  ids: readonly string[],
  trace: TraceContext | undefined = toTrace(stored),
  { startKey, isRepeat }: StartAttempt = {},
): NewRuns {
  const toRun = <Run extends NewInstance | NewTask>(run: Run): Run => ({
    ...run,
    ...(startKey !== undefined && { incarnation: startKey }),
    ...(isRepeat === true && { isRepeat: true }),
  });
  return target.kind === 'orchestration'
    ? { instances: ids.map((id) => toRun(toInstance(id, target, trace))), tasks: [] }
    : { instances: [], tasks: ids.map((id) => toRun(toTask(id, target, trace))) };
}

function toInstance(
  instanceId: string,
  target: ScheduledOrchestration,
  trace: TraceContext | undefined,
): NewInstance {
  const { name, version, payload, inputHash, tags } = target;
  const tagged = tags !== undefined && { tags };
  return {
    instanceId,
    incarnation: randomToken(),
    name,
    version,
    inputHash,
    start: encodeMessage({
      kind: 'start',
      name,
      version,
      payload,
      ...tagged,
      ...carriedSettings(target),
    }),
    ...tagged,
    ...startTimes(target),
    ...(target.lane !== undefined && { lane: target.lane }),
    ...(trace !== undefined && { headers: encodeTrace(trace) }),
  };
}

function toTask(
  instanceId: string,
  target: ScheduledTask,
  trace: TraceContext | undefined,
): NewTask {
  const { name, payload, inputHash, priority, expiresInMs, dedupeKey, dedupeMs } = target;
  const options = trace === undefined ? target.options : withTrace(target.options, trace);
  return {
    instanceId,
    incarnation: randomToken(),
    name,
    inputHash,
    payload,
    options,
    priority,
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(dedupeKey !== undefined && { dedupeKey }),
    ...(dedupeMs !== undefined && { dedupeMs }),
    ...(target.onFail && { onFail: { options } }),
    ...(target.tags !== undefined && { tags: target.tags }),
    ...(target.timeoutMs !== undefined && { timeoutMs: target.timeoutMs }),
    ...(target.lane !== undefined && { lane: target.lane }),
  };
}
