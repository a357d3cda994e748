import type { StoredEvent } from '../../model/event.ts';
import type { InspectedInstance, InstanceDetails, PendingItem } from '../contract/inspection.ts';
import type {
  BlockedRecord,
  ExecutionRecord,
  InstanceRecord,
  ListInstancesResult,
  TaskRecord,
} from '../contract/instances.ts';
import type { Withheld } from '../contract/page-bytes.ts';
import type { CompletedOutput } from '../contract/provider.ts';
import type { StateRecord, StateView } from '../contract/state.ts';
import type { EventView, ViewedEvent } from '../contract/views.ts';
import { eventTreatment, storedEvent } from './stored-data.ts';
import {
  failureText,
  fields,
  keep,
  list,
  nullable,
  payload,
  text,
  type Treatment,
} from './treatment.ts';

// The treatments of what is read about instances.

export const historyEvent = eventTreatment<StoredEvent & Withheld>({ withheld: keep });

const blockedRecord: Treatment<BlockedRecord> = fields<BlockedRecord>({
  reason: text,
  at: keep,
  buildId: keep,
  details: keep,
});

const taskRecord = fields<TaskRecord>({
  priority: keep,
  input: payload,
  dedupeKey: keep,
  runAt: keep,
  expiresAt: keep,
  failures: keep,
  options: keep,
  onFail: keep,
  onFailFailure: failureText,
});

export const instanceRecord = fields<InstanceRecord>({
  instanceKey: keep,
  instanceId: keep,
  incarnation: keep,
  kind: keep,
  name: keep,
  version: keep,
  status: keep,
  executionId: keep,
  parentInstanceId: keep,
  output: payload,
  failure: failureText,
  customStatus: payload,
  customStatusVersion: keep,
  createdAt: keep,
  runAt: keep,
  startedAt: keep,
  endedAt: keep,
  cancel: keep,
  cleanupSkipped: keep,
  leaked: keep,
  terminated: keep,
  tags: keep,
  blocked: nullable(blockedRecord),
  forkedFrom: keep,
  paused: keep,
  task: nullable(taskRecord),
  withheld: keep,
});

export const listResult = fields<ListInstancesResult>({
  instances: list(instanceRecord),
  nextKey: keep,
  nextEndedAt: keep,
});

export const executionRecord = fields<ExecutionRecord>({
  executionId: keep,
  status: keep,
  version: keep,
  startedAt: keep,
  endedAt: keep,
  historyLength: keep,
  failure: failureText,
  reason: keep,
});

export const completedOutput = fields<CompletedOutput>({ incarnation: keep, output: payload });

export const stateView = fields<StateView>({
  incarnation: keep,
  status: keep,
  entries: list(fields<StateRecord>({ key: keep, payload: text, version: keep })),
  customStatus: fields<NonNullable<StateView['customStatus']>>({ payload, version: keep }),
});

const pendingItem = fields<PendingItem>({
  kind: keep,
  executionId: keep,
  operation: keep,
  name: keep,
  options: keep,
  failures: keep,
  maxAttempts: keep,
  lastFailure: failureText,
  heartbeat: payload,
  heartbeatAt: keep,
  dueAt: keep,
  held: keep,
  expired: keep,
  lane: keep,
  limitHold: keep,
  pointOfNoReturn: keep,
  cancel: keep,
});

export const instanceDetails = fields<InstanceDetails>({
  input: payload,
  pending: list(pendingItem),
});

export const inspectedInstance = fields<InspectedInstance>({
  record: instanceRecord,
  turn: keep,
  pending: list(pendingItem),
  events: list(storedEvent),
});

export const eventView = fields<EventView>({
  incarnation: keep,
  status: keep,
  currentExecutionId: keep,
  executionId: keep,
  exists: keep,
  events: list(eventTreatment<ViewedEvent>({ eventId: keep, payloadBytes: keep })),
  next: keep,
});
