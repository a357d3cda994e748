import type { PerdureError } from '../../model/failures/errors.ts';
import { toFailure, type Failure } from '../../model/failures/failure.ts';
import { yieldToEventLoop } from '../event-loop.ts';
import { runOutsideScope } from '../cancellation/scope.ts';

/** What went wrong with the code beside its own result: a stray await, an endless loop, rejections that nobody handles. */
export class Breakage {
  readonly #onBroken: ((failure: Failure) => void) | undefined;
  readonly #unhandled = new Map<Promise<unknown>, unknown>();
  #error: PerdureError | undefined;

  constructor(onBroken: ((failure: Failure) => void) | undefined) {
    this.#onBroken = onBroken;
  }

  get isBroken(): boolean {
    return this.#error !== undefined || this.#unhandled.size > 0;
  }

  /** What to fail the instance with. */
  get failure(): Failure | undefined {
    if (this.#error !== undefined) return toFailure(this.#error);
    const [first] = this.#unhandled;
    return first === undefined ? undefined : toFailure(first[1]);
  }

  /** Keeps the first error: later ones are its consequences. */
  add(error: PerdureError, duringTurn: boolean): void {
    const wasBroken = this.isBroken;
    this.#error ??= error;
    if (!wasBroken && !duringTurn) this.#report();
  }

  addUnhandled(promise: Promise<unknown>, reason: unknown, duringTurn: boolean): void {
    const wasBroken = this.isBroken;
    this.#unhandled.set(promise, reason);
    if (!wasBroken && !duringTurn) this.#report();
  }

  removeUnhandled(promise: Promise<unknown>): void {
    this.#unhandled.delete(promise);
  }

  /** Node tells that a rejection is handled after all only when the loop comes round: ask again after that. */
  async isConfirmed(): Promise<boolean> {
    if (this.#unhandled.size > 0) await yieldToEventLoop();
    return this.isBroken;
  }

  #report(): void {
    const { failure } = this;
    const onBroken = this.#onBroken;
    if (onBroken !== undefined && failure !== undefined) runOutsideScope(() => onBroken(failure));
  }
}

/** Says what can no longer be recorded, because the instance has already ended. */
export function warnOfLateRejection(instanceId: string, reason: unknown): void {
  const { name, message } = toFailure(reason);
  runOutsideScope(() => {
    process.emitWarning(
      `Instance '${instanceId}' had already ended when a promise of its code was rejected and nobody handled it: ${name}: ${message}`,
      { type: 'PerdureWarning', code: 'PERDURE_LATE_REJECTION' },
    );
  });
}
