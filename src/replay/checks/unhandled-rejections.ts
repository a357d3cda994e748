import { currentScope, type ScopedExecution } from '../cancellation/scope.ts';

const installed = Symbol.for('perdure.unhandledRejections');

/**
 * Routes a rejection that nobody handles inside an orchestration to its execution, once per process.
 * `process.emit` is wrapped, rather than a listener added, for two reasons: a foreign rejection keeps exactly
 * the behaviour that Node's flags and other listeners give it, and a listener that ends the process is not
 * told of one that concerns a single instance.
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
