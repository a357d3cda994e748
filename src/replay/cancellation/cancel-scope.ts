import type { Operation } from '../operation.ts';
import type { Scope, ScopedExecution } from './scope.ts';
import type { Withdrawal } from './withdrawal.ts';

/** What scopes need of their execution. */
export interface ScopeOwner extends ScopedExecution {
  /** Gives an operation up, and records that. */
  withdraw(operation: Operation, withdrawal: Withdrawal): void;
  /** Settles a scope once the code has come to rest and the scope is quiet. */
  settleAtRest(scope: CancelScope): void;
}

const notNeeded: Withdrawal = { trigger: 'race_lost', reason: 'race_lost' };

const none: readonly CancelScope[] = [];

/** How far a cancel goes: `shields` is for deadlines of shields, which hold for the shields inside as well. */
export type Reach = 'scopes' | 'shields';

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
  cancel(withdrawal: Withdrawal, reach: Reach = 'scopes'): void {
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
    this.execution.settleAtRest(this);
  }

  /** Whether nothing in it is outstanding. */
  get isQuiet(): boolean {
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
