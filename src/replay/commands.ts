import type { ConflictPlan, EncodedEvent } from '../model/admission-options.ts';
import type { StartSettings } from '../model/start-settings.ts';
import type { ActivityOptions } from '../model/work-item-options.ts';
import type { CancellationType } from '../model/cancel.ts';
import type { AnswerEvent, CommandEvent } from '../model/event.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { defaultChildId } from '../model/values/child-id.ts';
import type { Payload } from '../model/values/payload.ts';
import type { StateValues } from '../model/values/state.ts';
import {
  applyTags,
  checkTagCount,
  type RecordedTagChanges,
  type Tags,
} from '../model/values/tags.ts';
import { StepCall, type StepBody, type StepSettings } from './step-call.ts';
import { toCanceledError, type CancelScope, type Withdrawal } from './cancellation/cancel-scope.ts';
import { findCallPlace } from './checks/call-place.ts';
import { DurablePromise } from './durable-promise.ts';
import {
  Operation,
  type OperationTable,
  type OperationOptions,
  type OperationOwner,
} from './operations.ts';

/** The ids that code gets. */
export interface Identity {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
}

/** The execution that commands act on. */
export interface CommandHost {
  readonly instanceId: string;
  readonly executionId: number;
  /** The ids that the code gets at its position: those of the writer of copied events, then its own. */
  readonly identity: Identity;
  /** Whether the next event of the code is one that a retry or a fork copied. */
  readonly isInherited: boolean;
  readonly nowMs: number;
  /** Whether operations record the line of code that issued them. */
  readonly recordsPlaces: boolean;
  /** The number of events applied so far. */
  readonly steps: number;
  /** The tags of the instance. Only the start and its code change them, so that a replay computes the same ones. */
  tags: Tags;
  /** The state of the instance, by the same rule. */
  readonly state: StateValues;
  /** Ids that children of the execution before a retry or a fork have. */
  readonly takenChildIds: ReadonlySet<string>;
  /** Returns the scope of the calling code. Throws outside a turn. */
  enter(what: string, name?: string): CancelScope;
  /** Whether the execution has ended, and the scope is not shielded. */
  hasEnded(scope: CancelScope): boolean;
  record(command: CommandEvent): void;
  /** Records and returns the answer of an operation, if it is in the same batch (R15). */
  recordArrived(operation: Operation): AnswerEvent | undefined;
  /** Fails the instance, because its code cannot continue. */
  breakWith(error: PerdureError): void;
}

interface StartOptions {
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly settings?: StartSettings | undefined;
  readonly event?: EncodedEvent | undefined;
  readonly onConflict?: ConflictPlan | undefined;
}

// Above any realistic fan-out, and about one second of a loop that ignores its cancellation.
const maxRejections = 100_000;

/**
 * The commands of the code. Each method records its event synchronously. In a canceled scope, operations reject
 * immediately. After the end of the execution, nothing is recorded and the returned promises never settle.
 */
export class Commands implements OperationOwner {
  readonly #host: CommandHost;
  readonly #table: OperationTable;
  #operations = 0;
  #lastWhat: string | undefined;
  #lastName = '';
  #rejections = 0;
  #rejectedInStep = 0;
  #hasAwakeables = false;
  /** The newest child of each id that the code gave. Absent until the first one. */
  #children: Map<string, Operation> | undefined;

  constructor(host: CommandHost, table: OperationTable) {
    this.#host = host;
    this.#table = table;
  }

  /** Whether the code has created an awakeable. */
  get hasAwakeables(): boolean {
    return this.#hasAwakeables;
  }

  /** Describes the last operation that the code issued. */
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
    const rejected = this.#rejectIfEnded(scope);
    if (rejected !== undefined) return rejected;
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

