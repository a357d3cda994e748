import type { CancelTrigger } from '../../../model/failures/errors.ts';
import type { FetchWorkItemsParams } from '../../contract/work-queue.ts';
import { numbers, text } from '../driver/arrays.ts';
import { chooseDue } from '../../rules/claims.ts';
import { claimText, dueItemsText, lapsedItemsText } from './claim-sql.ts';
import type { Statement } from '../driver/connection.ts';
import type { Secrets } from '../../shared/lock-token.ts';
import { newTaskSecret, isFree } from '../tables/work-items.ts';
import { namesParameter } from '../wakeups/due-query.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import type { TaskRows } from '../tables/task-rows.ts';

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
