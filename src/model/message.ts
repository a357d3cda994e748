import type { CancelDetails } from './cancel.ts';
import { PerdureError, type CancelTrigger } from './failures/errors.ts';
import type { BufferedEvent, ParentRef, Ran } from './event.ts';
import type { Failure } from './failures/failure.ts';
import type { Payload } from './values/payload.ts';
import {
  brokenField,
  cancelField,
  carriedField,
  decodeFields,
  failureField,
  isCount,
  isTextOrNull,
  nameField,
  parentField,
  reasonField,
  triggerField,
  type FieldChecks,
} from './values/stored-fields.ts';

/** Begins an execution. `payload` is its input. */
export interface StartMessage {
  readonly kind: 'start';
  readonly name: string;
  /** `null`: the worker that takes the first turn picks its newest version. */
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly parent?: ParentRef;
  readonly carried?: readonly BufferedEvent[];
  /** The instance was asked to stop before this execution began. */
  readonly cancel?: CancelDetails;
}

interface Completion {
  /** The execution that waits; a message for another one is dropped. */
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

/** The activity has stopped, or never started, because it was no longer wanted. */
interface ActivityCanceledMessage extends Completion, Partial<Ran> {
  readonly kind: 'activityCanceled';
  readonly trigger: CancelTrigger;
  readonly reason: string;
  readonly leaked?: true;
}

interface ChildCanceledMessage extends Completion {
  readonly kind: 'childCanceled';
  readonly reason: string;
}

/** Asks the instance to stop. */
interface CancelMessage extends CancelDetails {
  readonly kind: 'cancel';
}

/** The clean-up of a canceling instance has taken long enough: it ends without its code. */
interface CleanupExpiredMessage {
  readonly kind: 'cleanupExpired';
  /** Why the instance was asked to stop. */
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

/** The id of the detached instance belongs to another start. */
interface DetachedFailedMessage extends Completion {
  readonly kind: 'detachedFailed';
  readonly failure: Failure;
}

/** An external event, raised by a client or an activity. */
interface EventRaisedMessage {
  readonly kind: 'eventRaised';
  readonly name: string;
  readonly payload: Payload | null;
}

/** Asks for a turn. With `broken`: the code broke after that turn, outside of any, and ends with the failure. */
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
  | TimerFiredMessage
  | ChildCompletedMessage
  | ChildFailedMessage
  | ChildCanceledMessage
  | DetachedConfirmedMessage
  | DetachedFailedMessage
  | CancelMessage
  | CleanupExpiredMessage
  | EventRaisedMessage
  | WakeMessage;

const completionKinds: ReadonlySet<string> = new Set<Extract<Message, Completion>['kind']>([
  'activityCompleted',
  'activityFailed',
  'activityCanceled',
  'timerFired',
  'childCompleted',
  'childFailed',
  'childCanceled',
  'detachedConfirmed',
  'detachedFailed',
]);

const fieldsByKind: Readonly<Record<Message['kind'], FieldChecks>> = {
  start: [nameField, ['version', isTextOrNull], parentField, carriedField, cancelField],
  activityCompleted: [],
  activityFailed: [failureField],
  activityCanceled: [triggerField, reasonField],
  timerFired: [],
  childCompleted: [],
  childFailed: [failureField],
  childCanceled: [reasonField],
  detachedConfirmed: [],
  detachedFailed: [failureField],
  cancel: [reasonField, ['actor', isTextOrNull]],
  cleanupExpired: [reasonField],
  eventRaised: [nameField],
  wake: [brokenField],
};

const checksByKind: ReadonlyMap<string, FieldChecks> = new Map(Object.entries(fieldsByKind));

/**
 * A message as a store keeps it. `executionId` and `operation` stand apart because a store must find the timers
 * and completions of an operation; the rest is opaque to it.
 */
export interface StoredMessage {
  readonly kind: string;
  readonly executionId: number | null;
  readonly operation: number | null;
  /** The remaining small fields, as JSON text. */
  readonly data: string;
  readonly payload: Payload | null;
}

/** Takes a message apart for a store. */
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

/** Puts a stored message together again; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeMessage(stored: StoredMessage): Message {
  const checks = checksByKind.get(stored.kind);
  const fields = checks && decodeFields(stored.data, checks);
  const addressed =
    !completionKinds.has(stored.kind) || (isCount(stored.executionId) && isCount(stored.operation));
  if (fields === undefined || !addressed) {
    throw new PerdureError(
      'UNDECODABLE',
      `A stored message of kind ${JSON.stringify(stored.kind)} cannot be decoded. Was it written by a newer version, or damaged?`,
    );
  }
  const { kind, executionId, operation, payload } = stored;
  return { ...fields, kind, executionId, operation, payload } as Message;
}
