import pg from 'pg';
import { randomToken } from '../../model/values/random-id.ts';
import { toSchemaState, type SchemaState } from '../shared/migrations.ts';
import type {
  ConnectionUse,
  PostgresReport,
  PostgresServer,
  StoreAccess,
  TableReport,
} from '../shared/store-report.ts';
import { resolveOptions, type PostgresOptions, type ResolvedOptions } from './driver/options.ts';
import { toProviderError } from './driver/postgres-errors.ts';
import { migrations, oldestVersion, readApplied } from './migrations/migrate.ts';

const notifyTimeoutMs = 2_000;

/** Reports on a schema and its server without creating or migrating it. `brief` leaves out tables and notifications. */
export async function reportOnPostgres(
  options: PostgresOptions,
  { brief = false }: { readonly brief?: boolean } = {},
): Promise<PostgresReport> {
  const resolved = resolveOptions(options);
  const report = { kind: 'postgres', name: resolved.name } as const;
  // Without the settings of a store's connections, so that the settings of the server show.
  const client = newClient(resolved);
  try {
    await client.connect();
    const server = await readServer(client);
    const schema = await readSchema(client, resolved);
    const access = await readAccess(client, resolved, schema);
    if (brief) return { ...report, server, schema, access };
    return {
      ...report,
      server,
      schema,
      access,
      tables: await readTables(client, resolved),
      listens: await receivesNotifications(client, resolved),
    };
  } catch (error) {
    return { ...report, access: { kind: 'unreachable', reason: reasonOf(error) } };
  } finally {
    await client.end().catch(() => undefined);
  }
}

function newClient({ connection }: ResolvedOptions): pg.Client {
  const { connectionString } = connection.client;
  const client = new pg.Client({
    connectionString,
    application_name: 'perdure doctor',
    connectionTimeoutMillis: connection.connectTimeoutMs,
    query_timeout: 10_000,
  });
  // Its statements get the same error.
  client.on('error', () => undefined);
  return client;
}

/** The text of an error, which never contains the URL. */
function reasonOf(error: unknown): string {
  return toProviderError('open', error).message;
}

async function readServer(client: pg.Client): Promise<PostgresServer> {
  const { rows } = await client.query<
    Omit<PostgresServer, 'oldestVersion' | 'connections'> & {
      readonly serverUsed: number;
      readonly serverLimit: number;
      readonly databaseUsed: number;
      readonly databaseLimit: number;
      readonly roleUsed: number;
      readonly roleLimit: number;
    }
  >(`SELECT current_setting('server_version') AS version, current_database() AS database, current_user AS role,
       current_setting('synchronous_commit') AS "synchronousCommit",
       (SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout')
         AS "idleInTransactionTimeoutMs",
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         AS "serverLimit",
       (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS "serverUsed",
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS "databaseLimit",
       (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database()
          AND backend_type = 'client backend') AS "databaseUsed",
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS "roleLimit",
       (SELECT count(*)::int FROM pg_stat_activity WHERE usename = current_user
          AND backend_type = 'client backend') AS "roleUsed"`);
  const [row] = rows;
  if (row === undefined) throw new Error('The settings query returned no row.');
  const { serverUsed, serverLimit, databaseUsed, databaseLimit, roleUsed, roleLimit, ...server } =
    row;
  const uses: readonly ConnectionUse[] = [
    { limitedBy: 'server', used: serverUsed, limit: serverLimit },
    { limitedBy: 'database', used: databaseUsed, limit: databaseLimit },
    { limitedBy: 'role', used: roleUsed, limit: roleLimit },
  ];
  // The limit of a database or role is -1 if there is none.
  const [tightest] = uses
    .filter(({ limit }) => limit >= 0)
    .toSorted((a, b) => a.limit - a.used - (b.limit - b.used));
  if (tightest === undefined) throw new Error('The server has no limit of connections.');
  return { ...server, oldestVersion, connections: tightest };
}

async function readSchema(client: pg.Client, options: ResolvedOptions): Promise<SchemaState> {
  try {
    const applied = await readApplied(client, options);
    return toSchemaState(() => applied, migrations);
  } catch (error) {
    return toSchemaState(() => {
      throw error;
    }, migrations);
  }
}

async function readAccess(
  client: pg.Client,
  { quotedSchema, schema: name }: ResolvedOptions,
  schema: SchemaState,
): Promise<StoreAccess> {
  const { rows } = await client.query<{ readOnly: string; standby: boolean }>(
    `SELECT current_setting('transaction_read_only') AS "readOnly", pg_is_in_recovery() AS standby`,
  );
  const [row] = rows;
  if (row?.standby === true) {
    return { kind: 'readOnly', reason: 'the server is a standby, which accepts no writes' };
  }
  if (row?.readOnly === 'on') {
    return { kind: 'readOnly', reason: '`default_transaction_read_only` is on' };
  }
  if (schema.applied === 0) return { kind: 'writable' };
  const { rows: grants } = await client.query<{ granted: boolean }>(
    `SELECT has_schema_privilege($1, 'USAGE') AND bool_and(has_table_privilege(oid, 'SELECT')
        AND has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE')
        AND has_table_privilege(oid, 'DELETE')) AS granted
     FROM pg_class WHERE relnamespace = to_regnamespace($2) AND relkind = 'r'
       AND relname <> 'perdure_migrations'`,
    [name, quotedSchema],
  );
  if (grants[0]?.granted === false) {
    return { kind: 'readOnly', reason: `the role lacks privileges in schema ${quotedSchema}` };
  }
  return { kind: 'writable' };
}

async function readTables(
  client: pg.Client,
  { quotedSchema }: ResolvedOptions,
): Promise<readonly TableReport[]> {
  const { rows } = await client.query<TableReport>(
    `SELECT oid::regclass::text AS name, pg_stat_get_live_tuples(oid)::float8 AS "liveRows",
       pg_stat_get_dead_tuples(oid)::float8 AS "deadRows"
     FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' ORDER BY relname`,
    [quotedSchema],
  );
  return rows;
}

/** Whether a notification of another connection arrives, which a pooler in transaction mode prevents. */
async function receivesNotifications(
  client: pg.Client,
  options: ResolvedOptions,
): Promise<boolean> {
  const channel = pg.escapeIdentifier(`perdure_doctor_${randomToken()}`);
  const sender = newClient(options);
  let onArrival: () => void = () => undefined;
  let timer: NodeJS.Timeout | undefined;
  const arrived = new Promise<boolean>((resolve) => {
    onArrival = () => resolve(true);
    timer = setTimeout(() => resolve(false), notifyTimeoutMs);
  });
  client.on('notification', onArrival);
  try {
    await client.query(`LISTEN ${channel}`);
    await sender.connect();
    await sender.query(`NOTIFY ${channel}`);
    return await arrived;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
    client.off('notification', onArrival);
    await sender.end().catch(() => undefined);
  }
}
