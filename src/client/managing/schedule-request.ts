import { refuseScheduledConflict } from '../../model/admission-options.ts';
import type { FlowRef, OrchestrationRef, TaskRef } from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { laneOptionNames } from '../../model/limit-options.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import type { Payload } from '../../model/values/payload.ts';
import { maxBufferLimit, type Overlap } from '../../schedules/overlap.ts';
import type { CatchUp } from '../../schedules/ticks.ts';
import type { StoredTiming } from '../../schedules/schedule-definition.ts';
import {
  encodeInput,
  readStartOptions,
  readTarget,
  type StartOptions,
} from '../starting/start-request.ts';
import {
  readRunTaskOptions,
  readTask,
  type RunTaskOptions,
  type TaskSettings,
} from '../starting/task-request.ts';
import { readTime, type StartSettings } from '../../model/start-settings.ts';

/** When a schedule fires, and how it handles missed ticks. */
export interface ScheduleTiming {
  /** Five fields (minute hour day month weekday), six with seconds first, or a nickname such as `@daily`. */
  readonly cron?: string | undefined;
  /** The time zone of the cron expression. Default `'UTC'`. */
  readonly timeZone?: string | undefined;
  /** An interval instead of cron, counted from the first `put`. At least 1 s. */
  readonly every?: Duration | undefined;
  /** No tick fires before this time. */
  readonly startAt?: Date | number | undefined;
  /** No tick fires after this time. */
  readonly endAt?: Date | number | undefined;
  /** How to handle missed ticks. Default `'one'`: a single run for all of them. */
  readonly catchUp?: CatchUp | undefined;
  /**
   * Delays each tick by a fixed amount, derived from the schedule and the tick: less than this and than the time to the
   * next tick. Default: no delay.
   */
  readonly jitter?: Duration | undefined;
  /** What happens at a tick while an earlier run has not ended. Default `'allow'`: the runs overlap. */
  readonly overlap?: Overlap | undefined;
  /** Maximum ticks that wait with `overlap: 'buffer'`, 1 to 100. Default 1. */
  readonly bufferLimit?: number | undefined;
}

/** The input of a scheduled run. It is optional if it may be `undefined`. */
export type ScheduledInput<Input> = undefined extends Input
  ? { readonly input?: NoInfer<Input> }
  : { readonly input: NoInfer<Input> };

/** A schedule that runs a task at each tick. */
export type TaskSchedule<Input = unknown> = ScheduleTiming & {
  readonly task: TaskRef<Input> | string;
  readonly options?:
    | Pick<
        RunTaskOptions,
        | 'priority'
        | 'expiresIn'
        | 'dedupeKey'
        | 'dedupe'
        | 'headers'
        | 'tags'
        | 'timeout'
        | 'key'
        | 'weight'
      >
    | undefined;
} & ScheduledInput<Input>;

/** A schedule that starts an orchestration at each tick. */
export type OrchestrationSchedule<Input = unknown> = ScheduleTiming & {
  readonly orchestration: OrchestrationRef<Input> | string;
  readonly options?:
    | Pick<StartOptions, 'version' | 'priority' | 'headers' | 'tags' | 'timeout' | 'key' | 'weight'>
    | undefined;
} & ScheduledInput<Input>;

/** A schedule that starts a flow at each tick, with its definition at the time of `put`. */
export type FlowSchedule<Input = unknown> = ScheduleTiming & {
  readonly flow: FlowRef<Input>;
  readonly options?:
    | Pick<StartOptions, 'priority' | 'headers' | 'tags' | 'timeout' | 'key' | 'weight'>
    | undefined;
} & ScheduledInput<Input>;

const fieldNames = [
  'cron',
  'timeZone',
  'every',
  'startAt',
  'endAt',
  'catchUp',
  'jitter',
  'overlap',
  'bufferLimit',
  'task',
  'orchestration',
  'flow',
  'input',
  'options',
] as const;

type Fields = Readonly<Partial<Record<(typeof fieldNames)[number], unknown>>>;

/** The settings of a start that a tick may have: it starts at its own time. */
const scheduledSettings = ['priority', 'headers', 'tags', 'timeout', ...laneOptionNames] as const;
const minEveryMs = 1_000;
const optionsOf = 'the options of schedules.put()';

/** The work that each tick starts, checked and encoded. */
export type ScheduledWork =
  | ({ readonly kind: 'task'; readonly name: string; readonly payload: Payload | null } & Omit<
      TaskSettings,
      'delayMs' | 'runAt' | 'expiresAt'
    >)
  | ({
      readonly kind: 'orchestration';
      readonly name: string;
      readonly version: string | null;
      readonly payload: Payload | null;
    } & Omit<StartSettings, 'delayMs' | 'runAt'>);

/** A schedule, checked and encoded. Cron expressions are parsed where the store is. */
export interface ScheduleRequest {
  /** The anchor of an interval is 0: the store sets it. */
  readonly timing: StoredTiming;
  readonly startAt?: number;
  readonly endAt?: number;
  readonly catchUp: CatchUp;
  readonly jitterMs?: number;
  readonly overlap?: Overlap;
  readonly bufferLimit?: number;
  readonly work: ScheduledWork;
}

