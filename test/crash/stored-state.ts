/** What the database file says, read with plain SQL: independent of the engine that wrote it. */
import Database from 'better-sqlite3';
import type { EffectOutput } from './scenarios.ts';

export interface StoredInstance {
  readonly instanceId: string;
  readonly status: string;
  readonly isRoot: 0 | 1;
  readonly output: string | null;
  readonly failure: string | null;
}

/** A completion in the history. `at` is when its turn began, which no claim of the item can follow. */
export interface StoredCompletion {
  readonly key: string;
  readonly run: string;
  readonly at: number;
}

/** Reads and probes the store of a loop. */
export class StoredState {
  readonly #db: Database.Database;
  readonly #unfinished;
  readonly #isLive;

  constructor(store: string) {
    this.#db = new Database(store, { fileMustExist: true, timeout: 5_000 });
    this.#unfinished = this.#db
      .prepare<[], string>(
        `SELECT instance_id || ' is ' || status FROM instances WHERE ended_at IS NULL`,
      )
      .pluck();
    this.#isLive = this.#db
      .prepare<{ key: number; secret: string; now: number }, 1>(
        `SELECT 1 FROM worker_queue
         WHERE item_key = :key AND lock_token = :secret AND locked_until > :now
         UNION SELECT 1 FROM instance_locks
         WHERE instance_key = :key AND lock_token = :secret AND locked_until > :now`,
      )
      .pluck();
  }

  /** Whether the store holds a live lease for this token. */
  isLeaseLive(token: string, now: number): boolean {
    const dot = token.indexOf('.');
    const key = Number(token.slice(0, dot));
    return this.#isLive.get({ key, secret: token.slice(dot + 1), now }) !== undefined;
  }

  /** Whether anyone could write now. */
  isWritable(): boolean {
    this.#db.pragma('busy_timeout = 100');
    try {
      this.#db.exec('BEGIN IMMEDIATE; ROLLBACK');
      return true;
    } catch (error) {
      if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error;
      return false;
    } finally {
      this.#db.pragma('busy_timeout = 5000');
    }
  }

  /** Instances that are not over, with their status. */
  unfinished(): readonly string[] {
    return this.#unfinished.all();
  }

  /** Instances that a client started. */
  rootCount(): number {
    const count = 'SELECT count(*) FROM instances WHERE parent_instance_id IS NULL';
    return this.#db.prepare<[], number>(count).pluck().get() ?? 0;
  }

  instances(): readonly StoredInstance[] {
    return this.#db
      .prepare<[], StoredInstance>(
        `SELECT instance_id AS instanceId, status, parent_instance_id IS NULL AS isRoot, output, failure
         FROM instances`,
      )
      .all();
  }

  /** Every recorded completion of an activity, with the execution of the effect that it came from. */
  completions(): readonly StoredCompletion[] {
    const rows = this.#db
      .prepare<[], { key: string; payload: string; at: number }>(
        `SELECT instance_id || '/' || incarnation || '/' || history.execution_id || '.' || (data ->> 'operation') AS key,
           history.payload, at
         FROM history JOIN instances USING (instance_key) WHERE kind = 'activityCompleted'`,
      )
      .all();
    return rows.map(({ key, payload, at }) => {
      const { run } = JSON.parse(payload) as EffectOutput;
      return { key, run, at };
    });
  }

  /** Executions whose history is not dense, or does not end with its only terminal event. */
  brokenHistories(): readonly string[] {
    return this.#db
      .prepare<[], string>(
        `SELECT instance_id || ' execution ' || history.execution_id || ' has a broken history'
         FROM history JOIN instances USING (instance_key)
         GROUP BY instance_key, history.execution_id
         HAVING count(*) <> max(event_id) OR min(event_id) <> 1
           OR sum(kind IN ('executionCompleted', 'executionFailed', 'executionContinuedAsNew')) <> 1
           OR max(CASE WHEN kind IN ('executionCompleted', 'executionFailed', 'executionContinuedAsNew')
                  THEN event_id END) <> max(event_id)`,
      )
      .pluck()
      .all();
  }

  /** Rows that a finished load has no use for. */
  leftovers(): readonly string[] {
    return ['orchestrator_queue', 'worker_queue', 'instance_locks'].flatMap((table) => {
      const count =
        this.#db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0;
      return count > 0 ? [`${count} rows are left in ${table}`] : [];
    });
  }

  close(): void {
    this.#db.close();
  }
}
