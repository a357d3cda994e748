import pg from 'pg';
import { onTestFinished } from 'vitest';
import type { PathParts } from '../../../src/providers/postgres/batches/batching.ts';
import { Connections } from '../../../src/providers/postgres/driver/connection.ts';
import { resolveOptions } from '../../../src/providers/postgres/driver/options.ts';
import { prepareSchema } from '../../../src/providers/postgres/migrations/migrate.ts';
import { LimitedDefinitions } from '../../../src/providers/postgres/batches/limited-definitions.ts';
import { Definitions } from '../../../src/providers/postgres/tables/definitions.ts';
import { Secrets } from '../../../src/providers/shared/lock-token.ts';
import { createMigratedDatabase } from '../helpers/migrated-database.ts';

/** Values of the columns of a row. */
type Row = Readonly<Record<string, string | number | boolean | null>>;

/** A database that a test fills below the provider, and the parts that a single-statement path needs. */
export interface PathDatabase {
  readonly parts: PathParts;
  /** Inserts rows. All rows of a table have the same columns. */
  readonly insert: (table: string, rows: readonly Row[]) => Promise<void>;
  readonly query: <Result extends object>(sql: string) => Promise<readonly Result[]>;
}

/** The keys of the definitions in a `PathDatabase`. */
export const definitionKeys = { orchestration: 1, activity: 2, task: 3, otherActivity: 4 } as const;

/** Opens a database for one test, on new connections, so that a mutation applies from the first statement on. */
export async function openPathDatabase(): Promise<PathDatabase> {
  const database = await createMigratedDatabase();
  const { url } = database;
  const options = resolveOptions({ url, poolSize: 1 });
  await prepareSchema(options);
  const { quotedSchema: schema, connection } = options;
  const connections = new Connections(connection);
  const client = new pg.Client({ connectionString: url, options: `-c search_path=${schema}` });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(async () => {
    await connections.close();
    await client.end();
    await database.drop();
  });
  const insert = async (table: string, rows: readonly Row[]) => {
    const [first] = rows;
    if (first === undefined) return;
    const columns = Object.keys(first).join(', ');
    await client.query(
      `INSERT INTO ${table} (${columns}) OVERRIDING SYSTEM VALUE
       SELECT ${columns} FROM jsonb_populate_recordset(NULL::${table}, $1)`,
      [JSON.stringify(rows)],
    );
  };
  const { orchestration, activity, task, otherActivity } = definitionKeys;
  await insert('definitions', [
    { definition_key: orchestration, kind: 'orchestration', name: 'sample', version: '1' },
    { definition_key: activity, kind: 'activity', name: 'activity', version: '' },
    { definition_key: task, kind: 'task', name: 'task', version: '' },
    { definition_key: otherActivity, kind: 'activity', name: 'other', version: '' },
  ]);
  // Above the keys of inserted rows.
  await client.query('ALTER SEQUENCE worker_queue_item_key_seq RESTART WITH 1000000');
  const definitions = Object.assign(new Definitions(schema), { find: () => activity });
  return {
    parts: {
      connections,
      definitions,
      limited: new LimitedDefinitions(),
      secrets: new Secrets(),
      schema,
    },
    insert,
    query: async (sql) => (await client.query(sql)).rows,
  };
}

// The keys of the instances of a trial: `keysPerTrial * trial + 0, 1, …`.
export const keysPerTrial = 4;

/** A batch that a path commits, and whether the rules allow it. */
export interface Trial {
  readonly title: string;
  readonly isAllowed: boolean;
  /** Runs the path. Resolves with `undefined` if it leaves the batch to the general path. */
  readonly run: () => Promise<unknown>;
}

export interface TrialReport {
  readonly committed: number;
  /** The trials that the rules forbid and the path did not commit. */
  readonly forbidden: number;
  /** The trials in which the path committed what the rules forbid, or wrote without a commit. */
  readonly breaches: readonly string[];
  readonly errors: readonly string[];
}

/** Runs trials one after the other, on the rows that belong to their keys. */
export async function runTrials(
  { query }: PathDatabase,
  trials: readonly Trial[],
): Promise<TrialReport> {
  const before = await snapshot(query);
  const committed = new Set<number>();
  const recording = new Set<number>();
  const errors: string[] = [];
  let keys = await countKeys(query);
  for (const [index, { title, run }] of trials.entries()) {
    try {
      if ((await run()) !== undefined) committed.add(index);
      const keysAfter = await countKeys(query);
      if (keysAfter !== keys) recording.add(index);
      keys = keysAfter;
    } catch (error) {
      errors.push(`${title}: ${String(error)}`);
    }
  }
  const after = await snapshot(query);
  const breaches = trials.flatMap(({ title, isAllowed }, index) => {
    const hasChanged = before.get(index) !== after.get(index) || recording.has(index);
    if (committed.has(index)) return isAllowed && hasChanged ? [] : [`${title}: committed`];
    return hasChanged ? [`${title}: written without a commit`] : [];
  });
  const forbidden = trials.filter(({ isAllowed }, index) => !isAllowed && !committed.has(index));
  return { committed: committed.size, forbidden: forbidden.length, breaches, errors };
}

/** The number of recorded request keys. They are hashes, which name no trial. */
async function countKeys(query: PathDatabase['query']): Promise<number> {
  const [row] = await query<{ count: number }>(`SELECT count(*)::int AS count FROM deleted_starts`);
  return row?.count ?? 0;
}

/** All other rows as text, by trial. */
async function snapshot(query: PathDatabase['query']): Promise<ReadonlyMap<number, string>> {
  const tables = ['instances', 'instance_locks', 'orchestrator_queue', 'worker_queue', 'history'];
  const texts = tables.map((table) => `SELECT instance_key, one::text FROM ${table} AS one`);
  const rows = await query<{ trial: number; text: string }>(
    `SELECT (instance_key / ${keysPerTrial})::int AS trial, string_agg(one, ' ' ORDER BY one) AS text
     FROM (${texts.join(' UNION ALL ')}) AS found GROUP BY 1`,
  );
  return new Map(rows.map(({ trial, text }) => [trial, text]));
}

/** A change of a state, such as a status other than that of the base. */
type Change<State> = (state: State) => State;

/** Every state that differs from `base` in at most two of the dimensions, with a title. */
export function withinTwoChanges<State>(
  base: State,
  dimensions: readonly Readonly<Record<string, Change<State>>>[],
): readonly { readonly title: string; readonly state: State; readonly changes: number }[] {
  const states = [{ title: 'unchanged', state: base, changes: 0 }];
  for (const [index, first] of dimensions.entries()) {
    for (const [title, change] of Object.entries(first)) {
      const state = change(base);
      states.push({ title, state, changes: 1 });
      for (const second of dimensions.slice(index + 1)) {
        for (const [also, changeAlso] of Object.entries(second)) {
          states.push({ title: `${title}, ${also}`, state: changeAlso(state), changes: 2 });
        }
      }
    }
  }
  return states;
}
