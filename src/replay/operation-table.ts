import { CanceledError, FailedError, PerdureError } from '../model/failures/errors.ts';
import type { AnswerEvent } from '../model/event.ts';
import { isEndedBy, toError, type Failure } from '../model/failures/failure.ts';
import { decodePayload, type Payload } from '../model/values/payload.ts';
import { EventInbox } from './event-inbox.ts';
import type { Operation, OperationKind } from './operation.ts';
import { Unawaited } from './checks/unawaited.ts';
import { toCanceledError, type Withdrawal } from './cancellation/withdrawal.ts';

const answers: Readonly<Record<AnswerEvent['kind'], OperationKind>> = {
  activityCompleted: 'activity',
  activityFailed: 'activity',
  activityCanceled: 'activity',
  timerFired: 'timer',
  childCompleted: 'child',
  childFailed: 'child',
  childCanceled: 'child',
  detachedConfirmed: 'detached',
  detachedFailed: 'detached',
};

/** Says whether an answer is one that an operation of this kind can have. */
export function isAnswerTo(operation: Operation, answer: { readonly kind: string }): boolean {
  return (answers as Readonly<Record<string, OperationKind>>)[answer.kind] === operation.kind;
}
// Measured: 820 bytes for an operation that is awaited; for a small result 58 when the code keeps the value only,
// 375 when it also keeps the promise.
const pendingBytes = 820;
const resultBytes = 128;

/** The operations that wait for an answer, and the external events that wait for an operation. */
export class OperationTable {
  readonly inbox = new EventInbox();
  readonly #pending = new Map<number, Operation>();
  readonly #unawaited = new Unawaited();
  #mustAnswer = 0;
  #resultBytes = 0;

  /** How many operations are outstanding. */
  get size(): number {
    return this.#pending.size;
  }

  /** Whether operations are outstanding whose answers an end has to wait for. */
  get mustWait(): boolean {
    return this.#mustAnswer > 0;
  }

  /** A rough estimate of the memory behind results and waits: the code may hold every result it was given. */
  get sizeBytes(): number {
    return this.#resultBytes + this.#pending.size * pendingBytes;
  }

  /** The operations that the code has not awaited so far, in words. */
  neverAwaited(): readonly string[] {
    return this.#unawaited.describe(this.#pending.values());
  }

  isPending(operation: Operation): boolean {
    return this.#pending.get(operation.id) === operation;
  }

  add(operation: Operation): void {
    this.addUnscoped(operation);
    operation.scope.add(operation);
  }

  /** Adds an operation that its scope does not have to withdraw or wait for. */
  addUnscoped(operation: Operation): void {
    this.#pending.set(operation.id, operation);
    if (operation.cancellation === 'wait') this.#mustAnswer += 1;
  }

  remove(operation: Operation): void {
    this.#pending.delete(operation.id);
    if (operation.cancellation === 'wait') this.#mustAnswer -= 1;
    if (operation.kind === 'event') this.inbox.forget(operation);
    operation.scope.remove(operation);
    this.#unawaited.settle(operation);
  }

  /** Makes a wait take the event that is already there; otherwise it stays outstanding. */
  addWait(operation: Operation): void {
    const event = this.inbox.take(operation.name);
    if (event === undefined) {
      this.add(operation);
      this.inbox.wait(operation);
    } else {
      operation.receive(decodePayload(event.payload));
      this.#unawaited.settle(operation);
    }
  }

  /** Says whether an answer has an outstanding operation of its kind. */
  isAnswerable(answer: { readonly kind: string; readonly operation: number }): boolean {
    const operation = this.#pending.get(answer.operation);
    return operation !== undefined && isAnswerTo(operation, answer);
  }

  /** Settles the operation that an event answers. */
  apply(event: AnswerEvent): void {
    const operation = this.#pending.get(event.operation);
    if (operation === undefined) return;
    switch (event.kind) {
      case 'activityCompleted':
      case 'childCompleted':
        this.#count(event.payload);
        operation.resolve(decodePayload(event.payload));
        break;
      case 'timerFired':
        operation.resolve(undefined);
        break;
      case 'activityFailed':
      case 'childFailed':
        operation.reject(toFailedError(operation, event.failure));
        break;
      case 'activityCanceled':
        operation.reject(toCanceled(operation, event));
        break;
      case 'detachedConfirmed':
        operation.resolve(operation.childId);
        break;
      case 'detachedFailed':
        operation.reject(new PerdureError('INSTANCE_ALREADY_EXISTS', event.failure.message));
        break;
      case 'childCanceled': {
        const { trigger } = operation.withdrawal ?? { trigger: 'cancel' };
        operation.reject(toCanceled(operation, { trigger, reason: event.reason }));
        break;
      }
    }
    this.remove(operation);
  }

  /** Hands an external event to the oldest wait for its name, or keeps it. */
  receive(name: string, payload: Payload | null): void {
    this.#count(payload);
    const operation = this.inbox.deliver(name, payload);
    if (operation === undefined) return;
    operation.receive(decodePayload(payload));
    this.remove(operation);
  }

  #count(payload: Payload | null): void {
    this.#resultBytes += resultBytes + (payload?.length ?? 0);
  }
}

/** What nobody here has asked for is a failure like any other; what was withdrawn is no more than that. */
function toCanceled(operation: Operation, canceled: Withdrawal): CanceledError {
  const { trigger, reason } = canceled;
  return operation.withdrawal === undefined
    ? new CanceledError(reason, trigger)
    : toCanceledError({ trigger, reason });
}

function toFailedError(operation: Operation, failure: Failure): FailedError {
  const isActivity = operation.kind === 'activity';
  const general = isActivity ? 'ACTIVITY_FAILED' : 'CHILD_FAILED';
  return new FailedError({
    code: isEndedBy(failure, 'TIMEOUT', 'POISON') ? failure.code : general,
    message: `${isActivity ? 'Activity' : 'Child orchestration'} '${operation.name}' failed: ${failure.message}`,
    subject: operation.name,
    failure,
    cause: toError(failure),
  });
}
