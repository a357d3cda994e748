import type {
  Blocked,
  FetchedMessage,
  HeldMessages,
  InstanceHold,
  OrchestrationAbandon,
  OrchestrationAck,
  OrchestrationItem,
} from '../contract/orchestration-queue.ts';
import type { TransactionAck, WithInstance } from '../contract/transactional.ts';
import type {
  TurnAck,
  WorkItem,
  WorkItemAbandon,
  WorkItemAck,
  WorkItemRenewal,
  WorkItemRetry,
  WorkOutcome,
} from '../contract/work-queue.ts';
import { message, messageTreatment } from './stored-data.ts';
import {
  fields,
  givenFailureText,
  keep,
  list,
  ofInstance,
  payload,
  text,
  variants,
  type Treatment,
} from './treatment.ts';
import { turn } from './turn-shapes.ts';

// The treatments of the orchestration queue and the work queue: what a claim returns, and what ends it.

/** Words of Perdure about the code, which may quote inputs. The reason of a codec's own failure stays readable. */
const blocked: Treatment<Blocked> = (value, walk) =>
  isOfCodec(value.details)
    ? value
    : fields<Blocked>({ reason: text, buildId: keep, details: keep })(value, walk);

function isOfCodec(details: string | undefined): boolean {
  return details !== undefined && details.includes('"code":"CODEC_FAILED"');
}

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

/** The treatment of an ack, for one that names its instance. */
const named = <Ack>(treatment: Treatment<Ack>): Treatment<WithInstance<Ack>> =>
  treatment as Treatment<WithInstance<Ack>>;

type WorkItemsAck = Extract<TransactionAck, { readonly kind: 'workItems' }>;
type MessageAck = Extract<TransactionAck, { readonly kind: 'message' }>;

export const transactionAck = variants<TransactionAck, 'kind'>('kind', {
  workItem: { kind: keep, ack: named(workItemAck), unlessCanceled: keep },
  workItems: {
    kind: keep,
    acks: list(
      fields<WorkItemsAck['acks'][number]>({ ack: named(workItemAck), unlessCanceled: keep }),
    ),
  },
  turn: { kind: keep, ack: named(turnAck) },
  orchestration: { kind: keep, ack: named(orchestrationAck) },
  message: {
    kind: keep,
    ack: fields<MessageAck['ack']>({ instanceId: keep, lockToken: keep, message }, ofInstance),
  },
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
