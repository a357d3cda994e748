import type { CancellationType } from '../../../model/cancel.ts';
import type { ParentRef } from '../../../model/event.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import type { Payload } from '../../../model/values/payload.ts';
import type { Turn } from '../../contract/turn.ts';
import { strings, keys, one, rowIdOf, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** The state of an instance on which decisions are based. */
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
  readonly cancelTrigger: 'timeout' | null;
  /** The reason of a decided cancel. The instance becomes `canceled` when its last activity has stopped. */
  readonly closingReason: string | null;
  /** A task run has one work item and takes no turns. */
  readonly isTask: boolean;
  /** Whether a task run was created with a dedupe key. */
  readonly hasKey: boolean;
  readonly isPaused: boolean;
  /** When it may start, if that was set. */
  readonly runAt: number | null;
  /** Whether any definition was paused when the row was read. */
  readonly hasPausedDefinitions: boolean;
}

/** An instance before its first turn. */
export interface PendingRow {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly inputHash: string;
  readonly definitionKey: number;
  readonly parent: ParentRef | null;
  readonly cancellation: CancellationType | null;
}

/** The fields that identify a repeated start. */
export interface StartRow {
  readonly instanceId: string;
  readonly definitionKey: number;
  readonly inputHash: string;
}

/** The state in which a turn leaves its instance. */
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
  /** Number of custom status versions to add; 0 leaves the custom status unchanged. */
  readonly statusVersions: number;
}

/** An instance whose execution continues as new under the definition `nextKey`. */
interface NextExecution {
  readonly instanceKey: number;
  readonly nextKey: number;
}

/** A new instance that may not start yet. */
interface DelayedRow {
  readonly instanceKey: number;
  readonly runAt: number;
}

/** The columns of an `InstanceRow`. */
export const instanceColumns = (
  schema: string,
) => `instance_key AS "instanceKey", instance_id AS "instanceId", incarnation,
  definition_key AS "definitionKey", status, execution_id AS "executionId", history_length AS "historyLength",
  last_turn AS "lastTurn", has_children AS "hasChildren", buffered_events AS "bufferedEvents",
  parent_instance_id AS "parentInstanceId", parent_execution_id AS "parentExecutionId",
  parent_operation AS "parentOperation", cancel_reason AS "cancelReason", cancel_cause AS "cancelTrigger", closing_reason AS "closingReason",
  run_at AS "runAt", priority IS NOT NULL AS "isTask", dedupe_key IS NOT NULL AS "hasKey",
  paused_at IS NOT NULL AS "isPaused", EXISTS (SELECT FROM ${schema}.paused_definitions) AS "hasPausedDefinitions"`;

