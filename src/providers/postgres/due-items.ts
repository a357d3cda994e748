import type { CancelTrigger } from '../../model/errors.ts';
import type { OnFailState } from '../tasks.ts';
import type { FetchWorkItemsParams } from '../work-queue.ts';
import { numbers, texts } from './arrays.ts';
import { chooseDue } from './choose-due.ts';
import type { Statement } from './connection.ts';
import { newSecret } from './lock-token.ts';
import { namesParameter, workKeys } from './look.ts';
import { priorityLevels } from './priority-levels.ts';
import { nowSql, type Scope } from './scope.ts';
import type { TaskRows } from './task-rows.ts';
import { cancelColumns } from './work-items.ts';

interface DueItem {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly isTask: boolean;
  readonly priority: number;
  readonly nextAt: number;
  /** Of a task run that was never claimed. */
  readonly expiresAt: number | null;
}

/** A claimed item with what its handler needs to know of its instance. */
export interface ClaimedItem {
  readonly itemKey: number;
  readonly secret: string;
  readonly instanceKey: number;
  /** `null`, like all of the instance, when that is gone. */
  readonly instanceId: string | null;
  readonly incarnation: string;
  readonly instanceDefinitionKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly definitionKey: number;
  readonly payload: string | null;
  readonly options: string | null;
  readonly claims: number;
  readonly failures: number;
  readonly heartbeat: string | null;
  readonly cancelRequestedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
  /** What follows is of task runs alone. */
  readonly isTask: boolean;
  readonly input: string | null;
  readonly runOptions: string | null;
  readonly failure: string | null;
  readonly onFail: OnFailState | 'ready' | null;
}

const aboveAll = 101;

/**
 * Finds work items and claims them. Every statement reads a range of an index in its order and stops at its limit, for
 * each name and priority alone; rows that others are claiming are passed over.
 *
 * A claim never waits. That of a task run also needs the run itself, which it makes `running`; whoever holds that is
 * about to stop or delete it, and will want the item: so such an item is left alone.
 */
export class DueItems {
  readonly #taskRows: TaskRows;
  readonly #due: Statement;
  readonly #flagged: Statement;
  readonly #claim: Statement;

