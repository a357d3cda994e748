import type { InstanceInfo } from '../client/reading/instance-info.ts';
import type {
  AttentionFinding,
  BlockedFinding,
  FailedFinding,
  FailureGroup,
  LateSchedulesFinding,
  LeakedFinding,
  OldQueuesFinding,
  PausedDefinitionsFinding,
  StaleWorkersFinding,
  UnclaimedFinding,
} from '../client/explaining/attention.ts';
import type { DefinitionQueueInfo } from '../client/reading/queues.ts';
import type { QueueDepth } from '../providers/contract/management.ts';
import {
  fields,
  flag,
  list,
  nullable,
  number,
  optional,
  text,
  variants,
  type Check,
} from './response-checks.ts';

/** When, why and by whom something was paused. */
const pause: Check = fields<NonNullable<InstanceInfo['paused']>>({
  at: number,
  reason: optional(text),
  actor: optional(text),
});

const depthFields = {
  ready: number,
  delayed: number,
  claimed: number,
  paused: number,
  oldestReadyAt: nullable(number),
};
/** The depth of a queue. */
export const depth: Check = fields<QueueDepth>(depthFields);

/** The queue of one definition. */
export const definitionQueue: Check = fields<DefinitionQueueInfo>({
  kind: text,
  name: text,
  ...depthFields,
  capped: optional(flag),
  workers: number,
  pause: optional(pause),
});

const counted = { kind: text, count: number, capped: optional(flag), oldestAt: optional(number) };
/** A finding of `attention`. A newer server may have more kinds. */
export const finding: Check = variants<AttentionFinding['kind']>('kind', {
  blocked: fields<BlockedFinding>({
    ...counted,
    instances: list(
      fields<BlockedFinding['instances'][number]>({ id: text, name: text, at: number, text }),
    ),
  }),
  failed: fields<FailedFinding>({
    ...counted,
    groups: list(
      fields<FailureGroup>({
        code: optional(text),
        error: text,
        name: text,
        count: number,
        id: text,
        message: text,
        at: number,
      }),
    ),
  }),
  unclaimed: fields<UnclaimedFinding>({
    ...counted,
    work: list(
      fields<UnclaimedFinding['work'][number]>({
        kind: text,
        name: text,
        version: optional(text),
        dueForMs: number,
        waiting: number,
      }),
    ),
  }),
  leaked: fields<LeakedFinding>({
    ...counted,
    workers: list(
      fields<LeakedFinding['workers'][number]>({ id: text, name: text, leaked: number }),
    ),
  }),
  staleWorkers: fields<StaleWorkersFinding>({
    ...counted,
    workers: list(
      fields<StaleWorkersFinding['workers'][number]>({
        id: text,
        name: text,
        host: text,
        lastSeenAt: number,
        diedAt: optional(number),
      }),
    ),
  }),
  lateSchedules: fields<LateSchedulesFinding>({
    ...counted,
    schedules: list(
      fields<LateSchedulesFinding['schedules'][number]>({
        name: text,
        reason: text,
        since: number,
        lastInstanceId: optional(text),
        skippedTicks: optional(number),
      }),
    ),
  }),
  oldQueues: fields<OldQueuesFinding>({ ...counted, queues: list(definitionQueue) }),
  pausedDefinitions: fields<PausedDefinitionsFinding>({
    ...counted,
    definitions: list(
      fields<PausedDefinitionsFinding['definitions'][number]>({
        kind: text,
        name: text,
        at: number,
        reason: optional(text),
        actor: optional(text),
      }),
    ),
  }),
});
