import { inspect } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { activity, orchestration, Perdure, type OpenOptions } from '../../src/index.ts';
import { createDatabase, type TestDatabase } from './helpers/server.ts';
import { startTcpProxy } from './helpers/tcp-proxy.ts';

const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const definitions = { orchestrations: [hello], activities: [greet] };

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
});

afterAll(() => database.drop());

async function open(options: OpenOptions = {}, url = database.url): Promise<Perdure> {
  const perdure = await Perdure.open(url, options);
  onTestFinished(() => perdure.close());
  return perdure;
}

describe('Perdure on PostgreSQL', () => {
  it('Perdure runs an orchestration on PostgreSQL', async () => {
    const perdure = await open();
    await perdure.startWorker(definitions);
    const handle = await perdure.client.start(hello, 'World');
    expect(await handle.result({ timeout: '10s' })).toBe('Hello, World!');
  });

  it('Perdure.open() accepts a postgresql:// URL and a schema of its own', async () => {
    const url = database.url.replace(/^postgres:/, 'postgresql:');
    const perdure = await open({ schema: 'another' }, url);
    await perdure.startWorker(definitions);
    const handle = await perdure.client.start(hello, 'schema', { id: 'one' });
    expect(await handle.result({ timeout: '10s' })).toBe('Hello, schema!');
    expect(await (await open()).client.get('one')).toBeUndefined();
  });

  it('Perdure runs without prepared statements and LISTEN, as behind a connection pooler', async () => {
    const options = { prepare: false, listen: false, schema: 'pooled', pollInterval: 50 };
    const [worker, client] = [await open(options), await open(options)];
    await worker.startWorker(definitions);
    const handle = await client.client.start(hello, 'pooler');
    expect(await handle.result({ timeout: '10s' })).toBe('Hello, pooler!');
  });

  it('result() resolves by notification when a worker of another Perdure completes it', async () => {
    // Polling is too slow for the timeout, so only a notification can end the wait.
    const options = { schema: 'apart', pollInterval: '1h' } as const;
    const [worker, client] = [await open(options), await open(options)];
    await worker.startWorker(definitions);
    for (let n = 0; n < 20; n++) {
      const handle = await client.client.start(hello, `${n}`);
      expect(await handle.result({ timeout: '10s' })).toBe(`Hello, ${n}!`);
    }
  });

  it('cancel() reaches a handler of another Perdure by notification within five seconds', async () => {
    const options = { schema: 'cancel', pollInterval: '1h' } as const;
    const [worker, client] = [await open(options), await open(options)];
    const stubborn = activity('stubborn', (ctx) => ctx.canceled());
    const held = orchestration('held', (ctx) => ctx.call(stubborn));
    let begun = 0;
    await worker.startWorker({
      orchestrations: [held],
      activities: [stubborn],
      activityLease: '1h',
      hooks: { turnCommitted: () => void (begun += 1) },
    });
    for (let n = 1; n <= 5; n++) {
      const handle = await client.client.start(held);
      await vi.waitUntil(() => begun > 0, { interval: 1, timeout: 15_000 });
      begun = 0;
      await handle.cancel({ reason: 'enough' });
      const { status } = await client.client.wait(handle.id, { timeout: '5s' });
      expect(status).toBe('canceled');
    }
  });

  it('an idle worker contacts the server at most once per second', async () => {
    const proxy = await startTcpProxy(database.url);
    onTestFinished(() => proxy.close());
    const perdure = await open({ schema: 'idle' }, proxy.url);
    await perdure.startWorker(definitions);
    const handle = await perdure.client.start(hello, 'once');
    await handle.result({ timeout: '10s' });
    await delay(1_500);
    let asked = 0;
    proxy.intercept(() => {
      asked += 1;
      return 'pass';
    });
    // Workers also report every 10 s, and write figures every minute: these periods are left out.
    const counts: number[] = [];
    while (counts.length < 5 && !counts.some((count) => count <= 5)) {
      asked = 0;
      await delay(4_000);
      counts.push(asked);
    }
    expect(Math.min(...counts)).toBeGreaterThan(0);
    expect(Math.min(...counts)).toBeLessThanOrEqual(5);
  }, 60_000);

  it.each([
    ['an SQLite option', { synchronous: 'full' }],
    ['a schema name that contains SQL', { schema: 'x"; DROP SCHEMA public CASCADE; --' }],
    ['a pool size of zero', { poolSize: 0 }],
    ['a non-boolean value for listen', { listen: 'yes' }],
  ])('Perdure.open() rejects %s with INVALID_OPTION', async (_what, options) => {
    await expect(Perdure.open(database.url, options as OpenOptions)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  it.each([
    'postgres://shop:hunter2@host:notaport/db',
    ' postgres://shop:hunter2@host/db',
    '"postgresql://shop:hunter2@host/db"',
    'postgres:/shop:hunter2@host/db',
    'postgres:shop:hunter2@host/db',
    '\tmysql://shop:hunter2@host/db',
  ])('Perdure.open() rejects the malformed URL %j without its password', async (url) => {
    const opening = Perdure.open(url);
    const error: unknown = await opening.catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'INVALID_INPUT' });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('hunter2');
  });

  it('Perdure.open() of an SQLite path rejects PostgreSQL options', async () => {
    await expect(Perdure.open(':memory:', { schema: 'perdure' })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('schema'),
    });
  });
});
