import pg from 'pg';
import type { Clock } from '../../../model/clock.ts';
import { PerdureError } from '../../../model/failures/errors.ts';
import { isPostgresUrl } from './postgres-url.ts';

/** Options of `openPostgres`. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, optionally with parameters such as `?sslmode=verify-full`. */
  readonly url: string;
  /** The schema of Perdure's tables. Default: `perdure`. */
  readonly schema?: string;
  /** Maximum connections of this process, in addition to the one for LISTEN. Default: 10. */
  readonly poolSize?: number;
  /** Maximum connections of this process for `ctx.transaction`, opened on demand. Default: 5. */
  readonly transactionPoolSize?: number;
  /** How long a closure of `ctx.transaction` may take, in milliseconds. Default: 30,000. */
  readonly transactionTimeoutMs?: number;
  /** Run missing migrations on open. If `false`, opening an old schema throws. Default: `true`. */
  readonly migrate?: boolean;
  /** Receive change notifications by LISTEN, on a separate connection. If `false`, poll only. Default: `true`. */
  readonly listen?: boolean;
  /** Prepare statements once per connection. Set to `false` behind a pooler in transaction mode. Default: `true`. */
  readonly prepare?: boolean;
  /** Polling interval for changes that were not notified, in milliseconds. Default: 1,000. */
  readonly pollMs?: number;
  /** How long to retry while the server is unavailable or transactions conflict, in milliseconds. Default: 10,000. */
  readonly retryMs?: number;
  /** Timeout for opening a connection, in milliseconds. Default: 5,000. */
  readonly connectTimeoutMs?: number;
  /**
   * Maximum silence of the server while a worker claims, renews, acks or polls, in milliseconds. After that the
   * connection is closed and another one is used. Must be less than `orchestrationLease`. Default: 5,000.
   */
  readonly answerTimeoutMs?: number;
  /** Maximum duration of a statement, in milliseconds. Default: 30,000. */
  readonly statementTimeoutMs?: number;
  /** Time after which the server ends an idle transaction, in milliseconds. Default: 30,000. */
  readonly idleInTransactionTimeoutMs?: number;
  /** The name in `pg_stat_activity`. Default: `perdure`. */
  readonly applicationName?: string;
  /** Replaces the database clock, for tests. */
  readonly clock?: Clock;
}

/** Settings of a connection pool. */
export interface ConnectionSettings {
  readonly client: pg.ClientConfig;
  readonly poolSize: number;
  readonly prepare: boolean;
  readonly retryMs: number;
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Maximum silence of the server during a lease-bound operation. */
  readonly answerTimeoutMs: number;
  /** Statements to send after BEGIN if settings cannot be sent with the connection. */
  readonly transactionSettings: readonly string[];
}

/** Settings of the connections for transactions of the application. */
export interface ApplicationSettings extends Omit<ConnectionSettings, 'transactionSettings'> {
  /** Default limit of a closure. */
  readonly timeoutMs: number;
  /** Resets the connection, and begins a transaction that the marker identifies. */
  readonly begin: (marker: string) => string;
  /** Statements to send before those of the store. */
  readonly ackSettings: string;
}

/** Validated options with defaults. */
export interface ResolvedOptions {
  /** For logs and errors, without secrets. */
  readonly name: string;
  /** The schema as a quoted identifier, for statements. */
  readonly quotedSchema: string;
  readonly schema: string;
  readonly migrate: boolean;
  readonly listen: boolean;
  readonly pollMs: number;
  readonly clock: Clock | undefined;
  readonly connection: ConnectionSettings;
  readonly application: ApplicationSettings;
}

// Added to the statement timeout. If the server has not responded by then, it or the network is down.
const responseSlackMs = 5_000;
// Linux then probes an idle connection every second, ten times, so a dead peer is detected within 15 s.
const keepAliveDelayMs = 5_000;
const idleTimeoutMs = 60_000;

// Every statement is written for index access, row by row. A plan made while a queue is empty must not become a scan of
// the whole queue later.
const planSettings = [
  'enable_seqscan=off',
  'enable_mergejoin=off',
  'enable_memoize=off',
  'plan_cache_mode=force_generic_plan',
  'jit=off',
];

