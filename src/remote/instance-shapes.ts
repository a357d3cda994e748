/** The parts of responses that describe an instance. */
import type { BlockedInfo, InstanceInfo, TaskInfo } from '../client/reading/instance-info.ts';
import type { FailureSummary, LimitWait, PendingWork } from '../client/reading/inspect-instance.ts';
import type { ForkOrigin } from '../management/rerun.ts';
import type { CancelRequest } from '../model/cancel.ts';
import type { EventSummary } from '../model/failures/blocked.ts';
import type { Failure } from '../model/failures/failure.ts';
import type { RunningItem } from '../providers/contract/cancellation.ts';
import type { InstanceSize } from '../providers/contract/management.ts';
import type { WireError } from '../server/routes/response-schemas.ts';
import {
  fields,
  flag,
  list,
  nullable,
  number,
  optional,
  record,
  text,
  type Check,
} from './response-checks.ts';

const failureAlone: Check = fields<Failure>({
  name: text,
  message: text,
  stack: optional(text),
  code: optional(text),
  nonRetryable: optional(flag),
  attempts: optional(number),
});

// Other code recurses into causes, so an endless chain must be rejected here.
const maxCauses = 100;

const failure: Check = (value, path) => {
  let cause: unknown = value;
  for (let depth = 0; depth <= maxCauses; depth += 1) {
    const wrong = failureAlone(cause, path);
    if (wrong !== undefined) return wrong;
    cause = (cause as Failure).cause;
    if (cause === undefined) return undefined;
  }
  return `${path}.cause`;
};

/** An error in a response. */
export const wireError: Check = fields<WireError>({
  code: text,
  message: text,
  reason: optional(text),
  trigger: optional(text),
  subject: optional(text),
  failure: optional(failure),
  eventId: optional(number),
  operation: optional(text),
  outcomeUnknown: optional(flag),
  retryable: optional(flag),
});

export const cancelFields = {
  reason: text,
  actor: nullable(text),
  requestedAt: number,
  trigger: optional(text),
};
const cancel: Check = fields<CancelRequest>(cancelFields);

const running: Check = fields<RunningItem>({
  operation: number,
  name: text,
  attempt: number,
  lockedUntil: number,
  worker: nullable(text),
  claimedAt: number,
  cancel: nullable(fields<NonNullable<RunningItem['cancel']>>({ reason: text, trigger: text })),
});

export const expiredClaim: Check = fields<NonNullable<PendingWork['expired']>>({
  worker: optional(text),
  at: number,
});
export const failureSummary: Check = fields<FailureSummary>({
  name: text,
  message: text,
  code: optional(text),
});

export const pendingFields = {
  kind: text,
  operation: number,
  name: text,
  state: text,
  attempt: number,
  maxAttempts: optional(number),
  lastFailure: optional(failureSummary),
  nextTryAt: optional(number),
  heartbeatAt: optional(number),
  expired: optional(expiredClaim),
  pointOfNoReturn: optional(flag),
  worker: optional(text),
  claimedAt: optional(number),
  lockedUntil: optional(number),
  cancel: optional(fields<NonNullable<PendingWork['cancel']>>({ reason: text, trigger: text })),
  key: optional(text),
  limit: optional(
    fields<LimitWait>({
      by: text,
      max: number,
      running: number,
      nextAt: optional(number),
      ahead: number,
    }),
  ),
};
export const pending: Check = fields<PendingWork>(pendingFields);

const task: Check = fields<TaskInfo>({
  priority: number,
  dedupeKey: optional(text),
  runAt: optional(number),
  expiresAt: optional(number),
  failures: number,
  headers: record(text),
  onFail: optional(text),
  onFailFailure: optional(failure),
});

const eventSummary: Check = fields<EventSummary>({
  kind: text,
  name: optional(text),
  operation: optional(number),
  text,
});

export const blockedFields = {
  reason: text,
  at: number,
  buildId: text,
  code: text,
  worker: optional(text),
  eventId: optional(number),
  recorded: optional(eventSummary),
  issued: optional(eventSummary),
  location: optional(text),
};
const blocked: Check = fields<BlockedInfo>(blockedFields);

export const instanceFields = {
  id: text,
  kind: text,
  name: text,
  version: optional(text),
  status: text,
  executionId: number,
  parentId: optional(text),
  failure: optional(failure),
  customStatusVersion: optional(number),
  createdAt: number,
  runAt: optional(number),
  startedAt: optional(number),
  endedAt: optional(number),
  cancel: optional(cancel),
  cleanupSkipped: optional(flag),
  leaked: optional(number),
  pending: optional(list(pending)),
  running: optional(list(running)),
  terminated: optional(
    fields<{ reason: string; actor: string | null }>({
      reason: text,
      actor: nullable(text),
    }),
  ),
  tags: optional(record(text)),
  blocked: optional(blocked),
  forkedFrom: optional(fields<ForkOrigin>({ id: text, executionId: number, eventId: number })),
  paused: optional(
    fields<NonNullable<InstanceInfo['paused']>>({
      at: number,
      reason: optional(text),
      actor: optional(text),
    }),
  ),
  task: optional(task),
  undecodable: optional(list(text)),
};
export const instance: Check = fields<InstanceInfo>(instanceFields);

export const size: Check = fields<InstanceSize>({
  executions: number,
  events: number,
  children: number,
  messages: number,
  activities: number,
});
