import type {
  ScheduledOrchestration,
  ScheduledTask,
  ScheduleDefinition,
} from '../../schedules/schedule-definition.ts';
import type {
  SchedulePlan,
  ScheduleRecord,
  ScheduledRuns,
  ScheduleTick,
} from '../contract/schedules.ts';
import { fields, json, keep, list, nullable, payload, text, type Treatment } from './treatment.ts';
import { newInstance, newTask } from './start-shapes.ts';

const targets: {
  readonly task: Treatment<ScheduledTask>;
  readonly orchestration: Treatment<ScheduledOrchestration>;
} = {
  task: fields<ScheduledTask>({
    kind: keep,
    name: keep,
    payload,
    // A short input is its own hash. Compared as text by `schedules.put`, so it is encoded and not hashed.
    inputHash: text,
    options: keep,
    priority: keep,
    expiresInMs: keep,
    timeoutMs: keep,
    dedupeKey: keep,
    dedupeMs: keep,
    lane: keep,
    onFail: keep,
    tags: keep,
  }),
  orchestration: fields<ScheduledOrchestration>({
    kind: keep,
    name: keep,
    version: keep,
    payload,
    inputHash: text,
    tags: keep,
    headers: keep,
    priority: keep,
    timeoutMs: keep,
    lane: keep,
  }),
};

const scheduleDefinition = fields<ScheduleDefinition>({
  timing: keep,
  startAt: keep,
  endAt: keep,
  catchUp: keep,
  jitterMs: keep,
  overlap: keep,
  bufferLimit: keep,
  trace: keep,
  target: (value, walk) =>
    Object.hasOwn(targets, value?.kind)
      ? (targets[value.kind] as Treatment<typeof value>)(value, walk)
      : value,
});

export const schedulePlan = fields<SchedulePlan>({
  definition: json(scheduleDefinition),
  nextAt: keep,
});

export const scheduleRecord = fields<ScheduleRecord>({
  name: keep,
  definition: json(scheduleDefinition),
  revision: keep,
  paused: keep,
  nextAt: keep,
  lastTickAt: keep,
  lastInstanceId: keep,
  lastError: nullable(text),
  runIds: keep,
  bufferedTicks: keep,
  skippedTicks: keep,
  createdAt: keep,
  updatedAt: keep,
  withheld: keep,
});

export const scheduleTick = fields<ScheduleTick>(
  {
    name: keep,
    revision: keep,
    nextAt: keep,
    lastTickAt: keep,
    instances: list(newInstance),
    tasks: list(newTask),
    error: nullable(text),
    bufferedTicks: keep,
    skipped: keep,
    whileRunning: keep,
  },
  ({ name }) => ({ schedule: name }),
);

export const scheduledRuns = fields<ScheduledRuns>({
  name: keep,
  ifRevision: keep,
  instances: list(newInstance),
  tasks: list(newTask),
  areTracked: keep,
  audit: keep,
});
