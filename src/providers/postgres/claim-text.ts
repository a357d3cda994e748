import { workKeys } from './look.ts';
import { placeOf } from './place-of.ts';
import { priorityLevels } from './priority-levels.ts';
import { nowSql } from './scope.ts';
import { cancelColumns } from './work-items.ts';

/** What a claim is made of: the items, as expressions of the statement around it. */
export interface ClaimParts {
  /** Rows of `item_key`, `secret`, `run_key` (NULL for an activity) and `place`. */
  readonly wanted: string;
  /** The keys of the task runs among them, as an array. */
  readonly runKeys: string;
  /** Who claims. */
  readonly worker: string;
  readonly now: string;
  readonly until: string;
}

/** Locks what is due of each name by its priorities: `$1` is the clock's, `$2` and `$3` the names, `$4` suspects, `$5` the limit. */
export function dueItemsText(schema: string, suspect: string): string {
  return `SELECT found.*, is_task AS "isTask" FROM ${workKeys(schema, '$2', '$3')} AS wanted CROSS JOIN LATERAL (
      ${priorityLevels(schema, suspect)}
      SELECT item.* FROM level CROSS JOIN LATERAL (
        SELECT item_key AS "itemKey", instance_key AS "instanceKey", next_at AS "nextAt", expires_at AS "expiresAt",
          item.priority
        FROM ${schema}.worker_queue AS item
        WHERE item.definition_key = wanted_key AND suspect = ${suspect} AND item.priority = level.priority
          AND next_at <= ${nowSql} AND NOT cancel_requested
        ORDER BY next_at, item_key LIMIT $5 FOR UPDATE SKIP LOCKED) AS item
      LIMIT $5) AS found`;
}

/** The common tables that claim items which are locked, and the query that reads them; they follow a `WITH`. */
export function claimText(schema: string, parts: ClaimParts): string {
  const { wanted, runKeys, worker, now, until } = parts;
  return `run AS MATERIALIZED (
      SELECT instance_key, status, on_fail FROM ${schema}.instances WHERE instance_key = ANY (${runKeys})
      FOR NO KEY UPDATE SKIP LOCKED
    ), started AS (
      UPDATE ${schema}.instances AS instance
      SET status = CASE status WHEN 'pending' THEN 'running' ELSE status END,
          started_at = coalesce(started_at, ${now}),
          execution_started_at = coalesce(execution_started_at, ${now}),
          on_fail = CASE on_fail WHEN 'queued' THEN 'running' ELSE on_fail END
      WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM run WHERE status = 'pending' OR on_fail = 'queued'))
    ), claimed AS (
      UPDATE ${schema}.worker_queue AS item
      SET lock_token = wanted.secret, locked_until = ${until}, next_at = ${until}, claims = claims + 1,
          claimed_by = ${worker}, claimed_at = ${now}, expires_at = NULL
      FROM ${wanted} AS wanted (item_key, secret, run_key, place)
      ${placeOf(`${schema}.worker_queue`, 'one.item_key = wanted.item_key')}
      WHERE item.ctid = found.place
        AND (run_key IS NULL OR run_key IN (SELECT instance_key FROM run) OR (
          SELECT 1 FROM ${schema}.instances AS held WHERE held.instance_key = run_key) IS NULL)
      RETURNING item.*, wanted.place)
    SELECT ${now} AS "now", item_key AS "itemKey", lock_token AS secret, item.instance_key AS "instanceKey",
      instance_id AS "instanceId", incarnation, instance.definition_key AS "instanceDefinitionKey",
      item.execution_id AS "executionId", operation, item.definition_key AS "definitionKey", payload, item.options,
      claims, item.failures, heartbeat, ${cancelColumns}, instance.priority IS NOT NULL AS "isTask", input,
      instance.options AS "runOptions", failure, on_fail AS "onFail"
    FROM claimed AS item LEFT JOIN LATERAL (
      SELECT instance_id, incarnation, definition_key, priority, input, options, failure, on_fail
      FROM ${schema}.instances AS one
      WHERE one.instance_key = item.instance_key LIMIT 1) AS instance ON TRUE
    ORDER BY place`;
}
