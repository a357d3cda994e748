import type { CancelDetails } from './cancel.ts';
import { assertDecoded } from './encoding/assert-decoded.ts';
import { PerdureError, type CancelTrigger } from './failures/errors.ts';
import type { BufferedEvent, ParentRef, Ran } from './event.ts';
import type { Failure } from './failures/failure.ts';
import type { Payload } from './values/payload.ts';
import type { TraceContext } from './trace-context.ts';
import type { Headers } from './values/headers.ts';
import type { StateValue } from './values/state.ts';
import type { Tags } from './values/tags.ts';
import {
  brokenField,
  cancelField,
  cancelFields,
  cancelTriggerField,
  carriedField,
  decodeFields,
  failureField,
  headersField,
  isCount,
  isTextOrNull,
  isTime,
  keyField,
  nameField,
  parentField,
  priorityField,
  reasonField,
  stateField,
  tagsField,
  takenChildIdsField,
  triggerField,
  type FieldChecks,
} from './values/stored-fields.ts';

/** Starts an execution. `payload` is its input. */
export interface StartMessage {
  readonly kind: 'start';
  readonly name: string;
  /** `null`: the worker of the first turn uses its newest version. */
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly parent?: ParentRef;
  readonly carried?: readonly BufferedEvent[];
  /** A cancel that was requested before this execution started. */
  readonly cancel?: CancelDetails;
  readonly tags?: Tags;
  /** The headers of the run. */
  readonly headers?: Headers;
  /** The priority of calls that set none. */
  readonly priority?: number;
  /** The state that the execution before it left. */
  readonly state?: readonly StateValue[];
  /** Of a retry or a fork from the start: the fixed ids of the children that the code may start again. */
  readonly takenChildIds?: readonly string[];
}

interface Completion {
  /** The execution that waits. Other executions drop the message. */
  readonly executionId: number;
  readonly operation: number;
}

interface ActivityCompletedMessage extends Completion, Partial<Ran> {
  readonly kind: 'activityCompleted';
  readonly payload: Payload | null;
}

interface ActivityFailedMessage extends Completion, Partial<Ran> {
  readonly kind: 'activityFailed';
  readonly failure: Failure;
}

/** A canceled activity has stopped, or never started. */
interface ActivityCanceledMessage extends Completion, Partial<Ran> {
  readonly kind: 'activityCanceled';
  readonly trigger: CancelTrigger;
  readonly reason: string;
  readonly leaked?: true;
}

interface StepMessage extends Completion, Partial<Ran> {
  readonly name: string;
}

/** The outcome of a step. Never stored: a turn in memory applies it. */
interface StepCompletedMessage extends StepMessage {
  readonly kind: 'stepCompleted';
  readonly payload: Payload | null;
}

interface StepFailedMessage extends StepMessage {
  readonly kind: 'stepFailed';
  readonly failure: Failure;
}

interface StepRetriedMessage extends StepMessage {
  readonly kind: 'stepRetried';
  readonly attempts: number;
  readonly failure: Failure;
  readonly retryAt: number;
}

interface ChildCanceledMessage extends Completion {
  readonly kind: 'childCanceled';
  readonly reason: string;
  readonly trigger?: 'timeout';
}

/** Requests a cancel of the instance. */
interface CancelMessage extends CancelDetails {
  readonly kind: 'cancel';
}

/** The clean-up limit of a canceling instance has expired: it ends without its code. */
interface CleanupExpiredMessage {
  readonly kind: 'cleanupExpired';
  /** The reason of the cancel. */
  readonly reason: string;
}

interface TimerFiredMessage extends Completion {
  readonly kind: 'timerFired';
}

interface ChildCompletedMessage extends Completion {
  readonly kind: 'childCompleted';
  readonly payload: Payload | null;
}

interface ChildFailedMessage extends Completion {
  readonly kind: 'childFailed';
  readonly failure: Failure;
}

/** The detached instance exists. */
interface DetachedConfirmedMessage extends Completion {
  readonly kind: 'detachedConfirmed';
}

/** The id of the detached instance is taken by another start. */
interface DetachedFailedMessage extends Completion {
  readonly kind: 'detachedFailed';
  readonly failure: Failure;
}

interface AwakeableResolvedMessage extends Completion {
  readonly kind: 'awakeableResolved';
  readonly payload: Payload | null;
}

interface AwakeableRejectedMessage extends Completion {
  readonly kind: 'awakeableRejected';
  readonly failure: Failure;
}

/** An update, requested by a client. `payload` is its input. Never recorded before it is accepted. */
export interface UpdateMessage {
  readonly kind: 'update';
  /** Identifies the update within its instance. */
  readonly key: string;
  readonly name: string;
  readonly payload: Payload | null;
  /** The context of the caller, for the span of the turn. Never recorded in the history. */
  readonly trace?: TraceContext;
}

