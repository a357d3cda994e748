import type {
  FindUnclaimedWorkParams,
  UnclaimedWork,
  UnclaimedWorkStore,
} from '../../contract/unclaimed-work.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { DefinitionKind } from '../tables/definitions.ts';
import { namesParameter, runnableParameters, priorityLevels } from '../wakeups/due-query.ts';
import { nowSql } from '../driver/scope.ts';
import type { Store } from '../store.ts';

interface Row {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly version: string;
  readonly dueForMs: number;
}

/** Finds due work of definitions that no worker claims. Reads a few index entries per definition that has any work. */
export class UnclaimedWorkFinder {
  readonly #find: Statement;

  constructor(schema: string) {
    const locks = `${schema}.instance_locks`;
    const items = `${schema}.worker_queue`;
    // The keys that occur in an index, one entry of it for each.
    const keys = (name: string, table: string, isIndexed: string) => `${name} (definition_key) AS (
      (SELECT definition_key FROM ${table} WHERE ${isIndexed} ORDER BY definition_key LIMIT 1)
      UNION ALL
      SELECT (SELECT one.definition_key FROM ${table} AS one
              WHERE ${isIndexed} AND one.definition_key > ${name}.definition_key
              ORDER BY one.definition_key LIMIT 1)
      FROM ${name} WHERE ${name}.definition_key IS NOT NULL)`;
    const unknown = `NOT (kind = 'orchestration' AND EXISTS (
          SELECT 1 FROM unnest($2::text[], $3::text[]) AS runnable (name, version)
          WHERE runnable.name = definition.name AND runnable.version = definition.version))
        AND NOT (kind = 'activity' AND name = ANY ($4::text[])) AND NOT (kind = 'task' AND name = ANY ($5::text[]))`;
    const candidates = (from: string) =>
      `(SELECT definition_key AS wanted_key, kind, name, version
        FROM ${from} JOIN ${schema}.definitions AS definition USING (definition_key) WHERE ${unknown}) AS wanted
       CROSS JOIN (VALUES (FALSE), (TRUE)) AS claimed (twice)`;
    const dueBefore = `${nowSql} - $6::bigint`;
    const ofInstance = `entry.definition_key = wanted_key AND entry.suspect = claimed.twice AND next_at IS NOT NULL`;
    const ofLevel = `entry.definition_key = wanted_key AND entry.suspect = claimed.twice AND NOT cancel_requested
              AND entry.priority = level.priority`;
    // A claimed instance stands at the end of its lock; a claimed item stands where it was due.
    this.#find = {
      name: 'perdure_find_unclaimed_work',
      text: `WITH RECURSIVE ${keys('lock_keys', locks, 'next_at IS NOT NULL')},
          ${keys('item_keys', items, 'NOT cancel_requested')}
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
        ) AS entries
        GROUP BY kind, name, version HAVING min(due_at) IS NOT NULL AND NOT bool_or(is_held)
        ORDER BY min(due_at) LIMIT $7`,
    };
  }

  async find(
    tx: Transaction,
    { runnable, activities, tasks, minWaitMs, limit }: FindUnclaimedWorkParams,
    nowParameter: number | null,
  ): Promise<readonly UnclaimedWork[]> {
    const rows = await tx.query<Row>(this.#find, [
      nowParameter,
      ...runnableParameters(runnable),
      namesParameter(activities),
      namesParameter(tasks),
      Math.ceil(minWaitMs),
      limit,
    ]);
    return rows.map(({ kind, name, version, dueForMs }) => ({
      kind,
      name,
      version: version === '' ? null : version,
      dueForMs,
    }));
  }
}

export function createUnclaimedWorkStore(store: Store): UnclaimedWorkStore {
  return {
    findUnclaimedWork: (params) =>
      store.read('findUnclaimedWork', (tx) =>
        store.unclaimedWork.find(tx, params, store.nowParameter),
      ),
  };
}
