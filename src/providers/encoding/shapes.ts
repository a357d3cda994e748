import type { EncodeContext } from '../../model/encoding/codec.ts';
import type { StoredEvent } from '../../model/event.ts';
import type { StoredMessage } from '../../model/message.ts';
import type { StateValue } from '../../model/values/state.ts';
import type { InspectedInstance, InstanceDetails, PendingItem } from '../contract/inspection.ts';
import type {
  BlockedRecord,
  ExecutionRecord,
  InstanceRecord,
  ListInstancesResult,
  NewInstance,
  NewMessage,
  TaskRecord,
} from '../contract/instances.ts';
import type {
  Blocked,
  FetchedMessage,
  HeldMessages,
  InstanceHold,
  OrchestrationAbandon,
  OrchestrationAck,
  OrchestrationItem,
} from '../contract/orchestration-queue.ts';
import type { Withheld } from '../contract/page-bytes.ts';
import type { CompletedOutput } from '../contract/provider.ts';
import type { InstanceFork, InstanceRetry, RerunStart } from '../contract/reruns.ts';
import type {
  AbandonedResult,
  NewJob,
  NewSession,
  SessionRecord,
  ShutdownResult,
} from '../contract/sessions.ts';
import type {
  AppendChunks,
  ChunkPage,
  RecordedChunk,
  StreamChunk,
  StreamPage,
} from '../contract/streams.ts';
import type { StateRecord, StateView } from '../contract/state.ts';
import type { NewTask } from '../contract/tasks.ts';
import type { TransactionAck } from '../contract/transactional.ts';
import type {
  EmittedChunks,
  NewChild,
  NewWorkItem,
  OutgoingMessage,
  StateChange,
  Turn,
  TurnOutcome,
} from '../contract/turn.ts';
import type {
  AwakeableAnswer,
  NewUpdate,
  RequestUpdateResult,
  UpdateReply,
  UpdateState,
} from '../contract/updates.ts';
import type { EventView, ViewedEvent } from '../contract/views.ts';
import type {
  TurnAck,
  WorkItem,
  WorkItemAbandon,
  WorkItemAck,
  WorkItemRenewal,
  WorkItemRetry,
  WorkOutcome,
} from '../contract/work-queue.ts';
import { eventTreatment, messageTreatment } from './stored-data.ts';
import {
  failureText,
  fields,
  hashed,
  keep,
  list,
  nullable,
  optional,
  payload,
  record,
  text,
  type Fields,
  type Treatment,
  variants,
  type Variants,
} from './treatment.ts';

// One treatment for each type of the provider contract. `fields` lists every field, so a new field does not compile without
// a decision.

const ofInstance = ({
  instanceId,
}: {
  readonly instanceId?: string | undefined;
}): EncodeContext | undefined => (instanceId === undefined ? undefined : { instanceId });

/** A failure as JSON text that is always given. */
const givenFailureText = failureText as Treatment<string>;

export const storedEvent = eventTreatment<StoredEvent>({});
export const historyEvent = eventTreatment<StoredEvent & Withheld>({ withheld: keep });
const message = messageTreatment<StoredMessage>({});

/** Words of Perdure about the code, which may quote inputs. The reason of a codec's own failure stays readable. */
const blocked: Treatment<Blocked> = (value, walk) =>
  isOfCodec(value.details)
    ? value
    : fields<Blocked>({ reason: text, buildId: keep, details: keep })(value, walk);

const blockedRecord: Treatment<BlockedRecord> = fields<BlockedRecord>({
  reason: text,
  at: keep,
  buildId: keep,
  details: keep,
});

function isOfCodec(details: string | undefined): boolean {
  return details !== undefined && details.includes('"code":"CODEC_FAILED"');
}

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

const newWorkItem = fields<NewWorkItem>({
  operation: keep,
  name: keep,
  payload,
  options: keep,
  cancellation: keep,
  shielded: keep,
  priority: keep,
  lane: keep,
  claimMs: keep,
  claimedBy: keep,
});

/** An event that is enqueued with a start. */
const startEvent: Fields<NonNullable<NewInstance['event']>> = {
  message,
  maxPending: keep,
  key: keep,
  bulk: keep,
};

