import type { CancelTrigger } from '../../../model/failures/errors.ts';
import { randomToken } from '../../../model/values/random-id.ts';
import type { NewWorkItem } from '../../contract/turn.ts';
import type { CancelInfo, WorkOutcome } from '../../contract/work-queue.ts';
import { formatToken, parseToken, type Secrets } from '../../shared/lock-token.ts';
import { booleans, numbers, text, texts } from '../driver/arrays.ts';
import { placeOf } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** The operation of the item that is a task run, and of its handler for failure. */
export const taskOperation = 1;
export const onFailOperation = 2;

interface CancelColumns {
  /** `null` too when a request is only on record, because it came past the point of no return. */
  readonly cancelRequestedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

/** A held item as the fences read it. */
export interface HeldItem extends CancelColumns {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly claims: number;
  /** Of a task run alone. */
  readonly startedAt: number | null;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancelRequested: boolean;
}

/** An item to be inserted, claimed already where it says so. */
export interface ItemRow {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly definitionKey: number;
  readonly item: NewWorkItem;
}

/** An item as it goes back to the queue. */
export interface HandedBack {
  readonly itemKey: number;
  readonly nextAt: number;
  readonly claims: number;
  /** Counts as one more. */
  readonly failure: string | undefined;
  readonly unstarted?: boolean | undefined;
}

/** A held item as operators see it. */
export interface RunningRow {
  readonly operation: number;
  readonly definitionKey: number;
  readonly failures: number;
  readonly lockedUntil: number;
  readonly worker: string | null;
  readonly claimedAt: number;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

// A request that is only on record, because it came past the point of no return, is none for the handler.
export const cancelColumns = `CASE WHEN cancel_requested THEN item.cancel_requested_at END AS "cancelRequestedAt",
  cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason"`;

/** The condition for an item that nobody holds; `$1` is the clock's. */
export const isFree = `(locked_until > ${nowSql}) IS NOT TRUE`;

/**
 * The rows of `worker_queue`. An item may be claimed from `next_at` on, unless it is held. A claim leaves that time as it is, because
 * an index has it; a renewal, or a request to stop, makes it the end of the lock. So whoever looks passes over
 * what was claimed within a third of a lease and has not ended, and over nothing else.
 */
export class WorkItems {
  readonly #secrets: Secrets;
  readonly #insert: Statement;
  readonly #lock: Statement;
  readonly #delete: Statement;
  readonly #lockToRenew: Statement;
  readonly #renew: Statement;
  readonly #handBack: Statement;
  readonly #pass: Statement;
  readonly #selectRunning: Statement;

