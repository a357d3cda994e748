import { LocalClient } from './client/local-client.ts';
import { clientClosed } from './client/waiting/instance-errors.ts';
import { systemClock, type Clock } from './model/clock.ts';
import type { PayloadCodec } from './model/encoding/codec.ts';
import type { ExternalPayloads } from './model/encoding/external-store.ts';
import { PayloadSealer } from './model/encoding/payload-sealer.ts';
import { PerdureError } from './model/failures/errors.ts';
import { consoleLogger, type Logger } from './model/logger.ts';
import { MiddlewareChain, type Middleware } from './model/middleware.ts';
import { guarded, RunMetrics } from './model/metrics/run-metrics.ts';
import type { Telemetry } from './model/telemetry.ts';
import { toMs, type Duration } from './model/values/duration.ts';
import { checkOpenOptions, checkProvider, checkWorkerOptions } from './option-checks.ts';
import type { ActivityDefinition } from './orchestration/activity.ts';
import type { OrchestrationDefinition } from './orchestration/orchestration.ts';
import type { Provider } from './providers/contract/provider.ts';
import { encodingProvider } from './providers/encoding/encoding-provider.ts';
import { ExternalSealer, plainSealer } from './providers/encoding/external-sealer.ts';
import { ExternalSweeper } from './providers/encoding/external-sweeper.ts';
import { sweepExternalPayloads } from './providers/encoding/external-sweep.ts';
import { timedProvider } from './providers/shared/timed-provider.ts';
import { isPostgresUrl } from './providers/postgres/driver/postgres-url.ts';
import type { ConnectOptions } from './remote/connect-options.ts';
import type { Connection } from './remote/connection.ts';
import { currentScope } from './replay/cancellation/scope.ts';
import { declareLimits, limitDeclarations } from './runtime/maintenance/declare-limits.ts';
import { observeStore } from './runtime/maintenance/store-gauges.ts';
import type { WorkerOptions } from './runtime/options.ts';
import { safeLogger } from './runtime/safe-logger.ts';
import { Worker } from './runtime/worker.ts';
import type { TaskDefinition } from './tasks/task.ts';

const defaultAboveBytes = 128 * 1024;

/** Options of `Perdure.open()`. */
export interface OpenOptions {
  /**
   * `'full'` (default) survives power loss. `'normal'` may lose the most recent commits on power loss; the file stays
   * consistent. SQLite only.
   */
  readonly synchronous?: 'full' | 'normal';
  /** Schema of Perdure's tables. Default: `perdure`. PostgreSQL only. */
  readonly schema?: string;
  /** Maximum connections of this process, in addition to the listening one. Default: 10. PostgreSQL only. */
  readonly poolSize?: number;
  /** Migrates the store when opening. Default: true. If false, an old or missing store throws. */
  readonly migrate?: boolean;
  /** Receives hints through LISTEN. Default: true. If false, changes are found by polling. PostgreSQL only. */
  readonly listen?: boolean;
  /** Uses prepared statements. Default: true. Set false behind a pooler in transaction mode. PostgreSQL only. */
  readonly prepare?: boolean;
  /** Maximum size of an input, result or event, in bytes. Default: 2 MiB. */
  readonly payloadLimitBytes?: number;
  /** Maximum buffered events of an instance; further events are rejected. Default: 2,000. */
  readonly maxBufferedEvents?: number;
  /** Polling interval of workers and waiting clients, for lost hints. Default: 1 s. */
  readonly pollInterval?: Duration;
  /** Logger of the workers. Default: warnings and errors to the console. `silentLogger` drops all. */
  readonly logger?: Logger;
  /** Clock for visibility and expiry. Tests inject their own. */
  readonly clock?: Clock;
  /** Spans and metrics: `otel()` of `perdure/otel`. Default: none. */
  readonly telemetry?: Telemetry;
  /**
   * Encodes payloads before they are stored, for example `aesGcm()` of `perdure/codecs`. All processes that use the store
   * need it. Default: none.
   */
  readonly codec?: PayloadCodec;
  /** Keeps large payloads in another store, for example `folderStore(path)`. All processes need it. Default: none. */
  readonly externalPayloads?: ExternalPayloads;
}

/** Definitions and options of a worker. */
export interface StartWorkerOptions extends WorkerOptions {
  readonly orchestrations?: readonly OrchestrationDefinition[];
  readonly activities?: readonly ActivityDefinition[];
  readonly tasks?: readonly TaskDefinition[];
  /** Flows, defined with `perdure/flows`. */
  readonly flows?: readonly RunnableFlow[];
}

/** The parts of a flow that a worker registers. */
export interface RunnableFlow {
  readonly kind: 'flow';
  readonly name: string;
  readonly orchestration: OrchestrationDefinition;
  readonly activities: readonly ActivityDefinition[];
}