/** Checks a schedule and encodes its input now, so that no tick fails because of it. */
export async function readSchedule(
  schedule: unknown,
  payloadLimitBytes: number,
): Promise<ScheduleRequest> {
  const fields = readFields(schedule, 'schedules.put()', fieldNames);
  const startAt = readTime('startAt', fields.startAt);
  const endAt = readTime('endAt', fields.endAt);
  return {
    timing: readTiming(fields),
    ...(startAt !== undefined && { startAt }),
    ...(endAt !== undefined && { endAt }),
    catchUp: readCatchUp(fields.catchUp),
    ...readJitter(fields.jitter),
    ...readOverlap(fields),
    work: await readWork(fields, payloadLimitBytes),
  };
}

function readTiming({ cron, timeZone, every }: Fields): StoredTiming {
  if ((cron === undefined) === (every === undefined)) {
    throw new PerdureError(
      'INVALID_SCHEDULE',
      'A schedule needs either `cron` or `every`, not both.',
    );
  }
  if (cron === undefined) {
    if (timeZone !== undefined) {
      throw new PerdureError(
        'INVALID_SCHEDULE',
        '`timeZone` is only valid with `cron`, not with `every`.',
      );
    }
    const everyMs = toMs(every as Duration, 'every');
    if (everyMs < minEveryMs) {
      throw new PerdureError(
        'INVALID_SCHEDULE',
        `Invalid \`every\` of ${everyMs} ms: must be at least 1 s.`,
      );
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

/** Defaults are left out, so that the definitions of existing schedules stay the same. */
function readJitter(jitter: unknown): Pick<ScheduleRequest, 'jitterMs'> {
  const jitterMs = jitter === undefined ? 0 : Math.floor(toMs(jitter as Duration, 'jitter'));
  return jitterMs > 0 ? { jitterMs } : {};
}

function readOverlap({
  overlap = 'allow',
  bufferLimit,
}: Fields): Pick<ScheduleRequest, 'overlap' | 'bufferLimit'> {
  if (bufferLimit !== undefined && overlap !== 'buffer') {
    throw new PerdureError(
      'INVALID_SCHEDULE',
      "`bufferLimit` is only valid with `overlap: 'buffer'`.",
    );
  }
  const count = (bufferLimit ?? 1) as number;
  if (!Number.isSafeInteger(count) || count < 1 || count > maxBufferLimit) {
    throw invalid('bufferLimit', bufferLimit, `a whole number from 1 to ${maxBufferLimit}`);
  }
  switch (overlap) {
    case 'allow':
      return {};
    case 'skip':
    case 'cancelRunning':
      return { overlap };
    case 'buffer':
      return { overlap, ...(count > 1 && { bufferLimit: count }) };
    default:
      throw invalid('overlap', overlap, "'allow', 'skip', 'buffer' or 'cancelRunning'");
  }
}

/** A flow is an orchestration whose input holds its graph. */
function readWork(fields: Fields, limitBytes: number): Promise<ScheduledWork> {
  const { task, orchestration, flow, input, options } = fields;
  if ([task, orchestration, flow].filter((one) => one !== undefined).length !== 1) {
    throw new PerdureError(
      'INVALID_SCHEDULE',
      'A schedule needs exactly one of `task`, `orchestration` and `flow`.',
    );
  }
  refuseScheduledConflict(options);
  if (task !== undefined) return readTaskWork(fields, limitBytes);
  if (flow === undefined) return readOrchestrationWork(fields, limitBytes);
  const given: Partial<FlowRef> | null = flow;
  if (typeof given !== 'object' || given?.kind !== 'flow') {
    throw invalid('flow', flow, 'a flow: its graph is needed, so a name is not enough');
  }
  const { priority } = readFields(options, optionsOf, scheduledSettings);
  const prioritized = priority !== undefined && { priority };
  const flowInput = { flow: given.graph, input, ...prioritized };
  const started = { orchestration: given.orchestration, input: flowInput, options };
  return readOrchestrationWork(started, limitBytes);
}

async function readTaskWork(fields: Fields, limitBytes: number): Promise<ScheduledWork> {
  const target = readTask(fields.task);
  readFields(fields.options, optionsOf, [
    'priority',
    'expiresIn',
    'dedupeKey',
    'dedupe',
    ...laneOptionNames,
    'headers',
    'tags',
    'timeout',
  ] as const);
  const { id: _, ...chosen } = readRunTaskOptions(fields.options, target);
  if (chosen.expiresInMs === 0) {
    throw invalid(
      'options.expiresIn',
      0,
      'more than 0, or leave it out: its runs could never start',
    );
  }
  const { name, schema } = target;
  const payload = await encodeInput(fields.input, { kind: 'Task', name, schema, limitBytes });
  return { kind: 'task', name, payload, ...chosen };
}

async function readOrchestrationWork(fields: Fields, limitBytes: number): Promise<ScheduledWork> {
  const { name, schema, ...definition } = readTarget(fields.orchestration);
  readFields(fields.options, optionsOf, ['version', ...scheduledSettings] as const);
  const { version = definition.version, settings } = readStartOptions(fields.options);
  const target = { kind: 'Orchestration', name, schema, limitBytes } as const;
  const payload = await encodeInput(fields.input, target);
  return { kind: 'orchestration', name, version, payload, ...settings };
}
