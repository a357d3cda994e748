import type { ActivityOptions } from './work-item-options.ts';
import type { CancelDetails } from './cancel.ts';
import { assertDecoded } from './encoding/assert-decoded.ts';
import { PerdureError, type CancelTrigger } from './failures/errors.ts';
import type { Failure } from './failures/failure.ts';
import type { Payload } from './values/payload.ts';
import type { RecordedConflict } from './admission-options.ts';
import type { StartSettings } from './start-settings.ts';
import type { Headers } from './values/headers.ts';
import type { StateValue } from './values/state.ts';
import type { RecordedTagChanges, Tags } from './values/tags.ts';
import {
  cancelField,
  cancelFields,
  cancelTriggerField,
  cancellationField,
  carriedField,
  conflictFields,
  decodeFields,
  failureField,
  headersField,
  inheritedField,
  isCount,
  isText,
  isTextOrAbsent,
  isTimeOrAbsent,
  isTrueOrAbsent,
  isTextOrNull,
  isTime,
  keyField,
  nameField,
  operationField,
  laneField,
  optionsField,
  parentField,
  priorityField,
  reasonField,
  stateField,
  tagChangesField,
  tagsField,
  takenChildIdsField,
  targetKindField,
  timingFields,
  triggerField,
  type FieldChecks,
} from './values/stored-fields.ts';

/** The parent operation that started this instance and waits for it. */
export interface ParentRef {
  readonly instanceId: string;
  readonly executionId: number;
  readonly operation: number;
}

/** A buffered external event, carried over a continue-as-new. */
export interface BufferedEvent {
  readonly name: string;
  readonly payload: Payload | null;
}

interface Recorded {
  /** The store's clock in the turn that recorded the event. Never decreases within an execution. */
  readonly at: number;
}

/**
 * The writer of copied events: `events` is the id of the last event that this execution recorded. While these events are
 * replayed, the code gets the ids and the random numbers of their writer.
 */
export interface InheritedEvents {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly events: number;
}

/** The first event of every execution. */
export interface ExecutionStarted extends Recorded {
  readonly kind: 'executionStarted';
  readonly name: string;
  readonly version: string;
  readonly payload: Payload | null;
  readonly parent?: ParentRef;
  readonly carried?: readonly BufferedEvent[];
  /** A cancel that was requested before this execution started. */
  readonly cancel?: CancelDetails;
  /** The tags of the instance at this time. */
  readonly tags?: Tags;
  /** The headers of the run. */
  readonly headers?: Headers;
  /** The priority of calls that set none. */
  readonly priority?: number;
  /** The state that the execution before it left. */
  readonly state?: readonly StateValue[];
  /** Ids that children of the execution before it have. A call with one of them gets a generated id. */
  readonly takenChildIds?: readonly string[];
  /** The writers of the events that a retry or a fork copied, oldest first. */
  readonly inherited?: readonly InheritedEvents[];
}

