import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { connect } from 'perdure/remote';
import { openEvents } from '../helpers/event-reader.ts';
import { headOf, openSocket, readAll, readFirst } from '../helpers/raw-socket.ts';
import { codeOf, openServer, type TestServer } from '../helpers/server-fixture.ts';
import { holdAuditRequests, longPoll, readGauge } from '../helpers/server-load.ts';

const kib = 1024;

/** Sends a request with an unfinished body. */
async function sendPart(
  server: TestServer,
  request: { readonly path: string; readonly token: string; readonly bytes: number },
): Promise<Socket> {
  const socket = await openSocket(server.server.port);
  const { path, token, bytes } = request;
  socket.write(headOf(`POST ${path}`, { token, length: bytes + 1 }));
  socket.write(`{"name":"${'x'.repeat(bytes - 9)}`);
  return socket;
}

/** Returns a function that reads what has arrived on a socket. */
function received(socket: Socket): () => string {
  let text = '';
  socket.on('data', (chunk: Buffer) => void (text += chunk.toString('latin1')));
  return () => text;
}

describe('unfinished request bodies', () => {
  it('100 unfinished bodies of one token block no other request', async () => {
    const server = await openServer();
    const { operate: token } = server.tokens;
    const sockets: Socket[] = [];
    for (let n = 0; n < 100; n += 1) {
      sockets.push(await sendPart(server, { path: '/v1/instances', token, bytes: 10 }));
    }
    const texts = sockets.map(received);
    await expect.poll(() => readGauge(server, 'bodyBytes'), longPoll).toBe(1_000);
    expect((await server.send('health', {}, { token: '' })).status).toBe(200);
    expect((await server.send('listInstances', {}, { token: server.tokens.read })).status).toBe(
      200,
    );
    const started = await server.send('startInstance', { body: { name: 'x' } }, { token });
    expect(started.status).toBe(200);
    // The server still waits for the bodies.
    expect(texts.map((read) => read())).toEqual(texts.map(() => ''));
  });

  it('a token above its body budget gets 429 while other tokens are served', async () => {
    const server = await openServer({
      limits: { bodyBudgetBytes: 1_024 * kib, bodyBudgetBytesPerToken: 256 * kib },
    });
    const { operate: token } = server.tokens;
    const path = '/v1/instances';
    const held = [
      await sendPart(server, { path, token, bytes: 100 * kib }),
      await sendPart(server, { path, token, bytes: 100 * kib }),
    ];
    await expect.poll(() => readGauge(server, 'bodyBytes'), longPoll).toBe(200 * kib);
    const body = { name: 'x', input: 'y'.repeat(100 * kib) };
    const refused = await server.send('startInstance', { body }, { token });
    expect([refused.status, codeOf(refused)]).toEqual([429, 'RATE_LIMITED']);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect((await server.send('startInstance', { body })).status).toBe(200);
    for (const socket of held) socket.destroy();
    await expect.poll(() => readGauge(server, 'bodyBytes'), longPoll).toBe(0);
    expect((await server.send('startInstance', { body }, { token })).status).toBe(200);
  });

  it('a body above the total budget of all tokens gets 503', async () => {
    const server = await openServer({
      limits: { bodyBudgetBytes: 256 * kib, bodyBudgetBytesPerToken: 200 * kib },
    });
    const { operate: token } = server.tokens;
    await sendPart(server, { path: '/v1/instances', token, bytes: 180 * kib });
    await expect.poll(() => readGauge(server, 'bodyBytes'), longPoll).toBe(180 * kib);
    const body = { name: 'x', input: 'y'.repeat(100 * kib) };
    const refused = await server.send('startInstance', { body });
    expect([refused.status, codeOf(refused)]).toEqual([503, 'UNAVAILABLE']);
    expect((await server.send('startInstance', { body: { name: 'x' } })).status).toBe(200);
  });

  it('a body that times out releases its bytes', async () => {
    const server = await openServer({ limits: { requestMs: 300 } });
    const { operate: token } = server.tokens;
    const socket = await sendPart(server, { path: '/v1/instances', token, bytes: 1_000 });
    expect(await readAll(socket)).toMatch(/^(HTTP\/1.1 408 |$)/);
    await expect.poll(() => readGauge(server, 'bodyBytes'), longPoll).toBe(0);
  });
});

