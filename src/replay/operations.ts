import type { CancellationType } from '../model/cancel.ts';
import type { AnswerEvent } from '../model/event.ts';
import { CanceledError, FailedError, PerdureError } from '../model/failures/errors.ts';
import { isEndedBy, toError, type Failure } from '../model/failures/failure.ts';
import { decodePayload, type Payload } from '../model/values/payload.ts';
import { toCanceledError, type CancelScope, type Withdrawal } from './cancellation/cancel-scope.ts';
import { Deferred, DurablePromise, type DurableSource } from './durable-promise.ts';
import { EventInbox } from './event-inbox.ts';

export type OperationKind = 'activity' | 'timer' | 'event' | 'child' | 'detached';

/** Who can give an operation up: it has to record that it did. */
export interface OperationOwner {
  /** The code wants to give an operation up. */
  cancel(operation: Operation, withdrawal: Withdrawal): void;
}

export interface OperationOptions {
  readonly kind: OperationKind;
  readonly id: number;
  readonly name: string;
  readonly scope: CancelScope;
  readonly owner: OperationOwner;
  readonly cancellation?: CancellationType | undefined;
  readonly childId?: string | undefined;
  /** Makes the value of a wait from the payload of its event; throws for a payload that does not fit. */
  readonly parse?: ((payload: unknown) => unknown) | undefined;
}

/** A durable operation that the code has issued and that has not settled: it waits for its answer. */
export class Operation extends Deferred<unknown> implements DurableSource {
  readonly kind: OperationKind;
  readonly id: number;
  /** The name of the activity, event, child or detached instance; empty for a timer. */
  readonly name: string;
  /** Where the code issued it. */
  readonly scope: CancelScope;
  readonly cancellation: CancellationType;
  readonly childId: string | undefined;
  /** Why it was given up, while its answer is still awaited. */
  withdrawal: Withdrawal | undefined;
  /** The promise that the code was given: its own, or one over it and its deadline. */
  exposed: DurablePromise<unknown>;
  readonly #owner: OperationOwner;
  readonly #parse: ((payload: unknown) => unknown) | undefined;

  constructor(options: OperationOptions) {
    super();
    this.kind = options.kind;
    this.id = options.id;
    this.name = options.name;
    this.scope = options.scope;
    this.cancellation = options.cancellation ?? 'request';
    this.childId = options.childId;
    this.#owner = options.owner;
    this.#parse = options.parse;
    this.exposed = this.promise;
    DurablePromise.attach(this.promise, this);
  }

  /** Settles a wait with the payload of its event; one that does not fit rejects it. The event is taken either way. */
  receive(payload: unknown): void {
    if (this.#parse === undefined) {
      this.resolve(payload);
      return;
    }
    let value: unknown;
    try {
      value = this.#parse(payload);
    } catch (error) {
      this.reject(error);
      return;
    }
    this.resolve(value);
  }

  withdraw(withdrawal: Withdrawal): void {
    this.#owner.cancel(this, withdrawal);
  }
}

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

/** How many settled operations are kept before those that have been used meanwhile are let go. */
const firstSweep = 64;

/**
 * The operations of an execution whose promises the code has neither awaited, nor handed to a combinator, nor canceled.
 * Nothing is kept of an operation that is used before it settles, as nearly all are.
 *
 * Left out is what may be dropped on purpose: operations in a scope or shield, which end with it, and operations of type
 * `abandon`, detached starts among them, whose work goes on.
 */
export class Unawaited {
  /** Settled before they were used; some may have been used since. */
  #settled: Operation[] = [];
  #sweepAt = firstSweep;

  /** An operation is no longer outstanding. */
  settle(operation: Operation): void {
    if (!isUnawaited(operation)) return;
    this.#settled.push(operation);
    if (this.#settled.length < this.#sweepAt) return;
    this.#settled = this.#settled.filter(isUnawaited);
    this.#sweepAt = Math.max(firstSweep, this.#settled.length * 2);
  }

  /** What was never awaited, in words and in the order of the calls. */
  describe(outstanding: Iterable<Operation>): readonly string[] {
    return [...this.#settled, ...outstanding]
      .filter(isUnawaited)
      .sort((one, other) => one.id - other.id)
      .map(({ kind, name, id }) =>
        name === '' ? `${kind} (operation ${id})` : `${kind} ${JSON.stringify(name)}`,
      );
  }
}

function isUnawaited({ exposed: shown, cancellation, scope }: Operation): boolean {
  return !DurablePromise.isUsed(shown) && cancellation !== 'abandon' && scope.outer === undefined;
}

/** The error of an orchestration that ended before it used the outcome of these operations. */
export function neverAwaited(instanceId: string, operations: readonly string[]): PerdureError {
  return new PerdureError(
    'NEVER_AWAITED',
    `Instance ${JSON.stringify(instanceId)} ended without awaiting ${operations.join(', ')}. Await each durable operation, hand it to a combinator, or call it with { cancellation: 'abandon' } if its work is to go on.`,
  );
}
