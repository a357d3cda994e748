import type { CancelTrigger } from '../../../model/failures/errors.ts';
import type { FetchWorkItemsParams } from '../../contract/work-queue.ts';
import { chooseDue } from '../../rules/choose-due.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import { numbers, text } from '../driver/arrays.ts';
import type { Statement } from '../driver/connection.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import { newTaskSecret } from '../tables/task-secret.ts';
import { isFree, cancelColumns } from '../tables/work-items.ts';
import { namesParameter, workKeys, priorityLevels } from '../wakeups/due-query.ts';

interface DueItem {
  readonly itemKey: number;
  readonly definitionKey: number;
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
}

const aboveAll = 101;

/**
 * Finds work items and claims them. Every statement reads a range of an index in its order and stops at its limit, for
 * each name and priority alone; rows that others are claiming are passed over.
 * So a claim never waits, whatever becomes of the instance meanwhile: who stops or deletes that meets the item as held.
 */
export class DueItems {
  readonly #taskRows: TaskRows;
  readonly #secrets: Secrets;
  readonly #moveLapsed: Statement;
  readonly #due: Statement;
  readonly #flagged: Statement;
  readonly #claim: Statement;

  constructor({
    schema,
    taskRows,
    secrets,
  }: {
    readonly schema: string;
    readonly taskRows: TaskRows;
    readonly secrets: Secrets;
  }) {
    this.#taskRows = taskRows;
    this.#secrets = secrets;
    const table = `${schema}.worker_queue`;
    const columns = `item_key AS "itemKey", item.definition_key AS "definitionKey", next_at AS "nextAt", expires_at AS "expiresAt"`;
    this.#due = { name: 'perdure_due_items', text: dueItemsText(schema, '$4', { locked: true }) };
    this.#moveLapsed = {
      name: 'perdure_move_lapsed_items',
      text: `WITH due AS MATERIALIZED (${dueItemsText(schema, '$4', { locked: false })})
        UPDATE ${table} SET next_at = locked_until WHERE item_key = ANY (ARRAY(
          SELECT item_key FROM ${table} WHERE item_key = ANY (ARRAY(${lapsedItemsText(schema, '$4')}))
            AND locked_until <= ${nowSql} FOR UPDATE SKIP LOCKED))`,
    };
    // Ahead of all priorities: they take no time, and their instances wait for it.
    this.#flagged = {
      name: 'perdure_flagged_items',
      text: `SELECT ${columns}, ${aboveAll} AS priority, (
            SELECT kind = 'task' FROM ${schema}.definitions AS definition
            WHERE definition.definition_key = item.definition_key) AS "isTask"
        FROM ${table} AS item WHERE cancel_requested AND next_at <= ${nowSql} AND ${isFree}
        ORDER BY next_at, cancel_requested_at LIMIT $2 FOR UPDATE SKIP LOCKED`,
    };
    this.#claim = {
      name: 'perdure_claim_items',
      text: `WITH ${claimText(schema, {
        which: 'item_key = ANY ($1::bigint[])',
        taskKeys: '$2::int[]',
        secret: '$3::text',
        taskSecret: '$4::text',
        worker: '$5::text',
        now: '$6::bigint',
        until: '$7::bigint',
      })}`,
    };
  }

  /** Claims up to `max` items, in the order in which they are due, and reads the clock. */
  async claim(
    scope: Scope,
    { max, lockMs, names, tasks, worker }: FetchWorkItemsParams,
  ): Promise<readonly ClaimedItem[]> {
    const { tx, nowParameter } = scope;
    const wanted = [nowParameter, namesParameter(names), namesParameter(tasks)];
    const [expired, flagged, , , trusted, suspects] = await scope.begin(
      this.#taskRows.expire(tx, nowParameter),
      tx.query<DueItem>(this.#flagged, [nowParameter, max]),
      tx.execute(this.#moveLapsed, [...wanted, false, max]),
      tx.execute(this.#moveLapsed, [...wanted, true, 1]),
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
    const tasksOf = chosen.filter(({ isTask }) => isTask);
    const secret = this.#secrets.next();
    const claimed = await tx.query<ClaimedItem>(this.#claim, [
      numbers(chosen.map(({ itemKey }) => itemKey)),
      numbers([...new Set(tasksOf.map(({ definitionKey }) => definitionKey))]),
      secret,
      newTaskSecret(secret),
      worker === undefined ? null : text(worker),
      scope.now,
      scope.now + Math.ceil(lockMs),
    ]);
    const byKey = new Map(claimed.map((item) => [item.itemKey, item]));
    return chosen.flatMap(({ itemKey }) => byKey.get(itemKey) ?? []);
  }
}

/** What a claim is made of: expressions of the statement around it. */
export interface ClaimParts {
  /** The condition for the items, all of which this transaction has locked. */
  readonly which: string;
  /** The keys of the tasks among their definitions, as an array. */
  readonly taskKeys: string;
  /** The secret of all items of this claim, and that of task runs. */
  readonly secret: string;
  readonly taskSecret: string;
  /** Who claims. */
  readonly worker: string;
  readonly now: string;
  readonly until: string;
}

// What is held stands where it was claimed until a renewal, a request to stop, or the end of its lock moves it.
const isInPlace = '(locked_until > next_at) IS NOT TRUE';

/**
 * What is due of each name by its priorities, `locked` or only read: `$1` is the clock's, `$2` and `$3` the names, `$4` suspects, `$5` the limit.
 * What has lapsed has to be moved first.
 */
export function dueItemsText(
  schema: string,
  suspect: string,
  { locked }: { readonly locked: boolean },
): string {
  return `SELECT found.*, is_task AS "isTask" FROM ${workKeys(schema, '$2', '$3')} AS wanted CROSS JOIN LATERAL (
      ${priorityLevels(schema, suspect)}
      SELECT item.* FROM level CROSS JOIN LATERAL (
        SELECT item_key AS "itemKey", item.definition_key AS "definitionKey", next_at AS "nextAt",
          expires_at AS "expiresAt", item.priority, item.ctid AS place
        FROM ${schema}.worker_queue AS item
        WHERE item.definition_key = wanted_key AND suspect = ${suspect} AND item.priority = level.priority
          AND next_at <= ${nowSql} AND ${isInPlace} AND NOT cancel_requested
        ORDER BY next_at, item_key LIMIT $5 ${locked ? 'FOR UPDATE SKIP LOCKED' : ''}) AS item
      LIMIT $5) AS found`;
}

/**
 * The keys of items whose lock has ended without a renewal, and that still stand where they were claimed: as far as they
 * might come before the end of what is due, which is the table `due` of the statement around it.
 */
export function lapsedItemsText(schema: string, suspect: string): string {
  return `SELECT found.item_key FROM ${workKeys(schema, '$2', '$3')} AS wanted LEFT JOIN LATERAL (
      SELECT last.priority AS lowest, last."nextAt" AS latest, last."itemKey" AS latest_key FROM due AS last
      WHERE last."definitionKey" = wanted_key
        AND (SELECT count(*) FROM due AS one WHERE one."definitionKey" = wanted_key) >= $5
      ORDER BY last.priority, last."nextAt" DESC, last."itemKey" DESC LIMIT 1) AS full_page ON TRUE
    CROSS JOIN LATERAL (
      ${priorityLevels(schema, suspect)}
      SELECT item.item_key FROM level CROSS JOIN LATERAL (
        SELECT item_key FROM ${schema}.worker_queue AS item
        WHERE item.definition_key = wanted_key AND suspect = ${suspect} AND item.priority = level.priority
          AND (next_at, item_key) <= (CASE WHEN level.priority = lowest THEN latest ELSE ${nowSql} END,
            CASE WHEN level.priority = lowest THEN latest_key ELSE 9223372036854775807 END) AND NOT cancel_requested
          AND locked_until > next_at AND locked_until <= ${nowSql} OFFSET 0) AS item
      WHERE level.priority >= lowest OR lowest IS NULL) AS found`;
}

/**
 * The common tables that claim items which are locked, and the query that reads them; they follow a `WITH`. A claim writes the
 * item alone, and of that no column that an index has, unless it makes it suspect or keeps it from expiring: so the row stays on its page.
 * What it belongs to is read through one index scan for all, and joined by a hash: no other plan has a full join.
 */
export function claimText(schema: string, parts: ClaimParts): string {
  const { which, taskKeys, secret, taskSecret, worker, now, until } = parts;
  return `claimed AS (
      UPDATE ${schema}.worker_queue AS item
      SET lock_token = CASE WHEN item.definition_key = ANY (${taskKeys}) THEN ${taskSecret} ELSE ${secret} END,
          locked_until = ${until}, claims = claims + 1, claimed_by = ${worker}, claimed_at = ${now},
          started_at = coalesce(started_at, ${now}), expires_at = NULL,
          next_at = CASE WHEN cancel_requested THEN ${until} ELSE next_at END
      WHERE ${which}
      RETURNING item.*
    ), owner AS MATERIALIZED (
      SELECT instance_key AS owner_key, instance_id, incarnation, definition_key AS owner_definition_key,
        priority AS run_priority, input, options AS run_options, failure
      FROM ${schema}.instances WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM claimed))
    )
    SELECT ${now} AS "now", item_key AS "itemKey", lock_token AS secret, instance_key AS "instanceKey",
      instance_id AS "instanceId", incarnation, owner_definition_key AS "instanceDefinitionKey",
      execution_id AS "executionId", operation, definition_key AS "definitionKey", payload, options, claims, failures,
      heartbeat, ${cancelColumns}, run_priority IS NOT NULL AS "isTask", input, run_options AS "runOptions", failure
    FROM claimed AS item FULL JOIN owner ON owner_key = instance_key
    ORDER BY priority DESC, next_at, item_key`;
}
