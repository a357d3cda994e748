import type { CommandEvent, HistoryEvent } from '../model/event.ts';
import { canonicalPayload, type Payload } from '../model/payload.ts';

/**
 * Says whether the command that the code issued is the one that history records. Compared are kind, place,
 * name, child id and input; not what may change without changing the course of the code: the time of a timer,
 * retry options, the version of a child, the text of a custom status.
 */
export function isSameCommand(recorded: CommandEvent, issued: CommandEvent): boolean {
  switch (recorded.kind) {
    case 'operationWithdrawn':
      return issued.kind === recorded.kind && issued.target === recorded.target;
    case 'timerCreated':
    case 'customStatusSet':
      return issued.kind === recorded.kind && issued.operation === recorded.operation;
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
        isSamePayload(recorded.payload, issued.payload)
      );
    case 'childScheduled':
    case 'detachedStarted':
      return (
        issued.kind === recorded.kind &&
        issued.operation === recorded.operation &&
        issued.name === recorded.name &&
        issued.childId === recorded.childId &&
        isSamePayload(recorded.payload, issued.payload)
      );
  }
}

/** Compares payloads as data: the order in which keys were written does not matter. */
export function isSamePayload(a: Payload | null, b: Payload | null): boolean {
  return a === b || canonicalPayload(a) === canonicalPayload(b);
}

/** Names an event in a sentence: "history records …". */
export function describeEvent(event: HistoryEvent): string {
  switch (event.kind) {
    case 'executionStarted':
      return `the start of '${event.name}' version '${event.version}'`;
    case 'activityScheduled':
      return `a call of activity '${event.name}' with ${describeInput(event.payload)}`;
    case 'timerCreated':
      return 'a timer';
    case 'eventAwaited':
      return `a wait for event '${event.name}'`;
    case 'childScheduled':
      return `the start of child '${event.name}' as '${event.childId}' with ${describeInput(event.payload)}`;
    case 'detachedStarted':
      return `the detached start of '${event.name}' as '${event.childId}' with ${describeInput(event.payload)}`;
    case 'customStatusSet':
      return 'a custom status';
    case 'operationWithdrawn':
      return `the withdrawal of operation ${event.target}`;
    case 'activityCompleted':
    case 'childCompleted':
      return `the result of operation ${event.operation}`;
    case 'activityFailed':
    case 'childFailed':
      return `the failure of operation ${event.operation}`;
    case 'timerFired':
      return `the timer of operation ${event.operation} firing`;
    case 'eventReceived':
      return `the arrival of event '${event.name}'`;
    case 'executionCompleted':
      return `that it returned ${clip(event.payload ?? 'nothing')}`;
    case 'executionFailed':
      return `that it failed with ${clip(`${event.failure.name}: ${event.failure.message}`)}`;
    case 'executionContinuedAsNew':
      return `that it continued as new with ${describeInput(event.payload)}`;
  }
}

function describeInput(payload: Payload | null): string {
  return payload === null ? 'no input' : `input ${clip(payload)}`;
}

function clip(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`;
}
