import type { FetchWorkItemsParams } from '../work-queue.ts';
import { text, texts } from './arrays.ts';
import { claimText, dueItemsText } from './claim-text.ts';
import type { Connections, Statement } from './connection.ts';
import type { ClaimedItem } from './due-items.ts';
import { newSecret } from '../lock-token.ts';
import { newTaskSecret } from './task-secret.ts';
import { namesParameter, workKeys } from './look.ts';
import { priorityLevels } from './priority-levels.ts';
import { nowSql } from './scope.ts';

/**
 * Claims work items in one statement, which is its own transaction: while there is plenty, and nothing that is flagged,
 * expired or suspect is due, which has to be looked at first.
 */
export class PlainClaims {
  readonly #connections: Connections;
  readonly #statement: Statement;

  constructor({
    connections,
    schema,
  }: {
    readonly connections: Connections;
    readonly schema: string;
  }) {
    this.#connections = connections;
    const table = `${schema}.worker_queue`;
    const suspect = `SELECT 1 FROM ${workKeys(schema, '$2', '$3')} AS wanted CROSS JOIN LATERAL (
        ${priorityLevels(schema, 'TRUE')}
        SELECT FROM level CROSS JOIN LATERAL (
          SELECT FROM ${table} AS due
          WHERE due.definition_key = wanted_key AND due.suspect AND NOT cancel_requested
            AND due.priority = level.priority AND next_at <= ${nowSql} LIMIT 1) AS head) AS found LIMIT 1`;
    this.#statement = {
      name: 'perdure_claim_plainly',
      text: `WITH clear AS MATERIALIZED (
          SELECT (SELECT 1 FROM ${table} WHERE cancel_requested AND next_at <= ${nowSql} ORDER BY next_at LIMIT 1) IS NULL
            AND (SELECT 1 FROM ${table} WHERE expires_at <= ${nowSql} ORDER BY expires_at LIMIT 1) IS NULL
            AND (${suspect}) IS NULL AS holds
        ), due AS MATERIALIZED (
          SELECT * FROM (SELECT holds FROM clear WHERE holds) AS clear CROSS JOIN LATERAL (
            ${dueItemsText(schema, 'FALSE')}) AS found
        ), chosen AS MATERIALIZED (
          SELECT "itemKey", CASE WHEN "isTask" THEN ($7::text[])[place] ELSE ($6::text[])[place] END AS secret,
            CASE WHEN "isTask" THEN "instanceKey" END AS run_key, place
          FROM (SELECT *, row_number() OVER (ORDER BY priority DESC, "nextAt", "itemKey") AS place FROM due) AS ordered
          WHERE place <= $5
        ), ${claimText(schema, {
          wanted: `(SELECT * FROM chosen)`,
          runKeys: 'ARRAY(SELECT run_key FROM chosen)',
          worker: '$8::text',
          now: nowSql,
          until: `${nowSql} + $4::bigint`,
        })}`,
    };
  }

  /** Claims up to `max` items, in the order in which they are due; none where another way has to be taken. */
  claim(
    { max, lockMs, names, tasks, worker }: FetchWorkItemsParams,
    nowParameter: number | null,
  ): Promise<readonly (ClaimedItem & { readonly now: number })[]> {
    const secrets = Array.from({ length: max }, newSecret);
    return this.#connections.statement('fetchWorkItems', this.#statement, [
      nowParameter,
      namesParameter(names),
      namesParameter(tasks),
      Math.ceil(lockMs),
      max,
      texts(secrets),
      texts(secrets.map(newTaskSecret)),
      worker === undefined ? null : text(worker),
    ]);
  }
}
