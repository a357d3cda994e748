import { AsyncLocalStorage } from 'node:async_hooks';

/** The execution whose code is running, as the patched globals and the rejection guard see it. */
export interface ScopedExecution {
  /** The time of the orchestration, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Whether time, randomness and timers are deterministic; the worker option `deterministicGlobals`. */
  readonly hasDeterministicGlobals: boolean;
  /** The start time of the execution. */
  readonly startedAtMs: number;
  random(): number;
  uuid(): string;
  /** Reports an unhandled rejection of a promise of this execution. */
  rejectionUnhandled(promise: Promise<unknown>, reason: unknown): void;
  /** Reports that the rejection was handled later. */
  rejectionHandled(promise: Promise<unknown>): void;
  readonly instanceId?: string;
  /** The worker's record of the execution. */
  readonly holder?: unknown;
}

/** The scope of running code in the async context. `CancelScope` implements it. */
export interface Scope {
  readonly execution: ScopedExecution;
}

// Shared by all copies of the package in a process: the globals are patched once.
const key = Symbol.for('perdure.scope');
const shared = globalThis as { [key]?: AsyncLocalStorage<Scope | undefined> };
const storage = (shared[key] ??= new AsyncLocalStorage<Scope | undefined>());

// An orchestration must not inherit the async context of the caller that triggered its first turn.
const runWithoutContext = AsyncLocalStorage.snapshot();

/** Returns the scope of the orchestration code that is running, if any. */
export function currentScope(): Scope | undefined {
  return storage.getStore();
}

/** Runs orchestration code in a scope, in an async context of its own. */
export function runInScope<T>(scope: Scope, body: () => T): T {
  return runWithoutContext(() => storage.run(scope, body));
}

/** Runs a part of orchestration code in an inner scope; it keeps the rest of its async context. */
export function runInInnerScope<T>(scope: Scope, body: () => T): T {
  return storage.run(scope, body);
}

const steps = new AsyncLocalStorage<string | undefined>();

/** Returns the name of the step whose closure is running, if any. */
export function currentStep(): string | undefined {
  return steps.getStore();
}

/** Runs the closure of a step. `body` runs outside of the scopes of orchestrations. */
export function runInStep<T>(name: string, body: () => T): T {
  return steps.run(name, body);
}

/** Runs code that an orchestration triggers but that is not part of it, such as loggers and callbacks. */
export function runOutsideScope<T>(body: () => T): T {
  return storage.run(undefined, body);
}
