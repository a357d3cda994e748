import { toCancelDetails, type CancelDetails } from '../model/cancel.ts';
import type { TerminalEvent, ExecutionStarted } from '../model/event.ts';
import { toFailure } from '../model/failures/failure.ts';
import type { StartMessage } from '../model/message.ts';
import { isCancellation, type CancelScope, type Withdrawal } from './cancellation/cancel-scope.ts';
import type { OperationTable } from './operations.ts';

/** The end of an execution: the cancel request, the outcome of the code, and what the end waits for. */
export class Ending {
  readonly #root: CancelScope;
  readonly #table: OperationTable;
  #cancel: CancelDetails | undefined;
  #isCleanupSkipped = false;
  #outcome: TerminalEvent | undefined;
  #isClosing = false;
  #isRecorded = false;

  constructor(root: CancelScope, table: OperationTable) {
    this.#root = root;
    this.#table = table;
  }

  /** The first cancel request. */
  get cancel(): CancelDetails | undefined {
    return this.#cancel;
  }

  /** Whether the code has returned, thrown or continued as new. */
  get isDecided(): boolean {
    return this.#outcome !== undefined;
  }

  /** Whether the code has continued as new. */
  get isContinuing(): boolean {
    return this.#outcome?.kind === 'executionContinuedAsNew';
  }

  /** Whether the terminal event is recorded. */
  get isRecorded(): boolean {
    return this.#isRecorded;
  }

  /** The outcome of the code, once no open shield or `wait` operation delays it (R17). */
  get outcome(): TerminalEvent | undefined {
    const isHeld = this.#outcome === undefined || this.#table.mustWait || this.#root.holdsShield;
    return isHeld ? undefined : this.#outcome;
  }

  requestCancel(request: CancelDetails): void {
    this.#cancel = toCancelDetails(request);
    this.#root.cancel(toWithdrawal(request));
  }

  /** Notes that a shield was ended by its deadline. */
  shieldExpired(): void {
    if (this.#cancel !== undefined) this.#isCleanupSkipped = true;
  }

  /** Sets the outcome. The first call wins (R7). */
  decide(outcome: TerminalEvent): void {
    this.#outcome ??= outcome;
  }

  /** If the end must wait, cancels everything else, once. Returns whether it did. */
  close(): boolean {
    const outcome = this.#outcome;
    if (outcome === undefined || this.#isClosing || this.outcome !== undefined) return false;
    this.#isClosing = true;
    this.#root.cancel({ trigger: 'cancel', reason: reasonOfEnd(outcome) });
    return true;
  }

  /** Returns the outcome with the time of its recording, which may be later than the end of the code. */
  outcomeAt(at: number): TerminalEvent | undefined {
    const { outcome } = this;
    if (outcome === undefined) return undefined;
    return outcome.kind === 'executionCanceled' && this.#isCleanupSkipped
      ? { ...outcome, at, cleanupSkipped: true }
      : { ...outcome, at };
  }

  markRecorded(outcome: TerminalEvent): void {
    this.#outcome = outcome;
    this.#isRecorded = true;
  }
}

/** The withdrawal of everything that a cancel request reaches. */
export function toWithdrawal({ reason, trigger }: CancelDetails): Withdrawal {
  return { trigger: trigger ?? 'cancel', reason };
}

/** Creates the first event of an execution from its start message. */
export function toStarted(message: StartMessage, version: string, at: number): ExecutionStarted {
  const { name, payload, parent, carried, cancel, tags, state, takenChildIds } = message;
  const { headers, priority } = message;
  // Assigned one by one: spreads of optional fields take longer.
  const started: { -readonly [Field in keyof ExecutionStarted]: ExecutionStarted[Field] } = {
    kind: 'executionStarted',
    at,
    name,
    version,
    payload,
  };
  if (parent !== undefined) started.parent = parent;
  if (carried !== undefined) started.carried = carried;
  if (cancel !== undefined) started.cancel = cancel;
  if (tags !== undefined) started.tags = tags;
  if (headers !== undefined) started.headers = headers;
  if (priority !== undefined) started.priority = priority;
  if (state !== undefined) started.state = state;
  if (takenChildIds !== undefined) started.takenChildIds = takenChildIds;
  return started;
}

/** Creates the outcome of code that threw: canceled after a cancel request and a `CanceledError`, otherwise failed. */
export function toThrown(
  error: unknown,
  cancel: CancelDetails | undefined,
  at: number,
): TerminalEvent {
  return cancel !== undefined && isCancellation(error)
    ? { kind: 'executionCanceled', at, reason: cancel.reason }
    : { kind: 'executionFailed', at, failure: toFailure(error) };
}

/** Creates the outcome of a canceling execution whose clean-up limit has expired. */
export function toSkipped({ reason }: CancelDetails, at: number): TerminalEvent {
  return { kind: 'executionCanceled', at, reason, cleanupSkipped: true };
}

/** Whether an execution was ended without its code: by the store, or by the clean-up limit. */
export function isInterruption(outcome: TerminalEvent, eventId: number): boolean {
  return (
    outcome.kind === 'executionTerminated' ||
    (outcome.kind === 'executionCanceled' && (outcome.cleanupSkipped === true || eventId === 1))
  );
}

/** The reason of the cancels at the end of an execution; stores use the same words. */
function reasonOfEnd(outcome: TerminalEvent): string {
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
