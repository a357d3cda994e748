import Database from 'better-sqlite3';
import pg from 'pg';
import { Perdure } from 'perdure';
import { providerOf } from './store-kind.ts';

/** The kinds of instances, by key. One instance is created per millisecond, and most end after 5 ms. */
const listed = {
  failed: 'k % 50 = 0',
  canceled: 'k % 100 = 1',
  leaked: 'k % 5000 = 1',
  running: 'k % 500 = 2',
  paused: 'k % 5000 = 2',
  blocked: 'k % 5000 = 502',
  unregistered: 'k % 5000 = 1002',
  longRunning: 'k % 1000 = 7',
  few: 'k % 2000 = 7',
  child: 'k % 5 = 3',
  rare: 'k % 10000 = 3',
  task: 'k % 10 = 9',
  tagged: 'k % 10 = 0',
} as const;

const definitions = [
  ['orchestration', 'hello', '1'],
  ['orchestration', 'other', '1'],
  ['orchestration', 'hello', '2'],
  ['orchestration', 'rare', '1'],
  ['orchestration', 'gone', '1'],
  ['task', 'job', ''],
] as const;

/** The id of an instance. All begin with 0, except a few. */
const id = (k: string) =>
  `CASE WHEN ${listed.few} THEN 'order-' ELSE '0' END || CAST(10000000 + ${k} AS text) || '-' || CAST(${k} * 7919 % 1000003 AS text)`;

/** The id of an instance that is none of the few. */
export function idOf(key: number): string {
  return `0${10_000_000 + key}-${(key * 7919) % 1_000_003}`;
}

const ended = `NOT (${listed.running})`;
const createdAt = ':now - :count + k';
const endedAt = `${createdAt} + CASE WHEN ${listed.longRunning} AND k <= :count - 300000 THEN 300000 ELSE 5 END`;
const completed = `NOT (${listed.failed} OR ${listed.canceled} OR ${listed.running})`;
const definitionKey = `CASE WHEN ${listed.unregistered} THEN 5 WHEN ${listed.rare} THEN 4 WHEN ${listed.task} THEN 6
  WHEN k % 10 < 6 THEN 1 WHEN k % 10 < 8 THEN 2 ELSE 3 END`;
const failure = `'{"name":"Error","message":"Failure number ' || CAST(k / 50 % 10 AS text) || '","code":"E' || CAST(k / 50 % 10 AS text) || '"}'`;
const tagPairs = Array.from(
  { length: 16 },
  (_, n) => `'"tag${n}":"' || CAST(k / 10 % ${n + 2} AS text) || '"'`,
);
const when = (condition: string, value: string) => `CASE WHEN ${condition} THEN ${value} END`;

/** The columns of an instance, as expressions of its key `k`. */
const columns: Readonly<Record<string, string>> = {
  instance_key: 'k',
  instance_id: id('k'),
  incarnation: `'incarnation'`,
  definition_key: definitionKey,
  status: `CASE WHEN ${listed.failed} THEN 'failed' WHEN ${listed.canceled} THEN 'canceled'
    WHEN ${listed.running} THEN 'running' ELSE 'completed' END`,
  execution_id: '1',
  history_length: '5',
  input_hash: `'0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'`,
  parent_instance_id: when(listed.child, id('(k - k % 100)')),
  parent_execution_id: when(listed.child, '1'),
  parent_operation: when(listed.child, '1'),
  created_at: createdAt,
  started_at: createdAt,
  execution_started_at: createdAt,
  ended_at: when(ended, endedAt),
  completed_at: when(completed, endedAt),
  failed_at: when(listed.failed, endedAt),
  canceled_at: when(listed.canceled, endedAt),
  leaked: `CASE WHEN ${listed.leaked} THEN 1 ELSE 0 END`,
  paused_at: when(listed.paused, createdAt),
  output: when(
    completed,
    `'{"greeting":"Hello, World","number":' || CAST(k AS text) || ',"items":[1,2,3,4,5]}'`,
  ),
  failure: when(listed.failed, failure),
  priority: when(listed.task, '0'),
  failures: when(listed.task, '0'),
  tags: when(listed.tagged, `'{' || ${tagPairs.join(` || ',' || `)} || '}'`),
};

