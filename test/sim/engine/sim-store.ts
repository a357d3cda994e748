import Database from 'better-sqlite3';
import { migrate } from '../../../src/providers/sqlite/migrations/migrate.ts';
import { createProvider } from '../../../src/providers/sqlite/create-provider.ts';
import type { Clock } from '../../../src/model/clock.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { ReusedDatabase } from './reused-database.ts';

let template: Buffer | undefined;
let reused: ReusedDatabase | undefined;

/** The table of the application, for writes in transactions. */
const applicationTable = 'CREATE TABLE app_writes (key TEXT NOT NULL, value TEXT NOT NULL)';

/** A migrated database in memory, copied from a template: to migrate takes longer than most seeds. */
function openDatabase(): Database.Database {
  if (template === undefined) {
    const empty = new Database(':memory:');
    migrate(empty, Date.UTC(2030, 0, 1));
    empty.exec(applicationTable);
    template = empty.serialize();
    empty.close();
  }
  return new Database(template);
}

export interface SimStore {
  readonly provider: Provider;
  readonly db: Database.Database;
}

interface SimStoreOptions {
  readonly clock: Clock;
  /** Opens a database of its own, with the schema of a new store. Otherwise the one of earlier seeds is emptied. */
  readonly isNew: boolean;
}

/** Opens an empty store on a simulated clock. */
export async function openSimStore({ clock, isNew }: SimStoreOptions): Promise<SimStore> {
  const db = isNew ? openDatabase() : (reused ??= new ReusedDatabase(openDatabase())).open();
  const provider = await createProvider({
    db,
    clock,
    pollMs: 1_000_000,
    busyTimeoutMs: 1_000,
    name: 'simulated',
  });
  return { provider, db };
}
