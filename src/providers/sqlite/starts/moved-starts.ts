import type Database from 'better-sqlite3';
import type { NewInstance } from '../../contract/instances.ts';
import type { NewTask } from '../../contract/tasks.ts';
import type { TaskTimes } from '../../rules/starts.ts';
import { taskOperation } from '../../shared/work-item-row.ts';
import { mustChangeOne } from '../tables/instance-rows.ts';

interface MovedItem {
  readonly instanceKey: number;
  readonly nextAt: number;
  readonly priority: number;
  readonly expiresAt: number | null;
  readonly lane: string | null;
}

interface MovedRun extends Omit<MovedItem, 'nextAt' | 'lane'> {
  readonly runAt: number | null;
  readonly inputHash: string;
  readonly input: string | null;
  readonly options: string | null;
  readonly onFail: 'ready' | null;
  readonly onFailOptions: string | null;
}

interface MovedInstance {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly inputHash: string;
  readonly headers: string | null;
  readonly runAt: number;
}

/**
 * Replaces the start of a run that has not started. Each method returns `false`, changing nothing, if a worker has claimed
 * it. Tags and timeouts are replaced by the caller.
 */
export class MovedStarts {
  readonly #moveItem;
  readonly #moveRun;
  readonly #moveLock;
  readonly #moveMessages;
  readonly #setStart;
  readonly #moveInstance;
  readonly #deletePlace;

  constructor(db: Database.Database) {
    // Execution 1: a retried run has started before.
    const isPending = `EXISTS (SELECT 1 FROM instances
      WHERE instance_key = :instanceKey AND status = 'pending' AND execution_id = 1)`;
    this.#moveItem = db.prepare<[MovedItem]>(
      `UPDATE worker_queue SET next_at = :nextAt, priority = :priority, expires_at = :expiresAt, lane = :lane,
         limit_key = iif(:lane IS NULL, NULL, definition_key)
       WHERE instance_key = :instanceKey AND execution_id = 1 AND operation = ${taskOperation}
         AND lock_token IS NULL AND cancel_requested = 0 AND ${isPending}`,
    );
    this.#moveRun = db.prepare<[MovedRun]>(
      `UPDATE instances SET input_hash = :inputHash, priority = :priority, input = :input, options = :options,
         run_at = :runAt, expires_at = :expiresAt, on_fail = :onFail, on_fail_options = :onFailOptions
       WHERE instance_key = :instanceKey`,
    );
    // The key of a paused instance is negative. That of one that waits for a place becomes positive.
    this.#moveLock = db.prepare<[{ instanceKey: number; definitionKey: number }]>(
      `UPDATE instance_locks SET definition_key = iif(
         (SELECT paused_at FROM instances WHERE instance_key = :instanceKey) IS NULL, :definitionKey, -:definitionKey)
       WHERE instance_key = :instanceKey AND lock_token IS NULL AND ${isPending}`,
    );
    // Messages that wait for the start stay behind it: the order of equal times is that of their keys.
    this.#moveMessages = db.prepare<[number, number]>(
      'UPDATE orchestrator_queue SET visible_at = ? WHERE instance_key = ?',
    );
    this.#setStart = db.prepare<[string, string | null, number]>(
      `UPDATE orchestrator_queue SET data = ?, payload = ? WHERE instance_key = ? AND kind = 'start'`,
    );
    this.#moveInstance = db
      .prepare<[MovedInstance], 0 | 1>(
        `UPDATE instances SET definition_key = :definitionKey, input_hash = :inputHash, headers = :headers,
           run_at = :runAt
         WHERE instance_key = :instanceKey RETURNING limited`,
      )
      .pluck();
    this.#deletePlace = db.prepare<[number]>('DELETE FROM instance_places WHERE instance_key = ?');
  }

  /** Replaces the start of a task run. */
  moveTask(
    instanceKey: number,
    task: NewTask,
    {
      runAt,
      expiresAt,
      nextAt,
      lane,
    }: TaskTimes & { readonly nextAt: number; readonly lane: string | null },
  ): boolean {
    const { priority, inputHash, payload: input, options, onFail } = task;
    const item = { instanceKey, priority, expiresAt };
    if (this.#moveItem.run({ ...item, nextAt, lane }).changes === 0) return false;
    const handler = { onFail: onFail && ('ready' as const), onFailOptions: onFail?.options };
    mustChangeOne(
      this.#moveRun.run({
        ...item,
        runAt,
        inputHash,
        input,
        options,
        onFail: handler.onFail ?? null,
        onFailOptions: handler.onFailOptions ?? null,
      }),
    );
    return true;
  }

  /**
   * Replaces the start of an orchestration. The caller then refreshes its row in `instance_locks`. The instance gives up its
   * place of a limit, or its turn for one: the first claim after the new due time lets it wait again.
   */
  moveInstance(
    instanceKey: number,
    { inputHash, headers, start }: NewInstance,
    { definitionKey, startsAt }: { readonly definitionKey: number; readonly startsAt: number },
  ): boolean {
    if (this.#moveLock.run({ instanceKey, definitionKey }).changes === 0) return false;
    this.#moveMessages.run(startsAt, instanceKey);
    mustChangeOne(this.#setStart.run(start.data, start.payload, instanceKey));
    const row = { instanceKey, definitionKey, inputHash, headers: headers ?? null };
    const limited = this.#moveInstance.get({ ...row, runAt: startsAt });
    if (limited === 1) this.#deletePlace.run(instanceKey);
    return true;
  }
}
