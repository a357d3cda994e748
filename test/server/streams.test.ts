import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { task } from 'perdure';
import { createHandler } from 'perdure/server';
import { openEvents } from './helpers/event-reader.ts';
import { codeOf, describeServer, openServer, type TestServer } from './helpers/server-fixture.ts';
import { workload } from './helpers/workload.ts';

/** Returns the number of open streams from the metrics of the server. */
async function openStreams({ ask }: TestServer): Promise<number> {
  const figures = await ask('prometheus', {});
  return Number(/perdure_server_under_way\{what="streams"\} (\d+)/.exec(figures)?.[1]);
}

describeServer('event streams', (open) => {
  it('watchChanges sends metrics immediately, then the ids of instances that end', async () => {
    const server = await open({ worker: workload });
    const events = await openEvents(server, 'watchChanges');
    const none = { ready: 0, delayed: 0, claimed: 0, paused: 0, oldestReadyAt: null };
    expect(await events.next()).toMatchObject({
      kind: 'figures',
      queues: { orchestrations: none, activities: none, tasks: none },
      system: { instances: { completed: 0 } },
    });
    await server.ask('startInstance', { body: { name: 'hello', input: 'x', id: 'a' } });
    const seen: unknown[] = [];
    const isDone = (): boolean =>
      seen.some((one) => (one as { kind: string }).kind === 'ended') &&
      JSON.stringify(seen.at(-1)).includes('"completed":1');
    while (!isDone()) seen.push(await events.next());
    expect(seen).toContainEqual({ kind: 'ended', ids: ['a'] });
    events.close();
    await expect.poll(() => openStreams(server)).toBe(0);
  });

  it('watchInstance sends the instance on every change and ends with it', async () => {
    const server = await open({ worker: workload });
    await server.ask('startInstance', { body: { name: 'waits', id: 'w' } });
    const events = await openEvents(server, 'watchInstance', { params: { id: 'w' } });
    expect(await events.next()).toMatchObject({ id: 'w' });
    await server.ask('raiseEvent', {
      params: { id: 'w' },
      body: { name: 'approved', payload: 'go' },
    });
    const rest = await events.rest();
    expect(rest.at(-1)).toMatchObject({ id: 'w', status: 'completed', output: 'go' });
    await expect.poll(() => openStreams(server)).toBe(0);
  });

  it('watchHistory streams events with their position and resumes by Last-Event-ID', async () => {
    const server = await open({ worker: workload });
    await server.ask('startInstance', { body: { name: 'counts', input: 1, id: 'c' } });
    const params = { id: 'c' };
    const events = await openEvents(server, 'watchHistory', { params });
    const seen = (await events.rest()) as { kind: string; position?: string }[];
    expect(seen.at(-1)).toEqual({ kind: 'end' });
    const positions = seen.flatMap(({ position }) => position ?? []);
    expect(positions.at(-1)).toBe('2.2');
    const again = await openEvents(server, 'watchHistory', { params }, { 'last-event-id': '2.1' });
    expect(await again.raw()).toBe(': open');
    expect(await again.raw()).toMatch(/^id: 2\.2\ndata: /);
    expect(await again.rest()).toEqual([{ kind: 'end' }]);
    const unknown = await openEvents(server, 'watchHistory', { params: { id: 'nobody' } });
    expect(unknown.status).toBe(404);
    await expect.poll(() => openStreams(server)).toBe(0);
  });

  it('streamInstance streams chunks with their cursor and resumes by Last-Event-ID', async () => {
    const talk = task('talk', async (ctx, count: number) => {
      for (let n = 1; n <= count; n += 1) await ctx.emit(`line\n${n}`);
    });
    const server = await open({ worker: { ...workload, tasks: [talk] } });
    await server.ask('runTask', { body: { task: 'talk', input: 3, id: 't' } });
    const params = { id: 't' };
    const events = await openEvents(server, 'streamInstance', { params });
    const seen = (await events.rest()) as { kind: string; cursor: string; value?: unknown }[];
    expect(seen.map(({ kind, value }) => [kind, value])).toEqual([
      ['chunk', 'line\n1'],
      ['chunk', 'line\n2'],
      ['chunk', 'line\n3'],
      ['end', undefined],
    ]);
    const cursor = seen[1]?.cursor ?? '';
    const again = await openEvents(
      server,
      'streamInstance',
      { params },
      { 'last-event-id': cursor },
    );
    expect(await again.raw()).toBe(': open');
    expect(await again.raw()).toMatch(/^id: 3\.[0-9a-z]+\ndata: \{"kind":"chunk"/);
    expect(await again.rest()).toEqual([{ kind: 'end' }]);
    const statusOf = async (id: string, after?: string) => {
      const query = after === undefined ? {} : { query: { after } };
      return (await openEvents(server, 'streamInstance', { params: { id }, ...query })).status;
    };
    expect(await statusOf('missing')).toBe(404);
    expect(await statusOf('t', '9.zzz')).toBe(409);
    expect(await statusOf('t', '"><script>')).toBe(400);
    expect(await statusOf('t', 'x'.repeat(1_000))).toBe(400);
    await expect.poll(() => openStreams(server)).toBe(0);
  });

  it('watchInstances and watchChanges with ids send the states of instances', async () => {
    const server = await open({ worker: workload });
    const missing = { status: null, executionId: 0, customStatusVersion: 0, version: '' };
    const posted = await openEvents(server, 'watchInstances', { body: { ids: ['w'] } });
    const first = { kind: 'instances', items: [{ id: 'w', ...missing }] };
    expect(await posted.next()).toEqual(first);
    const got = await openEvents(server, 'watchChanges', { query: { ids: 'w' } });
    expect(await got.next()).toEqual(first);
    await server.ask('startInstance', { body: { name: 'hello', input: 'x', id: 'w' } });
    for (const events of [posted, got]) {
      let last = '';
      while (!last.includes('"completed"')) last = JSON.stringify(await events.next());
      expect(last).toContain('"name":"hello"');
    }
    const ids = Array.from({ length: 201 }, (_, index) => `i-${index}`);
    const tooMany = await server.send('watchInstances', { body: { ids } });
    expect(tooMany.status).toBe(400);
    posted.close();
    got.close();
    await expect.poll(() => openStreams(server)).toBe(0);
  });

  it('streamJob sends emitted chunks in order, then an over message', async () => {
    const server = await open({ worker: workload });
    const { ask } = server;
    const params = { id: 's' };
    await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
    const incarnation = 'incarnation-1';
    const job = { id: 'j', incarnation, kind: 'task', name: 'emits', input: 300 } as const;
    await ask('submitJobs', { params, body: { jobs: [job] } });
    const events = await openEvents(server, 'streamJob', {
      params: { id: 's', jobId: 'j' },
      body: { incarnation },
    });
    expect(await events.rest()).toEqual([
      ...Array.from({ length: 300 }, (_, index) => ({
        kind: 'chunk',
        seq: index + 1,
        value: { n: index + 1 },
      })),
      { kind: 'over' },
    ]);
    await ask('shutdownSession', { params, body: { mode: 'forceful' } });
  });
});

it('an idle stream sends a heartbeat comment', async () => {
  const server = await openServer({ limits: { heartbeatMs: 20 } });
  const events = await openEvents(server, 'watchChanges');
  expect(await events.raw()).toBe(': open');
  await events.next();
  expect(await events.raw()).toBe(': still here');
});

it('watchInstance of an unknown instance returns 404', async () => {
  const server = await openServer();
  const events = await openEvents(server, 'watchInstance', { params: { id: 'nobody' } });
  expect(events.status).toBe(404);
});

it('an error ends a stream with one error message', async () => {
  const server = await openServer();
  await server.perdure.client.start('nobody-runs-it', undefined, { id: 'a' });
  const events = await openEvents(server, 'watchInstance', { params: { id: 'a' } });
  expect(await events.next()).toMatchObject({ id: 'a', status: 'pending' });
  await server.perdure.client.deleteInstance('a', { force: true });
  expect((await events.rest()).at(-1)).toEqual({
    error: expect.objectContaining({ code: 'INSTANCE_NOT_FOUND' }) as unknown,
    requestId: expect.any(String) as string,
  });
});

it('closing the server ends streams and waits immediately', async () => {
  const server = await openServer();
  await server.ask('startInstance', { body: { name: 'nobody-runs-it', id: 'a' } });
  const events = await openEvents(server, 'watchChanges');
  await events.next();
  const wait = server.ask('waitForInstance', { params: { id: 'a' }, query: {} });
  const pending = server.ask('waitForInstances', { body: { ids: ['a'] } });
  await expect
    .poll(() => server.ask('prometheus', {}))
    .toContain('perdure_server_under_way{what="waiting"} 2');
  const begunAt = performance.now();
  await server.server.close();
  expect(await wait).toMatchObject({ over: false });
  expect(await pending).toEqual({ results: [] });
  expect(await events.rest()).toEqual([]);
  expect(performance.now() - begunAt).toBeLessThan(2_000);
  await expect(server.fetch('/v1/health')).rejects.toThrow('fetch failed');
});

it('canceling the body of a mounted stream ends it without an aborted request', async () => {
  const { ask, perdure } = await openServer();
  const incarnation = 'incarnation-1';
  await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
  const job = { id: 'j', incarnation, kind: 'task', name: 'nobody-runs-it' } as const;
  await ask('submitJobs', { params: { id: 's' }, body: { jobs: [job] } });
  const handler = createHandler(perdure.client, { insecure: true });
  onTestFinished(() => handler.close());
  const request = new Request('http://localhost/v1/sessions/s/jobs/j/stream', {
    method: 'POST',
    headers: { host: 'localhost', 'content-type': 'application/json' },
    body: JSON.stringify({ incarnation }),
  });
  const reader = (await handler(request)).body?.getReader();
  await reader?.read();
  const pending = reader?.read();
  // By now the stream waits for a chunk.
  await new Promise((resolve) => setImmediate(resolve));
  const left = reader?.cancel().then(() => 'left');
  expect(await Promise.race([left, delay(3_000, 'still waiting')])).toBe('left');
  await pending;
});

it('closing the store makes waits return 503 CLOSED, not a job reply', async () => {
  const { ask, send, perdure } = await openServer();
  const params = { id: 's' };
  const incarnation = 'incarnation-1';
  await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
  const job = { id: 'j', incarnation, kind: 'task', name: 'nobody-runs-it' } as const;
  await ask('submitJobs', { params, body: { jobs: [job] } });
  const waits = [
    send('waitForJobs', { params, body: { jobs: [{ id: 'j', incarnation }] } }),
    send('waitForInstances', { body: { ids: ['j'] } }),
  ];
  await expect
    .poll(async () => (await ask('prometheus', {})).includes('under_way{what="waiting"} 2'))
    .toBe(true);
  await perdure.close();
  const answers = await Promise.all(waits);
  expect(answers.map((answer) => [answer.status, codeOf(answer)])).toEqual([
    [503, 'CLOSED'],
    [503, 'CLOSED'],
  ]);
  const later = await Promise.all([
    send('waitForJobs', { params, body: { jobs: [{ id: 'j', incarnation }] } }),
    send('readChunks', { params, body: { reads: [{ id: 'j', incarnation }] } }),
    send('abandonJobs', { params, body: { jobs: [{ id: 'j', incarnation }] } }),
    send('submitJobs', { params, body: { jobs: [{ ...job, id: 'k' }] } }),
    send('keepAlive', { params, body: {} }),
    send('getSession', { params }),
  ]);
  expect(later.map((answer) => [answer.status, codeOf(answer)])).toEqual(
    later.map(() => [503, 'CLOSED']),
  );
});
