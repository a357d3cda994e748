import Database from 'better-sqlite3';
import { Perdure, type Client } from 'perdure';
import { runInLanes } from './benchmark.ts';
import { definitions, hello } from './definitions.ts';

const realCount = 1_000;

/** Runs one instance to its end. */
type RunOne = (client: Client) => Promise<unknown>;

const runHello: RunOne = async (client) => (await client.start(hello, 'World')).result();

/**
 * Makes a file that looks as if so many instances (by default hellos) had run to their end in it: a thousand really
 * do, and their rows are copied under new keys and ids that follow one another in time, as generated ids do.
 */
export async function createFinishedInstances(
  store: string,
  count: number,
  runOne = runHello,
): Promise<void> {
  await runForReal(store, runOne);
  const db = new Database(store);
  // Ids begin with their time: the copies lie in the past, in the order of their keys.
  db.function('earlier', { deterministic: true }, (id, copy) => {
    const text = String(id);
    const dash = text.indexOf('-');
    const copiedAt =
      parseInt(text.slice(0, dash), 36) - (count / realCount - Number(copy) + 1) * 1_000;
    return `${copiedAt.toString(36).padStart(9, '0')}${text.slice(dash)}`;
  });
  const copyInstances = copyStatement(db, 'instances', {
    instance_key: 'instance_key + :offset',
    instance_id: 'earlier(instance_id, :copy)',
  });
  const copyHistory = copyStatement(db, 'history', { instance_key: 'instance_key + :offset' });
  db.transaction(() => {
    for (let copy = 1; copy <= count / realCount; copy++) {
      copyInstances.run({ offset: copy * realCount, copy, realCount });
      copyHistory.run({ offset: copy * realCount, realCount });
    }
    db.exec(`DELETE FROM instances WHERE instance_key <= ${realCount};
             DELETE FROM history WHERE instance_key <= ${realCount};`);
  })();
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
}

async function runForReal(store: string, runOne: RunOne): Promise<void> {
  await using perdure = await Perdure.open(store, { synchronous: 'normal' });
  await perdure.startWorker(definitions);
  await runInLanes(realCount, 64, async () => {
    await runOne(perdure.client);
  });
}

/** A statement that copies the real rows of a table, with some columns changed. */
function copyStatement(
  db: Database.Database,
  table: string,
  changed: Readonly<Record<string, string>>,
): Database.Statement<[Readonly<Record<string, number>>]> {
  const columns = db
    .prepare<[], string>(`SELECT name FROM pragma_table_info('${table}')`)
    .pluck()
    .all();
  const values = columns.map((column) => changed[column] ?? column);
  return db.prepare(
    `INSERT INTO ${table} (${columns.join()}) SELECT ${values.join()} FROM ${table}
     WHERE instance_key <= :realCount`,
  );
}