const newChild = fields<NewChild>(
  {
    instanceId: keep,
    incarnation: keep,
    name: keep,
    version: keep,
    inputHash: hashed,
    start: message,
    parentOperation: keep,
    cancellation: keep,
    shielded: keep,
    // Messages of the platform, without payloads: see `toChild`.
    ifStarted: message,
    ifTaken: nullable(message),
    ifRejected: fields<NonNullable<NewChild['ifRejected']>>({ over: message, full: message }),
    event: fields<NonNullable<NewInstance['event']>>(startEvent),
    onConflict: keep,
    tags: keep,
    lane: keep,
    headers: keep,
    timeoutMs: keep,
    delayMs: keep,
    runAt: keep,
  },
  ofInstance,
);

const outgoing = fields<OutgoingMessage>({ instanceId: keep, message }, ofInstance);

const turnOutcome = variants<TurnOutcome, 'status'>('status', {
  running: { status: keep },
  completed: { status: keep, payload },
  failed: { status: keep, failure: givenFailureText },
  canceled: { status: keep, reason: keep, cleanupSkipped: keep },
  continuedAsNew: { status: keep, version: keep, start: message },
});

const updateReply = fields<UpdateReply>({
  key: keep,
  outcome: keep,
  payload,
  failure: failureText,
});

const turn = fields<Turn>({
  turnId: keep,
  version: keep,
  firstEventId: keep,
  events: list(storedEvent),
  workItems: list(newWorkItem),
  timers: keep,
  children: list(newChild),
  messages: list(outgoing),
  activityCancels: keep,
  childCancels: keep,
  cleanupMs: keep,
  timerWithdrawals: keep,
  customStatus: payload,
  tags: keep,
  state: list(fields<StateChange>({ key: keep, payload })),
  emitted: fields<EmittedChunks>({ chunks: list(text), source: keep, maxBytes: keep }),
  bufferedEvents: keep,
  updateReplies: list(updateReply),
  awakeables: keep,
  outcome: turnOutcome,
});

const newInstanceFields: Fields<NewInstance> = {
  instanceId: keep,
  incarnation: keep,
  name: keep,
  version: keep,
  inputHash: hashed,
  start: message,
  tags: keep,
  lane: keep,
  headers: keep,
  timeoutMs: keep,
  delayMs: keep,
  runAt: keep,
  dedupeKey: keep,
  dedupeMs: keep,
  debounce: keep,
  event: fields<NonNullable<NewInstance['event']>>(startEvent),
  onConflict: keep,
  firstTurn: turn,
};

const instanceWithId = fields<NewInstance>(newInstanceFields, ofInstance);
/** The event may go to another instance, which holds the dedupe key: it belongs to none. */
const instanceWithKey = fields<NewInstance>(
  {
    ...newInstanceFields,
    event: fields<NonNullable<NewInstance['event']>>(startEvent, () => ({})),
  },
  ofInstance,
);

/** A debounced start may become the start of another instance: its payloads belong to none. */
const debouncedInstance = fields<NewInstance>(newInstanceFields, () => ({}));

export const newInstance: Treatment<NewInstance> = (value, walk) => {
  if (value.debounce !== undefined) return debouncedInstance(value, walk);
  return (value.dedupeKey === undefined ? instanceWithId : instanceWithKey)(value, walk);
};

export const newMessage = fields<NewMessage>(
  { instanceId: keep, message, maxPending: keep, key: keep, bulk: keep },
  ofInstance,
);

const fetchedMessage = messageTreatment<FetchedMessage>({ messageKey: keep });

export const orchestrationItem = fields<OrchestrationItem>({
  instanceKey: keep,
  instanceId: keep,
  incarnation: keep,
  executionId: keep,
  name: keep,
  version: keep,
  parent: keep,
  lockToken: keep,
  claims: keep,
  lastTurn: keep,
  historyLength: keep,
  nowMs: keep,
  messages: list(fetchedMessage),
});

export const newUpdate = fields<NewUpdate>(
  { instanceId: keep, key: keep, name: keep, inputHash: hashed, message },
  ofInstance,
);

