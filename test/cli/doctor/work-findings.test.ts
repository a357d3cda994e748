import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { event, orchestration, Perdure, silentLogger } from 'perdure';
import { serve } from 'perdure/server';
import { LocalClient } from '../../../src/client/local-client.ts';
import { findProblems, readForDoctor } from '../../../src/cli/doctor/examine.ts';
import { defaultLimits, type DoctorLimits, type Finding } from '../../../src/cli/doctor/finding.ts';
import type { LimitOverride } from '../../../src/providers/contract/limits.ts';
import { openPostgres } from '../../../src/providers/postgres/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { newWorker } from '../../../src/testing/conformance/sample-data.ts';
import { StoreUnderTest } from '../../../src/testing/conformance/store-under-test.ts';
import { createTask, startTask } from '../../../src/testing/conformance/task-helpers.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { createDatabase } from '../../postgres/helpers/server.ts';
import { runCli } from '../helpers/run-cli.ts';
import { parseJson } from './parse-json.ts';
import { runRemedy } from './run-remedy.ts';

const kinds = ['SQLite', 'PostgreSQL'] as const;
type Kind = (typeof kinds)[number];

/** Creates the place of a store. Returns its path or URL. */
async function place(kind: Kind): Promise<string> {
  if (kind === 'PostgreSQL') {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    return database.url;
  }
  const folder = mkdtempSync(join(tmpdir(), 'perdure-doctor-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'app.db');
}

describe.each(kinds)('doctor over the work in a %s store', (kind) => {
  async function open() {
    const store = await place(kind);
    const clock = new FakeClock();
    const provider =
      kind === 'SQLite'
        ? await openSqlite({ path: store, clock })
        : await openPostgres({ url: store, clock, poolSize: 4 });
    const client = new LocalClient({ provider, clock });
    onTestFinished(async () => {
      await client.close();
      await provider.close();
    });
    const under = new StoreUnderTest({ provider, clock, corrupt: undefined, reopen: undefined });
    const selector = kind === 'SQLite' ? `--store ${store}` : '--store "$PERDURE_STORE"';
    const examine = async (
      limits: Partial<DoctorLimits> = {},
      now: () => number = () => clock.now(),
    ): Promise<readonly Finding[]> =>
      findProblems({
        nodeVersion: 'v24.0.0',
        selector,
        storeSelector: selector,
        reads: await readForDoctor(client, now),
        limits: { ...defaultLimits, ...limits },
      });
    return { store, clock, provider, client, under, examine };
  }

  const ids = (findings: readonly Finding[]) => findings.map(({ id, level }) => `${level} ${id}`);

  it('finds nothing in an empty store', async () => {
    const { examine } = await open();
    expect(await examine()).toEqual([]);
  });

  it('no-workers, unclaimed-work and stale-workers go away when a worker has the definition', async () => {
    const { examine, under, clock, provider } = await open();
    const lost = { heartbeatMs: 1_000, name: 'w1', tasks: ['fax'] };
    await provider.registerWorkers([newWorker('lost', lost)]);
    await createTask(under, 'f1', { name: 'fax' });
    await clock.advance('1m');
    const findings = await examine();
    expect(ids(findings)).toEqual([
      'problem no-workers',
      'problem unclaimed-work',
      'warning stale-workers',
    ]);
    expect(findings[1]?.sentence).toContain('task "fax"');
    // As `perdure worker` does.
    const worker = newWorker('live', { heartbeatMs: 86_400_000, tasks: ['fax'] });
    await provider.registerWorkers([worker]);
    await startTaskOf(under, 'fax');
    expect(await examine()).toEqual([]);
  });

  it('stale-workers: a later worker replaces one lost worker, if it has its definitions', async () => {
    const { examine, clock, provider } = await open();
    const parts = { heartbeatMs: 1_000, activities: ['a'], tasks: ['t'] };
    const orchestrations = [{ name: 'o', version: '1' }];
    const live = { ...parts, orchestrations, heartbeatMs: 86_400_000 };
    await provider.registerWorkers([newWorker('earlier', live)]);
    await clock.advance('1s');
    await provider.registerWorkers([newWorker('lost', { ...parts, orchestrations })]);
    await clock.advance('1m');
    expect(ids(await examine())).toEqual(['warning stale-workers']);
    for (const other of [
      { tasks: [] },
      { activities: [] },
      { orchestrations: [{ name: 'o', version: '2' }] },
    ]) {
      await provider.registerWorkers([newWorker('other', { ...live, ...other })]);
      expect(ids(await examine())).toEqual(['warning stale-workers']);
    }
    await provider.registerWorkers([newWorker('later', live)]);
    expect(await examine()).toEqual([]);
    await provider.registerWorkers([newWorker('lost too', parts)]);
    await clock.advance('1m');
    const findings = await examine();
    expect(findings.map(({ sentence }) => sentence)).toEqual([
      expect.stringMatching(/^1 worker did not stop .*: lost too on host/),
    ]);
    await clock.advance('1h');
    expect(await examine()).toEqual([]);
  });

  it('leaked-handlers, queue-age and late-schedules go away with another worker', async () => {
    const { examine, under, clock, provider, client } = await open();
    const busy = { heartbeatMs: 86_400_000, tasks: ['resize'] };
    await provider.registerWorkers([newWorker('busy', { ...busy, name: 'w2', leaked: 2 })]);
    await createTask(under, 'r1', { name: 'resize' });
    await client.schedules.put('nightly', { every: '10m', task: 'resize' });
    await clock.advance('12m');
    const findings = await examine();
    expect(ids(findings)).toEqual([
      'warning leaked-handlers',
      'warning queue-age',
      'warning late-schedules',
    ]);
    expect(findings[0]?.sentence).toContain('2 on w2');
    await provider.unregisterWorkers(['busy']);
    await provider.registerWorkers([newWorker('new', busy)]);
    await startTaskOf(under, 'resize');
    await client.schedules.pause('nightly');
    expect(await examine()).toEqual([]);
  });

  it('held-by-limits instead of queue-age while the places of a definition are in use', async () => {
    const { examine, under, clock, provider, client, store } = await open();
    await provider.registerWorkers([
      newWorker('live', { heartbeatMs: 86_400_000, tasks: ['fax'] }),
    ]);
    await provider.setLimits({ kind: 'task', name: 'fax', override: { global: 1 } });
    await createTask(under, 'f1', { name: 'fax' });
    await createTask(under, 'f2', { name: 'fax' });
    await under.claimWork({ tasks: ['fax'], lockMs: 3_600_000 });
    await clock.advance('2m');
    const findings = await examine();
    expect(ids(findings)).toEqual(['note held-by-limits']);
    expect(findings[0]?.sentence).toContain('task "fax" (1 at a time; ');
    await provider.setLimits({ kind: 'task', name: 'fax', override: { global: null } });
    expect(ids(await examine())).toEqual(['warning queue-age']);
    const rate = { limit: 1, perMs: 3_600_000, burst: 2, perKey: true };
    const override = { global: 1, perKey: 1, rate };
    await provider.setLimits({ kind: 'task', name: 'fax', override });
    await runRemedy((await examine())[0]!, store);
    expect((await client.limits.list()).items).toMatchObject([
      { effective: { global: 2, perKey: 2, rate: { ...rate, limit: 2 } } },
    ]);
    await startTaskOf(under, 'fax');
    expect(await examine()).toEqual([]);
  });

  it('queue-age, not held-by-limits, while a limited definition has free places', async () => {
    const { examine, under, clock, provider } = await open();
    await provider.registerWorkers([
      newWorker('live', { heartbeatMs: 86_400_000, tasks: ['fax'] }),
    ]);
    const set = (override: LimitOverride) =>
      provider.setLimits({ kind: 'task', name: 'fax', override });
    await set({ global: 100 });
    const lane = { key: 'acme', weight: 1 };
    for (const id of ['f1', 'f2', 'f3']) await createTask(under, id, { name: 'fax', lane });
    await clock.advance('2m');
    expect(ids(await examine())).toEqual(['warning queue-age']);
    // One run of the key takes its only place.
    await set({ global: 100, perKey: 1 });
    await under.claimWork({ tasks: ['fax'], lockMs: 3_600_000 });
    expect(ids(await examine())).toEqual(['note held-by-limits']);
    await set({ global: 100, perKey: null });
    expect(ids(await examine())).toEqual(['warning queue-age']);
    // The rate has no token until the next hour.
    await set({ global: 100, rate: { limit: 1, perMs: 3_600_000, burst: 0, perKey: false } });
    await under.claimWork({ tasks: ['fax'], lockMs: 3_600_000 });
    expect(ids(await examine())).toEqual(['note held-by-limits']);
  });

  it('late-schedules: the remedy ends the run that the ticks wait for', async () => {
    const { examine, clock, provider, client, store } = await open();
    await client.schedules.put('s', { every: '10m', task: 'mail', overlap: 'skip' });
    const { id } = await client.schedules.trigger('s', { key: 'k' });
    await provider.registerWorkers([
      newWorker('live', { heartbeatMs: 86_400_000, tasks: ['mail'] }),
    ]);
    const [record] = await provider.listSchedules({ limit: 1 });
    const tick = { name: 's', revision: record?.revision ?? 0, lastTickAt: clock.now() };
    const nothing = { instances: [], tasks: [], error: null };
    const whileRunning = { bufferedTicks: [], skipped: 1 };
    const nextAt = clock.now() + 600_000;
    await provider.tickSchedules([{ ...tick, ...nothing, nextAt, whileRunning }]);
    const findings = await examine();
    expect(ids(findings)).toEqual(['warning late-schedules']);
    expect(findings[0]?.remedy).toContain(`perdure why ${id} `);
    await runRemedy(findings[0]!, store);
    expect(await examine()).toEqual([]);
  });

  it('poisoned and paused-definitions: the remedies retry and resume', async () => {
    const { examine, under, store, client } = await open();
    const { lockToken } = await startTask(under, 'p 1', { name: 'mail' }, { tasks: ['mail'] });
    const failure = JSON.stringify({ name: 'E', message: 'claimed too often', code: 'POISON' });
    await under.ackWork(lockToken, { kind: 'failed', failure });
    await client.pause({ kind: 'task', name: 'pdf' }, { reason: 'printer' });
    const findings = await examine();
    expect(ids(findings)).toEqual(['problem poisoned', 'note paused-definitions']);
    for (const finding of findings) await runRemedy(finding, store);
    // The retried run waits for a worker.
    const after = ids(await examine());
    expect(after).toContain('problem no-workers');
    expect(after).not.toContain('problem poisoned');
    expect(after).not.toContain('note paused-definitions');
  });

  it('retention-off and retention-paused: reported for a large store only', async () => {
    const { examine, under, client, store } = await open();
    const { lockToken } = await startTask(under, 't1', { name: 'mail' }, { tasks: ['mail'] });
    await under.ackWork(lockToken, { kind: 'completed', payload: '1' });
    expect(await examine()).toEqual([]);
    const limits = { largeInstances: 1 };
    const [off] = await examine(limits);
    expect(off).toMatchObject({ id: 'retention-off', level: 'warning' });
    await runRemedy(off!, store);
    await client.retention.pause();
    const [paused] = await examine(limits);
    expect(paused?.id).toBe('retention-paused');
    await runRemedy(paused!, store);
    const [still] = await examine(limits);
    expect(still?.remedy).toContain('Set the worker option `retention`');
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    await perdure.startWorker({
      retention: { policies: [{ statuses: 'completed', keepFor: '30d' }] },
    });
    await expect.poll(async () => ids(await examine(limits))).toEqual([]);
  });

  it('clock-skew: reports the difference to the clock of this process', async () => {
    const { examine, clock } = await open();
    const [ahead] = await examine({}, () => clock.now() - 90_000);
    expect(ahead).toMatchObject({ id: 'clock-skew', level: 'warning' });
    expect(ahead?.sentence).toContain('1m 30s ahead of');
    const [behind] = await examine({}, () => clock.now() + 5_000);
    expect(behind?.sentence).toContain('5s behind');
    expect(await examine({}, () => clock.now() + 500)).toEqual([]);
  });

  it('blocked: goes away after a deploy of the code that agrees with the history', async () => {
    const store = await place(kind);
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    const proceed = event('go');
    const withName = (name: string) =>
      orchestration('job', async (ctx) => {
        await ctx.waitFor(name);
        await ctx.waitFor(proceed);
        return name;
      });
    const first = await perdure.startWorker({ orchestrations: [withName('a')], buildId: 'a' });
    const handle = await perdure.client.start('job', undefined, { id: 'job-1' });
    await first.stop();
    const second = await perdure.startWorker({ orchestrations: [withName('b')], buildId: 'b' });
    await handle.raiseEvent('a');
    const doctor = async (): Promise<readonly Finding[]> => {
      const { stdout } = await runCli(['doctor', '--json'], { env: { PERDURE_STORE: store } });
      return (parseJson('doctor', stdout) as { readonly findings: readonly Finding[] }).findings;
    };
    const found = async () => (await doctor()).find(({ id }) => id === 'blocked');
    await expect.poll(found).toMatchObject({ level: 'problem' });
    expect((await found())?.remedy).toContain('perdure why job-1');
    await second.stop();
    await perdure.startWorker({ orchestrations: [withName('a')], buildId: 'c' });
    await expect.poll(found).toBeUndefined();
  });

  it('reads the work through a server, and says that the store was not checked', async () => {
    const store = await place(kind);
    const perdure = await Perdure.open(store, { logger: silentLogger });
    const server = await serve(perdure, { port: 0 });
    onTestFinished(async () => {
      await server.close();
      await perdure.close();
    });
    await perdure.client.runTask('fax', 1);
    const { code, stdout } = await runCli(['doctor', '--server', server.url]);
    expect(code).toBe(8);
    expect(stdout).toContain('problem  no-workers\n  1 instance has not ended');
    expect(stdout).toContain(
      'Start one on a machine that reaches the store: `perdure worker <file> --store <path | url>`.',
    );
    expect(stdout).toContain('settings of the store were not checked');
    await server.close();
    const gone = await runCli(['doctor', '--json', '--server', server.url]);
    expect(gone.code).toBe(8);
    expect(parseJson('doctor', gone.stdout)).toMatchObject({
      checked: { process: true, store: false, work: false },
      findings: [
        {
          id: 'server-unreachable',
          level: 'problem',
          remedy: expect.not.stringContaining('perdure doctor'),
        },
      ],
    });
    const again = await serve(perdure, { port: Number(new URL(server.url).port) });
    onTestFinished(() => again.close());
    const back = await runCli(['doctor', '--json', '--server', server.url]);
    const { findings } = parseJson('doctor', back.stdout) as { findings: readonly Finding[] };
    expect(findings.map(({ id }) => id)).not.toContain('server-unreachable');
  });
});

/** Claims and completes all due tasks of a name, as a worker does. */
async function startTaskOf(store: StoreUnderTest, name: string): Promise<void> {
  const items = await store.provider.fetchWorkItems({
    max: 100,
    lockMs: 60_000,
    waitMs: 0,
    names: [],
    tasks: [name],
  });
  for (const { lockToken } of items) {
    await store.ackWork(lockToken, { kind: 'completed', payload: '1' });
  }
}
