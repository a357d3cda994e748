import type { CommandEvent, HistoryEvent, TerminalEvent } from '../../model/event.ts';
import type { EventSummary } from '../../model/failures/blocked.ts';
import type { RecordedConflict } from '../../model/admission-options.ts';
import { canonicalPayload, type Payload } from '../../model/values/payload.ts';

interface Cancelable {
  readonly cancellation?: 'wait' | 'abandon';
  readonly shielded?: true;
}

/**
 * Whether an issued command is the recorded one. Compared: kind, operation number, name, child id, input, event of a start,
 * `onConflict`, state, cancellation type, shielding, and the target and trigger of a withdrawal. Not compared, because a change does not affect the code:
 * the time of a timer, retry options, the version and tags of a child, the custom status, chunks, tags, the token of an
 * awakeable, the reply of an update, the reason of a withdrawal.
 */
export function isSameCommand(recorded: CommandEvent, issued: HistoryEvent): boolean {
  switch (recorded.kind) {
    case 'operationWithdrawn':
      return (
        issued.kind === recorded.kind &&
        issued.target === recorded.target &&
        issued.trigger === recorded.trigger &&
        issued.abandoned === recorded.abandoned
      );
    case 'timerCreated':
    case 'customStatusSet':
    case 'chunkEmitted':
    case 'tagsSet':
    case 'awakeableCreated':
      return issued.kind === recorded.kind && issued.operation === recorded.operation;
    case 'stateSet':
      return (
        issued.kind === recorded.kind &&
        issued.operation === recorded.operation &&
        issued.key === recorded.key &&
        isSamePayload(recorded.payload, issued.payload)
      );
    case 'patchMarked':
      return issued.kind === recorded.kind && issued.id === recorded.id;
    case 'updateCompleted':
    case 'updateFailed':
      return issued.kind === recorded.kind && issued.key === recorded.key;
    case 'eventAwaited':
      return (
        issued.kind === recorded.kind &&
        issued.operation === recorded.operation &&
        issued.name === recorded.name
      );
    case 'activityScheduled':
      return (
        issued.kind === recorded.kind &&
        issued.operation === recorded.operation &&
        issued.name === recorded.name &&
        isCanceledAlike(recorded, issued) &&
        isSamePayload(recorded.payload, issued.payload)
      );
    case 'childScheduled':
      return (
        issued.kind === recorded.kind &&
        issued.operation === recorded.operation &&
        issued.name === recorded.name &&
        issued.childId === recorded.childId &&
        isCanceledAlike(recorded, issued) &&
        isSameConflict(recorded, issued) &&
        isSamePayload(recorded.payload, issued.payload)
      );
    case 'detachedStarted':
      return (
        issued.kind === recorded.kind &&
        issued.operation === recorded.operation &&
        issued.name === recorded.name &&
        issued.childId === recorded.childId &&
        isSameConflict(recorded, issued) &&
        isSamePayload(recorded.payload, issued.payload)
      );
  }
}

/**
 * Whether the code ended as recorded. Not compared: stacks, causes, cancel reasons, and what the next execution
 * gets.
 */
export function isSameOutcome(recorded: TerminalEvent, actual: TerminalEvent): boolean {
  switch (recorded.kind) {
    case 'executionCompleted':
      return actual.kind === recorded.kind && isSamePayload(recorded.payload, actual.payload);
    case 'executionContinuedAsNew':
      return (
        actual.kind === recorded.kind &&
        actual.version === recorded.version &&
        isSamePayload(recorded.payload, actual.payload)
      );
    case 'executionFailed':
      return (
        actual.kind === recorded.kind &&
        actual.failure.name === recorded.failure.name &&
        actual.failure.message === recorded.failure.message
      );
    case 'executionCanceled':
    case 'executionTerminated':
      return actual.kind === recorded.kind;
  }
}

function isSameConflict(a: RecordedConflict, b: RecordedConflict): boolean {
  return (
    a.onConflict === b.onConflict &&
    a.event?.name === b.event?.name &&
    isSamePayload(a.event?.payload ?? null, b.event?.payload ?? null)
  );
}

function isCanceledAlike(a: Cancelable, b: Cancelable): boolean {
  return a.cancellation === b.cancellation && a.shielded === b.shielded;
}

/** Compares payloads as data: key order does not matter. */
function isSamePayload(a: Payload | null, b: Payload | null): boolean {
  return a === b || canonicalPayload(a) === canonicalPayload(b);
}

