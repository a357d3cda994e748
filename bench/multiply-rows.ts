import Database from 'better-sqlite3';
import pg from 'pg';
import { providerOf } from './store-kind.ts';

/** The tables of instances that were not processed yet, with the columns that are new in a copy. */
const tables: Readonly<Record<string, readonly string[]>> = {
  instances: ['instance_key'],
  history: ['instance_key'],
  instance_locks: ['instance_key'],
  orchestrator_queue: ['instance_key', 'message_key'],
  worker_queue: ['instance_key', 'item_key'],
};

/** Runs a statement and returns its rows. */
type Query = (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

/** Returns the highest key of an instance. */
export async function highestKey(store: string): Promise<number> {
  return await withStore(store, (query) => maxOf(query, 'instances', 'instance_key'));
}

/** Copies all rows of the instances with a higher key than `above` so many times. No process has the store open. */
export async function multiplyRows(store: string, above: number, copies: number): Promise<void> {
  if (copies < 1) return;
  const isSqlite = providerOf(store) === 'sqlite';
  await withStore(store, async (query) => {
    const instances = await maxOf(query, 'instances', 'instance_key');
    for (const [table, keys] of Object.entries(tables)) {
      const columns = await columnsOf(query, table, isSqlite);
      const steps = new Map<string, number>([['instance_key', instances - above]]);
      for (const key of keys.slice(1)) steps.set(key, await maxOf(query, table, key));
      const values = columns.map((column) => {
        if (column === 'instance_id') return `instance_id || '-' || copy`;
        const step = keys.includes(column) ? steps.get(column) : undefined;
        return step === undefined ? column : `${column} + copy * ${step}`;
      });
      const numbers = isSqlite
        ? `(WITH RECURSIVE numbers (copy) AS (SELECT 1 UNION ALL SELECT copy + 1 FROM numbers WHERE copy < ${copies})
           SELECT copy FROM numbers)`
        : `generate_series(1::bigint, ${copies})`;
      await query(`INSERT INTO ${table} (${columns.join()}) ${isSqlite ? '' : 'OVERRIDING SYSTEM VALUE'}
        SELECT ${values.join()} FROM ${numbers} AS numbers ${isSqlite ? '' : '(copy)'} CROSS JOIN ${table}
        WHERE instance_key > ${above} AND instance_key <= ${instances} ORDER BY copy`);
      for (const key of isSqlite ? [] : keys) {
        await query(`SELECT setval(sequence, greatest(1, (SELECT max(${key}) FROM ${table})))
          FROM pg_get_serial_sequence('${table}', '${key}') AS sequence WHERE sequence IS NOT NULL`);
      }
    }
    await query(isSqlite ? 'PRAGMA wal_checkpoint(TRUNCATE)' : 'VACUUM ANALYZE');
  });
}

async function maxOf(query: Query, table: string, key: string): Promise<number> {
  const [row] = await query(`SELECT coalesce(max(${key}), 0) AS highest FROM ${table}`);
  return Number(row?.['highest']);
}

/** The columns of a table, without generated ones. */
async function columnsOf(query: Query, table: string, isSqlite: boolean): Promise<string[]> {
  const rows = await query(
    isSqlite
      ? `SELECT name FROM pragma_table_info('${table}')`
      : `SELECT column_name AS name FROM information_schema.columns
         WHERE table_schema = 'perdure' AND table_name = '${table}' AND is_generated = 'NEVER'`,
  );
  return rows.map(({ name }) => String(name));
}

async function withStore<T>(store: string, work: (query: Query) => Promise<T>): Promise<T> {
  if (providerOf(store) === 'sqlite') {
    const db = new Database(store);
    db.pragma('synchronous = OFF');
    try {
      return await work((sql) => {
        const statement = db.prepare<[], Record<string, unknown>>(sql);
        if (statement.reader) return Promise.resolve(statement.all());
        statement.run();
        return Promise.resolve([]);
      });
    } finally {
      db.close();
    }
  }
  const client = new pg.Client({ connectionString: store, options: '-c search_path=perdure' });
  await client.connect();
  try {
    return await work(async (sql) => (await client.query<Record<string, unknown>>(sql)).rows);
  } finally {
    await client.end();
  }
}
