import nodeCrypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { PerdureError } from '../model/errors.ts';
import { currentScope, type ScopedExecution } from '../replay/scope.ts';

const installed = Symbol.for('perdure.deterministicGlobals');

/**
 * Makes time and randomness deterministic inside orchestrations, and timers and `fetch` throw there. Outside,
 * everything stays as it is. Patches the process once, however often it is called.
 */
export function installDeterministicGlobals(): void {
  const flags = globalThis as { [installed]?: boolean };
  if (flags[installed] === true) return;
  flags[installed] = true;
  patchDate();
  patchRandomness();
  patchPerformance();
  forbid(globalThis, 'setTimeout', 'ctx.sleep(), or the timeout option of an operation');
  forbid(globalThis, 'setInterval', 'ctx.sleep() in a loop');
  forbid(globalThis, 'setImmediate', 'plain awaits: there is nothing to yield to');
  forbid(globalThis, 'fetch', 'an activity that fetches, called with ctx.call()');
  forbid(process, 'nextTick', 'queueMicrotask(), or a plain await', isCalledByNode);
}

/** The execution whose code asks, unless its worker left the globals as they are. */
function deterministic(): ScopedExecution | undefined {
  const execution = currentScope()?.execution;
  return execution?.hasDeterministicGlobals === true ? execution : undefined;
}

function patchDate(): void {
  const realDate = globalThis.Date;
  const realNow = realDate.now;
  define(realDate, 'now', function now() {
    return deterministic()?.nowMs ?? realNow();
  });
  const date = new Proxy(realDate, {
    construct(target, args: unknown[], newTarget: unknown) {
      const constructor = (newTarget === date ? target : newTarget) as DateConstructor;
      const execution = args.length === 0 ? deterministic() : undefined;
      const given = execution === undefined ? args : [execution.nowMs];
      return Reflect.construct(target, given, constructor) as Date;
    },
    apply(target, thisArg, args) {
      const execution = deterministic();
      if (execution === undefined) return Reflect.apply(target, thisArg, args) as string;
      return new target(execution.nowMs).toString();
    },
  });
  define(realDate.prototype, 'constructor', date);
  define(globalThis, 'Date', date);
}

function patchRandomness(): void {
  const realRandom = Math.random;
  define(Math, 'random', function random() {
    return deterministic()?.random() ?? realRandom();
  });
  // A named import of node:crypto follows the patch, too, once the exports are synchronised.
  for (const crypto of [globalThis.crypto, nodeCrypto]) {
    const realUuid = crypto.randomUUID.bind(crypto);
    define(crypto, 'randomUUID', function randomUUID(options?: nodeCrypto.RandomUUIDOptions) {
      return deterministic()?.uuid() ?? realUuid(options);
    });
  }
  syncBuiltinESMExports();
}

function patchPerformance(): void {
  const realNow = performance.now.bind(performance);
  define(performance, 'now', function now() {
    const execution = deterministic();
    return execution === undefined ? realNow() : execution.nowMs - execution.startedAtMs;
  });
}

/** Makes a function throw inside orchestrations. A proxy keeps its name, length and properties. */
function forbid(
  owner: object,
  name: string,
  instead: string,
  isAllowed: (guard: (...args: never[]) => unknown) => boolean = () => false,
): void {
  const real: unknown = Reflect.get(owner, name);
  if (typeof real !== 'function') return;
  const apply = (target: () => unknown, thisArg: unknown, args: unknown[]): unknown => {
    if (deterministic() !== undefined && !isAllowed(apply)) {
      throw new PerdureError(
        'FORBIDDEN_IN_ORCHESTRATION',
        `${name}() cannot be used in an orchestration: its effect would not survive a crash or a replay. Use ${instead}.`,
      );
    }
    return Reflect.apply(target, thisArg, args);
  };
  define(owner, name, new Proxy(real as () => unknown, { apply }));
}

/** Node's own streams and consoles use ticks for what they do on behalf of the code, such as writing a log line. */
function isCalledByNode(guard: (...args: never[]) => unknown): boolean {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 1;
  const trace: { stack?: unknown } = {};
  Error.captureStackTrace(trace, guard);
  Error.stackTraceLimit = limit;
  return /\bat (?:.*\()?node:/.test(String(trace.stack));
}

function define(owner: object, name: string, value: unknown): void {
  const descriptor = Object.getOwnPropertyDescriptor(owner, name);
  Object.defineProperty(owner, name, {
    value,
    configurable: true,
    writable: true,
    enumerable: descriptor?.enumerable ?? true,
  });
}
