import { describe, expect, it, onTestFinished } from 'vitest';
import { flow } from '../../src/flows.ts';
import { orchestration, Perdure, silentLogger, task } from '../../src/index.ts';
import { otel } from '../../src/otel.ts';
import { serve } from '../../src/server.ts';
import { writePath } from '../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../src/server/routes/table.ts';
import { engineStores } from '../engine/engine-store.ts';
import { recordSpans } from './span-recorder.ts';

/** Requests of reads that need more than the id of an instance. */
const requests: Partial<
  Record<RouteName, { readonly query?: string; readonly params?: object; readonly body?: object }>
> = {
  getFlowRun: { params: { id: 'flow-1' } },
  getFlowGraph: { params: { id: 'flow-1' } },
  listFlowItems: { params: { id: 'flow-1' }, query: '?step=each' },
  getLimits: { params: { name: 'job' } },
  listLimitKeys: { params: { name: 'job' } },
  getSchedule: { params: { name: 'yearly' } },
  nextRuns: { params: { name: 'yearly' } },
  listScheduleRuns: { params: { name: 'yearly' } },
  getSession: { params: { id: 'session-1' } },
  waitForSession: { params: { id: 'session-1' }, query: '?timeoutMs=0' },
  listJobs: { params: { id: 'session-1' } },
  getJob: { params: { id: 'session-1', jobId: 'job-1' }, query: '?incarnation=incarnation-1' },
  streamJob: {
    params: { id: 'session-1', jobId: 'job-1' },
    body: { incarnation: 'incarnation-1' },
  },
  waitForInstance: { query: '?timeoutMs=0' },
  readState: { query: '?key=count' },
  waitForInstances: { body: { ids: ['a'], timeoutMs: 0 } },
  waitForStates: { body: { waits: [{ id: 'a', key: 'count' }], timeoutMs: 0 } },
  explainInstances: { body: { ids: ['a'] } },
  watchInstances: { body: { ids: ['a'] } },
};

const reads = (Object.keys(routes) as RouteName[]).filter((name) => {
  const { method, role } = routes[name];
  return role === 'read' || (role === 'public' && method === 'GET');
});

describe.each(['SQLite', 'PostgreSQL'] as const)('reads (%s)', (kind) => {
  const newStore = engineStores(kind);

  it('reads through the client, every route, the streams and the dashboard make no spans', async () => {
    const spans = recordSpans();
    const store = await newStore();
    onTestFinished(() => store.remove());
    const perdure = await Perdure.open(await store.open(), {
      logger: silentLogger,
      telemetry: otel({ tracerProvider: spans.provider }),
    });
    onTestFinished(() => perdure.close());
    const { client } = perdure;
    const hello = orchestration('hello', (ctx) => {
      ctx.state.set('count', 1);
      return Promise.resolve('done');
    });
    const job = task('job', () => Promise.resolve('done'), { concurrency: { global: 9 } });
    const parts = flow('parts')
      .step('all', () => [1, 2])
      .map('each', { needs: ['all'], over: ({ all }) => all }, (_ctx, item) => item)
      .output();
    await perdure.startWorker({ orchestrations: [hello], tasks: [job], flows: [parts] });
    const server = await serve(perdure, { port: 0, dashboard: true, flows: [parts] });
    onTestFinished(() => server.close());
    await client.schedules.put('yearly', { cron: '0 0 1 1 *', task: job });
    await (await client.start(hello, undefined, { id: 'a' })).result();
    await (await client.runFlow(parts, undefined, { id: 'flow-1' })).result();
    await (await client.runTask(job)).result();
    const send = (path: string, body: object) =>
      fetch(server.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    await send('/v1/sessions', { id: 'session-1', idleTimeoutMs: 30_000 });
    const submitted = { id: 'job-1', incarnation: 'incarnation-1', kind: 'task', name: 'job' };
    await send('/v1/sessions/session-1/jobs', { jobs: [submitted] });
    await client.wait('job-1');
    // The span of a turn follows its commit.
    const ended = () =>
      spans.finished().filter(({ attributes }) => attributes['perdure.status'] === 'completed');
    await expect.poll(() => ended().length).toBe(2);
    await expect.poll(() => spans.open()).toBe(0);
    const before = spans.finished().length;

    const statuses: Record<string, number> = {};
    const headers = { traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01` };
    for (const name of reads) {
      const { method, path } = routes[name];
      const { query = '', params = { id: 'a' }, body } = requests[name] ?? {};
      const response = await fetch(server.url + writePath(path, { ...params }) + query, {
        method,
        headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      });
      statuses[name] = response.status;
      // One message of a stream.
      if ('as' in routes[name] && routes[name].as === 'events') {
        const reader = response.body?.getReader();
        await reader?.read();
        await reader?.cancel();
      } else await response.text();
    }
    expect(Object.entries(statuses).filter(([, status]) => status !== 200)).toEqual([]);
    expect((await fetch(server.url, { headers: { ...headers, accept: 'text/html' } })).status).toBe(
      200,
    );
    await client.get('a');
    await client.list();
    await client.why('a');
    expect(spans.finished().slice(before)).toEqual([]);
    expect(spans.open()).toBe(0);
  });
});
