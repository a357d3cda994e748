import type { ExecutionStarted, TerminalEvent } from '../model/event.ts';
import type { StartMessage } from '../model/message.ts';
import { isSamePayload } from './command-matching.ts';

/** Says whether the code ended as history records; stacks, causes and carried events are not compared. */
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
  }
}

/** The first event of an execution, from the message that begins it. */
export function toStarted(message: StartMessage, version: string, at: number): ExecutionStarted {
  const { name, payload, parent, carried } = message;
  return {
    kind: 'executionStarted',
    at,
    name,
    version,
    payload,
    ...(parent !== undefined && { parent }),
    ...(carried !== undefined && { carried }),
  };
}
