import nodeCrypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { PerdureError } from '../model/failures/errors.ts';
import { currentScope, type ScopedExecution } from '../replay/cancellation/scope.ts';

const installed = Symbol.for('perdure.deterministicGlobals');

const secrets = 'ctx.uuid() or ctx.random(), or an activity for keys and secrets';

/** Sources of random bytes. They throw, because a predictable key is worse than an error. */
const randomSources = [
  'randomBytes',
  'randomFill',
  'randomFillSync',
  'randomInt',
  'generateKeySync',
  'generateKeyPairSync',
  'generatePrimeSync',
];

/**
 * Patches the globals of the process, once. Inside orchestrations, time and randomness become deterministic; timers,
 * `fetch` and sources of random bytes throw `FORBIDDEN_IN_ORCHESTRATION`. Outside, the behavior does not change.
 */
export function installDeterministicGlobals(): void {
  const flags = globalThis as { [installed]?: boolean };
  if (flags[installed] === true) return;
  flags[installed] = true;
  patchDate();
  patchDateTimeFormat();
  patchRandomness();
  patchPerformance();
  patchProcessTime();
  forbid(globalThis, 'setTimeout', 'ctx.sleep(), or the timeout option of an operation');
  forbid(globalThis, 'setInterval', 'ctx.sleep() in a loop');
  forbid(globalThis, 'setImmediate', 'plain awaits: there is nothing to yield to');
  forbid(globalThis, 'fetch', 'an activity that fetches, called with ctx.call()');
  forbid(process, 'nextTick', 'queueMicrotask(), or a plain await', isCalledByNode);
  for (const name of randomSources) forbid(nodeCrypto, name, secrets);
  forbid(globalThis.crypto, 'getRandomValues', secrets);
  forbidTemporal();
  // Applies the patches to named imports of node:crypto and node:process.
  syncBuiltinESMExports();
}

/** Returns the current execution; `undefined` if its worker did not enable deterministic globals. */
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
  for (const crypto of [globalThis.crypto, nodeCrypto]) {
    const realUuid = crypto.randomUUID.bind(crypto);
    define(crypto, 'randomUUID', function randomUUID(options?: nodeCrypto.RandomUUIDOptions) {
      return deterministic()?.uuid() ?? realUuid(options);
    });
  }
}

function patchPerformance(): void {
  const realNow = performance.now.bind(performance);
  define(performance, 'now', function now() {
    const execution = deterministic();
    return execution === undefined ? realNow() : elapsedMs(execution);
  });
  const { timeOrigin } = performance;
  Object.defineProperty(performance, 'timeOrigin', {
    get: () => deterministic()?.startedAtMs ?? timeOrigin,
    configurable: true,
    enumerable: true,
  });
}

/** Makes formatters use the orchestration's time if no date is passed. */
function patchDateTimeFormat(): void {
  const prototype = Intl.DateTimeFormat.prototype as object;
  type Format = (date?: Date | number) => string;
  const descriptor = Object.getOwnPropertyDescriptor(prototype, 'format') as { get: () => Format };
  const realFormat: (this: unknown) => Format = Reflect.get(descriptor, 'get');
  const realParts = Reflect.get(prototype, 'formatToParts') as (...args: unknown[]) => unknown;
  // `format` is a getter that returns the same bound function for each formatter.
  const formats = new WeakMap<object, unknown>();
  Object.defineProperty(prototype, 'format', {
    get(this: Intl.DateTimeFormat) {
      const real = realFormat.call(this);
      let format = formats.get(real);
      if (format === undefined) {
        format = (date?: Date | number) => real(date === undefined ? deterministic()?.nowMs : date);
        formats.set(real, format);
      }
      return format;
    },
    configurable: true,
    enumerable: false,
  });
  define(prototype, 'formatToParts', function formatToParts(this: unknown, date?: unknown) {
    return Reflect.apply(realParts, this, [date === undefined ? deterministic()?.nowMs : date]);
  });
}

function patchProcessTime(): void {
  const { hrtime } = process;
  const realUptime = process.uptime.bind(process);
  const realBigint = hrtime.bigint.bind(hrtime);
  define(hrtime, 'bigint', function bigint() {
    const execution = deterministic();
    if (execution === undefined) return realBigint();
    return BigInt(Math.round(elapsedMs(execution) * 1e6));
  });
  const apply = (target: typeof hrtime, thisArg: unknown, args: [[number, number]?]): unknown => {
    const execution = deterministic();
    if (execution === undefined) return Reflect.apply(target, thisArg, args);
    const [seconds, nanoseconds] = args[0] ?? [0, 0];
    const total = Math.round(elapsedMs(execution) * 1e6) - nanoseconds;
    const whole = Math.floor(total / 1e9);
    return [whole - seconds, total - whole * 1e9];
  };
  define(process, 'hrtime', new Proxy(hrtime, { apply }));
  define(process, 'uptime', () => {
    const execution = deterministic();
    return execution === undefined ? realUptime() : elapsedMs(execution) / 1_000;
  });
}

/** Forbids `Temporal.Now`, in versions of Node that have it. */
function forbidTemporal(): void {
  const now = (globalThis as { Temporal?: { Now?: object } }).Temporal?.Now;
  if (now === undefined) return;
  for (const name of Object.getOwnPropertyNames(now)) {
    if (name !== 'timeZoneId') forbid(now, name, 'ctx.now()');
  }
}

function elapsedMs({ nowMs, startedAtMs }: ScopedExecution): number {
  return nowMs - startedAtMs;
}

/** Makes a function throw inside orchestrations. The proxy preserves its name, length and properties. */
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

/** Whether Node itself is the caller: its streams and console use ticks, for example to write a log line. */
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
  // A property that another version of Node made read-only must not prevent workers from starting.
  if (descriptor?.configurable === false) return;
  Object.defineProperty(owner, name, {
    value,
    configurable: true,
    writable: true,
    enumerable: descriptor?.enumerable ?? true,
  });
}
