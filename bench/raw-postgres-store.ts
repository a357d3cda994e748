import pg from 'pg';

/** Connections of the baseline. */
export const rawConnections = 16;

/**
 * The baseline on PostgreSQL: careful hand-written SQL. Minimal tables for the same facts, prepared statements, and one
 * round trip per state change, each its own transaction. It claims by key and never searches; no JSON, fences or
 * wake-ups.
 */
export class RawPostgresStore {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  /** Creates the tables and opens the connections. */
  static async open(url: string, connections: number): Promise<readonly RawPostgresStore[]> {
    const stores: RawPostgresStore[] = [];
    for (let made = 0; made < connections; made++) {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      if (made === 0) await client.query(schema);
      stores.push(new RawPostgresStore(client));
    }
    return stores;
  }

  /** One hello: create, claim, first turn, claim the activity, complete it, claim, last turn. */
  async hello(name: string): Promise<string> {
    const created = await this.#run('create', ['hello', name]);
    await this.#run('claimMessage', [leaseEnd(), created.message_key]);
    const first = await this.#run('firstTurn', [created.message_key, created.instance_key, name]);
    const claimed = await this.#run('claimItem', [leaseEnd(), first.item_key]);
    const output = `Hello, ${claimed.payload}!`;
    const done = await this.#run('complete', [first.item_key, created.instance_key, output]);
    await this.#run('claimMessage', [leaseEnd(), done.message_key]);
    await this.#run('lastTurn', [done.message_key, created.instance_key, output]);
    return output;
  }

  /** Sequential steps, two round trips each: claim the activity; complete it and schedule the next. */
  async steps(count: number): Promise<number> {
    const created = await this.#run('begin', ['steps', '0']);
    let { item_key: item } = created;
    let value = 0;
    for (let step = 0; step < count; step++) {
      const claimed = await this.#run('claimItem', [leaseEnd(), item]);
      value = Number(claimed.payload) + 1;
      const values = [item, created.instance_key, 2 * step + 2, 2 * step + 3, String(value)];
      ({ item_key: item } = await this.#run('step', values));
    }
    await this.#run('finish', [created.instance_key, String(value)]);
    return value;
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  async #run(name: keyof typeof statements, values: unknown[]): Promise<Row> {
    const { rows } = await this.#client.query<Row>({ name, text: statements[name], values });
    const [row] = rows;
    if (row === undefined) throw new Error(`The statement ${name} found no row.`);
    return row;
  }
}

interface Row {
  readonly instance_key: string;
  readonly message_key: string;
  readonly item_key: string;
  readonly payload: string;
}

const schema = `
  CREATE TABLE instances (instance_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, status text, output text);
  CREATE TABLE history (instance_key bigint, event_id integer, kind text, payload text, PRIMARY KEY (instance_key, event_id));
  CREATE TABLE messages (message_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, instance_key bigint, kind text, payload text, locked_until bigint);
  CREATE TABLE items (item_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, instance_key bigint, name text, payload text, locked_until bigint);`;

const statements = {
  create: `WITH created AS (INSERT INTO instances (name, status) VALUES ($1, 'running') RETURNING instance_key)
    INSERT INTO messages (instance_key, kind, payload) SELECT instance_key, 'start', $2 FROM created
    RETURNING instance_key, message_key`,
  claimMessage: `UPDATE messages SET locked_until = $1 WHERE message_key = $2 RETURNING instance_key, payload`,
  firstTurn: `WITH taken AS (DELETE FROM messages WHERE message_key = $1),
      recorded AS (INSERT INTO history VALUES ($2, 1, 'executionStarted', $3), ($2, 2, 'activityScheduled', $3))
    INSERT INTO items (instance_key, name, payload) VALUES ($2, 'greet', $3) RETURNING item_key`,
  claimItem: `UPDATE items SET locked_until = $1 WHERE item_key = $2 RETURNING payload`,
  complete: `WITH taken AS (DELETE FROM items WHERE item_key = $1)
    INSERT INTO messages (instance_key, kind, payload) VALUES ($2, 'activityCompleted', $3) RETURNING message_key`,
  lastTurn: `WITH taken AS (DELETE FROM messages WHERE message_key = $1),
      recorded AS (INSERT INTO history VALUES ($2, 3, 'activityCompleted', $3), ($2, 4, 'executionCompleted', $3))
    UPDATE instances SET status = 'completed', output = $3 WHERE instance_key = $2 RETURNING instance_key`,
  begin: `WITH created AS (INSERT INTO instances (name, status) VALUES ($1, 'running') RETURNING instance_key),
      recorded AS (INSERT INTO history SELECT instance_key, 1, 'activityScheduled', $2 FROM created)
    INSERT INTO items (instance_key, name, payload) SELECT instance_key, 'increment', $2 FROM created
    RETURNING instance_key, item_key`,
  step: `WITH taken AS (DELETE FROM items WHERE item_key = $1),
      recorded AS (INSERT INTO history VALUES ($2, $3, 'activityCompleted', $5), ($2, $4, 'activityScheduled', $5))
    INSERT INTO items (instance_key, name, payload) VALUES ($2, 'increment', $5) RETURNING item_key`,
  finish: `UPDATE instances SET status = 'completed', output = $2 WHERE instance_key = $1 RETURNING instance_key`,
};

function leaseEnd(): number {
  return Date.now() + 30_000;
}
