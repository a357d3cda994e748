import type { CancellationType } from '../../../model/cancel.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { mustChange, addLive } from './instance-rows.ts';

/** The statement that archives the ended execution of an instance. */
export function archiveSql(schema: string, instanceKey: string): string {
  return `INSERT INTO ${schema}.executions (instance_key, execution_id, definition_key, status,
          history_length, started_at, ended_at, failure, reason)
        SELECT instance_key, execution_id, definition_key, status, history_length,
          coalesce(execution_started_at, created_at), ended_at, failure,
          CASE WHEN status = 'terminated' THEN terminate_reason ELSE cancel_reason END
        FROM ${schema}.instances WHERE instance_key = ${instanceKey} AND ended_at IS NOT NULL`;
}

/** The assignments that make an ended instance live, as its next execution. */
export const liveAgain = `execution_id = execution_id + 1, last_turn = NULL, ended_at = NULL, completed_at = NULL,
      failed_at = NULL, canceled_at = NULL, terminated_at = NULL, skipped_at = NULL, expired_at = NULL,
      cancel_requested_at = NULL, cancel_reason = NULL, cancel_actor = NULL, cancel_cause = NULL, terminate_reason = NULL,
      terminate_actor = NULL, closing_reason = NULL, cleanup_skipped = FALSE, leaked = 0, buffered_events = 0,
      output = NULL, failure = NULL, listed_as = NULL`;

interface Replacement {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly inputHash: string;
  readonly incarnation: string;
  readonly now: number;
}

/** The operation of a parent that replaces its child. */
export interface ParentCall {
  readonly operation: number;
  readonly cancellation: CancellationType;
}

interface Key {
  readonly definitionKey: number;
  readonly dedupeKey: string;
}

// More are given their ids again, and those starts fail.
const maxChildIds = 10_000;