const updateStates: Variants<UpdateState, 'kind'> = {
  pending: { kind: keep },
  replied: { kind: keep, outcome: keep, payload, failure: failureText },
  interrupted: { kind: keep, status: keep },
  missing: { kind: keep },
};

export const updateState = variants<UpdateState, 'kind'>('kind', updateStates);

export const requestUpdateResult = variants<RequestUpdateResult, 'kind'>('kind', {
  ...updateStates,
  over: { kind: keep, status: keep },
  reused: { kind: keep },
  full: { kind: keep },
});

export const awakeableAnswer = fields<AwakeableAnswer>({
  tokenHash: keep,
  answerKey: keep,
  message: message as unknown as Treatment<AwakeableAnswer['message']>,
});

export const heldMessages = fields<HeldMessages>({
  messages: list(fetchedMessage),
  nextInMs: keep,
  nowMs: keep,
});

export const orchestrationAck = fields<OrchestrationAck>(
  { instanceId: keep, lockToken: keep, messageKeys: keep, turn, keep },
  ofInstance,
);

export const orchestrationAbandon = fields<OrchestrationAbandon>(
  {
    instanceId: keep,
    lockToken: keep,
    delayMs: keep,
    giveBackClaim: keep,
    evenIfExpired: keep,
    blocked,
  },
  ofInstance,
);

export const instanceHold = fields<InstanceHold>(
  {
    instanceId: keep,
    instanceKey: keep,
    incarnation: keep,
    executionId: keep,
    lastTurn: keep,
    delayMs: keep,
    blocked,
  },
  ofInstance,
);

export const workItem = fields<WorkItem>({
  kind: keep,
  lockToken: keep,
  instanceKey: keep,
  instanceId: keep,
  incarnation: keep,
  executionId: keep,
  operation: keep,
  name: keep,
  orchestration: keep,
  payload,
  options: keep,
  claims: keep,
  failures: keep,
  heartbeat: payload,
  cancel: keep,
  nowMs: keep,
  dueAt: keep,
  limited: keep,
  headers: keep,
  trace: keep,
  failure: givenFailureText,
});

const workOutcome = variants<WorkOutcome, 'kind'>('kind', {
  completed: { kind: keep, payload, ran: keep },
  failed: { kind: keep, failure: givenFailureText, ran: keep, onFail: keep },
  skipped: { kind: keep },
  canceled: { kind: keep, leaked: keep, ran: keep },
});

export const workItemAck = fields<WorkItemAck>(
  { instanceId: keep, lockToken: keep, outcome: workOutcome },
  ofInstance,
);

export const turnAck = fields<TurnAck>(
  {
    instanceId: keep,
    instanceKey: keep,
    incarnation: keep,
    executionId: keep,
    lastTurn: keep,
    lockTokens: keep,
    timers: keep,
    asOfMs: keep,
    turn,
  },
  ofInstance,
);

type WorkItemsAck = Extract<TransactionAck, { readonly kind: 'workItems' }>;
type MessageAck = Extract<TransactionAck, { readonly kind: 'message' }>;

export const transactionAck = variants<TransactionAck, 'kind'>('kind', {
  workItem: { kind: keep, ack: workItemAck, unlessCanceled: keep },
  workItems: {
    kind: keep,
    acks: list(fields<WorkItemsAck['acks'][number]>({ ack: workItemAck, unlessCanceled: keep })),
  },
  turn: { kind: keep, ack: turnAck },
  orchestration: { kind: keep, ack: orchestrationAck },
  message: { kind: keep, ack: fields<MessageAck['ack']>({ lockToken: keep, message }) },
});

export const workItemAbandon = fields<WorkItemAbandon>({
  lockToken: keep,
  delayMs: keep,
  giveBackClaim: keep,
  unstarted: keep,
  explanation: givenFailureText,
});

export const workItemRetry = fields<WorkItemRetry>(
  {
    instanceId: keep,
    lockToken: keep,
    delayMs: keep,
    failure: givenFailureText,
    maxAttempts: keep,
  },
  ofInstance,
);

export const workItemRenewal = fields<WorkItemRenewal>(
  { instanceId: keep, lockToken: keep, heartbeat: payload },
  ofInstance,
);

