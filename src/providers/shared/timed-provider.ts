import type { RunMetrics } from '../../model/metrics/run-metrics.ts';
import type { Provider } from '../contract/provider.ts';
import { platform } from '../../model/platform.ts';

/** Fetches wait for work: their duration says nothing about the store. */
const waits: ReadonlySet<string> = new Set(['fetchOrchestrationItems', 'fetchWorkItems']);

/** Operations of workers and clients with a label of their own. The others are reads and operator actions. */
const named: ReadonlySet<string> = new Set([
  ...waits,
  'ackOrchestrationItems',
  'ackTurns',
  'ackWorkItems',
  'abandonWorkItems',
  'createInstances',
  'createTasks',
  'enqueueMessages',
  'readHistory',
  'renewOrchestrationLocks',
  'renewWorkItemLocks',
  'requestCancel',
  'retryWorkItems',
  'tickSchedules',
]);

/** Methods that are no operation on the data. */
const untimed: ReadonlySet<string> = new Set(['close', 'hints', 'within', 'transact']);

/** Measures the operations of a store. Calls pass straight through until the metrics are read. */
export function timedProvider(provider: Provider, metrics: RunMetrics): Provider {
  const timed: Record<string, unknown> = {};
  for (const key of keysOf(provider)) {
    const value: unknown = Reflect.get(provider, key);
    if (typeof value !== 'function') {
      Object.defineProperty(timed, key, {
        get: () => Reflect.get(provider, key),
        enumerable: true,
      });
    } else if (untimed.has(key)) {
      timed[key] = (...args: readonly unknown[]) => callOf(provider, key, args);
    } else {
      const operation = named.has(key) ? key : 'other';
      const isTimed = !waits.has(key);
      const failed = (): void => metrics.storeFailed(operation);
      // No operation has more parameters. A rest parameter would take an array per call.
      timed[key] = (first: unknown, second: unknown, third: unknown): unknown => {
        const { timesStore } = metrics;
        // Before the call: SQLite runs a statement in it.
        const startedAt = timesStore ? platform.monotonic() : 0;
        // Looked up for each call: tests replace methods.
        const result = (provider as unknown as Operations)[key]?.(first, second, third);
        if (!timesStore || !(result instanceof Promise)) return result;
        const succeeded = (): void => {
          metrics.storeCalled(operation, platform.monotonic() - startedAt);
        };
        // Returns the same promise, so that the caller waits no longer for its result.
        result.then(isTimed ? succeeded : undefined, failed);
        return result;
      };
    }
  }
  return timed as unknown as Provider;
}

type Operations = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;

function callOf(provider: Provider, key: string, args: readonly unknown[]): unknown {
  // Looked up for each call: tests replace methods.
  const method = Reflect.get(provider, key) as (...args: readonly unknown[]) => unknown;
  return Reflect.apply(method, provider, args);
}

function keysOf(provider: Provider): ReadonlySet<string> {
  const keys = new Set<string>();
  for (
    let level: object | null = provider;
    level !== null && level !== Object.prototype;
    level = Object.getPrototypeOf(level) as object | null
  ) {
    for (const key of Object.getOwnPropertyNames(level)) if (key !== 'constructor') keys.add(key);
  }
  return keys;
}
