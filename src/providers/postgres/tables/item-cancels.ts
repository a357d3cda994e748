import type { CancelTrigger } from '../../../model/failures/errors.ts';
import { encodeMessage } from '../../../model/message.ts';
import type { ActivityCancel } from '../../contract/turn.ts';
import { planItemCancel, type CancelableItem, type CancelScope } from '../../rules/stops.ts';
import { formatToken } from '../../shared/lock-token.ts';
import { keys, one, rowIdOf, prepare, rowsOf } from '../driver/columns.ts';
import type { Scope } from '../driver/scope.ts';
import type { MessageRow } from './messages.ts';

/** A cancel of all items of an instance. */
export interface CancelItems {
  readonly instanceKey: number;
  readonly cancelScope: Exclude<CancelScope, 'operation'>;
  readonly reason: string;
  /** Default: `cancel`. */
  readonly trigger?: 'timeout' | undefined;
  /** The execution that gets a message for each item that never starts; `null` for none. */
  readonly notifiedExecutionId: number | null;
}

/** A cancel of some operations of an execution. */
export interface CancelOperations {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly cancels: readonly ActivityCancel[];
}

interface ItemRow extends CancelableItem {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly startedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

interface Operation {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
}

/** Why an item is canceled, and by whom. */
interface ItemCancelRequest {
  readonly scope: CancelScope;
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

/** The cancel columns to write to an item. */
interface CancelFlag {
  readonly itemKey: number;
  readonly trigger: CancelTrigger;
  readonly reason: string;
  /** `false`: the item is past its point of no return, so the request is recorded but not delivered. */
  readonly isDelivered: boolean;
}

/** The result of canceling items. */
export interface CanceledItems {
  /** Messages to executions about items that never start. */
  readonly messages: readonly MessageRow[];
  /** The number of items removed or flagged, by instance. */
  readonly counts: ReadonlyMap<number, number>;
  /** The instances with an item that stays: a worker holds it, or it is past its point of no return. */
  readonly kept: ReadonlySet<number>;
  /** The start times of task runs, by instance. */
  readonly startedAt: ReadonlyMap<number, number | null>;
}

/**
 * Cancels rows of `worker_queue` by the rule `planItemCancel`.
 * Locks the rows first, so that an item whose claim commits meanwhile counts as claimed. The number of statements does
 * not depend on the number of items.
 */
export class ItemCancels {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(`${schema}.worker_queue`);
  }

