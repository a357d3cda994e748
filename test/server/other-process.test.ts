import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import { createDatabase } from '../postgres/helpers/server.ts';
import { openEvents, type EventReader } from './helpers/event-reader.ts';
import { serveOn } from './helpers/server-fixture.ts';

interface Change {
  readonly kind: string;
  readonly ids?: readonly string[];
  readonly missed?: boolean;
}

interface Shown {
  readonly status: string;
  readonly customStatus?: { readonly step: number };
  readonly customStatusVersion?: number;
}

async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-changes-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}

async function newDatabase(): Promise<string> {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

/** Opens a server without a worker, and a worker process on the same store. */
async function openBeside(store: string) {
  const perdure = await Perdure.open(store);
  onTestFinished(() => perdure.close());
  const server = await serveOn(perdure);
  const worker = fork(new URL('./helpers/other-worker-program.ts', import.meta.url), [store]);
  onTestFinished(async () => {
    if (worker.connected) worker.disconnect();
    if (worker.exitCode === null) await once(worker, 'exit');
  });
  await once(worker, 'message');
  return server;
}

/** Reads until all ids were sent with the given kind. */
async function readIds(
  events: EventReader,
  kind: string,
  ids: readonly string[],
): Promise<readonly Change[]> {
  const seen: Change[] = [];
  const missing = new Set(ids);
  while (missing.size > 0) {
    const change = (await events.next()) as Change;
    if (change.kind !== 'figures') seen.push(change);
    if (change.kind === kind) for (const id of change.ids ?? []) missing.delete(id);
  }
  return seen;
}

describe.each([
  ['SQLite', newFile],
  ['PostgreSQL', newDatabase],
] as const)('changes by a worker in another process (%s)', (_, newStore) => {
  it('watchChanges sends the ids of all instances that end in another process', async () => {
    const server = await openBeside(await newStore());
    const events = await openEvents(server, 'watchChanges');
    await events.next();
    const ids = Array.from({ length: 50 }, (_each, index) => `h-${index}`);
    for (const id of ids)
      await server.ask('startInstance', { body: { name: 'hello', input: 'x', id } });
    const seen = await readIds(events, 'ended', ids);
    expect(seen.filter(({ missed }) => missed === true)).toEqual([]);
    const ended = seen.flatMap(({ kind, ids: told }) => (kind === 'ended' ? (told ?? []) : []));
    expect(ended.toSorted()).toEqual(ids.toSorted());
  });

  it('watchInstance sends each custom status version by hint, not by polling', async () => {
    const server = await openBeside(await newStore());
    const changes = await openEvents(server, 'watchChanges');
    await server.ask('startInstance', { body: { name: 'progress', input: 30, id: 'p' } });
    const params = { id: 'p' };
    const events = await openEvents(server, 'watchInstance', { params });
    const versions: number[] = [];
    const startedAt = performance.now();
    let finished = false;
    while (!finished) {
      const shown = (await events.next()) as Shown | undefined;
      finished = shown === undefined || shown.status === 'completed';
      const version = shown?.customStatusVersion ?? 0;
      if (version === 0 || version === versions.at(-1)) continue;
      versions.push(version);
      expect(shown?.customStatus).toEqual({ step: version - 1 });
      await server.ask('raiseEvent', { params, body: { name: 'next', payload: version } });
    }
    expect(versions).toEqual(Array.from({ length: 31 }, (_each, index) => index + 1));
    // Polling once a second would take 31 s.
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    const seen = await readIds(changes, 'changed', ['p']);
    expect(seen.filter(({ missed }) => missed === true)).toEqual([]);
  });
});

it('watchChanges sends missed: true when the change log has a gap', async () => {
  const path = await newFile();
  const perdure = await Perdure.open(path);
  onTestFinished(() => perdure.close());
  const server = await serveOn(perdure);
  const events = await openEvents(server, 'watchChanges');
  await events.next();
  const db = new Database(path);
  onTestFinished(() => void db.close());
  const insert = db.prepare(`INSERT INTO changes (origin, at, finished) VALUES (1, 0, '["a"]')`);
  db.transaction(() => {
    for (let n = 0; n < 10; n += 1) insert.run();
    db.exec('DELETE FROM changes WHERE change_key < 9');
  })();
  const seen: Change[] = [];
  while (!seen.some(({ missed }) => missed === true)) seen.push((await events.next()) as Change);
  expect(seen).toContainEqual({ kind: 'ended', ids: [], missed: true });
});
