import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Perdure, silentLogger, task } from '../../src/index.ts';
import { hostProcesses } from '../../src/runtime/leases/host-processes.ts';
import { createDatabase } from '../postgres/helpers/server.ts';

const program = new URL('./programs/registered-worker-program.ts', import.meta.url);
const host = hostProcesses();
const logger = silentLogger;
const wait = { timeout: 20_000, interval: 20 };

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
  const folder = await mkdtemp(join(tmpdir(), 'perdure-registry-'));
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}

async function startProcess(store: string, heartbeatMs: number, offsetMs = 0) {
  const child = fork(program, [store, String(heartbeatMs), String(offsetMs)]);
  cleanups.push(() => kill(child));
  await once(child, 'message');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

describe.each(['SQLite', 'PostgreSQL'] as const)('registry of worker processes (%s)', (kind) => {
  async function open(store: string): Promise<Perdure> {
    const perdure = await Perdure.open(store, { logger });
    cleanups.push(() => perdure.close());
    return perdure;
  }

  const statusOf = async (perdure: Perdure): Promise<string | undefined> =>
    (await perdure.client.workers()).find(({ name }) => name === 'remote')?.status;

  it('a worker whose process was killed is listed as stale after three heartbeats', async () => {
    const store = await newStore(kind);
    const perdure = await open(store);
    const child = await startProcess(store, 300);
    await vi.waitFor(async () => expect(await statusOf(perdure)).toBe('live'), wait);
    await kill(child);
    await vi.waitFor(async () => expect(await statusOf(perdure)).toBe('stale'), wait);
    const [worker] = await perdure.client.workers();
    expect(worker).toMatchObject({ pid: child.pid, tasks: ['mail'] });
    expect(worker?.ageMs).toBeGreaterThan(900);
    expect(worker?.diedAt).toBeUndefined();
  }, 60_000);

  it('a worker whose process stops is removed', async () => {
    const store = await newStore(kind);
    const perdure = await open(store);
    const child = await startProcess(store, 10_000);
    await vi.waitFor(async () => expect(await statusOf(perdure)).toBe('live'), wait);
    const exited = once(child, 'exit');
    child.disconnect();
    await exited;
    expect(await perdure.client.workers()).toEqual([]);
  }, 60_000);

  it.skipIf(host === undefined)(
    'a worker on the same host detects a killed process before it misses a heartbeat',
    async () => {
      const store = await newStore(kind);
      const perdure = await open(store);
      await perdure.startWorker({ name: 'survivor', tasks: [task('other', async () => 1)] });
      const child = await startProcess(store, 10_000);
      await vi.waitFor(async () => expect(await statusOf(perdure)).toBe('live'), wait);
      await kill(child);
      const begun = performance.now();
      await vi.waitFor(async () => expect(await statusOf(perdure)).toBe('stale'), wait);
      // Three heartbeats are 30 s. A new process is found with the next heartbeat at the latest.
      expect(performance.now() - begun).toBeLessThan(15_000);
      const workers = await perdure.client.workers();
      expect(workers.map(({ name, status }) => `${name} ${status}`)).toEqual([
        'survivor live',
        'remote stale',
      ]);
      expect(workers[1]?.diedAt).toBeDefined();
    },
    60_000,
  );
});

it.each([3_600_000, -3_600_000])(
  'a worker whose clock is off by %i ms is live while it runs and stale after it was killed',
  async (offsetMs) => {
    const store = await newStore('PostgreSQL');
    const perdure = await Perdure.open(store, { logger });
    cleanups.push(() => perdure.close());
    const child = await startProcess(store, 300, offsetMs);
    await vi.waitFor(async () => {
      expect(await perdure.client.workers()).toMatchObject([{ status: 'live' }]);
    }, wait);
    const [worker] = await perdure.client.workers();
    expect(Math.abs((worker?.startedAt ?? 0) - Date.now())).toBeLessThan(60_000);
    await kill(child);
    await vi.waitFor(async () => {
      expect(await perdure.client.workers()).toMatchObject([{ status: 'stale' }]);
    }, wait);
  },
  60_000,
);