/** An external event, raised by a client or an activity. */
interface EventRaisedMessage {
  readonly kind: 'eventRaised';
  readonly name: string;
  readonly payload: Payload | null;
  /** The context of the caller, for the span of the turn. Never recorded in the history. */
  readonly trace?: TraceContext;
}

/** Requests a turn. `broken`: the code broke after the turn `turnId`, and the instance fails with `failure`. */
interface WakeMessage {
  readonly kind: 'wake';
  readonly broken?: { readonly turnId: string; readonly failure: Failure };
}

/** An entry of the orchestrator queue, addressed to one instance. */
export type Message =
  | StartMessage
  | ActivityCompletedMessage
  | ActivityFailedMessage
  | ActivityCanceledMessage
  | StepCompletedMessage
  | StepFailedMessage
  | StepRetriedMessage
  | TimerFiredMessage
  | ChildCompletedMessage
  | ChildFailedMessage
  | ChildCanceledMessage
  | DetachedConfirmedMessage
  | DetachedFailedMessage
  | AwakeableResolvedMessage
  | AwakeableRejectedMessage
  | UpdateMessage
  | CancelMessage
  | CleanupExpiredMessage
  | EventRaisedMessage
  | WakeMessage;

const completionKinds: ReadonlySet<string> = new Set<Extract<Message, Completion>['kind']>([
  'activityCompleted',
  'activityFailed',
  'activityCanceled',
  'stepCompleted',
  'stepFailed',
  'stepRetried',
  'timerFired',
  'childCompleted',
  'childFailed',
  'childCanceled',
  'detachedConfirmed',
  'detachedFailed',
  'awakeableResolved',
  'awakeableRejected',
]);

const fieldsByKind: Readonly<Record<Message['kind'], FieldChecks>> = {
  start: [
    nameField,
    ['version', isTextOrNull],
    parentField,
    carriedField,
    cancelField,
    tagsField,
    headersField,
    priorityField,
    stateField,
    takenChildIdsField,
  ],
  activityCompleted: [],
  activityFailed: [failureField],
  activityCanceled: [triggerField, reasonField],
  stepCompleted: [nameField],
  stepFailed: [nameField, failureField],
  stepRetried: [nameField, failureField, ['attempts', isCount], ['retryAt', isTime]],
  timerFired: [],
  childCompleted: [],
  childFailed: [failureField],
  childCanceled: [reasonField, cancelTriggerField],
  detachedConfirmed: [],
  detachedFailed: [failureField],
  awakeableResolved: [],
  awakeableRejected: [failureField],
  update: [keyField, nameField],
  cancel: cancelFields,
  cleanupExpired: [reasonField],
  eventRaised: [nameField],
  wake: [brokenField],
};

const checksByKind: ReadonlyMap<string, FieldChecks> = new Map(Object.entries(fieldsByKind));

/**
 * A message as a store keeps it. `executionId` and `operation` are separate columns, so that a store can find the timers and
 * completions of an operation. The rest is opaque to the store.
 */
export interface StoredMessage {
  readonly kind: string;
  readonly executionId: number | null;
  readonly operation: number | null;
  /** The remaining small fields, as JSON text. */
  readonly data: string;
  readonly payload: Payload | null;
}

/**
 * The operation of the timer that an instance has while a worker runs its steps. It is due immediately: when the worker
 * dies, it makes the instance claimable at the end of the lease.
 */
export const stepGuardOperation = 0;

/** Whether a message only asks for the steps of its instance to be run. */
export function isStepGuard({ kind, operation }: StoredMessage): boolean {
  return kind === 'timerFired' && operation === stepGuardOperation;
}

/** Encodes a message for a store. */
export function encodeMessage(message: Message): StoredMessage {
  const {
    kind,
    executionId = null,
    operation = null,
    payload = null,
    ...rest
  } = message as Message & Partial<Completion> & { payload?: Payload | null };
  return { kind, executionId, operation, data: JSON.stringify(rest), payload };
}

/** Decodes a stored message. Throws `UNDECODABLE` for an invalid one, and `CODEC_FAILED` for one that is still encoded. */
export function decodeMessage(stored: StoredMessage): Message {
  if (isStepGuard(stored)) return { kind: 'wake' };
  const checks = checksByKind.get(stored.kind);
  const fields = checks && decodeFields(stored.data, checks);
  const addressed =
    !completionKinds.has(stored.kind) || (isCount(stored.executionId) && isCount(stored.operation));
  if (fields === undefined || !addressed) {
    throw new PerdureError(
      'UNDECODABLE',
      `A stored message of kind ${JSON.stringify(stored.kind)} cannot be decoded: it is damaged, or a newer version wrote it.`,
    );
  }
  const { kind, executionId, operation, payload } = stored;
  assertDecoded(payload, fields);
  return { ...fields, kind, executionId, operation, payload } as Message;
}
