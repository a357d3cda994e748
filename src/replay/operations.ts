import type { CancellationType } from '../model/cancel.ts';
import type { AnswerEvent } from '../model/event.ts';
import {
  CanceledError,
  FailedError,
  PerdureError,
  type ErrorCode,
} from '../model/failures/errors.ts';
import { isEndedBy, toError, type Failure } from '../model/failures/failure.ts';
import { decodePayload, type Payload } from '../model/values/payload.ts';
import { toCanceledError, type CancelScope, type Withdrawal } from './cancellation/cancel-scope.ts';
import { Deferred, DurablePromise, type DurableSource } from './durable-promise.ts';
import { EventInbox } from './event-inbox.ts';

import type { StepCall } from './step-call.ts';

export type OperationKind =
  | 'activity'
  | 'timer'
  | 'event'
  | 'child'
  | 'detached'
  | 'step'
  | 'awakeable';

/** Withdraws operations and records it. */
export interface OperationOwner {
  /** Withdraws an operation at the request of the code. */
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
  /** Of a step: its closure and its attempts. */
  readonly step?: StepCall | undefined;
  /** Whether a retry or a fork copied the event that issued it. */
  readonly isInherited: boolean;
  /** Converts the payload of an event or awakeable to the value of its wait. Throws if the payload is invalid. */
  readonly parse?: ((payload: unknown) => unknown) | undefined;
}

/** A durable operation that the code has issued: a promise that its answer settles. */
export class Operation extends Deferred<unknown> implements DurableSource {
  readonly kind: OperationKind;
  readonly id: number;
  /** The name of the activity, event, child or detached instance; empty for a timer and an awakeable. */
  readonly name: string;
  /** The scope that issued it. */
  readonly scope: CancelScope;
  readonly cancellation: CancellationType;
  readonly childId: string | undefined;
  readonly step: StepCall | undefined;
  readonly isInherited: boolean;
  /** Why a `wait` operation was withdrawn, while its answer is outstanding. */
  withdrawal: Withdrawal | undefined;
  /** Of a child: whether another instance has its id. */
  isRefused = false;
  /** The line of code that issued it, if places are recorded. */
  place: string | undefined;
  /** The promise that the code has: its own, or one that also includes a timeout. */
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
    this.step = options.step;
    this.isInherited = options.isInherited;
    this.#owner = options.owner;
    this.#parse = options.parse;
    this.exposed = this.promise;
    DurablePromise.attach(this.promise, this);
  }

  /** Settles a wait with the payload of its event. An invalid payload rejects it; the event is consumed either way. */
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
  stepCompleted: 'step',
  stepFailed: 'step',
  stepRetried: 'step',
  timerFired: 'timer',
  childCompleted: 'child',
  childFailed: 'child',
  childCanceled: 'child',
  detachedConfirmed: 'detached',
  detachedFailed: 'detached',
  awakeableResolved: 'awakeable',
  awakeableRejected: 'awakeable',
};

/** Whether an answer fits the kind of the operation. */
export function isAnswerTo(operation: Operation, answer: { readonly kind: string }): boolean {
  return (answers as Readonly<Record<string, OperationKind>>)[answer.kind] === operation.kind;
}

// Measured: 1,340 bytes for an awaited operation, 1,600 with a timeout. A small result takes 9 bytes if the code drops it,
// 58 if it keeps the value, 375 with its promise.
const pendingBytes = 1_400;
const resultBytes = 64;

const noSteps: ReadonlyMap<number, Operation> = new Map();

/** The outstanding operations of an execution, and its buffered external events. */
export class OperationTable {
  readonly inbox = new EventInbox();
  readonly #pending = new Map<number, Operation>();
  /** Absent until the first one: most executions have none. */
  #steps: Map<number, Operation> | undefined;
  readonly #unawaited = new Unawaited();
  #mustAnswer = 0;
  #resultBytes = 0;

  /** The number of outstanding operations. */
  get size(): number {
    return this.#pending.size;
  }

  /** The steps without an outcome, by operation, in call order. */
  get steps(): ReadonlyMap<number, Operation> {
    return this.#steps ?? noSteps;
  }

