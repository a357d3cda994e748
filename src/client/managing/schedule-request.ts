import type { FlowRef, OrchestrationRef, TaskRef } from '../../model/definition.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { encodeTaskOptions } from '../../model/work-item-options.ts';
import type { CatchUp } from '../../schedules/ticks.ts';
import type {
  ScheduledOrchestration,
  ScheduledTask,
  ScheduleDefinition,
  StoredTiming,
} from '../../schedules/schedule-definition.ts';
import { encodeInput } from '../starting/encode-input.ts';
import { readWork } from './scheduled-work.ts';
import { readStartOptions, readTarget } from '../starting/start-request.ts';
import {
  readRunTaskOptions,
  readTask,
  readTime,
  type RunTaskOptions,
} from '../starting/task-request.ts';

/** When a schedule fires, and what it does about ticks that it missed. */
export interface ScheduleTiming {
  /** Five fields (minute hour day month weekday), six with seconds first, or `@hourly`, `@daily` and the like. */
  readonly cron?: string | undefined;
  /** The time zone of the cron expression. Default `'UTC'`. */
  readonly timeZone?: string | undefined;
  /** Instead of cron: once in so long, counted from when the schedule was first put. At least 1 s. */
  readonly every?: Duration | undefined;
  /** No tick is earlier. */
  readonly startAt?: Date | number | undefined;
  /** No tick is later. */
  readonly endAt?: Date | number | undefined;
  /** What to do about ticks that no worker was there for. Default `'one'`: a single run stands for all. */
  readonly catchUp?: CatchUp | undefined;
}

/** The input of what a schedule starts: it may be left out where `undefined` is one. */
export type ScheduledInput<Input> = undefined extends Input
  ? { readonly input?: NoInfer<Input> }
  : { readonly input: NoInfer<Input> };

/** A schedule that runs a task at each tick. */
export type TaskSchedule<Input = unknown> = ScheduleTiming & {
  readonly task: TaskRef<Input> | string;
  readonly options?:
    Pick<RunTaskOptions, 'priority' | 'expiresIn' | 'dedupeKey' | 'headers'> | undefined;
} & ScheduledInput<Input>;

/** A schedule that starts an orchestration at each tick. */
export type OrchestrationSchedule<Input = unknown> = ScheduleTiming & {
  readonly orchestration: OrchestrationRef<Input> | string;
  readonly options?: { readonly version?: string | undefined } | undefined;
} & ScheduledInput<Input>;

/** A schedule that starts a flow at each tick, as it was defined when the schedule was put. */
export type FlowSchedule<Input = unknown> = ScheduleTiming & {
  readonly flow: FlowRef<Input>;
} & ScheduledInput<Input>;

const fieldNames = [
  'cron',
  'timeZone',
  'every',
  'startAt',
  'endAt',
  'catchUp',
  'task',
  'orchestration',
  'flow',
  'input',
  'options',
] as const;

type Fields = Readonly<Partial<Record<(typeof fieldNames)[number], unknown>>>;

const minEveryMs = 1_000;

/**
 * Reads a schedule; whatever it starts is checked and encoded now, so that no tick fails for it. The anchor of an
 * interval is left for the store's clock to decide.
 */
export async function readSchedule(
  schedule: unknown,
  payloadLimitBytes: number,
): Promise<ScheduleDefinition> {
  const fields = readFields(schedule, 'The schedule', fieldNames);
  const startAt = readTime('startAt', fields.startAt);
  const endAt = readTime('endAt', fields.endAt);
  return {
    timing: readTiming(fields),
    ...(startAt !== undefined && { startAt }),
    ...(endAt !== undefined && { endAt }),
    catchUp: readCatchUp(fields.catchUp),
    target: await readScheduled(fields, payloadLimitBytes),
  };
}

function readTiming({ cron, timeZone, every }: Fields): StoredTiming {
  if ((cron === undefined) === (every === undefined)) {
    throw new PerdureError('INVALID_SCHEDULE', 'A schedule has either cron or every.');
  }
  if (cron === undefined) {
    if (timeZone !== undefined) {
      throw new PerdureError('INVALID_SCHEDULE', 'timeZone goes with cron, not with every.');
    }
    const everyMs = toMs(every as Duration, 'every');
    if (everyMs < minEveryMs) {
      throw new PerdureError('INVALID_SCHEDULE', `every is ${everyMs} ms; use 1 s or more.`);
    }
    return { kind: 'every', everyMs, anchorMs: 0 };
  }
  if (typeof cron !== 'string') throw invalid('cron', cron, 'a cron expression');
  const zone = timeZone ?? 'UTC';
  if (typeof zone !== 'string') throw invalid('timeZone', zone, "an IANA name, or 'UTC'");
  return { kind: 'cron', expression: cron.trim(), timeZone: zone };
}

function readCatchUp(catchUp: unknown = 'one'): CatchUp {
  if (catchUp === 'skip' || catchUp === 'one' || catchUp === 'all') return catchUp;
  throw invalid('catchUp', catchUp, "'skip', 'one' or 'all'");
}

function readScheduled(
  fields: Fields,
  limitBytes: number,
): Promise<ScheduledTask | ScheduledOrchestration> {
  const work = readWork(fields);
  return work.kind === 'task'
    ? readScheduledTask({ ...fields, ...work }, limitBytes)
    : readScheduledOrchestration({ ...fields, ...work }, limitBytes);
}

async function readScheduledTask(fields: Fields, limitBytes: number): Promise<ScheduledTask> {
  const target = readTask(fields.task);
  readFields(fields.options, 'options', ['priority', 'expiresIn', 'dedupeKey', 'headers'] as const);
  const { priority, expiresInMs, dedupeKey, headers } = readRunTaskOptions(fields.options, target);
  if (expiresInMs === 0) {
    throw invalid('options.expiresIn', 0, 'some time, or leave it out: its runs could never start');
  }
  const what = `Task ${JSON.stringify(target.name)}`;
  const payload = await encodeInput(fields.input, { what, schema: target.schema, limitBytes });
  return {
    kind: 'task',
    name: target.name,
    payload,
    inputHash: inputHash(payload),
    options: encodeTaskOptions(headers),
    priority,
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(dedupeKey !== undefined && { dedupeKey }),
    onFail: target.defaults?.onFail === true,
  };
}

async function readScheduledOrchestration(
  fields: Fields,
  limitBytes: number,
): Promise<ScheduledOrchestration> {
  const target = readTarget(fields.orchestration);
  readFields(fields.options, 'options', ['version'] as const);
  const { version } = readStartOptions(fields.options);
  const what = `Orchestration ${JSON.stringify(target.name)}`;
  const payload = await encodeInput(fields.input, { what, schema: target.schema, limitBytes });
  return {
    kind: 'orchestration',
    name: target.name,
    version: version ?? target.version,
    payload,
    inputHash: inputHash(payload),
  };
}
