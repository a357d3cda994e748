import { readFileSync } from 'node:fs';
import pg from 'pg';

/** The length of a tick of `/proc/<pid>/stat`. */
export const msPerTick = 10;

/** The CPU time of the server processes of a database, in ticks; undefined on SQLite. */
export async function readServerTicks(store: string): Promise<number | undefined> {
  if (!store.startsWith('postgres')) return undefined;
  const client = new pg.Client({ connectionString: store });
  await client.connect();
  try {
    const { rows } = await client.query<{ readonly pid: number }>(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    return rows.reduce((sum, { pid }) => sum + (readTicks(pid) || 0), 0);
  } finally {
    await client.end();
  }
}

/** The CPU time of a process of this machine, in ticks; NaN if it cannot be read. */
export function readTicks(pid: number): number {
  try {
    // The program name is in parentheses and may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return Number.NaN;
  }
}
