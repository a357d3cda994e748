import pg from 'pg';

/** The number of rows per queue. */
export const queued = 300_000;

/**
 * Fills the queues of a schema without running ANALYZE. One row in ten has the name `mine`: half of those are delayed, and
 * some are blocked by this build. The other rows are older and have a foreign name. The delayed tasks have the highest
 * priority, so that they are first in the queue.
 */
export async function fillQueues(url: string, schema: string): Promise<void> {
  // Without the timeouts of the provider's connections: the rows take long to insert on a busy machine.
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await insertRows(client, schema);
  } finally {
    await client.end();
  }
}

async function insertRows(client: pg.Client, schema: string): Promise<void> {
  await client.query(`
    SET search_path = ${schema};
    ALTER TABLE instance_locks SET (autovacuum_enabled = false);
    ALTER TABLE orchestrator_queue SET (autovacuum_enabled = false);
    ALTER TABLE worker_queue SET (autovacuum_enabled = false);
    ALTER TABLE instances SET (autovacuum_enabled = false);
    INSERT INTO definitions (kind, name, version)
      VALUES ('orchestration', 'mine', '1'), ('orchestration', 'foreign', '1'), ('activity', 'mine', ''), ('activity', 'foreign', ''),
        ('task', 'mine', ''), ('task', 'foreign', '');
    CREATE TEMPORARY TABLE rows AS
      SELECT n, n % 10 = 0 AS is_mine, n % 20 = 0 AS is_delayed, n % 50 = 10 AS is_blocked,
        floor(extract(epoch FROM now()) * 1000)::bigint - 3600000 + CASE WHEN n % 10 = 0 THEN 1800000 ELSE 0 END
          + n / 100 AS due_at
      FROM generate_series(1, ${queued}) AS n;
    INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length, last_turn,
        input_hash, created_at, started_at, execution_started_at)
      SELECT 'i' || n, 'x', CASE WHEN is_mine THEN 1 ELSE 2 END, 'running', 1, 1, 'turn', 'hash', 0, 0, 0
      FROM rows ORDER BY n;
    INSERT INTO orchestrator_queue (instance_key, visible_at, kind, data)
      SELECT n, due_at, 'eventRaised', '{}' FROM rows ORDER BY n;
    INSERT INTO instance_locks (instance_key, definition_key, next_at, claims, blocked_reason, blocked_build, blocked_at, held_until)
      SELECT n, CASE WHEN is_mine THEN 1 ELSE 2 END,
        due_at + CASE WHEN is_delayed OR is_blocked THEN 86400000 ELSE 0 END, 0,
        CASE WHEN is_blocked THEN 'x' END, CASE WHEN is_blocked THEN 'this build' END, CASE WHEN is_blocked THEN 0 END,
        CASE WHEN is_delayed OR is_blocked THEN due_at + 86400000 END
      FROM rows ORDER BY n;
    INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, next_at, claims, created_at)
      SELECT n, 1, 1, CASE WHEN is_mine THEN 3 ELSE 4 END, due_at + CASE WHEN is_delayed THEN 86400000 ELSE 0 END, 0, 0
      FROM rows ORDER BY n;
    INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length, last_turn,
        input_hash, created_at, started_at, execution_started_at)
      VALUES ('wide', 'x', 1, 'running', 1, 1, 'turn', 'hash', 0, 0, 0);
    INSERT INTO live_instances SELECT instance_key FROM instances ORDER BY instance_key;
    INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, next_at, claims, created_at)
      SELECT ${queued} + 1, 1, operation, 3, 0, 0, 0 FROM generate_series(1, 2000) AS operation;
    RESET search_path;`);
  await client.query(`
    SET search_path = ${schema};
    INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length, input_hash,
        created_at, priority, failures)
      SELECT 't' || n, 'x', CASE WHEN is_mine THEN 5 ELSE 6 END, 'pending', 1, 0, 'hash', 0, n % 7, 0
      FROM rows ORDER BY n;
    INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at, expires_at, claims,
        created_at)
      SELECT ${queued} + 1 + n, 1, 1, CASE WHEN is_mine THEN 5 ELSE 6 END,
        CASE WHEN is_mine AND is_delayed THEN 50 ELSE n % 7 END,
        due_at + CASE WHEN is_delayed THEN 86400000 ELSE 0 END, due_at + 172800000, 0, 0
      FROM rows ORDER BY n;
    DROP TABLE rows;
    RESET search_path;`);
}
