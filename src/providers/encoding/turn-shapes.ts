import type { NewInstance } from '../contract/instances.ts';
import type {
  EmittedChunks,
  NewChild,
  NewWorkItem,
  OutgoingMessage,
  StateChange,
  Turn,
  TurnOutcome,
} from '../contract/turn.ts';
import type { UpdateReply } from '../contract/updates.ts';
import { message, storedEvent } from './stored-data.ts';
import {
  bounded,
  failureText,
  fields,
  givenFailureText,
  hashed,
  keep,
  list,
  nullable,
  ofInstance,
  payload,
  text,
  variants,
  type Fields,
} from './treatment.ts';

// The treatment of a turn: what it records, starts and sends.

type StartEvent = NonNullable<NewInstance['event']>;

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
export const startEvent: Fields<StartEvent> = {
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
    event: fields<StartEvent>(startEvent),
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

export const turn = fields<Turn>({
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
  emitted: fields<EmittedChunks>({ chunks: bounded(list(text)), source: keep, maxBytes: keep }),
  bufferedEvents: keep,
  updateReplies: list(updateReply),
  awakeables: keep,
  outcome: turnOutcome,
});