interface Dialect {
  /** A table of the numbers from 1 to `count`, with the column `k`. */
  readonly numbers: string;
  readonly overriding: string;
  readonly tagNumbers: string;
  /** More columns of an instance. */
  readonly columns: Readonly<Record<string, string>>;
  /** More statements. */
  readonly more: readonly string[];
}

function statements(
  { numbers, overriding, tagNumbers, columns: own, more }: Dialect,
  now: number,
  count: number,
): readonly string[] {
  const locks = 'instance_key, definition_key, next_at, claims, blocked_reason, blocked_build';
  return [
    ...definitions.map(
      ([kind, name, version]) =>
        `INSERT INTO definitions (kind, name, version) VALUES ('${kind}', '${name}', '${version}')`,
    ),
    `INSERT INTO instances (${Object.keys({ ...columns, ...own }).join()}) ${overriding}
     SELECT ${Object.values({ ...columns, ...own }).join()} FROM ${numbers}`,
    `INSERT INTO instance_locks (${locks})
     SELECT k, 1, NULL, 0, 'nondeterminism', 'build' FROM ${numbers} WHERE ${listed.blocked}
     UNION ALL SELECT k, 5, :now - 1, 0, NULL, NULL FROM ${numbers} WHERE ${listed.unregistered}`,
    `INSERT INTO instance_tags (name, value, instance_key)
     SELECT 'tag' || CAST(n AS text), CAST(k / 10 % (n + 2) AS text), k FROM ${numbers} CROSS JOIN ${tagNumbers}
     WHERE ${listed.tagged} ORDER BY 1, 2, 3`,
    ...more,
  ].map((text) => text.replaceAll(':now', String(now)).replaceAll(':count', String(count)));
}

/** Fills an empty store with instances of all kinds, by a few statements. */
export async function createListedInstances(
  store: string,
  count: number,
  now: number,
): Promise<void> {
  // Creates the tables.
  await (await Perdure.open(store)).close();
  if (providerOf(store) === 'sqlite') {
    const db = new Database(store);
    const dialect = {
      numbers: `(WITH RECURSIVE numbers (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM numbers WHERE k < ${count})
        SELECT k FROM numbers) AS numbers`,
      overriding: '',
      tagNumbers: `(SELECT value AS n FROM json_each('[${[...Array(16).keys()].join()}]')) AS tag_numbers`,
      columns: {},
      more: [],
    };
    db.transaction(() => {
      for (const statement of statements(dialect, now, count)) db.exec(statement);
    })();
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    return;
  }
  const client = new pg.Client({ connectionString: store, options: '-c search_path=perdure' });
  await client.connect();
  const dialect = {
    numbers: `(SELECT generate_series(1, ${count})::bigint AS k) AS numbers`,
    overriding: 'OVERRIDING SYSTEM VALUE',
    tagNumbers: 'generate_series(0, 15) AS tag_numbers (n)',
    columns: { listed_as: when(`${listed.failed} OR ${listed.canceled}`, columns['status'] ?? '') },
    more: [
      `INSERT INTO live_instances SELECT instance_key FROM instances WHERE ended_at IS NULL AND priority IS NULL`,
    ],
  };
  for (const statement of statements(dialect, now, count)) await client.query(statement);
  await client.query(
    `SELECT setval(pg_get_serial_sequence('instances', 'instance_key'), ${count})`,
  );
  await client.query('VACUUM ANALYZE');
  // Otherwise the server writes the new pages during the measurement.
  await client.query('CHECKPOINT');
  await client.end();
}
