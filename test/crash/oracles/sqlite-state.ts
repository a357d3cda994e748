import Database from 'better-sqlite3';
import type { EffectOutput } from '../helpers/scenarios.ts';
import {
  ends,
  wrongStates,
  type StoredCompletion,
  type StoredInstance,
  type StoredState,
} from './stored-state.ts';

/** Reads an SQLite file. */
export class SqliteState implements StoredState {
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

  async isLeaseLive(token: string, now: number): Promise<boolean> {
    const dot = token.indexOf('.');
    const key = Number(token.slice(0, dot));
    return this.#isLive.get({ key, secret: token.slice(dot + 1), now }) !== undefined;
  }

  async isWritable(): Promise<boolean> {
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

  async unfinished(): Promise<readonly string[]> {
    return this.#unfinished.all();
  }

  async eventCount(): Promise<number> {
    const count = 'SELECT count(*) FROM history';
    return this.#db.prepare<[], number>(count).pluck().get() ?? 0;
  }

  async rootCount(): Promise<number> {
    const count = 'SELECT count(*) FROM instances WHERE parent_instance_id IS NULL';
    return this.#db.prepare<[], number>(count).pluck().get() ?? 0;
  }

  async instances(): Promise<readonly StoredInstance[]> {
    const rows = this.#db
      .prepare<[], Omit<StoredInstance, 'isRoot'> & { readonly isRoot: 0 | 1 }>(
        `SELECT instance_id AS instanceId, status, parent_instance_id IS NULL AS isRoot, output, failure
         FROM instances`,
      )
      .all();
    return rows.map((row) => ({ ...row, isRoot: row.isRoot === 1 }));
  }

  async completions(): Promise<readonly StoredCompletion[]> {
    const rows = this.#db
      .prepare<[], { key: string; payload: string; at: number }>(
        `SELECT instance_id || '/' || incarnation || '/' || history.execution_id || '.' || (data ->> 'operation') AS key,
           history.payload, at
         FROM history JOIN instances USING (instance_key)
         WHERE kind = 'activityCompleted' AND event_id > coalesce((
           SELECT started.data ->> '$.inherited[#-1].events' FROM history AS started
           WHERE started.instance_key = history.instance_key
             AND started.execution_id = history.execution_id AND started.event_id = 1), 0)`,
      )
      .all();
    return rows.map(({ key, payload, at }) => {
      const { run } = JSON.parse(payload) as EffectOutput;
      return { key, run, at };
    });
  }

  async brokenHistories(): Promise<readonly string[]> {
    return this.#db
      .prepare<[], string>(
        `SELECT instance_id || ' execution ' || history.execution_id || ' has a broken history'
         FROM history JOIN instances USING (instance_key)
         GROUP BY instance_key, history.execution_id
         HAVING count(*) <> max(event_id) OR min(event_id) <> 1
           OR sum(kind IN ${ends}) <> 1
           OR max(CASE WHEN kind IN ${ends} THEN event_id END) <> max(event_id)`,
      )
      .pluck()
      .all();
  }

  async wrongStates(): Promise<readonly string[]> {
    return this.#db.prepare<[], string>(wrongStates).pluck().all();
  }

  async leftovers(): Promise<readonly string[]> {
    return ['orchestrator_queue', 'worker_queue', 'instance_locks'].flatMap((table) => {
      const count =
        this.#db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0;
      return count > 0 ? [`${count} rows are left in ${table}`] : [];
    });
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