  constructor(schema: string, secrets: Secrets) {
    this.#secrets = secrets;
    const table = `${schema}.worker_queue`;
    this.#insert = {
      name: 'perdure_insert_work_items',
      text: `INSERT INTO ${table} (instance_key, execution_id, operation, definition_key, priority, next_at, lock_token,
          locked_until, claimed_by, claims, cancellation, shielded, created_at, options, payload)
        SELECT instance_key, execution_id, operation, definition_key, priority, coalesce(locked_until, $11::bigint), secret,
          locked_until, claimed_by, CASE WHEN secret IS NULL THEN 0 ELSE 1 END, cancellation, shielded, $11::bigint, options, payload
        FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::text[], $8::boolean[],
            $9::text[], $10::text[], $12::smallint[], $13::text[])
          WITH ORDINALITY AS new (instance_key, execution_id, operation, definition_key, secret, locked_until,
            cancellation, shielded, options, payload, priority, claimed_by, place)
        ORDER BY place
        RETURNING item_key AS "itemKey", instance_key AS "instanceKey", operation`,
    };
    this.#lock = {
      name: 'perdure_lock_work_items',
      text: `SELECT item_key AS "itemKey", instance_key AS "instanceKey", execution_id AS "executionId", operation, claims,
          started_at AS "startedAt", lock_token AS "lockToken", locked_until AS "lockedUntil", cancel_requested AS "cancelRequested", ${cancelColumns}
        FROM ${table} AS item WHERE item_key = ANY ($1::bigint[]) ORDER BY item_key FOR UPDATE`,
    };
    this.#delete = {
      name: 'perdure_delete_work_items',
      text: `DELETE FROM ${table} WHERE item_key = ANY ($1::bigint[])`,
    };
    this.#lockToRenew = {
      name: 'perdure_lock_items_to_renew',
      text: `SELECT FROM ${table} WHERE item_key = ANY ($1::bigint[]) ORDER BY item_key FOR UPDATE`,
    };
    this.#renew = {
      name: 'perdure_renew_work_items',
      text: `UPDATE ${table} AS item
        SET locked_until = ${nowSql} + $6::bigint, next_at = ${nowSql} + $6::bigint,
            heartbeat = CASE WHEN token.sets_heartbeat THEN token.heartbeat ELSE item.heartbeat END
        FROM unnest($2::bigint[], $3::text[], $4::boolean[], $5::text[])
          AS token (item_key, secret, sets_heartbeat, heartbeat)
        ${placeOf(table, `one.item_key = token.item_key AND lock_token = secret AND locked_until > ${nowSql}`)}
        WHERE item.ctid = found.place
        RETURNING item.item_key AS "itemKey", lock_token AS "lockToken", ${cancelColumns}`,
    };
    this.#handBack = {
      name: 'perdure_hand_back_work_items',
      text: `UPDATE ${table} AS item
        SET lock_token = NULL, locked_until = NULL, next_at = back.next_at, claims = back.claims,
            failures = failures + CASE WHEN back.failure IS NULL THEN 0 ELSE 1 END,
            last_failure = coalesce(back.failure, last_failure)
        FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[]) AS back (item_key, next_at, claims, failure)
        ${placeOf(table, 'one.item_key = back.item_key')}
        WHERE item.ctid = found.place`,
    };
    this.#pass = {
      name: 'perdure_pass_point_of_no_return',
      text: `UPDATE ${table} SET point_of_no_return = TRUE
        WHERE item_key = ANY ($1::bigint[])`,
    };
    this.#selectRunning = {
      name: 'perdure_select_running_items',
      text: `SELECT operation, item.definition_key AS "definitionKey", item.failures, locked_until AS "lockedUntil",
          claimed_by AS worker, coalesce(claimed_at, item.created_at) AS "claimedAt", cancel_trigger AS "cancelTrigger", item.cancel_reason AS "cancelReason"
        FROM ${schema}.instances CROSS JOIN LATERAL (
          SELECT * FROM ${table} AS one WHERE one.instance_key = instances.instance_key OFFSET 0) AS item
        WHERE instance_id = $2 AND locked_until > ${nowSql} ORDER BY item.execution_id, operation`,
    };
  }

  /** Inserts items; answers the lock tokens of those that are claimed, by instance and operation. */
  async insert(
    tx: Transaction,
    rows: readonly ItemRow[],
    now: number,
  ): Promise<
    readonly {
      readonly instanceKey: number;
      readonly operation: number;
      readonly lockToken: string;
    }[]
  > {
    if (rows.length === 0) return [];
    const secrets = rows.map(({ item }) =>
      item.claimMs === undefined ? null : this.#secrets.next(),
    );
    const inserted = await tx.query<{ itemKey: number; instanceKey: number; operation: number }>(
      this.#insert,
      [
        numbers(rows.map(({ instanceKey }) => instanceKey)),
        numbers(rows.map(({ executionId }) => executionId)),
        numbers(rows.map(({ item }) => item.operation)),
        numbers(rows.map(({ definitionKey }) => definitionKey)),
        texts(secrets),
        numbers(
          rows.map(({ item: { claimMs } }) =>
            claimMs === undefined ? null : now + Math.ceil(claimMs),
          ),
        ),
        texts(rows.map(({ item }) => item.cancellation)),
        booleans(rows.map(({ item }) => item.shielded)),
        texts(rows.map(({ item }) => item.options)),
        texts(rows.map(({ item }) => item.payload)),
        now,
        numbers(rows.map(({ item }) => item.priority ?? 0)),
        texts(rows.map(({ item }) => item.claimedBy ?? null)),
      ],
    );
    // Rows come back in the order in which they were inserted.
    return inserted.flatMap(({ itemKey, instanceKey, operation }, index) => {
      const secret = secrets[index] ?? null;
      return secret === null
        ? []
        : [{ instanceKey, operation, lockToken: formatToken(itemKey, secret) }];
    });
  }

  /** Locks items by their keys, whoever holds them; by key. */
  async lock(tx: Transaction, itemKeys: readonly number[]): Promise<ReadonlyMap<number, HeldItem>> {
    const rows = await tx.query<HeldItem>(this.#lock, [numbers(itemKeys)]);
    return new Map(rows.map((row) => [row.itemKey, row]));
  }

  async delete(tx: Transaction, itemKeys: readonly number[]): Promise<void> {
    if (itemKeys.length > 0) await tx.execute(this.#delete, [numbers(itemKeys)]);
  }

  /** Locks items before several renewals of them: all at once, in the order of their keys. */
  async lockToRenew(tx: Transaction, lockTokens: readonly string[]): Promise<void> {
    const keys = lockTokens.map((lockToken) => parseToken(lockToken).key);
    await tx.execute(this.#lockToRenew, [numbers(keys)]);
  }

  /** Extends the locks of tokens that are held; answers the cancel requests of those, by token. The items are locked. */
  async renew(
    tx: Transaction,
    renewals: readonly { readonly lockToken: string; readonly heartbeat?: string | null }[],
    extendMs: number,
    nowParameter: number | null,
  ): Promise<ReadonlyMap<string, CancelInfo | null>> {
    const tokens = renewals.map(({ lockToken }) => parseToken(lockToken));
    const keys = numbers(tokens.map(({ key }) => key));
    const rows = await tx.query<CancelColumns & { itemKey: number; lockToken: string }>(
      this.#renew,
      [
        nowParameter,
        keys,
        texts(tokens.map(({ secret }) => secret)),
        booleans(renewals.map(({ heartbeat }) => heartbeat !== undefined)),
        texts(renewals.map(({ heartbeat }) => heartbeat ?? null)),
        Math.ceil(extendMs),
      ],
    );
    return new Map(rows.map((row) => [formatToken(row.itemKey, row.lockToken), toCancelInfo(row)]));
  }

  /** Back to the queue, perhaps with one failure more. */
  async handBack(tx: Transaction, rows: readonly HandedBack[]): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#handBack, [
      numbers(rows.map(({ itemKey }) => itemKey)),
      numbers(rows.map(({ nextAt }) => nextAt)),
      numbers(rows.map(({ claims }) => claims)),
      texts(rows.map(({ failure }) => failure ?? null)),
    ]);
  }

  /** Marks items that are locked by this transaction as past their point of no return. */
  async passPointOfNoReturn(tx: Transaction, itemKeys: readonly number[]): Promise<void> {
    if (itemKeys.length > 0) await tx.execute(this.#pass, [numbers(itemKeys)]);
  }

  /** The items of an instance that somebody holds. */
  selectRunning(
    tx: Transaction,
    instanceId: string,
    nowParameter: number | null,
  ): Promise<readonly RunningRow[]> {
    return tx.query<RunningRow>(this.#selectRunning, [nowParameter, text(instanceId)]);
  }
}

export function toCancelInfo(row: CancelColumns): CancelInfo | null {
  return row.cancelRequestedAt === null || row.cancelTrigger === null
    ? null
    : {
        reason: row.cancelReason ?? '',
        requestedAt: row.cancelRequestedAt,
        trigger: row.cancelTrigger,
      };
}

/** An item that has ended for good. */
export interface Settlement {
  readonly item: HeldItem;
  readonly outcome: WorkOutcome;
}

const taskMark = 't';
const taskSecretLength = randomToken().length + taskMark.length;

/** Marks a secret as that of a task run, so that an ack need not look for what it settles. A hint, and no more. */
export function newTaskSecret(secret: string): string {
  return `${taskMark}${secret}`;
}

/** Says whether a secret is marked as that of a task run. */
export function isTaskSecret(secret: string): boolean {
  return secret.length === taskSecretLength && secret.startsWith(taskMark);
}
