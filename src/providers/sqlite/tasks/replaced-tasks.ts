import type Database from 'better-sqlite3';
import type { NewTask } from '../../contract/tasks.ts';
import type { TaskTimes } from '../../rules/starts.ts';
import { onFailOperation, taskOperation } from '../../shared/work-item-row.ts';
import { mustChangeOne } from '../tables/instance-rows.ts';
import { archiveSql, liveAgain } from '../tables/replaced-rows.ts';

interface ReplacedRun extends TaskTimes {
  readonly instanceKey: number;
  readonly inputHash: string;
  readonly incarnation: string;
  readonly priority: number;
  readonly input: string | null;
  readonly options: string | null;
  readonly onFail: 'ready' | null;
  readonly onFailOptions: string | null;
}

/** Writes that replace an ended task run by a new start under the same id. */
export class ReplacedTasks {
  readonly #hasOnFail;
  readonly #deleteItems;
  readonly #archive;
  readonly #reopen;

  constructor(db: Database.Database) {
    this.#hasOnFail = db
      .prepare<[number], 1>(
        `SELECT 1 FROM worker_queue WHERE instance_key = ? AND operation = ${onFailOperation} LIMIT 1`,
      )
      .pluck();
    this.#deleteItems = db.prepare<[number]>(
      `DELETE FROM worker_queue WHERE instance_key = ? AND operation = ${taskOperation}`,
    );
    this.#archive = db.prepare<[number]>(archiveSql);
    this.#reopen = db.prepare<[ReplacedRun]>(
      `UPDATE instances SET ${liveAgain}, status = 'pending', started_at = NULL, execution_started_at = NULL,
         failures = 0, input_hash = :inputHash, incarnation = :incarnation, priority = :priority, input = :input,
         options = :options, run_at = :runAt, expires_at = :expiresAt, on_fail = :onFail,
         on_fail_options = :onFailOptions, on_fail_failure = NULL, dedupe_key = NULL
       WHERE instance_key = :instanceKey AND ended_at IS NOT NULL`,
    );
  }

  /** Whether the `onFail` handler of the run has not finished. */
  hasOnFail(instanceKey: number): boolean {
    return this.#hasOnFail.get(instanceKey) !== undefined;
  }

  /** Archives the ended execution, and makes the run pending with another start. A worker that holds its item loses the lease. */
  reopen(instanceKey: number, task: NewTask, { runAt, expiresAt }: TaskTimes): void {
    const { inputHash, incarnation, priority, payload: input, options, onFail } = task;
    this.#deleteItems.run(instanceKey);
    mustChangeOne(this.#archive.run(instanceKey));
    mustChangeOne(
      this.#reopen.run({
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
      }),
    );
  }
}
