import type {
  FindUnclaimedWorkParams,
  UnclaimedWork,
  UnclaimedWorkStore,
} from '../../contract/unclaimed-work.ts';
import { one, optional, prepare, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { DefinitionKind } from '../tables/definitions.ts';
import { priorityLevels, runnableRows, unique } from '../wakeups/due-query.ts';
import { nowSql } from '../driver/scope.ts';
import { countedKeys } from '../tables/definitions.ts';
import type { StoreAccess } from '../batches/store-access.ts';

interface Row {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly version: string;
  readonly dueForMs: number;
}

export function createUnclaimedWorkStore(
  store: StoreAccess & { readonly unclaimedWork: UnclaimedWorkFinder },
): UnclaimedWorkStore {
  return {
    findUnclaimedWork: (params) =>
      store.read('findUnclaimedWork', (tx) =>
        store.unclaimedWork.find(tx, params, store.nowParameter),
      ),
  };
}

type KnownDefinitions = Pick<FindUnclaimedWorkParams, 'runnable' | 'activities' | 'tasks'>;

/** Finds due work of definitions that no worker claims. Reads a few index entries per definition with work. */
export class UnclaimedWorkFinder {
  readonly #find: ReturnType<typeof findUnclaimed>;
  readonly #findKeys: ReturnType<typeof findUnknownKeys>;

  constructor(schema: string) {
    this.#find = findUnclaimed(schema);
    this.#findKeys = findUnknownKeys(schema);
  }

  /** The definitions in the queues that are not known, not paused, and not of a paused instance. */
  async unknownKeys(
    tx: Transaction,
    { runnable, activities, tasks }: KnownDefinitions,
  ): Promise<{ readonly lockKeys: readonly number[]; readonly itemKeys: readonly number[] }> {
    const [row] = await tx.query<{ lockKeys: readonly number[]; itemKeys: readonly number[] }>(
      ...this.#findKeys({
        runnable: unique(runnable),
        activities: unique(activities),
        tasks: unique(tasks),
      }),
    );
    return row ?? { lockKeys: [], itemKeys: [] };
  }

  async find(
    tx: Transaction,
    { runnable, activities, tasks, minWaitMs, limit }: FindUnclaimedWorkParams,
    nowParameter: number | null,
  ): Promise<readonly UnclaimedWork[]> {
    const rows = await tx.query<Row>(
      ...this.#find({
        now: nowParameter,
        runnable: unique(runnable),
        activities: unique(activities),
        tasks: unique(tasks),
        minWaitMs: Math.ceil(minWaitMs),
        limit,
      }),
    );
    return rows.map(({ kind, name, version, dueForMs }) => ({
      kind,
      name,
      version: version === '' ? null : version,
      dueForMs,
    }));
  }
}

const inLaneIndex = 'lane IS NOT NULL AND NOT suspect AND NOT delayed AND NOT cancel_requested';

/** Parts of the queries of definitions in the queues that no worker has. */
function unknownDefinitions(
  schema: string,
  known: {
    readonly runnable: { as(name: string): string };
    readonly activities: string;
    readonly tasks: string;
  },
) {
  const { runnable, activities, tasks } = known;
  // The distinct keys of an index. Each costs one index entry.
  const keys = (
    name: string,
    table: string,
    isIndexed: string,
    column = 'definition_key',
  ) => `${name} (definition_key) AS (
      (SELECT ${column} FROM ${table} WHERE ${isIndexed} ORDER BY ${column} LIMIT 1)
      UNION ALL
      SELECT (SELECT one.${column} FROM ${table} AS one
              WHERE ${isIndexed} AND one.${column} > ${name}.definition_key
              ORDER BY one.${column} LIMIT 1)
      FROM ${name} WHERE ${name}.definition_key IS NOT NULL)`;
  const isUnknown = `NOT (kind = 'orchestration' AND EXISTS (
          SELECT 1 FROM ${runnable.as('runnable')}
          WHERE runnable.name = definition.name AND runnable.version = definition.version))
        AND NOT (kind = 'activity' AND name = ANY (${activities})) AND NOT (kind = 'task' AND name = ANY (${tasks}))
        AND (SELECT 1 FROM ${schema}.paused_definitions AS paused
             WHERE paused.kind = definition.kind AND paused.name = definition.name LIMIT 1) IS NULL`;
  return {
    ctes: `${keys('lock_keys', `${schema}.instance_locks`, 'next_at IS NOT NULL')},
          ${keys('plain_keys', `${schema}.worker_queue`, 'NOT cancel_requested AND lane IS NULL')},
          ${keys('lane_keys', `${schema}.worker_queue`, inLaneIndex, 'limit_key')},
          item_keys (definition_key) AS (SELECT definition_key FROM plain_keys UNION
            SELECT counted.key FROM lane_keys CROSS JOIN LATERAL unnest(${countedKeys(schema, 'lane_keys.definition_key')}) AS counted (key))`,
    from: (name: string) =>
      `${name} JOIN ${schema}.definitions AS definition USING (definition_key) WHERE ${isUnknown}`,
  };
}

