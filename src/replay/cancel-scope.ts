import type { Operation } from './operation.ts';
import type { Scope, ScopedExecution } from './scope.ts';
import type { Withdrawal } from './withdrawal.ts';

/** What scopes need of their execution: withdrawals are recorded. */
export interface ScopeOwner extends ScopedExecution {
  withdraw(operation: Operation, withdrawal: Withdrawal): void;
}

const notNeeded: Withdrawal = { trigger: 'race_lost', reason: 'race_lost' };

/** How far a cancel goes: `shields` is for deadlines of shields, which hold for the shields inside as well. */
export type Reach = 'scopes' | 'shields';

/**
 * A part of the code whose operations are canceled together: the root of an execution, a scope, or a shield,
 * which a cancel from outside does not enter.
 */
export class CancelScope implements Scope {
  readonly execution: ScopeOwner;
  readonly #outer: CancelScope | undefined;
  #isShield: boolean;
  #canceled: Withdrawal | undefined;
  #deadline: Operation | undefined;
  readonly #operations = new Set<Operation>();
  readonly #inner = new Set<CancelScope>();
  #onSettled: (() => void) | undefined;

  constructor(execution: ScopeOwner, outer?: CancelScope, kind: 'scope' | 'shield' = 'scope') {
    this.execution = execution;
    this.#outer = outer;
    this.#isShield = kind === 'shield';
    if (kind === 'scope') this.#canceled = outer?.canceled;
    if (outer !== undefined) outer.#inner.add(this);
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
    if (this.#operations.delete(operation)) this.#settleIfQuiet();
  }

  /** The timer that cancels it. */
  setDeadline(timer: Operation): void {
    this.#deadline = timer;
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
    // The deadline of a shield holds for the shields inside, which go on.
    if (!this.#isShield || reach === 'shields') this.#withdrawDeadline(withdrawal);
    for (const inner of this.#inner) {
      if (!inner.#isShield || reach === 'shields') inner.cancel(withdrawal, reach);
    }
  }

  /** Its code has ended: what is left inside is given up; calls back once nothing of it is outstanding. */
  close(withdrawal: Withdrawal, onSettled: () => void): void {
    if (!this.#isShield) this.#withdrawDeadline(notNeeded);
    this.cancel(withdrawal);
    this.#onSettled = onSettled;
    this.#settleIfQuiet();
  }

  /** Its code waits for the end of the execution: no shield around it stands in the way of that any more. */
  unshield(): void {
    this.#isShield = false;
    this.#outer?.unshield();
  }

  /** Whether shields are open in it: code that an end of the execution would cut off. */
  get holdsShield(): boolean {
    if (this.#isShield) return true;
    for (const inner of this.#inner) if (inner.holdsShield) return true;
    return false;
  }

  #settleIfQuiet(): void {
    const onSettled = this.#onSettled;
    if (onSettled === undefined || this.#operations.size > 0 || this.#inner.size > 0) return;
    this.#onSettled = undefined;
    this.#withdrawDeadline(notNeeded);
    onSettled();
    const outer = this.#outer;
    if (outer === undefined) return;
    outer.#inner.delete(this);
    outer.#settleIfQuiet();
  }

  #withdrawDeadline(withdrawal: Withdrawal): void {
    const timer = this.#deadline;
    this.#deadline = undefined;
    if (timer !== undefined) this.execution.withdraw(timer, withdrawal);
  }
}
