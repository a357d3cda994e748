import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { task } from 'perdure';
import { openEvents } from './helpers/event-reader.ts';
import { exchange, openSocket, readAll } from './helpers/raw-socket.ts';
import type { RouteName } from '../../src/server/routes/table.ts';
import {
  codeOf,
  describeServer,
  openServer,
  type Parts,
  type TestServer,
} from './helpers/server-fixture.ts';
import { holdAuditRequests, readGauge } from './helpers/server-load.ts';
import { workload } from './helpers/workload.ts';

function head({ tokens }: TestServer, length: number, path = '/v1/instances'): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${tokens.admin}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
}

describe('request sizes and timeouts', () => {
  it('a body of 10 MB returns 413 with and without a content-length', async () => {
    const server = await openServer();
    const text = JSON.stringify({ name: 'x', input: 'y'.repeat(10 * 1024 * 1024) });
    const headers = {
      authorization: `Bearer ${server.tokens.admin}`,
      'content-type': 'application/json',
    };
    const announced = await server.fetch('/v1/instances', { method: 'POST', headers, body: text });
    expect([announced.status, codeOf(announced)]).toEqual([413, 'BODY_TOO_LARGE']);
    const chunked = await server.fetch('/v1/instances', {
      method: 'POST',
      headers,
      body: new Blob([text]).stream(),
      duplex: 'half',
    });
    expect([chunked.status, codeOf(chunked)]).toEqual([413, 'BODY_TOO_LARGE']);
    expect((await server.send('health', {})).status).toBe(200);
  });

  it('startInstance accepts the largest payload, and runTasks three but not five of them', async () => {
    const { send, ask } = await openServer();
    const input = 'y'.repeat(2 * 1024 * 1024 - 2);
    await ask('startInstance', { body: { name: 'x', input } });
    const requests = Array.from({ length: 3 }, () => ({ task: 't', input }));
    expect((await ask('runTasks', { body: { requests } })).runs).toHaveLength(3);
    const tooMany = Array.from({ length: 5 }, () => ({ task: 't', input }));
    expect((await send('runTasks', { body: { requests: tooMany } })).status).toBe(413);
  });

  it('waitForJobs returns large outputs over several responses without losing any', async () => {
    const large = task('large', async () => 'y'.repeat(1_900_000));
    const { send, ask } = await openServer({ worker: { tasks: [large] } });
    const params = { id: 's' };
    await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
    const keys = Array.from({ length: 8 }, (_, n) => ({
      id: `j${n}`,
      incarnation: `life-of-${n}`,
    }));
    const jobs = keys.map((key) => ({ ...key, kind: 'task' as const, name: 'large' }));
    await ask('submitJobs', { params, body: { jobs } });
    for (const { id } of keys) await ask('waitForInstance', { params: { id }, query: {} });
    const left = new Set(keys.map(({ id }) => id));
    for (let round = 0; left.size > 0 && round < 8; round += 1) {
      const body = { jobs: keys.filter(({ id }) => left.has(id)) };
      const { text, json } = await send('waitForJobs', { params, body });
      expect(text.length).toBeLessThan(9_000_000);
      for (const { id } of (json as { replies: { id: string }[] }).replies) left.delete(id);
    }
    expect(left.size).toBe(0);
    const { text, json } = await send('waitForInstances', {
      body: { ids: keys.map(({ id }) => id) },
    });
    expect(text.length).toBeLessThan(9_000_000);
    expect((json as { results: unknown[] }).results).not.toEqual([]);
    await ask('shutdownSession', { params, body: { mode: 'forceful' } });
  });

  it('headers above 16 KiB return 431', async () => {
    const { server } = await openServer();
    const big = `GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Big: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(await exchange(server.port, big)).toMatch(/^HTTP\/1.1 431 /);
  });

  it('input that is not valid HTTP gets a 4xx response or a closed connection', async () => {
    const { server, send } = await openServer();
    const garbage = [
      '\u0000\u0001\u0002',
      'GET\r\n\r\n',
      'BREW /pot HTCPCP/1.0\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
      'GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      '\u0016\u0003\u0001\u0002\u0000\u0001',
    ];
    for (const bytes of garbage) {
      const answer = await exchange(server.port, bytes);
      expect(answer).toMatch(/^(HTTP\/1.1 4\d\d |$)/);
    }
    expect((await send('health', {})).status).toBe(200);
  });

  it('headers slower than headersMs and bodies slower than requestMs time out', async () => {
    const server = await openServer({ limits: { headersMs: 200, requestMs: 400 } });
    const slowHead = await openSocket(server.server.port);
    slowHead.write('GET /v1/health HTTP/1.1\r\nHost: local');
    expect(await readAll(slowHead)).toMatch(/^HTTP\/1.1 408 /);
    const slowBody = await openSocket(server.server.port);
    slowBody.write(head(server, 100) + '{"name":');
    expect(await readAll(slowBody)).toMatch(/^(HTTP\/1.1 (408|4\d\d|503) |$)/);
    await expect.poll(() => readGauge(server, 'working')).toBeLessThan(2);
  });
});

describe('misbehaving sockets', () => {
  it('a half-closed socket still gets its response', async () => {
    const { server } = await openServer();
    const socket = await openSocket(server.port);
    const answer = readAll(socket);
    socket.end('GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(await answer).toContain('{"status":"ok"}');
  });

  it('a request cut off in its body releases its bytes and starts nothing', async () => {
    const server = await openServer();
    for (const finish of ['end', 'destroy'] as const) {
      const socket = await openSocket(server.server.port);
      socket.write(head(server, 1_000) + '{"name":"half');
      await expect.poll(() => readGauge(server, 'bodyBytes')).toBe(13);
      socket[finish]();
      await expect.poll(() => readGauge(server, 'bodyBytes')).toBe(0);
    }
    expect((await server.ask('listInstances', { query: {} })).items).toEqual([]);
  });

  it('a caller that disconnects from a wait or stream releases its capacity', async () => {
    const server = await openServer();
    await server.ask('startInstance', { body: { name: 'nobody-runs-it', id: 'a' } });
    const controller = new AbortController();
    const wait = server.send(
      'waitForInstance',
      { params: { id: 'a' } },
      { signal: controller.signal },
    );
    const events = await openEvents(server, 'watchChanges');
    await expect.poll(() => readGauge(server, 'waiting')).toBe(1);
    expect(await readGauge(server, 'streams')).toBe(1);
    controller.abort();
    events.close();
    await expect(wait).rejects.toThrow('aborted');
    await expect.poll(() => readGauge(server, 'waiting')).toBe(0);
    await expect.poll(() => readGauge(server, 'streams')).toBe(0);
  });

  it('a caller that reads no responses is disconnected while others are served', async () => {
    const server = await openServer({ limits: { requestMs: 500 } });
    const { text } = await server.send('openApi', {});
    const socket = await openSocket(server.server.port);
    const request = `GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.tokens.admin}\r\n\r\n`;
    // The responses fill every buffer between server and caller.
    const requests = Math.ceil((32 * 1024 * 1024) / text.length);
    socket.pause();
    socket.write(request.repeat(requests));
    // A socket that does not read detects the disconnect only by writing.
    const isCut = (): boolean => {
      if (!socket.destroyed) socket.write('\r\n');
      return socket.destroyed;
    };
    expect(isCut()).toBe(false);
    expect((await server.send('health', {})).status).toBe(200);
    await expect.poll(isCut, { timeout: 20_000 }).toBe(true);
    expect((await server.send('health', {})).status).toBe(200);
  });
});

describe('concurrency limits', () => {
  it('9,950 streams above the limit get 503 while 50 streams continue', async () => {
    const server = await openServer({ limits: { streams: 50, streamsPerToken: 50 } });
    const held = await Promise.all(
      Array.from({ length: 50 }, () => openEvents(server, 'watchChanges')),
    );
    expect(held.every(({ status }) => status === 200)).toBe(true);
    // 50 connections with 199 pipelined requests each.
    const request = `GET /v1/changes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.tokens.read}\r\n`;
    const requests = `${request}\r\n`.repeat(198) + `${request}Connection: close\r\n\r\n`;
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => exchange(server.server.port, requests)),
    );
    const text = answers.join('');
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(Array(9_950).fill('HTTP/1.1 503'));
    expect(text.match(/"code":"UNAVAILABLE"/g)).toHaveLength(9_950);
    expect(text.match(/^retry-after: 1\r$/gim)).toHaveLength(9_950);
    expect(await held[0]?.next()).toMatchObject({ kind: 'figures' });
    for (const events of held) events.close();
    await expect.poll(() => readGauge(server, 'streams')).toBe(0);
    const again = await openEvents(server, 'watchChanges');
    expect(again.status).toBe(200);
  });

  it('connections above the limit are closed when all others are active', async () => {
    const opened = await openServer({ limits: { connections: 5 } });
    const { server } = opened;
    const sockets = [];
    for (let n = 0; n < 5; n += 1) {
      const socket = await openSocket(server.port);
      socket.write(
        `GET /v1/changes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${opened.tokens.read}\r\n\r\n`,
      );
      await once(socket, 'data');
      sockets.push(socket);
    }
    expect(await exchange(server.port, 'GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n')).toBe(
      '',
    );
    sockets[0]?.destroy();
    const ask = 'GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';
    await expect.poll(() => exchange(server.port, ask)).toContain('{"status":"ok"}');
  });

  it('requests above the concurrent limit are queued, and above the queued limit get 503', async () => {
    const server = await openServer({ limits: { concurrent: 1, queued: 1 } });
    const { release } = holdAuditRequests(server);
    const held = server.send('listAudit', {});
    const isFull = async (): Promise<boolean> => {
      const signal = AbortSignal.timeout(100);
      return server.send('queueDepths', {}, { signal }).then(
        () => false,
        () => true,
      );
    };
    await expect.poll(isFull).toBe(true);
    const waits = server.send('queueDepths', {});
    await expect.poll(async () => (await server.send('systemMetrics', {})).status).toBe(503);
    release();
    expect((await held).status).toBe(200);
    expect((await waits).status).toBe(200);
  });

  it('changes above changesPerSecond get 429, and reads are served', async () => {
    const { send } = await openServer({ limits: { changesPerSecond: 5 } });
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => send('runTask', { body: { task: 't' } })),
    );
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(15);
    expect(refused.map(codeOf)).toContain('RATE_LIMITED');
    expect((await send('listInstances', {})).status).toBe(200);
  });
});

/** Resolves if the response has the wanted status, and never otherwise. */
function refusedBy(wanted: number): (answer: Promise<number>) => Promise<number> {
  return async (answer) =>
    (await answer) === wanted ? wanted : new Promise<number>(() => undefined);
}

describeServer('stop requests under load', (open) => {
  it('cancels, keep-alives and shutdowns succeed when every limit is exhausted', async () => {
    const server = await open({
      worker: workload,
      limits: { concurrent: 1, queued: 1, waiting: 1, changesPerSecond: 5 },
    });
    const { ask, send } = server;
    const params = { id: 's' };
    const incarnation = 'incarnation-1';
    await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
    const jobs = ['a', 'b'].map(
      (id) => ({ id, incarnation, kind: 'task', name: 'endless' }) as const,
    );
    await ask('submitJobs', { params, body: { jobs } });
    await ask('startInstance', { body: { name: 'waits', id: 'w' } });
    await ask('startInstance', { body: { name: 'waits', id: 't' } });
    const controller = new AbortController();
    const { signal } = controller;
    const dropped = async (route: RouteName, parts: Parts): Promise<number> =>
      send(route, parts, { signal }).then(
        ({ status }) => status,
        () => 0,
      );
    const seat = dropped('waitForInstance', { params: { id: 'w' } });
    // One request uses the whole concurrency limit, and others queue for it.
    holdAuditRequests(server);
    const place = dropped('listAudit', {});
    const changes = Array.from({ length: 20 }, () =>
      dropped('runTask', { body: { task: 'none' } }),
    );
    await expect.poll(() => Promise.race(changes)).toBeGreaterThan(0);
    const others = Array.from({ length: 2 }, () => dropped('queueDepths', {}));
    await expect.poll(async () => (await send('systemMetrics', {})).status).toBe(503);
    expect(await Promise.race(changes.map(refusedBy(429)))).toBe(429);
    expect((await send('waitForInstance', { params: { id: 't' } })).status).toBe(503);

    const key = (id: string) => ({ jobs: [{ id, incarnation }] });
    expect(await ask('cancelInstance', { params: { id: 'w' }, body: {} })).toMatchObject({
      changed: true,
    });
    expect(await ask('terminateInstance', { params: { id: 't' }, body: {} })).toMatchObject({
      changed: true,
    });
    expect(await ask('keepAlive', { params, body: {} })).toMatchObject({ state: 'open' });
    expect(await ask('abandonJobs', { params, body: key('a') })).toMatchObject({
      results: [{ found: true }],
    });
    expect(await ask('cancelJobs', { params, body: key('b') })).toMatchObject({
      results: [{ found: true }],
    });
    expect(await ask('shutdownSession', { params, body: { mode: 'forceful' } })).toMatchObject({
      id: 's',
    });
    controller.abort();
    await Promise.all([seat, place, ...changes, ...others]);
  });
});
