import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { isPerdureError, Perdure, ProviderError } from '../../src/index.ts';
import { responseShapes } from '../../src/remote/response-shapes.ts';
import { operations, type Operation } from '../../src/remote/operations.ts';
import type { RemoteClient } from '../../src/remote/connection.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const emptyPage = JSON.stringify({ items: [] });

/** Connects a client to a server with scripted responses. The first response lets the client connect. */
async function connectTo(answer: Answer, options: object = {}): Promise<RemoteClient> {
  let isFirst = true;
  const server = createServer((request, response) => {
    if (!isFirst) return answer(request, response);
    isFirst = false;
    response.end(emptyPage);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = await Perdure.connect(url, { retryFor: 0, ...options });
  onTestFinished(() => connection.close());
  return connection.client;
}

const json =
  (value: unknown): Answer =>
  (_, response) =>
    void response.end(JSON.stringify(value));

/** Client calls by the operation they request. */
const calls: Readonly<Partial<Record<Operation, (client: RemoteClient) => Promise<unknown>>>> = {
  startInstance: (client) => client.start('x'),
  listInstances: (client) => client.list(),
  getInstance: (client) => client.get('x'),
  explainInstance: (client) => client.why('x'),
  getAttention: (client) => client.attention(),
  listScheduleRuns: (client) => client.schedules.runs('x'),
  listQueues: (client) => client.queues(),
  explainInstances: (client) => client.explain(['x']),
  measureInstance: (client) => client.getInstanceInfo('x'),
  waitForInstances: (client) => client.wait('x'),
  readState: (client) => client.state('x'),
  waitForStates: (client) => client.waitForStatus('x'),
  getInstanceTree: (client) => client.getInstanceTree('x'),
  getHistory: (client) => client.history('x'),
  exportHistory: (client) => client.exportHistory('x'),
  listExecutions: (client) => client.listExecutions('x'),
  listRunning: (client) => client.running('x'),
  cancelInstance: (client) => client.cancel('x'),
  terminateInstance: (client) => client.terminate('x'),
  deleteInstance: (client) => client.deleteInstance('x'),
  deleteInstances: (client) => client.deleteInstanceBulk({}, { all: true }),
  pruneExecutions: (client) => client.pruneExecutions('x'),
  pruneExecutionsBulk: (client) => client.pruneExecutionsBulk({}, { all: true }),
  listAudit: (client) => client.listAudit(),
  queueDepths: (client) => client.queueDepths(),
  getSeries: (client) => client.series(),
  systemMetrics: (client) => client.systemMetrics(),
  runTask: (client) => client.runTask('x'),
  runTasks: (client) => client.runTasks([{ task: 'x' }]),
  listSchedules: (client) => client.schedules.list(),
  getSchedule: (client) => client.schedules.get('x'),
  putSchedule: (client) => client.schedules.put('x', { task: 'x', every: '1d' }),
  deleteSchedule: (client) => client.schedules.delete('x'),
  nextRuns: (client) => client.schedules.nextRuns('x'),
  getRetention: (client) => client.retention.status(),
  runRetention: (client) => client.retention.run(),
  openSession: (client) => client.openSession(),
  listSessions: (client) => client.sessions.list(),
  getSession: (client) => client.sessions.get('x'),
};

const garbage: readonly unknown[] = [
  [],
  1,
  'text',
  true,
  { items: 5 },
  { items: [null] },
  { items: [{ id: 5 }] },
  { results: [{}] },
  { results: {} },
  { id: { toString: 'x' } },
  { found: 'yes', changed: 1, status: 7 },
  { runs: [{ id: 'x' }] },
];

describe('invalid server responses', () => {
  test('every call rejects an invalid response with a PROVIDER error that is not retryable', async () => {
    const other: unknown[] = [];
    for (const value of [...garbage, {}]) {
      const client = await connectTo(json(value), { retryFor: '1m' });
      for (const [name, call] of Object.entries(calls)) {
        const outcome = await call(client).then(
          (result) => ({ name, value, result }),
          (error: unknown) => error,
        );
        const isTyped =
          isPerdureError(outcome, 'PROVIDER') && !(outcome as ProviderError).retryable;
        if (!isTyped) other.push(outcome);
      }
    }
    expect(other).toEqual([]);
  }, 60_000);

  test('a job rejects with PROVIDER when its result is missing in the response', async () => {
    const now = Date.now();
    const session = {
      id: 's',
      state: 'open',
      idleTimeoutMs: 60_000,
      createdAt: now,
      expiresAt: now + 60_000,
      variables: {},
      openJobs: 0,
    };
    const client = await connectTo((request, response) => {
      response.end(JSON.stringify(request.url?.endsWith('/jobs') ? { results: [] } : session));
    });
    await expect(client.submit('x').result()).rejects.toMatchObject({
      code: 'PROVIDER',
      message: expect.stringContaining('0 results for 1 requests') as string,
    });
  });

  test('an error response with invalid fields or 500 nested causes rejects with PROVIDER', async () => {
    let deep: object = { name: 'Error', message: 'm' };
    for (let depth = 0; depth < 500; depth += 1)
      deep = { name: 'Error', message: 'm', cause: deep };
    for (const failure of [5, { name: 5 }, deep]) {
      const error = { code: 'INSTANCE_FAILED', message: 'm', failure };
      const client = await connectTo((_, response) => {
        response.writeHead(400).end(JSON.stringify({ error }));
      });
      await expect(client.list()).rejects.toMatchObject({ code: 'PROVIDER', retryable: false });
    }
  });

  test('why() rejects a wait with a missing field of its kind, and passes a wait of an unknown kind', () => {
    const check = (wait: unknown) =>
      responseShapes.explainInstance(
        { id: 'x', status: 'running', text: '', short: '', more: 0, waits: [wait] },
        'answer',
      );
    expect(check({ kind: 'timer', operation: 1, fireAt: 5 })).toBeUndefined();
    expect(check({ kind: 'timer', operation: 1 })).toBe('answer.waits[0].fireAt');
    expect(check({ kind: 'paused', target: 'instance', at: 'x' })).toBe('answer.waits[0].at');
    expect(check({ kind: 'constructor' })).toBeUndefined();
    expect(check({ kind: 5 })).toBe('answer.waits[0].kind');
    expect(check(null)).toBe('answer.waits[0].kind');
  });

  test('every response shape rejects a value that is not an object', () => {
    for (const name of Object.keys(operations) as Operation[]) {
      for (const value of [null, undefined, 5, 'text', []]) {
        expect([name, responseShapes[name](value, 'answer')]).toEqual([name, 'answer']);
      }
    }
  });
});

describe('a response above answerLimitBytes', () => {
  const limit = { answerLimitBytes: 100_000 };
  const tooLarge = {
    code: 'PROVIDER',
    retryable: false,
    message: expect.stringContaining('answerLimitBytes') as string,
  };

  test('a response whose content-length exceeds answerLimitBytes is rejected unread', async () => {
    const client = await connectTo((_, response) => {
      response.writeHead(200, { 'content-length': 10_000_000 });
      response.write('[');
    }, limit);
    await expect(client.list()).rejects.toMatchObject(tooLarge);
  });

  test('an endless response is read only up to answerLimitBytes', async () => {
    let sent = 0;
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const client = await connectTo((_, response) => {
      response.once('close', resolve);
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000))) sent += 10_000;
      };
      response.on('drain', more);
      more();
    }, limit);
    await expect(client.list()).rejects.toMatchObject(tooLarge);
    await closed;
    // Sent but unread bytes fit into the buffers of two sockets.
    expect(sent).toBeLessThan(50_000_000);
  });

  test('answerLimitBytes counts decompressed bytes', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000, 32));
    expect(bomb.length).toBeLessThan(100_000);
    const client = await connectTo((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb);
    }, limit);
    await expect(client.list()).rejects.toMatchObject(tooLarge);
  });

  test('answerLimitBytes also limits error responses', async () => {
    const client = await connectTo((_, response) => {
      response.writeHead(500).end('x'.repeat(200_000));
    }, limit);
    await expect(client.list()).rejects.toMatchObject(tooLarge);
  });
});

