import Database from 'better-sqlite3';
import pg from 'pg';
import { isPostgresUrl } from '../../../src/providers/postgres/driver/postgres-url.ts';

/** Writes tokens back to their rows, even if another worker holds these. */
export interface TokenRestorer {
  items(tokens: readonly string[]): Promise<void>;
  instances(tokens: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

const leaseMs = 1_000;

/** Opens the database below the provider, by its path or URL. */
export function createTokenRestorer(store: string): TokenRestorer {
  return isPostgresUrl(store) ? onPostgres(store) : onSqlite(store);
}

function onSqlite(store: string): TokenRestorer {
  const db = new Database(store);
  const restore = (table: string, key: string) => {
    const statement = db.prepare<{ secret: string; until: number; key: number }>(
      `UPDATE ${table} SET lock_token = :secret, locked_until = :until, next_at = :until
       WHERE ${key} = :key`,
    );
    return async (tokens: readonly string[]): Promise<void> => {
      for (const token of tokens) statement.run({ ...parse(token), until: Date.now() + leaseMs });
    };
  };
  return {
    items: restore('worker_queue', 'item_key'),
    instances: restore('instance_locks', 'instance_key'),
    async close() {
      db.close();
    },
  };
}

function onPostgres(url: string): TokenRestorer {
  const pool = new pg.Pool({ connectionString: url, max: 2, options: '-c search_path=perdure' });
  pool.on('error', () => undefined);
  const restore = (table: string, key: string) => async (tokens: readonly string[]) => {
    for (const token of tokens) {
      const { key: value, secret } = parse(token);
      await pool.query(
        `UPDATE ${table} SET lock_token = $1, locked_until = $2, next_at = $2 WHERE ${key} = $3`,
        [secret, Date.now() + leaseMs, value],
      );
    }
  };
  return {
    items: restore('worker_queue', 'item_key'),
    instances: restore('instance_locks', 'instance_key'),
    close: () => pool.end(),
  };
}

function parse(token: string): { readonly key: number; readonly secret: string } {
  const dot = token.indexOf('.');
  return { key: Number(token.slice(0, dot)), secret: token.slice(dot + 1) };
}
