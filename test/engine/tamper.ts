import Database from 'better-sqlite3';

/** Changes the store behind the engine's back, as damage or a crashed worker would; says how many rows. */
export function tamper(path: string, sql: string): number {
  const db = new Database(path, { timeout: 5_000 });
  try {
    return db.prepare(sql).run().changes;
  } finally {
    db.close();
  }
}
