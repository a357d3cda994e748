import type { StoredMessage } from '../../../model/message.ts';
import type { FetchedMessage } from '../../contract/orchestration-queue.ts';
import { numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';

/** A message to an instance. */
export interface MessageRow {
  readonly instanceKey: number;
  readonly visibleAt: number;
  readonly message: StoredMessage;
}

/** A fetched message with the instance that it is for. */
export interface MessageOf extends FetchedMessage {
  readonly instanceKey: number;
}

/** One that is visible, with since when. */
export interface VisibleMessage extends MessageOf {
  readonly visibleAt: number;
}

/** The rows of `orchestrator_queue`. Who inserts here also sees to the instance's row in `instance_locks`. */
export class Messages {
  readonly #insert: Statement;
  readonly #insertStarts: Statement;
  readonly #selectVisible: Statement;
  readonly #selectCleanupExpired: Statement;
  readonly #selectStarts: Statement;
  readonly #countOfKind: Statement;
  readonly #delete: Statement;
  readonly #deleteTimers: Statement;
  readonly #deleteOfExecutions: Statement;
  readonly #deleteAll: Statement;

  constructor(schema: string) {
    const table = `${schema}.orchestrator_queue`;
    const rows = `unnest($1::bigint[], $2::bigint[], $3::text[], $4::int[], $5::int[], $6::text[], $7::text[])
      WITH ORDINALITY AS new (instance_key, visible_at, kind, execution_id, operation, data, payload, place)`;
    const target = `INSERT INTO ${table}
      (instance_key, visible_at, kind, execution_id, operation, data, payload)`;
    this.#insert = {
      name: 'perdure_insert_messages',
      text: `${target} SELECT instance_key, visible_at, kind, execution_id, operation, data, payload
        FROM ${rows} ORDER BY place`,
    };
    // Ahead of the external events that arrived meanwhile: a claim that is cut short still has the start.
    this.#insertStarts = {
      name: 'perdure_insert_next_starts',
      text: `${target} SELECT instance_key, least(visible_at, first_kept - 1), kind, execution_id, operation, data, payload
        FROM ${rows} LEFT JOIN LATERAL (
          SELECT visible_at AS first_kept FROM ${table} AS kept WHERE kept.instance_key = new.instance_key
          ORDER BY visible_at LIMIT 1) AS first ON TRUE`,
    };
    const columns = `message_key AS "messageKey", kind, execution_id AS "executionId", operation, data, payload`;
    // In the order in which they became visible: timers by their time, the rest as enqueued.
    this.#selectVisible = {
      name: 'perdure_select_visible_messages',
      text: `SELECT wanted.instance_key AS "instanceKey", found.*
        FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (instance_key, place) CROSS JOIN LATERAL (
          SELECT visible_at AS "visibleAt", ${columns} FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND visible_at <= $2
          ORDER BY visible_at, message_key LIMIT $3) AS found
        ORDER BY place, "visibleAt", "messageKey"`,
    };
    this.#selectCleanupExpired = {
      name: 'perdure_select_cleanup_expired',
      text: `SELECT wanted.instance_key AS "instanceKey", found.*
        FROM unnest($1::bigint[]) AS wanted (instance_key) CROSS JOIN LATERAL (
          SELECT ${columns} FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND visible_at <= $2 AND kind = 'cleanupExpired'
          LIMIT 1) AS found`,
    };
    this.#selectStarts = {
      name: 'perdure_select_starts',
      text: `SELECT wanted.instance_key AS "instanceKey", found.*
        FROM unnest($1::bigint[]) AS wanted (instance_key) CROSS JOIN LATERAL (
          SELECT ${columns} FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND kind = 'start' LIMIT 1) AS found`,
    };
    this.#countOfKind = {
      name: 'perdure_count_messages',
      text: `SELECT wanted.instance_key AS "instanceKey", wanted.kind, found.count::int
        FROM unnest($1::bigint[], $2::text[], $3::int[]) AS wanted (instance_key, kind, most)
        CROSS JOIN LATERAL (SELECT count(*) FROM (
          SELECT 1 FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND message.kind = wanted.kind
          LIMIT most) AS counted) AS found`,
    };
    this.#delete = {
      name: 'perdure_delete_messages',
      text: `DELETE FROM ${table} WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM unnest($1::bigint[], $2::bigint[]) AS read (message_key, instance_key)
          CROSS JOIN LATERAL (
            SELECT * FROM ${table} AS one WHERE one.message_key = read.message_key LIMIT 1) AS found
          WHERE found.instance_key = read.instance_key))`,
    };
    this.#deleteTimers = {
      name: 'perdure_delete_timers',
      text: `DELETE FROM ${table} WHERE message_key = ANY (ARRAY(
          SELECT found.message_key
          FROM unnest($1::bigint[], $2::int[], $3::int[]) AS withdrawn (instance_key, execution_id, operation)
          CROSS JOIN LATERAL (
            SELECT one.message_key FROM ${table} AS one
            WHERE one.instance_key = withdrawn.instance_key AND one.execution_id = withdrawn.execution_id
              AND one.operation = withdrawn.operation AND one.kind = 'timerFired'
            LIMIT 1) AS found))`,
    };
    this.#deleteOfExecutions = {
      name: 'perdure_delete_messages_of_executions',
      text: `DELETE FROM ${table} WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM unnest($1::bigint[], $2::int[]) AS ended (instance_key, execution_id)
          CROSS JOIN LATERAL (
            SELECT one.message_key FROM ${table} AS one
            WHERE one.instance_key = ended.instance_key AND one.execution_id <= ended.execution_id OFFSET 0) AS found))`,
    };
    this.#deleteAll = {
      name: 'perdure_delete_all_messages',
      text: `DELETE FROM ${table} WHERE instance_key = ANY ($1::bigint[])`,
    };
  }

  /** Inserts messages; those of one moment come in this order. */
  async insert(tx: Transaction, rows: readonly MessageRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(this.#insert, toColumns(rows));
  }

  /** Inserts the start messages of next executions, ahead of what waits. */
  async insertStarts(tx: Transaction, rows: readonly MessageRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(this.#insertStarts, toColumns(rows));
  }

  /** The visible messages of instances, at most `max` of each. */
  readVisible(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
    max: number,
  ): Promise<readonly VisibleMessage[]> {
    return tx.query<VisibleMessage>(this.#selectVisible, [numbers(instanceKeys), now, max]);
  }

  /** The messages that end canceling instances, where they are due; they may stand behind thousands of others. */
  async readCleanupExpired(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
  ): Promise<readonly MessageOf[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<MessageOf>(this.#selectCleanupExpired, [numbers(instanceKeys), now]);
  }

  /** The messages that begin executions, visible or not. */
  async readStarts(
    tx: Transaction,
    instanceKeys: readonly number[],
  ): Promise<readonly MessageOf[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<MessageOf>(this.#selectStarts, [numbers(instanceKeys)]);
  }

  /** How many messages of a kind wait for instances, counted up to a number. */
  async countOfKind(
    tx: Transaction,
    wanted: readonly {
      readonly instanceKey: number;
      readonly kind: string;
      readonly most: number;
    }[],
  ): Promise<
    readonly { readonly instanceKey: number; readonly kind: string; readonly count: number }[]
  > {
    if (wanted.length === 0) return [];
    return tx.query(this.#countOfKind, [
      numbers(wanted.map(({ instanceKey }) => instanceKey)),
      texts(wanted.map(({ kind }) => kind)),
      numbers(wanted.map(({ most }) => most)),
    ]);
  }

  async delete(
    tx: Transaction,
    rows: readonly { readonly messageKey: number; readonly instanceKey: number }[],
  ): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#delete, [
      numbers(rows.map(({ messageKey }) => messageKey)),
      numbers(rows.map(({ instanceKey }) => instanceKey)),
    ]);
  }

  async deleteTimers(
    tx: Transaction,
    rows: readonly {
      readonly instanceKey: number;
      readonly executionId: number;
      readonly operation: number;
    }[],
  ): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#deleteTimers, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ executionId }) => executionId)),
      numbers(rows.map(({ operation }) => operation)),
    ]);
  }

  /** Deletes timers and completions up to an execution; external events belong to none and stay. */
  async deleteOfExecutions(
    tx: Transaction,
    ended: readonly { readonly instanceKey: number; readonly executionId: number }[],
  ): Promise<void> {
    if (ended.length === 0) return;
    await tx.execute(this.#deleteOfExecutions, [
      numbers(ended.map(({ instanceKey }) => instanceKey)),
      numbers(ended.map(({ executionId }) => executionId)),
    ]);
  }

  async deleteAll(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(this.#deleteAll, [numbers(instanceKeys)]);
  }
}

function toColumns(rows: readonly MessageRow[]): readonly unknown[] {
  return [
    numbers(rows.map(({ instanceKey }) => instanceKey)),
    numbers(rows.map(({ visibleAt }) => visibleAt)),
    texts(rows.map(({ message }) => message.kind)),
    numbers(rows.map(({ message }) => message.executionId)),
    numbers(rows.map(({ message }) => message.operation)),
    texts(rows.map(({ message }) => message.data)),
    texts(rows.map(({ message }) => message.payload)),
  ];
}
