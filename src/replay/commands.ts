import type { ActivityOptions } from '../model/activity-options.ts';
import type { CommandEvent } from '../model/event.ts';
import type { Payload } from '../model/payload.ts';
import { defaultChildId } from './child-id.ts';
import { DurablePromise, toCanceledError, type Withdrawal } from './durable-promise.ts';
import { Operation, type OperationKind, type OperationOwner } from './operation.ts';
import type { OperationTable } from './operation-table.ts';
import type { Scope } from './scope.ts';

/** What commands need of their execution. */
export interface CommandHost {
  readonly instanceId: string;
  readonly executionId: number;
  readonly nowMs: number;
  /** The scope that the calling code runs in; `undefined` once the execution is over. Throws outside a turn. */
  enter(what: string, name?: string): Scope | undefined;
  record(command: CommandEvent): void;
}

interface StartOptions {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
}

/**
 * What the code can decide. Each method takes its place in history synchronously. Once the execution is over,
 * nothing is recorded any more and what is returned never settles.
 */
export class Commands implements OperationOwner {
  readonly #host: CommandHost;
  readonly #table: OperationTable;
  #operations = 0;
  #lastWhat: string | undefined;
  #lastName = '';

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
  }): DurablePromise<unknown> {
    const { name, payload, options } = call;
    const operation = this.#open('activity', name);
    if (operation === undefined) return neverSettles();
    const at = this.#host.nowMs;
    this.#host.record({
      kind: 'activityScheduled',
      at,
      operation: operation.id,
      name,
      payload,
      ...(options !== undefined && { options }),
    });
    this.#table.add(operation);
    return operation.promise;
  }

  startTimer(fireAt: number): DurablePromise<void> {
    const operation = this.#open('timer', '');
    if (operation === undefined) return neverSettles();
    this.#host.record({
      kind: 'timerCreated',
      at: this.#host.nowMs,
      operation: operation.id,
      fireAt,
    });
    this.#table.add(operation);
    return operation.promise as DurablePromise<void>;
  }

  /** Waits for an external event; one that has already arrived is taken at once. */
  awaitEvent(name: string): DurablePromise<unknown> {
    const operation = this.#open('event', name);
    if (operation === undefined) return neverSettles();
    this.#host.record({
      kind: 'eventAwaited',
      at: this.#host.nowMs,
      operation: operation.id,
      name,
    });
    this.#table.addWait(operation);
    return operation.promise;
  }

  startChild(start: StartOptions & { readonly id?: string | undefined }): DurablePromise<unknown> {
    const operation = this.#open('child', start.name);
    if (operation === undefined) return neverSettles();
    const { instanceId, executionId, nowMs } = this.#host;
    this.#host.record({
      kind: 'childScheduled',
      at: nowMs,
      operation: operation.id,
      name: start.name,
      version: start.version,
      childId: start.id ?? defaultChildId({ instanceId, executionId, operation: operation.id }),
      payload: start.payload,
    });
    this.#table.add(operation);
    return operation.promise;
  }

  startDetached(start: StartOptions & { readonly id: string }): void {
    if (this.#host.enter('startDetached', start.name) === undefined) return;
    this.#host.record({
      kind: 'detachedStarted',
      at: this.#host.nowMs,
      operation: this.#next('detached start', start.name),
      name: start.name,
      version: start.version,
      childId: start.id,
      payload: start.payload,
    });
  }

  setCustomStatus(payload: Payload | null): void {
    if (this.#host.enter('setCustomStatus') === undefined) return;
    this.#host.record({
      kind: 'customStatusSet',
      at: this.#host.nowMs,
      operation: this.#next('custom status', ''),
      payload,
    });
  }

  /** Gives an outstanding operation up; what has settled, and a child, is left alone. */
  withdraw(operation: Operation, withdrawal: Withdrawal): void {
    if (operation.kind === 'child' || !this.#table.isPending(operation)) return;
    if (this.#host.enter('cancel') === undefined) return;
    const { trigger, detail } = withdrawal;
    this.#host.record({
      kind: 'operationWithdrawn',
      at: this.#host.nowMs,
      target: operation.id,
      targetKind: operation.kind,
      reason: detail === undefined ? trigger : `${trigger}:${detail}`,
    });
    this.#table.remove(operation);
    operation.reject(toCanceledError(withdrawal));
  }

  #open(kind: OperationKind, name: string): Operation | undefined {
    const scope = this.#host.enter(kind, name);
    if (scope === undefined) return undefined;
    return new Operation({ kind, id: this.#next(kind, name), name, scope, owner: this });
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

function neverSettles<T>(): DurablePromise<T> {
  return new DurablePromise<T>(() => undefined);
}
