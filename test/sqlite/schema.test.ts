import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { payloadColumns } from '../../src/providers/shared/payload-columns.ts';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';

it('a new database has the schema in schema.sql', async () => {
  const db = new Database(':memory:');
  try {
    migrate(db, 0);
    const statements = db
      .prepare<[], string>(
        `SELECT sql || ';' FROM sqlite_schema
         WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY tbl_name, type DESC, name`,
      )
      .pluck()
      .all();
    const dump = `${statements.join('\n\n')}\n`;
    // Update it with `npx vitest run test/sqlite/schema --update`.
    await expect(dump).toMatchFileSnapshot(join(import.meta.dirname, 'schema.sql'));
  } finally {
    db.close();
  }
});

it('each text column of an instance is searched for external payloads, or has none', () => {
  const without: Readonly<Record<string, string>> = {
    instances: `status instance_id incarnation last_turn input_hash parent_instance_id cancellation cancel_reason
      cancel_actor cancel_cause terminate_reason terminate_actor closing_reason paused_reason paused_actor forked_from
      headers tags options dedupe_key on_fail on_fail_options`,
    executions: 'status reason',
    history: 'kind',
    orchestrator_queue: 'kind',
    instance_locks: 'lock_token blocked_build claimed_by',
    worker_queue: 'lock_token claimed_by lane cancellation cancel_trigger cancel_reason options',
    jobs: 'name',
    instance_tags: 'name value',
    stream_chunks: 'source payload',
    chunks: 'payload',
    event_keys: 'event_key',
    updates: 'update_key name input_hash outcome',
    awakeables: 'token_hash answer_key',
    instance_state: 'key',
    dedupe_keys: 'dedupe_key',
    run_lanes: 'lane',
    start_keys: 'kind start_key request_key',
    instance_places: 'lane',
    // Searched by SQLite only: PostgreSQL keeps them in the rows.
    large_payloads: 'payload',
  };
  const db = new Database(':memory:');
  try {
    migrate(db, 0);
    const columns = db
      .prepare<[], { readonly table: string; readonly name: string }>(
        `SELECT tables.name AS "table", columns.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND columns.type = 'TEXT' AND EXISTS (
           SELECT 1 FROM pragma_table_info(tables.name) AS one WHERE one.name = 'instance_key')`,
      )
      .all();
    const known = Object.entries<readonly string[]>(payloadColumns).concat(
      Object.entries(without).map(([table, names]) => [table, names.split(/\s+/)]),
    );
    const names = known.flatMap(([table, list]) => list.map((name) => `${table}.${name}`));
    expect(names.toSorted()).toEqual(
      columns.map(({ table, name }) => `${table}.${name}`).toSorted(),
    );
  } finally {
    db.close();
  }
});

it('the schema accepts only the end time that matches the instance status', () => {
  const db = new Database(':memory:');
  try {
    migrate(db, 0);
    const insert = (status: string, times: Readonly<Record<string, number>>) => () =>
      db
        .prepare(
          `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
             input_hash, created_at, ended_at, completed_at, failed_at, canceled_at, terminated_at, skipped_at, expired_at)
           VALUES (hex(randomblob(8)), 'i', 1, :status, 1, 0, 'h', 0,
             :ended, :completed, :failed, :canceled, :terminated, :skipped, :expired)`,
        )
        .run({
          status,
          ended: null,
          completed: null,
          failed: null,
          canceled: null,
          terminated: null,
          skipped: null,
          expired: null,
          ...times,
        });
    for (const status of ['pending', 'running', 'canceling']) {
      expect(insert(status, {})).not.toThrow();
      expect(insert(status, { ended: 1 })).toThrow('CHECK');
    }
    for (const status of ['completed', 'failed', 'canceled', 'terminated', 'skipped', 'expired']) {
      expect(insert(status, { ended: 1, [status]: 1 })).not.toThrow();
      expect(insert(status, { [status]: 1 })).toThrow('CHECK');
      expect(insert(status, { ended: 1 })).toThrow('CHECK');
      const other = status === 'failed' ? 'completed' : 'failed';
      expect(insert(status, { ended: 1, [status]: 1, [other]: 1 })).toThrow('CHECK');
    }
    expect(insert('lost', {})).toThrow('CHECK');
  } finally {
    db.close();
  }
});
