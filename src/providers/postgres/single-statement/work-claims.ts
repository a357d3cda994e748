import type { FetchWorkItemsParams } from '../../contract/work-queue.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import type { PathParts } from '../batches/batching.ts';
import { clock, one, optional, prepare, strings } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import {
  claimText,
  dueItemsText,
  lapsedItemsText,
  type ClaimedItem,
} from '../queues/item-claims.ts';
import { newTaskSecret, isFree } from '../tables/work-items.ts';
import { priorityLevels, unique, workKeys } from '../wakeups/due-query.ts';

/**
 * Claims work items in one statement, which is its own transaction. Claims nothing while an item is due that is flagged,
 * expired, suspect, or whose lease has expired: the general path handles those first.
 */
export class SingleStatementClaims {
  readonly #connections: Connections;
  readonly #secrets: Secrets;
  readonly #claim: ReturnType<typeof claimStatement>;

  constructor({ connections, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#secrets = secrets;
    this.#claim = claimStatement(schema);
  }

  /** Claims up to `max` items in due order. Returns none if the caller has to use the general path. */
  claim(
    { max, lockMs, names, tasks, worker }: FetchWorkItemsParams,
    now: number | null,
  ): Promise<readonly (ClaimedItem & { readonly now: number })[]> {
    const secret = this.#secrets.next();
    const claim = {
      now,
      names: unique(names),
      tasks: unique(tasks),
      lockMs: Math.ceil(lockMs),
      limit: max,
      secret,
      taskSecret: newTaskSecret(secret),
      worker,
    };
    return this.#connections.statement('fetchWorkItems', ...this.#claim(claim));
  }
}

function claimStatement(schema: string) {
  const table = `${schema}.worker_queue`;
  return prepare(
    'perdure_claim_plainly',
    {
      now: clock,
      names: optional(strings()),
      tasks: optional(strings()),
      lockMs: one<number>('bigint'),
      limit: one<number>('bigint'),
      secret: one<string>('text'),
      taskSecret: one<string>('text'),
      worker: optional(one<string>('text')),
    },
    ({ names, tasks, lockMs, limit, secret, taskSecret, worker }) => {
      const wanted = { names, tasks, suspect: 'FALSE', limit };
      const suspect = `SELECT 1 FROM ${workKeys(schema, wanted)} AS wanted CROSS JOIN LATERAL (
        ${priorityLevels(schema, 'TRUE')}
        SELECT FROM level CROSS JOIN LATERAL (
          SELECT FROM ${table} AS due
          WHERE due.definition_key = wanted_key AND due.suspect AND NOT cancel_requested
            AND due.priority = level.priority AND next_at <= ${nowSql} AND ${isFree} LIMIT 1) AS head) AS found LIMIT 1`;
      return `WITH clear AS MATERIALIZED (
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
          ORDER BY priority DESC, "nextAt", "itemKey" LIMIT ${limit}
        ), ${claimText(schema, {
          which: 'ctid = ANY (ARRAY(SELECT place FROM chosen))',
          taskKeys: 'ARRAY(SELECT DISTINCT "definitionKey" FROM chosen WHERE "isTask")',
          secret,
          taskSecret,
          worker,
          now: nowSql,
          until: `${nowSql} + ${lockMs}`,
        })}`;
    },
  );
}