  /** Issues a step. It is recorded with its outcome: its worker runs the closure after the turn. */
  runStep(call: {
    readonly name: string;
    readonly body: StepBody;
    readonly settings: StepSettings;
  }): DurablePromise<unknown> {
    const { name, body, settings } = call;
    const scope = this.#host.enter('step', name);
    const rejected = this.#rejectIfEnded(scope);
    if (rejected !== undefined) return rejected;
    const step = new StepCall(body, settings, this.#host.nowMs);
    const operation = this.#open({ kind: 'step', name, scope, step });
    this.#table.add(operation);
    return operation.promise;
  }

  /** `absolute`: the code gave a point in time, not a duration. */
  startTimer(fireAt: number, absolute = false): DurablePromise<void> {
    const scope = this.#host.enter('timer');
    const rejected = this.#rejectIfEnded<void>(scope);
    if (rejected !== undefined) return rejected;
    const operation = this.#createTimer(scope, fireAt, absolute);
    this.#table.add(operation);
    return operation.promise as DurablePromise<void>;
  }

  /** Starts the timer that cancels a scope. The scope does not wait for it. */
  startDeadline(scope: CancelScope, fireAt: number): Operation {
    const operation = this.#createTimer(scope, fireAt, false);
    this.#table.addUnscoped(operation);
    return operation;
  }

  /** Waits for an external event. A buffered one is taken immediately. */
  awaitEvent(name: string, parse?: (payload: unknown) => unknown): DurablePromise<unknown> {
    const scope = this.#host.enter('event', name);
    const rejected = this.#rejectIfEnded(scope);
    if (rejected !== undefined) return rejected;
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

  /** Waits for the answer to a token. `parse` converts the value; it throws if the value is invalid. */
  createAwakeable(token: Payload, parse?: (value: unknown) => unknown): DurablePromise<unknown> {
    const scope = this.#host.enter('awakeable');
    const rejected = this.#rejectIfEnded(scope);
    if (rejected !== undefined) return rejected;
    const operation = this.#open({ kind: 'awakeable', name: '', scope, parse });
    this.#hasAwakeables = true;
    this.#host.record({
      kind: 'awakeableCreated',
      at: this.#host.nowMs,
      operation: operation.id,
      payload: token,
    });
    this.#table.add(operation);
    return operation.promise;
  }