  /** Whether a `wait` operation is outstanding, so that the execution cannot end yet (R17). */
  get mustWait(): boolean {
    return this.#mustAnswer > 0;
  }

  /** Estimated memory of operations and results; the code may keep every result. */
  get sizeBytes(): number {
    return this.#resultBytes + this.#pending.size * pendingBytes;
  }

  /** Describes the operations that the code has not awaited so far. */
  neverAwaited(): readonly string[] {
    return this.#unawaited.describe(this.#pending.values());
  }

  /** Returns where the code issued these operations, as far as places are recorded. */
  neverAwaitedPlaces(): readonly string[] {
    return this.#unawaited.list(this.#pending.values()).flatMap(({ place }) => place ?? []);
  }

  isPending(operation: Operation): boolean {
    return this.#pending.get(operation.id) === operation;
  }

  add(operation: Operation): void {
    this.addUnscoped(operation);
    operation.scope.add(operation);
  }

  /** Adds an operation that its scope neither withdraws nor waits for. */
  addUnscoped(operation: Operation): void {
    this.#pending.set(operation.id, operation);
    if (operation.kind === 'step') (this.#steps ??= new Map()).set(operation.id, operation);
    if (operation.cancellation === 'wait') this.#mustAnswer += 1;
  }

  remove(operation: Operation): void {
    this.#pending.delete(operation.id);
    if (operation.kind === 'step') this.#steps?.delete(operation.id);
    if (operation.cancellation === 'wait') this.#mustAnswer -= 1;
    if (operation.kind === 'event') this.inbox.forget(operation);
    operation.scope.remove(operation);
    this.#unawaited.settle(operation);
  }

  /** Settles a wait with a buffered event, or adds it as outstanding. */
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

  /** Whether an answer has an outstanding operation of its kind (R4). */
  isAnswerable(answer: {
    readonly kind: string;
    readonly operation: number;
    readonly name?: string;
  }): boolean {
    const operation = this.#pending.get(answer.operation);
    if (operation === undefined || !isAnswerTo(operation, answer)) return false;
    // No earlier event records the name of a step.
    return operation.kind !== 'step' || operation.name === answer.name;
  }

  /** Settles the operation of an answer. `isCopied`: a retry or a fork copied the event. */
  apply(event: AnswerEvent, isCopied = false): void {
    const operation = this.#pending.get(event.operation);
    if (operation === undefined) return;
    switch (event.kind) {
      case 'stepRetried':
        // A retry or a fork begins with fresh attempts.
        if (!isCopied) operation.step?.retried(event.attempts, event.retryAt);
        return;
      case 'activityCompleted':
      case 'stepCompleted':
      case 'childCompleted':
        this.#count(event.payload);
        operation.resolve(decodePayload(event.payload));
        break;
      case 'awakeableResolved':
        this.#count(event.payload);
        operation.receive(decodePayload(event.payload));
        break;
      case 'awakeableRejected':
        operation.reject(toRejectedError(event.failure));
        break;
      case 'timerFired':
        operation.resolve(undefined);
        break;
      case 'activityFailed':
      case 'stepFailed':
      case 'childFailed':
        operation.isRefused = isEndedBy(event.failure, 'INSTANCE_ALREADY_EXISTS');
        operation.reject(toFailedError(operation, event.failure));
        break;
      case 'activityCanceled':
        operation.reject(toCanceled(operation, event));
        break;
      case 'detachedConfirmed':
        operation.resolve(operation.childId);
        break;
      case 'detachedFailed':
        operation.reject(new PerdureError(detachedCode(event.failure), event.failure.message));
        break;
      case 'childCanceled': {
        const { trigger = 'cancel' } = operation.withdrawal ?? event;
        operation.reject(toCanceled(operation, { trigger, reason: event.reason }));
        break;
      }
    }
    this.remove(operation);
  }

  /** Delivers an external event to the oldest wait for its name, or buffers it. */
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

/** Only a withdrawal by this code is exempt from unhandled rejections (R10); a cancel from outside is a failure. */
function toCanceled(operation: Operation, canceled: Withdrawal): CanceledError {
  const { trigger, reason } = canceled;
  return operation.withdrawal === undefined
    ? new CanceledError(reason, trigger)
    : toCanceledError({ trigger, reason });
}

const failures = {
  activity: { what: 'Activity', general: 'ACTIVITY_FAILED' },
  child: { what: 'Child orchestration', general: 'CHILD_FAILED' },
  step: { what: 'Step', general: 'STEP_FAILED' },
} as const satisfies Partial<Record<OperationKind, { what: string; general: ErrorCode }>>;

// Histories record the message of an error that the code rethrows, and a replay compares it: do not change the text.
function toFailedError(operation: Operation, failure: Failure): FailedError {
  const { what, general } = failures[operation.kind as keyof typeof failures];
  return new FailedError({
    code: isEndedBy(failure, 'TIMEOUT', 'POISON') ? failure.code : general,
    message: `${what} '${operation.name}' failed: ${failure.message}`,
    subject: operation.name,
    failure,
    cause: toError(failure),
  });
}

/** The code of a detached start that failed: the id is taken, or its event was rejected. */
function detachedCode(failure: Failure): ErrorCode {
  return isEndedBy(failure, 'INSTANCE_OVER', 'EVENT_BUFFER_FULL')
    ? failure.code
    : 'INSTANCE_ALREADY_EXISTS';
}

function toRejectedError(failure: Failure): FailedError {
  return new FailedError({
    code: 'AWAKEABLE_REJECTED',
    message: `The awakeable was rejected: ${failure.message}`,
    subject: '',
    failure,
    cause: toError(failure),
  });
}

/** Number of settled operations from which those that were used since are removed. */
const firstSweep = 64;

/**
 * The operations whose promises the code has neither awaited, nor passed to a combinator, nor canceled. An operation that is
 * used before it settles, as nearly all are, is not stored.
 *
 * Excluded are operations in a scope or shield, which end with it, and `abandon` operations including detached starts, whose
 * work continues.
 */
class Unawaited {
  /** Operations that settled before they were used; some may have been used since. */
  #settled: Operation[] = [];
  #sweepAt = firstSweep;

  /** Adds an operation that has settled, unless it was used. */
  settle(operation: Operation): void {
    if (!isUnawaited(operation)) return;
    this.#settled.push(operation);
    if (this.#settled.length < this.#sweepAt) return;
    this.#settled = this.#settled.filter(isUnawaited);
    this.#sweepAt = Math.max(firstSweep, this.#settled.length * 2);
  }

  /** Describes the operations that were never awaited, in call order. */
  describe(outstanding: Iterable<Operation>): readonly string[] {
    return this.list(outstanding).map(({ kind, name, id }) =>
      name === '' ? `${kind} (operation ${id})` : `${kind} ${JSON.stringify(name)}`,
    );
  }

  /** The operations that were never awaited, in call order. */
  list(outstanding: Iterable<Operation>): readonly Operation[] {
    const candidates = [...this.#settled, ...outstanding];
    if (candidates.length === 0) return candidates;
    return candidates.filter(isUnawaited).sort((one, other) => one.id - other.id);
  }
}

function isUnawaited({ exposed: shown, cancellation, scope }: Operation): boolean {
  return !DurablePromise.isUsed(shown) && cancellation !== 'abandon' && scope.outer === undefined;
}

/** The error of an orchestration that ended without awaiting these operations. */
export function neverAwaited(
  instanceId: string,
  operations: readonly string[],
  places: readonly string[],
): PerdureError {
  const error = new PerdureError(
    'NEVER_AWAITED',
    `Instance ${JSON.stringify(instanceId)} ended without awaiting ${operations.join(', ')}. Await each durable operation, pass it to a combinator, or call it with { cancellation: 'abandon' } to let its work continue.`,
  );
  // In the stack, which a replay does not compare: a deploy may move the lines.
  if (places.length > 0)
    error.stack = [`${error.name}: ${error.message}`, ...places].join('\n    at ');
  return error;
}
