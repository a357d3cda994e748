import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { StoreProcess } from './helpers/store-process.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

/** Runs a process that starts an instance, and kills it with SIGKILL. */
async function killWith(path: string): Promise<void> {
  const started = new StoreProcess(path, 'killed');
  onTestFinished(() => started.kill());
  await started.waitFor('ready');
  const created = started.waitFor('created');
  started.send({ kind: 'create', instanceId: 'created' });
  await created;
  started.kill();
  await started.exited;
}

/** Writes many rows, so that opening the store reads few of its pages, and closes the file. */
async function fill(path: string): Promise<void> {
  await (await openSqlite({ path })).close();
  const db = new Database(path);
  db.exec(`INSERT INTO definitions (kind, name, version)
    SELECT 'activity', hex(randomblob(200)), value FROM json_each('[${[...Array(2_000).keys()].join()}]')`);
  db.close();
}

function damage(path: string): void {
  const bytes = readFileSync(path);
  bytes.fill(0xff, bytes.length / 2, bytes.length / 2 + 8_192);
  writeFileSync(path, bytes);
}

it('a store whose process was killed opens with its data', async () => {
  const { path, open } = temporaryStore();
  await fill(path);
  await killWith(path);
  const provider = await open();
  expect(await provider.getInstances(['created'])).toMatchObject([{ instanceId: 'created' }]);
});

it('a damaged store whose process was killed is rejected by each process that opens it', async () => {
  const { path } = temporaryStore();
  await fill(path);
  await killWith(path);
  damage(path);
  const openings = await Promise.allSettled(Array.from({ length: 3 }, () => openSqlite({ path })));
  expect(openings.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  await expect(openSqlite({ path })).rejects.toMatchObject({ code: 'STORE_DAMAGED' });
});
