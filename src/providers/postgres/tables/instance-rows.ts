import type { CancellationType } from '../../../model/cancel.ts';
import type { ParentRef } from '../../../model/event.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import type { Payload } from '../../../model/values/payload.ts';
import { booleans, numbers, texts } from '../driver/arrays.ts';
import { placeOf } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { DefinitionKind, Definitions } from './definitions.ts';

/** Everything of an instance that decides what becomes of it. */
export interface InstanceRow {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly executionId: number;
  readonly historyLength: number;
  readonly lastTurn: string | null;
  /** Whether an earlier turn started a child. */
  readonly hasChildren: boolean;
  readonly bufferedEvents: number;
  readonly parentInstanceId: string | null;
  readonly parentExecutionId: number | null;
  readonly parentOperation: number | null;
  readonly cancelReason: string | null;
  /** Why it was canceled, once that is decided; its last running activity makes it `canceled`. */
  readonly closingReason: string | null;
  /** A task run: it has one work item, and takes no turns. */
  readonly isTask: boolean;
  /** Of a task run: it was created with a dedupe key. */
  readonly hasKey: boolean;
}

/** An instance that waits for its first turn. */
export interface PendingRow {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly inputHash: string;
  readonly definitionKey: number;
  readonly parent: ParentRef | null;
  readonly cancellation: CancellationType | null;
}

/** By what a repeated start is recognised. */
export interface StartRow {
  readonly instanceId: string;
  readonly definitionKey: number;
  readonly inputHash: string;
}

/** Where a turn leaves its instance. */
export interface TurnRow {
  readonly instanceKey: number;
  readonly status: 'running' | 'completed' | 'failed';
  readonly definitionKey: number;
  readonly turnId: string;
  readonly historyLength: number;
  readonly output: Payload | null;
  readonly failure: string | null;
  readonly hasChildren: boolean;
  /** `null`: unchanged. */
  readonly bufferedEvents: number | null;
  /** Absent: unchanged. */
  readonly customStatus?: Payload | null;
  /** How many versions of the custom status this adds; 0 keeps it. */
  readonly statusVersions: number;
}

/** The columns of an instance that decide what becomes of it. */
export const instanceColumns = `instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
  definition_key AS "definitionKey", status, execution_id AS "executionId", history_length AS "historyLength",
  last_turn AS "lastTurn", has_children AS "hasChildren", buffered_events AS "bufferedEvents",
  parent_instance_id AS "parentInstanceId", parent_execution_id AS "parentExecutionId",
  parent_operation AS "parentOperation", cancel_reason AS "cancelReason", closing_reason AS "closingReason",
  priority IS NOT NULL AS "isTask", dedupe_key IS NOT NULL AS "hasKey"`;

/** Writes of the rows of `instances`; the clauses that keep a terminal state stand here. */
export class InstanceRows {
  readonly #selectByKey: Statement;
  readonly #selectStarts: Statement;
  readonly #insertPending: Statement;
  readonly #commitTurns: Statement;
  readonly #archive: Statement;
  readonly #continueAsNew: Statement;

