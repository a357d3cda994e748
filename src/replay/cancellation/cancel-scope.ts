import {
  CanceledError,
  isPerdureError,
  PerdureError,
  type CancelTrigger,
} from '../../model/failures/errors.ts';
import type { CommandHost, Commands } from '../commands.ts';
import { Deferred, DurablePromise, type DurableSource } from '../durable-promise.ts';
import type { Operation } from '../operations.ts';
import { runInInnerScope, type Scope, type ScopedExecution } from './scope.ts';

/** Why a pending operation or scope is canceled. */
export interface Withdrawal {
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

const mark = Symbol('perdure.withdrawal');

/** Creates the error of a withdrawn operation, marked for `isWithdrawal`. */
export function toCanceledError({ trigger, reason }: Withdrawal): CanceledError {
  const error = new CanceledError(reason, trigger);
  Object.defineProperty(error, mark, { value: true });
  return error;
}

/** Whether an error only reports a withdrawal, so that it need not be handled (R10). */
export function isWithdrawal(error: unknown): boolean {
  return PerdureError.is(error) && mark in error;
}

/** Whether an error is a `CanceledError`, or an aggregate of such errors only. */
export function isCancellation(error: unknown): boolean {
  if (error instanceof AggregateError) {
    return error.errors.length > 0 && error.errors.every(isCancellation);
  }
  return isPerdureError(error, 'OPERATION_CANCELED');
}

/** The execution of a scope. */
export interface ScopeOwner extends ScopedExecution {
  /** Withdraws an operation and records it. */
  withdraw(operation: Operation, withdrawal: Withdrawal): void;
  /** Settles a scope once the code is idle and the scope is empty. */
  settleWhenIdle(scope: CancelScope): void;
}

const notNeeded: Withdrawal = { trigger: 'race_lost', reason: 'race_lost' };

const none: readonly CancelScope[] = [];

/** Whether a cancel also enters inner shields; only the deadline of a shield does. */
export type CancelDepth = 'scopes' | 'shields';

/**
 * A part of the code whose operations are canceled together: the root of an execution, a scope or a shield. A cancel from
 * outside does not enter a shield.
 */
export class CancelScope implements Scope {
  readonly execution: ScopeOwner;
  /** The nearest outer scope that had not settled. */
  readonly #outer: CancelScope | undefined;
  #isShield: boolean;
  #canceled: Withdrawal | undefined;
  /** Whether its deadline as a shield, or that of an outer shield, has passed. */
  #isExpired: boolean;
  #deadline: Operation | undefined;
  readonly #operations = new Set<Operation>();
  #inner: Set<CancelScope> | undefined;
  #onSettled: (() => void) | undefined;
  #isSettled = false;