/** Validates the options and applies defaults. Its errors never contain the URL. */
export function resolveOptions(options: PostgresOptions): ResolvedOptions {
  const { schema = 'perdure', migrate = true, listen = true, pollMs = 1_000, clock } = options;
  check(
    typeof schema === 'string' &&
      /^[a-z_][a-z0-9_]{0,49}$/.test(schema) &&
      !schema.startsWith('pg_'),
    'schema',
    '1 to 50 lower-case letters, digits and underscores, not starting with a digit or pg_',
  );
  check(pollMs >= 1, 'pollMs', 'at least 1');
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
    application: resolveApplication(options, connection),
  };
}

/** Parses the URL and reads the files that it names. Opens no connection. */
function parse(client: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(client);
  } catch (error) {
    // Only the code and path of the error are used, because the URL is secret.
    const { code, path } = error as NodeJS.ErrnoException;
    throw new PerdureError(
      'INVALID_OPTION',
      `openPostgres: cannot read a file named in \`url\` (${[code, path].filter(Boolean).join(' ')}). Check sslcert, sslkey and sslrootcert.`,
    );
  }
}

function resolveConnection(options: PostgresOptions): ConnectionSettings {
  const { url, poolSize = 10, prepare = true, applicationName = 'perdure' } = options;
  const { retryMs = 10_000, connectTimeoutMs = 5_000, answerTimeoutMs = 5_000 } = options;
  const { statementTimeoutMs = 30_000, idleInTransactionTimeoutMs = 30_000 } = options;
  check(isPostgresUrl(url), 'url', 'a URL like postgres://user:password@host:5432/database');
  check(Number.isSafeInteger(poolSize) && poolSize >= 1, 'poolSize', 'an integer of at least 1');
  check(retryMs >= 0, 'retryMs', 'at least 0');
  const timeouts = {
    connectTimeoutMs,
    answerTimeoutMs,
    statementTimeoutMs,
    idleInTransactionTimeoutMs,
  };
  for (const [name, ms] of Object.entries(timeouts)) {
    check(Number.isSafeInteger(ms) && ms >= 1, name, 'an integer of at least 1');
  }
  // The driver gives `options` in the URL precedence over ours, so both are joined.
  const given = new URL(url).searchParams.get('options');
  const settings = [...planSettings.map((setting) => `-c ${setting}`), ...(given ? [given] : [])];
  return {
    client: {
      connectionString: prepare && given !== null ? withoutOptions(url) : url,
      application_name: applicationName,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveDelayMs,
      query_timeout: statementTimeoutMs + responseSlackMs,
      // A pooler rejects connections with settings that it does not know.
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

/** The application's own settings apply to its transactions, so the plan settings are only set for the store's statements. */
function resolveApplication(
  options: PostgresOptions,
  connection: ConnectionSettings,
): ApplicationSettings {
  const {
    url,
    transactionPoolSize: poolSize = 5,
    transactionTimeoutMs: timeoutMs = 30_000,
  } = options;
  const { statementTimeoutMs = 30_000 } = options;
  for (const [name, value] of Object.entries({
    transactionPoolSize: poolSize,
    transactionTimeoutMs: timeoutMs,
  })) {
    check(Number.isSafeInteger(value) && value >= 1, name, 'an integer of at least 1');
  }
  const { options: _planSettings, ...client } = connection.client;
  // A pooler resets a connection itself.
  const reset = connection.prepare ? 'RESET ALL; RESET SESSION AUTHORIZATION; RESET ROLE; ' : '';
  return {
    ...connection,
    client: { ...client, connectionString: url },
    poolSize,
    timeoutMs,
    begin: (marker) =>
      `${reset}BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL perdure.transaction = ${pg.escapeLiteral(marker)}`,
    ackSettings: [
      // The application may have changed its role for row-level security.
      'RESET ROLE',
      ...planSettings.map((setting) => `SET LOCAL ${setting}`),
      `SET LOCAL statement_timeout = ${statementTimeoutMs}`,
    ].join('; '),
  };
}

function withoutOptions(url: string): string {
  const parsed = new URL(url);
  parsed.searchParams.delete('options');
  return parsed.href;
}

function check(holds: boolean, option: string, wanted: string): void {
  if (!holds) {
    throw new PerdureError('INVALID_OPTION', `openPostgres: \`${option}\` must be ${wanted}.`);
  }
}