describe('a token over plain HTTP', () => {
  const fetch = (): Promise<Response> => Promise.resolve(new Response(emptyPage));

  test.each(['http://perdure.example.com', 'http://10.0.0.5:7373', 'http://[fe80::1]:7373'])(
    'connect() with a token rejects %s unless allowInsecureHttp is set',
    async (url) => {
      const refused = await Perdure.connect(url, { token: 'secret', fetch }).catch(
        (error: unknown) => error,
      );
      expect(refused).toMatchObject({ code: 'INVALID_OPTION' });
      expect(String(refused)).toContain('allowInsecureHttp');
      expect(String(refused)).not.toContain('secret');
      const allowed = { token: 'secret', fetch, allowInsecureHttp: true };
      await (await Perdure.connect(url, allowed)).close();
      await (await Perdure.connect(url, { fetch })).close();
    },
  );

  test.each([
    'https://perdure.example.com',
    'http://localhost:7373',
    'http://127.0.0.1:7373',
    'http://127.9.9.9',
    'http://[::1]:7373',
    'http://perdure.localhost',
  ])('connect() with a token accepts %s', async (url) => {
    await (await Perdure.connect(url, { token: 'secret', fetch })).close();
  });

  test.each(['http://localhost.example.com', 'http://127.0.0.1.example.com'])(
    'connect() with a token rejects %s, which is not a loopback host',
    async (url) => {
      await expect(Perdure.connect(url, { token: 'secret', fetch })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    },
  );
});

describe('a page whose origin the server rejects', () => {
  afterEach(() => void vi.unstubAllGlobals());

  // A page sees no more of a request rejected by CORS.
  const refused = (): Promise<never> => Promise.reject(new TypeError('Failed to fetch'));

  test('connect() from a disallowed origin rejects without retries and names allowedOrigins', async () => {
    vi.stubGlobal('location', { origin: 'https://app.example.com' });
    let attempts = 0;
    const fetch = (): Promise<never> => {
      attempts += 1;
      return refused();
    };
    const options = { fetch, retryFor: '1h' as const };
    const error = await Perdure.connect('https://perdure.example.com', options).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ code: 'PROVIDER', retryable: true });
    expect(String(error)).toContain('allowedOrigins');
    expect(String(error)).toContain('"https://app.example.com"');
    expect(attempts).toBe(1);
  });

  test('connect() from the same origin or outside a browser does not mention allowedOrigins', async () => {
    const url = 'https://perdure.example.com';
    const options = { fetch: refused, retryFor: 0 };
    for (const location of [{ origin: url }, { origin: 'null' }, undefined]) {
      vi.stubGlobal('location', location);
      const error = await Perdure.connect(url, options).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ProviderError);
      expect(String(error)).not.toContain('allowedOrigins');
    }
  });

  test('a page retries a failed request after a first successful response', async () => {
    vi.stubGlobal('location', { origin: 'https://app.example.com' });
    let attempts = 0;
    const fetch = (): Promise<Response> => {
      attempts += 1;
      return attempts === 2 ? refused() : Promise.resolve(new Response(emptyPage));
    };
    const connection = await Perdure.connect('https://perdure.example.com', { fetch });
    expect(await connection.client.list()).toEqual({ items: [] });
    expect(attempts).toBe(3);
    await connection.close();
  });
});