/** The table `instances`: starts and turns. No write changes a terminal state. */
export class InstanceRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Reads instances without locking them. */
  select(tx: Transaction, instanceKeys: readonly number[]): Promise<readonly InstanceRow[]> {
    return tx.query<InstanceRow>(...this.#sql.select({ instanceKeys }));
  }

  /** Reads the starts of those ids that are taken. */
  async selectStarts(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly StartRow[]> {
    if (instanceIds.length === 0) return [];
    return tx.query(...this.#sql.selectStarts({ instanceIds }));
  }

  /** Inserts pending instances. Returns those whose ids were free, by id. */
  async insertPending(
    tx: Transaction,
    rows: readonly PendingRow[],
    now: number,
  ): Promise<ReadonlyMap<string, Pick<InstanceRow, 'instanceKey' | 'hasPausedDefinitions'>>> {
    if (rows.length === 0) return new Map();
    const inserted = await tx.query<
      Pick<InstanceRow, 'instanceKey' | 'instanceId' | 'hasPausedDefinitions'>
    >(...this.#sql.insertPending({ rows, now }));
    return new Map(inserted.map((row) => [row.instanceId, row]));
  }

  /** Sets when new instances may start. Messages to them become visible then. */
  async setRunAt(tx: Transaction, rows: readonly DelayedRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.setRunAt({ rows }));
  }

  /** Writes the state in which turns leave their instances. */
  async commitTurns(tx: Transaction, turns: readonly TurnRow[], now: number): Promise<void> {
    if (turns.length === 0) return;
    const changed = await tx.execute(...this.#sql.commitTurns({ turns, now }));
    mustChange(changed, turns.length);
  }

  /** Archives ended executions and starts the next ones. Must follow `commitTurns`. */
  async continueAsNew(tx: Transaction, rows: readonly NextExecution[], now: number): Promise<void> {
    if (rows.length === 0) return;
    const instanceKeys = rows.map(({ instanceKey }) => instanceKey);
    const changed = await Promise.all([
      tx.execute(...this.#sql.archive({ instanceKeys, now })),
      tx.execute(...this.#sql.continueAsNew({ rows })),
    ]);
    for (const count of changed) mustChange(count, rows.length);
  }
}

const pendingRows = rowsOf<PendingRow>()({
  instance_id: ['text', ({ instanceId }) => instanceId],
  incarnation: ['text', ({ incarnation }) => incarnation],
  definition_key: ['int', ({ definitionKey }) => definitionKey],
  input_hash: ['text', ({ inputHash }) => inputHash],
  parent_instance_id: ['text', ({ parent }) => parent?.instanceId ?? null],
  parent_execution_id: ['int', ({ parent }) => parent?.executionId ?? null],
  parent_operation: ['int', ({ parent }) => parent?.operation ?? null],
  cancellation: ['text', ({ parent, cancellation }) => (parent === null ? null : cancellation)],
});

const turnRows = rowsOf<TurnRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  status: ['text', ({ status }) => status],
  definition_key: ['int', ({ definitionKey }) => definitionKey],
  turn_id: ['text', ({ turnId }) => turnId],
  history_length: ['int', ({ historyLength }) => historyLength],
  output: ['text', ({ output }) => output],
  failure: ['text', ({ failure }) => failure],
  has_children: ['boolean', ({ hasChildren }) => hasChildren],
  buffered_events: ['int', ({ bufferedEvents }) => bufferedEvents],
  status_versions: ['int', ({ statusVersions }) => statusVersions],
  custom_status: ['text', ({ customStatus }) => customStatus ?? null],
});

function statements(schema: string) {
  const table = `${schema}.instances`;
  const now = one<number>('bigint');
  return {
    select: prepare(
      'perdure_select_instances',
      { instanceKeys: keys() },
      ({ instanceKeys }) =>
        `SELECT ${instanceColumns(schema)} FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
    selectStarts: prepare(
      'perdure_select_starts',
      { instanceIds: strings() },
      ({ instanceIds }) => `SELECT instance_id AS "instanceId", definition_key AS
          "definitionKey", input_hash AS "inputHash"
        FROM ${table} WHERE instance_id = ANY (${instanceIds})`,
    ),
    insertPending: prepare(
      'perdure_insert_pending',
      { rows: pendingRows, now },
      ({ rows, now }) => `WITH created AS (
          INSERT INTO ${table} (${rows.names}, status, execution_id, history_length, created_at)
          SELECT ${rows.names}, 'pending', 1, 0, ${now}
          FROM ${rows.withPlace('new')}
          ORDER BY place
          ON CONFLICT (instance_id) DO NOTHING
          RETURNING instance_key, instance_id
        ), ${addLive(schema, 'SELECT instance_key FROM created')}
        SELECT instance_key AS "instanceKey", instance_id AS "instanceId",
          EXISTS (SELECT FROM ${schema}.paused_definitions) AS "hasPausedDefinitions" FROM created`,
    ),
    setRunAt: prepare(
      'perdure_set_run_at',
      { rows: rowsOf<DelayedRow>()({ instance_key: 'bigint', run_at: 'bigint' }) },
      ({ rows }) => `UPDATE ${table} AS instance SET run_at = delayed.run_at
        FROM ${rows.as('delayed')}
        ${rowIdOf(table, 'one.instance_key = delayed.instance_key')}
        WHERE instance.ctid = found.row_id`,
    ),
    // A turn does not change 'canceling' back to 'running': the cancel request may have arrived during the turn.
    commitTurns: prepare(
      'perdure_commit_turns',
      { turns: turnRows, now },
      ({
        turns,
        now,
      }) => `WITH ${removeLive(schema, `ARRAY(SELECT instance_key FROM ${turns.as('turn')} WHERE turn.status <> 'running')`)}
        UPDATE ${table} AS instance
        SET status = CASE WHEN turn.status = 'running' AND instance.status = 'canceling' THEN 'canceling'
              ELSE turn.status END,
            definition_key = turn.definition_key, last_turn = turn.turn_id,
            history_length = turn.history_length, output = turn.output, failure = turn.failure,
            has_children = instance.has_children OR turn.has_children,
            buffered_events = coalesce(turn.buffered_events, instance.buffered_events),
            custom_status = CASE WHEN turn.status_versions > 0 THEN turn.custom_status ELSE instance.custom_status END,
            custom_status_version = instance.custom_status_version + turn.status_versions,
            started_at = coalesce(started_at, ${now}),
            execution_started_at = coalesce(execution_started_at, ${now}),
            ended_at = CASE WHEN turn.status <> 'running' THEN ${now} END,
            completed_at = CASE WHEN turn.status = 'completed' THEN ${now} END,
            failed_at = CASE WHEN turn.status = 'failed' THEN ${now} END, ${listEnd("nullif(turn.status, 'running')")}
        FROM ${turns.as('turn')}
        ${rowIdOf(table, 'one.instance_key = turn.instance_key')}
        WHERE instance.ctid = found.row_id AND instance.ended_at IS NULL`,
    ),
    archive: prepare(
      'perdure_archive_executions',
      { instanceKeys: keys(), now },
      ({ instanceKeys, now }) => `INSERT INTO ${schema}.executions
          (instance_key, execution_id, definition_key, status, history_length, started_at, ended_at)
        SELECT instance_key, execution_id, definition_key, 'continuedAsNew', history_length, execution_started_at, ${now}
        FROM ${table} WHERE instance_key = ANY (${instanceKeys}) AND ended_at IS NULL`,
    ),
    continueAsNew: prepare(
      'perdure_continue_as_new',
      {
        rows: rowsOf<NextExecution>()({
          instance_key: 'bigint',
          definition_key: ['int', ({ nextKey }) => nextKey],
        }),
      },
      ({ rows }) => `UPDATE ${table} AS instance
        SET definition_key = next.definition_key, execution_id = execution_id + 1, last_turn = NULL,
            history_length = 0, execution_started_at = NULL
        FROM ${rows.as('next')}
        ${rowIdOf(table, 'one.instance_key = next.instance_key')}
        WHERE instance.ctid = found.row_id AND ended_at IS NULL`,
    ),
  };
}

/** Returns the state of a new instance, before its first turn. */
export function newInstanceRow({
  instanceKey,
  instanceId,
  incarnation,
  definitionKey,
  hasPausedDefinitions,
  parent = null,
}: Pick<
  InstanceRow,
  'instanceKey' | 'instanceId' | 'incarnation' | 'definitionKey' | 'hasPausedDefinitions'
> & {
  readonly parent?: ParentRef | null;
}): InstanceRow {
  return {
    instanceKey,
    instanceId,
    incarnation,
    definitionKey,
    status: 'pending',
    executionId: 1,
    historyLength: 0,
    lastTurn: null,
    hasChildren: false,
    bufferedEvents: 0,
    parentInstanceId: parent?.instanceId ?? null,
    parentExecutionId: parent?.executionId ?? null,
    parentOperation: parent?.operation ?? null,
    cancelReason: null,
    cancelTrigger: null,
    closingReason: null,
    isTask: false,
    hasKey: false,
    isPaused: false,
    runAt: null,
    hasPausedDefinitions,
  };
}

/** Returns the reference to the parent, or `null` for a root. */
export function parentOf(
  row: Pick<InstanceRow, 'parentInstanceId' | 'parentExecutionId' | 'parentOperation'>,
): ParentRef | null {
  const { parentInstanceId, parentExecutionId, parentOperation } = row;
  return parentInstanceId === null || parentExecutionId === null || parentOperation === null
    ? null
    : { instanceId: parentInstanceId, executionId: parentExecutionId, operation: parentOperation };
}

/** Whether an instance takes no more turns. Task runs never take turns. */
export function isOver({ status, closingReason, isTask }: InstanceRow): boolean {
  return (
    isTask ||
    closingReason !== null ||
    !(status === 'pending' || status === 'running' || status === 'canceling')
  );
}

// The table `live_instances` has the key of every orchestration that has not ended, for lists. Each statement that starts,
// reopens, ends or deletes an orchestration writes it. An index on `instances` would make each end change every index of
// the row: 7 % of the server's time for a run of one activity. The column `listed_as` has the status of instances that
// ended otherwise than completed.

/** A common table that adds instances. `from` is a query of their keys. */
export function addLive(schema: string, from: string): string {
  return `live AS (INSERT INTO ${schema}.live_instances (instance_key) ${from})`;
}

/** A common table that removes instances. `which` is an array of their keys. */
export function removeLive(schema: string, which: string): string {
  return `gone AS (DELETE FROM ${schema}.live_instances WHERE instance_key = ANY (${which}))`;
}

/** The assignment of `listed_as` for the end with a status, which is an SQL expression. */
export function listEnd(status: string): string {
  return `listed_as = nullif(${status}, 'completed')`;
}

/** Throws unless a write changed exactly the intended number of live rows. */
export function mustChange(changed: number, meant: number): void {
  if (changed !== meant) {
    throw new Error(`A write to ${meant} live instances changed ${changed} rows.`);
  }
}

// PostgreSQL stores longer values out of line, and compresses each copy.
const maxInlineLength = 2_000;

/** The output that the row of an instance stores. A large one is only in the last event. */
export function ownOutput({ outcome, events }: Pick<Turn, 'outcome' | 'events'>): Payload | null {
  if (outcome.status !== 'completed') return null;
  const { payload } = outcome;
  const last = events.at(-1);
  const isInHistory = last?.kind === 'executionCompleted' && last.payload === payload;
  return payload !== null && payload.length > maxInlineLength && isInHistory ? null : payload;
}

/** SQL of the output of an instance. `row` is a row of `instances`. */
export function outputOf(schema: string, row = 'instances'): string {
  return `CASE WHEN ${row}.output IS NULL AND ${row}.completed_at IS NOT NULL AND ${row}.priority IS NULL
    THEN (SELECT last.payload FROM ${schema}.history AS last WHERE last.instance_key = ${row}.instance_key
          AND last.execution_id = ${row}.execution_id AND last.event_id = ${row}.history_length
          AND last.kind = 'executionCompleted')
    ELSE ${row}.output END`;
}
