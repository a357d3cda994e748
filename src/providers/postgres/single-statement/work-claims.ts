import type { FetchWorkItemsParams } from '../../contract/work-queue.ts';
import { text } from '../driver/arrays.ts';
import {
  claimText,
  dueItemsText,
  lapsedItemsText,
  type ClaimedItem,
} from '../queues/item-claims.ts';
import type { PathParts } from '../batches/batching.ts';
import type { Connections, Statement } from '../driver/connection.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import { newTaskSecret, isFree } from '../tables/work-items.ts';
import { namesParameter, workKeys, priorityLevels } from '../wakeups/due-query.ts';
import { nowSql } from '../driver/scope.ts';

/**
 * Claims work items in one statement, which is its own transaction. Claims nothing while an item is due that is flagged,
 * expired, suspect, or whose lease has expired: the general path handles those first.
 *
 * Its parameters stay positional: the fragments of `queues/claim-sql.ts` refer to `$1` to `$5`.
 */
export class SingleStatementClaims {
  readonly #connections: Connections;
  readonly #secrets: Secrets;
  readonly #statement: Statement;

  constructor({ connections, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#secrets = secrets;
    const table = `${schema}.worker_queue`;
    const wanted = {
      names: '$2::text[]',
      tasks: '$3::text[]',
      suspect: 'FALSE',
      limit: '$5::bigint',
    };
    const suspect = `SELECT 1 FROM ${workKeys(schema, wanted)} AS wanted CROSS JOIN LATERAL (
        ${priorityLevels(schema, 'TRUE')}
        SELECT FROM level CROSS JOIN LATERAL (
          SELECT FROM ${table} AS due
          WHERE due.definition_key = wanted_key AND due.suspect AND NOT cancel_requested
            AND due.priority = level.priority AND next_at <= ${nowSql} AND ${isFree} LIMIT 1) AS head) AS found LIMIT 1`;
    this.#statement = {
      name: 'perdure_claim_plainly',
      text: `WITH clear AS MATERIALIZED (
          SELECT (SELECT 1 FROM ${table} WHERE cancel_requested AND next_at <= ${nowSql} AND ${isFree} ORDER BY next_at LIMIT 1) IS NULL
            AND (SELECT 1 FROM ${table} WHERE expires_at <= ${nowSql} ORDER BY expires_at LIMIT 1) IS NULL
            AND (${suspect}) IS NULL AS holds
        ), due AS MATERIALIZED (
          SELECT * FROM (SELECT holds FROM clear WHERE holds) AS clear CROSS JOIN LATERAL (
            ${dueItemsText(schema, wanted, { locked: true })}) AS found
        ), lapsed AS MATERIALIZED (
          ${lapsedItemsText(schema, wanted)} LIMIT 1
        ), chosen AS MATERIALIZED (
          SELECT place, "definitionKey", "isTask" FROM due WHERE (SELECT item_key FROM lapsed) IS NULL
          ORDER BY priority DESC, "nextAt", "itemKey" LIMIT $5
        ), ${claimText(schema, {
          which: 'ctid = ANY (ARRAY(SELECT place FROM chosen))',
          taskKeys: 'ARRAY(SELECT DISTINCT "definitionKey" FROM chosen WHERE "isTask")',
          secret: '$6::text',
          taskSecret: '$7::text',
          worker: '$8::text',
          now: nowSql,
          until: `${nowSql} + $4::bigint`,
        })}`,
    };
  }

  /** Claims up to `max` items in due order. Returns none if the caller has to use the general path. */
  claim(
    { max, lockMs, names, tasks, worker }: FetchWorkItemsParams,
    nowParameter: number | null,
  ): Promise<readonly (ClaimedItem & { readonly now: number })[]> {
    const secret = this.#secrets.next();
    return this.#connections.statement('fetchWorkItems', this.#statement, [
      nowParameter,
      namesParameter(names),
      namesParameter(tasks),
      Math.ceil(lockMs),
      max,
      secret,
      newTaskSecret(secret),
      worker === undefined ? null : text(worker),
    ]);
  }
}
