import type { CancellationType } from '../../../model/cancel.ts';
import type { CancelTrigger } from '../../../model/failures/errors.ts';
import { encodeMessage } from '../../../model/message.ts';
import type { ActivityCancel } from '../../contract/turn.ts';
import { booleans, numbers, texts } from '../driver/arrays.ts';
import type { Statement } from '../driver/connection.ts';
import { isLive } from './instance-locks.ts';
import { formatToken } from '../../shared/lock-token.ts';
import type { MessageRow } from './messages.ts';
import { placeOf } from '../driver/columns.ts';
import type { Scope } from '../driver/scope.ts';

/**
 * Whom the end of an instance reaches. A cancel request spares what was scheduled in a shield, a terminate reaches
 * also what is past its point of no return; nothing reaches what was scheduled to be abandoned.
 */
type Reach = 'request' | 'end' | 'terminate';

/** A cancel of all items of an instance. */
export interface CancelItems {
  readonly instanceKey: number;
  readonly reach: Reach;
  readonly reason: string;
  /** The execution that is told of those that never start; `null`: nobody is. */
  readonly toldExecutionId: number | null;
}

/** A cancel of some items of an execution. */
export interface CancelOperations {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly cancels: readonly ActivityCancel[];
}

interface ItemRow {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly startedAt: number | null;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancellation: CancellationType;
  readonly shielded: boolean;
  readonly pointOfNoReturn: boolean;
  readonly cancelRequested: boolean;
  readonly cancelRequestedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

interface Wish {
  readonly reach: Reach | 'operation';
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

interface Flag extends Wish {
  readonly itemKey: number;
  readonly isTold: boolean;
}

/** What a cancel does to items: decided here, written by one statement for each kind. */
interface Verdict {
  readonly removed: number[];
  readonly flagged: Flag[];
  readonly messages: MessageRow[];
  /** How many items of an instance it concerns. */
  readonly counts: Map<number, number>;
  /** The instances of which an item that is waited for stays. */
  readonly kept: Set<number>;
}

/** What became of cancelled items. */
export interface Cancelled {
  /** What their executions are told of those that never start. */
  readonly messages: readonly MessageRow[];
  readonly counts: ReadonlyMap<number, number>;
  /** The instances of which an item stays. */
  readonly kept: ReadonlySet<number>;
  /** When task runs among the instances had started. */
  readonly startedAt: ReadonlyMap<number, number | null>;
}

/**
 * Cancels rows of `worker_queue`: those that nobody holds are removed, the others flagged, the first request kept.
 * The rows are locked first, so that one that is being claimed is met as held, and judged here. Each way takes the same
 * few statements for one item and for thousands.
 */
export class ItemCancels {
  readonly #lockOperations: Statement;
  readonly #lockAll: Statement;
  readonly #remove: Statement;
  readonly #flag: Statement;