const newTaskFields: Fields<NewTask> = {
  instanceId: keep,
  incarnation: keep,
  name: keep,
  inputHash: hashed,
  payload,
  options: keep,
  priority: keep,
  lane: keep,
  runAt: keep,
  delayMs: keep,
  expiresAt: keep,
  expiresInMs: keep,
  timeoutMs: keep,
  dedupeKey: keep,
  dedupeMs: keep,
  debounce: keep,
  onFail: keep,
  onConflict: keep,
  tags: keep,
};

const taskWithId = fields<NewTask>(newTaskFields, ofInstance);
/** A debounced run may become another one: its payload belongs to none. */
const debouncedTask = fields<NewTask>(newTaskFields, () => ({}));

export const newTask: Treatment<NewTask> = (value, walk) =>
  (value.debounce === undefined ? taskWithId : debouncedTask)(value, walk);

export const newJob = variants<NewJob, 'kind'>('kind', {
  orchestration: { sessionId: keep, disposable: keep, kind: keep, instance: newInstance },
  task: { sessionId: keep, disposable: keep, kind: keep, task: newTask },
});

const ofSession = ({ sessionId }: { readonly sessionId: string }): EncodeContext => ({ sessionId });

export const newSession = fields<NewSession>(
  { sessionId: keep, label: keep, owner: keep, leaseMs: keep, variables: record(text) },
  ofSession,
);

/** The changes of session variables. */
export const variableChanges = fields<{
  readonly sessionId: string;
  readonly set: Readonly<Record<string, string | null>>;
}>({ sessionId: keep, set: record(nullable(text)) }, ofSession);

export const sessionRecord = fields<SessionRecord>({
  sessionKey: keep,
  sessionId: keep,
  label: keep,
  owner: keep,
  state: keep,
  leaseMs: keep,
  createdAt: keep,
  expiresAt: keep,
  endedAt: keep,
  end: keep,
  variables: record(text),
  openJobs: keep,
  withheld: keep,
});

export const shutdownResult = fields<ShutdownResult>({
  kind: keep,
  session: optional(sessionRecord) as Treatment<SessionRecord>,
});

export const abandonedResult = fields<AbandonedResult>({
  key: keep,
  kind: keep,
  name: keep,
  output: payload,
  attempt: keep,
});

export const appendChunks = fields<AppendChunks>(
  {
    instanceId: keep,
    lockToken: keep,
    claim: keep,
    chunks: list(text),
    maxChunks: keep,
    maxBytes: keep,
    record: keep,
  },
  ofInstance,
);

export const stateView = fields<StateView>({
  incarnation: keep,
  status: keep,
  entries: list(fields<StateRecord>({ key: keep, payload: text, version: keep })),
  customStatus: fields<NonNullable<StateView['customStatus']>>({ payload, version: keep }),
});

export const chunkPage = fields<ChunkPage>({
  chunks: list(fields<StreamChunk>({ seq: keep, payload: text })),
  over: keep,
});

export const streamPage = fields<StreamPage>({
  incarnation: keep,
  chunks: list(fields<RecordedChunk>({ seq: keep, payload: text, at: keep, source: keep })),
  lastSeq: keep,
  hasEnded: keep,
  isJob: keep,
});

const rerunStart = fields<RerunStart>({
  kept: fields<NonNullable<RerunStart['kept']>>({ first: storedEvent, length: keep }),
  messages: list(message),
  turn,
  state: list(fields<StateValue>({ key: keep, payload: text })),
  cancel: keep,
});

export const instanceRetry = fields<InstanceRetry>(
  {
    source: keep,
    version: keep,
    start: rerunStart,
    taskInput: payload,
    audit: keep,
    bulkKey: keep,
  },
  ({ source }) => ofInstance(source),
);

export const instanceFork = fields<InstanceFork>(
  {
    source: keep,
    instanceId: keep,
    incarnation: keep,
    name: keep,
    version: keep,
    inputHash: hashed,
    forkedFrom: keep,
    tags: keep,
    start: rerunStart,
    audit: keep,
  },
  ofInstance,
);

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