/** Statements for starts that find or replace an instance: its row, and its dedupe key. */
export class ReplacedRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Archives the ended execution, and makes the instance live with another start. Deletes the key of the former one. */
  async reopen(tx: Transaction, replacement: Replacement): Promise<void> {
    const { instanceKey } = replacement;
    mustChange(await tx.execute(...this.#sql.archive({ instanceKey })), 1);
    mustChange(await tx.execute(...this.#sql.reopen({ ...replacement })), 1);
  }

  /** Makes a replaced child reply to another operation of its parent. */
  async setCall(
    tx: Transaction,
    call: ParentCall & { readonly instanceKey: number },
  ): Promise<void> {
    mustChange(await tx.execute(...this.#sql.setCall({ ...call })), 1);
  }

  async findEnded(tx: Transaction, instanceKey: number): Promise<object | undefined> {
    const [row] = await tx.query<object>(...this.#sql.selectEnded({ instanceKey }));
    return row;
  }

  /** Whether a caller can still take the reply of the run. */
  async hasJob(tx: Transaction, instanceKey: number): Promise<boolean> {
    return (await tx.query<object>(...this.#sql.selectJob({ instanceKey }))).length > 0;
  }

  async childIds(tx: Transaction, instanceId: string): Promise<readonly string[]> {
    const rows = await tx.query<{ instanceId: string }>(
      ...this.#sql.selectChildren({ instanceId }),
    );
    return rows.map((row) => row.instanceId);
  }

  /** Makes concurrent starts with the key wait for this transaction. */
  async lockKey(tx: Transaction, key: Key): Promise<void> {
    await tx.query<object>(...this.#sql.lockKey({ ...key }));
  }

  /** The id of the live instance that holds a key. */
  async liveHolderOf(tx: Transaction, key: Key): Promise<string | undefined> {
    const [row] = await tx.query<{ instanceId: string }>(...this.#sql.selectHolder({ ...key }));
    return row?.instanceId;
  }

  /** Assigns a key to an instance. An ended holder loses it. */
  async takeKey(tx: Transaction, key: Key & { readonly instanceKey: number }): Promise<void> {
    await tx.execute(...this.#sql.takeKey({ ...key }));
    const { dedupeKey, instanceKey } = key;
    await tx.execute(...this.#sql.setKey({ dedupeKey, instanceKey }));
  }
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  const held = `${schema}.dedupe_keys`;
  const instanceKey = one<number>('bigint');
  const key = { definitionKey: one<number>('int'), dedupeKey: one<string>('text') };
  return {
    archive: prepare('perdure_archive_replaced', { instanceKey }, ({ instanceKey }) =>
      archiveSql(schema, instanceKey),
    ),
    reopen: prepare(
      'perdure_reopen_replaced',
      {
        instanceKey,
        definitionKey: one<number>('int'),
        inputHash: one<string>('text'),
        incarnation: one<string>('text'),
        now: one<number>('bigint'),
      },
      ({
        instanceKey,
        definitionKey,
        inputHash,
        incarnation,
        now,
      }) => `WITH ${addLive(schema, `VALUES (${instanceKey})`)}, lane AS (
          DELETE FROM ${schema}.run_lanes WHERE instance_key = ${instanceKey}
        )
        UPDATE ${table}
        SET ${liveAgain}, status = 'running', definition_key = ${definitionKey}, input_hash = ${inputHash},
          incarnation = ${incarnation}, history_length = 0, started_at = coalesce(started_at, ${now}),
          execution_started_at = NULL, custom_status = NULL,
          custom_status_version = custom_status_version + CASE WHEN custom_status IS NULL THEN 0 ELSE 1 END,
          run_at = NULL, tags = NULL, headers = NULL
        WHERE instance_key = ${instanceKey} AND ended_at IS NOT NULL`,
    ),
    setCall: prepare(
      'perdure_set_parent_call',
      { instanceKey, operation: one<number>('int'), cancellation: one<string>('text') },
      ({ instanceKey, operation, cancellation }) =>
        `UPDATE ${table} SET parent_operation = ${operation}, cancellation = ${cancellation}
         WHERE instance_key = ${instanceKey}`,
    ),
    selectEnded: prepare(
      'perdure_select_ended',
      { instanceKey },
      ({ instanceKey }) =>
        `SELECT instance_key FROM ${table} WHERE instance_key = ${instanceKey} AND ended_at IS NOT NULL`,
    ),
    selectJob: prepare(
      'perdure_select_job_of',
      { instanceKey },
      ({ instanceKey }) =>
        `SELECT instance_key FROM ${schema}.jobs WHERE instance_key = ${instanceKey} LIMIT 1`,
    ),
    selectChildren: prepare(
      'perdure_ids_of_replaced_children',
      { instanceId: one<string>('text') },
      ({ instanceId }) => `SELECT unnest(ARRAY(
          SELECT child.instance_id FROM ${table} AS child
          WHERE child.parent_instance_id = parent.instance_id)) AS "instanceId"
        FROM ${table} AS parent WHERE parent.instance_id = ${instanceId} LIMIT ${maxChildIds}`,
    ),
    lockKey: prepare(
      'perdure_lock_dedupe_key',
      key,
      ({ definitionKey, dedupeKey }) =>
        `SELECT pg_advisory_xact_lock(hashtextextended('${schema.replaceAll("'", "''")}:' || ${dedupeKey}, ${definitionKey}))`,
    ),
    selectHolder: prepare(
      'perdure_live_key_holder',
      key,
      ({ definitionKey, dedupeKey }) => `SELECT holder.instance_id AS "instanceId"
        FROM ${held} AS key CROSS JOIN LATERAL (
          SELECT instance_id FROM ${table} AS one
          WHERE one.instance_key = key.instance_key AND one.ended_at IS NULL LIMIT 1) AS holder
        WHERE key.definition_key = ${definitionKey} AND key.dedupe_key = ${dedupeKey}`,
    ),
    takeKey: prepare(
      'perdure_take_live_key',
      { ...key, instanceKey },
      ({
        definitionKey,
        dedupeKey,
        instanceKey,
      }) => `INSERT INTO ${held} (definition_key, dedupe_key, instance_key)
        VALUES (${definitionKey}, ${dedupeKey}, ${instanceKey})
        ON CONFLICT (definition_key, dedupe_key) DO UPDATE SET instance_key = excluded.instance_key`,
    ),
    setKey: prepare(
      'perdure_set_dedupe_key',
      { dedupeKey: one<string>('text'), instanceKey },
      ({ dedupeKey, instanceKey }) =>
        `UPDATE ${table} SET dedupe_key = ${dedupeKey} WHERE instance_key = ${instanceKey}`,
    ),
  };
}
