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

/** Why something pending is given up. */
export interface Withdrawal {
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

const mark = Symbol('perdure.withdrawal');

/** What the code that awaits something withdrawn gets. */
export function toCanceledError({ trigger, reason }: Withdrawal): CanceledError {
  const error = new CanceledError(reason, trigger);
  Object.defineProperty(error, mark, { value: true });
  return error;
}

/** Says whether an error does no more than tell of a withdrawal: nobody has to handle it. */
export function isWithdrawal(error: unknown): boolean {
  return PerdureError.is(error) && mark in error;
}

/** Says whether code ended because it was canceled: with a `CanceledError`, or with nothing but such in an aggregate. */
export function isCancellation(error: unknown): boolean {
  if (error instanceof AggregateError) {
    return error.errors.length > 0 && error.errors.every(isCancellation);
  }
  return isPerdureError(error, 'OPERATION_CANCELED');
}

/** What scopes need of their execution. */
export interface ScopeOwner extends ScopedExecution {
  /** Gives an operation up, and records that. */
  withdraw(operation: Operation, withdrawal: Withdrawal): void;
  /** Settles a scope once the code has come to rest and the scope is quiet. */
  settleWhenIdle(scope: CancelScope): void;
}

const notNeeded: Withdrawal = { trigger: 'race_lost', reason: 'race_lost' };

const none: readonly CancelScope[] = [];

/** How far a cancel goes: `shields` is for deadlines of shields, which hold for the shields inside as well. */
export type CancelDepth = 'scopes' | 'shields';

/**
 * A part of the code whose operations are canceled together: the root of an execution, a scope, or a shield,
 * which a cancel from outside does not enter.
 */
export class CancelScope implements Scope {
  readonly execution: ScopeOwner;
  /** The scope around it that has not settled. */
  readonly #outer: CancelScope | undefined;
  #isShield: boolean;
  #canceled: Withdrawal | undefined;
  /** A shield's deadline has passed, here or around it. */
  #isExpired: boolean;
  #deadline: Operation | undefined;
  readonly #operations = new Set<Operation>();
  #inner: Set<CancelScope> | undefined;
  #onSettled: (() => void) | undefined;
  #isSettled = false;

  constructor(execution: ScopeOwner, outer?: CancelScope, kind: 'scope' | 'shield' = 'scope') {
    this.execution = execution;
    this.#isShield = kind === 'shield';
    // A shield whose deadline has passed holds no new ones open either.
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

  /** Whether the deadline of a shield has passed, here or around it. */
  get isExpired(): boolean {
    return this.#isExpired;
  }

  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Why nothing more can be done in it: it was canceled, or its code has ended. */
  get canceled(): Withdrawal | undefined {
    return this.#canceled;
  }

  /** Whether a shield stands between it and a cancel of the instance. */
  get isShielded(): boolean {
    return this.#isShield || (this.#outer?.isShielded ?? false);
  }

  add(operation: Operation): void {
    this.#operations.add(operation);
  }

  /** An operation has settled. */
  remove(operation: Operation): void {
    this.#operations.delete(operation);
  }

  /** The timer that cancels it. */
  setDeadline(timer: Operation): void {
    this.#deadline = timer;
  }

  /** Its deadline has passed; answers whether that still means something. */
  takeDeadline(timer: Operation): boolean {
    if (this.#deadline !== timer) return false;
    this.#deadline = undefined;
    return true;
  }

  /** Withdraws what is pending in it and in the scopes inside; what is new in them is refused from now on. */
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
    // The deadline of a shield holds for the shields inside, which go on.
    if (!this.#isShield || reach === 'shields') this.#withdrawDeadline(withdrawal);
    for (const inner of this.#inner ?? none) {
      if (!inner.#isShield || reach === 'shields') inner.cancel(withdrawal, reach);
    }
  }

  /** Its code has ended: what is left inside is given up; calls back once it has settled. */
  close(withdrawal: Withdrawal, onSettled: () => void): void {
    if (!this.#isShield) this.#withdrawDeadline(notNeeded);
    this.cancel(withdrawal);
    this.#onSettled = onSettled;
    this.execution.settleWhenIdle(this);
  }

  /** Whether nothing in it is outstanding. */
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

  /** Its code waits for the end of the execution: no shield around it stands in the way of that any more. */
  unshield(): void {
    this.#isShield = false;
    this.#outer?.unshield();
  }

  /** Whether shields are open in it: code that an end of the execution would cut off. */
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

/** What scopes need of their execution besides what commands need. */
export interface ScopeHost extends CommandHost {
  /** Says whether code may act now; if not, it awaited something that is not durable, which is remembered. */
  isInTurn(what: string): boolean;
  /** A shield was cut off by its deadline. */
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

  /** How many scopes and shields have not settled. */
  get openCount(): number {
    return this.#openCount;
  }

  /** Runs a part of the code in a scope or shield of its own. It settles once nothing of it is outstanding. */
  open<T>(options: OpenScope<T>): DurablePromise<T> {
    const { kind, body } = options;
    const outer = this.#host.enter(kind, options.name);
    // A shield is opened also when the code has ended: whoever is in the middle of cleaning up may go on.
    if (kind === 'scope' && outer.canceled === undefined && this.#host.hasEnded(outer)) {
      return DurablePromise.never();
    }
    const scope = new CancelScope(outer.execution, outer, kind);
    const run = new ScopeRun<T>(this.#host, scope, kind);
    this.#openCount += 1;
    this.#limit(run, options);
    // Async, so that what the body throws synchronously is a rejection, too.
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
    // When the timer is withdrawn, the scope has ended or was canceled otherwise.
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
  /** Why it was canceled itself, and not with what is around it. */
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

  /** The code wants to give it up. A race that was lost does not end a shield: it may have been lost by a cancel. */
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

  /** An error of its own stands, also when the scope was canceled: a clean-up that failed must not go unseen. */
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