  constructor(execution: ScopeOwner, outer?: CancelScope, kind: 'scope' | 'shield' = 'scope') {
    this.execution = execution;
    this.#isShield = kind === 'shield';
    // A shield inside an expired shield is canceled from the start.
    this.#isExpired = outer?.isExpired ?? false;
    if (kind === 'scope' || this.#isExpired) this.#canceled = outer?.canceled;
    let open = outer;
    while (open?.isSettled === true) open = open.outer;
    this.#outer = open;
    if (open !== undefined) (open.#inner ??= new Set()).add(this);
  }

  get outer(): CancelScope | undefined {
    return this.#outer;
  }

  get isExpired(): boolean {
    return this.#isExpired;
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Why new operations reject: the scope was canceled, or its code has ended (R12). */
  get canceled(): Withdrawal | undefined {
    return this.#canceled;
  }

  /** Whether it is a shield, or inside one. */
  get isShielded(): boolean {
    return this.#isShield || (this.#outer?.isShielded ?? false);
  }

  add(operation: Operation): void {
    this.#operations.add(operation);
  }

  /** Removes an operation that has settled. */
  remove(operation: Operation): void {
    this.#operations.delete(operation);
  }

  /** Sets the timer that cancels the scope. */
  setDeadline(timer: Operation): void {
    this.#deadline = timer;
  }

  /** Clears the deadline. Returns whether `timer` was still in effect. */
  takeDeadline(timer: Operation): boolean {
    if (this.#deadline !== timer) return false;
    this.#deadline = undefined;
    return true;
  }

  /** Withdraws the pending operations here and in inner scopes; new ones reject from now on (R11, R12). */
  cancel(withdrawal: Withdrawal, reach: CancelDepth = 'scopes'): void {
    if (this.#canceled === undefined) {
      this.#canceled = withdrawal;
      for (const operation of this.#operations) {
        this.execution.withdraw(operation, withdrawal);
      }
    } else if (reach === 'scopes') {
      return;
    }
    if (reach === 'shields') this.#isExpired = true;
    // A canceled shield keeps its deadline, because its code continues.
    if (!this.#isShield || reach === 'shields') this.#withdrawDeadline(withdrawal);
    for (const inner of this.#inner ?? none) {
      if (!inner.#isShield || reach === 'shields') inner.cancel(withdrawal, reach);
    }
  }

  /** Ends the scope after its code: withdraws the rest, and calls back once it has settled (R13). */
  close(withdrawal: Withdrawal, onSettled: () => void): void {
    if (!this.#isShield) this.#withdrawDeadline(notNeeded);
    this.cancel(withdrawal);
    this.#onSettled = onSettled;
    this.execution.settleWhenIdle(this);
  }

  /** Whether it has no outstanding operation and no inner scope. */
  get isEmpty(): boolean {
    return this.#operations.size === 0 && (this.#inner?.size ?? 0) === 0;
  }

  settle(): void {
    this.#isSettled = true;
    this.#isShield = false;
    this.#withdrawDeadline(notNeeded);
    if (this.#outer !== undefined) this.#outer.#inner?.delete(this);
    this.#onSettled?.();
  }

  /** Removes the shields around code that has called continue-as-new, so that they do not delay the end. */
  unshield(): void {
    this.#isShield = false;
    this.#outer?.unshield();
  }

  /** Whether it is or contains an open shield, which an end of the execution must wait for (R17). */
  get holdsShield(): boolean {
    if (this.#isShield) return true;
    for (const inner of this.#inner ?? none) if (inner.holdsShield) return true;
    return false;
  }

  #withdrawDeadline(withdrawal: Withdrawal): void {
    const timer = this.#deadline;
    this.#deadline = undefined;
    if (timer !== undefined) this.execution.withdraw(timer, withdrawal);
  }
}

export interface OpenScope<T> {
  readonly kind: 'scope' | 'shield';
  readonly body: () => T | Promise<T>;
  readonly timeoutMs?: number | undefined;
  readonly name?: string | undefined;
}

/** The execution of scopes, in addition to the members for commands. */
export interface ScopeHost extends CommandHost {
  /** Whether code may act now. If not, records a stray await. */
  isInTurn(what: string): boolean;
  /** Reports that a shield was ended by its deadline. */
  shieldExpired(): void;
}

const ended: Withdrawal = { trigger: 'cancel', reason: 'its scope has ended' };

/** Runs parts of the code in scopes and shields. */
export class Scopes {
  readonly #host: ScopeHost;
  readonly #commands: Commands;
  #openCount = 0;

  constructor(host: ScopeHost, commands: Commands) {
    this.#host = host;
    this.#commands = commands;
  }

  /** The number of scopes and shields that have not settled. */
  get openCount(): number {
    return this.#openCount;
  }

  /** Runs a part of the code in a new scope or shield. It settles once nothing in it is outstanding. */
  open<T>(options: OpenScope<T>): DurablePromise<T> {
    const { kind, body } = options;
    const outer = this.#host.enter(kind, options.name);
    // A shield may open after the end of the code: clean-up that is under way continues.
    if (kind === 'scope' && outer.canceled === undefined && this.#host.hasEnded(outer)) {
      return DurablePromise.never();
    }
    const scope = new CancelScope(outer.execution, outer, kind);
    const run = new ScopeRun<T>(this.#host, scope, kind);
    this.#openCount += 1;
    this.#limit(run, options);
    // Async, so that a synchronous throw of the body becomes a rejection.
    const result = runInInnerScope(scope, async () => body());
    const onSettled = (): void => {
      this.#openCount -= 1;
    };
    result.then(
      (value) => run.succeed(value, onSettled),
      (error: unknown) => run.fail(error, onSettled),
    );
    return run.promise;
  }

  #limit<T>(run: ScopeRun<T>, { kind, timeoutMs, name }: OpenScope<T>): void {
    const { scope } = run;
    if (timeoutMs === undefined || scope.canceled !== undefined) return;
    const timer = this.#commands.startDeadline(scope, this.#host.nowMs + timeoutMs);
    scope.setDeadline(timer);
    const what = name === undefined ? `the ${kind}` : `${kind} '${name}'`;
    const reason = `${what} timed out after ${timeoutMs} ms`;
    const expire = (): void => {
      if (!scope.takeDeadline(timer)) return;
      if (kind === 'shield') this.#host.shieldExpired();
      run.cancel({ trigger: 'timeout', reason }, kind === 'shield' ? 'shields' : 'scopes');
    };
    // A withdrawn timer rejects: the scope has ended, or was canceled for another reason.
    timer.promise.then(expire, () => undefined);
  }
}

/** One scope or shield with the promise of its result. */
class ScopeRun<T> implements DurableSource {
  readonly kind = 'scope';
  readonly scope: CancelScope;
  readonly #host: ScopeHost;
  readonly #isShield: boolean;
  readonly #deferred = new Deferred<T>();
  /** Why it was canceled by itself, not with an outer scope. */
  #canceled: Withdrawal | undefined;
  #hasSettled = false;

  constructor(host: ScopeHost, scope: CancelScope, kind: 'scope' | 'shield') {
    this.#host = host;
    this.scope = scope;
    this.#isShield = kind === 'shield';
    DurablePromise.attach(this.promise, this);
  }

  get promise(): DurablePromise<T> {
    return this.#deferred.promise;
  }

  /** Cancels it at the request of the code. A lost race does not cancel a shield, because a cancel may have decided the race. */
  withdraw(withdrawal: Withdrawal): void {
    if (this.#hasSettled || (this.#isShield && withdrawal.trigger === 'race_lost')) return;
    if (!this.#host.hasEnded(this.#host.enter('cancel'))) this.cancel(withdrawal, 'scopes');
  }

  cancel(withdrawal: Withdrawal, reach: CancelDepth): void {
    if (this.scope.canceled === undefined) this.#canceled = withdrawal;
    this.scope.cancel(withdrawal, reach);
  }

  succeed(value: T, onSettled: () => void): void {
    const canceled = this.#canceled;
    this.#end(onSettled, () => {
      if (canceled === undefined) this.#deferred.resolve(value);
      else this.#deferred.reject(toCanceledError(canceled));
    });
  }

  /** Rejects with the error of the body, also after a cancel, unless the error is the cancellation itself. */
  fail(error: unknown, onSettled: () => void): void {
    const canceled = this.#canceled;
    const isOwn = canceled === undefined || !isCancellation(error);
    this.#end(onSettled, () => this.#deferred.reject(isOwn ? error : toCanceledError(canceled)));
  }

  #end(onSettled: () => void, settle: () => void): void {
    if (!this.#host.isInTurn('a scope ended')) return;
    this.scope.close(ended, () => {
      this.#hasSettled = true;
      onSettled();
      settle();
    });
  }
}
