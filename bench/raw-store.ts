import Database from 'better-sqlite3';

/** The data and the payload of an event of `ctx.run()`. */
const stepEvent =
  '{"operation":1234,"name":"increment","worker":"localhost-12345","startedAt":1790000000000}1234';

/** The state changes of a hello, each one transaction of the baseline. */
export const transactionsPerHello = 7;

/**
 * The baseline: careful hand-written SQL. The same pragmas, minimal tables for the same facts, prepared statements, and
 * one transaction per state change; no JSON, fences or wake-ups.
 */
export class RawStore {
  readonly #db: Database.Database;
  readonly #begin;
  readonly #commit;
  readonly #statements;
  #events = 0;

  constructor(path: string) {
    const db = new Database(path);
    for (const pragma of ['journal_mode = WAL', 'synchronous = FULL', 'cache_size = -32000']) {
      db.pragma(pragma);
    }
    db.pragma('temp_store = MEMORY');
    db.pragma('wal_autocheckpoint = 4000');
    db.exec(`
      CREATE TABLE instances (instance_key INTEGER PRIMARY KEY, name TEXT, status TEXT, output TEXT);
      CREATE TABLE history (instance_key INTEGER, event_id INTEGER, kind TEXT, payload TEXT,
        PRIMARY KEY (instance_key, event_id)) WITHOUT ROWID;
      CREATE TABLE messages (message_key INTEGER PRIMARY KEY, instance_key INTEGER, kind TEXT, payload TEXT, locked_until INTEGER);
      CREATE TABLE items (item_key INTEGER PRIMARY KEY, instance_key INTEGER, name TEXT, payload TEXT, locked_until INTEGER);`);
    this.#db = db;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#statements = {
      create: db.prepare<[string]>(`INSERT INTO instances (name, status) VALUES (?, 'running')`),
      send: db.prepare<[number | bigint, string, string]>(
        'INSERT INTO messages (instance_key, kind, payload) VALUES (?, ?, ?)',
      ),
      claimMessage: db.prepare<[number, number | bigint], { instance_key: number }>(
        'UPDATE messages SET locked_until = ? WHERE message_key = ? RETURNING instance_key, payload',
      ),
      deleteMessage: db.prepare<[number | bigint]>('DELETE FROM messages WHERE message_key = ?'),
      record: db.prepare<[number | bigint, number, string, string]>(
        'INSERT INTO history (instance_key, event_id, kind, payload) VALUES (?, ?, ?, ?)',
      ),
      schedule: db.prepare<[number | bigint, string, string]>(
        'INSERT INTO items (instance_key, name, payload) VALUES (?, ?, ?)',
      ),
      claimItem: db.prepare<[number, number | bigint], { payload: string }>(
        'UPDATE items SET locked_until = ? WHERE item_key = ? RETURNING instance_key, payload',
      ),
      deleteItem: db.prepare<[number | bigint]>('DELETE FROM items WHERE item_key = ?'),
      finish: db.prepare<[string, number | bigint]>(
        `UPDATE instances SET status = 'completed', output = ? WHERE instance_key = ?`,
      ),
    };
  }

  /** One event of a step, in a transaction of its own. */
  insertEvent(): void {
    this.#events += 1;
    this.#begin.run();
    this.#statements.record.run(0, this.#events, 'stepCompleted', stepEvent);
    this.#commit.run();
  }

  /** One hello: create, claim, first turn, claim the activity, complete it, claim, last turn. */
  hello(name: string): string {
    const { create, send, claimMessage, deleteMessage, record, schedule } = this.#statements;
    const { claimItem, deleteItem, finish } = this.#statements;
    const [instance, start] = this.#transact(() => {
      const key = create.run('hello').lastInsertRowid;
      return [key, send.run(key, 'start', name).lastInsertRowid] as const;
    });
    this.#transact(() => claimMessage.get(leaseEnd(), start));
    const item = this.#transact(() => {
      deleteMessage.run(start);
      record.run(instance, 1, 'executionStarted', name);
      record.run(instance, 2, 'activityScheduled', name);
      return schedule.run(instance, 'greet', name).lastInsertRowid;
    });
    const claimed = this.#transact(() => claimItem.get(leaseEnd(), item));
    const output = `Hello, ${claimed?.payload}!`;
    const completion = this.#transact(() => {
      deleteItem.run(item);
      return send.run(instance, 'activityCompleted', output).lastInsertRowid;
    });
    this.#transact(() => claimMessage.get(leaseEnd(), completion));
    this.#transact(() => {
      deleteMessage.run(completion);
      record.run(instance, 3, 'activityCompleted', output);
      record.run(instance, 4, 'executionCompleted', output);
      finish.run(output, instance);
    });
    return output;
  }

  /** Sequential steps, two transactions each: claim the activity; complete it and schedule the next. */
  steps(count: number): number {
    const { create, record, schedule, claimItem, deleteItem, finish } = this.#statements;
    const [instance, first] = this.#transact(() => {
      const key = create.run('steps').lastInsertRowid;
      record.run(key, 1, 'activityScheduled', '0');
      return [key, schedule.run(key, 'increment', '0').lastInsertRowid] as const;
    });
    let item = first;
    let value = 0;
    for (let step = 0; step < count; step++) {
      const claimed = this.#transact(() => claimItem.get(leaseEnd(), item));
      value = Number(claimed?.payload) + 1;
      item = this.#transact(() => {
        deleteItem.run(item);
        record.run(instance, 2 * step + 2, 'activityCompleted', String(value));
        record.run(instance, 2 * step + 3, 'activityScheduled', String(value));
        return schedule.run(instance, 'increment', String(value)).lastInsertRowid;
      });
    }
    this.#transact(() => finish.run(String(value), instance));
    return value;
  }

  close(): void {
    this.#db.close();
  }

  #transact<T>(work: () => T): T {
    this.#begin.run();
    const result = work();
    this.#commit.run();
    return result;
  }
}

function leaseEnd(): number {
  return Date.now() + 30_000;
}