/** Describes an event for the sentence "history records …". */
export function describeEvent(event: HistoryEvent): string {
  switch (event.kind) {
    case 'executionStarted':
      return `the start of ${JSON.stringify(event.name)} version ${JSON.stringify(event.version)}`;
    case 'activityScheduled':
      return `a call of activity ${JSON.stringify(event.name)} with ${describeInput(event.payload)}${describeCancel(event)}`;
    case 'timerCreated':
      return 'a timer';
    case 'eventAwaited':
      return `a wait for event ${JSON.stringify(event.name)}`;
    case 'childScheduled':
      return `the start of child ${JSON.stringify(event.name)} as ${JSON.stringify(event.childId)} with ${describeInput(event.payload)}${describeCancel(event)}`;
    case 'detachedStarted':
      return `the detached start of ${JSON.stringify(event.name)} as ${JSON.stringify(event.childId)} with ${describeInput(event.payload)}`;
    case 'customStatusSet':
      return 'a custom status';
    case 'chunkEmitted':
      return 'a chunk of the stream';
    case 'stateSet':
      return event.payload === null
        ? `the deletion of state ${JSON.stringify(event.key)}`
        : `state ${JSON.stringify(event.key)} set to ${clip(event.payload)}`;
    case 'tagsSet':
      return 'a change of tags';
    case 'patchMarked':
      return `patch ${JSON.stringify(event.id)}`;
    case 'stepCompleted':
    case 'stepFailed':
    case 'stepRetried':
      return `step ${JSON.stringify(event.name)} as operation ${event.operation}`;
    case 'awakeableCreated':
      return 'an awakeable';
    case 'updateAccepted':
      return `update ${JSON.stringify(event.name)}`;
    case 'updateCompleted':
      return `the reply to update ${JSON.stringify(event.key)}`;
    case 'updateFailed':
      return `the failure of update ${JSON.stringify(event.key)}`;
    case 'operationWithdrawn':
      return `the withdrawal of operation ${event.target} (${event.trigger}${event.abandoned === true ? ', abandoned' : ''})`;
    case 'activityCompleted':
    case 'childCompleted':
    case 'awakeableResolved':
      return `the result of operation ${event.operation}`;
    case 'activityFailed':
    case 'childFailed':
    case 'awakeableRejected':
      return `the failure of operation ${event.operation}`;
    case 'activityCanceled':
    case 'childCanceled':
      return `the cancellation of operation ${event.operation}`;
    case 'detachedConfirmed':
      return `the confirmation of the detached start of operation ${event.operation}`;
    case 'detachedFailed':
      return `that the instance id of operation ${event.operation} is taken`;
    case 'cancelRequested':
      return `a cancel request: ${clip(event.reason)}`;
    case 'timerFired':
      return `the timer of operation ${event.operation} firing`;
    case 'eventReceived':
      return `the arrival of event ${JSON.stringify(event.name)}`;
    case 'executionCompleted':
      return `that it returned ${clip(event.payload ?? 'nothing')}`;
    case 'executionFailed':
      return `that it failed with ${clip(`${event.failure.name}: ${event.failure.message}`)}`;
    case 'executionCanceled':
      return `that it was canceled: ${clip(event.reason)}`;
    case 'executionTerminated':
      return `that it was terminated: ${clip(event.reason)}`;
    case 'executionContinuedAsNew':
      return `that it continued as new with ${describeInput(event.payload)}`;
  }
}

/** Labels an event without its payload, for logs: `activity "chargeCard"`. */
export function labelEvent(event: HistoryEvent): string {
  switch (event.kind) {
    case 'executionStarted':
      return `start of ${JSON.stringify(event.name)} version ${JSON.stringify(event.version)}`;
    case 'activityScheduled':
      return `activity ${JSON.stringify(event.name)}`;
    case 'timerCreated':
      return 'timer';
    case 'eventAwaited':
      return `wait for event ${JSON.stringify(event.name)}`;
    case 'childScheduled':
      return `child ${JSON.stringify(event.name)}`;
    case 'detachedStarted':
      return `detached start of ${JSON.stringify(event.name)}`;
    case 'customStatusSet':
      return 'custom status';
    case 'chunkEmitted':
      return 'chunk';
    case 'stateSet':
      return `state ${JSON.stringify(event.key)}`;
    case 'tagsSet':
      return 'change of tags';
    case 'patchMarked':
      return `patch ${JSON.stringify(event.id)}`;
    case 'stepCompleted':
    case 'stepFailed':
    case 'stepRetried':
      return `step ${JSON.stringify(event.name)}`;
    case 'awakeableCreated':
      return 'awakeable';
    case 'updateAccepted':
      return `update ${JSON.stringify(event.name)}`;
    case 'updateCompleted':
    case 'updateFailed':
      return `reply to update ${JSON.stringify(event.key)}`;
    case 'operationWithdrawn':
      return `withdrawal of operation ${event.target}`;
    case 'activityCompleted':
    case 'activityFailed':
    case 'activityCanceled':
    case 'childCompleted':
    case 'childFailed':
    case 'childCanceled':
    case 'detachedConfirmed':
    case 'detachedFailed':
    case 'awakeableResolved':
    case 'awakeableRejected':
      return `outcome of operation ${event.operation}`;
    case 'timerFired':
      return `timer of operation ${event.operation} fired`;
    case 'eventReceived':
      return `event ${JSON.stringify(event.name)}`;
    case 'cancelRequested':
      return 'cancel request';
    case 'executionCompleted':
      return 'end: completed';
    case 'executionFailed':
      return 'end: failed';
    case 'executionCanceled':
      return 'end: canceled';
    case 'executionTerminated':
      return 'end: terminated';
    case 'executionContinuedAsNew':
      return 'end: continued as new';
  }
}

/** Summarizes an event without its payload, for operators. */
export function summarizeEvent(event: HistoryEvent, text: string): EventSummary {
  return {
    kind: event.kind,
    ...('name' in event && { name: event.name }),
    ...('operation' in event && { operation: event.operation }),
    text,
  };
}

function describeInput(payload: Payload | null): string {
  return payload === null ? 'no input' : `input ${clip(payload)}`;
}

function describeCancel({ cancellation, shielded }: Cancelable): string {
  const words = [
    ...(cancellation === undefined ? [] : [`canceled as '${cancellation}'`]),
    ...(shielded === true ? ['in a shield'] : []),
  ];
  return words.length === 0 ? '' : `, ${words.join(', ')}`;
}

function clip(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`;
}
