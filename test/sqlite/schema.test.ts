import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
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
