import { toMs } from './model/values/duration.ts';
import { PerdureError } from './model/failures/errors.ts';
import type { Logger } from './model/logger.ts';
import { unknownOption } from './model/option-fields.ts';
import { isPostgresUrl } from './providers/postgres/driver/postgres-url.ts';
import type { Provider } from './providers/contract/provider.ts';
import type { OpenOptions, StartWorkerOptions } from './perdure.ts';

const sqliteOptions = ['synchronous'] as const;
const postgresOptions = ['schema', 'poolSize', 'migrate', 'listen', 'prepare'] as const;

const openOptions = [
  ...sqliteOptions,
  ...postgresOptions,
  'payloadLimitBytes',
  'maxBufferedEvents',
  'pollInterval',
  'logger',
  'clock',
];

const workerOptions = [
  'orchestrations',
  'activities',
  'tasks',
  'flows',
  'name',
  'activityConcurrency',
  'orchestrationBatch',
  'activityLease',
  'orchestrationLease',
  'pollInterval',
  'cancelGrace',
  'cleanupTimeout',
  'shutdownGrace',
  'maxClaims',
  'exitWhenBlocked',
  'warmCacheBytes',
  'payloadLimitBytes',
  'onNondeterminism',
  'onUnawaited',
  'buildId',
  'deterministicGlobals',
  'fastPaths',
  'alwaysReplay',
  'logger',
  'hooks',
  'retention',
];

/** Refuses bad options before anything is opened. */
export function checkOpenOptions(store: unknown, options: OpenOptions): void {
  checkKeys(options, 'Perdure.open', openOptions);
  checkFit(store, options);
  checkLogger(options.logger);
  if (options.pollInterval !== undefined) toMs(options.pollInterval, 'pollInterval');
  for (const name of ['payloadLimitBytes', 'maxBufferedEvents'] as const) {
    const value = options[name];
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 1)) {
      throw invalid(`${name} is ${String(value)}; use a whole number of 1 or more.`);
    }
  }
}

/** Refuses options that only another kind of store has. */
function checkFit(store: unknown, options: OpenOptions): void {
  if (typeof store !== 'string') return;
  const [kind, foreign] = isPostgresUrl(store)
    ? ['A PostgreSQL store', sqliteOptions]
    : ['An SQLite store', postgresOptions];
  const name = foreign.find((option) => options[option] !== undefined);
  if (name !== undefined) throw invalid(`${kind} has no option ${name}. Leave it out.`);
  for (const option of ['migrate', 'listen', 'prepare'] as const) {
    const value = options[option];
    if (value !== undefined && typeof value !== 'boolean') {
      throw invalid(`${option} is ${String(value)}; use true or false.`);
    }
  }
}

/** Refuses what is neither a path nor a provider. */
export function checkProvider(store: unknown): Provider {
  const provider = store as Partial<Provider> | null | undefined;
  if (typeof provider === 'object' && typeof provider?.fetchOrchestrationItems === 'function') {
    return provider as Provider;
  }
  throw invalid(
    "Open a store by the path of an SQLite file, by ':memory:', by a URL like postgres://…, or with a provider.",
  );
}

/** Refuses options that no worker has, and lists that are none. */
export function checkWorkerOptions(options: StartWorkerOptions) {
  checkKeys(options, 'startWorker', workerOptions);
  const { orchestrations = [], activities = [], tasks = [], flows = [], logger, hooks } = options;
  for (const [name, list] of Object.entries({ orchestrations, activities, tasks, flows })) {
    if (!Array.isArray(list)) throw invalid(`${name} must be an array of definitions.`);
  }
  if (flows.some((flow) => (flow as { kind?: unknown } | null)?.kind !== 'flow')) {
    throw invalid(
      'Something in flows is not one. Define it with flow(name) and end it with output().',
    );
  }
  checkLogger(logger);
  if (hooks !== undefined && (typeof hooks !== 'object' || hooks === null)) {
    throw invalid('hooks must be an object of functions.');
  }
  return { ...options, orchestrations, activities, tasks, flows };
}

function checkLogger(logger: Logger | undefined): void {
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (logger !== undefined && typeof logger?.[method] !== 'function') {
      throw invalid(`logger must have a method ${method}(fields, message): console and pino do.`);
    }
  }
}

function checkKeys(options: unknown, what: string, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw invalid(`Invalid options in ${what}(): ${String(options)}. Pass an object.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw unknownOption(unknown, `${what}()`, known);
}

function invalid(message: string): PerdureError {
  return new PerdureError('INVALID_OPTION', message);
}