describe('urgent requests', () => {
  const path = '/v1/instances/a/cancel';

  it('cancel, terminate and keep-alive requests reject a body of 300 KiB with 413', async () => {
    const { send } = await openServer();
    const body = { reason: 'r', actor: 'x'.repeat(300 * kib) };
    for (const route of ['cancelInstance', 'terminateInstance', 'keepAlive'] as const) {
      const answer = await send(route, { params: { id: 'a' }, body });
      expect([route, answer.status, codeOf(answer)]).toEqual([route, 413, 'BODY_TOO_LARGE']);
    }
  });

  it('urgent bodies of one token above its share get 429; other tokens pass', async () => {
    const share = 512 * kib;
    const server = await openServer({
      limits: { urgentBudgetBytes: 2 * share, urgentBudgetBytesPerToken: share },
    });
    const { operate: token } = server.tokens;
    const sockets: Socket[] = [];
    for (let n = 0; n < 10; n += 1) {
      sockets.push(await sendPart(server, { path, token, bytes: 100 * kib }));
    }
    const refused = await Promise.race(sockets.map(readFirst));
    expect(refused).toMatch(/^HTTP\/1.1 429 /);
    expect(await readGauge(server, 'urgentBodyBytes')).toBeLessThanOrEqual(share);
    const cancel = { params: { id: 'a' }, body: { reason: 'x'.repeat(9_000) } };
    await expect.poll(() => readGauge(server, 'urgentBodyBytes'), longPoll).toBe(500 * kib);
    expect((await server.send('cancelInstance', cancel)).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => readGauge(server, 'urgentBodyBytes'), longPoll).toBe(0);
    expect((await server.send('cancelInstance', cancel, { token })).status).toBe(200);
  });

  it('closing 400 jobs with long ids is split into requests below the body limit', async () => {
    const server = await openServer();
    await using connection = await connect(server.url, { token: server.tokens.operate });
    const session = await connection.client.openSession({ maxInFlight: 500 });
    const jobs = Array.from({ length: 400 }, (_, n) =>
      session.submit('nothing-runs-it', n, { kind: 'task', id: `${n}-`.padEnd(900, 'x') }),
    );
    const openJobs = async () => (await connection.client.sessions.get(session.id)).openJobs;
    await expect.poll(openJobs, longPoll).toBe(400);
    for (const job of jobs) job.close();
    await expect.poll(openJobs, longPoll).toBe(0);
  });

  it('urgent requests pass when ordinary bodies have used up their budget', async () => {
    const server = await openServer({
      limits: { bodyBudgetBytes: 128 * kib, bodyBudgetBytesPerToken: 128 * kib },
    });
    const { operate: token } = server.tokens;
    await sendPart(server, { path: '/v1/instances', token, bytes: 128 * kib });
    await expect.poll(() => readGauge(server, 'bodyBytes'), longPoll).toBe(128 * kib);
    const cancel = { params: { id: 'a' }, body: { reason: 'stop' } };
    expect((await server.send('cancelInstance', cancel, { token })).status).toBe(200);
    const start = await server.send('startInstance', { body: { name: 'x' } });
    expect([start.status, codeOf(start)]).toEqual([503, 'UNAVAILABLE']);
  });
});

describe('limits per token', () => {
  it('a token above its request limit queues, then gets 429; other tokens are served', async () => {
    const server = await openServer({
      limits: { concurrent: 4, concurrentPerToken: 2, queued: 10, queuedPerToken: 1 },
    });
    const { send, tokens } = server;
    const { release } = holdAuditRequests(server);
    const held = [send('listAudit', {}), send('listAudit', {})];
    const figures = () => send('prometheus', {}, { token: tokens.read });
    await expect
      .poll(async () => (await figures()).text, longPoll)
      .toContain('perdure_server_under_way{what="working"} 3');
    const queued = send('queueDepths', {});
    await expect
      .poll(async () => (await figures()).text, longPoll)
      .toContain('perdure_server_under_way{what="queued"} 1');
    const refused = await send('systemMetrics', {});
    expect([refused.status, codeOf(refused)]).toEqual([429, 'RATE_LIMITED']);
    expect((await send('queueDepths', {}, { token: tokens.operate })).status).toBe(200);
    release();
    expect((await queued).status).toBe(200);
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
  });

  it('a token above its wait or stream limit gets 429; other tokens are served', async () => {
    const server = await openServer({
      limits: { waiting: 4, waitingPerToken: 2, streams: 4, streamsPerToken: 2 },
    });
    const { ask, send, tokens } = server;
    await ask('startInstance', { body: { name: 'nothing-runs-it', id: 'a' } });
    const controller = new AbortController();
    const wait = { params: { id: 'a' } };
    const waits = [1, 2].map(() =>
      send('waitForInstance', wait, { token: tokens.read, signal: controller.signal }),
    );
    await expect.poll(() => readGauge(server, 'waiting'), longPoll).toBe(2);
    const refused = await send('waitForInstance', wait, { token: tokens.read });
    expect([refused.status, codeOf(refused)]).toEqual([429, 'RATE_LIMITED']);
    const other = { params: { id: 'a' }, query: { timeoutMs: 0 } };
    expect((await send('waitForInstance', other, { token: tokens.operate })).status).toBe(200);
    controller.abort();
    await Promise.allSettled(waits);

    const streams = await Promise.all([1, 2].map(() => openEvents(server, 'watchChanges')));
    expect(streams.map(({ status }) => status)).toEqual([200, 200]);
    const one = await send('watchChanges', {});
    expect([one.status, codeOf(one)]).toEqual([429, 'RATE_LIMITED']);
    const stream = await fetch(`${server.url}/v1/changes`, {
      headers: { authorization: `Bearer ${tokens.read}` },
    });
    expect(stream.status).toBe(200);
    await stream.body?.cancel();
    for (const events of streams) events.close();
  });

  it('the health routes respond when all request capacity is used', async () => {
    const server = await openServer({ limits: { concurrent: 1, queued: 1 } });
    const { send } = server;
    holdAuditRequests(server);
    const controller = new AbortController();
    const { signal } = controller;
    const full = [1, 2].map(() => send('listAudit', {}, { signal }).catch(() => undefined));
    await expect.poll(async () => (await send('systemMetrics', {})).status, longPoll).toBe(503);
    for (let n = 0; n < 5; n += 1) {
      for (const route of ['health', 'live', 'ready'] as const) {
        expect((await send(route, {}, { token: '' })).status).toBe(200);
      }
    }
    controller.abort();
    await Promise.all(full);
  });
});