  constructor(schema: string) {
    const table = `${schema}.instances`;
    this.#selectByKey = {
      name: 'perdure_select_instances',
      text: `SELECT ${instanceColumns} FROM ${table} WHERE instance_key = ANY ($1::bigint[])`,
    };
    this.#selectStarts = {
      name: 'perdure_select_starts',
      text: `SELECT instance_id AS "instanceId", definition_key AS "definitionKey", input_hash AS "inputHash"
        FROM ${table} WHERE instance_id = ANY ($1::text[])`,
    };
    this.#insertPending = {
      name: 'perdure_insert_pending',
      text: `INSERT INTO ${table} (instance_id, incarnation, definition_key, status, execution_id, history_length,
          input_hash, parent_instance_id, parent_execution_id, parent_operation, cancellation, created_at)
        SELECT instance_id, incarnation, definition_key, 'pending', 1, 0, input_hash, parent_instance_id,
          parent_execution_id, parent_operation, cancellation, $9::bigint
        FROM unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::int[], $7::int[], $8::text[])
          WITH ORDINALITY AS new (instance_id, incarnation, definition_key, input_hash, parent_instance_id,
            parent_execution_id, parent_operation, cancellation, place)
        ORDER BY place
        ON CONFLICT (instance_id) DO NOTHING
        RETURNING instance_key AS "instanceKey", instance_id AS "instanceId"`,
    };
    // A cancel request that came meanwhile stays: no turn lowers 'canceling' to 'running'.
    this.#commitTurns = {
      name: 'perdure_commit_turns',
      text: `UPDATE ${table} AS instance
        SET status = CASE WHEN turn.status = 'running' AND instance.status = 'canceling' THEN 'canceling'
              ELSE turn.status END,
            definition_key = turn.definition_key, last_turn = turn.turn_id,
            history_length = turn.history_length, output = turn.output, failure = turn.failure,
            has_children = instance.has_children OR turn.has_children,
            buffered_events = coalesce(turn.buffered_events, instance.buffered_events),
            custom_status = CASE WHEN turn.status_versions > 0 THEN turn.custom_status ELSE instance.custom_status END,
            custom_status_version = instance.custom_status_version + turn.status_versions,
            started_at = coalesce(started_at, $12::bigint),
            execution_started_at = coalesce(execution_started_at, $12::bigint),
            ended_at = CASE WHEN turn.status <> 'running' THEN $12::bigint END,
            completed_at = CASE WHEN turn.status = 'completed' THEN $12::bigint END,
            failed_at = CASE WHEN turn.status = 'failed' THEN $12::bigint END
        FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::int[], $6::text[], $7::text[],
            $8::boolean[], $9::int[], $10::int[], $11::text[])
          AS turn (instance_key, status, definition_key, turn_id, history_length, output, failure, has_children,
            buffered_events, status_versions, custom_status)
        ${placeOf(table, 'one.instance_key = turn.instance_key')}
        WHERE instance.ctid = found.place AND instance.ended_at IS NULL`,
    };
    this.#archive = {
      name: 'perdure_archive_executions',
      text: `INSERT INTO ${schema}.executions
          (instance_key, execution_id, definition_key, status, history_length, started_at, ended_at)
        SELECT instance_key, execution_id, definition_key, 'continuedAsNew', history_length, execution_started_at, $2::bigint
        FROM ${table} WHERE instance_key = ANY ($1::bigint[]) AND ended_at IS NULL`,
    };
    this.#continueAsNew = {
      name: 'perdure_continue_as_new',
      text: `UPDATE ${table} AS instance
        SET definition_key = next.definition_key, execution_id = execution_id + 1, last_turn = NULL,
            history_length = 0, execution_started_at = NULL
        FROM unnest($1::bigint[], $2::int[]) AS next (instance_key, definition_key)
        ${placeOf(table, 'one.instance_key = next.instance_key')}
        WHERE instance.ctid = found.place AND ended_at IS NULL`,
    };
  }

  /** Reads instances without locking them. */
  select(tx: Transaction, instanceKeys: readonly number[]): Promise<readonly InstanceRow[]> {
    return tx.query<InstanceRow>(this.#selectByKey, [numbers(instanceKeys)]);
  }

  /** Those of the ids that are taken. */
  async selectStarts(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly StartRow[]> {
    if (instanceIds.length === 0) return [];
    return tx.query(this.#selectStarts, [texts(instanceIds)]);
  }

  /** Inserts instances that wait for their first turn; answers the keys of those whose ids were free. */
  async insertPending(
    tx: Transaction,
    rows: readonly PendingRow[],
    now: number,
  ): Promise<ReadonlyMap<string, number>> {
    if (rows.length === 0) return new Map();
    const inserted = await tx.query<{ instanceKey: number; instanceId: string }>(
      this.#insertPending,
      [
        texts(rows.map(({ instanceId }) => instanceId)),
        texts(rows.map(({ incarnation }) => incarnation)),
        numbers(rows.map(({ definitionKey }) => definitionKey)),
        texts(rows.map(({ inputHash }) => inputHash)),
        texts(rows.map(({ parent }) => parent?.instanceId ?? null)),
        numbers(rows.map(({ parent }) => parent?.executionId ?? null)),
        numbers(rows.map(({ parent }) => parent?.operation ?? null)),
        texts(rows.map(({ parent, cancellation }) => (parent === null ? null : cancellation))),
        now,
      ],
    );
    return new Map(inserted.map(({ instanceId, instanceKey }) => [instanceId, instanceKey]));
  }

  /** Sets where turns leave their instances. */
  async commitTurns(tx: Transaction, rows: readonly TurnRow[], now: number): Promise<void> {
    if (rows.length === 0) return;
    const changed = await tx.execute(this.#commitTurns, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      texts(rows.map(({ status }) => status)),
      numbers(rows.map(({ definitionKey }) => definitionKey)),
      texts(rows.map(({ turnId }) => turnId)),
      numbers(rows.map(({ historyLength }) => historyLength)),
      texts(rows.map(({ output }) => output)),
      texts(rows.map(({ failure }) => failure)),
      booleans(rows.map(({ hasChildren }) => hasChildren)),
      numbers(rows.map(({ bufferedEvents }) => bufferedEvents)),
      numbers(rows.map(({ statusVersions }) => statusVersions)),
      texts(rows.map(({ customStatus }) => customStatus ?? null)),
      now,
    ]);
    mustChange(changed, rows.length);
  }

  /** Keeps executions that have ended and turns their instances to the next ones; after `commitTurns`. */
  async continueAsNew(
    tx: Transaction,
    rows: readonly { readonly instanceKey: number; readonly nextKey: number }[],
    now: number,
  ): Promise<void> {
    if (rows.length === 0) return;
    const keys = numbers(rows.map(({ instanceKey }) => instanceKey));
    const changed = await Promise.all([
      tx.execute(this.#archive, [keys, now]),
      tx.execute(this.#continueAsNew, [keys, numbers(rows.map(({ nextKey }) => nextKey))]),
    ]);
    for (const count of changed) mustChange(count, rows.length);
  }
}

export function parentOf(row: InstanceRow): ParentRef | null {
  const { parentInstanceId, parentExecutionId, parentOperation } = row;
  return parentInstanceId === null || parentExecutionId === null || parentOperation === null
    ? null
    : { instanceId: parentInstanceId, executionId: parentExecutionId, operation: parentOperation };
}

/** It takes no turn any more, or never does: a task run. */
export function isOver({ status, closingReason, isTask }: InstanceRow): boolean {
  return (
    isTask ||
    closingReason !== null ||
    !(status === 'pending' || status === 'running' || status === 'canceling')
  );
}

/** Every write to an instance is meant for one live row. */
export function mustChange(changed: number, meant: number): void {
  if (changed !== meant) {
    throw new Error(`A write meant for ${meant} live instances changed ${changed} rows.`);
  }
}

/** The answer for a start whose id is taken: this very one was made before, or the id belongs to another. */
export function knownStart(
  definitions: Definitions,
  wanted: { readonly kind: DefinitionKind; readonly name: string; readonly inputHash: string },
  existing: StartRow,
): { readonly kind: 'exists' } | { readonly kind: 'conflict'; readonly name: string } {
  const { kind, name } = definitions.get(existing.definitionKey);
  const isSame =
    kind === wanted.kind && name === wanted.name && existing.inputHash === wanted.inputHash;
  return isSame ? { kind: 'exists' } : { kind: 'conflict', name };
}
