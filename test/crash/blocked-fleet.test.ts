import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, test, type TestContext } from 'vitest';
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

/** The parts of the context of a test that concurrent tests must use. */
type Context = Pick<TestContext, 'expect' | 'onTestFinished'>;

async function sqliteFile({ onTestFinished }: Context): Promise<Store> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-blocked-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return { store: join(folder, 'blocked.db') };
}

function postgresSchemas(): () => Promise<Store> {
  const pool = new SchemaPool('blocked');
  afterAll(() => pool.drop());
  return async () => ({ store: await pool.url(), schema: await pool.take() });
}

interface MemberOptions {
  readonly execArgv?: readonly string[];
  readonly isMended?: boolean;
  readonly buildId?: string;
  readonly exitWhenBlocked?: number;
}

/** One worker process. */
class FleetMember {
  readonly #process: ChildProcess;
  stderr = '';

  constructor(context: Context, store: Store, { execArgv = [], ...options }: MemberOptions) {
    const settings = { schema: store.schema, isMended: false, buildId: 'bad', ...options };
    const leases = { orchestrationLease: leaseMs, activityLease: leaseMs };
    this.#process = fork(program, [store.store, JSON.stringify({ ...leases, ...settings })], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [...execArgv],
    });
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    context.onTestFinished(() => void this.#process.kill('SIGKILL'));
  }

  static async start(
    context: Context,
    store: Store,
    options: MemberOptions = {},
  ): Promise<FleetMember> {
    const member = new FleetMember(context, store, options);
    await once(member.#process, 'message');
    return member;
  }

  /** The exit code and the signal, once all output has been read. */
  get closed(): Promise<unknown[]> {
    return once(this.#process, 'close');
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
async function sayHellos({ expect }: Context, client: Client, ms: number): Promise<void> {
  for (const endsAt = Date.now() + ms; Date.now() < endsAt;) {
    const hello = await client.start('hello');
    expect(await hello.result({ timeout: '30s' })).toBe('done');
    await delay(50);
  }
}

const stores = { SQLite: () => sqliteFile, PostgreSQL: postgresSchemas };

// These tests wait for leases, so they run concurrently.
describe.concurrent.each(Object.entries(stores))('a fleet of workers (%s)', (kind, makeStores) => {
  const newStore: (context: Context) => Promise<Store> = makeStores();
  // The place of the block does not depend on the store.
  const places = (first: string, later: string): readonly string[] =>
    kind === 'SQLite' ? [first, later] : [later];

  async function openClient({ onTestFinished }: Context, store: Store) {
    const options = store.schema === undefined ? {} : { schema: store.schema };
    const perdure = await Perdure.open(store.store, options);
    onTestFinished(() => perdure.close());
    return perdure.client;
  }

  test.for(places('loops-at-first', 'loops-later'))(
    'an endless loop blocks one worker, and a worker with another build completes it (%s)',
    { timeout: 180_000 },
    async (name, context) => {
      const { expect } = context;
      const store = await newStore(context);
      const client = await openClient(context, store);
      const fleet = await Promise.all([1, 2, 3].map(() => FleetMember.start(context, store)));
      await sayHellos(context, client, 2_000);
      await client.start(name, undefined, { id: 'looping' });
      const blocked = async () => (await client.get('looping'))?.blocked?.reason;
      await expect.poll(blocked, { timeout: 60_000 }).toMatch(/^EVENT_LOOP_BLOCKED: A turn of/);
      // Twice the time after which a blocked worker is lost.
      await sayHellos(context, client, 2 * leaseMs);
      const alive = new Set<FleetMember>();
      for (const member of fleet) void member.answer().then((one) => alive.add(one));
      await expect.poll(() => alive.size, { timeout: 30_000 }).toBeGreaterThanOrEqual(2);
      const [lost] = fleet.filter((member) => !alive.has(member));
      expect(lost?.stderr).toMatch(/event loop is blocked .*"instanceId":"looping".*loop/);
      lost?.kill();
      const listed = await client.list({ blocked: true });
      expect(listed.items.map(({ id }) => id)).toEqual(['looping']);
      await FleetMember.start(context, store, { isMended: true, buildId: 'good' });
      const handle = client.handle('looping');
      expect(await handle.result({ timeout: '30s' })).toBe('continued');
    },
  );

  test.for(places('computes', 'computes-later'))(
    'a handler that blocks the event loop beyond its lease fails with EVENT_LOOP_BLOCKED (%s)',
    { timeout: 180_000 },
    async (name, context) => {
      const { expect } = context;
      const store = await newStore(context);
      const client = await openClient(context, store);
      const member = await FleetMember.start(context, store);
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
  );

  test('a handler whose process is stopped beyond its lease completes after it resumes', async (context) => {
    const { expect } = context;
    const store = await newStore(context);
    const client = await openClient(context, store);
    const member = await FleetMember.start(context, store);
    // Gives the watchdog time to start.
    await sayHellos(context, client, 2_000);
    const run = await client.runTask('dozes', 4_000);
    await expect.poll(async () => (await client.get(run.id))?.status).toBe('running');
    member.kill('SIGSTOP');
    await delay(1.5 * leaseMs);
    member.kill('SIGCONT');
    expect(await run.result({ timeout: '60s' })).toBe('computed');
  }, 180_000);

  test('a handler that blocks beyond its lease completes under a debugger', async (context) => {
    const { expect } = context;
    const store = await newStore(context);
    const client = await openClient(context, store);
    await FleetMember.start(context, store, { execArgv: ['--inspect=127.0.0.1:0'] });
    const run = await client.runTask('dozes', 1.5 * leaseMs);
    expect(await run.result({ timeout: '60s' })).toBe('computed');
  }, 180_000);

  test('a blocked worker with exitWhenBlocked kills its process', async (context) => {
    const { expect } = context;
    const store = await newStore(context);
    const client = await openClient(context, store);
    const member = await FleetMember.start(context, store, { exitWhenBlocked: leaseMs + 1_000 });
    await client.start('spins-at-first', undefined, { id: 'looping' });
    const [code, signal] = await member.closed;
    expect([code, signal]).toEqual([null, 'SIGKILL']);
    expect(member.stderr).toMatch(/event loop is blocked .*"instanceId":"looping".*spin/);
    expect((await client.get('looping'))?.blocked?.reason).toMatch(/^EVENT_LOOP_BLOCKED/);
  }, 180_000);
});
