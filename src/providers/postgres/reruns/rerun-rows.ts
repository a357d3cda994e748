import { taskOperation } from '../../shared/work-item-row.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { laneOfRun } from '../tables/task-rows.ts';
import { archiveSql, liveAgain } from '../tables/replaced-rows.ts';
import { instanceColumns, mustChange, type InstanceRow, addLive } from '../tables/instance-rows.ts';

/** The state of a new execution after its kept events. */
interface NextExecution {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly historyLength: number;
  readonly isStarted: boolean;
  readonly now: number;
}

interface NewFork extends Omit<NextExecution, 'instanceKey'> {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly inputHash: string;
  readonly forkedFrom: string;
}

interface CopiedRange {
  readonly fromKey: number;
  readonly fromExecution: number;
  readonly toKey: number;
  readonly toExecution: number;
  readonly last: number;
}

/** What a retry checks in addition to the row of the instance. */
interface Obstacles {
  readonly isJob: boolean;
  readonly hasItems: boolean;
  readonly priority: number | null;
  readonly dedupeKey: string | null;
  /** The task run that holds the dedupe key of this one. */
  readonly holder: string | null;
}

/** Writes that start an ended instance again, or copy one. No other statement changes an ended instance. */
export class RerunRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  async obstacles(tx: Transaction, instanceKey: number): Promise<Obstacles | undefined> {
    const [row] = await tx.query<Obstacles>(...this.#sql.selectObstacles({ instanceKey }));
    return row;
  }

