import { toMs } from './model/values/duration.ts';
import { PerdureError } from './model/failures/errors.ts';
import type { Logger } from './model/logger.ts';
import { isTelemetry } from './model/telemetry.ts';
import { unknownOption, invalidOption } from './model/option-fields.ts';
import { isPostgresUrl } from './providers/postgres/driver/postgres-url.ts';
import type { Provider } from './providers/contract/provider.ts';
import type { OpenOptions, StartWorkerOptions } from './perdure.ts';

const sqliteOptions = ['synchronous'] as const;
const postgresOptions = ['schema', 'poolSize', 'listen', 'prepare'] as const;

const openOptions = [
  ...sqliteOptions,
  ...postgresOptions,
  'migrate',
  'payloadLimitBytes',
  'maxBufferedEvents',
  'pollInterval',
  'heartbeat',
  'logger',
  'clock',
  'telemetry',
  'codec',
  'externalPayloads',
];

const workerOptions = [
  'orchestrations',
  'activities',
  'tasks',
  'flows',
  'name',
  'activityConcurrency',
  'stepConcurrency',
  'orchestrationBatch',
  'activityLease',
  'orchestrationLease',
  'pollInterval',
  'heartbeat',
  'cancelGrace',
  'cleanupTimeout',
  'shutdownGrace',
  'maxClaims',
  'exitWhenBlocked',
  'warmCacheBytes',
  'payloadLimitBytes',
  'streamLimitBytes',
  'onNondeterminism',
  'onUnawaited',
  'buildId',
  'deterministicGlobals',
  'logger',
  'hooks',
  'retention',
];

/** Throws `INVALID_OPTION` for invalid options of `Perdure.open`, before the store is opened. */
export function checkOpenOptions(store: unknown, options: OpenOptions): void {
  checkKeys(options, 'Perdure.open', openOptions);
  checkFit(store, options);
  checkLogger(options.logger);
  if (options.telemetry !== undefined && !isTelemetry(options.telemetry)) {
    throw invalidOption('telemetry', options.telemetry, 'the result of otel() from perdure/otel');
  }
  checkCodec(options.codec);
  checkExternalPayloads(options.externalPayloads);
  if (options.pollInterval !== undefined) toMs(options.pollInterval, 'pollInterval');
  for (const name of ['payloadLimitBytes', 'maxBufferedEvents'] as const) {
    const value = options[name];
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 1)) {
      throw invalidOption(name, value, 'an integer of 1 or more');
    }
  }
}

/** Throws for a value that is no codec. */
function checkCodec(codec: unknown): void {
  if (codec === undefined) return;
  const { encode, decode, hash } = (codec ?? {}) as Partial<Record<string, unknown>>;
  const isCodec =
    typeof encode === 'function' &&
    typeof decode === 'function' &&
    (hash === undefined || typeof hash === 'function');
  if (!isCodec) {
    throw invalid(
      'Invalid `codec`: it needs the methods encode(bytes, context) and decode(bytes, keyId). Use aesGcm() or gzip() of perdure/codecs.',
    );
  }
}

/** Throws for a value that is no store of large payloads. */
function checkExternalPayloads(external: unknown): void {
  if (external === undefined) return;
  checkKeys(external, 'externalPayloads', ['store', 'aboveBytes']);
  const { store, aboveBytes } = external as Partial<Record<string, unknown>>;
  for (const method of ['put', 'get', 'delete', 'list']) {
    if (typeof Reflect.get(Object(store), method) === 'function') continue;
    throw invalid(
      `Invalid \`externalPayloads\`: its store has no method ${method}(). Use folderStore(path), or implement ExternalPayloadStore.`,
    );
  }
  if (aboveBytes === undefined) return;
  if (!Number.isSafeInteger(aboveBytes) || (aboveBytes as number) < 1_024) {
    throw invalidOption('aboveBytes', aboveBytes, 'an integer of at least 1,024');
  }
}

/** Throws for an option of another kind of store. */
function checkFit(store: unknown, options: OpenOptions): void {
  if (typeof store !== 'string') return;
  const [kind, foreign] = isPostgresUrl(store)
    ? ['A PostgreSQL store', sqliteOptions]
    : ['An SQLite store', postgresOptions];
  const name = foreign.find((option) => options[option] !== undefined);
  if (name !== undefined) throw invalid(`${kind} has no option \`${name}\`. Remove it.`);
  for (const option of ['migrate', 'listen', 'prepare'] as const) {
    const value = options[option];
    if (value !== undefined && typeof value !== 'boolean') {
      throw invalidOption(option, value, 'true or false');
    }
  }
}

/** Returns a provider. Throws for any other value. */
export function checkProvider(store: unknown): Provider {
  const provider = store as Partial<Provider> | null | undefined;
  if (typeof provider === 'object' && typeof provider?.fetchOrchestrationItems === 'function') {
    return provider as Provider;
  }
  throw invalidOption(
    'store',
    store,
    "the path of an SQLite file, ':memory:', a URL such as postgres://…, or a provider",
  );
}

/** Throws `INVALID_OPTION` for invalid worker options. Returns them with empty lists as defaults. */
export function checkWorkerOptions(options: StartWorkerOptions) {
  checkKeys(options, 'startWorker', workerOptions);
  const { orchestrations = [], activities = [], tasks = [], flows = [], logger, hooks } = options;
  for (const [name, list] of Object.entries({ orchestrations, activities, tasks, flows })) {
    if (!Array.isArray(list)) throw invalidOption(name, list, 'an array of definitions');
  }
  if (flows.some((flow) => (flow as { kind?: unknown } | null)?.kind !== 'flow')) {
    throw invalid(
      'Invalid `flows`: an element is not a flow. Define it with flow(name) and end it with output().',
    );
  }
  checkLogger(logger);
  if (hooks !== undefined && (typeof hooks !== 'object' || hooks === null)) {
    throw invalidOption('hooks', hooks, 'an object of functions');
  }
  return { ...options, orchestrations, activities, tasks, flows };
}

function checkLogger(logger: Logger | undefined): void {
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (logger !== undefined && typeof logger?.[method] !== 'function') {
      throw invalid(
        `Invalid \`logger\`: it has no method ${method}(fields, message). Use console, pino or similar.`,
      );
    }
  }
}

function checkKeys(options: unknown, what: string, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw invalidOption(`options of ${what}()`, options, 'an object');
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw unknownOption(unknown, `${what}()`, known);
}

function invalid(message: string): PerdureError {
  return new PerdureError('INVALID_OPTION', message);
}
