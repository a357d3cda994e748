import type { ActivityOptions } from './work-item-options.ts';
import type { CancelDetails } from './cancel.ts';
import { PerdureError, type CancelTrigger } from './failures/errors.ts';
import type { Failure } from './failures/failure.ts';
import type { Payload } from './values/payload.ts';
import {
  cancelField,
  cancellationField,
  carriedField,
  decodeFields,
  failureField,
  isCount,
  isText,
  isTextOrAbsent,
  isTimeOrAbsent,
  isTextOrNull,
  isTime,
  nameField,
  operationField,
  optionsField,
  parentField,
  reasonField,
  targetKindField,
  triggerField,
  type FieldChecks,
} from './values/stored-fields.ts';

/** Who waits for this instance: the execution and operation of the parent that started it. */
export interface ParentRef {
  readonly instanceId: string;
  readonly executionId: number;
  readonly operation: number;
}

/** An external event that arrived before anyone waited for it, carried over a continue-as-new. */
export interface BufferedEvent {
  readonly name: string;
  readonly payload: Payload | null;
}

interface Recorded {
  /** The store's clock in the turn that recorded the event; never goes back within an execution. */
  readonly at: number;
}

/** The first event of every execution. */
export interface ExecutionStarted extends Recorded {
  readonly kind: 'executionStarted';
  readonly name: string;
  readonly version: string;
  readonly payload: Payload | null;
  readonly parent?: ParentRef;
  readonly carried?: readonly BufferedEvent[];
  /** The instance was asked to stop before this execution began. */
  readonly cancel?: CancelDetails;
}

interface Operation extends Recorded {
  /** Counts the operations of an execution in the order in which the code issued them: 1, 2, 3, … */
  readonly operation: number;
}

/** The code called an activity. `payload` is its input. */
export interface ActivityScheduled extends Operation {
  readonly kind: 'activityScheduled';
  readonly name: string;
  readonly payload: Payload | null;
  readonly options?: ActivityOptions;
  /** Absent: `request`. */
  readonly cancellation?: 'wait' | 'abandon';
  /** Issued inside a shield. */
  readonly shielded?: true;
}

/** The code waits for a time. */
export interface TimerCreated extends Operation {
  readonly kind: 'timerCreated';
  readonly fireAt: number;
  /** The code named the moment; otherwise it named a duration, counted from `at`. */
  readonly absolute?: true;
}

/** The code waits for an external event by name. */
interface EventAwaited extends Operation {
  readonly kind: 'eventAwaited';
  readonly name: string;
}

/** The code started a child and waits for it. `payload` is its input. */
interface ChildScheduled extends Operation {
  readonly kind: 'childScheduled';
  readonly name: string;
  readonly version: string | null;
  readonly childId: string;
  readonly payload: Payload | null;
  /** Absent: `request`. */
  readonly cancellation?: 'wait' | 'abandon';
  /** Issued inside a shield. */
  readonly shielded?: true;
}

/** The code started an instance whose end it does not wait for. */
interface DetachedStarted extends Operation {
  readonly kind: 'detachedStarted';
  readonly name: string;
  readonly version: string | null;
  readonly childId: string;
  readonly payload: Payload | null;
}

interface CustomStatusSet extends Operation {
  readonly kind: 'customStatusSet';
  readonly payload: Payload | null;
}

/** A pending operation is no longer wanted: a timer that lost, a wait that timed out, all that a canceled scope had pending. */
export interface OperationWithdrawn extends Recorded {
  readonly kind: 'operationWithdrawn';
  readonly target: number;
  readonly targetKind: 'activity' | 'timer' | 'event' | 'child' | 'detached';
  readonly trigger: CancelTrigger;
  readonly reason: string;
  /** The id of a child that is asked to stop. */
  readonly childId?: string;
  /** The code no longer waits, but the work goes on. */
  readonly abandoned?: true;
}

/** The last attempt of an activity: which worker ran it, and when that claimed it. */
export interface Ran {
  readonly worker: string;
  readonly startedAt: number;
}

