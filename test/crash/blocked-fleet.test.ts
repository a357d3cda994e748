import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test, onTestFinished } from 'vitest';
import type { Client } from '../../src/index.ts';
import { Perdure } from '../../src/perdure.ts';
import { SchemaPool } from '../postgres/helpers/schema-pool.ts';

const program = new URL('./programs/blocking-program.ts', import.meta.url).pathname;
// Long enough for a busy machine: the watchdog must reach the store before a third of the lease is left.
const leaseMs = 6_000;

interface Store {
  readonly store: string;
  readonly schema?: string;
}

async function sqliteFile(): Promise<Store> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-blocked-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return { store: join(folder, 'blocked.db') };
}

function postgresSchemas(): () => Promise<Store> {
  const pool = new SchemaPool('blocked');
  afterAll(() => pool.drop());
  return async () => ({ store: await pool.url(), schema: await pool.take() });
}

/** One worker process. */
class FleetMember {
  readonly #process: ChildProcess;
  stderr = '';

  constructor(store: Store, options: object, execArgv: readonly string[]) {
    const settings = { schema: store.schema, isMended: false, buildId: 'bad', ...options };
    const leases = { orchestrationLease: leaseMs, activityLease: leaseMs };
    this.#process = fork(program, [store.store, JSON.stringify({ ...leases, ...settings })], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [...execArgv],
    });
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    onTestFinished(() => void this.#process.kill('SIGKILL'));
  }

  static async start(
    store: Store,
    options: object = {},
    execArgv: readonly string[] = [],
  ): Promise<FleetMember> {
    const member = new FleetMember(store, options, execArgv);
    await once(member.#process, 'message');
    return member;
  }

  get exited(): Promise<unknown[]> {
    return once(this.#process, 'exit');
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.#process.kill(signal);
  }

  /** Resolves when its event loop responds. */
  async answer(): Promise<this> {
    const answered = once(this.#process, 'message');
    this.#process.send('are you there?');
    await answered;
    return this;
  }
}

/** Runs other instances for `ms`; all of them must complete. */
async function sayHellos(client: Client, ms: number): Promise<void> {
  for (const endsAt = Date.now() + ms; Date.now() < endsAt;) {
    const hello = await client.start('hello');
    expect(await hello.result({ timeout: '30s' })).toBe('done');
  }
}

const stores = { SQLite: () => sqliteFile, PostgreSQL: postgresSchemas };

describe.each(Object.entries(stores))('a fleet of workers (%s)', (kind, makeStores) => {
  const newStore = makeStores();
  // The place of the block does not depend on the store.
  const places = (first: string, later: string): readonly string[] =>
    kind === 'SQLite' ? [first, later] : [later];

  async function openClient(store: Store) {
    const options = store.schema === undefined ? {} : { schema: store.schema };
    const perdure = await Perdure.open(store.store, options);
    onTestFinished(() => perdure.close());
    return perdure.client;
  }

  test.each(places('loops-at-first', 'loops-later'))(
    'an endless loop blocks one worker, and a worker with another build completes it (%s)',
    async (name) => {
      const store = await newStore();
      const client = await openClient(store);
      const fleet = await Promise.all([1, 2, 3].map(() => FleetMember.start(store)));
      await sayHellos(client, 2_000);
      await client.start(name, undefined, { id: 'looping' });
      const blocked = async () => (await client.get('looping'))?.blocked?.reason;
      await expect.poll(blocked, { timeout: 60_000 }).toMatch(/^EVENT_LOOP_BLOCKED: A turn of/);
      // Twice the time after which a blocked worker is lost.
      for (const endsAt = Date.now() + 2 * leaseMs; Date.now() < endsAt;) {
        const hello = await client.start('hello');
        expect(await hello.result({ timeout: '30s' })).toBe('done');
      }
      const alive = new Set<FleetMember>();
      for (const member of fleet) void member.answer().then((one) => alive.add(one));
      await expect.poll(() => alive.size, { timeout: 30_000 }).toBeGreaterThanOrEqual(2);
      const [lost] = fleet.filter((member) => !alive.has(member));
      expect(lost?.stderr).toMatch(/event loop is blocked .*"instanceId":"looping".*loop/);
      lost?.kill();
      const listed = await client.list({ blocked: true });
      expect(listed.items.map(({ id }) => id)).toEqual(['looping']);
      await FleetMember.start(store, { isMended: true, buildId: 'good' });
      const handle = client.handle('looping');
      expect(await handle.result({ timeout: '30s' })).toBe('continued');
    },
    180_000,
  );

  test.each(places('computes', 'computes-later'))(
    'a handler that blocks the event loop beyond its lease fails with EVENT_LOOP_BLOCKED (%s)',
    async (name) => {
      const store = await newStore();
      const client = await openClient(store);
      const member = await FleetMember.start(store);
      const run = await client.runTask(name, 1.5 * leaseMs);
      const failure = await run.result({ timeout: '60s' }).then(
        () => undefined,
        (error: Error) => error.cause,
      );
      expect(failure).toMatchObject({
        code: 'EVENT_LOOP_BLOCKED',
        message: expect.stringMatching(
          /^Task "computes.*" blocked the event loop for \d\.\d s, longer than its lease of 6 s/,
        ) as string,
      });
      // The handler's own result arrives late and is ignored, and the worker continues.
      await member.answer();
      const short = await client.runTask(name, 1);
      expect(await short.result({ timeout: '30s' })).toBe('computed');
      expect(await client.get(run.id)).toMatchObject({ status: 'failed' });
    },
    180_000,
  );

  test('a handler whose process is stopped beyond its lease completes after it resumes', async () => {
    const store = await newStore();
    const client = await openClient(store);
    const member = await FleetMember.start(store);
    // Gives the watchdog time to start.
    await sayHellos(client, 2_000);
    const run = await client.runTask('computes', 4_000);
    await expect.poll(async () => (await client.get(run.id))?.status).toBe('running');
    member.kill('SIGSTOP');
    await delay(1.5 * leaseMs);
    member.kill('SIGCONT');
    expect(await run.result({ timeout: '60s' })).toBe('computed');
  }, 180_000);

  test('a handler that blocks beyond its lease completes under a debugger', async () => {
    const store = await newStore();
    const client = await openClient(store);
    await FleetMember.start(store, {}, ['--inspect=127.0.0.1:0']);
    const run = await client.runTask('computes', 1.5 * leaseMs);
    expect(await run.result({ timeout: '60s' })).toBe('computed');
  }, 180_000);

  test('a blocked worker with exitWhenBlocked kills its process', async () => {
    const store = await newStore();
    const client = await openClient(store);
    const member = await FleetMember.start(store, { exitWhenBlocked: leaseMs + 1_000 });
    await client.start('loops-at-first', undefined, { id: 'looping' });
    const [code, signal] = await member.exited;
    expect([code, signal]).toEqual([null, 'SIGKILL']);
    expect((await client.get('looping'))?.blocked?.reason).toMatch(/^EVENT_LOOP_BLOCKED/);
  }, 180_000);
});
