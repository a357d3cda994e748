import { toMs } from './model/duration.ts';
import { PerdureError } from './model/errors.ts';
import type { Provider } from './providers/provider.ts';
import type { OpenOptions, StartWorkerOptions } from './perdure.ts';

const openOptions = [
  'synchronous',
  'payloadLimitBytes',
  'maxBufferedEvents',
  'pollInterval',
  'clock',
];

const workerOptions = [
  'orchestrations',
  'activities',
  'tasks',
  'activityConcurrency',
  'orchestrationBatch',
  'activityLease',
  'orchestrationLease',
  'pollInterval',
  'cancelGrace',
  'cleanupTimeout',
  'shutdownGrace',
  'maxClaims',
  'warmCacheBytes',
  'payloadLimitBytes',
  'onNondeterminism',
  'buildId',
  'deterministicGlobals',
  'fastPaths',
  'alwaysReplay',
  'logger',
  'hooks',
  'retention',
];

/** Refuses bad options before anything is opened. */
export function checkOpenOptions(options: OpenOptions): void {
  checkKeys(options, 'Perdure.open', openOptions);
  if (options.pollInterval !== undefined) toMs(options.pollInterval, 'pollInterval');
  for (const name of ['payloadLimitBytes', 'maxBufferedEvents'] as const) {
    const value = options[name];
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 1)) {
      throw invalid(`${name} is ${String(value)}; use a whole number of 1 or more.`);
    }
  }
}

/** Refuses what is neither a path nor a provider. */
export function checkProvider(store: unknown): Provider {
  const provider = store as Partial<Provider> | null | undefined;
  if (typeof provider === 'object' && typeof provider?.fetchOrchestrationItems === 'function') {
    return provider as Provider;
  }
  throw invalid("Open a store by the path of an SQLite file, by ':memory:', or with a provider.");
}

/** Refuses options that no worker has, and lists that are none. */
export function checkWorkerOptions(options: StartWorkerOptions) {
  checkKeys(options, 'startWorker', workerOptions);
  const { orchestrations = [], activities = [], tasks = [], logger, hooks } = options;
  for (const [name, list] of Object.entries({ orchestrations, activities, tasks })) {
    if (!Array.isArray(list)) throw invalid(`${name} must be an array of definitions.`);
  }
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (logger !== undefined && typeof logger?.[method] !== 'function') {
      throw invalid(`logger must have a method ${method}(fields, message): console and pino do.`);
    }
  }
  if (hooks !== undefined && (typeof hooks !== 'object' || hooks === null)) {
    throw invalid('hooks must be an object of functions.');
  }
  return { ...options, orchestrations, activities, tasks };
}

function checkKeys(options: unknown, what: string, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw invalid(`${what} was given options that are no object.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw invalid(`${what} has no option ${JSON.stringify(unknown)}. It has: ${known.join(', ')}.`);
}

function invalid(message: string): PerdureError {
  return new PerdureError('INVALID_OPTION', message);
}