interface ActivityCompleted extends Recorded, Partial<Ran> {
  readonly kind: 'activityCompleted';
  readonly operation: number;
  readonly payload: Payload | null;
}

interface ActivityFailed extends Recorded, Partial<Ran> {
  readonly kind: 'activityFailed';
  readonly operation: number;
  readonly failure: Failure;
}

/** The worker has stopped an activity that was no longer wanted, or never started it. */
interface ActivityCanceled extends Recorded, Partial<Ran> {
  readonly kind: 'activityCanceled';
  readonly operation: number;
  readonly trigger: CancelTrigger;
  readonly reason: string;
  /** Its handler went on past the grace period. */
  readonly leaked?: true;
}

/** The instance was asked to stop. */
interface CancelRequested extends Recorded {
  readonly kind: 'cancelRequested';
  readonly reason: string;
  readonly actor: string | null;
}

interface TimerFired extends Recorded {
  readonly kind: 'timerFired';
  readonly operation: number;
}

interface EventReceived extends Recorded {
  readonly kind: 'eventReceived';
  readonly name: string;
  readonly payload: Payload | null;
}

interface ChildCompleted extends Recorded {
  readonly kind: 'childCompleted';
  readonly operation: number;
  readonly payload: Payload | null;
}

interface ChildFailed extends Recorded {
  readonly kind: 'childFailed';
  readonly operation: number;
  readonly failure: Failure;
}

interface ChildCanceled extends Recorded {
  readonly kind: 'childCanceled';
  readonly operation: number;
  readonly reason: string;
}

/** A detached instance exists: it was started now, or by the same start before. */
interface DetachedConfirmed extends Recorded {
  readonly kind: 'detachedConfirmed';
  readonly operation: number;
}

/** The id of a detached instance belongs to another start. */
interface DetachedFailed extends Recorded {
  readonly kind: 'detachedFailed';
  readonly operation: number;
  readonly failure: Failure;
}

interface ExecutionCompleted extends Recorded {
  readonly kind: 'executionCompleted';
  readonly payload: Payload | null;
}

interface ExecutionFailed extends Recorded {
  readonly kind: 'executionFailed';
  readonly failure: Failure;
}

/** The execution stopped because it was asked to. */
interface ExecutionCanceled extends Recorded {
  readonly kind: 'executionCanceled';
  readonly reason: string;
  /** Its code did not get to the end of its clean-up. */
  readonly cleanupSkipped?: true;
}

/** The instance was ended from outside, without its code: written by the store. */
interface ExecutionTerminated extends Recorded {
  readonly kind: 'executionTerminated';
  readonly reason: string;
  readonly actor: string | null;
}

/** The next execution takes over with `payload` as its input. */
interface ExecutionContinuedAsNew extends Recorded {
  readonly kind: 'executionContinuedAsNew';
  readonly version: string;
  readonly payload: Payload | null;
  readonly carried?: readonly BufferedEvent[];
  /** A cancel that came too late for this execution: the next one begins canceled. */
  readonly cancel?: CancelDetails;
}

/** What the code decided: matched against history, in order, when the code runs again. */
export type CommandEvent =
  | ActivityScheduled
  | TimerCreated
  | EventAwaited
  | ChildScheduled
  | DetachedStarted
  | CustomStatusSet
  | OperationWithdrawn;

/** What the world answered: applied to the code, in order, one at a time. */
export type IncomingEvent =
  | ActivityCompleted
  | ActivityFailed
  | ActivityCanceled
  | TimerFired
  | EventReceived
  | ChildCompleted
  | ChildFailed
  | ChildCanceled
  | DetachedConfirmed
  | DetachedFailed
  | CancelRequested;

/** The answer to one operation. */
export type AnswerEvent = Exclude<IncomingEvent, EventReceived | CancelRequested>;

/** How an execution ended. */
export type TerminalEvent =
  | ExecutionCompleted
  | ExecutionFailed
  | ExecutionCanceled
  | ExecutionTerminated
  | ExecutionContinuedAsNew;

