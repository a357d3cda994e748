import type { FetchOrchestrationItemsParams } from '../../contract/orchestration-queue.ts';
import { maxSuspectWaitMs } from '../../rules/claims.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import type { PathParts } from '../batches/batching.ts';
import { clock, one, optional, prepare } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { hasBeginLimits } from '../limits/begin-limits.ts';
import type { ClaimedInstances, ClaimedMessage } from '../queues/orchestration-queue.ts';
import { hasPausedDefinitions } from '../tables/pause-rows.ts';
import { cleanupDue, orchestrationKeys, runnableRows, unique } from '../wakeups/due-query.ts';

/**
 * Claims due instances and reads their messages in one statement. Each instance must be live, and have visible messages, but
 * fewer than the maximum. Without a history, it must have its start message. The general path does all claims while a
 * definition is paused, an orchestration is limited, or an instance must be claimed before others.
 */
export class SingleStatementInstanceClaims {
  readonly #connections: Connections;
  readonly #secrets: Secrets;
  readonly #claim: ReturnType<typeof claimStatement>;

  constructor({ connections, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#secrets = secrets;
    this.#claim = claimStatement(schema);
  }

  /** Claims up to `max` instances in due order. Returns no rows if the caller has to use the general path. */
  async claim(
    params: FetchOrchestrationItemsParams & { readonly maxMessages: number },
    now: number | null,
  ): Promise<ClaimedInstances> {
    const { max, lockMs, runnable, worker, maxMessages } = params;
    const secret = this.#secrets.next();
    const rows = await this.#connections.statement<ClaimedMessage>(
      'fetchOrchestrationItems',
      ...this.#claim({
        now,
        runnable: unique(runnable),
        lockMs: Math.ceil(lockMs),
        limit: max,
        maxMessages,
        secret,
        worker,
      }),
    );
    return { rows, secret };
  }
}

/**
 * The statement that claims instances. `due` locks rows of `instance_locks`; `readable` has those of `chosen` that the path
 * can claim. It claims all or none.
 *
 * All reads have the snapshot of the statement. The update finds a row by its ctid in that snapshot. If another transaction
 * has changed the row since, its new ctid is not visible and the row is not claimed. Every change of the messages or the state
 * of an unclaimed instance also changes this row. A claimed instance was therefore read in its current state.
 */
function claimStatement(schema: string) {
  const locks = `${schema}.instance_locks`;
  return prepare(
    'perdure_claim_instances_plainly',
    {
      now: clock,
      runnable: runnableRows,
      lockMs: one<number>('bigint'),
      limit: one<number>('bigint'),
      maxMessages: one<number>('bigint'),
      secret: one<string>('text'),
      worker: optional(one<string>('text')),
    },
    ({ runnable, lockMs, limit, maxMessages, secret, worker }) => {
      const wanted = orchestrationKeys(schema, runnable, 'all');
      const until = `${nowSql} + ${lockMs}`;
      const visible = `${schema}.orchestrator_queue AS message
            WHERE message.instance_key = readable.instance_key AND visible_at <= ${nowSql}`;
      return `WITH clear AS MATERIALIZED (
          SELECT NOT ${hasPausedDefinitions(schema)} AND NOT ${hasBeginLimits(schema)}
            AND (SELECT 1 FROM ${locks} WHERE cleanup_at IS NOT NULL AND ${cleanupDue} <= ${nowSql}
                 ORDER BY ${cleanupDue} LIMIT 1) IS NULL
            AND (SELECT 1 FROM ${wanted} AS wanted CROSS JOIN LATERAL (
                   SELECT FROM ${locks} AS lock WHERE lock.definition_key = wanted_key AND suspect AND next_at IS NOT NULL
                     AND next_at < ${nowSql} - ${maxSuspectWaitMs} LIMIT 1) AS long_due LIMIT 1) IS NULL AS holds
        ), due AS MATERIALIZED (
          SELECT found.* FROM (SELECT holds FROM clear WHERE holds) AS clear CROSS JOIN ${wanted} AS wanted CROSS JOIN LATERAL (
            SELECT lock.ctid AS row_id, instance_key, next_at FROM ${locks} AS lock
            WHERE lock.definition_key = wanted_key AND suspect = FALSE AND next_at <= ${nowSql} AND next_at IS NOT NULL
            ORDER BY next_at, instance_key LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS found
        ), chosen AS MATERIALIZED (
          SELECT * FROM due ORDER BY next_at, instance_key LIMIT ${limit}
        ), readable AS MATERIALIZED (
          SELECT chosen.row_id, chosen.next_at AS due_at, instance.*
          FROM chosen CROSS JOIN LATERAL (
            SELECT instance_key, instance_id, incarnation, execution_id, definition_key, last_turn, history_length,
              parent_instance_id, parent_execution_id, parent_operation, ended_at, closing_reason
            FROM ${schema}.instances AS one WHERE one.instance_key = chosen.instance_key LIMIT 1) AS instance
          CROSS JOIN LATERAL (
            SELECT count(*) AS messages, bool_or(kind = 'start') AS has_start FROM (
              SELECT kind FROM ${schema}.orchestrator_queue AS message
              WHERE message.instance_key = chosen.instance_key AND visible_at <= ${nowSql} LIMIT ${maxMessages}) AS first) AS found
          WHERE instance.ended_at IS NULL AND instance.closing_reason IS NULL
            AND found.messages BETWEEN 1 AND ${maxMessages} - 1 AND (instance.history_length > 0 OR found.has_start)
        ), claimed AS (
          UPDATE ${locks} AS lock
          SET lock_token = ${secret}, locked_until = ${until}, next_at = ${until}, claims = claims + 1, held_until = NULL,
              claimed_by = ${worker}, claimed_at = ${nowSql}
          FROM readable WHERE lock.ctid = readable.row_id
            AND (SELECT count(*) FROM readable) = (SELECT count(*) FROM chosen)
          RETURNING readable.*, lock.claims
        )
        SELECT ${nowSql} AS "now", instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
          readable.execution_id AS "executionId", definition_key AS "definitionKey", last_turn AS "lastTurn",
          history_length AS "historyLength", parent_instance_id AS "parentInstanceId",
          parent_execution_id AS "parentExecutionId", parent_operation AS "parentOperation", claims,
          message.message_key AS "messageKey", message.kind, message.execution_id AS "messageExecutionId",
          message.operation, message.data, message.payload
        FROM claimed AS readable CROSS JOIN LATERAL (
          SELECT visible_at, message_key, kind, message.execution_id, operation, data, payload FROM ${visible}
          ORDER BY visible_at, message_key LIMIT ${maxMessages}) AS message
        ORDER BY due_at, instance_key, visible_at, message_key`;
    },
  );
}