function findUnknownKeys(schema: string) {
  return prepare(
    'perdure_find_unknown_definitions',
    { runnable: runnableRows, activities: optional(strings()), tasks: optional(strings()) },
    (known) => {
      const { ctes, from } = unknownDefinitions(schema, known);
      const keysOf = (name: string) =>
        `(SELECT coalesce(json_agg(definition_key), '[]') FROM ${from(name)})`;
      return `WITH RECURSIVE ${ctes}
        SELECT ${keysOf('lock_keys')} AS "lockKeys", ${keysOf('item_keys')} AS "itemKeys"`;
    },
  );
}

// A claimed instance has the end of its lease as its due time. A claimed item keeps its due time.
function findUnclaimed(schema: string) {
  return prepare(
    'perdure_find_unclaimed_work',
    {
      now: one<number | null>('bigint'),
      runnable: runnableRows,
      activities: optional(strings()),
      tasks: optional(strings()),
      minWaitMs: one<number>('bigint'),
      limit: one<number>('bigint'),
    },
    ({ runnable, activities, tasks, minWaitMs, limit }) => {
      const locks = `${schema}.instance_locks`;
      const items = `${schema}.worker_queue`;
      const { ctes, from } = unknownDefinitions(schema, { runnable, activities, tasks });
      const candidates = (name: string) =>
        `(SELECT definition_key AS wanted_key, kind, name, version FROM ${from(name)}) AS wanted
       CROSS JOIN (VALUES (FALSE), (TRUE)) AS claimed (twice)`;
      const dueBefore = `${nowSql} - ${minWaitMs}`;
      const ofInstance = `entry.definition_key = wanted_key AND entry.suspect = claimed.twice AND next_at IS NOT NULL`;
      const ofLevel = `entry.definition_key = wanted_key AND entry.suspect = claimed.twice AND NOT cancel_requested
              AND lane IS NULL AND entry.priority = level.priority`;
      return `WITH RECURSIVE ${ctes}
        SELECT kind, name, version, ${nowSql} - min(due_at) AS "dueForMs" FROM (
          SELECT kind, name, version, due_at, is_held FROM ${candidates('lock_keys')} CROSS JOIN LATERAL (
            SELECT
              (SELECT next_at FROM ${locks} AS entry WHERE ${ofInstance} AND next_at <= ${dueBefore}
               ORDER BY next_at LIMIT 1) AS due_at,
              EXISTS (SELECT 1 FROM (
                SELECT lock_token FROM ${locks} AS entry WHERE ${ofInstance} AND next_at > ${nowSql}
                ORDER BY next_at LIMIT 100) AS ahead WHERE lock_token IS NOT NULL) AS is_held) AS found
          UNION ALL
          SELECT kind, name, version, due_at, is_held FROM ${candidates('item_keys')} CROSS JOIN LATERAL (
            ${priorityLevels(schema, 'claimed.twice')}
            SELECT
              (SELECT min(greatest(next_at, locked_until)) FROM (
                SELECT next_at, locked_until FROM ${items} AS entry
                WHERE ${ofLevel} AND next_at <= ${dueBefore} AND (locked_until IS NULL OR locked_until <= ${dueBefore})
                  AND (expires_at IS NULL OR expires_at > ${nowSql})
                ORDER BY next_at LIMIT 1) AS free) AS due_at,
              EXISTS (SELECT 1 FROM (
                SELECT locked_until FROM ${items} AS entry WHERE ${ofLevel}
                ORDER BY next_at LIMIT 100) AS head WHERE locked_until > ${nowSql}) AS is_held
            FROM level WHERE level.priority IS NOT NULL) AS found
          UNION ALL
          SELECT kind, name, version, due_at, is_held FROM (
            SELECT definition_key AS wanted_key, kind, name, version FROM ${from('lane_keys')}) AS wanted
          CROSS JOIN LATERAL (
            SELECT (SELECT min(next_at) FROM (
                SELECT next_at FROM ${items} AS entry WHERE entry.limit_key = wanted_key AND ${inLaneIndex}
                  AND lock_token IS NULL AND next_at <= ${dueBefore} AND (expires_at IS NULL OR expires_at > ${nowSql})
                LIMIT 1000) AS free) AS due_at,
              EXISTS (SELECT 1 FROM ${schema}.places AS place WHERE place.definition_key = wanted_key) AS is_held) AS found
        ) AS entries
        GROUP BY kind, name, version HAVING min(due_at) IS NOT NULL AND NOT bool_or(is_held)
        ORDER BY min(due_at) LIMIT ${limit}`;
    },
  );
}
