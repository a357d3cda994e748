import { createHash } from 'node:crypto';
import pg from 'pg';
import { systemClock } from '../../../model/clock.ts';
import {
  checksum,
  missingMigrations,
  openError,
  type AppliedMigration,
  type Migration,
} from '../../shared/migrations.ts';
import { initial } from './0001-initial.ts';
import { jobs } from './0002-jobs.ts';
import { tags } from './0003-tags.ts';
import { workers } from './0004-workers.ts';
import { pause } from './0005-pause.ts';
import { series } from './0006-series.ts';
import { streams } from './0007-streams.ts';
import { starting } from './0008-starting.ts';
import { updates } from './0009-updates.ts';
import { state } from './0010-state.ts';
import { limits } from './0011-limits.ts';
import { startKeys } from './0012-start-keys.ts';
import { beginning } from './0013-beginning.ts';
import { deletedStarts } from './0014-deleted-starts.ts';
import { compression } from './0015-compression.ts';
import { resolveOptions, type PostgresOptions, type ResolvedOptions } from '../driver/options.ts';
import { errorCode, isTransient, toProviderError } from '../driver/postgres-errors.ts';
import { withinBudget } from '../driver/connection.ts';

/** Every migration, in order: 1, 2, 3, … */
export const migrations: readonly Migration[] = [
  initial,
  jobs,
  tags,
  workers,
  pause,
  series,
  streams,
  starting,
  updates,
  state,
  limits,
  startKeys,
  beginning,
  deletedStarts,
  compression,
];

/** A time of the database clock, and the monotonic time at which the query was sent. */
interface ClockReading {
  readonly nowMs: number;
  readonly sentAt: number;
}

type Target = Pick<ResolvedOptions, 'schema' | 'quotedSchema' | 'migrate'>;

/** The oldest supported major version of PostgreSQL. */
export const oldestVersion = 14;

/** Runs all missing migrations. Use a role that may create tables, before other processes open the store. */
export async function migratePostgres(options: PostgresOptions): Promise<void> {
  await prepareSchema({ ...resolveOptions(options), migrate: true });
}

/**
 * Runs missing migrations if `migrate` is set, and reads the database clock. Throws for a schema or server that this
 * version does not support.
 */
export async function prepareSchema(options: ResolvedOptions): Promise<ClockReading> {
  const { client: config, retryMs, connectTimeoutMs } = options.connection;
  const budget = { budgetMs: retryMs, signal: new AbortController().signal };
  try {
    return await withinBudget(budget, isWorthWaiting, async () => {
      const client = new pg.Client({ ...config, connectionTimeoutMillis: connectTimeoutMs });
      // Its statements get the same error.
      client.on('error', () => undefined);
      try {
        await client.connect();
        await assertVersion(client);
        await migrate(client, options);
        return await readClock(client);
      } finally {
        await client.end();
      }
    });
  } catch (error) {
    throw toProviderError('open', error);
  }
}

/** Whether to retry on open: wait for a server that is starting, but fail immediately if the host is unreachable. */
function isWorthWaiting(error: unknown): boolean {
  return isTransient(error) && !/^E[A-Z_]+$/.test(errorCode(error));
}

async function readClock(client: pg.Client): Promise<ClockReading> {
  const sentAt = systemClock.monotonic();
  const { rows } = await client.query<{ now: number }>(
    'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
  );
  return { nowMs: rows[0]?.now ?? Number.NaN, sentAt };
}

async function assertVersion(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ server_version: string }>('SHOW server_version');
  const version = rows[0]?.server_version ?? '';
  if (Number.parseInt(version, 10) >= oldestVersion) return;
  throw openError(
    'PROVIDER',
    `PostgreSQL ${version} is not supported. Use version ${oldestVersion} or newer.`,
  );
}

/** Applies missing migrations under an advisory lock, so that processes can start concurrently. */
export async function migrate(
  client: pg.ClientBase,
  target: Target,
  known: readonly Migration[] = migrations,
): Promise<void> {
  const { schema, quotedSchema } = target;
  const applied = await readApplied(client, target);
  if (missingMigrations(applied, known).length === 0) return;
  if (!target.migrate) {
    throw openError(
      'STORE_TOO_OLD',
      `Schema ${JSON.stringify(schema)} is at migration ${applied.length}, but this version of Perdure needs ${known.length}. Run \`perdure migrate\` or migratePostgres() with a role that may create tables, or open the store with \`migrate: true\`.`,
    );
  }
  await client.query(
    `BEGIN; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(${lockKey(schema)})`,
  );
  try {
    // Reads again under the lock, because another process may have applied them meanwhile.
    const steps = missingMigrations(await readApplied(client, target), known);
    if (steps.length > 0)
      await client.query(
        `CREATE SCHEMA IF NOT EXISTS ${quotedSchema}; SET LOCAL search_path TO ${quotedSchema}`,
      );
    for (const step of steps) await apply(client, step);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

async function apply(client: pg.ClientBase, migration: Migration): Promise<void> {
  await client.query(`CREATE TABLE IF NOT EXISTS perdure_migrations (
  number integer PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)`);
  await client.query(migration.sql);
  // Positional: this client has no prepared statements and runs before a store is open.
  await client.query(
    'INSERT INTO perdure_migrations (number, name, checksum) VALUES ($1, $2, $3)',
    [migration.number, migration.name, checksum(migration)],
  );
}

/** Reads the recorded migrations. Throws `STORE_DAMAGED` for a schema of another application. */
export async function readApplied(
  client: pg.ClientBase,
  { schema, quotedSchema }: Target,
): Promise<readonly AppliedMigration[]> {
  const { rows: tables } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_catalog.pg_class
     WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') ORDER BY relname`,
    [quotedSchema],
  );
  if (tables.length === 0) return [];
  if (!tables.some(({ name }) => name === 'perdure_migrations')) {
    const names = tables.slice(0, 3).map(({ name }) => name);
    throw openError(
      'STORE_DAMAGED',
      `Schema ${JSON.stringify(schema)} has tables (${names.join(', ')}) but no record of Perdure's migrations. Use a separate schema for Perdure, or restore this one from a backup.`,
    );
  }
  const { rows } = await client.query<AppliedMigration>(
    `SELECT number, name, checksum FROM ${quotedSchema}.perdure_migrations ORDER BY number`,
  );
  return rows;
}

/** The advisory lock key of a schema: the first 63 bits of a hash. */
function lockKey(schema: string): bigint {
  const hash = createHash('sha256').update(`perdure migrations of ${schema}`).digest();
  return hash.readBigInt64BE() >> 1n;
}
