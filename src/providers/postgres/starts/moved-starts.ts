import type { StoredMessage } from '../../../model/message.ts';
import type { NewInstance } from '../../contract/instances.ts';
import type { NewTask } from '../../contract/tasks.ts';
import { queueKey } from '../../rules/pauses.ts';
import type { TaskTimes } from '../../rules/starts.ts';
import { taskOperation } from '../../shared/work-item-row.ts';
import { keys, one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { mustChange } from '../tables/instance-rows.ts';

/** Replaces the start of a run that has not started. Tags and timeouts are replaced by the caller. */
export class MovedStarts {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Locks runs in key order. */
  async lock(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.query<object>(...this.#sql.lock({ instanceKeys }));
  }

  /** Replaces the start of a locked task run. Returns `false`, changing nothing, if a worker has claimed it. */
  async moveTask(
    tx: Transaction,
    instanceKey: number,
    task: NewTask,
    times: TaskTimes & { readonly nextAt: number },
  ): Promise<boolean> {
    const { priority, inputHash, payload: input, options, onFail } = task;
    const { runAt, expiresAt, nextAt } = times;
    const item = { instanceKey, priority, expiresAt };
    const moved = await tx.execute(...this.#sql.moveItem({ ...item, nextAt }));
    if (moved === 0) return false;
    const run = {
      ...item,
      runAt,
      inputHash,
      input,
      options,
      onFail: onFail === undefined ? null : 'ready',
      onFailOptions: onFail?.options ?? null,
    };
    mustChange(await tx.execute(...this.#sql.moveRun(run)), 1);
    return true;
  }

  /**
   * Replaces the start of a locked orchestration whose lock no worker holds. The caller then refreshes its row in
   * `instance_locks`. The instance gives up its place of a limit, or its turn for one: the first claim after the new due time
   * lets it wait again. Returns whether it had a place.
   */
  async moveInstance(
    tx: Transaction,
    instanceKey: number,
    { inputHash, headers, start }: NewInstance,
    to: {
      readonly definitionKey: number;
      readonly startsAt: number;
      readonly isPaused: boolean;
    },
  ): Promise<boolean> {
    const { definitionKey, startsAt, isPaused } = to;
    const { data, payload }: StoredMessage = start;
    const row = { instanceKey, definitionKey, inputHash, headers: headers ?? null };
    const [, , changed, [moved]] = await Promise.all([
      tx.execute(...this.#sql.moveMessages({ instanceKey, startsAt })),
      tx.execute(...this.#sql.moveLock({ instanceKey, key: queueKey(definitionKey, isPaused) })),
      tx.execute(...this.#sql.setStart({ instanceKey, data, payload })),
      tx.query<{ limited: boolean }>(...this.#sql.moveInstance({ ...row, runAt: startsAt })),
    ]);
    mustChange(changed, 1);
    if (moved?.limited !== true) return false;
    return (await tx.execute(...this.#sql.freePlace({ instanceKey }))) > 0;
  }
}

function statements(schema: string) {
  const [runs, items] = [`${schema}.instances`, `${schema}.worker_queue`];
  const messages = `${schema}.orchestrator_queue`;
  const instanceKey = one<number>('bigint');
  const text = one<string | null>('text');
  const time = one<number | null>('bigint');
  return {
    lock: prepare(
      'perdure_lock_debounced',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `SELECT 1 FROM ${runs} WHERE instance_key = ANY (${instanceKeys})
        ORDER BY instance_key FOR NO KEY UPDATE`,
    ),
    // A new row: a claim whose snapshot is older than the new input cannot lock it. Execution 1: a retried run has started
    // before.
    moveItem: prepare(
      'perdure_move_item',
      { instanceKey, nextAt: time, priority: one<number>('smallint'), expiresAt: time },
      ({ instanceKey, nextAt, priority, expiresAt }) => `WITH moved AS (
          DELETE FROM ${items} AS item
          WHERE item.item_key = (SELECT one.item_key FROM ${items} AS one WHERE one.instance_key = ${instanceKey}
              AND one.execution_id = 1 AND one.operation = ${taskOperation} LIMIT 1)
            AND item.lock_token IS NULL AND item.started_at IS NULL AND item.cancel_requested IS NOT TRUE
            AND (SELECT 1 FROM ${runs} AS run WHERE run.instance_key = ${instanceKey} AND run.status = 'pending'
              AND run.execution_id = 1) IS NOT NULL
          RETURNING definition_key, lane, limit_key, weight, claims, failures, created_at
        )
        INSERT INTO ${items} (instance_key, execution_id, operation, definition_key, priority, next_at, expires_at,
          lane, limit_key, weight, claims, failures, created_at)
        SELECT ${instanceKey}, 1, ${taskOperation}, definition_key, ${priority}, ${nextAt}, ${expiresAt}, lane, limit_key, weight, claims,
          failures, created_at
        FROM moved`,
    ),
    moveRun: prepare(
      'perdure_move_run',
      {
        instanceKey,
        inputHash: one<string>('text'),
        priority: one<number>('smallint'),
        input: text,
        options: text,
        runAt: time,
        expiresAt: time,
        onFail: text,
        onFailOptions: text,
      },
      (
        run,
      ) => `UPDATE ${runs} SET input_hash = ${run.inputHash}, priority = ${run.priority}, input = ${run.input},
          options = ${run.options}, run_at = ${run.runAt}, expires_at = ${run.expiresAt}, on_fail = ${run.onFail},
          on_fail_options = ${run.onFailOptions}
        WHERE instance_key = ${run.instanceKey}`,
    ),
    // Messages that wait for the start stay behind it: the order of equal times is that of their keys.
    moveMessages: prepare(
      'perdure_move_messages',
      { instanceKey, startsAt: one<number>('bigint') },
      ({ instanceKey, startsAt }) =>
        `UPDATE ${messages} SET visible_at = ${startsAt} WHERE instance_key = ${instanceKey}`,
    ),
    setStart: prepare(
      'perdure_set_start',
      { instanceKey, data: one<string>('text'), payload: text },
      ({
        instanceKey,
        data,
        payload,
      }) => `UPDATE ${messages} SET data = ${data}, payload = ${payload}
        WHERE instance_key = ${instanceKey} AND kind = 'start'`,
    ),
    moveLock: prepare(
      'perdure_move_instance_lock',
      { instanceKey, key: one<number>('int') },
      ({ instanceKey, key }) => `UPDATE ${schema}.instance_locks SET definition_key = ${key}
        WHERE instance_key = ${instanceKey}`,
    ),
    moveInstance: prepare(
      'perdure_move_instance',
      {
        instanceKey,
        definitionKey: one<number>('int'),
        inputHash: one<string>('text'),
        headers: text,
        runAt: one<number>('bigint'),
      },
      (
        row,
      ) => `UPDATE ${runs} SET definition_key = ${row.definitionKey}, input_hash = ${row.inputHash},
          headers = ${row.headers}, run_at = ${row.runAt}
        WHERE instance_key = ${row.instanceKey}
        RETURNING limited`,
    ),
    freePlace: prepare(
      'perdure_free_moved_place',
      { instanceKey },
      ({ instanceKey }) => `WITH freed AS (
          DELETE FROM ${schema}.instance_places WHERE instance_key = ${instanceKey}
          RETURNING definition_key, lane, has_begun
        )
        INSERT INTO ${schema}.lane_signals (definition_key, lane, due, freed)
        SELECT definition_key, lane, FALSE, 1 FROM freed WHERE has_begun`,
    ),
  };
}