/** An open store: a client to start and query instances, and workers to run them. */
export class Perdure {
  readonly client: LocalClient;
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #options: OpenOptions;
  readonly #workers = new Set<Worker>();
  readonly #middleware = new MiddlewareChain();
  #hasStartedWorker = false;
  readonly #externalSweeper: ExternalSweeper | undefined;
  readonly #metrics: RunMetrics;
  readonly #endGauges: (() => void) | undefined;
  #closed: Promise<void> | undefined;

  private constructor(store: Provider, clock: Clock, options: OpenOptions) {
    const sink = options.telemetry?.metrics;
    this.#metrics = new RunMetrics(sink);
    const provider = withCodec(timedProvider(store, this.#metrics), options);
    this.#provider = provider;
    this.#endGauges = sink && observeStore(guarded(sink), provider, clock);
    this.#clock = clock;
    this.#options = options;
    const { externalPayloads: external, logger = consoleLogger } = options;
    this.#externalSweeper =
      external &&
      new ExternalSweeper({ provider, clock, logger: safeLogger(logger), store: external.store });
    this.client = new LocalClient({
      provider,
      clock: this.#clock,
      payloadLimitBytes: options.payloadLimitBytes,
      maxPendingEvents: options.maxBufferedEvents,
      recheckMs:
        options.pollInterval === undefined ? undefined : toMs(options.pollInterval, 'pollInterval'),
      guard: assertOutsideOrchestration,
      telemetry: options.telemetry,
      middleware: this.#middleware,
      metrics: () => this.#metrics.text(),
      starter: () => this.#starter,
      onScheduleChanged: () => {
        for (const worker of this.#workers) worker.scheduleChanged();
      },
      onSessionChanged: () => {
        for (const worker of this.#workers) worker.sessionChanged();
      },
    });
  }

  /** Opens a store: the path of an SQLite file, `':memory:'`, a PostgreSQL URL, or a provider. */
  static async open(store: string | Provider, options: OpenOptions = {}): Promise<Perdure> {
    checkOpenOptions(store, options);
    if (options.codec !== undefined) await new PayloadSealer(options.codec).check();
    if (typeof store !== 'string') {
      const provider = checkProvider(store);
      return new Perdure(provider, options.clock ?? provider.clock ?? systemClock, options);
    }
    const provider = await openStore(store, options);
    // A store may wrap the given clock to hide its steps.
    return new Perdure(provider, provider.clock ?? options.clock ?? systemClock, options);
  }

  /** Connects to a store through a server (`perdure/server`). Browsers use `perdure/remote`. */
  static async connect(url: string | URL, options?: ConnectOptions): Promise<Connection> {
    const { connect } = await import('./remote/connection.ts');
    return await connect(url, options, assertOutsideOrchestration);
  }

  /**
   * Adds middleware: functions around the calls of `client`, and around the handlers that workers of this object run. The
   * first one added is the outermost. Call it before `startWorker()`. Throws `INVALID_OPTION`.
   */
  use(middleware: Middleware): this {
    if (this.#hasStartedWorker) {
      throw new PerdureError(
        'INVALID_OPTION',
        'use() was called after startWorker(), so running instances would not have the middleware. Call it before.',
      );
    }
    this.#middleware.add(middleware);
    return this;
  }

  /**
   * Deletes external payloads of instances that were deleted. Workers do it every 10 minutes. Payloads that were written within
   * `graceMs` (default 1 hour) stay. Returns the number of deleted payloads.
   */
  async sweepExternalPayloads(options: { readonly graceMs?: number } = {}): Promise<number> {
    const { externalPayloads } = this.#options;
    if (externalPayloads === undefined) return 0;
    return sweepExternalPayloads(externalPayloads.store, this.#provider, options);
  }

  /** Starts a worker for these definitions in this process. */
  async startWorker(options: StartWorkerOptions): Promise<Worker> {
    this.#assertOpen();
    const { orchestrations, activities, tasks, flows, ...workerOptions } =
      checkWorkerOptions(options);
    const definitions = {
      orchestrations: [...orchestrations, ...flows.map((flow) => flow.orchestration)],
      activities: [...activities, ...flows.flatMap((flow) => flow.activities)],
      tasks,
    };
    const given = { ...shared(this.#options), ...workerOptions };
    const declared = limitDeclarations(definitions);
    // Without limits, the worker starts in this iteration of the event loop.
    const buildId =
      declared.length === 0
        ? given.buildId
        : await this.#declareLimits({ definitions, declared }, given);
    const worker = new Worker({
      provider: this.#provider,
      clock: this.#clock,
      definitions,
      options: { ...given, ...(buildId !== undefined && { buildId }) },
      client: this.client,
      telemetry: this.#options.telemetry,
      metrics: this.#metrics,
      middleware: this.#middleware,
      onStopped: () => this.#workers.delete(worker),
    });
    this.#workers.add(worker);
    this.#hasStartedWorker = true;
    this.#externalSweeper?.start();
    worker.start();
    return worker;
  }

  /** Declares the limits of a worker. Returns its build id. */
  async #declareLimits(
    limits: Pick<Parameters<typeof declareLimits>[0], 'definitions' | 'declared'>,
    { logger = consoleLogger, buildId }: WorkerOptions,
  ): Promise<string> {
    const parts = { provider: this.#provider, clock: this.#clock, logger: safeLogger(logger) };
    const declaredBy = await declareLimits({ ...parts, ...limits, buildId });
    this.#assertOpen();
    return declaredBy;
  }

  #assertOpen(): void {
    if (this.#closed === undefined) return;
    throw new PerdureError(
      'CLOSED',
      'The store is closed. Open it again before starting a worker.',
    );
  }

  /** Closes attached jobs, stops the workers, rejects pending waits, and closes the store. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    // Before the workers stop: a cancel then ends the handlers of attached jobs, and they need not be released.
    await LocalClient.internals(this.client).attached.close(clientClosed());
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
    await this.#externalSweeper?.stop();
    this.#endGauges?.();
    await this.client.close();
    await this.#provider.close();
  }

  readonly #starter = {
    start: (instance: Parameters<Worker['startInstance']>[0]) => {
      for (const worker of this.#workers) {
        const started = worker.startInstance(instance);
        if (started !== undefined) return started;
      }
      return undefined;
    },
  };
}

/** The store as runtime and client use it. Without a codec: the store itself. */
function withCodec(
  store: Provider,
  { codec, externalPayloads, logger = consoleLogger }: OpenOptions,
): Provider {
  if (codec === undefined && externalPayloads === undefined) return store;
  const inner = codec === undefined ? plainSealer : new PayloadSealer(codec);
  const { store: external, aboveBytes = defaultAboveBytes } = externalPayloads ?? {};
  const sealer = external === undefined ? inner : new ExternalSealer(inner, external, aboveBytes);
  return encodingProvider(store, { sealer, logger: safeLogger(logger), external });
}

/** Options of the store that are defaults of its workers. */
function shared({ payloadLimitBytes, pollInterval, logger }: OpenOptions): WorkerOptions {
  return {
    ...(logger !== undefined && { logger }),
    ...(payloadLimitBytes !== undefined && { payloadLimitBytes }),
    ...(pollInterval !== undefined && { pollInterval }),
  };
}

async function openStore(store: string, options: OpenOptions): Promise<Provider> {
  const { synchronous, clock, pollInterval, schema, poolSize, migrate, listen, prepare } = options;
  const shared = { ...(clock !== undefined && { clock }) };
  // Imports a driver only when it is needed: PostgreSQL needs no SQLite, and a remote client needs neither.
  if (isPostgresUrl(store)) {
    const { openPostgres } = await import('./providers/postgres/provider.ts');
    return await openPostgres({
      url: store,
      ...shared,
      ...(pollInterval !== undefined && { pollMs: toMs(pollInterval, 'pollInterval') }),
      ...(schema !== undefined && { schema }),
      ...(poolSize !== undefined && { poolSize }),
      ...(migrate !== undefined && { migrate }),
      ...(listen !== undefined && { listen }),
      ...(prepare !== undefined && { prepare }),
    });
  }
  // Also matches a URL with a leading blank or quote, or without slashes. The error omits the URL, which may contain
  // a password.
  const [, scheme, postgres] =
    /^[\s"'<]*(?:([a-z][a-z0-9+.-]+):\/\/|(postgres(?:ql)?):)/i.exec(store) ?? [];
  const kind = scheme ?? postgres;
  if (kind !== undefined) throw unsupported(kind);
  const { openSqlite } = await import('./providers/sqlite/provider.ts');
  return await openSqlite({
    path: store,
    ...shared,
    ...(synchronous !== undefined && { synchronous }),
    ...(migrate !== undefined && { migrate }),
  });
}

function unsupported(scheme: string): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    /^postgres(ql)?$/i.test(scheme)
      ? 'Invalid PostgreSQL URL. Use the form postgres://user:password@host:5432/database, and percent-encode special characters.'
      : `Unsupported store URL scheme ${JSON.stringify(scheme)}. Pass the path of an SQLite file, ':memory:', or a URL like postgres://user:password@host:5432/database.`,
  );
}

/** Throws inside an orchestration, because every replay would repeat the client call. */
function assertOutsideOrchestration(): void {
  if (currentScope() === undefined) return;
  throw new PerdureError(
    'FORBIDDEN_IN_ORCHESTRATION',
    'A client was used inside an orchestration, where every replay would repeat the call. Use ctx.child, ctx.startDetached or ctx.waitFor, or use the client in an activity.',
  );
}
