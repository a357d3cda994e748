import pg from 'pg';
import type { Clock } from '../../../model/clock.ts';
import { PerdureError } from '../../../model/failures/errors.ts';
import { isPostgresUrl } from './postgres-url.ts';

/** How a PostgreSQL store is opened. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with `?sslmode=…` and the like where needed. */
  readonly url: string;
  /** The schema that holds Perdure's tables. Default `perdure`. */
  readonly schema?: string;
  /** The most connections that this process opens, besides the one that listens. Default 10. */
  readonly poolSize?: number;
  /** Bring the schema up to date when opening. Default true; without it an old schema is refused. */
  readonly migrate?: boolean;
  /** Be told of changes by LISTEN, on a connection of its own. Default true; without it by polling. */
  readonly listen?: boolean;
  /** Prepare statements once per connection. Default true; switch it off behind a pooler in transaction mode. */
  readonly prepare?: boolean;
  /** How often to look for what nobody has told of. Default 1,000. */
  readonly pollMs?: number;
  /** How long a call goes on trying while the server is away or transactions collide. Default 10,000. */
  readonly retryMs?: number;
  /** How long to wait for a connection. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /**
   * The longest silence of the server while a worker claims, renews, acks or polls, in milliseconds. After it the
   * connection is closed and another one is used. Keep it below `orchestrationLease`. Default 5,000.
   */
  readonly answerTimeoutMs?: number;
  /** The longest that a statement may run. Default 30,000. */
  readonly statementTimeoutMs?: number;
  /** The longest that the server keeps a transaction of a process that has stopped answering. Default 30,000. */
  readonly idleInTransactionTimeoutMs?: number;
  /** Shown in `pg_stat_activity`. Default `perdure`. */
  readonly applicationName?: string;
  /** Decides visibility and expiry instead of the database's clock; for tests. */
  readonly clock?: Clock;
}

/** What a pool is made from. */
export interface ConnectionSettings {
  readonly client: pg.ClientConfig;
  readonly poolSize: number;
  readonly prepare: boolean;
  readonly retryMs: number;
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** How long the server may be silent during an operation that a lease depends on. */
  readonly answerTimeoutMs: number;
  /** Statements that follow BEGIN where no setting can be sent with the connection. */
  readonly transactionSettings: readonly string[];
}

/** The options with their defaults, checked. */
export interface ResolvedOptions {
  /** For logs and errors, without secrets. */
  readonly name: string;
  /** As it is written into statements: checked, so that quoting cannot be escaped. */
  readonly quotedSchema: string;
  readonly schema: string;
  readonly migrate: boolean;
  readonly listen: boolean;
  readonly pollMs: number;
  readonly clock: Clock | undefined;
  readonly connection: ConnectionSettings;
}

// Longer than any statement may take: past it the server, or the way to it, has gone without a word.
const answerSlackMs = 5_000;
// The operating system then probes an idle connection every second, ten times: a peer that is gone is found in 15 s.
const keepAliveDelayMs = 5_000;
const idleTimeoutMs = 60_000;

// Every statement is made to be answered through its indexes, one row after the other. A plan that was made while a
// queue happened to be empty must not read the whole of it later.
const planSettings = [
  'enable_seqscan=off',
  'enable_mergejoin=off',
  'enable_memoize=off',
  'plan_cache_mode=force_generic_plan',
  'jit=off',
];

/** Checks the options and fills in the defaults; nothing that it throws repeats the URL. */
export function resolveOptions(options: PostgresOptions): ResolvedOptions {
  const { schema = 'perdure', migrate = true, listen = true, pollMs = 1_000, clock } = options;
  check(
    typeof schema === 'string' &&
      /^[a-z_][a-z0-9_]{0,49}$/.test(schema) &&
      !schema.startsWith('pg_'),
    'schema',
    'lower-case letters, digits and underscores, at most 50, and not begin with a digit or pg_',
  );
  check(pollMs >= 1, 'pollMs', '1 or more');
  const connection = resolveConnection(options);
  const { host, port, database = '' } = parse(connection.client);
  return {
    name: `postgres ${host}:${port}/${database} ${schema}`,
    schema,
    quotedSchema: pg.escapeIdentifier(schema),
    migrate,
    listen,
    pollMs,
    clock,
    connection,
  };
}

/** Reads the URL, and the files that it names; nothing is opened. */
function parse(client: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(client);
  } catch (error) {
    // The driver speaks of the file alone, and its error is not passed on.
    const { code, path } = error as NodeJS.ErrnoException;
    throw new PerdureError(
      'INVALID_OPTION',
      `openPostgres: the driver cannot use the url (${[code, path].filter(Boolean).join(' ')}). Check the files that it names: sslcert, sslkey, sslrootcert.`,
    );
  }
}

function resolveConnection(options: PostgresOptions): ConnectionSettings {
  const { url, poolSize = 10, prepare = true, applicationName = 'perdure' } = options;
  const { retryMs = 10_000, connectTimeoutMs = 5_000, answerTimeoutMs = 5_000 } = options;
  const { statementTimeoutMs = 30_000, idleInTransactionTimeoutMs = 30_000 } = options;
  check(isPostgresUrl(url), 'url', 'a URL like postgres://user:password@host:5432/database');
  check(Number.isSafeInteger(poolSize) && poolSize >= 1, 'poolSize', 'a whole number of 1 or more');
  check(retryMs >= 0, 'retryMs', '0 or more');
  const timeouts = {
    connectTimeoutMs,
    answerTimeoutMs,
    statementTimeoutMs,
    idleInTransactionTimeoutMs,
  };
  for (const [name, ms] of Object.entries(timeouts)) {
    check(Number.isSafeInteger(ms) && ms >= 1, name, 'a whole number of 1 or more');
  }
  // The driver prefers what the URL says, and would forget ours.
  const given = new URL(url).searchParams.get('options');
  const settings = [...planSettings.map((setting) => `-c ${setting}`), ...(given ? [given] : [])];
  return {
    client: {
      connectionString: prepare && given !== null ? withoutOptions(url) : url,
      application_name: applicationName,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveDelayMs,
      query_timeout: statementTimeoutMs + answerSlackMs,
      // A pooler refuses a connection that asks for settings which it does not know.
      ...(prepare && {
        options: settings.join(' '),
        statement_timeout: statementTimeoutMs,
        idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
      }),
    },
    poolSize,
    prepare,
    retryMs,
    connectTimeoutMs,
    idleTimeoutMs,
    answerTimeoutMs,
    transactionSettings: prepare
      ? []
      : [
          ...planSettings.map((setting) => `SET LOCAL ${setting}`),
          `SET LOCAL statement_timeout = ${statementTimeoutMs}`,
          `SET LOCAL idle_in_transaction_session_timeout = ${idleInTransactionTimeoutMs}`,
        ],
  };
}

function withoutOptions(url: string): string {
  const parsed = new URL(url);
  parsed.searchParams.delete('options');
  return parsed.href;
}

function check(holds: boolean, option: string, wanted: string): void {
  if (!holds) {
    throw new PerdureError('INVALID_OPTION', `openPostgres: ${option} must be ${wanted}.`);
  }
}
