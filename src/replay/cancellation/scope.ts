import { AsyncLocalStorage } from 'node:async_hooks';

/** What the patched globals and the rejection guard ask of the execution whose code is running. */
export interface ScopedExecution {
  /** The time inside the orchestration, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Whether time, randomness and timers are those of the orchestration; its worker may have opted out. */
  readonly hasDeterministicGlobals: boolean;
  /** The time at which the execution started. */
  readonly startedAtMs: number;
  random(): number;
  uuid(): string;
  /** A promise of this execution was rejected and nobody handles it. */
  rejectionUnhandled(promise: Promise<unknown>, reason: unknown): void;
  /** Someone handles that promise after all. */
  rejectionHandled(promise: Promise<unknown>): void;
  readonly instanceId?: string;
  /** What its worker knows it by. */
  readonly holder?: unknown;
}

/** Where code runs, as the async context knows it: the engine's own scopes say more. */
export interface Scope {
  readonly execution: ScopedExecution;
}

// Shared by all copies of the package in a process, because the globals are patched only once.
const key = Symbol.for('perdure.scope');
const shared = globalThis as { [key]?: AsyncLocalStorage<Scope | undefined> };
const storage = (shared[key] ??= new AsyncLocalStorage<Scope | undefined>());

// An orchestration must not see the async context of whoever happened to trigger its first turn.
const runWithoutContext = AsyncLocalStorage.snapshot();

/** The scope of the orchestration code that is running, if any is. */
export function currentScope(): Scope | undefined {
  return storage.getStore();
}

/** Runs orchestration code, and all that it awaits, in a scope. */
export function runInScope<T>(scope: Scope, body: () => T): T {
  return runWithoutContext(() => storage.run(scope, body));
}

/** Runs a part of orchestration code in a scope of its own; the code keeps the rest of its async context. */
export function runInInnerScope<T>(scope: Scope, body: () => T): T {
  return storage.run(scope, body);
}

/** Runs something that orchestration code triggers but that is not part of it: log sinks, callbacks. */
export function runOutsideScope<T>(body: () => T): T {
  return storage.run(undefined, body);
}
