import { PerdureError } from '../../model/failures/errors.ts';
import { toFailure, type Failure } from '../../model/failures/failure.ts';
import { runOutsideScope, currentScope, type ScopedExecution } from '../cancellation/scope.ts';
import { yieldToEventLoop } from '../turn-window.ts';

/** Errors of the code apart from its outcome: a stray await, an ignored cancel, unhandled rejections. */
export class Breakage {
  readonly #onBroken: ((failure: Failure) => void) | undefined;
  /** Absent until the first one: almost no execution has any. */
  #unhandled: Map<Promise<unknown>, unknown> | undefined;
  #error: PerdureError | undefined;

  constructor(onBroken: ((failure: Failure) => void) | undefined) {
    this.#onBroken = onBroken;
  }

  get isBroken(): boolean {
    return this.#error !== undefined || this.#hasUnhandled;
  }

  get #hasUnhandled(): boolean {
    return this.#unhandled !== undefined && this.#unhandled.size > 0;
  }

  /** The failure of the instance. */
  get failure(): Failure | undefined {
    if (this.#error !== undefined) return toFailure(this.#error);
    const [first] = this.#unhandled ?? [];
    return first === undefined ? undefined : toFailure(first[1]);
  }

  /** Keeps the first error; later ones are usually its consequences. */
  add(error: PerdureError, duringTurn: boolean): void {
    const wasBroken = this.isBroken;
    this.#error ??= error;
    if (!wasBroken && !duringTurn) this.#report();
  }

  addUnhandled(promise: Promise<unknown>, reason: unknown, duringTurn: boolean): void {
    const wasBroken = this.isBroken;
    (this.#unhandled ??= new Map()).set(promise, reason);
    if (!wasBroken && !duringTurn) this.#report();
  }

  removeUnhandled(promise: Promise<unknown>): void {
    this.#unhandled?.delete(promise);
  }

  /** Whether the code is still broken, after Node has reported rejections that were handled late. */
  async isConfirmed(): Promise<boolean> {
    if (this.#hasUnhandled) await yieldToEventLoop();
    return this.isBroken;
  }

  #report(): void {
    const { failure } = this;
    const onBroken = this.#onBroken;
    if (onBroken !== undefined && failure !== undefined) runOutsideScope(() => onBroken(failure));
  }
}

/** Warns of an unhandled rejection after the end of the instance, which can no longer be recorded. */
export function warnOfLateRejection(instanceId: string, reason: unknown): void {
  const { name, message } = toFailure(reason);
  runOutsideScope(() => {
    process.emitWarning(
      `Unhandled rejection after the end of instance ${JSON.stringify(instanceId)}: ${name}: ${message}`,
      { type: 'PerdureWarning', code: 'PERDURE_LATE_REJECTION' },
    );
  });
}

const advice =
  'Code of an orchestration may only await durable operations. ' +
  'Do the I/O or the waiting in an activity and await it with ctx.call(), or use ctx.sleep() and ctx.waitFor().';

interface Where {
  readonly instanceId: string;
  readonly lastOperation: string | undefined;
}

/** The error of code that continued outside a turn, after it awaited something that is not durable. */
export function strayCall(where: Where & { readonly what: string }): PerdureError {
  return new PerdureError(
    'STRAY_AWAIT',
    `Instance '${where.instanceId}': ${where.what} outside a turn. ${after(where)} the code awaited something that is not durable. ${advice}`,
  );
}

/** The error of a durable operation in the closure of a step. It fails the step, not the instance. */
export function insideStep(what: string, step: string): PerdureError {
  return new PerdureError(
    'INSIDE_STEP',
    `${what} was called inside step ${JSON.stringify(step)}. A step is one unit of work: call \`ctx\` before or after \`ctx.run()\`, and return from the closure what the orchestration needs.`,
  );
}

/** The error of code that waits for nothing durable, and so forever. */
export function strayWait(where: Where): PerdureError {
  return new PerdureError(
    'STRAY_AWAIT',
    `Instance '${where.instanceId}' is not finished, but waits for nothing durable. ${after(where)} the code awaited something that is not durable. ${advice}`,
  );
}

function after({ lastOperation }: Where): string {
  return lastOperation === undefined
    ? 'Before its first durable operation'
    : `After its last durable operation (${lastOperation})`;
}

const installed = Symbol.for('perdure.unhandledRejections');

/**
 * Routes unhandled rejections of orchestration code to its execution. Installed once per process. Wraps `process.emit`
 * instead of adding a listener, for two reasons: other rejections keep the behaviour of Node's flags and other listeners,
 * and a listener that exits the process is not called for a rejection of one instance.
 */
export function guardUnhandledRejections(): void {
  const flags = globalThis as { [installed]?: boolean };
  if (flags[installed] === true) return;
  flags[installed] = true;
  const owners = new WeakMap<object, ScopedExecution>();
  const emit = Reflect.get(process, 'emit') as (...args: unknown[]) => boolean;

  function emitUnlessOurs(this: unknown, ...args: unknown[]): boolean {
    const [name] = args;
    if (name === 'unhandledRejection' && claim(args[1], args[2] as Promise<unknown>)) return true;
    if (name === 'rejectionHandled' && release(args[1] as Promise<unknown>)) return true;
    return Reflect.apply(emit, this, args);
  }

  function claim(reason: unknown, promise: Promise<unknown>): boolean {
    const owner = currentScope()?.execution;
    if (owner === undefined) return false;
    owners.set(promise, owner);
    owner.rejectionUnhandled(promise, reason);
    return true;
  }

  function release(promise: Promise<unknown>): boolean {
    const owner = owners.get(promise);
    owner?.rejectionHandled(promise);
    return owner !== undefined;
  }

  Object.defineProperty(process, 'emit', {
    value: emitUnlessOurs,
    configurable: true,
    writable: true,
  });
}
