import { randomToken } from '../../../model/values/random-id.ts';
import type { NewWorkItem } from '../../contract/turn.ts';
import type { CancelInfo, WorkOutcome } from '../../contract/work-queue.ts';
import { formatToken, parseToken, type Secrets } from '../../shared/lock-token.ts';
import { clock, keys, one, rowIdOf, prepare, rowsOf, type Column } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { isCounted, limitKeyOf } from './definitions.ts';
import { type CancelColumns, type RunningRow, toCancelInfo } from '../../shared/work-item-row.ts';

/** A work item, for fences. */
export interface HeldItem extends CancelColumns {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly claims: number;
  /** Time of the first claim from the queue. `null` if it was claimed on insert. */
  readonly startedAt: number | null;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancelRequested: boolean;
}

/** A work item with its final outcome. */
export interface Settlement {
  readonly item: HeldItem;
  readonly outcome: WorkOutcome;
}

/** A work item to insert. It is claimed immediately if `item.claimMs` is set. */
export interface ItemRow {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly definitionKey: number;
  readonly item: NewWorkItem;
}

/** A work item that returns to the queue. */
export interface HandedBack {
  readonly itemKey: number;
  readonly nextAt: number;
  /** Whether it is due later. */
  readonly isDelayed: boolean;
  readonly claims: number;
  /** The failure of this attempt. Increments `failures`. */
  readonly failure: string | undefined;
  /** Recorded without counting a failure. */
  readonly explanation: string | undefined;
  /** With a failure: the maximum of attempts. */
  readonly maxAttempts: number | null;
}

interface Renewal {
  readonly key: number;
  readonly secret: string;
  /** `undefined` keeps the stored heartbeat. */
  readonly heartbeat: string | null | undefined;
}

/** The cancel request of `item`. A request after the point of no return is not delivered to the handler. */
export const cancelColumns = `CASE WHEN cancel_requested THEN item.cancel_requested_at END AS "cancelRequestedAt",
  cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason"`;

/** The condition that no worker holds the item. Needs the clock as the first parameter. */
export const isFree = `(locked_until > ${nowSql}) IS NOT TRUE`;

/**
 * The table `worker_queue`. An item can be claimed from `next_at` on unless a worker holds it.
 *
 * A claim does not change `next_at`, because that would update an index. The first renewal, or a cancel request, sets it
 * to the end of the lease. Queries for due items therefore skip only items that were claimed within half of a lease.
 */
