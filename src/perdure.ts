import { LocalClient } from './client/local-client.ts';
import { clientClosed } from './client/waiting/instance-errors.ts';
import { systemClock, type Clock } from './model/clock.ts';
import { toMs, type Duration } from './model/values/duration.ts';
import { PerdureError } from './model/failures/errors.ts';
import type { Logger } from './model/logger.ts';
import type { ActivityDefinition } from './orchestration/activity.ts';
import type { OrchestrationDefinition } from './orchestration/orchestration.ts';
import type { Provider } from './providers/contract/provider.ts';
import type { TaskDefinition } from './tasks/task.ts';
import { checkOpenOptions, checkProvider, checkWorkerOptions } from './option-checks.ts';
import { isPostgresUrl } from './providers/postgres/driver/postgres-url.ts';
import type { ConnectOptions } from './remote/connect-options.ts';
import { connect, type Connection } from './remote/connection.ts';
import type { WorkerOptions } from './runtime/options.ts';
import { assertOutsideOrchestration } from './runtime/turns/assert-outside-orchestration.ts';
import { Worker } from './runtime/worker.ts';

/** Where and how to open a store. */
export interface OpenOptions {
  /** `'full'` (default) survives power loss; `'normal'` may lose the last moments of it, never more. SQLite only. */
  readonly synchronous?: 'full' | 'normal';
  /** The schema that holds Perdure's tables. Default `perdure`. PostgreSQL only. */
  readonly schema?: string;
  /** The most connections of this process, besides the one that listens. Default 10. PostgreSQL only. */
  readonly poolSize?: number;
  /** Bring the schema up to date when opening. Default true; without it an old one is refused. PostgreSQL only. */
  readonly migrate?: boolean;
  /** Be told of changes by LISTEN. Default true; without it they are found by polling. PostgreSQL only. */
  readonly listen?: boolean;
  /** Prepare statements. Default true; switch it off behind a pooler in transaction mode. PostgreSQL only. */
  readonly prepare?: boolean;
  /** The largest input, result or event. Default 2 MiB. */
  readonly payloadLimitBytes?: number;
  /** Events that may wait for an instance before more are refused. Default 2,000. */
  readonly maxBufferedEvents?: number;
  /** How often a worker or a waiting client looks, should every hint be lost. Default 1 s. */
  readonly pollInterval?: Duration;
  /** Where log lines of its workers go. Default: warnings and errors to the console; `silentLogger` drops all. */
  readonly logger?: Logger;
  /** The clock that decides visibility and expiry; tests bring their own. */
  readonly clock?: Clock;
}

/** What a worker runs, and how. */
export interface StartWorkerOptions extends WorkerOptions {
  readonly orchestrations?: readonly OrchestrationDefinition[];
  readonly activities?: readonly ActivityDefinition[];
  readonly tasks?: readonly TaskDefinition[];
  /** Flows, made with `perdure/flows`. */
  readonly flows?: readonly RunnableFlow[];
}

/** What a worker needs of a flow. */
export interface RunnableFlow {
  readonly kind: 'flow';
  readonly name: string;
  readonly orchestration: OrchestrationDefinition;
  readonly activities: readonly ActivityDefinition[];
}

/** An open store, with a client to start and watch instances and workers to run them. */
export class Perdure {
  readonly client: LocalClient;
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #options: OpenOptions;
  readonly #workers = new Set<Worker>();
  #closed: Promise<void> | undefined;

  private constructor(provider: Provider, clock: Clock, options: OpenOptions) {
    this.#provider = provider;
    this.#clock = clock;
    this.#options = options;
    this.client = new LocalClient({
      provider,
      clock: this.#clock,
      payloadLimitBytes: options.payloadLimitBytes,
      maxPendingEvents: options.maxBufferedEvents,
      recheckMs:
        options.pollInterval === undefined ? undefined : toMs(options.pollInterval, 'pollInterval'),
      guard: assertOutsideOrchestration,
      starter: () => this.#starter,
      onScheduleChanged: () => {
        for (const worker of this.#workers) worker.scheduleChanged();
      },
      onSessionChanged: () => {
        for (const worker of this.#workers) worker.sessionChanged();
      },
    });
  }

  /** Opens a store: an SQLite file by its path, `':memory:'`, a PostgreSQL by its URL, or a provider of your own. */
  static async open(store: string | Provider, options: OpenOptions = {}): Promise<Perdure> {
    checkOpenOptions(store, options);
    if (typeof store !== 'string') {
      const provider = checkProvider(store);
      return new Perdure(provider, options.clock ?? provider.clock ?? systemClock, options);
    }
    const provider = await openStore(store, options);
    // A store that was given the clock may run on it without its steps.
    return new Perdure(provider, provider.clock ?? options.clock ?? systemClock, options);
  }

  /** Connects to a store that a server (`perdure/server`) has open; browsers do so with `perdure/remote`. */
  static connect(url: string | URL, options?: ConnectOptions): Promise<Connection> {
    return connect(url, options, assertOutsideOrchestration);
  }

  /** Starts a worker for these definitions in this process. */
  async startWorker(options: StartWorkerOptions): Promise<Worker> {
    if (this.#closed !== undefined) {
      throw new PerdureError(
        'CLOSED',
        'This store is closed; open it again before starting a worker.',
      );
    }
    const { orchestrations, activities, tasks, flows, ...workerOptions } =
      checkWorkerOptions(options);
    const worker = new Worker({
      provider: this.#provider,
      clock: this.#clock,
      definitions: {
        orchestrations: [...orchestrations, ...flows.map((flow) => flow.orchestration)],
        activities: [...activities, ...flows.flatMap((flow) => flow.activities)],
        tasks,
      },
      options: { ...shared(this.#options), ...workerOptions },
      client: this.client,
      onStopped: () => this.#workers.delete(worker),
    });
    this.#workers.add(worker);
    worker.start();
    return worker;
  }

  /** Says goodbye to attached jobs, stops the workers, ends waits, closes the store. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    // Before the workers stop: handlers of attached jobs are then told to stop by a cancel, and need not be handed back.
    await LocalClient.internals(this.client).attached.close(clientClosed());
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
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

/** What the store was opened with holds for its workers too, unless they are told otherwise. */
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
  // Loads a driver when a store needs it: PostgreSQL needs no SQLite, and a remote client needs neither.
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
  // Also one that was copied with a blank or a quote, or lacks a slash: it is no path, and its password is in no error.
  const [, scheme, postgres] =
    /^[\s"'<]*(?:([a-z][a-z0-9+.-]+):\/\/|(postgres(?:ql)?):)/i.exec(store) ?? [];
  const kind = scheme ?? postgres;
  if (kind !== undefined) throw unsupported(kind);
  const { openSqlite } = await import('./providers/sqlite/provider.ts');
  return await openSqlite({
    path: store,
    ...shared,
    ...(synchronous !== undefined && { synchronous }),
  });
}

function unsupported(scheme: string): PerdureError {
  return new PerdureError(
    'INVALID_INPUT',
    /^postgres(ql)?$/i.test(scheme)
      ? 'The URL of the store cannot be read. Write it like postgres://user:password@host:5432/database, and encode special characters.'
      : `Stores of kind ${scheme}:// are not supported. Pass the path of an SQLite file, ':memory:', or a URL like postgres://user:password@host:5432/database.`,
  );
}
