import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Definitions } from './definitions.ts';
import { migrate } from '../migrations/migrate.ts';

let db: Database.Database;
let definitions: Definitions;

beforeEach(() => {
  db = new Database(':memory:');
  migrate(db, 0);
  definitions = new Definitions(db);
});

afterEach(() => {
  db.close();
});

function commit(work: () => void): void {
  db.exec('BEGIN');
  work();
  db.exec('COMMIT');
  definitions.confirm();
}

describe('Definitions', () => {
  it('assigns one key per definition', () => {
    const keys: number[] = [];
    commit(() => {
      keys.push(
        definitions.intern('orchestration', 'a', null),
        definitions.intern('orchestration', 'a', '1'),
        definitions.intern('orchestration', '1a', null),
        definitions.intern('orchestration', '', '1a'),
        definitions.intern('orchestration', '1:a', '1'),
        definitions.intern('orchestration', 'a', '11:'),
        definitions.intern('activity', 'a', null),
      );
    });
    expect(new Set(keys).size).toBe(7);
    expect(definitions.intern('orchestration', 'a', '1')).toBe(keys[1]);
    expect(definitions.get(keys[1]!)).toMatchObject({ name: 'a', version: '1' });
    expect(new Definitions(db).find('orchestration', 'a', '1')).toBe(keys[1]);
    expect(new Definitions(db).get(keys[0]!)).toMatchObject({ name: 'a', version: null });
  });

  it('find() returns undefined for an unknown definition', () => {
    expect(definitions.find('activity', 'a', null)).toBeUndefined();
  });

  it('drops the key of a definition whose transaction was rolled back', () => {
    db.exec('BEGIN');
    const lost = definitions.intern('activity', 'lost', null);
    db.exec('ROLLBACK');
    definitions.dropUnconfirmed();
    commit(() => expect(definitions.intern('activity', 'other', null)).toBe(lost));
    expect(definitions.find('activity', 'lost', null)).toBeUndefined();
    expect(definitions.get(lost)).toMatchObject({ name: 'other', version: null });
  });

  it('drops keys read inside a transaction that was rolled back', () => {
    db.exec('BEGIN');
    const key = definitions.intern('activity', 'lost', null);
    db.exec('SAVEPOINT item');
    db.exec('ROLLBACK TO item');
    definitions.dropUnconfirmed();
    expect(definitions.find('activity', 'lost', null)).toBe(key);
    db.exec('ROLLBACK');
    definitions.dropUnconfirmed();
    expect(definitions.find('activity', 'lost', null)).toBeUndefined();
  });

  it('finds definitions that another connection has added', () => {
    expect(definitions.find('activity', 'late', null)).toBeUndefined();
    const other = new Definitions(db);
    const key = other.intern('activity', 'late', null);
    expect(definitions.find('activity', 'late', null)).toBe(key);
    const newer = other.intern('orchestration', 'later', '2');
    expect(definitions.get(newer)).toMatchObject({ name: 'later', version: '2' });
    const wanted = [
      { name: 'later', version: '1' },
      { name: 'later', version: '2' },
      { name: 'late', version: null },
    ];
    expect(definitions.findAll('orchestration', wanted)).toEqual([newer]);
  });

  it('keysOf() returns all versions of a name', () => {
    commit(() => {
      const first = definitions.intern('orchestration', 'a', '1');
      const second = definitions.intern('orchestration', 'a', '2');
      definitions.intern('orchestration', 'b', '1');
      definitions.intern('activity', 'a', null);
      expect(definitions.keysOf(['orchestration'], ['a'])).toEqual([first, second]);
    });
  });
});