  constructor({ schema, taskRows }: { readonly schema: string; readonly taskRows: TaskRows }) {
    this.#taskRows = taskRows;
    const table = `${schema}.worker_queue`;
    const columns = `item_key AS "itemKey", instance_key AS "instanceKey", next_at AS "nextAt", expires_at AS "expiresAt"`;
    this.#due = {
      name: 'perdure_due_items',
      text: `SELECT found.*, is_task AS "isTask" FROM ${workKeys(schema, '$2', '$3')} AS wanted CROSS JOIN LATERAL (
          ${priorityLevels(schema, '$4')}
          SELECT item.* FROM level CROSS JOIN LATERAL (
            SELECT ${columns}, item.priority FROM ${table} AS item
            WHERE item.definition_key = wanted_key AND suspect = $4 AND item.priority = level.priority
              AND next_at <= ${nowSql} AND NOT cancel_requested
            ORDER BY next_at, item_key LIMIT $5 FOR UPDATE SKIP LOCKED) AS item
          LIMIT $5) AS found`,
    };
    // Ahead of all priorities: they take no time, and their instances wait for it.
    this.#flagged = {
      name: 'perdure_flagged_items',
      text: `SELECT ${columns}, ${aboveAll} AS priority, (
            SELECT kind = 'task' FROM ${schema}.definitions AS definition
            WHERE definition.definition_key = item.definition_key) AS "isTask"
        FROM ${table} AS item WHERE cancel_requested AND next_at <= ${nowSql}
        ORDER BY next_at, cancel_requested_at LIMIT $2 FOR UPDATE SKIP LOCKED`,
    };
    this.#claim = {
      name: 'perdure_claim_items',
      text: `WITH run AS MATERIALIZED (
          SELECT instance_key, status, on_fail FROM ${schema}.instances WHERE instance_key = ANY ($5::bigint[])
          FOR NO KEY UPDATE SKIP LOCKED
        ), started AS (
          UPDATE ${schema}.instances AS instance
          SET status = CASE status WHEN 'pending' THEN 'running' ELSE status END,
              started_at = coalesce(started_at, $4::bigint),
              execution_started_at = coalesce(execution_started_at, $4::bigint),
              on_fail = CASE on_fail WHEN 'queued' THEN 'running' ELSE on_fail END
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM run WHERE status = 'pending' OR on_fail = 'queued'))
        ), claimed AS (
          UPDATE ${table} AS item
          SET lock_token = wanted.secret, locked_until = $3::bigint, next_at = $3::bigint, claims = claims + 1,
              expires_at = NULL
          FROM unnest($1::bigint[], $2::text[], $6::bigint[]) AS wanted (item_key, secret, run_key)
          LEFT JOIN run ON run.instance_key = run_key
          WHERE item.item_key = wanted.item_key AND item.item_key = ANY ($1::bigint[])
            AND (run_key IS NULL OR run.instance_key IS NOT NULL OR (
              SELECT 1 FROM ${schema}.instances AS held WHERE held.instance_key = run_key) IS NULL)
          RETURNING item.*)
        SELECT item_key AS "itemKey", lock_token AS secret, item.instance_key AS "instanceKey",
          instance_id AS "instanceId", incarnation, instance.definition_key AS "instanceDefinitionKey",
          item.execution_id AS "executionId", operation, item.definition_key AS "definitionKey", payload, item.options,
          claims, item.failures, heartbeat, ${cancelColumns}, instance.priority IS NOT NULL AS "isTask", input,
          instance.options AS "runOptions", failure, on_fail AS "onFail"
        FROM claimed AS item LEFT JOIN LATERAL (
          SELECT instance_id, incarnation, definition_key, priority, input, options, failure, on_fail
          FROM ${schema}.instances AS one
          WHERE one.instance_key = item.instance_key LIMIT 1) AS instance ON TRUE`,
    };
  }

  /** Claims up to `max` items, in the order in which they are due, and reads the clock. */
  async claim(
    scope: Scope,
    { max, lockMs, names, tasks }: FetchWorkItemsParams,
  ): Promise<readonly ClaimedItem[]> {
    const { tx, nowParameter } = scope;
    const wanted = [nowParameter, namesParameter(names), namesParameter(tasks)];
    const [expired, flagged, trusted, suspects] = await scope.begin(
      this.#taskRows.expire(tx, nowParameter),
      tx.query<DueItem>(this.#flagged, [nowParameter, max]),
      tx.query<DueItem>(this.#due, [...wanted, false, max]),
      tx.query<DueItem>(this.#due, [...wanted, true, 1]),
    );
    scope.effects.finished.push(...expired);
    const chosen = chooseDue({
      max,
      // A flagged item is only ended, never run, so it cannot kill its process.
      trusted: [...flagged, ...trusted],
      suspects: () => suspects,
      keyOf: ({ itemKey }) => itemKey,
      // Those whose time is over are left to the next claim, which ends them.
    }).filter(({ expiresAt }) => expiresAt === null || expiresAt > scope.now);
    if (chosen.length === 0) return [];
    const runKeys = chosen.map(({ instanceKey, isTask }) => (isTask ? instanceKey : null));
    const rows = await tx.query<ClaimedItem>(this.#claim, [
      numbers(chosen.map(({ itemKey }) => itemKey)),
      texts(chosen.map(newSecret)),
      scope.now + Math.ceil(lockMs),
      scope.now,
      numbers(runKeys.filter((key) => key !== null)),
      numbers(runKeys),
    ]);
    const byKey = new Map(rows.map((row) => [row.itemKey, row]));
    return chosen.flatMap(({ itemKey }) => byKey.get(itemKey) ?? []);
  }
}
