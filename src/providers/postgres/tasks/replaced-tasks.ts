import type { NewTask } from '../../contract/tasks.ts';
import type { TaskTimes } from '../../rules/starts.ts';
import { onFailOperation, taskOperation } from '../../shared/work-item-row.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { mustChange } from '../tables/instance-rows.ts';
import { archiveSql, liveAgain } from '../tables/replaced-rows.ts';
import { laneOfRun } from '../tables/task-rows.ts';

/** Statements that replace an ended task run by a new start under the same id. */
export class ReplacedTasks {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Whether the `onFail` handler of the run has not finished. */
  async hasOnFail(tx: Transaction, instanceKey: number): Promise<boolean> {
    return (await tx.query<object>(...this.#sql.selectOnFail({ instanceKey }))).length > 0;
  }

  /** Archives the ended execution and queues the run with another start. A worker that holds its item loses the lease. */
  async reopen(
    tx: Transaction,
    instanceKey: number,
    task: NewTask,
    { runAt, expiresAt, now }: TaskTimes & { readonly now: number },
  ): Promise<void> {
    const { inputHash, incarnation, priority, payload: input, options, onFail, lane } = task;
    await tx.execute(...this.#sql.deleteItems({ instanceKey }));
    mustChange(await tx.execute(...this.#sql.archive({ instanceKey })), 1);
    const run = {
      instanceKey,
      inputHash,
      incarnation,
      priority,
      input,
      options,
      runAt,
      expiresAt,
      onFail: onFail === undefined ? null : 'ready',
      onFailOptions: onFail?.options ?? null,
    };
    mustChange(await tx.execute(...this.#sql.reopen(run)), 1);
    await tx.execute(...this.#sql.deleteLane({ instanceKey }));
    if (lane !== undefined) {
      const { key, weight } = lane;
      await tx.execute(...this.#sql.addLane({ instanceKey, lane: key, weight }));
    }
    const nextAt = Math.max(runAt ?? now, now);
    mustChange(await tx.execute(...this.#sql.insertItem({ instanceKey, nextAt, now })), 1);
  }
}

function statements(schema: string) {
  const [runs, items] = [`${schema}.instances`, `${schema}.worker_queue`];
  const instanceKey = one<number>('bigint');
  const text = one<string | null>('text');
  const time = one<number | null>('bigint');
  return {
    selectOnFail: prepare(
      'perdure_select_on_fail_item',
      { instanceKey },
      ({ instanceKey }) => `SELECT 1 AS found FROM ${items}
        WHERE instance_key = ${instanceKey} AND operation = ${onFailOperation} LIMIT 1`,
    ),
    deleteItems: prepare(
      'perdure_delete_replaced_items',
      { instanceKey },
      ({ instanceKey }) =>
        `DELETE FROM ${items} WHERE instance_key = ${instanceKey} AND operation = ${taskOperation}`,
    ),
    archive: prepare('perdure_archive_replaced_task', { instanceKey }, ({ instanceKey }) =>
      archiveSql(schema, instanceKey),
    ),
    reopen: prepare(
      'perdure_reopen_replaced_task',
      {
        instanceKey,
        inputHash: one<string>('text'),
        incarnation: one<string>('text'),
        priority: one<number>('smallint'),
        input: text,
        options: text,
        runAt: time,
        expiresAt: time,
        onFail: text,
        onFailOptions: text,
      },
      (run) => `UPDATE ${runs}
        SET ${liveAgain}, status = 'pending', started_at = NULL, execution_started_at = NULL, failures = 0,
          input_hash = ${run.inputHash}, incarnation = ${run.incarnation}, priority = ${run.priority},
          input = ${run.input}, options = ${run.options}, run_at = ${run.runAt}, expires_at = ${run.expiresAt},
          on_fail = ${run.onFail}, on_fail_options = ${run.onFailOptions}, on_fail_failure = NULL, dedupe_key = NULL
        WHERE instance_key = ${run.instanceKey} AND ended_at IS NOT NULL`,
    ),
    deleteLane: prepare(
      'perdure_delete_replaced_lane',
      { instanceKey },
      ({ instanceKey }) => `DELETE FROM ${schema}.run_lanes WHERE instance_key = ${instanceKey}`,
    ),
    addLane: prepare(
      'perdure_add_replaced_lane',
      { instanceKey, lane: one<string>('text'), weight: one<number>('smallint') },
      ({ instanceKey, lane, weight }) =>
        `INSERT INTO ${schema}.run_lanes (instance_key, lane, weight) VALUES (${instanceKey}, ${lane}, ${weight})`,
    ),
    // Items of task runs always belong to execution 1.
    insertItem: prepare(
      'perdure_insert_replaced_item',
      { instanceKey, nextAt: one<number>('bigint'), now: one<number>('bigint') },
      ({
        instanceKey,
        nextAt,
        now,
      }) => `INSERT INTO ${items} (instance_key, execution_id, operation,
          definition_key, priority, next_at, expires_at, claims, created_at, lane, limit_key, weight)
        SELECT instance_key, 1, ${taskOperation}, definition_key, priority, ${nextAt}, expires_at, 0, ${now},
          ${laneOfRun(schema, 'run')}
        FROM ${runs} AS run WHERE instance_key = ${instanceKey}`,
    ),
  };
}
