import pg from 'pg';
import type { RowCopies } from './finished-instances.ts';

/** Replaces the instances of a database with copies. */
export async function copyPostgresRows(
  store: string,
  { realCount, copies, earlier }: RowCopies,
): Promise<void> {
  const client = new pg.Client({ connectionString: store, options: '-c search_path=perdure' });
  await client.connect();
  const { rows: real } = await client.query<{ readonly key: string; readonly id: string }>(
    'SELECT instance_key AS key, instance_id AS id FROM instances',
  );
  const keys = real.map(({ key }) => key);
  // Keys of starts that shared a commit can have gaps.
  const span = Math.max(realCount, ...keys.map(Number));
  const copyInstances = await copyStatement(client, 'instances', {
    instance_key: 'instance_key + $1',
    instance_id: 'renamed.id',
  });
  const copyHistory = await copyStatement(client, 'history', {
    instance_key: 'instance_key + $1',
  });
  for (let copy = 1; copy <= copies; copy++) {
    const ids = real.map(({ id }) => earlier(id, copy));
    await client.query(copyInstances, [copy * span, keys, ids]);
    await client.query(copyHistory, [copy * span, keys, ids]);
  }
  await client.query('DELETE FROM instances WHERE instance_key = ANY ($1)', [keys]);
  await client.query('DELETE FROM history WHERE instance_key = ANY ($1)', [keys]);
  await client.query(
    `SELECT setval(pg_get_serial_sequence('instances', 'instance_key'), $1::bigint)`,
    [(copies + 1) * span],
  );
  await client.query('VACUUM ANALYZE');
  await client.end();
}

/** A statement that copies the rows of a table, with some columns changed. */
async function copyStatement(
  client: pg.Client,
  table: string,
  changed: Readonly<Record<string, string>>,
): Promise<string> {
  const { rows } = await client.query<{ readonly name: string }>(
    `SELECT column_name AS name FROM information_schema.columns
     WHERE table_schema = 'perdure' AND table_name = $1 AND is_generated = 'NEVER'`,
    [table],
  );
  const columns = rows.map(({ name }) => name);
  const values = columns.map((column) => changed[column] ?? column);
  return `INSERT INTO ${table} (${columns.join()}) OVERRIDING SYSTEM VALUE SELECT ${values.join()} FROM ${table}
    JOIN unnest($2::bigint[], $3::text[]) AS renamed (key, id) ON renamed.key = instance_key`;
}
