import type { CancelTrigger } from '../../model/errors.ts';
import type { FetchWorkItemsParams } from '../work-queue.ts';
import { numbers, texts } from './arrays.ts';
import { chooseDue } from './choose-due.ts';
import type { Statement } from './connection.ts';
import { newSecret } from './lock-token.ts';
import { activityKeys, namesParameter } from './look.ts';
import { nowSql, type Scope } from './scope.ts';
import { cancelColumns } from './work-items.ts';

interface DueItem {
  readonly itemKey: number;
  readonly nextAt: number;
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
}

/**
 * Finds work items and claims them. Every statement reads a range of an index in its order and stops at its limit, for
 * each name alone; rows that others are claiming are passed over.
 */
export class DueItems {
  readonly #due: Statement;
  readonly #flagged: Statement;
  readonly #claim: Statement;

  constructor(schema: string) {
    const table = `${schema}.worker_queue`;
    this.#due = {
      name: 'perdure_due_items',
      text: `SELECT found.* FROM ${activityKeys(schema, '$2')} AS wanted CROSS JOIN LATERAL (
        SELECT item_key AS "itemKey", next_at AS "nextAt" FROM ${table} AS item
        WHERE item.definition_key = wanted_key AND suspect = $3 AND next_at <= ${nowSql} AND NOT cancel_requested
        ORDER BY next_at, item_key LIMIT $4 FOR UPDATE SKIP LOCKED) AS found`,
    };
    this.#flagged = {
      name: 'perdure_flagged_items',
      text: `SELECT item_key AS "itemKey", next_at AS "nextAt" FROM ${table}
        WHERE cancel_requested AND next_at <= ${nowSql}
        ORDER BY next_at, cancel_requested_at LIMIT $2 FOR UPDATE SKIP LOCKED`,
    };
    this.#claim = {
      name: 'perdure_claim_items',
      text: `WITH claimed AS (
          UPDATE ${table} AS item
          SET lock_token = wanted.secret, locked_until = $3::bigint, next_at = $3::bigint, claims = claims + 1
          FROM unnest($1::bigint[], $2::text[]) AS wanted (item_key, secret)
          WHERE item.item_key = wanted.item_key AND item.item_key = ANY ($1::bigint[])
          RETURNING item.*)
        SELECT item_key AS "itemKey", lock_token AS secret, item.instance_key AS "instanceKey",
          instance_id AS "instanceId", incarnation, instance.definition_key AS "instanceDefinitionKey",
          item.execution_id AS "executionId", operation, item.definition_key AS "definitionKey", payload, options, claims,
          failures, heartbeat, ${cancelColumns}
        FROM claimed AS item LEFT JOIN LATERAL (
          SELECT instance_id, incarnation, definition_key FROM ${schema}.instances AS one
          WHERE one.instance_key = item.instance_key LIMIT 1) AS instance ON TRUE`,
    };
  }

  /** Claims up to `max` items, in the order in which they are due, and reads the clock. */
  async claim(
    scope: Scope,
    { max, lockMs, names }: FetchWorkItemsParams,
  ): Promise<readonly ClaimedItem[]> {
    const { tx, nowParameter } = scope;
    const wanted = [nowParameter, namesParameter(names)];
    const [flagged, trusted, suspects] = await scope.begin(
      tx.query<DueItem>(this.#flagged, [nowParameter, max]),
      tx.query<DueItem>(this.#due, [...wanted, false, max]),
      tx.query<DueItem>(this.#due, [...wanted, true, 1]),
    );
    const chosen = chooseDue({
      max,
      // A flagged item is only ended, never run, so it cannot kill its process.
      trusted: [...flagged, ...trusted],
      suspects: () => suspects,
      keyOf: ({ itemKey }) => itemKey,
    });
    if (chosen.length === 0) return [];
    const rows = await tx.query<ClaimedItem>(this.#claim, [
      numbers(chosen.map(({ itemKey }) => itemKey)),
      texts(chosen.map(newSecret)),
      scope.now + Math.ceil(lockMs),
    ]);
    const byKey = new Map(rows.map((row) => [row.itemKey, row]));
    return chosen.flatMap(({ itemKey }) => byKey.get(itemKey) ?? []);
  }
}
