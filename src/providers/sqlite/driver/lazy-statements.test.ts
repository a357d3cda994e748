import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { prepareOnUse } from './lazy-statements.ts';

it('prepares a statement once, at its first use', () => {
  const db = new Database(':memory:');
  const prepared: string[] = [];
  const prepare = db.prepare.bind(db);
  db.prepare = (sql: string) => {
    prepared.push(sql);
    return prepare(sql);
  };
  prepareOnUse(db);

  const insert = db.prepare<[number]>('INSERT INTO numbers VALUES (?)');
  const plucked = db.prepare<[], number>('SELECT value FROM numbers ORDER BY value').pluck();
  const raw = db.prepare<[], number>('SELECT value FROM numbers ORDER BY value').raw();
  const rows = db.prepare<[], number>('SELECT value FROM numbers ORDER BY value');
  expect(prepared).toEqual([]);

  db.exec('CREATE TABLE numbers (value INTEGER)');
  expect(insert.run(1)).toMatchObject({ changes: 1 });
  insert.run(2);
  expect(prepared).toEqual(['INSERT INTO numbers VALUES (?)']);
  expect(plucked.all()).toEqual([1, 2]);
  expect(plucked.get()).toBe(1);
  expect(raw.all()).toEqual([[1], [2]]);
  expect([...rows.iterate()]).toEqual([{ value: 1 }, { value: 2 }]);
  expect(prepared).toHaveLength(4);
  db.close();
});

it('reports a statement that cannot be prepared at its first use', () => {
  const db = new Database(':memory:');
  prepareOnUse(db);
  const select = db.prepare('SELECT * FROM missing');
  expect(() => select.all()).toThrow('no such table: missing');
  db.close();
});
