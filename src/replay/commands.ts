import { createHash } from 'node:crypto';
import type { ActivityOptions } from '../model/work-item-options.ts';
import type { CancellationType } from '../model/cancel.ts';
import type { AnswerEvent, CommandEvent } from '../model/event.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { maxIdBytes } from '../model/values/names.ts';
import type { Payload } from '../model/values/payload.ts';
import { toCanceledError, type CancelScope, type Withdrawal } from './cancellation/cancel-scope.ts';
import { DurablePromise } from './durable-promise.ts';
import {
  Operation,
  type OperationTable,
  type OperationOptions,
  type OperationOwner,
} from './operations.ts';

/** What commands need of their execution. */
export interface CommandHost {
  readonly instanceId: string;
  readonly executionId: number;
  readonly nowMs: number;
  /** How many events the code was given so far. */
  readonly steps: number;
  /** The scope that the calling code runs in. Throws outside a turn. */
  enter(what: string, name?: string): CancelScope;
  /** Whether the code of a scope has nothing more to decide. */
  hasEnded(scope: CancelScope): boolean;
  record(command: CommandEvent): void;
  /** Records the answer to an operation, if it arrived together with what is being applied. */
  recordArrived(operation: Operation): AnswerEvent | undefined;
  /** The code cannot go on: the instance fails. */
  breakWith(error: PerdureError): void;
}

interface StartOptions {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
}

// More than any list that is mapped to calls, and about a second of a loop that ignores its cancellation.
const maxRefusals = 100_000;

/**
 * What the code can decide. Each method takes its place in history synchronously. In a canceled scope operations
 * are refused at once. Once the execution is over, nothing is recorded any more and what is returned never settles.
 */
export class Commands implements OperationOwner {
  readonly #host: CommandHost;
  readonly #table: OperationTable;
  #operations = 0;
  #lastWhat: string | undefined;
  #lastName = '';
  #refusals = 0;
  #refusedInStep = 0;

  constructor(host: CommandHost, table: OperationTable) {
    this.#host = host;
    this.#table = table;
  }

  /** The last operation that the code issued, in words. */
  get lastOperation(): string | undefined {
    if (this.#lastWhat === undefined) return undefined;
    return `${describe(this.#lastWhat, this.#lastName)}, operation ${this.#operations}`;
  }

  callActivity(call: {
    readonly name: string;
    readonly payload: Payload | null;
    readonly options?: ActivityOptions | undefined;
    readonly cancellation?: CancellationType | undefined;
  }): DurablePromise<unknown> {
    const { name, payload, options, cancellation } = call;
    const scope = this.#host.enter('activity', name);
    const refusal = this.#refuse(scope);
    if (refusal !== undefined) return refusal;
    const operation = this.#open({ kind: 'activity', name, scope, cancellation });
    this.#host.record(
      withCancelFields(operation, {
        kind: 'activityScheduled',
        at: this.#host.nowMs,
        operation: operation.id,
        name,
        payload,
        ...(options !== undefined && { options }),
      }),
    );
    this.#table.add(operation);
    return operation.promise;
  }

  /** `absolute`: the code named this moment, and not how long to wait. */
  startTimer(fireAt: number, absolute = false): DurablePromise<void> {
    const scope = this.#host.enter('timer');
    const refusal = this.#refuse<void>(scope);
    if (refusal !== undefined) return refusal;
    const operation = this.#createTimer(scope, fireAt, absolute);
    this.#table.add(operation);
    return operation.promise as DurablePromise<void>;
  }

  /** The timer that cancels a scope: the scope waits neither for it nor with it. */
  startDeadline(scope: CancelScope, fireAt: number): Operation {
    const operation = this.#createTimer(scope, fireAt, false);
    this.#table.addUnscoped(operation);
    return operation;
  }

