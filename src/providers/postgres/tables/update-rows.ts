import type { InstanceStatus } from '../../../model/status.ts';
import type { UpdateReply } from '../../contract/updates.ts';
import type { StoredUpdate } from '../../rules/updates.ts';
import { keys, one, prepare, rowIdOf, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** Identifies an update. */
interface UpdateKey {
  readonly instanceKey: number;
  readonly updateKey: string;
}

/** An update with its instance. */
export interface FoundUpdate extends StoredUpdate, UpdateKey {}

/** The updates of an instance. */
export interface UpdateCounts {
  readonly instanceKey: number;
  /** At most one more than the limit of the query. */
  readonly open: number;
  readonly lastSeq: number;
}

/** An update to insert. */
export interface NewUpdateRow extends UpdateKey {
  readonly seq: number;
  readonly name: string;
  readonly inputHash: string;
}

/** An update as read by its caller. */
export interface ReadUpdate extends StoredUpdate {
  readonly place: number;
  readonly status: InstanceStatus;
  readonly isOver: boolean;
}

interface ReplyRow extends UpdateKey, Omit<UpdateReply, 'key'> {}

/** The rows of `updates`. */
export class UpdateRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  find(tx: Transaction, updates: readonly UpdateKey[]): Promise<readonly FoundUpdate[]> {
    return tx.query<FoundUpdate>(...this.#sql.find({ updates }));
  }

  /** Counts the updates without a reply, up to `limit` for each instance. */
  count(
    tx: Transaction,
    instanceKeys: readonly number[],
    limit: number,
  ): Promise<readonly UpdateCounts[]> {
    return tx.query<UpdateCounts>(...this.#sql.count({ instanceKeys, limit }));
  }

  async insert(tx: Transaction, rows: readonly NewUpdateRow[], now: number): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.insert({ rows, now }));
  }

  /** Deletes the replied updates of locked instances up to a number. */
  async trim(
    tx: Transaction,
    rows: readonly { readonly instanceKey: number; readonly seq: number }[],
  ): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.trim({ rows }));
  }

  /** Writes replies to updates of locked instances. A reply to an update that has one changes nothing. */
  async reply(tx: Transaction, replies: readonly ReplyRow[]): Promise<void> {
    if (replies.length > 0) await tx.execute(...this.#sql.reply({ replies }));
  }

  /** Replies to all open updates of a locked instance that their execution has ended. */
  async interrupt(tx: Transaction, instanceKey: number, status: InstanceStatus): Promise<void> {
    await tx.execute(...this.#sql.interrupt({ instanceKey, status }));
  }

  /** Reads updates by instance id. `place` is the position of the request, from 1. */
  read(
    tx: Transaction,
    updates: readonly { readonly instanceId: string; readonly key: string }[],
  ): Promise<readonly ReadUpdate[]> {
    return tx.query<ReadUpdate>(...this.#sql.read({ updates }));
  }

  async deleteOfInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.deleteOf({ instanceKeys }));
  }
}

const isOver =
  '(one.priority IS NOT NULL OR one.closing_reason IS NOT NULL OR one.ended_at IS NOT NULL)';

function statements(schema: string) {
  const table = `${schema}.updates`;
  const byKey = 'one.instance_key = wanted.instance_key AND one.update_key = wanted.update_key';
  const state = 'name, input_hash AS "inputHash", outcome, reply, failure';
  const number = one<number>('bigint');
  return {
    find: prepare(
      'perdure_find_updates',
      { updates: rowsOf<UpdateKey>()({ instance_key: 'bigint', update_key: 'text' }) },
      ({
        updates,
      }) => `SELECT found.instance_key AS "instanceKey", found.update_key AS "updateKey", ${state}
        FROM ${updates.as('wanted')}
        CROSS JOIN LATERAL (SELECT * FROM ${table} AS one WHERE ${byKey} LIMIT 1) AS found`,
    ),
    count: prepare(
      'perdure_count_updates',
      { instanceKeys: keys(), limit: number },
      ({ instanceKeys, limit }) => `SELECT instance_key AS "instanceKey",
          (SELECT count(*) FROM (SELECT 1 FROM ${table} AS one
            WHERE one.instance_key = wanted.instance_key AND outcome IS NULL LIMIT ${limit}) AS counted) AS open,
          coalesce((SELECT seq FROM ${table} AS one WHERE one.instance_key = wanted.instance_key
            ORDER BY seq DESC LIMIT 1), 0) AS "lastSeq"
        FROM unnest(${instanceKeys}) AS wanted (instance_key)`,
    ),
    insert: prepare(
      'perdure_insert_updates',
      {
        rows: rowsOf<NewUpdateRow>()({
          instance_key: 'bigint',
          update_key: 'text',
          seq: 'bigint',
          name: 'text',
          input_hash: 'text',
        }),
        now: number,
      },
      ({ rows, now }) => `INSERT INTO ${table} (${rows.names}, requested_at)
        SELECT ${rows.names}, ${now} FROM ${rows.as('new')}`,
    ),
    trim: prepare(
      'perdure_trim_updates',
      {
        rows: rowsOf<{ readonly instanceKey: number; readonly seq: number }>()({
          instance_key: 'bigint',
          seq: 'bigint',
        }),
      },
      ({ rows }) => `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
          SELECT old.ctid FROM ${rows.as('trimmed')}
          CROSS JOIN LATERAL (
            SELECT one.ctid FROM ${table} AS one
            WHERE one.instance_key = trimmed.instance_key AND one.seq <= trimmed.seq
              AND (one.outcome IS NOT NULL) IS TRUE OFFSET 0) AS old))`,
    ),
    reply: prepare(
      'perdure_reply_to_updates',
      {
        replies: rowsOf<ReplyRow>()({
          instance_key: 'bigint',
          update_key: 'text',
          outcome: 'text',
          payload: 'text',
          failure: 'text',
        }),
      },
      ({ replies }) => `UPDATE ${table} AS stored
        SET outcome = wanted.outcome, reply = wanted.payload, failure = wanted.failure
        FROM ${replies.as('wanted')}
        ${rowIdOf(table, `${byKey} AND (one.outcome IS NULL) IS TRUE`)}
        WHERE stored.ctid = found.row_id`,
    ),
    interrupt: prepare(
      'perdure_interrupt_updates',
      { instanceKey: number, status: one<string>('text') },
      ({ instanceKey, status }) => `UPDATE ${table} SET outcome = 'interrupted', failure = ${status}
        WHERE instance_key = ${instanceKey} AND outcome IS NULL`,
    ),
    read: prepare(
      'perdure_read_updates',
      {
        updates: rowsOf<{ readonly instanceId: string; readonly key: string }>()({
          instance_id: 'text',
          key: 'text',
        }),
      },
      ({ updates }) => `SELECT wanted.place, instance.status, instance.is_over AS "isOver", ${state}
        FROM ${updates.withPlace('wanted')}
        CROSS JOIN LATERAL (SELECT one.instance_key, one.status, ${isOver} AS is_over FROM ${schema}.instances AS one
          WHERE one.instance_id = wanted.instance_id LIMIT 1) AS instance
        CROSS JOIN LATERAL (SELECT one.name, one.input_hash, one.outcome, one.reply, one.failure FROM ${table} AS one
          WHERE one.instance_key = instance.instance_key AND one.update_key = wanted.key LIMIT 1) AS found`,
    ),
    deleteOf: prepare(
      'perdure_delete_updates',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
