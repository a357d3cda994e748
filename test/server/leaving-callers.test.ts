import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, task, type Provider } from 'perdure';
import { serve } from 'perdure/server';
import { openSqlite } from 'perdure/sqlite';
import { routes } from '../../src/server/routes/table.ts';
import { openEvents } from './helpers/event-reader.ts';
import { openSocket } from './helpers/raw-socket.ts';
import { describeServer, openServer, type TestServer } from './helpers/server-fixture.ts';

/** Returns all gauges of the server, without the request that reads them. */
async function readLoad({ ask }: TestServer): Promise<Readonly<Record<string, number>>> {
  const figures = await ask('prometheus', {});
  const gauges = figures.matchAll(/perdure_server_under_way\{what="(\w+)"\} (\d+)/g);
  const all = Object.fromEntries([...gauges].map(([, what, count]) => [what, Number(count)]));
  return { ...all, working: (all['working'] ?? 1) - 1 };
}

const idle = {
  working: 0,
  queued: 0,
  waiting: 0,
  streams: 0,
  bodyBytes: 0,
  urgentBodyBytes: 0,
  answerBytes: 0,
};

describe('disconnecting callers', () => {
  it('requests aborted at any point release all server capacity', async () => {
    const server = await openServer();
    await server.ask('startInstance', { body: { name: 'nobody-runs-it', id: 'a' } });
    const common = `Host: localhost\r\nAuthorization: Bearer ${server.tokens.admin}\r\n`;
    const body = '{"name":"nobody-runs-it"}';
    const requests = [
      `GET ${routes.watchChanges.path} HTTP/1.1\r\n${common}\r\n`,
      `GET /v1/instances/a/changes HTTP/1.1\r\n${common}\r\n`,
      `GET /v1/instances/a/wait HTTP/1.1\r\n${common}\r\n`,
      `GET /v1/openapi.json HTTP/1.1\r\n${common}\r\n`,
      `POST /v1/instances HTTP/1.1\r\n${common}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    ];
    for (let round = 0; round < 40; round += 1) {
      const sockets = await Promise.all(requests.map(() => openSocket(server.server.port)));
      for (const [index, socket] of sockets.entries()) {
        const request = requests[index] ?? '';
        // Every third round sends part of each request; all sockets are destroyed after 0 to 19 event-loop turns.
        socket.write(round % 3 === 0 ? request.slice(0, round * 4) : request);
      }
      for (let turns = 0; turns < round % 20; turns += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      for (const socket of sockets) socket.destroy();
    }
    await expect.poll(() => readLoad(server)).toEqual(idle);
    expect((await server.send('health', {})).status).toBe(200);
  });

  it('closing the server removes all its hint listeners from the store', async () => {
    const store = await openSqlite({ path: ':memory:' });
    let listening = 0;
    const counted = new Proxy(store, {
      get(target, name: keyof Provider) {
        const value: unknown = Reflect.get(target, name);
        if (name !== 'hints') return value;
        return (...args: Parameters<Provider['hints']>) => {
          listening += 1;
          const stop = target.hints(...args);
          return () => {
            listening -= 1;
            stop();
          };
        };
      },
    });
    const perdure = await Perdure.open(counted);
    onTestFinished(() => perdure.close());
    const server = await serve(perdure, { port: 0 });
    onTestFinished(() => server.close());
    await perdure.client.start('nobody-runs-it', 1, { id: 'a' });
    const before = listening;
    const opened = [
      '/v1/changes',
      '/v1/changes',
      '/v1/instances/a/changes',
      '/v1/instances/a/wait',
    ];
    const answers = opened.map((path) => fetch(server.url + path).then((answer) => answer.text()));
    await expect.poll(() => listening).toBe(before + 2);
    await server.close();
    await Promise.allSettled(answers);
    // The client keeps its own listener for a while after a start.
    await expect.poll(() => listening, { timeout: 20_000 }).toBe(0);
  });
});

describeServer('slow stream readers', (open) => {
  it('a slow stream reader blocks the emitting job and gets every chunk', async () => {
    let emitted = 0;
    const total = 400;
    const filler = 'x'.repeat(60_000);
    const floods = task('floods', async (ctx) => {
      for (; emitted < total; emitted += 1) await ctx.emit({ n: emitted, filler });
    });
    const server = await open({ worker: { tasks: [floods] } });
    const { ask } = server;
    await ask('openSession', { body: { id: 's', idleTimeoutMs: 60_000 } });
    const incarnation = 'incarnation-1';
    const job = { id: 'j', incarnation, kind: 'task', name: 'floods' } as const;
    await ask('submitJobs', { params: { id: 's' }, body: { jobs: [job] } });
    const events = await openEvents(server, 'streamJob', {
      params: { id: 's', jobId: 'j' },
      body: { incarnation },
    });
    let seen = -1;
    // Without a reader the handler blocks once every buffer is full.
    await expect
      .poll(
        () => {
          const isStill = emitted > 0 && emitted === seen;
          seen = emitted;
          return isStill;
        },
        { interval: 500, timeout: 30_000 },
      )
      .toBe(true);
    expect(emitted).toBeLessThan(total);
    const all = (await events.rest()) as readonly {
      readonly seq?: number;
      readonly kind: string;
    }[];
    expect(all.map(({ seq }) => seq)).toEqual([
      ...Array.from({ length: total }, (_, index) => index + 1),
      undefined,
    ]);
    expect(emitted).toBe(total);
  });
});

it('a logger that throws fails only the request it logs', async () => {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  let isAngry = true;
  const log = (): void => {
    if (isAngry) throw new Error('The disk is full.');
  };
  const logger = { debug: log, info: log, warn: log, error: log };
  const server = await serve(perdure, { port: 0, logger });
  onTestFinished(() => server.close());
  await expect(fetch(`${server.url}/v1/health`)).rejects.toThrow('fetch failed');
  isAngry = false;
  expect((await fetch(`${server.url}/v1/health`)).status).toBe(200);
});
