import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Perdure, type Handle } from '../../src/index.ts';
import { next, type BuildName, type Round } from './helpers/meter-builds.ts';
import { createDatabase } from './helpers/server.ts';

/** A worker process of one build. */
interface RunningBuild {
  readonly alarms: readonly string[];
  /** Stops the process gracefully and returns its exit code. */
  stop(): Promise<number | null>;
}

async function startBuild(store: string, build: BuildName): Promise<RunningBuild> {
  const child = fork(join(import.meta.dirname, 'helpers', 'build-program.ts'), [store, build], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const alarms: string[] = [];
  child.on('message', ({ alarm }: { readonly alarm?: string }) => {
    if (alarm !== undefined) alarms.push(alarm);
  });
  const stop = async (): Promise<number | null> => {
    if (child.connected) child.disconnect();
    return (await exited)[0];
  };
  onTestFinished(async () => void (await stop()));
  await once(child, 'message');
  return { alarms, stop };
}

/** A client without a worker, on a new database. */
async function openClient(): Promise<{ readonly store: string; readonly perdure: Perdure }> {
  const database = await createDatabase();
  const perdure = await Perdure.open(database.url);
  onTestFinished(async () => {
    await perdure.close();
    await database.drop();
  });
  return { store: database.url, perdure };
}

type Meter = Handle<readonly Round[]>;

async function startMeters(
  { client }: Perdure,
  prefix: string,
  version?: string,
): Promise<readonly Meter[]> {
  const ids = Array.from({ length: 15 }, (_, n) => `${prefix} ${n}`);
  const options = version === undefined ? {} : { version };
  const handles = ids.map((id) => client.start('meter', [], { id, ...options }));
  return (await Promise.all(handles)) as readonly Meter[];
}

async function raiseNext(meters: readonly Meter[], isLast: boolean): Promise<void> {
  await Promise.all(meters.map((meter) => meter.raiseEvent(next, { isLast })));
}

/** Advances every instance by one execution and waits until the next one has started. */
async function advanceExecution(meters: readonly Meter[]): Promise<void> {
  const before = await Promise.all(meters.map((meter) => meter.status()));
  await raiseNext(meters, false);
  await vi.waitFor(
    async () => {
      const now = await Promise.all(meters.map((meter) => meter.status()));
      expect(now.map(({ executionId, customStatus }) => ({ executionId, customStatus }))).toEqual(
        before.map(({ executionId: past }) => ({ executionId: past + 1, customStatus: past })),
      );
    },
    { timeout: 30_000, interval: 20 },
  );
}

async function resultsOf(meters: readonly Meter[]): Promise<readonly (readonly Round[])[]> {
  return await Promise.all(meters.map((meter) => meter.result({ timeout: '30s' })));
}

it('old and new builds run side by side without failed or blocked instances', async () => {
  const { store, perdure } = await openClient();
  const oldBuild = await startBuild(store, 'old');
  const early = await startMeters(perdure, 'early');
  await advanceExecution(early);

  const newBuild = await startBuild(store, 'new');
  const late = [
    ...(await startMeters(perdure, 'any version')),
    ...(await startMeters(perdure, 'version 1', '1')),
    ...(await startMeters(perdure, 'version 2', '2')),
  ];
  const meters = [...early, ...late];
  for (let round = 0; round < 3; round++) await advanceExecution(meters);

  expect(await oldBuild.stop()).toBe(0);
  await advanceExecution(meters);
  await raiseNext(meters, true);
  const results = await resultsOf(meters);
  expect(await newBuild.stop()).toBe(0);

  expect([...oldBuild.alarms, ...newBuild.alarms]).toEqual([]);
  expect(results.map((rounds) => rounds.length)).toEqual([
    ...early.map(() => 6),
    ...late.map(() => 5),
  ]);
  const versions = results.map((rounds) => rounds.map(({ version }) => version).join(''));
  // Each instance upgrades once, never downgrades, and ends on the new version.
  for (const moves of versions) expect(moves).toMatch(/^1*2+$/);
  expect(versions.slice(0, early.length).every((moves) => moves.startsWith('1'))).toBe(true);
  expect(versions.slice(-15)).toEqual(Array.from({ length: 15 }, () => '22222'));
  // Both builds ran activities while both were up.
  const shared = results.slice(early.length).flatMap((rounds) => rounds.slice(0, 3));
  expect(new Set(shared.map(({ readBy }) => readBy))).toEqual(new Set(['old', 'new']));
  const { items } = await perdure.client.list({ name: 'meter' }, { limit: 100 });
  expect(items.map(({ status }) => status)).toEqual(meters.map(() => 'completed'));
});

it('a version changed in place blocks its instances until the old build completes them', async () => {
  const { store, perdure } = await openClient();
  const before = await startBuild(store, 'old');
  const meters = await startMeters(perdure, 'early');
  await advanceExecution(meters);
  await before.stop();

  const careless = await startBuild(store, 'careless');
  await raiseNext(meters, true);
  await vi.waitFor(
    async () => {
      const now = await Promise.all(meters.map((meter) => meter.status()));
      expect(now.every(({ blocked }) => blocked !== undefined)).toBe(true);
    },
    { timeout: 30_000, interval: 20 },
  );
  const again = await startBuild(store, 'old');
  const results = await resultsOf(meters);

  await careless.stop();
  const unnoticed = meters.filter(
    ({ id }) => !careless.alarms.some((alarm) => alarm.startsWith(`${id}:`)),
  );
  expect(unnoticed).toEqual([]);
  expect(again.alarms).toEqual([]);
  expect(results.map((rounds) => rounds.map(({ version }) => version))).toEqual(
    meters.map(() => ['1', '1']),
  );
});
