import type { DefinitionQueue } from '../../contract/management.ts';
import { sumQueueParts, type QueuePart } from '../../rules/definition-queues.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { priorityLevels } from '../wakeups/due-query.ts';

/** Counts the entries of each definition, by the index of due entries. */
export class DefinitionQueues {
  readonly #select: ReturnType<typeof selectQueues>;

  constructor(schema: string) {
    this.#select = selectQueues(schema);
  }

  async read(
    tx: Transaction,
    params: { readonly cap: number; readonly limit: number },
    now: number | null,
  ): Promise<readonly DefinitionQueue[]> {
    const rows = await tx.query<QueuePart>(...this.#select({ now, cap: params.cap }));
    return sumQueueParts(rows, params);
  }
}

function selectQueues(schema: string) {
  return prepare(
    'perdure_definition_queues',
    { now: one<number | null>('bigint'), cap: one<number>('bigint') },
    ({ cap }) => {
      const locks = `${schema}.instance_locks`;
      const items = `${schema}.worker_queue`;
      // The distinct keys of an index. Each costs one index entry. Those of paused instances are negative.
      const keys = (
        name: string,
        table: string,
        isIndexed: string,
        column = 'definition_key',
      ) => `${name} (wanted_key) AS (
          (SELECT ${column} FROM ${table} WHERE ${isIndexed} ORDER BY ${column} LIMIT 1)
          UNION ALL
          SELECT (SELECT one.${column} FROM ${table} AS one
                  WHERE ${isIndexed} AND one.${column} > ${name}.wanted_key
                  ORDER BY one.${column} LIMIT 1)
          FROM ${name} WHERE ${name}.wanted_key IS NOT NULL)`;
      const twice = 'CROSS JOIN (VALUES (FALSE), (TRUE)) AS claimed (twice)';
      // Due and later entries are read apart: both ranges of the index are bounded.
      const counted = (from: string) => `SELECT
          count(*) FILTER (WHERE due_at <= ${nowSql}) AS due,
          count(*) FILTER (WHERE due_at > ${nowSql} AND NOT is_held) AS delayed,
          count(*) FILTER (WHERE is_held) AS held, min(due_at) FILTER (WHERE due_at <= ${nowSql}) AS oldest
        FROM (
          (SELECT greatest(next_at, locked_until) AS due_at, coalesce(locked_until > ${nowSql}, FALSE) AS is_held
           FROM ${from} AND next_at <= ${nowSql} ORDER BY next_at LIMIT ${cap})
          UNION ALL
          (SELECT greatest(next_at, locked_until), coalesce(locked_until > ${nowSql}, FALSE)
           FROM ${from} AND next_at > ${nowSql} ORDER BY next_at LIMIT ${cap})) AS entries`;
      const ofInstance = `${locks} AS entry WHERE entry.definition_key = wanted_key
            AND entry.suspect = claimed.twice AND next_at IS NOT NULL`;
      const ofLevel = `${items} AS entry WHERE entry.definition_key = wanted_key
            AND entry.suspect = claimed.twice AND NOT cancel_requested AND lane IS NULL
            AND entry.priority = level.priority`;
      const laneIndexes = ['NOT suspect AND NOT delayed', 'suspect AND NOT delayed', 'delayed'].map(
        (which) => `lane IS NOT NULL AND ${which} AND NOT cancel_requested`,
      );
      // Held items are counted as due items are: the index of a lane does not distinguish them.
      const ofLanes = (name: string, isIndexed: string) => `
            SELECT definition_key, due, delayed, held, oldest FROM ${name} CROSS JOIN LATERAL (
              SELECT definition_key, count(*) FILTER (WHERE due_at <= ${nowSql}) AS due,
                count(*) FILTER (WHERE due_at > ${nowSql} AND NOT is_held) AS delayed,
                count(*) FILTER (WHERE is_held) AS held, min(due_at) FILTER (WHERE due_at <= ${nowSql}) AS oldest
              FROM (SELECT definition_key, greatest(next_at, locked_until) AS due_at,
                      coalesce(locked_until > ${nowSql}, FALSE) AS is_held
                    FROM ${items} AS entry WHERE entry.limit_key = wanted_key AND ${isIndexed} LIMIT ${cap}) AS entries
              GROUP BY definition_key) AS part WHERE wanted_key IS NOT NULL`;
      return `WITH RECURSIVE ${keys('lock_keys', locks, 'next_at IS NOT NULL')},
          ${keys('item_keys', items, 'NOT cancel_requested AND lane IS NULL')},
          ${laneIndexes.map((which, index) => keys(`lane_keys_${index}`, items, which, 'limit_key')).join(',\n          ')},
          parts AS (
            SELECT wanted_key, due, delayed, held, oldest FROM lock_keys ${twice}
              CROSS JOIN LATERAL (${counted(ofInstance)}) AS part WHERE wanted_key IS NOT NULL
            UNION ALL
            SELECT wanted_key, due, delayed, held, oldest FROM item_keys ${twice} CROSS JOIN LATERAL (
              ${priorityLevels(schema, 'claimed.twice')}
              SELECT part.* FROM level CROSS JOIN LATERAL (${counted(ofLevel)}) AS part
              WHERE level.priority IS NOT NULL) AS part WHERE wanted_key IS NOT NULL
            UNION ALL ${laneIndexes.map((which, index) => ofLanes(`lane_keys_${index}`, which)).join(' UNION ALL ')}
            UNION ALL
            SELECT definition_key, count(*) FILTER (WHERE due_at <= ${nowSql}),
              count(*) FILTER (WHERE due_at > ${nowSql} AND NOT is_held), count(*) FILTER (WHERE is_held),
              min(due_at) FILTER (WHERE due_at <= ${nowSql})
            FROM (SELECT definition_key, greatest(next_at, locked_until) AS due_at,
                    coalesce(locked_until > ${nowSql}, FALSE) AS is_held
                  FROM ${items} WHERE cancel_requested ORDER BY next_at LIMIT ${cap}) AS flagged
            GROUP BY definition_key)
        SELECT kind, name, wanted_key < 0 OR EXISTS (
            SELECT 1 FROM ${schema}.paused_definitions AS paused
            WHERE paused.kind = definition.kind AND paused.name = definition.name) AS "isPaused",
          sum(due)::bigint AS due, sum(delayed)::bigint AS delayed, sum(held)::bigint AS held,
          min(oldest) AS "oldestDueAt"
        FROM parts JOIN ${schema}.definitions AS definition ON definition.definition_key = abs(wanted_key)
        GROUP BY wanted_key, kind, name`;
    },
  );
}
