import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Perdure, type BulkProgress } from '../../src/index.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { waits } from './programs/bulk-orchestrations.ts';

async function createStore(kind: 'SQLite' | 'PostgreSQL'): Promise<string> {
  if (kind === 'PostgreSQL') {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    return database.url;
  }
  const folder = await mkdtemp(join(tmpdir(), 'perdure-bulk-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'bulk.db');
}

function run(path: string, role: 'bulk' | 'worker'): ChildProcess {
  const options = JSON.stringify({ path, role });
  const program = fork(new URL('./programs/bulk-program.ts', import.meta.url), [options]);
  onTestFinished(async () => {
    if (program.exitCode !== null || program.signalCode !== null) return;
    const exited = once(program, 'exit');
    program.kill('SIGKILL');
    await exited;
  });
  return program;
}

async function kill(program: ChildProcess): Promise<void> {
  const exited = once(program, 'exit');
  program.kill('SIGKILL');
  await exited;
}

test.each([
  ['SQLite', 10_000],
  ['PostgreSQL', 4_000],
] as const)(
  'instances are canceled by filter although the worker and the bulk client are killed (%s, %d instances)',
  async (kind, count) => {
    const path = await createStore(kind);
    const perdure = await Perdure.open(path);
    onTestFinished(() => perdure.close());
    const { client } = perdure;
    for (let from = 0; from < count; from += 1_000) {
      const ids = Array.from({ length: 1_000 }, (_, index) => `i${from + index}`);
      await Promise.all(ids.map((id) => client.start(waits, undefined, { id })));
    }

    // The worker starts instances meanwhile, and is killed with claims.
    const worker = run(path, 'worker');
    await once(worker, 'message');
    const bulk = run(path, 'bulk');
    let last: BulkProgress | undefined;
    for (let parts = 0; parts < 2; parts += 1) {
      [last] = (await once(bulk, 'message')) as [BulkProgress];
    }
    await kill(bulk);
    await kill(worker);
    const cursor = last?.cursor;
    expect(cursor).toBeDefined();
    expect(last?.changed).toBeLessThan(count);

    await client.start(waits, undefined, { id: 'late' });
    await perdure.startWorker({ orchestrations: [waits] });
    const result = await client.bulk.cancel({ name: 'waits' }, { actor: 'ann', cursor });
    expect(result).toMatchObject({ changed: count, refused: [], done: true });
    const { items } = await client.listAudit();
    expect(items).toMatchObject([{ action: 'cancelBulk', actor: 'ann', instances: count }]);
    await expect
      .poll(async () => (await client.systemMetrics()).instances.canceled, {
        timeout: 120_000,
        interval: 200,
      })
      .toBe(count);
    expect((await client.get('late'))?.cancel).toBeUndefined();
  },
  240_000,
);