  /** Archives the ended execution of an orchestration and begins the next one. */
  async reopen(tx: Transaction, next: NextExecution): Promise<void> {
    await this.#archive(tx, next.instanceKey);
    mustChange(await tx.execute(...this.#sql.reopen({ ...next })), 1);
  }

  /** Archives the ended execution of a task run, and queues the run again. */
  async reopenTask(
    tx: Transaction,
    instanceKey: number,
    input: string | null | undefined,
    now: number,
  ): Promise<void> {
    await this.#archive(tx, instanceKey);
    const hasInput = input !== undefined;
    const reopened = this.#sql.reopenTask({ instanceKey, hasInput, input: input ?? null, now });
    mustChange(await tx.execute(...reopened), 1);
    await tx.execute(...this.#sql.takeKey({ instanceKey }));
    mustChange(await tx.execute(...this.#sql.insertItem({ instanceKey, now })), 1);
  }

  /** Reads the source of a fork and keeps it from being deleted. Turns of a live source continue. */
  async holdSource(tx: Transaction, instanceId: string): Promise<InstanceRow | undefined> {
    const [row] = await tx.query<InstanceRow>(...this.#sql.holdSource({ instanceId }));
    return row;
  }

  /** The number of events of an execution, or `undefined` if there is no such execution. */
  async lengthOf(
    tx: Transaction,
    instanceKey: number,
    executionId: number,
  ): Promise<number | undefined> {
    const [row] = await tx.query<{ historyLength: number }>(
      ...this.#sql.selectLength({ instanceKey, executionId }),
    );
    return row?.historyLength;
  }

  /** Inserts a fork. Returns `undefined` if the id is taken. */
  async insertFork(tx: Transaction, fork: NewFork): Promise<number | undefined> {
    const [row] = await tx.query<{ instanceKey: number }>(...this.#sql.insertFork({ ...fork }));
    return row?.instanceKey;
  }

  async findFork(tx: Transaction, instanceId: string) {
    const [row] = await tx.query<{
      definitionKey: number;
      inputHash: string;
      forkedFrom: string | null;
    }>(...this.#sql.selectFork({ instanceId }));
    return row;
  }

  /** Copies the events after the first one. Throws if the source has fewer. */
  async copyHistory(tx: Transaction, range: CopiedRange): Promise<void> {
    const copied = await tx.execute(...this.#sql.copyHistory({ ...range }));
    if (copied !== range.last - 1) throw new Error(`Copied ${copied + 1} of ${range.last} events.`);
  }

  async #archive(tx: Transaction, instanceKey: number): Promise<void> {
    mustChange(await tx.execute(...this.#sql.archive({ instanceKey })), 1);
  }
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  const instanceKey = one<number>('bigint');
  const now = one<number>('bigint');
  const next = {
    definitionKey: one<number>('int'),
    historyLength: one<number>('int'),
    isStarted: one<boolean>('boolean'),
    now,
  };
  return {
    selectObstacles: prepare(
      'perdure_select_rerun_obstacles',
      { instanceKey },
      ({ instanceKey }) => `SELECT
          EXISTS (SELECT 1 FROM ${schema}.jobs AS job WHERE job.instance_key = run.instance_key) AS "isJob",
          EXISTS (SELECT 1 FROM ${schema}.worker_queue AS item
                  WHERE item.instance_key = run.instance_key) AS "hasItems",
          priority, dedupe_key AS "dedupeKey",
          (SELECT (SELECT other.instance_id FROM ${table} AS other
                   WHERE other.instance_key = held.instance_key LIMIT 1)
           FROM ${schema}.dedupe_keys AS held
           WHERE held.definition_key = run.definition_key AND held.dedupe_key = run.dedupe_key LIMIT 1) AS holder
        FROM ${table} AS run WHERE run.instance_key = ${instanceKey}`,
    ),
    archive: prepare('perdure_archive_ended_execution', { instanceKey }, ({ instanceKey }) =>
      archiveSql(schema, instanceKey),
    ),
    reopen: prepare(
      'perdure_reopen_instance',
      { instanceKey, ...next },
      ({
        instanceKey,
        definitionKey,
        historyLength,
        isStarted,
        now,
      }) => `WITH ${addLive(schema, `VALUES (${instanceKey})`)}
        UPDATE ${table}
        SET ${liveAgain}, status = 'running', definition_key = ${definitionKey}, history_length = ${historyLength},
          started_at = coalesce(started_at, ${now}),
          execution_started_at = CASE WHEN ${isStarted} THEN ${now} END, custom_status = NULL,
          custom_status_version = custom_status_version + CASE WHEN custom_status IS NULL THEN 0 ELSE 1 END
        WHERE instance_key = ${instanceKey} AND ended_at IS NOT NULL`,
    ),
    reopenTask: prepare(
      'perdure_reopen_task',
      { instanceKey, hasInput: one<boolean>('boolean'), input: one<string | null>('text'), now },
      ({ instanceKey, hasInput, input, now }) => `UPDATE ${table}
        SET ${liveAgain}, status = 'pending', started_at = NULL, execution_started_at = NULL, failures = 0,
          run_at = ${now}, expires_at = NULL, input = CASE WHEN ${hasInput} THEN ${input} ELSE input END,
          on_fail = CASE WHEN on_fail IS NULL THEN NULL ELSE 'ready' END, on_fail_failure = NULL
        WHERE instance_key = ${instanceKey} AND ended_at IS NOT NULL`,
    ),
    // The primary key rejects a second holder, also one of a concurrent transaction.
    takeKey: prepare(
      'perdure_take_key',
      { instanceKey },
      ({
        instanceKey,
      }) => `INSERT INTO ${schema}.dedupe_keys (definition_key, dedupe_key, instance_key)
        SELECT definition_key, dedupe_key, instance_key FROM ${table}
        WHERE instance_key = ${instanceKey} AND dedupe_key IS NOT NULL`,
    ),
    // Items of task runs always belong to execution 1. A retry waits until no item is left.
    insertItem: prepare(
      'perdure_insert_task_item',
      { instanceKey, now },
      ({
        instanceKey,
        now,
      }) => `INSERT INTO ${schema}.worker_queue (instance_key, execution_id, operation,
          definition_key, priority, next_at, claims, created_at, lane, limit_key, weight)
        SELECT instance_key, 1, ${taskOperation}, definition_key, priority, ${now}, 0, ${now}, ${laneOfRun(schema, 'run')}
        FROM ${table} AS run WHERE instance_key = ${instanceKey}`,
    ),
    holdSource: prepare(
      'perdure_hold_fork_source',
      { instanceId: one<string>('text') },
      ({ instanceId }) =>
        `SELECT ${instanceColumns(schema)} FROM ${table} WHERE instance_id = ${instanceId} FOR KEY SHARE`,
    ),
    selectLength: prepare(
      'perdure_select_history_length',
      { instanceKey, executionId: one<number>('int') },
      ({ instanceKey, executionId }) => `SELECT history_length AS "historyLength" FROM ${table}
        WHERE instance_key = ${instanceKey} AND execution_id = ${executionId}
        UNION ALL
        SELECT history_length FROM ${schema}.executions
        WHERE instance_key = ${instanceKey} AND execution_id = ${executionId}`,
    ),
    insertFork: prepare(
      'perdure_insert_fork',
      {
        instanceId: one<string>('text'),
        incarnation: one<string>('text'),
        inputHash: one<string>('text'),
        forkedFrom: one<string>('text'),
        ...next,
      },
      (
        fork,
      ) => `WITH created AS (INSERT INTO ${table} (instance_id, incarnation, definition_key, status, execution_id,
          history_length, input_hash, created_at, started_at, execution_started_at, forked_from)
        VALUES (${fork.instanceId}, ${fork.incarnation}, ${fork.definitionKey},
          CASE WHEN ${fork.isStarted} THEN 'running' ELSE 'pending' END, 1, ${fork.historyLength},
          ${fork.inputHash}, ${fork.now}, CASE WHEN ${fork.isStarted} THEN ${fork.now} END,
          CASE WHEN ${fork.isStarted} THEN ${fork.now} END, ${fork.forkedFrom})
        ON CONFLICT (instance_id) DO NOTHING
        RETURNING instance_key), ${addLive(schema, 'SELECT instance_key FROM created')}
        SELECT instance_key AS "instanceKey" FROM created`,
    ),
    selectFork: prepare(
      'perdure_select_fork',
      { instanceId: one<string>('text') },
      ({ instanceId }) => `SELECT definition_key AS "definitionKey", input_hash AS "inputHash",
          forked_from AS "forkedFrom"
        FROM ${table} WHERE instance_id = ${instanceId}`,
    ),
    copyHistory: prepare(
      'perdure_copy_history',
      {
        fromKey: one<number>('bigint'),
        fromExecution: one<number>('int'),
        toKey: one<number>('bigint'),
        toExecution: one<number>('int'),
        last: one<number>('int'),
      },
      (
        range,
      ) => `INSERT INTO ${schema}.history (instance_key, execution_id, event_id, kind, at, data, payload)
        SELECT ${range.toKey}, ${range.toExecution}, event_id, kind, at, data, payload FROM ${schema}.history
        WHERE instance_key = ${range.fromKey} AND execution_id = ${range.fromExecution}
          AND event_id BETWEEN 2 AND ${range.last}
        ORDER BY event_id`,
    ),
  };
}