interface Operation extends Recorded {
  /** The number of the operation in its execution, in call order: 1, 2, 3, … */
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

/** The code started a timer. */
export interface TimerCreated extends Operation {
  readonly kind: 'timerCreated';
  readonly fireAt: number;
  /** The code gave a point in time. Absent: a duration, from `at`. */
  readonly absolute?: true;
}

/** The code waits for an external event by name. */
interface EventAwaited extends Operation {
  readonly kind: 'eventAwaited';
  readonly name: string;
}

/** The code started a child and waits for it. `payload` is its input. */
export interface ChildScheduled extends Operation, StartSettings, RecordedConflict {
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

/** The code started a detached instance. */
export interface DetachedStarted extends Operation, StartSettings, RecordedConflict {
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

/** The code emitted a chunk to the stream of its instance. */
interface ChunkEmitted extends Operation {
  readonly kind: 'chunkEmitted';
  readonly payload: Payload | null;
}

/** The code set a key of the state of the instance, or deleted it (`payload: null`). */
interface StateSet extends Operation {
  readonly kind: 'stateSet';
  readonly key: string;
  readonly payload: Payload | null;
}

/** The code changed the tags of the instance. */
interface TagsSet extends Operation {
  readonly kind: 'tagsSet';
  readonly tags: RecordedTagChanges;
}

/** The code asked for a patch that this execution has: see `ctx.patched()`. */
interface PatchMarked extends Recorded {
  readonly kind: 'patchMarked';
  readonly id: string;
}

/** The code created an awakeable. `payload` is its token. */
export interface AwakeableCreated extends Operation {
  readonly kind: 'awakeableCreated';
  readonly payload: Payload | null;
}

/** The handler of an update returned. `payload` is the reply. */
interface UpdateCompleted extends Recorded {
  readonly kind: 'updateCompleted';
  readonly key: string;
  readonly payload: Payload | null;
}

/** The handler of an update threw. */
interface UpdateFailed extends Recorded {
  readonly kind: 'updateFailed';
  readonly key: string;
  readonly failure: Failure;
}

/** A pending operation was canceled: the loser of a race, a wait that timed out, or an operation of a canceled scope. */
export interface OperationWithdrawn extends Recorded {
  readonly kind: 'operationWithdrawn';
  readonly target: number;
  readonly targetKind: 'activity' | 'timer' | 'event' | 'child' | 'detached' | 'step' | 'awakeable';
  /** The name of a step, which no earlier event records. */
  readonly name?: string;
  readonly trigger: CancelTrigger;
  readonly reason: string;
  /** The id of a child to cancel. */
  readonly childId?: string;
  /** The code no longer waits, but the work continues. */
  readonly abandoned?: true;
}

/** The last attempt of an activity: the worker that ran it, and the time of its claim. */
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

/** A canceled activity has stopped, or never started. */
interface ActivityCanceled extends Recorded, Partial<Ran> {
  readonly kind: 'activityCanceled';
  readonly operation: number;
  readonly trigger: CancelTrigger;
  readonly reason: string;
  /** The handler still ran after its grace. */
  readonly leaked?: true;
}

/** The outcome of a step. A step is recorded only with its outcome or its failed attempts. */
interface StepAnswer extends Recorded, Partial<Ran> {
  readonly operation: number;
  readonly name: string;
}

interface StepCompleted extends StepAnswer {
  readonly kind: 'stepCompleted';
  readonly payload: Payload | null;
}

interface StepFailed extends StepAnswer {
  readonly kind: 'stepFailed';
  readonly failure: Failure;
}

/** An attempt of a step failed. The next one begins at `retryAt`. */
export interface StepRetried extends StepAnswer {
  readonly kind: 'stepRetried';
  /** The number of failed attempts. */
  readonly attempts: number;
  readonly failure: Failure;
  readonly retryAt: number;
}

/** A cancel of the instance was requested. */
interface CancelRequested extends Recorded, CancelDetails {
  readonly kind: 'cancelRequested';
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
  /** `timeout`: the timeout of the child has passed. Absent: a request. */
  readonly trigger?: 'timeout';
}

/** A detached instance exists: from this start, or from an earlier identical one. */
interface DetachedConfirmed extends Recorded {
  readonly kind: 'detachedConfirmed';
  readonly operation: number;
}

/** The id of a detached instance is taken by another start, or its event was rejected. */
interface DetachedFailed extends Recorded {
  readonly kind: 'detachedFailed';
  readonly operation: number;
  readonly failure: Failure;
}

interface AwakeableResolved extends Recorded {
  readonly kind: 'awakeableResolved';
  readonly operation: number;
  readonly payload: Payload | null;
}

interface AwakeableRejected extends Recorded {
  readonly kind: 'awakeableRejected';
  readonly operation: number;
  readonly failure: Failure;
}

/**
 * An update passed its validation, and its handler starts. `payload` is the input. If the code has continued as new before, the
 * next execution validates and handles it.
 */
export interface UpdateAccepted extends Recorded {
  readonly kind: 'updateAccepted';
  readonly key: string;
  readonly name: string;
  readonly payload: Payload | null;
  /** The code has continued as new before: no handler starts in this execution. */
  readonly deferred?: true;
}

interface ExecutionCompleted extends Recorded {
  readonly kind: 'executionCompleted';
  readonly payload: Payload | null;
}

interface ExecutionFailed extends Recorded {
  readonly kind: 'executionFailed';
  readonly failure: Failure;
}

/** The execution ended because of a cancel. */
interface ExecutionCanceled extends Recorded {
  readonly kind: 'executionCanceled';
  readonly reason: string;
  /** A time limit ended the clean-up. */
  readonly cleanupSkipped?: true;
}

/** The instance was terminated, without running its code. The store writes this event. */
interface ExecutionTerminated extends Recorded {
  readonly kind: 'executionTerminated';
  readonly reason: string;
  readonly actor: string | null;
}

/** The next execution starts with `payload` as its input. */
interface ExecutionContinuedAsNew extends Recorded {
  readonly kind: 'executionContinuedAsNew';
  readonly version: string;
  readonly payload: Payload | null;
  readonly carried?: readonly BufferedEvent[];
  /** A cancel that came too late for this execution: the next one starts canceled. */
  readonly cancel?: CancelDetails;
  /** The tags with which the next execution starts. */
  readonly tags?: Tags;
  /** The state with which the next execution starts. */
  readonly state?: readonly StateValue[];
}

/** A command of the code. A replay matches commands with the history, in order. */
export type CommandEvent =
  | ActivityScheduled
  | TimerCreated
  | EventAwaited
  | ChildScheduled
  | DetachedStarted
  | CustomStatusSet
  | ChunkEmitted
  | StateSet
  | TagsSet
  | PatchMarked
  | AwakeableCreated
  | UpdateCompleted
  | UpdateFailed
  | OperationWithdrawn;

/** An event from outside. Applied to the code in order, one at a time. */
export type IncomingEvent =
  | ActivityCompleted
  | ActivityFailed
  | ActivityCanceled
  | StepCompleted
  | StepFailed
  | StepRetried
  | TimerFired
  | EventReceived
  | ChildCompleted
  | ChildFailed
  | ChildCanceled
  | DetachedConfirmed
  | DetachedFailed
  | AwakeableResolved
  | AwakeableRejected
  | UpdateAccepted
  | CancelRequested;

/** The answer of one operation. */
export type AnswerEvent = Exclude<IncomingEvent, EventReceived | UpdateAccepted | CancelRequested>;

/** How an execution ended. */
export type TerminalEvent =
  | ExecutionCompleted
  | ExecutionFailed
  | ExecutionCanceled
  | ExecutionTerminated
  | ExecutionContinuedAsNew;

/** One entry of the history of an execution. Its id is its position: 1, 2, 3, … */
export type HistoryEvent = ExecutionStarted | CommandEvent | IncomingEvent | TerminalEvent;

/** The fields of `StartSettings`. */
const settingFields: FieldChecks = [
  tagsField,
  headersField,
  priorityField,
  laneField,
  ...timingFields,
];

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
    ...settingFields,
    ...conflictFields,
  ],
  detachedStarted: [
    operationField,
    nameField,
    ['version', isTextOrNull],
    ['childId', isText],
    ...settingFields,
    ...conflictFields,
  ],
  customStatusSet: [operationField],
  chunkEmitted: [operationField],
  stateSet: [operationField, ['key', isText]],
  tagsSet: [operationField, tagChangesField],
  patchMarked: [['id', isText]],
  awakeableCreated: [operationField],
  updateCompleted: [keyField],
  updateFailed: [keyField, failureField],
  operationWithdrawn: [
    ['target', isCount],
    targetKindField,
    triggerField,
    reasonField,
    ['childId', isTextOrAbsent],
    ['name', isTextOrAbsent],
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
  stepCompleted: [operationField, nameField, ...ranFields],
  stepFailed: [operationField, nameField, failureField, ...ranFields],
  stepRetried: [
    operationField,
    nameField,
    failureField,
    ['attempts', isCount],
    ['retryAt', isTime],
    ...ranFields,
  ],
  timerFired: [operationField],
  eventReceived: [nameField],
  childCompleted: [operationField],
  childFailed: [operationField, failureField],
  childCanceled: [operationField, reasonField, cancelTriggerField],
  detachedConfirmed: [operationField],
  detachedFailed: [operationField, failureField],
  awakeableResolved: [operationField],
  awakeableRejected: [operationField, failureField],
  updateAccepted: [keyField, nameField, ['deferred', isTrueOrAbsent]],
  cancelRequested: cancelFields,
};

const boundaryFields: Readonly<
  Record<ExecutionStarted['kind'] | TerminalEvent['kind'], FieldChecks>
> = {
  executionStarted: [
    nameField,
    ['version', isText],
    parentField,
    carriedField,
    cancelField,
    tagsField,
    headersField,
    priorityField,
    stateField,
    takenChildIdsField,
    inheritedField,
  ],
  executionCompleted: [],
  executionFailed: [failureField],
  executionCanceled: [reasonField],
  executionTerminated: [reasonField, ['actor', isTextOrNull]],
  executionContinuedAsNew: [['version', isText], carriedField, cancelField, tagsField, stateField],
};

const commandKinds: ReadonlySet<string> = new Set(Object.keys(commandFields));
const incomingKinds: ReadonlySet<string> = new Set(Object.keys(incomingFields));
const checksByKind: ReadonlyMap<string, FieldChecks> = new Map(
  Object.entries({ ...commandFields, ...incomingFields, ...boundaryFields }),
);

/** Whether a text is the kind of an event. */
export function isEventKind(kind: string): kind is HistoryEvent['kind'] {
  return checksByKind.has(kind);
}

/** Answers of work that ran to its end; the others are of work that was canceled. */
export const finishedAnswers: ReadonlySet<string> = new Set<AnswerEvent['kind']>([
  'activityCompleted',
  'activityFailed',
  'stepCompleted',
  'stepFailed',
  'timerFired',
  'childCompleted',
  'childFailed',
  'detachedConfirmed',
  'detachedFailed',
  'awakeableResolved',
  'awakeableRejected',
]);

/** Whether an event is a command of the code. */
export function isCommand(event: HistoryEvent): event is CommandEvent {
  return commandKinds.has(event.kind);
}

/** Whether an event came from outside. */
export function isIncoming(event: HistoryEvent): event is IncomingEvent {
  return incomingKinds.has(event.kind);
}

/** An event as a store keeps it. Its columns are opaque to the store. */
export interface StoredEvent {
  readonly kind: string;
  readonly at: number;
  /** The remaining small fields, as JSON text. */
  readonly data: string;
  readonly payload: Payload | null;
}

/** Encodes an event for a store. */
export function encodeEvent(event: HistoryEvent): StoredEvent {
  const {
    kind,
    at,
    payload = null,
    ...rest
  } = event as HistoryEvent & { payload?: Payload | null };
  return { kind, at, data: JSON.stringify(rest), payload };
}

/** Decodes a stored event. Throws `UNDECODABLE` for an invalid one, and `CODEC_FAILED` for one that is still encoded. */
export function decodeEvent(stored: StoredEvent): HistoryEvent {
  const checks = checksByKind.get(stored.kind);
  const fields = checks && decodeFields(stored.data, checks);
  if (fields === undefined || !isTime(stored.at)) {
    throw new PerdureError(
      'UNDECODABLE',
      `A stored event of kind ${JSON.stringify(stored.kind)} cannot be decoded: it is damaged, or a newer version wrote it.`,
    );
  }
  assertDecoded(stored.payload, fields);
  return { ...fields, kind: stored.kind, at: stored.at, payload: stored.payload } as HistoryEvent;
}
