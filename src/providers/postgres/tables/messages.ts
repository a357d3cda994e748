import type { StoredMessage } from '../../../model/message.ts';
import type { FetchedMessage } from '../../contract/orchestration-queue.ts';
import { keys, one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** A message to an instance. */
export interface MessageRow {
  readonly instanceKey: number;
  readonly visibleAt: number;
  readonly message: StoredMessage;
}

/** A fetched message with the key of its instance. */
export interface MessageOf extends FetchedMessage {
  readonly instanceKey: number;
}

/** A visible message with the time from which it is visible. */
export interface VisibleMessage extends MessageOf {
  readonly visibleAt: number;
}

interface MessageCount {
  readonly instanceKey: number;
  readonly kind: string;
  /** Stop counting here. */
  readonly most: number;
}

interface Timer {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
}

/** The table `orchestrator_queue`. After an insert the caller must update the instance's row in `instance_locks`. */
export class Messages {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(`${schema}.orchestrator_queue`);
  }

  /** Inserts messages. Messages with the same `visibleAt` keep this order. */
  async insert(tx: Transaction, rows: readonly MessageRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.insert({ rows }));
  }

  /** Inserts the start messages of next executions ahead of all waiting messages. */
  async insertStarts(tx: Transaction, rows: readonly MessageRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.insertStarts({ rows }));
  }

  /** Reads the visible messages of instances, at most `max` per instance. */
  readVisible(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
    max: number,
  ): Promise<readonly VisibleMessage[]> {
    return tx.query<VisibleMessage>(...this.#sql.selectVisible({ instanceKeys, now, max }));
  }

  /** Returns when the next hidden messages of instances become visible. */
  nextVisible(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
  ): Promise<readonly { readonly instanceKey: number; readonly nextAt: number }[]> {
    return tx.query(...this.#sql.nextVisible({ instanceKeys, now }));
  }

  /** Reads due `cleanupExpired` messages, which thousands of other messages may precede. */
  async readCleanupExpired(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
  ): Promise<readonly MessageOf[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<MessageOf>(...this.#sql.selectCleanupExpired({ instanceKeys, now }));
  }

  /** Reads the start messages of instances, visible or not. */
  async readStarts(
    tx: Transaction,
    instanceKeys: readonly number[],
  ): Promise<readonly MessageOf[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<MessageOf>(...this.#sql.selectStarts({ instanceKeys }));
  }

  /** Counts the waiting messages of a kind per instance, up to `most`. */
  async countOfKind(
    tx: Transaction,
    wanted: readonly MessageCount[],
  ): Promise<
    readonly { readonly instanceKey: number; readonly kind: string; readonly count: number }[]
  > {
    if (wanted.length === 0) return [];
    return tx.query(...this.#sql.countOfKind({ wanted }));
  }

  async delete(
    tx: Transaction,
    rows: readonly { readonly messageKey: number; readonly instanceKey: number }[],
  ): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.delete({ rows }));
  }

  async deleteTimers(tx: Transaction, withdrawn: readonly Timer[]): Promise<void> {
    if (withdrawn.length > 0) await tx.execute(...this.#sql.deleteTimers({ withdrawn }));
  }

  /** Deletes timers and completions up to an execution. External events belong to no execution and stay. */
  async deleteOfExecutions(
    tx: Transaction,
    ended: readonly { readonly instanceKey: number; readonly executionId: number }[],
  ): Promise<void> {
    if (ended.length > 0) await tx.execute(...this.#sql.deleteOfExecutions({ ended }));
  }

  async deleteAll(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.deleteAll({ instanceKeys }));
  }
}

const messageRows = rowsOf<MessageRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  visible_at: ['bigint', ({ visibleAt }) => visibleAt],
  kind: ['text', ({ message }) => message.kind],
  execution_id: ['int', ({ message }) => message.executionId],
  operation: ['int', ({ message }) => message.operation],
  data: ['text', ({ message }) => message.data],
  payload: ['text', ({ message }) => message.payload],
});

function statements(table: string) {
  const columns = `message_key AS "messageKey", kind, execution_id AS "executionId", operation, data, payload`;
  return {
    insert: prepare(
      'perdure_insert_messages',
      { rows: messageRows },
      ({ rows }) => `INSERT INTO ${table} (${rows.names})
        SELECT ${rows.names} FROM ${rows.withPlace('new')} ORDER BY place`,
    ),
    // Ahead of external events that arrived before it, so that a claim limited to `max` messages includes the start.
    insertStarts: prepare(
      'perdure_insert_next_starts',
      { rows: messageRows },
      ({ rows }) => `INSERT INTO ${table} (${rows.names})
        SELECT instance_key, least(visible_at, first_kept - 1), kind, execution_id, operation, data, payload
        FROM ${rows.as('new')} LEFT JOIN LATERAL (
          SELECT visible_at AS first_kept FROM ${table} AS kept WHERE kept.instance_key = new.instance_key
          ORDER BY visible_at LIMIT 1) AS first ON TRUE`,
    ),
    // In the order in which they became visible: timers by their time, other messages by insertion.
    selectVisible: prepare(
      'perdure_select_visible_messages',
      { instanceKeys: keys(), now: one<number>('bigint'), max: one<number>('bigint') },
      ({ instanceKeys, now, max }) => `SELECT wanted.instance_key AS "instanceKey", found.*
        FROM unnest(${instanceKeys}) WITH ORDINALITY AS wanted (instance_key, place) CROSS JOIN LATERAL (
          SELECT visible_at AS "visibleAt", ${columns} FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND visible_at <= ${now}
          ORDER BY visible_at, message_key LIMIT ${max}) AS found
        ORDER BY place, "visibleAt", "messageKey"`,
    ),
    nextVisible: prepare(
      'perdure_next_visible_messages',
      { instanceKeys: keys(), now: one<number>('bigint') },
      ({
        instanceKeys,
        now,
      }) => `SELECT wanted.instance_key AS "instanceKey", found.visible_at AS "nextAt"
        FROM unnest(${instanceKeys}) AS wanted (instance_key) CROSS JOIN LATERAL (
          SELECT visible_at FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND visible_at > ${now}
          ORDER BY visible_at LIMIT 1) AS found`,
    ),
    selectCleanupExpired: prepare(
      'perdure_select_cleanup_expired',
      { instanceKeys: keys(), now: one<number>('bigint') },
      ({ instanceKeys, now }) => `SELECT wanted.instance_key AS "instanceKey", found.*
        FROM unnest(${instanceKeys}) AS wanted (instance_key) CROSS JOIN LATERAL (
          SELECT ${columns} FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND visible_at <= ${now} AND kind = 'cleanupExpired'
          LIMIT 1) AS found`,
    ),
    selectStarts: prepare(
      'perdure_select_start_messages',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `SELECT wanted.instance_key AS "instanceKey", found.*
        FROM unnest(${instanceKeys}) AS wanted (instance_key) CROSS JOIN LATERAL (
          SELECT ${columns} FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND kind = 'start' LIMIT 1) AS found`,
    ),
    countOfKind: prepare(
      'perdure_count_messages',
      {
        wanted: rowsOf<MessageCount>()({
          instance_key: ['bigint', ({ instanceKey }) => instanceKey],
          kind: ['text', ({ kind }) => kind],
          most: ['int', ({ most }) => most],
        }),
      },
      ({ wanted }) => `SELECT wanted.instance_key AS "instanceKey", wanted.kind, found.count::int
        FROM ${wanted.as('wanted')}
        CROSS JOIN LATERAL (SELECT count(*) FROM (
          SELECT 1 FROM ${table} AS message
          WHERE message.instance_key = wanted.instance_key AND message.kind = wanted.kind
          LIMIT most) AS counted) AS found`,
    ),
    delete: prepare(
      'perdure_delete_messages',
      {
        rows: rowsOf<{ readonly messageKey: number; readonly instanceKey: number }>()({
          message_key: ['bigint', ({ messageKey }) => messageKey],
          instance_key: ['bigint', ({ instanceKey }) => instanceKey],
        }),
      },
      ({ rows }) => `DELETE FROM ${table} WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM ${rows.as('read')}
          CROSS JOIN LATERAL (
            SELECT * FROM ${table} AS one WHERE one.message_key = read.message_key LIMIT 1) AS found
          WHERE found.instance_key = read.instance_key))`,
    ),
    deleteTimers: prepare(
      'perdure_delete_timers',
      {
        withdrawn: rowsOf<Timer>()({
          instance_key: ['bigint', ({ instanceKey }) => instanceKey],
          execution_id: ['int', ({ executionId }) => executionId],
          operation: ['int', ({ operation }) => operation],
        }),
      },
      ({ withdrawn }) => `DELETE FROM ${table} WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM ${withdrawn.as('withdrawn')}
          CROSS JOIN LATERAL (
            SELECT one.message_key FROM ${table} AS one
            WHERE one.instance_key = withdrawn.instance_key AND one.execution_id = withdrawn.execution_id
              AND one.operation = withdrawn.operation AND one.kind = 'timerFired'
            LIMIT 1) AS found))`,
    ),
    deleteOfExecutions: prepare(
      'perdure_delete_messages_of_executions',
      {
        ended: rowsOf<{ readonly instanceKey: number; readonly executionId: number }>()({
          instance_key: 'bigint',
          execution_id: 'int',
        }),
      },
      ({ ended }) => `DELETE FROM ${table} WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM ${ended.as('ended')}
          CROSS JOIN LATERAL (
            SELECT one.message_key FROM ${table} AS one
            WHERE one.instance_key = ended.instance_key AND one.execution_id <= ended.execution_id OFFSET 0) AS found))`,
    ),
    deleteAll: prepare(
      'perdure_delete_all_messages',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