/** One entry of an execution's history. Its id is its place: 1, 2, 3, … */
export type HistoryEvent = ExecutionStarted | CommandEvent | IncomingEvent | TerminalEvent;

const commandFields: Readonly<Record<CommandEvent['kind'], FieldChecks>> = {
  activityScheduled: [operationField, nameField, optionsField, cancellationField],
  timerCreated: [operationField, ['fireAt', isTime]],
  eventAwaited: [operationField, nameField],
  childScheduled: [
    operationField,
    nameField,
    ['version', isTextOrNull],
    ['childId', isText],
    cancellationField,
  ],
  detachedStarted: [operationField, nameField, ['version', isTextOrNull], ['childId', isText]],
  customStatusSet: [operationField],
  operationWithdrawn: [
    ['target', isCount],
    targetKindField,
    triggerField,
    reasonField,
    ['childId', isTextOrAbsent],
  ],
};

const ranFields: FieldChecks = [
  ['worker', isTextOrAbsent],
  ['startedAt', isTimeOrAbsent],
];

const incomingFields: Readonly<Record<IncomingEvent['kind'], FieldChecks>> = {
  activityCompleted: [operationField, ...ranFields],
  activityFailed: [operationField, failureField, ...ranFields],
  activityCanceled: [operationField, triggerField, reasonField, ...ranFields],
  timerFired: [operationField],
  eventReceived: [nameField],
  childCompleted: [operationField],
  childFailed: [operationField, failureField],
  childCanceled: [operationField, reasonField],
  detachedConfirmed: [operationField],
  detachedFailed: [operationField, failureField],
  cancelRequested: [reasonField, ['actor', isTextOrNull]],
};

const boundaryFields: Readonly<
  Record<ExecutionStarted['kind'] | TerminalEvent['kind'], FieldChecks>
> = {
  executionStarted: [nameField, ['version', isText], parentField, carriedField, cancelField],
  executionCompleted: [],
  executionFailed: [failureField],
  executionCanceled: [reasonField],
  executionTerminated: [reasonField, ['actor', isTextOrNull]],
  executionContinuedAsNew: [['version', isText], carriedField, cancelField],
};

const commandKinds: ReadonlySet<string> = new Set(Object.keys(commandFields));
const incomingKinds: ReadonlySet<string> = new Set(Object.keys(incomingFields));
const checksByKind: ReadonlyMap<string, FieldChecks> = new Map(
  Object.entries({ ...commandFields, ...incomingFields, ...boundaryFields }),
);

/** Says whether an event is a decision of the code. */
export function isCommand(event: HistoryEvent): event is CommandEvent {
  return commandKinds.has(event.kind);
}

/** Says whether an event is an answer of the world. */
export function isIncoming(event: HistoryEvent): event is IncomingEvent {
  return incomingKinds.has(event.kind);
}

/** An event as a store keeps it: columns that the store never has to understand. */
export interface StoredEvent {
  readonly kind: string;
  readonly at: number;
  /** The remaining small fields, as JSON text. */
  readonly data: string;
  readonly payload: Payload | null;
}

/** Takes an event apart for a store. */
export function encodeEvent(event: HistoryEvent): StoredEvent {
  const {
    kind,
    at,
    payload = null,
    ...rest
  } = event as HistoryEvent & { payload?: Payload | null };
  return { kind, at, data: JSON.stringify(rest), payload };
}

/** Puts a stored event together again; throws `UNDECODABLE` for what no version of Perdure has written. */
export function decodeEvent(stored: StoredEvent): HistoryEvent {
  const checks = checksByKind.get(stored.kind);
  const fields = checks && decodeFields(stored.data, checks);
  if (fields === undefined || !isTime(stored.at)) {
    throw new PerdureError(
      'UNDECODABLE',
      `A stored event of kind ${JSON.stringify(stored.kind)} cannot be decoded. Was it written by a newer version, or damaged?`,
    );
  }
  return { ...fields, kind: stored.kind, at: stored.at, payload: stored.payload } as HistoryEvent;
}