  /** Cancels operations of executions. Each execution gets a message for each operation that never starts. */
  async cancelOperations(
    scope: Scope,
    cancels: readonly CancelOperations[],
  ): Promise<CanceledItems> {
    const requests = new Map<string, Operation & ItemCancelRequest>();
    for (const { instanceKey, executionId, cancels: some } of cancels) {
      for (const { operation, trigger, reason } of some) {
        const request = { instanceKey, executionId, operation, trigger, reason };
        const key = operationKey(request);
        if (!requests.has(key)) requests.set(key, { ...request, scope: 'operation' });
      }
    }
    if (requests.size === 0) return nothing;
    const operations = [...requests.values()];
    const rows = await scope.tx.query<ItemRow>(...this.#sql.lockOperations({ operations }));
    const found = new Map(rows.map((row) => [operationKey(row), row]));
    const writes = new ItemCancelWrites(scope);
    // In the order of the requests, which is the order of their messages.
    for (const [key, request] of requests) {
      const row = found.get(key);
      if (row !== undefined) writes.add(row, request, { notify: true });
    }
    return this.#write(scope, writes);
  }

  /** Cancels all items of instances. */
  async cancelAll(scope: Scope, cancels: readonly CancelItems[]): Promise<CanceledItems> {
    if (cancels.length === 0) return nothing;
    const byInstance = new Map(cancels.map((cancel) => [cancel.instanceKey, cancel]));
    const instanceKeys = [...byInstance.keys()];
    const rows = await scope.tx.query<ItemRow>(...this.#sql.lockAll({ instanceKeys }));
    const writes = new ItemCancelWrites(scope);
    for (const row of rows.toSorted((a, b) => a.operation - b.operation)) {
      const cancel = byInstance.get(row.instanceKey);
      if (cancel === undefined) continue;
      const { cancelScope, reason, trigger = 'cancel', notifiedExecutionId } = cancel;
      const request = { scope: cancelScope, reason, trigger } as const;
      writes.add(row, request, { notify: row.executionId === notifiedExecutionId });
    }
    const startedAt = new Map(rows.map((row) => [row.instanceKey, row.startedAt]));
    return { ...(await this.#write(scope, writes)), startedAt };
  }

  async #write({ tx, now }: Scope, writes: ItemCancelWrites): Promise<CanceledItems> {
    const { removed, flags, messages, counts, kept } = writes;
    await Promise.all([
      removed.length > 0 && tx.execute(...this.#sql.remove({ itemKeys: removed })),
      flags.length > 0 && tx.execute(...this.#sql.flag({ flags, now })),
    ]);
    return { messages, counts, kept, startedAt: new Map() };
  }
}

const nothing: CanceledItems = {
  messages: [],
  counts: new Map(),
  kept: new Set(),
  startedAt: new Map(),
};

function operationKey({ instanceKey, executionId, operation }: Operation): string {
  return `${instanceKey} ${executionId} ${operation}`;
}

/** Collects the writes of a cancel, item by item. */
class ItemCancelWrites {
  readonly removed: number[] = [];
  readonly flags: CancelFlag[] = [];
  readonly messages: MessageRow[] = [];
  readonly counts = new Map<number, number>();
  readonly kept = new Set<number>();
  readonly #scope: Scope;

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Adds the writes for one item. `notify`: send a message to its execution if it never starts. */
  add(row: ItemRow, request: ItemCancelRequest, { notify }: { readonly notify: boolean }): void {
    const plan = planItemCancel(row, request.scope, this.#scope.now);
    if (plan === 'ignore') return;
    if (plan === 'remove') {
      this.removed.push(row.itemKey);
      if (notify) this.messages.push(neverStarted(row, request, this.#scope.now));
    } else {
      this.kept.add(row.instanceKey);
      if (plan === 'keep') return;
      const { trigger, reason } = request;
      this.flags.push({ itemKey: row.itemKey, trigger, reason, isDelivered: plan === 'flag' });
      if (plan === 'flag') this.#deliver(row, request);
    }
    this.counts.set(row.instanceKey, (this.counts.get(row.instanceKey) ?? 0) + 1);
  }

  #deliver({ itemKey, lockToken }: ItemRow, { trigger, reason }: ItemCancelRequest): void {
    if (lockToken === null) return;
    const cancel = { trigger, reason: reason.toWellFormed(), requestedAt: this.#scope.now };
    this.#scope.effects.addCancelRequests([{ lockToken: formatToken(itemKey, lockToken), cancel }]);
  }
}

function neverStarted(row: ItemRow, request: ItemCancelRequest, now: number): MessageRow {
  const message = encodeMessage({
    kind: 'activityCanceled',
    executionId: row.executionId,
    operation: row.operation,
    trigger: row.cancelTrigger ?? request.trigger,
    reason: row.cancelReason ?? request.reason,
  });
  return { instanceKey: row.instanceKey, visibleAt: now, message };
}

function statements(table: string) {
  const columns = `item_key AS "itemKey", item.instance_key AS "instanceKey", item.execution_id AS "executionId",
      item.operation, started_at AS "startedAt", lock_token AS "lockToken", locked_until AS "lockedUntil", cancellation,
      shielded, point_of_no_return AS "pointOfNoReturn", cancel_requested AS "cancelRequested",
      cancel_requested_at AS "cancelRequestedAt", cancel_trigger AS "cancelTrigger", cancel_reason AS "cancelReason"`;
  return {
    lockOperations: prepare(
      'perdure_lock_operations',
      {
        operations: rowsOf<Operation>()({
          instance_key: 'bigint',
          execution_id: 'int',
          operation: 'int',
        }),
      },
      ({ operations }) => `SELECT ${columns} FROM ${table} AS item
        WHERE item_key = ANY (ARRAY(
          SELECT found.item_key
          FROM ${operations.as('wanted')}
          CROSS JOIN LATERAL (
            SELECT one.item_key FROM ${table} AS one
            WHERE one.instance_key = wanted.instance_key AND one.execution_id = wanted.execution_id
              AND one.operation = wanted.operation
            LIMIT 1) AS found))
        ORDER BY item_key FOR UPDATE`,
    ),
    lockAll: prepare(
      'perdure_lock_items_of_instances',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `SELECT ${columns} FROM ${table} AS item
        WHERE item_key = ANY (ARRAY(
          SELECT found.item_key FROM unnest(${instanceKeys}) AS wanted (instance_key)
          CROSS JOIN LATERAL (
            SELECT one.item_key FROM ${table} AS one WHERE one.instance_key = wanted.instance_key OFFSET 0) AS found))
        ORDER BY item_key FOR UPDATE`,
    ),
    remove: prepare(
      'perdure_remove_items',
      { itemKeys: keys() },
      ({ itemKeys }) => `DELETE FROM ${table} WHERE item_key = ANY (${itemKeys})`,
    ),
    flag: prepare(
      'perdure_flag_items',
      {
        flags: rowsOf<CancelFlag>()({
          item_key: 'bigint',
          is_delivered: 'boolean',
          trigger: ['text', ({ trigger }) => trigger],
          reason: 'text',
        }),
        now: one<number>('bigint'),
      },
      ({ flags, now }) => `UPDATE ${table} AS item
        SET cancel_requested = flag.is_delivered, cancel_requested_at = ${now}, cancel_trigger = flag.trigger,
            cancel_reason = flag.reason,
            next_at = CASE WHEN flag.is_delivered THEN coalesce(locked_until, next_at) ELSE next_at END
        FROM ${flags.as('flag')}
        ${rowIdOf(table, 'one.item_key = flag.item_key')}
        WHERE item.ctid = found.row_id`,
    ),
  };
}
