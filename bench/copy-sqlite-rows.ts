import Database from 'better-sqlite3';
import type { RowCopies } from './finished-instances.ts';

/** Replaces the instances of a file with copies. */
export function copySqliteRows(store: string, { realCount, copies, earlier }: RowCopies): void {
  const db = new Database(store);
  db.function('earlier', { deterministic: true }, (id, copy) => earlier(String(id), Number(copy)));
  const copyInstances = copyStatement(db, 'instances', {
    instance_key: 'instance_key + :offset',
    instance_id: 'earlier(instance_id, :copy)',
  });
  const copyHistory = copyStatement(db, 'history', { instance_key: 'instance_key + :offset' });
  db.transaction(() => {
    for (let copy = 1; copy <= copies; copy++) {
      copyInstances.run({ offset: copy * realCount, copy, realCount });
      copyHistory.run({ offset: copy * realCount, realCount });
    }
    db.exec(`DELETE FROM instances WHERE instance_key <= ${realCount};
             DELETE FROM history WHERE instance_key <= ${realCount};`);
  })();
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
}

/** A statement that copies the rows of a table, with some columns changed. */
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
