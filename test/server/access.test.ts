import { describe, expect, it } from 'vitest';
import { orchestration, type Why } from 'perdure';
import { createToken } from 'perdure/server';
import type { RouteShape } from '../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../src/server/routes/table.ts';
import { openEvents } from './helpers/event-reader.ts';
import {
  allRoles,
  codeOf,
  openServer,
  type TestResponse,
  type Parts,
} from './helpers/server-fixture.ts';
import { review } from './helpers/workload.ts';

const all = Object.entries<RouteShape>(routes) as [RouteName, RouteShape][];

/** Request parts with a valid path and an invalid body, so that an admitted request changes nothing. */
function harmless({ params }: RouteShape): Parts {
  const names = Object.keys(params?.shape ?? {});
  return {
    params: Object.fromEntries(names.map((name) => [name, 'nobody'])),
    body: { unknownField: 1 },
  };
}

describe('roles and routes', () => {
  it('each route admits exactly the roles that its table lists', async () => {
    const { send, tokens } = await openServer({ limits: { wrongTokensPerMinute: 10_000 } });
    const seen: Record<string, readonly string[]> = {};
    const wanted: Record<string, readonly string[]> = {};
    for (const [name, shape] of all) {
      // An admitted stream stays open until the timeout.
      const signal = (): AbortSignal => AbortSignal.timeout(shape.as === 'events' ? 300 : 30_000);
      const isLetIn = async (token: string): Promise<boolean> => {
        try {
          const { status } = await send(name, harmless(shape), { token, signal: signal() });
          return status !== 401 && status !== 403;
        } catch (error) {
          if ((error as Error).name === 'TimeoutError') return true;
          throw error;
        }
      };
      const letIn: string[] = (await isLetIn('')) ? ['anybody'] : [];
      for (const role of allRoles) if (await isLetIn(tokens[role])) letIn.push(role);
      seen[name] = letIn;
      const { role } = shape;
      wanted[name] =
        role === 'public' ? ['anybody', ...allRoles] : allRoles.slice(allRoles.indexOf(role));
    }
    expect(seen).toEqual(wanted);
  });

  it('only health and awakeables are public, and every changing route requires operate or admin', () => {
    const open = all.filter(([, { role }]) => role === 'public').map(([name]) => name);
    // The token of an awakeable is the right to answer it.
    expect(open).toEqual(['resolveAwakeable', 'rejectAwakeable', 'health', 'live', 'ready']);
    const reading = all.filter(([, { method, role }]) => method === 'POST' && role === 'read');
    // They only read, and are a POST because many ids do not fit into a URL.
    expect(reading.map(([name]) => name)).toEqual([
      'waitForInstances',
      'explainInstances',
      'watchInstances',
      'waitForStates',
    ]);
    const administering = all.filter(([, { role }]) => role === 'admin').map(([name]) => name);
    expect(administering.filter((name) => /^(delete|prune|runRetention)/.test(name))).toHaveLength(
      6,
    );
  });

  it('unknown paths return 404 and unsupported methods 405, even for an admin', async () => {
    const { fetch, tokens } = await openServer();
    const headers = { authorization: `Bearer ${tokens.admin}` };
    for (const path of [
      '/',
      '/v1',
      '/v1/',
      '/v2/instances',
      '/v1/instances/',
      '/v1/instances//wait',
      '/v1/instances/a/b/c',
      '/V1/instances',
      '//v1/instances',
      '/v1/%69nstances',
    ]) {
      const answer = await fetch(path, { headers });
      expect([path, answer.status, codeOf(answer)]).toEqual([path, 404, 'NO_SUCH_ROUTE']);
    }
    for (const method of ['HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const { status, headers: answered } = await fetch('/v1/instances', { method, headers });
      expect([method, status]).toEqual([method, 405]);
      expect(answered.get('allow')).toBe('GET, POST');
    }
  });
});

/** How a route treats a token restricted to definitions. */
type Treatment =
  /** Returns 404 for an instance or schedule of another definition. */
  | 'instance'
  | 'schedule'
  /** Rejects the name of another definition. */
  | 'names'
  /** Returns or changes only data of its definitions. */
  | 'filtered'
  /** Rejects the token, because the route concerns the whole store. */
  | 'denied'
  /** Admits only its own sessions and their jobs. */
  | 'session'
  /** Returns nothing about definitions. */
  | 'open';

const treatments: Readonly<Record<RouteName, Treatment>> = {
  startInstance: 'names',
  listInstances: 'filtered',
  countInstances: 'filtered',
  listDefinitions: 'filtered',
  getInstance: 'instance',
  measureInstance: 'instance',
  waitForInstance: 'instance',
  waitForInstances: 'filtered',
  waitForStates: 'filtered',
  readState: 'instance',
  raiseEvent: 'instance',
  updateInstance: 'instance',
  waitForUpdates: 'filtered',
  resolveAwakeable: 'open',
  rejectAwakeable: 'open',
  getInstanceTree: 'instance',
  getHistory: 'instance',
  exportHistory: 'instance',
  listExecutions: 'instance',
  listRunning: 'instance',
  explainInstance: 'instance',
  explainInstances: 'filtered',
  watchInstance: 'instance',
  cancelInstance: 'filtered',
  terminateInstance: 'filtered',
  retryInstance: 'instance',
  forkInstance: 'instance',
  pauseInstance: 'instance',
  resumeInstance: 'instance',
  listPausedDefinitions: 'filtered',
  pauseDefinition: 'names',
  resumeDefinition: 'names',
  listLimits: 'filtered',
  getLimits: 'names',
  setLimits: 'names',
  resetLimits: 'names',
  listLimitKeys: 'names',
  deleteInstance: 'instance',
  bulkCancel: 'names',
  bulkTerminate: 'names',
  bulkRetry: 'names',
  bulkPause: 'names',
  bulkResume: 'names',
  bulkRaiseEvent: 'names',
  bulkDelete: 'names',
  bulkPrune: 'names',
  deleteInstances: 'filtered',
  pruneExecutions: 'instance',
  pruneExecutionsBulk: 'filtered',
  listAudit: 'denied',
  getRetention: 'denied',
  pauseRetention: 'denied',
  resumeRetention: 'denied',
  runRetention: 'denied',
  runTask: 'names',
  runTasks: 'names',
  listFlows: 'filtered',
  startFlow: 'names',
  getFlowRun: 'instance',
  getFlowGraph: 'instance',
  listFlowItems: 'instance',
  signalFlow: 'instance',
  listSchedules: 'filtered',
  getSchedule: 'schedule',
  putSchedule: 'names',
  pauseSchedule: 'schedule',
  resumeSchedule: 'schedule',
  deleteSchedule: 'schedule',
  nextRuns: 'schedule',
  listScheduleRuns: 'schedule',
  triggerSchedule: 'schedule',
  backfillSchedule: 'schedule',
  openSession: 'open',
  listSessions: 'filtered',
  getSession: 'session',
  keepAlive: 'session',
  shutdownSession: 'session',
  waitForSession: 'session',
  setSessionVariables: 'session',
  listJobs: 'session',
  submitJobs: 'session',
  waitForJobs: 'session',
  takeJobs: 'session',
  abandonJobs: 'session',
  cancelJobs: 'session',
  getJob: 'session',
  readChunks: 'session',
  streamJob: 'session',
  health: 'open',
  live: 'open',
  ready: 'open',
  listWorkers: 'denied',
  listUnclaimedWork: 'denied',
  getSeries: 'names',
  queueDepths: 'denied',
  listQueues: 'filtered',
  getAttention: 'filtered',
  systemMetrics: 'denied',
  prometheus: 'denied',
  openApi: 'open',
  watchChanges: 'filtered',
  watchHistory: 'instance',
  streamInstance: 'instance',
  getTimeline: 'instance',
  readTree: 'instance',
  watchInstances: 'filtered',
  me: 'open',
};

/** Returns a valid request of each route that names data of another definition. */
function ofOthers(name: RouteName): Parts {
  const incarnation = 'incarnation-1';
  const jobs = [{ id: 'theirs', incarnation }];
  const bodies: Partial<Record<RouteName, object>> = {
    startInstance: { name: 'payroll', id: 'new' },
    raiseEvent: { name: 'approved' },
    updateInstance: { name: 'raise', timeoutMs: 0 },
    waitForUpdates: { updates: [{ id: 'theirs', key: 'k' }], timeoutMs: 0 },
    watchInstances: { ids: ['theirs'] },
    explainInstances: { ids: ['theirs'] },
    signalFlow: { name: 'approved', timeoutMs: 0 },
    runTask: { task: 'payroll' },
    runTasks: { requests: [{ task: 'hello' }, { task: 'payroll' }] },
    putSchedule: { orchestration: 'payroll', every: '1d' },
    backfillSchedule: { from: 0, to: 1 },
    openSession: { id: 'mine-too', idleTimeoutMs: 60_000 },
    shutdownSession: { mode: 'forceful' },
    setSessionVariables: { set: {} },
    submitJobs: { jobs: [{ id: 'j', incarnation, kind: 'task', name: 'hello' }] },
    waitForJobs: { jobs, timeoutMs: 0 },
    takeJobs: { jobs },
    abandonJobs: { jobs },
    cancelJobs: { jobs },
    readChunks: { reads: jobs, timeoutMs: 0 },
    streamJob: { incarnation },
    waitForInstances: { ids: ['theirs'], timeoutMs: 0 },
    waitForStates: { waits: [{ id: 'theirs' }], timeoutMs: 0 },
    retryInstance: { from: 'start' },
    forkInstance: { from: 'start' },
    pauseDefinition: { name: 'payroll' },
    resumeDefinition: { name: 'payroll' },
    setLimits: { kind: 'task', concurrency: { global: 1 } },
    bulkCancel: { filter: { name: 'payroll' } },
    bulkTerminate: { filter: { name: 'payroll' } },
    bulkRaiseEvent: { filter: { name: 'payroll' }, name: 'approved' },
    bulkDelete: { filter: { name: 'payroll' } },
    bulkPrune: { filter: { name: 'payroll' } },
    bulkRetry: { filter: { name: ['payroll'] }, from: 'start' },
    bulkPause: { filter: { name: ['payroll'] } },
    bulkResume: { filter: { name: ['payroll'] } },
    deleteInstances: { all: true },
    pruneExecutionsBulk: { all: true },
  };
  const queries: Partial<Record<RouteName, Readonly<Record<string, unknown>>>> = {
    waitForInstance: { timeoutMs: 0 },
    waitForSession: { timeoutMs: 0 },
    getJob: { incarnation },
    listFlowItems: { step: 'doubled' },
  };
  const { params } = routes[name] as RouteShape;
  const names = Object.keys(params?.shape ?? {});
  return {
    params: Object.fromEntries(
      names.map((one) => [one, name === 'startFlow' ? 'review' : 'theirs']),
    ),
    ...(queries[name] !== undefined && { query: queries[name] }),
    body: bodies[name] ?? {},
  };
}

describe('a token restricted to definitions', () => {
  const restricted = createToken();
  const open = createToken();
  const tokens = [
    {
      name: 'restricted',
      role: 'admin',
      sha256: restricted.sha256,
      definitions: ['hello', 'wait*'],
    },
    { name: 'open', role: 'admin', sha256: open.sha256 },
  ] as const;
  const theirs = { token: open.token };
  const mine = { token: restricted.token };

  async function openBoth() {
    const server = await openServer({ tokens, flows: [review] });
    const { client } = server.perdure;
    await client.start('payroll', 'private', { id: 'theirs' });
    await client.start('waits', undefined, { id: 'mine' });
    await client.schedules.put('theirs', { orchestration: 'payroll', every: '1d' });
    await client.schedules.put('mine', { orchestration: 'hello', every: '1d' });
    for (const [id, as] of [
      ['theirs', theirs],
      ['mine', mine],
    ] as const) {
      const body = { id, idleTimeoutMs: 60_000 };
      expect((await server.send('openSession', { body }, as)).status).toBe(200);
    }
    return server;
  }

  it('a restricted token reads and changes nothing of another definition on any route', async () => {
    const { send, perdure } = await openBoth();
    const seen: Partial<Record<RouteName, string>> = {};
    for (const [name, shape] of all) {
      const signal = AbortSignal.timeout(shape.as === 'events' ? 500 : 30_000);
      let answer: TestResponse | undefined;
      try {
        answer = await send(name, ofOthers(name), { ...mine, signal });
      } catch (error) {
        // An admitted stream stays open.
        if ((error as Error).name !== 'TimeoutError') throw error;
      }
      const { status = 200, text = '' } = answer ?? {};
      expect([name, text]).not.toEqual([name, expect.stringContaining('private')]);
      const code = answer === undefined ? undefined : codeOf(answer);
      const isNamed = treatments[name] === 'names';
      if (status === 200) {
        seen[name] = treatments[name] === 'open' ? 'open' : 'filtered';
        expect([name, text]).not.toEqual([name, expect.stringContaining('payroll')]);
      } else if (status === 404 && code === 'INSTANCE_NOT_FOUND') seen[name] = 'instance';
      else if (status === 404 && code === 'AWAKEABLE_NOT_FOUND') seen[name] = 'open';
      else if (status === 404 && code === 'SCHEDULE_NOT_FOUND') seen[name] = 'schedule';
      else if (status === 404 && code === 'SESSION_NOT_FOUND') seen[name] = 'session';
      else if (status === 403 && text.includes('belongs to another token')) seen[name] = 'session';
      else if (status === 403 && isNamed) seen[name] = 'names';
      else if (status === 403 && text.includes('all definitions')) seen[name] = 'denied';
      else seen[name] = `${status} ${text}`;
    }
    expect(seen).toEqual(treatments);
    // The rejected requests changed nothing.
    const info = await perdure.client.get('theirs');
    expect(info).toMatchObject({ status: 'pending' });
    expect(info).not.toHaveProperty('cancel');
    expect(await perdure.client.schedules.get('theirs')).toMatchObject({ paused: false });
    expect(await perdure.client.get('new')).toBeUndefined();
    expect(await perdure.client.sessions.get('theirs')).toMatchObject({ state: 'open' });
  });

  it('why() shows a restricted token no name and state of a child of another definition', async () => {
    const payroll = orchestration('payroll', (ctx) => ctx.waitFor('paid'));
    const family = orchestration('waits-for-family', (ctx) =>
      ctx.all([
        ctx.child(payroll, undefined, { id: 'c1' }),
        ctx.child('waits', undefined, { id: 'c2' }),
      ]),
    );
    const middle = orchestration('waits', (ctx) => ctx.child(payroll, undefined, { id: 'g1' }));
    const worker = { orchestrations: [payroll, family, middle] };
    const { send, perdure } = await openServer({ tokens, worker });
    await perdure.client.start(family, undefined, { id: 'family' });
    await expect.poll(async () => (await perdure.client.get('g1'))?.status).toBe('running');
    const request = { params: { id: 'family' } };
    await expect
      .poll(async () => (await send('explainInstance', request, theirs)).text)
      .toContain('`payroll`');
    const answer = await send('explainInstance', request, mine);
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain('payroll');
    const { waits } = answer.json as Why;
    expect(waits).toMatchObject([
      { kind: 'child', id: 'c1' },
      { kind: 'child', id: 'c2', name: 'waits', text: 'Waiting for child `g1`.' },
    ]);
    expect(waits[0]).not.toHaveProperty('status');
    expect(waits[0]).not.toHaveProperty('name');
  });

  it('a restricted token can use every definition that its patterns match', async () => {
    const { send, perdure } = await openBoth();
    const { client } = perdure;
    const started = await send('startInstance', { body: { name: 'hello', id: 'h' } }, mine);
    expect(started.json).toEqual({ id: 'h', created: true });
    expect((await send('getInstance', { params: { id: 'mine' } }, mine)).json).toMatchObject({
      name: 'waits',
    });
    const list = await send('listInstances', { query: { limit: 1 } }, mine);
    expect(list.json).toMatchObject({ items: [{ id: 'h' }] });
    const { nextCursor } = list.json as { nextCursor: string };
    const rest = await send('listInstances', { query: { cursor: nextCursor } }, mine);
    expect(rest.json).toMatchObject({ items: [{ id: 'mine' }] });
    expect((await send('listInstances', { query: { name: 'payroll' } }, mine)).json).toEqual({
      items: [],
    });
    expect((await send('listSchedules', { query: {} }, mine)).json).toMatchObject({
      items: [{ name: 'mine' }],
    });
    expect((await send('listSessions', { query: {} }, mine)).json).toMatchObject({
      items: [{ id: 'mine' }],
    });
    expect((await send('listFlows', {}, mine)).json).toEqual({ items: [] });
    const canceled = await send('cancelInstance', { params: { id: 'mine' } }, mine);
    expect(canceled.json).toMatchObject({ found: true, changed: true });
    const hidden = await send('cancelInstance', { params: { id: 'theirs' } }, mine);
    expect(hidden.json).toEqual({ found: false, changed: false, status: null });
    expect((await client.get('mine'))?.status).toBe('canceled');
  });

  it('startInstance with an id of another definition returns 409 without naming it', async () => {
    const { send } = await openBoth();
    const body = { name: 'hello', id: 'theirs' };
    const answer = await send('startInstance', { body }, mine);
    expect([answer.status, codeOf(answer)]).toEqual([409, 'INSTANCE_ALREADY_EXISTS']);
    expect(answer.text).not.toContain('payroll');
  });

  it('a restricted token cannot replace a schedule of another definition', async () => {
    const { send, perdure } = await openBoth();
    const parts = { params: { name: 'theirs' }, body: { orchestration: 'hello', every: '1d' } };
    expect((await send('putSchedule', parts, mine)).status).toBe(403);
    expect(await perdure.client.schedules.get('theirs')).toMatchObject({
      definition: { starts: { name: 'payroll' } },
    });
  });

  it('submitJobs accepts jobs of allowed definitions and returns FORBIDDEN for others', async () => {
    const { send } = await openBoth();
    const job = { incarnation: 'incarnation-1', kind: 'task' } as const;
    const jobs = [
      { ...job, id: 'a', name: 'hello' },
      { ...job, id: 'b', name: 'payroll' },
    ];
    const answer = await send('submitJobs', { params: { id: 'mine' }, body: { jobs } }, mine);
    expect(answer.json).toMatchObject({ results: [{}, { error: { code: 'FORBIDDEN' } }] });
  });

  it('a bulk delete with a restricted token never deletes another definition', async () => {
    const { send, perdure } = await openBoth();
    for (const id of ['theirs', 'mine']) await perdure.client.cancel(id);
    const remove = (body: object) => send('deleteInstances', { body }, mine);
    expect((await remove({})).status).toBe(400);
    for (const name of ['payroll', '*', 'p*', ['hello', 'payroll'], 'wai*']) {
      expect([name, (await remove({ filter: { name } })).status]).toEqual([name, 403]);
    }
    const byId = await remove({ filter: { instanceIds: ['theirs'] } });
    expect(byId.json).toMatchObject({ instancesDeleted: 0 });
    const narrow = await remove({ filter: { name: 'wait-*' } });
    expect(narrow.json).toMatchObject({ instancesDeleted: 0 });
    expect((await remove({ all: true })).json).toMatchObject({ instancesDeleted: 1 });
    expect(await perdure.client.get('theirs')).toBeDefined();
  });

  it('watchChanges sends a restricted token only the ends of its instances', async () => {
    const server = await openBoth();
    const asMine = { ...server, tokens: { ...server.tokens, admin: restricted.token } };
    const events = await openEvents(asMine, 'watchChanges');
    expect(await events.raw()).toBe(': open');
    await server.perdure.client.cancel('theirs');
    await server.perdure.client.cancel('mine');
    expect(await events.next()).toEqual({ kind: 'ended', ids: ['mine'] });
    events.close();
  });

  it('listInstances with a restricted token returns payloads in pages of at most 8 MiB', async () => {
    const makes = (name: string) => orchestration(name, async () => 'y'.repeat(1_900_000));
    const worker = { orchestrations: [makes('payroll'), makes('waits')] };
    const server = await openServer({ tokens, worker });
    const { client } = server.perdure;
    for (let n = 0; n < 6; n += 1) {
      for (const name of ['payroll', 'waits']) await (await client.start(name, undefined)).result();
    }
    let query: Readonly<Record<string, unknown>> = { payloads: true };
    let count = 0;
    for (;;) {
      const { json, text } = await server.send('listInstances', { query }, mine);
      expect(text.length).toBeLessThan(8.5 * 1024 * 1024);
      const { items, nextCursor } = json as { items: { name: string }[]; nextCursor?: string };
      expect(items.every(({ name }) => name === 'waits')).toBe(true);
      count += items.length;
      if (nextCursor === undefined) break;
      query = { payloads: true, cursor: nextCursor };
    }
    expect(count).toBe(6);
  });

  it('watchChanges sends a restricted token only the custom statuses of its instances', async () => {
    const shows = (name: string) =>
      orchestration(name, async (ctx) => {
        ctx.setCustomStatus('shown');
        await ctx.waitFor('never');
      });
    const worker = { orchestrations: [shows('payroll'), shows('waits')] };
    const server = await openServer({ tokens, worker });
    const asMine = { ...server, tokens: { ...server.tokens, admin: restricted.token } };
    const events = await openEvents(asMine, 'watchChanges');
    expect(await events.raw()).toBe(': open');
    const { client } = server.perdure;
    await client.start('payroll', undefined, { id: 'theirs' });
    await expect.poll(async () => (await client.get('theirs'))?.customStatus).toBe('shown');
    await client.start('waits', undefined, { id: 'mine' });
    expect(await events.next()).toEqual({ kind: 'changed', ids: ['mine'] });
    events.close();
  });
});
