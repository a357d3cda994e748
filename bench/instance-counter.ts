import Database from 'better-sqlite3';
import pg from 'pg';
import { providerOf } from './store-kind.ts';

/** Counts the instances of a store on a separate connection, as another reader sees them. */
export interface InstanceCounter {
  count(): Promise<number>;
  close(): Promise<void>;
}

export async function openInstanceCounter(store: string): Promise<InstanceCounter> {
  return providerOf(store) === 'sqlite' ? onFile(store) : await onServer(store);
}

function onFile(store: string): InstanceCounter {
  const db = new Database(store, { readonly: true });
  const count = db.prepare<[], number>('SELECT count(*) FROM instances').pluck();
  return {
    count: () => Promise.resolve(count.get() ?? Number.NaN),
    close() {
      db.close();
      return Promise.resolve();
    },
  };
}

async function onServer(store: string): Promise<InstanceCounter> {
  const client = new pg.Client({ connectionString: store });
  await client.connect();
  return {
    async count() {
      const { rows } = await client.query<{ readonly count: string }>(
        'SELECT count(*) FROM perdure.instances',
      );
      return Number(rows[0]?.count);
    },
    close: () => client.end(),
  };
}
