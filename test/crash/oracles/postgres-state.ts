import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { EffectOutput } from '../helpers/scenarios.ts';
import {
  ends,
  wrongStates,
  type StoredCompletion,
  type StoredInstance,
  type StoredState,
} from './stored-state.ts';

/** Reads a PostgreSQL database. Retries while its server is unavailable. */
export class PostgresState implements StoredState {
  readonly #pool: pg.Pool;

  constructor(url: string) {
    this.#pool = new pg.Pool({
      connectionString: url,
      max: 2,
      options: '-c search_path=perdure',
    });
    this.#pool.on('error', () => undefined);
  }

  async isLeaseLive(token: string, now: number): Promise<boolean> {
    const dot = token.indexOf('.');
    const rows = await this.#query(
      `SELECT 1 FROM worker_queue WHERE item_key = $1 AND lock_token = $2 AND locked_until > $3
       UNION SELECT 1 FROM instance_locks
       WHERE instance_key = $1 AND lock_token = $2 AND locked_until > $3`,
      [token.slice(0, dot), token.slice(dot + 1), now],
    );
    return rows.length > 0;
  }

  // A process that is stopped inside a transaction locks a few rows, never all.
  async isWritable(): Promise<boolean> {
    return true;
  }

  async unfinished(): Promise<readonly string[]> {
    return this.#texts(
      `SELECT instance_id || ' is ' || status AS text FROM instances WHERE ended_at IS NULL`,
    );
  }

  eventCount(): Promise<number> {
    return this.#count('history');
  }

  rootCount(): Promise<number> {
    return this.#count('instances WHERE parent_instance_id IS NULL');
  }

  instances(): Promise<readonly StoredInstance[]> {
    return this.#query<StoredInstance>(
      `SELECT instance_id AS "instanceId", status, parent_instance_id IS NULL AS "isRoot", output,
         failure FROM instances`,
    );
  }

  async completions(): Promise<readonly StoredCompletion[]> {
    const rows = await this.#query<{ key: string; payload: string; at: string }>(
      `SELECT instance_id || '/' || incarnation || '/' || history.execution_id || '.'
         || (data::json ->> 'operation') AS key, history.payload, at
       FROM history JOIN instances USING (instance_key)
       WHERE kind = 'activityCompleted' AND event_id > coalesce((
         SELECT (started.data::json -> 'inherited' -> -1 ->> 'events')::int FROM history AS started
         WHERE started.instance_key = history.instance_key
           AND started.execution_id = history.execution_id AND started.event_id = 1), 0)`,
    );
    return rows.map(({ key, payload, at }) => {
      const { run } = JSON.parse(payload) as EffectOutput;
      return { key, run, at: Number(at) };
    });
  }

  brokenHistories(): Promise<readonly string[]> {
    return this.#texts(
      `SELECT min(instance_id) || ' execution ' || history.execution_id || ' has a broken history' AS text
       FROM history JOIN instances USING (instance_key)
       GROUP BY instance_key, history.execution_id
       HAVING count(*) <> max(event_id) OR min(event_id) <> 1
         OR count(*) FILTER (WHERE kind IN ${ends}) <> 1
         OR max(event_id) FILTER (WHERE kind IN ${ends}) <> max(event_id)`,
    );
  }

  wrongStates(): Promise<readonly string[]> {
    return this.#texts(wrongStates);
  }

  async leftovers(): Promise<readonly string[]> {
    const tables = ['orchestrator_queue', 'worker_queue', 'instance_locks'];
    const counts = await Promise.all(tables.map((table) => this.#count(table)));
    return tables.flatMap((table, index) =>
      counts[index] === 0 ? [] : [`${counts[index]} rows are left in ${table}`],
    );
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #count(from: string): Promise<number> {
    const [row] = await this.#query<{ count: number }>(
      `SELECT count(*)::int AS count FROM ${from}`,
    );
    return row?.count ?? 0;
  }

  async #texts(sql: string): Promise<readonly string[]> {
    const rows = await this.#query<{ text: string }>(sql);
    return rows.map(({ text }) => text);
  }

  async #query<Row extends object>(sql: string, values: unknown[] = []): Promise<readonly Row[]> {
    const deadline = Date.now() + 30_000;
    for (;;) {
      try {
        const { rows } = await this.#pool.query<Row>(sql, values);
        return rows;
      } catch (error) {
        // The loop restarts the server. Any other error is permanent.
        const isOurs = error instanceof pg.DatabaseError && error.code?.startsWith('57P') !== true;
        if (isOurs || Date.now() > deadline) throw error;
        await delay(20);
      }
    }
  }
}