  constructor(schema: string) {
    const table = `${schema}.worker_queue`;
    const columns = `item_key AS "itemKey", item.instance_key AS "instanceKey", item.execution_id AS "executionId",
      item.operation, started_at AS "startedAt", lock_token AS "lockToken", locked_until AS "lockedUntil", cancellation, shielded,
      point_of_no_return AS "pointOfNoReturn", cancel_requested AS "cancelRequested",
      cancel_requested_at AS "cancelRequestedAt", cancel_trigger AS "cancelTrigger", cancel_reason AS "cancelReason"`;
    this.#lockOperations = {
      name: 'perdure_lock_operations',
      text: `SELECT ${columns} FROM ${table} AS item
        WHERE item_key = ANY (ARRAY(
          SELECT found.item_key
          FROM unnest($1::bigint[], $2::int[], $3::int[]) AS wanted (instance_key, execution_id, operation)
          CROSS JOIN LATERAL (
            SELECT one.item_key FROM ${table} AS one
            WHERE one.instance_key = wanted.instance_key AND one.execution_id = wanted.execution_id
              AND one.operation = wanted.operation
            LIMIT 1) AS found))
        ORDER BY item_key FOR UPDATE`,
    };
    this.#lockAll = {
      name: 'perdure_lock_items_of_instances',
      text: `SELECT ${columns} FROM ${table} AS item
        WHERE item_key = ANY (ARRAY(
          SELECT found.item_key FROM unnest($1::bigint[]) AS wanted (instance_key)
          CROSS JOIN LATERAL (
            SELECT one.item_key FROM ${table} AS one WHERE one.instance_key = wanted.instance_key OFFSET 0) AS found))
        ORDER BY item_key FOR UPDATE`,
    };
    this.#remove = {
      name: 'perdure_remove_items',
      text: `DELETE FROM ${table} WHERE item_key = ANY ($1::bigint[])`,
    };
    this.#flag = {
      name: 'perdure_flag_items',
      text: `UPDATE ${table} AS item
        SET cancel_requested = flag.is_told, cancel_requested_at = $5::bigint, cancel_trigger = flag.trigger,
            cancel_reason = flag.reason,
            next_at = CASE WHEN flag.is_told THEN coalesce(locked_until, next_at) ELSE next_at END
        FROM unnest($1::bigint[], $2::boolean[], $3::text[], $4::text[]) AS flag (item_key, is_told, trigger, reason)
        ${placeOf(table, 'one.item_key = flag.item_key')}
        WHERE item.ctid = found.place`,
    };
  }

  /** Cancels operations of executions; the executions are told of those that never start. */
  async cancelOperations(scope: Scope, cancels: readonly CancelOperations[]): Promise<Cancelled> {
    const wishes = new Map<string, Wish>();
    const wanted: { instanceKey: number; executionId: number; operation: number }[] = [];
    for (const { instanceKey, executionId, cancels: some } of cancels) {
      for (const { operation, trigger, reason } of some) {
        const key = `${instanceKey} ${executionId} ${operation}`;
        if (wishes.has(key)) continue;
        wishes.set(key, { reach: 'operation', trigger, reason });
        wanted.push({ instanceKey, executionId, operation });
      }
    }
    if (wanted.length === 0) return nothing;
    const rows = await scope.tx.query<ItemRow>(this.#lockOperations, [
      numbers(wanted.map(({ instanceKey }) => instanceKey)),
      numbers(wanted.map(({ executionId }) => executionId)),
      numbers(wanted.map(({ operation }) => operation)),
    ]);
    const found = new Map(
      rows.map((row) => [`${row.instanceKey} ${row.executionId} ${row.operation}`, row]),
    );
    const verdict = newVerdict();
    // In the order in which they were asked for, so that they are told in it.
    for (const [key, wish] of wishes) {
      const row = found.get(key);
      if (row !== undefined) judge(scope, row, { wish, isTold: true, verdict });
    }
    return this.#write(scope, verdict);
  }

  /** Cancels the items of instances. */
  async cancelAll(scope: Scope, cancels: readonly CancelItems[]): Promise<Cancelled> {
    if (cancels.length === 0) return nothing;
    const byInstance = new Map(cancels.map((cancel) => [cancel.instanceKey, cancel]));
    const rows = await scope.tx.query<ItemRow>(this.#lockAll, [numbers([...byInstance.keys()])]);
    const verdict = newVerdict();
    for (const row of rows.toSorted((a, b) => a.operation - b.operation)) {
      const cancel = byInstance.get(row.instanceKey);
      if (cancel === undefined) continue;
      const { reach, reason, toldExecutionId } = cancel;
      const wish = { reach, reason, trigger: 'cancel' } as const;
      judge(scope, row, { wish, isTold: row.executionId === toldExecutionId, verdict });
    }
    const startedAt = new Map(rows.map((row) => [row.instanceKey, row.startedAt]));
    return { ...(await this.#write(scope, verdict)), startedAt };
  }

  async #write(scope: Scope, verdict: Verdict): Promise<Cancelled> {
    const { removed, flagged, messages, counts, kept } = verdict;
    const writes: Promise<number>[] = [];
    if (removed.length > 0) writes.push(scope.tx.execute(this.#remove, [numbers(removed)]));
    if (flagged.length > 0) {
      writes.push(
        scope.tx.execute(this.#flag, [
          numbers(flagged.map(({ itemKey }) => itemKey)),
          booleans(flagged.map(({ isTold }) => isTold)),
          texts(flagged.map(({ trigger }) => trigger)),
          texts(flagged.map(({ reason }) => reason)),
          scope.now,
        ]),
      );
    }
    await Promise.all(writes);
    return { messages, counts, kept, startedAt: new Map() };
  }
}

const nothing: Cancelled = {
  messages: [],
  counts: new Map(),
  kept: new Set(),
  startedAt: new Map(),
};

function newVerdict(): Verdict {
  return { removed: [], flagged: [], messages: [], counts: new Map(), kept: new Set() };
}

/** Decides what a cancel does to one item. */
function judge(
  scope: Scope,
  row: ItemRow,
  {
    wish,
    isTold,
    verdict,
  }: { readonly wish: Wish; readonly isTold: boolean; readonly verdict: Verdict },
): void {
  const { reach } = wish;
  const isReached = row.cancellation !== 'abandon' && !(reach === 'request' && row.shielded);
  if (!isReached) return;
  const isStoppable = !row.pointOfNoReturn || reach === 'terminate';
  const count = () =>
    verdict.counts.set(row.instanceKey, (verdict.counts.get(row.instanceKey) ?? 0) + 1);
  if (!isLive(row, scope.now) && isStoppable) {
    verdict.removed.push(row.itemKey);
    if (isTold) verdict.messages.push(neverStarted(scope, row, wish));
    count();
    return;
  }
  verdict.kept.add(row.instanceKey);
  // What is past its point of no return is flagged for the record alone, and the first request is kept.
  const isUnasked = reach === 'terminate' ? !row.cancelRequested : row.cancelRequestedAt === null;
  if (!isUnasked) return;
  verdict.flagged.push({ ...wish, itemKey: row.itemKey, isTold: isStoppable });
  if (isStoppable && row.lockToken !== null) {
    const { trigger, reason } = wish;
    const cancel = { trigger, reason: reason.toWellFormed(), requestedAt: scope.now };
    scope.effects.addCancelRequests([
      { lockToken: formatToken(row.itemKey, row.lockToken), cancel },
    ]);
  }
  count();
}

function neverStarted(scope: Scope, row: ItemRow, wish: Wish): MessageRow {
  const message = encodeMessage({
    kind: 'activityCanceled',
    executionId: row.executionId,
    operation: row.operation,
    trigger: row.cancelTrigger ?? wish.trigger,
    reason: row.cancelReason ?? wish.reason,
  });
  return { instanceKey: row.instanceKey, visibleAt: scope.now, message };
}
