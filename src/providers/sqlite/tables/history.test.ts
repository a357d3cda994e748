import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { BulkInsert } from './history.ts';

const hostile = [
  'plain',
  `it's "quoted" \\ ?1 :a`,
  'a\0b',
  '\u{1f600}',
  'half \ud83d',
  '',
  '{"a":1}',
];

function insert(rows: readonly (readonly [number, string | null])[]) {
  let statements = 0;
  const db = new Database(':memory:', { verbose: () => void (statements += 1) });
  try {
    db.exec('CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT) STRICT');
    const bulk = new BulkInsert<readonly [number, string | null]>(
      db,
      'INSERT INTO texts (id, text)',
      2,
    );
    const before = statements;
    bulk.run(rows);
    const inserts = statements - before;
    return { inserts, stored: db.prepare('SELECT id, text FROM texts').raw().all() };
  } finally {
    db.close();
  }
}

describe('BulkInsert', () => {
  it.each([0, 1, 19, 20, 21, 499, 500, 501, 1_234])('inserts %d rows, each once', (count) => {
    const rows = Array.from(
      { length: count },
      (_, index) => [index, index % 3 === 0 ? null : `${index}`] as const,
    );
    const { inserts, stored } = insert(rows);
    expect(stored).toEqual(rows);
    expect(inserts).toBeLessThan(count / 500 + 45);
  });

  it('stores the same text as single-row statements', () => {
    const rows = Array.from(
      { length: 700 },
      (_, index) => [index, hostile[index % hostile.length] ?? null] as const,
    );
    const singly = rows.map((row) => insert([row]).stored[0]);
    expect(insert(rows).stored).toEqual(singly);
  });
});
