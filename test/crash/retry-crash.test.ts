import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { activity, orchestration, Perdure } from '../../src/index.ts';
import { createDatabase } from '../postgres/helpers/server.ts';

const program = new URL('./programs/held-work-program.ts', import.meta.url);

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function newStore(kind: 'SQLite' | 'PostgreSQL'): Promise<string> {
  if (kind === 'PostgreSQL') {
    const database = await createDatabase();
    cleanups.push(() => database.drop());
    return database.url;
  }
  const folder = await mkdtemp(join(tmpdir(), 'perdure-retry-crash-'));
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Starts a worker process and kills it while it runs the activity. */
async function crashWorker(store: string): Promise<void> {
  const child = fork(program, [store]);
  cleanups.push(() => kill(child));
  await once(child, 'message');
  await kill(child);
}

const holds = activity('holds', async (_ctx, label: string) => label);
const waits = orchestration('waits', (ctx, label: string) => ctx.call(holds, label));

describe.each(['SQLite', 'PostgreSQL'] as const)('retries and killed workers (%s)', (kind) => {
  it('a retried instance completes once after the workers of both executions were killed', async () => {
    const store = await newStore(kind);
    const perdure = await Perdure.open(store);
    cleanups.push(() => perdure.close());
    const { client } = perdure;
    const handle = await client.start(waits, 'a', { id: 'a' });
    await crashWorker(store);
    await handle.terminate({ reason: 'worker is gone' });
    const retried = await handle.retry({ from: 'failure' });
    expect(retried).toEqual({ id: 'a', executionId: 2, keptEvents: 2 });
    await crashWorker(store);
    await perdure.startWorker({ orchestrations: [waits], activities: [holds] });
    expect(await handle.result({ timeout: '45s' })).toBe('a');
    expect((await client.listExecutions('a')).items).toMatchObject([
      { executionId: 1, status: 'terminated' },
      { executionId: 2, status: 'completed' },
    ]);
    const { items } = await client.history('a', { executionId: 2 });
    expect(items.map(({ event }) => event.kind)).toEqual([
      'executionStarted',
      'activityScheduled',
      'activityCompleted',
      'executionCompleted',
    ]);
  }, 90_000);
});