export class WorkItems {
  readonly #secrets: Secrets;
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string, secrets: Secrets) {
    this.#secrets = secrets;
    this.#sql = statements(schema);
  }

  /** Inserts items. Returns the lock tokens of those that are claimed immediately. */
  async insert(
    tx: Transaction,
    items: readonly ItemRow[],
    now: number,
  ): Promise<
    readonly {
      readonly instanceKey: number;
      readonly operation: number;
      readonly lockToken: string;
    }[]
  > {
    if (items.length === 0) return [];
    const rows = items.map((row) => ({
      ...row,
      secret: row.item.claimMs === undefined ? null : this.#secrets.next(),
    }));
    const hasLanes = rows.some(({ item }) => item.lane !== undefined);
    const insert = hasLanes ? this.#sql.insertWithLanes : this.#sql.insert;
    const inserted = await tx.query<{
      itemKey: number;
      instanceKey: number;
      operation: number;
      isClaimed: boolean;
    }>(...insert({ rows, now }));
    // RETURNING yields rows in insertion order.
    return inserted.flatMap(({ itemKey, instanceKey, operation, isClaimed }, index) => {
      const secret = rows[index]?.secret ?? null;
      return secret === null || !isClaimed
        ? []
        : [{ instanceKey, operation, lockToken: formatToken(itemKey, secret) }];
    });
  }

  /** Locks items, claimed or not. Returns them by key. */
  async lock(tx: Transaction, itemKeys: readonly number[]): Promise<ReadonlyMap<number, HeldItem>> {
    const rows = await tx.query<HeldItem>(...this.#sql.lock({ itemKeys }));
    return new Map(rows.map((row) => [row.itemKey, row]));
  }

  async delete(tx: Transaction, itemKeys: readonly number[]): Promise<void> {
    if (itemKeys.length > 0) await tx.execute(...this.#sql.delete({ itemKeys }));
  }

  /** Locks the items of several renewals in key order, which prevents deadlocks between renewals. */
  async lockToRenew(tx: Transaction, lockTokens: readonly string[]): Promise<void> {
    const itemKeys = lockTokens.map((lockToken) => parseToken(lockToken).key);
    await tx.execute(...this.#sql.lockToRenew({ itemKeys }));
  }

  /** Extends the leases of current tokens on locked items. Returns their cancel requests by token. */
  async renew(
    tx: Transaction,
    renewals: readonly { readonly lockToken: string; readonly heartbeat?: string | null }[],
    extendMs: number,
    nowParameter: number | null,
  ): Promise<ReadonlyMap<string, CancelInfo | null>> {
    const tokens = renewals.map(({ lockToken, heartbeat }) => ({
      ...parseToken(lockToken),
      heartbeat,
    }));
    const rows = await tx.query<CancelColumns & { itemKey: number; lockToken: string }>(
      ...this.#sql.renew({ now: nowParameter, tokens, extendMs: Math.ceil(extendMs) }),
    );
    return new Map(rows.map((row) => [formatToken(row.itemKey, row.lockToken), toCancelInfo(row)]));
  }

  /** Returns items to the queue. */
  async handBack(tx: Transaction, rows: readonly HandedBack[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.handBack({ rows }));
  }

  /** Sets the point of no return of items that this transaction has locked. */
  async passPointOfNoReturn(tx: Transaction, itemKeys: readonly number[]): Promise<void> {
    if (itemKeys.length > 0) await tx.execute(...this.#sql.passPointOfNoReturn({ itemKeys }));
  }

  /** Reads the claimed items of an instance. */
  selectRunning(
    tx: Transaction,
    instanceId: string,
    nowParameter: number | null,
  ): Promise<readonly RunningRow[]> {
    const instance = { now: nowParameter, instanceId };
    return tx.query<RunningRow>(...this.#sql.selectRunning(instance));
  }
}

/** A new work item with its definition, and its secret if it is claimed immediately. */
export interface NewItem {
  readonly definitionKey: number;
  readonly item: NewWorkItem;
  readonly secret: string | null;
}

/** The columns of a list of new work items, without those that name its execution. */
export const newItemColumns = {
  operation: ['int', ({ item }) => item.operation],
  definition_key: ['int', ({ definitionKey }) => definitionKey],
  claim_ms: [
    'bigint',
    ({ item: { claimMs } }) => (claimMs === undefined ? null : Math.ceil(claimMs)),
  ],
  secret: ['text', ({ secret }) => secret],
  cancellation: ['text', ({ item }) => item.cancellation],
  shielded: ['boolean', ({ item }) => item.shielded],
  options: ['text', ({ item }) => item.options],
  payload: ['text', ({ item }) => item.payload],
  priority: ['smallint', ({ item }) => item.priority ?? 0],
  claimed_by: ['text', ({ item }) => item.claimedBy ?? null],
} as const satisfies Record<string, Column<NewItem>>;

/** The columns of the key and the weight. Sent only if an item has a key, so that others do not pay for them. */
export const newLaneColumns = {
  new_lane: ['text', ({ item }) => item.lane?.key ?? null],
  new_weight: ['smallint', ({ item }) => item.lane?.weight ?? null],
} as const satisfies Record<string, Column<NewItem>>;

/** The columns of `worker_queue` that `newItemValues` fills. */
export const newItemTarget = `operation, definition_key, priority, next_at, lock_token, locked_until, claimed_by, claims,
  cancellation, shielded, created_at, options, payload, lane, limit_key, weight`;

/**
 * SELECT list for `newItemTarget` over rows of `newItemColumns`. `limited` is an array of the keys of limited definitions, by
 * `limitedAmong`: their items have a lane and are not claimed.
 */
export function newItemValues(
  schema: string,
  {
    now,
    limited,
    hasLanes,
    row,
  }: {
    readonly now: string;
    readonly limited: string;
    readonly hasLanes: boolean;
    /** The alias of the rows. */
    readonly row: string;
  },
): string {
  const isLimited = `definition_key = ANY (${limited})`;
  const unless = (value: string) => `CASE WHEN ${isLimited} THEN NULL ELSE ${value} END`;
  return `operation, definition_key, priority,
    CASE WHEN ${isLimited} THEN ${now} ELSE ${now} + coalesce(claim_ms, 0) END, ${unless('secret')},
    ${unless(`${now} + claim_ms`)}, ${unless('claimed_by')},
    CASE WHEN secret IS NULL OR ${isLimited} THEN 0 ELSE 1 END, cancellation, shielded, ${now}, options, payload,
    CASE WHEN ${isLimited} THEN ${hasLanes ? `coalesce(new_lane, '')` : `''`} END,
    CASE WHEN ${isLimited} THEN ${limitKeyOf(schema, `${row}.definition_key`)} END, ${hasLanes ? 'new_weight' : 'NULL'}`;
}

/**
 * The limited definitions among the keys, as an array: also those of paused instances, whose keys are negative, and calls of
 * limited tasks. Reads one empty table while nothing is limited.
 */
export function limitedAmong(schema: string, definitionKeys: string): string {
  return `ARRAY(SELECT DISTINCT one.key FROM unnest(${definitionKeys}) AS one (key) WHERE ${isCounted(schema, 'one.key')})`;
}

function statements(schema: string) {
  const table = `${schema}.worker_queue`;
  const itemKeys = keys();
  const itemColumns = {
    instance_key: ['bigint', ({ instanceKey }) => instanceKey],
    execution_id: ['int', ({ executionId }) => executionId],
    ...newItemColumns,
  } as const satisfies Record<string, Column<ItemRow & NewItem>>;
  const insertText = (
    rows: { withPlace(name: string): string },
    definitionKeys: string,
    now: string,
    hasLanes: boolean,
  ) => `WITH drawn AS MATERIALIZED (SELECT ${limitedAmong(schema, definitionKeys)} AS limited)
        INSERT INTO ${table} (instance_key, execution_id, ${newItemTarget})
        SELECT instance_key, execution_id, ${newItemValues(schema, { now, limited: '(SELECT limited FROM drawn)::int[]', hasLanes, row: 'new' })}
        FROM ${rows.withPlace('new')}
        ORDER BY place
        RETURNING item_key AS "itemKey", instance_key AS "instanceKey", operation, lock_token IS NOT NULL AS "isClaimed"`;
  return {
    insert: prepare(
      'perdure_insert_work_items',
      { rows: rowsOf<ItemRow & NewItem>()(itemColumns), now: one<number>('bigint') },
      ({ rows, now }) => insertText(rows, rows.column('definition_key'), now, false),
    ),
    insertWithLanes: prepare(
      'perdure_insert_lane_items',
      {
        rows: rowsOf<ItemRow & NewItem>()({ ...itemColumns, ...newLaneColumns }),
        now: one<number>('bigint'),
      },
      ({ rows, now }) => insertText(rows, rows.column('definition_key'), now, true),
    ),
    lock: prepare(
      'perdure_lock_work_items',
      { itemKeys },
      ({ itemKeys }) => `SELECT item_key AS "itemKey", instance_key AS "instanceKey",
          execution_id AS "executionId",
          operation, claims, started_at AS "startedAt", lock_token AS "lockToken", locked_until AS "lockedUntil",
          cancel_requested AS "cancelRequested", ${cancelColumns}
        FROM ${table} AS item WHERE item_key = ANY (${itemKeys}) ORDER BY item_key FOR UPDATE`,
    ),
    delete: prepare(
      'perdure_delete_work_items',
      { itemKeys },
      ({ itemKeys }) => `DELETE FROM ${table} WHERE item_key = ANY (${itemKeys})`,
    ),
    lockToRenew: prepare(
      'perdure_lock_items_to_renew',
      { itemKeys },
      ({ itemKeys }) =>
        `SELECT FROM ${table} WHERE item_key = ANY (${itemKeys}) ORDER BY item_key FOR UPDATE`,
    ),
    renew: prepare(
      'perdure_renew_work_items',
      {
        now: clock,
        tokens: rowsOf<Renewal>()({
          item_key: ['bigint', ({ key }) => key],
          secret: ['text', ({ secret }) => secret],
          sets_heartbeat: ['boolean', ({ heartbeat }) => heartbeat !== undefined],
          heartbeat: ['text', ({ heartbeat }) => heartbeat ?? null],
        }),
        extendMs: one<number>('bigint'),
      },
      ({ tokens, extendMs }) => `UPDATE ${table} AS item
        SET locked_until = ${nowSql} + ${extendMs}, next_at = ${nowSql} + ${extendMs},
            heartbeat = CASE WHEN token.sets_heartbeat THEN token.heartbeat ELSE item.heartbeat END,
            heartbeat_at = CASE WHEN token.sets_heartbeat THEN ${nowSql} ELSE item.heartbeat_at END
        FROM ${tokens.as('token')}
        ${rowIdOf(table, `one.item_key = token.item_key AND lock_token = secret AND locked_until > ${nowSql}`)}
        WHERE item.ctid = found.row_id
        RETURNING item.item_key AS "itemKey", lock_token AS "lockToken", ${cancelColumns}`,
    ),
    handBack: prepare(
      'perdure_hand_back_work_items',
      {
        rows: rowsOf<HandedBack>()({
          item_key: ['bigint', ({ itemKey }) => itemKey],
          next_at: ['bigint', ({ nextAt }) => nextAt],
          is_delayed: ['boolean', ({ isDelayed }) => isDelayed],
          claims: ['int', ({ claims }) => claims],
          failure: ['text', ({ failure }) => failure ?? null],
          explanation: ['text', ({ explanation }) => explanation ?? null],
          max_attempts: ['bigint', ({ maxAttempts }) => maxAttempts],
        }),
      },
      // `awake_at` decides whether an item of a lane is delayed. Its creation time may be later than now: after the clock was
      // set back.
      ({ rows }) => `UPDATE ${table} AS item
        SET lock_token = NULL, locked_until = NULL, next_at = back.next_at, claims = back.claims,
            awake_at = CASE WHEN lane IS NOT NULL THEN back.next_at - CASE WHEN is_delayed THEN 1 ELSE 0 END END,
            failures = failures + CASE WHEN back.failure IS NULL THEN 0 ELSE 1 END,
            last_failure = coalesce(back.failure, back.explanation, last_failure),
            max_attempts = CASE WHEN back.failure IS NULL THEN item.max_attempts ELSE back.max_attempts END
        FROM ${rows.as('back')}
        ${rowIdOf(table, 'one.item_key = back.item_key')}
        WHERE item.ctid = found.row_id`,
    ),
    passPointOfNoReturn: prepare(
      'perdure_pass_point_of_no_return',
      { itemKeys },
      ({ itemKeys }) =>
        `UPDATE ${table} SET point_of_no_return = TRUE WHERE item_key = ANY (${itemKeys})`,
    ),
    selectRunning: prepare(
      'perdure_select_running_items',
      { now: clock, instanceId: one<string>('text') },
      ({ instanceId }) => `SELECT operation, item.definition_key AS "definitionKey", item.failures,
          locked_until AS "lockedUntil", claimed_by AS worker, coalesce(claimed_at, item.created_at) AS "claimedAt",
          cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason"
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${table} AS one WHERE one.instance_key = instances.instance_key OFFSET 0) AS item
        WHERE instance_id = ${instanceId} AND locked_until > ${nowSql} ORDER BY item.execution_id, operation`,
    ),
  };
}

const [taskMark, taskPlaceMark, placeMark] = ['t', 'T', 'P'];
const markedLength = randomToken().length + 1;

/** Marks a secret as that of a task run. An ack uses the mark to choose its path, never as a fence. */
export function newTaskSecret(secret: string): string {
  return `${taskMark}${secret}`;
}

/** Marks a secret as that of a task run, and of an item with a place: its end can let another item start. */
export function newPlaceSecret(
  secret: string,
  { isTask, hasPlace }: { readonly isTask: boolean; readonly hasPlace: boolean },
): string {
  if (!hasPlace) return isTask ? newTaskSecret(secret) : secret;
  return `${isTask ? taskPlaceMark : placeMark}${secret}`;
}

/** Whether a secret is marked as that of a task run. */
export function isTaskSecret(secret: string): boolean {
  return (
    secret.length === markedLength &&
    (secret.startsWith(taskMark) || secret.startsWith(taskPlaceMark))
  );
}

/** Whether the end of a claim can let an item of a limited definition start. Only a hint: the next poll finds it too. */
export function freesPlace(lockToken: string): boolean {
  const secret = lockToken.slice(lockToken.indexOf('.') + 1);
  return (
    secret.length === markedLength &&
    (secret.startsWith(placeMark) || secret.startsWith(taskPlaceMark))
  );
}
