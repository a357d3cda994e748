import type { CancelDetails } from '../model/cancel.ts';
import type { TerminalEvent, ExecutionStarted } from '../model/event.ts';
import { toFailure } from '../model/failures/failure.ts';
import type { StartMessage } from '../model/message.ts';
import { isCancellation, type CancelScope } from './cancellation/cancel-scope.ts';
import { isSamePayload } from './checks/command-matching.ts';
import type { OperationTable } from './operations.ts';

/** How an execution comes to its end: the request to stop, what the code decided, and what an end has to wait for. */
export class Ending {
  readonly #root: CancelScope;
  readonly #table: OperationTable;
  #cancel: CancelDetails | undefined;
  #isCleanupCut = false;
  #outcome: TerminalEvent | undefined;
  #isClosing = false;
  #isRecorded = false;

  constructor(root: CancelScope, table: OperationTable) {
    this.#root = root;
    this.#table = table;
  }

  /** The first request to stop. */
  get cancel(): CancelDetails | undefined {
    return this.#cancel;
  }

  /** Whether the code has returned, thrown or continued as new. */
  get isDecided(): boolean {
    return this.#outcome !== undefined;
  }

  /** Whether history has its terminal event. */
  get isRecorded(): boolean {
    return this.#isRecorded;
  }

  /** How the code has ended, if nothing in it would be cut off by recording that now. */
  get outcome(): TerminalEvent | undefined {
    const isHeld = this.#outcome === undefined || this.#table.mustWait || this.#root.holdsShield;
    return isHeld ? undefined : this.#outcome;
  }

  requestCancel({ reason, actor }: CancelDetails): void {
    this.#cancel = { reason, actor };
    this.#root.cancel({ trigger: 'cancel', reason });
  }

  /** A shield was cut off by its deadline. */
  shieldExpired(): void {
    if (this.#cancel !== undefined) this.#isCleanupCut = true;
  }

  /** The first decision stands. */
  decide(outcome: TerminalEvent): void {
    this.#outcome ??= outcome;
  }

  /** Cancels all that an end need not wait for, once, if there is something that it has to wait for. */
  close(): boolean {
    const outcome = this.#outcome;
    if (outcome === undefined || this.#isClosing || this.outcome !== undefined) return false;
    this.#isClosing = true;
    this.#root.cancel({ trigger: 'cancel', reason: reasonOfEnd(outcome) });
    return true;
  }

  /** The outcome at the time at which it is recorded, which may be long after the code ended. */
  outcomeAt(at: number): TerminalEvent | undefined {
    const { outcome } = this;
    if (outcome === undefined) return undefined;
    return outcome.kind === 'executionCanceled' && this.#isCleanupCut
      ? { ...outcome, at, cleanupSkipped: true }
      : { ...outcome, at };
  }

  markRecorded(outcome: TerminalEvent): void {
    this.#outcome = outcome;
    this.#isRecorded = true;
  }
}

/**
 * Says whether the code ended as history records; stacks, causes, reasons of a cancel and what is carried into the
 * next execution are not compared.
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

/** The first event of an execution, from the message that begins it. */
export function toStarted(message: StartMessage, version: string, at: number): ExecutionStarted {
  const { name, payload, parent, carried, cancel } = message;
  return {
    kind: 'executionStarted',
    at,
    name,
    version,
    payload,
    ...(parent !== undefined && { parent }),
    ...(carried !== undefined && { carried }),
    ...(cancel !== undefined && { cancel }),
  };
}

/** How code ends that threw: an instance that was asked to stop has done so if it was stopped by nothing else. */
export function toThrown(
  error: unknown,
  cancel: CancelDetails | undefined,
  at: number,
): TerminalEvent {
  return cancel !== undefined && isCancellation(error)
    ? { kind: 'executionCanceled', at, reason: cancel.reason }
    : { kind: 'executionFailed', at, failure: toFailure(error) };
}

/** The end of a canceling execution whose time for the clean-up is over. */
export function toSkipped({ reason }: CancelDetails, at: number): TerminalEvent {
  return { kind: 'executionCanceled', at, reason, cleanupSkipped: true };
}

/** Says whether an execution was ended without its code: by the store, or because its clean-up took too long. */
export function isInterruption(outcome: TerminalEvent, eventId: number): boolean {
  return (
    outcome.kind === 'executionTerminated' ||
    (outcome.kind === 'executionCanceled' && (outcome.cleanupSkipped === true || eventId === 1))
  );
}

/** Why what is outstanding at the end of an execution is stopped, in the words that stores use. */
export function reasonOfEnd(outcome: TerminalEvent): string {
  switch (outcome.kind) {
    case 'executionCompleted':
      return 'completed';
    case 'executionFailed':
      return 'failed';
    case 'executionCanceled':
      return 'canceled';
    case 'executionTerminated':
      return 'terminated';
    case 'executionContinuedAsNew':
      return 'continued as new';
  }
}
