import type { CancelWish } from '../model/cancel.ts';
import type { TerminalEvent } from '../model/event.ts';
import type { CancelScope } from './cancellation/cancel-scope.ts';
import type { OperationTable } from './operation-table.ts';
import { reasonOfEnd } from './outcome.ts';

/** How an execution comes to its end: the request to stop, what the code decided, and what an end has to wait for. */
export class Ending {
  readonly #root: CancelScope;
  readonly #table: OperationTable;
  #cancel: CancelWish | undefined;
  #isCleanupCut = false;
  #outcome: TerminalEvent | undefined;
  #isClosing = false;
  #isRecorded = false;

  constructor(root: CancelScope, table: OperationTable) {
    this.#root = root;
    this.#table = table;
  }

  /** The first request to stop. */
  get cancel(): CancelWish | undefined {
    return this.#cancel;
  }

  /** Whether the code has returned, thrown or continued as new. */
  get isDecided(): boolean {
    return this.#outcome !== undefined;
  }

  /** Whether history has its terminal event. */
  get isRecorded(): boolean {
    return this.#isRecorded;
  }

  /** How the code has ended, if nothing in it would be cut off by recording that now. */
  get outcome(): TerminalEvent | undefined {
    const isHeld = this.#outcome === undefined || this.#table.mustWait || this.#root.holdsShield;
    return isHeld ? undefined : this.#outcome;
  }

  requestCancel({ reason, actor }: CancelWish): void {
    this.#cancel = { reason, actor };
    this.#root.cancel({ trigger: 'cancel', reason });
  }

  /** A shield was cut off by its deadline. */
  shieldExpired(): void {
    if (this.#cancel !== undefined) this.#isCleanupCut = true;
  }

  /** The first decision stands. */
  decide(outcome: TerminalEvent): void {
    this.#outcome ??= outcome;
  }

  /** Cancels all that an end need not wait for, once, if there is something that it has to wait for. */
  close(): boolean {
    const outcome = this.#outcome;
    if (outcome === undefined || this.#isClosing || this.outcome !== undefined) return false;
    this.#isClosing = true;
    this.#root.cancel({ trigger: 'cancel', reason: reasonOfEnd(outcome) });
    return true;
  }

  /** The outcome at the time at which it is recorded, which may be long after the code ended. */
  outcomeAt(at: number): TerminalEvent | undefined {
    const { outcome } = this;
    if (outcome === undefined) return undefined;
    return outcome.kind === 'executionCanceled' && this.#isCleanupCut
      ? { ...outcome, at, cleanupSkipped: true }
      : { ...outcome, at };
  }

  recorded(outcome: TerminalEvent): void {
    this.#outcome = outcome;
    this.#isRecorded = true;
  }
}
