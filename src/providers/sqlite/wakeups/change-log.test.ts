import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { Effects } from '../../shared/effects.ts';
import { ChangeLog } from './change-log.ts';
import { migrate } from '../migrations/migrate.ts';

/** The logs of two processes on one file. */
async function openLogs() {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-changes-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const open = () => {
    const db = new Database(join(folder, 'store.db'));
    onTestFinished(() => void db.close());
    return db;
  };
  const db = open();
  db.pragma('journal_mode = WAL');
  migrate(db, 0);
  const count = (): unknown => db.prepare('SELECT count(*) FROM changes').pluck().get();
  return { here: new ChangeLog(db), there: new ChangeLog(open()), db, count };
}

function ended(...ids: readonly string[]): Effects {
  const effects = new Effects();
  effects.finished.push(...ids);
  return effects;
}

function writeMany(log: ChangeLog, count: number): void {
  for (let n = 0; n < count; n += 1) {
    log.write(ended(`i-${n}`), 0);
    log.confirm();
  }
}

it('read() returns the commits of other processes since the last read', async () => {
  const { here, there } = await openLogs();
  there.write(ended('before'), 0);
  here.skip();
  here.write(ended('own'), 0);
  const effects = ended('a', 'b');
  effects.statusSet.add('c');
  there.write(effects, 0);
  there.write(ended('d'), 0);
  there.write(new Effects(), 0);
  expect(here.read()).toEqual({ finished: ['a', 'b', 'd'], statusSet: ['c'], missed: false });
  expect(here.read()).toEqual({ finished: [], statusSet: [], missed: false });
});

it('keeps the newest rows, and reports missed ones', async () => {
  const { here, there, count } = await openLogs();
  here.skip();
  writeMany(there, 1_600);
  const { finished, missed } = here.read();
  expect(missed).toBe(true);
  expect(finished.at(-1)).toBe('i-1599');
  expect(count()).toBeLessThanOrEqual(1_280);
  there.write(ended('next'), 0);
  expect(here.read()).toEqual({ finished: ['next'], statusSet: [], missed: false });
});

it('reports nothing missed when only own rows were pruned', async () => {
  const { here, there } = await openLogs();
  here.skip();
  writeMany(here, 1_600);
  there.write(ended('a'), 0);
  expect(here.read()).toEqual({ finished: ['a'], statusSet: [], missed: false });
});

it('reports nothing missed after a rollback of its own transaction', async () => {
  const { here, there, db } = await openLogs();
  here.skip();
  db.exec('BEGIN');
  here.write(ended('lost'), 0);
  db.exec('ROLLBACK');
  there.write(ended('a'), 0);
  // A later commit without changes to report.
  here.write(new Effects(), 0);
  here.confirm();
  expect(here.read()).toEqual({ finished: ['a'], statusSet: [], missed: false });
});

it('reports missed changes for a commit with too many ids', async () => {
  const { here, there } = await openLogs();
  here.skip();
  there.write(ended(...Array.from({ length: 1_001 }, (_, n) => `i-${n}`)), 0);
  expect(here.read()).toEqual({ finished: [], statusSet: [], missed: true });
});

it('purges ids after 10 s, and a later reader reports missed changes', async () => {
  const { here, there, db } = await openLogs();
  here.skip();
  there.write(ended('a'), 1_000);
  there.write(ended('b'), 1_001);
  expect(there.hasExpired(10_999)).toBe(false);
  expect(there.hasExpired(11_000)).toBe(true);
  there.purge(11_001);
  const rows = db.prepare('SELECT change_key, finished FROM changes').all();
  expect(rows).toEqual([{ change_key: 2, finished: null }]);
  expect(there.hasExpired(99_999)).toBe(false);
  expect(here.read()).toEqual({ finished: [], statusSet: [], missed: true });
  there.write(ended('c'), 20_000);
  expect(there.hasExpired(30_000)).toBe(true);
  expect(here.read()).toEqual({ finished: ['c'], statusSet: [], missed: false });
});