  /**
   * Returns the newest child of this execution that the code started with this id and name, and the id that it has:
   * a generated one, if the given id was taken before a retry.
   */
  ownChild(
    id: string | undefined,
    name: string,
  ): { readonly promise: DurablePromise<unknown>; readonly childId: string } | undefined {
    const known = id === undefined ? undefined : this.#children?.get(id);
    if (known?.name !== name || known.isRefused) return undefined;
    const scope = this.#host.enter('child', name);
    if (scope.canceled !== undefined || this.#host.hasEnded(scope)) return undefined;
    const childId = this.#childIdOf(known);
    return childId === undefined ? undefined : { promise: known.promise, childId };
  }

  startChild(
    start: StartOptions & {
      readonly id?: string | undefined;
      readonly cancellation?: CancellationType | undefined;
    },
  ): DurablePromise<unknown> {
    const { name, version, payload, cancellation, settings, event, onConflict } = start;
    const scope = this.#host.enter('child', name);
    const rejected = this.#rejectIfEnded(scope);
    if (rejected !== undefined) return rejected;
    const { identity, nowMs, takenChildIds } = this.#host;
    const { instanceId, executionId } = identity;
    const next = this.#operations + 1;
    const replaced =
      onConflict === 'terminateExisting' ? this.ownChild(start.id, name)?.childId : undefined;
    const fixedId = replaced ?? (takenChildIds.has(start.id ?? '') ? undefined : start.id);
    const childId = fixedId ?? defaultChildId({ instanceId, executionId, operation: next });
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
        ...settings,
        ...(event !== undefined && { event }),
        // An earlier child is found here, and every other instance keeps the id.
        ...(onConflict === 'terminateExisting' && { onConflict }),
      }),
    );
    this.#table.add(operation);
    if (start.id !== undefined) (this.#children ??= new Map()).set(start.id, operation);
    return operation.promise;
  }

  /** Resolves with the id once the store has the instance. A cancel of the wait does not affect the instance. */
  startDetached(start: StartOptions & { readonly id: string }): DurablePromise<string> {
    const { name, version, payload, id, settings, event, onConflict } = start;
    const scope = this.#host.enter('startDetached', name);
    const rejected = this.#rejectIfEnded<string>(scope);
    if (rejected !== undefined) return rejected;
    const operation = this.#open({
      kind: 'detached',
      name,
      scope,
      cancellation: 'abandon',
      childId: id,
    });
    // A retry that starts it again neither raises the event nor replaces the instance a second time.
    const { incarnation, executionId } = this.#host.identity;
    const key = `${incarnation}/${executionId}/${operation.id}`;
    this.#host.record({
      kind: 'detachedStarted',
      at: this.#host.nowMs,
      operation: operation.id,
      name,
      version,
      childId: id,
      payload,
      ...settings,
      ...(event !== undefined && { event: { ...event, key: event.key ?? key } }),
      ...(onConflict !== undefined && { onConflict }),
      ...(onConflict === 'terminateExisting' && { replaceKey: key }),
    });
    this.#table.add(operation);
    return operation.promise as DurablePromise<string>;
  }

  /** Also works in a canceled scope, for example to report the progress of clean-up. */
  setCustomStatus(payload: Payload | null): void {
    if (this.#host.hasEnded(this.#host.enter('setCustomStatus'))) return;
    this.#host.record({
      kind: 'customStatusSet',
      at: this.#host.nowMs,
      operation: this.#next('custom status', ''),
      payload,
    });
  }

  /** Emits a chunk to the stream of the instance. Also works in a canceled scope. */
  emit(payload: Payload | null): void {
    if (this.#host.hasEnded(this.#host.enter('emit'))) return;
    this.#host.record({
      kind: 'chunkEmitted',
      at: this.#host.nowMs,
      operation: this.#next('chunk', ''),
      payload,
    });
  }

  /** Sets a key of the state; `null` deletes it. Also works in a canceled scope. */
  setState(key: string, payload: Payload | null): void {
    if (this.#host.hasEnded(this.#host.enter('state.set', key))) return;
    this.#host.record({
      kind: 'stateSet',
      at: this.#host.nowMs,
      operation: this.#next('state', key),
      key,
      payload,
    });
    this.#host.state.apply(key, payload);
  }

  /** Merges tags. Also works in a canceled scope. Throws `INVALID_OPTION` for too many tags. */
  setTags(changes: RecordedTagChanges): void {
    if (this.#host.hasEnded(this.#host.enter('setTags'))) return;
    const tags = applyTags(this.#host.tags, changes);
    checkTagCount(tags, 'ctx.setTags()');
    this.#host.record({
      kind: 'tagsSet',
      at: this.#host.nowMs,
      operation: this.#next('tags', ''),
      tags: changes,
    });
    this.#host.tags = tags;
  }

  /** Withdraws an operation at the request of the code. No effect after it has settled. */
  cancel(operation: Operation, withdrawal: Withdrawal): void {
    if (!this.#table.isPending(operation)) return;
    if (!this.#host.hasEnded(this.#host.enter('cancel'))) this.withdraw(operation, withdrawal);
  }

  /** Withdraws an outstanding operation (R14), or applies its answer if that is in the batch (R15). */
  withdraw(operation: Operation, withdrawal: Withdrawal): void {
    if (!this.#table.isPending(operation) || operation.withdrawal !== undefined) return;
    const answer = this.#host.recordArrived(operation);
    if (answer !== undefined) {
      this.#table.apply(answer);
      return;
    }
    const childId = this.#childIdOf(operation);
    this.#host.record({
      kind: 'operationWithdrawn',
      at: this.#host.nowMs,
      target: operation.id,
      targetKind: operation.kind,
      ...withdrawal,
      ...(operation.kind === 'step' && { name: operation.name }),
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

  /** A retry or a fork starts the child of a copied event again, under an id of its own execution. */
  #childIdOf({ id, childId, isInherited }: Operation): string | undefined {
    if (!isInherited || this.#host.isInherited) return childId;
    const { instanceId, executionId } = this.#host;
    return defaultChildId({ instanceId, executionId, operation: id });
  }

  /** Returns the promise of an operation that cannot be issued; `undefined` if it can be. */
  #rejectIfEnded<T>(scope: CancelScope): DurablePromise<T> | undefined {
    const { canceled } = scope;
    if (canceled === undefined) {
      return this.#host.hasEnded(scope) ? DurablePromise.never() : undefined;
    }
    if (this.#rejectedInStep !== this.#host.steps) this.#rejections = 0;
    this.#rejectedInStep = this.#host.steps;
    this.#rejections += 1;
    if (this.#rejections <= maxRejections)
      return DurablePromise.rejected(toCanceledError(canceled));
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

  #open(options: Omit<OperationOptions, 'id' | 'owner' | 'isInherited'>): Operation {
    const id = this.#next(options.kind, options.name);
    const { isInherited, recordsPlaces } = this.#host;
    const operation = new Operation({ ...options, id, owner: this, isInherited });
    if (recordsPlaces) operation.place = findCallPlace();
    return operation;
  }

  // Kept as parts: the text is built only for an error.
  #next(what: string, name: string): number {
    this.#operations += 1;
    this.#lastWhat = what;
    this.#lastName = name;
    return this.#operations;
  }
}

/** Describes an operation in an error. The text is recorded in histories: do not change it. */
export function describe(what: string, name: string): string {
  return name === '' ? what : `${what} '${name}'`;
}

/** Adds the cancellation type and the shielding to an event, unless they are the default. */
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
    `Instance ${JSON.stringify(instanceId)} issued ${maxRejections} operations in a row in a canceled scope: its code catches the CanceledError and continues. Let the error end the loop, and clean up in ctx.shield().`,
  );
}