  /** Waits for an external event; one that has already arrived is taken at once. */
  awaitEvent(name: string, parse?: (payload: unknown) => unknown): DurablePromise<unknown> {
    const scope = this.#host.enter('event', name);
    const refusal = this.#refuse(scope);
    if (refusal !== undefined) return refusal;
    const operation = this.#open({ kind: 'event', name, scope, parse });
    this.#host.record({
      kind: 'eventAwaited',
      at: this.#host.nowMs,
      operation: operation.id,
      name,
    });
    this.#table.addWait(operation);
    return operation.promise;
  }

  startChild(
    start: StartOptions & {
      readonly id?: string | undefined;
      readonly cancellation?: CancellationType | undefined;
    },
  ): DurablePromise<unknown> {
    const { name, version, payload, cancellation } = start;
    const scope = this.#host.enter('child', name);
    const refusal = this.#refuse(scope);
    if (refusal !== undefined) return refusal;
    const { instanceId, executionId, nowMs } = this.#host;
    const next = this.#operations + 1;
    const childId = start.id ?? defaultChildId({ instanceId, executionId, operation: next });
    const operation = this.#open({ kind: 'child', name, scope, cancellation, childId });
    this.#host.record(
      withCancelFields(operation, {
        kind: 'childScheduled',
        at: nowMs,
        operation: operation.id,
        name,
        version,
        childId,
        payload,
      }),
    );
    this.#table.add(operation);
    return operation.promise;
  }

  /** Resolves with the id once the store has the instance. A cancel of the wait leaves the instance alone. */
  startDetached(start: StartOptions & { readonly id: string }): DurablePromise<string> {
    const { name, version, payload, id } = start;
    const scope = this.#host.enter('startDetached', name);
    const refusal = this.#refuse<string>(scope);
    if (refusal !== undefined) return refusal;
    const operation = this.#open({
      kind: 'detached',
      name,
      scope,
      cancellation: 'abandon',
      childId: id,
    });
    this.#host.record({
      kind: 'detachedStarted',
      at: this.#host.nowMs,
      operation: operation.id,
      name,
      version,
      childId: id,
      payload,
    });
    this.#table.add(operation);
    return operation.promise as DurablePromise<string>;
  }

  /** Also in a canceled scope: it starts nothing, and may tell how the clean-up gets on. */
  setCustomStatus(payload: Payload | null): void {
    if (this.#host.hasEnded(this.#host.enter('setCustomStatus'))) return;
    this.#host.record({
      kind: 'customStatusSet',
      at: this.#host.nowMs,
      operation: this.#next('custom status', ''),
      payload,
    });
  }

  /** The code gives an operation up; what has settled is left alone. */
  cancel(operation: Operation, withdrawal: Withdrawal): void {
    if (!this.#table.isPending(operation)) return;
    if (!this.#host.hasEnded(this.#host.enter('cancel'))) this.withdraw(operation, withdrawal);
  }

  /** Gives an outstanding operation up: R14, and R15 for one whose answer is already here. */
  withdraw(operation: Operation, withdrawal: Withdrawal): void {
    if (!this.#table.isPending(operation) || operation.withdrawal !== undefined) return;
    const answer = this.#host.recordArrived(operation);
    if (answer !== undefined) {
      this.#table.apply(answer);
      return;
    }
    const { childId } = operation;
    this.#host.record({
      kind: 'operationWithdrawn',
      at: this.#host.nowMs,
      target: operation.id,
      targetKind: operation.kind,
      ...withdrawal,
      ...(operation.kind === 'child' && childId !== undefined && { childId }),
      ...(operation.cancellation === 'abandon' && { abandoned: true }),
    });
    if (operation.cancellation === 'wait') {
      operation.withdrawal = withdrawal;
      return;
    }
    this.#table.remove(operation);
    operation.reject(toCanceledError(withdrawal));
  }

  /** What an operation gets that cannot be issued any more. */
  #refuse<T>(scope: CancelScope): DurablePromise<T> | undefined {
    const { canceled } = scope;
    if (canceled === undefined) {
      return this.#host.hasEnded(scope) ? DurablePromise.never() : undefined;
    }
    if (this.#refusedInStep !== this.#host.steps) this.#refusals = 0;
    this.#refusedInStep = this.#host.steps;
    this.#refusals += 1;
    if (this.#refusals <= maxRefusals) return DurablePromise.rejected(toCanceledError(canceled));
    this.#host.breakWith(ignoresCancellation(this.#host.instanceId));
    return DurablePromise.never();
  }

  #createTimer(scope: CancelScope, fireAt: number, absolute: boolean): Operation {
    const operation = this.#open({ kind: 'timer', name: '', scope });
    this.#host.record({
      kind: 'timerCreated',
      at: this.#host.nowMs,
      operation: operation.id,
      fireAt,
      ...(absolute && { absolute }),
    });
    return operation;
  }

  #open(options: Omit<OperationOptions, 'id' | 'owner'>): Operation {
    const id = this.#next(options.kind, options.name);
    return new Operation({ ...options, id, owner: this });
  }

  // Words are put together only when an error needs them.
  #next(what: string, name: string): number {
    this.#operations += 1;
    this.#lastWhat = what;
    this.#lastName = name;
    return this.#operations;
  }
}

/** An operation in words. */
export function describe(what: string, name: string): string {
  return name === '' ? what : `${what} '${name}'`;
}

/** Adds how an operation is canceled, if that is not as usual. */
function withCancelFields<T extends CommandEvent>(operation: Operation, event: T): T {
  const { cancellation, scope } = operation;
  const { isShielded } = scope;
  if (cancellation === 'request' && !isShielded) return event;
  return {
    ...event,
    ...(cancellation !== 'request' && { cancellation }),
    ...(isShielded && { shielded: true }),
  };
}

function ignoresCancellation(instanceId: string): PerdureError {
  return new PerdureError(
    'CANCEL_IGNORED',
    `Instance '${instanceId}' was refused ${maxRefusals} operations in a row, because their scope is canceled: its code catches the CanceledError and goes on. Let the error end the loop, and clean up in ctx.shield().`,
  );
}

/**
 * The id of a child that the code gave none: unique per operation and per execution, so that a child after a
 * continue-as-new never meets one from before. A long parent id is shortened to its beginning and its hash.
 */
export function defaultChildId(parent: {
  readonly instanceId: string;
  readonly executionId: number;
  readonly operation: number;
}): string {
  const suffix = `/${parent.executionId}.${parent.operation}`;
  if (Buffer.byteLength(parent.instanceId) + suffix.length <= maxIdBytes) {
    return parent.instanceId + suffix;
  }
  const hash = createHash('sha256').update(parent.instanceId).digest('base64url');
  return `${cutToBytes(parent.instanceId, 600)}~${hash}${suffix}`;
}

function cutToBytes(text: string, bytes: number): string {
  const cut = Buffer.from(text).subarray(0, bytes).toString();
  // A character cut in half decodes to the replacement character.
  return cut.endsWith('\ufffd') ? cut.slice(0, -1) : cut;
}
