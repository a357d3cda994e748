import { orchestration } from 'perdure';
import { expect, it } from 'vitest';
import { routes } from '../../src/server/routes/table.ts';
import { codeOf, describeServer } from './helpers/server-fixture.ts';
import { review, workload } from './helpers/workload.ts';

describeServer('routes', (open) => {
  const openServer = () => open({ worker: workload, flows: [review] });
  const life = { incarnation: 'incarnation-1' };

  it('instance routes start, wait for, list and measure instances and return history', async () => {
    const { ask } = await openServer();
    expect(
      await ask('startInstance', { body: { name: 'hello', input: 'World', id: 'a' } }),
    ).toEqual({ id: 'a', created: true });
    const params = { id: 'a' };
    const { over, instance } = await ask('waitForInstance', { params, query: {} });
    expect({ over, instance }).toMatchObject({
      over: true,
      instance: { id: 'a', status: 'completed', output: 'Hello, World!' },
    });
    expect(await ask('getInstance', { params })).toEqual({ ...instance, input: 'World' });
    expect(await ask('measureInstance', { params })).toMatchObject({ size: { executions: 1 } });
    expect(
      await ask('listInstances', {
        query: { status: ['completed', 'failed'], limit: 5, payloads: true },
      }),
    ).toEqual({ items: [instance] });
    const { output: _, ...summary } = instance;
    expect(await ask('listInstances', { query: {} })).toEqual({ items: [summary] });
    expect(await ask('listInstances', { query: { orderBy: 'ended' } })).toEqual({
      items: [summary],
    });
    expect(await ask('listInstances', { query: { unregistered: true } })).toEqual({ items: [] });
    const history = await ask('getHistory', { params, query: { limit: 1 } });
    expect(history).toMatchObject({
      items: [{ id: 1, event: { kind: 'executionStarted' } }],
      nextAfter: 1,
    });
    const { events } = await ask('exportHistory', { params, query: {} });
    expect(events.map(({ kind }) => kind)).toEqual([
      'executionStarted',
      'activityScheduled',
      'activityCompleted',
      'executionCompleted',
    ]);
    expect(await ask('listExecutions', { params, query: {} })).toMatchObject({
      items: [{ executionId: 1 }],
    });
    expect(await ask('listRunning', { params })).toEqual({ items: [] });
  });

  it('wait routes return on timeout, on completion and for unknown ids', async () => {
    const { ask } = await openServer();
    await ask('startInstance', { body: { name: 'waits', id: 'w' } });
    const early = await ask('waitForInstance', { params: { id: 'w' }, query: { timeoutMs: 0 } });
    expect(early.over).toBe(false);
    expect(await ask('waitForInstances', { body: { ids: ['w'], timeoutMs: 0 } })).toEqual({
      results: [],
    });
    const waiting = ask('waitForInstances', { body: { ids: ['w', 'w', 'nobody'] } });
    expect(await waiting).toEqual({
      results: [{ id: 'nobody', error: expect.objectContaining({ code: 'INSTANCE_NOT_FOUND' }) }],
    });
    const again = ask('waitForInstances', { body: { ids: ['w'] } });
    await ask('raiseEvent', { params: { id: 'w' }, body: { name: 'approved', payload: 'yes' } });
    expect(await again).toMatchObject({ results: [{ id: 'w', instance: { output: 'yes' } }] });
  });

  it('update routes return the reply, or `pending` and the key to wait with', async () => {
    const { ask, send } = await openServer();
    await ask('startInstance', { body: { name: 'updated', id: 'u' } });
    const params = { id: 'u' };
    expect(await ask('updateInstance', { params, body: { name: 'add', input: 1 } })).toEqual({
      status: 'completed',
      key: expect.any(String) as unknown,
      output: 2,
    });
    const body = { name: 'hold', key: 'k', timeoutMs: 0 };
    const pending = { status: 'pending', key: 'k' };
    expect(await ask('updateInstance', { params, body })).toEqual(pending);
    const updates = [{ id: 'u', key: 'k' }];
    expect(await ask('waitForUpdates', { body: { updates, timeoutMs: 0 } })).toEqual({
      results: [],
    });
    const reply = ask('waitForUpdates', { body: { updates } });
    await ask('raiseEvent', { params, body: { name: 'go', payload: 'now' } });
    expect(await reply).toEqual({ results: [{ id: 'u', key: 'k', output: 'now' }] });
    const unknown = await send('updateInstance', { params, body: { name: 'none' } });
    expect([unknown.status, codeOf(unknown)]).toEqual([400, 'UNKNOWN_UPDATE']);
    const missing = [{ id: 'u', key: 'none' }];
    expect(await ask('waitForUpdates', { body: { updates: missing } })).toMatchObject({
      results: [{ error: { code: 'INSTANCE_NOT_FOUND' } }],
    });
  });

  it('awakeable routes need only the token, answer once, and treat wrong tokens alike', async () => {
    const { ask, send } = await openServer();
    await ask('startInstance', { body: { name: 'woken', id: 'a' } });
    const tokens = (): Promise<readonly string[]> =>
      ask('getInstance', { params: { id: 'a' } }).then(
        ({ customStatus }) => (customStatus ?? []) as readonly string[],
      );
    await expect.poll(tokens).toHaveLength(2);
    const [first = '', second = ''] = await tokens();
    const asNobody = { token: '' };
    const resolve = (token: string, key?: string) =>
      send('resolveAwakeable', { params: { token }, body: { value: 1, key } }, asNobody);
    expect((await resolve(first, 'mine')).status).toBe(200);
    expect((await resolve(first, 'mine')).status).toBe(200);
    const again = await resolve(first);
    expect([again.status, codeOf(again)]).toEqual([409, 'AWAKEABLE_ALREADY_ANSWERED']);
    const wrong = await resolve(`${second.slice(0, -1)}${second.endsWith('A') ? 'B' : 'A'}`);
    expect([wrong.status, codeOf(wrong)]).toEqual([404, 'AWAKEABLE_NOT_FOUND']);
    const large = { reason: 'no', details: 'x'.repeat(40_000) };
    const refused = await send(
      'rejectAwakeable',
      { params: { token: second }, body: large },
      asNobody,
    );
    expect([refused.status, codeOf(refused)]).toEqual([400, 'INVALID_REQUEST']);
    const body = { reason: 'no' };
    const rejected = await send('rejectAwakeable', { params: { token: second }, body }, asNobody);
    expect(rejected.status).toBe(200);
    const { instance } = await ask('waitForInstance', { params: { id: 'a' }, query: {} });
    expect(instance).toMatchObject({ output: [1, 'AWAKEABLE_REJECTED'] });
  });
  it('state routes return values by key, and wait for versions', async () => {
    const notes = orchestration('notes', async (ctx) => {
      ctx.state.set('__proto__', [1]);
      ctx.state.set('big', 'x'.repeat(5_000_000));
      ctx.state.set('huge', 'y'.repeat(5_000_000));
      ctx.setCustomStatus('ready');
      await ctx.waitFor('go');
      ctx.state.set('big', null);
      ctx.setCustomStatus(undefined);
      await ctx.waitFor('end');
    });
    const stateLimits = { valueBytes: 6_000_000 };
    const { ask, send } = await open({ worker: { orchestrations: [notes], stateLimits } });
    await ask('startInstance', { body: { name: 'notes', id: 'n' } });
    const params = { id: 'n' };
    const waits = [
      { id: 'n', key: 'big' },
      { id: 'n', key: 'never' },
      { id: 'unknown' },
      { id: 'n' },
    ];
    await ask('waitForStates', { body: { waits: [{ id: 'n' }] } });
    const { results } = await ask('waitForStates', { body: { waits } });
    expect(results.toSorted((a, b) => a.place - b.place)).toEqual([
      { place: 0, value: expect.stringMatching(/^x+$/), version: 2 },
      { place: 2, error: expect.objectContaining({ code: 'INSTANCE_NOT_FOUND' }) },
      { place: 3, value: 'ready', version: 1 },
    ]);
    const one = await ask('readState', { params, query: { key: '__proto__' } });
    expect(one).toEqual({ items: [{ key: '__proto__', value: [1], version: 1 }] });
    // A page ends at 8 MiB.
    const first = await ask('readState', { params, query: {} });
    expect(first.items.map(({ key }) => key)).toEqual(['__proto__', 'big']);
    expect(first.nextKey).toBe('big');
    const rest = await ask('readState', { params, query: { after: 'big' } });
    expect(rest.items.map(({ key }) => key)).toEqual(['huge']);
    expect(rest).not.toHaveProperty('nextKey');
    // A key that was deleted between two pages.
    const gap = await ask('readState', { params, query: { after: 'c' } });
    expect(gap.items.map(({ key }) => key)).toEqual(['huge']);
    const next = ask('waitForStates', {
      body: {
        waits: [
          { id: 'n', key: 'big', after: 3 },
          { id: 'n', after: 1 },
        ],
      },
    });
    await ask('raiseEvent', { params, body: { name: 'go' } });
    expect((await next).results).toEqual([
      { place: 0, value: null, version: 4 },
      { place: 1, version: 2 },
    ]);
    const body = { waits: [{ id: 'n', after: 2 }], timeoutMs: 0 };
    expect(await ask('waitForStates', { body })).toEqual({ results: [] });
    expect((await send('readState', { params: { id: 'unknown' } })).status).toBe(404);
    expect((await send('readState', { params, query: { key: 'a\nb' } })).status).toBe(400);
    const negative = { waits: [{ id: 'n', after: -1 }] };
    expect((await send('waitForStates', { body: negative })).status).toBe(400);
  });

  it('cancelInstance and terminateInstance record the actor', async () => {
    const { ask } = await openServer();
    for (const id of ['c', 't']) await ask('startInstance', { body: { name: 'waits', id } });
    expect(
      await ask('cancelInstance', {
        params: { id: 'c' },
        body: { reason: 'enough', actor: 'Ada' },
      }),
    ).toMatchObject({ found: true, changed: true });
    expect(await ask('terminateInstance', { params: { id: 't' }, body: {} })).toEqual({
      found: true,
      changed: true,
      status: 'terminated',
    });
    const ended = await ask('waitForInstance', { params: { id: 'c' }, query: {} });
    expect(ended.instance).toMatchObject({
      status: 'canceled',
      cancel: { reason: 'enough', actor: 'admin token: Ada' },
    });
    expect(await ask('getInstance', { params: { id: 't' } })).toMatchObject({
      terminated: { actor: 'admin token' },
    });
    expect(await ask('cancelInstance', { params: { id: 'nobody' }, body: {} })).toEqual({
      found: false,
      changed: false,
      status: null,
    });
  });

  it('tree, prune and delete routes work and are recorded in the audit', async () => {
    const { ask } = await openServer();
    await ask('startInstance', { body: { name: 'parent', id: 'p' } });
    await ask('startInstance', { body: { name: 'counts', input: 3, id: 'n' } });
    for (const id of ['p', 'n']) await ask('waitForInstance', { params: { id }, query: {} });
    expect(await ask('getInstanceTree', { params: { id: 'p' } })).toMatchObject({
      allIds: ['the-child', 'p'],
    });
    expect(
      await ask('pruneExecutions', { params: { id: 'n' }, body: { keepLast: 2, dryRun: true } }),
    ).toMatchObject({ executionsDeleted: 2 });
    expect(await ask('pruneExecutionsBulk', { body: { keepLast: 2 } })).toMatchObject({
      executionsDeleted: 2,
      finished: true,
    });
    expect(await ask('deleteInstance', { params: { id: 'p' }, body: {} })).toMatchObject({
      instancesDeleted: 2,
    });
    expect(
      await ask('deleteInstances', {
        body: { filter: { instanceIds: ['n'], status: 'completed' } },
      }),
    ).toMatchObject({ instancesDeleted: 1, finished: true });
    const { items } = await ask('listAudit', { query: {} });
    expect(items.map(({ action, actor }) => [action, actor])).toEqual([
      ['deleteBulk', 'admin token'],
      ['delete', 'admin token'],
      ['pruneBulk', 'admin token'],
    ]);
  });

  it('a bulk delete or prune without a filter returns 400 unless all is true', async () => {
    const { ask, send, perdure } = await open({ worker: workload });
    const { id } = await perdure.client.start('hello', 'x');
    await perdure.client.wait(id);
    for (const body of [{}, { filter: {} }, { filter: { limit: 9 } }, { all: false }]) {
      for (const route of ['deleteInstances', 'pruneExecutionsBulk'] as const) {
        const answer = await send(route, { body });
        expect([answer.status, codeOf(answer)]).toEqual([400, 'INVALID_OPTION']);
      }
    }
    expect(await ask('deleteInstances', { body: { all: true } })).toMatchObject({
      instancesDeleted: 1,
    });
  });

  it('bulk routes without a condition return 400, and count in a dry run with all: true', async () => {
    const { ask, send, perdure } = await open({ worker: workload });
    const { id } = await perdure.client.start('hello', 'x');
    await perdure.client.wait(id);
    const given = { bulkRetry: { from: 'start' } } as Readonly<Record<string, object>>;
    const names = [
      'bulkCancel',
      'bulkTerminate',
      'bulkRetry',
      'bulkPause',
      'bulkResume',
      'bulkDelete',
      'bulkPrune',
    ] as const;
    for (const route of names) {
      const answer = await send(route, { body: { ...given[route] } });
      expect([answer.status, codeOf(answer)]).toEqual([400, 'INVALID_OPTION']);
      const body = { ...given[route], all: true, dryRun: true } as never;
      const preview = await ask(route, { body });
      expect(preview).toMatchObject({ matched: 1, preview: { byStatus: { completed: 1 } } });
    }
    const filter = { status: ['completed' as const] };
    expect(await ask('bulkRaiseEvent', { body: { filter, name: 'go' } })).toMatchObject({
      changed: 0,
      refused: [{ id, code: 'INSTANCE_OVER' }],
    });
  });

  it('routes of operators count, explain, pause, retry and fork', async () => {
    const { ask, send, perdure } = await open({ worker: workload });
    const { id } = await perdure.client.start('hello', 'x');
    await perdure.client.wait(id);
    const params = { id };
    const status = ['completed' as const];
    expect(await ask('countInstances', { query: { status } })).toEqual({ count: 1, capped: false });
    const definitions = await ask('listDefinitions', {});
    expect(definitions).toMatchObject({
      items: [{ kind: 'orchestration', name: 'hello', counts: { completed: { count: 1 } } }],
    });
    expect(await ask('explainInstance', { params })).toMatchObject({ id, status: 'completed' });
    expect(await ask('explainInstances', { body: { ids: ['nobody', id] } })).toMatchObject({
      items: [{ id, instance: { id, status: 'completed' }, text: 'Completed' }],
    });
    const retried = await send('retryInstance', { params, body: { from: 'start' } });
    expect([retried.status, codeOf(retried)]).toEqual([409, 'INSTANCE_NOT_RETRYABLE']);
    const fork = await ask('forkInstance', { params, body: { from: 'start', id: 'copy' } });
    expect(fork).toEqual({ id: 'copy' });
    expect(await perdure.client.wait('copy')).toMatchObject({ forkedFrom: { id } });
    const ended = { found: true, changed: false, status: 'completed' };
    expect(await ask('pauseInstance', { params, body: {} })).toMatchObject(ended);
    expect(await ask('resumeInstance', { params, body: {} })).toMatchObject(ended);
    const body = { name: 'hello', kind: 'orchestration' as const };
    expect(await ask('pauseDefinition', { body })).toMatchObject({ changed: true });
    expect(await ask('listPausedDefinitions', {})).toMatchObject({ items: [body] });
    expect(await ask('resumeDefinition', { body })).toMatchObject({ changed: true });
    const limited = { name: 'imports' };
    const kind = 'task';
    const change = { kind, concurrency: { global: 2 }, rate: { limit: 5, per: '1s' } } as const;
    expect(await ask('setLimits', { params: limited, body: change })).toMatchObject({
      effective: { global: 2, rate: { limit: 5, perMs: 1_000 } },
    });
    expect(await ask('listLimits', { query: {} })).toMatchObject({ items: [{ name: 'imports' }] });
    expect(await ask('getLimits', { params: limited, query: {} })).toMatchObject({
      limits: { kind, name: 'imports' },
    });
    expect(await ask('listLimitKeys', { params: limited, query: { kind } })).toEqual({ items: [] });
    expect(await ask('resetLimits', { params: limited, body: {} })).toMatchObject({
      effective: {},
    });
    expect(await ask('listWorkers', {})).toMatchObject({ items: [{ status: 'live' }] });
    expect(await ask('listUnclaimedWork', {})).toEqual({ items: [] });
    const { items: queues } = await ask('listQueues', {});
    expect(queues).toContainEqual(expect.objectContaining({ name: 'double', workers: 1 }));
    expect(await ask('getAttention', {})).toMatchObject({ findings: [] });
    const byName = { name: 'nightly' };
    await perdure.client.schedules.put('nightly', { every: '1d', task: 'double', input: 1 });
    expect(await ask('listScheduleRuns', { params: byName, query: {} })).toEqual({ items: [] });
  });

  it('retention routes return, pause, resume and run retention', async () => {
    const { ask } = await openServer();
    await ask('pauseRetention', { body: {} });
    expect(await ask('getRetention', {})).toMatchObject({ paused: { actor: 'admin token' } });
    await ask('resumeRetention', { body: {} });
    expect(await ask('getRetention', {})).toMatchObject({ paused: null });
    const { report } = await ask('runRetention', {
      body: { policies: [{ keepFor: '1d' }, { keepExecutions: 1 }], dryRun: true },
    });
    expect(report).toMatchObject({ dryRun: true, outcome: 'done', sweeper: 'admin token' });
  });

  it('runTask and runTasks run tasks and deduplicate by id', async () => {
    const { ask } = await openServer();
    const body = { task: 'double', input: 4, id: 'd', headers: { trace: '1' }, priority: 3 };
    expect(await ask('runTask', { body })).toEqual({ id: 'd', created: true });
    expect(await ask('runTask', { body })).toEqual({ id: 'd', created: false });
    const { runs } = await ask('runTasks', {
      body: {
        requests: [
          { task: 'double', input: 1 },
          { task: 'double', input: 2, onFail: true },
        ],
      },
    });
    const ids = ['d', ...runs.map(({ id }) => id)];
    const ended = await Promise.all(
      ids.map((id) => ask('waitForInstance', { params: { id }, query: {} })),
    );
    expect(ended.map(({ instance }) => instance.output)).toEqual([8, 2, 4]);
    expect(ended[0]?.instance.task).toMatchObject({ priority: 3, headers: { trace: '1' } });
  });

  it('flow routes list, start and signal flows and return steps and items', async () => {
    const { ask } = await openServer();
    const { items } = await ask('listFlows', {});
    expect(items).toMatchObject([{ name: 'review', graph: { format: 1 } }]);
    const params = { name: 'review' };
    const { id } = await ask('startFlow', { params, body: { input: [1, 2], id: 'f' } });
    await ask('signalFlow', { params: { id }, body: { name: 'approved', payload: 'fine' } });
    const { instance } = await ask('waitForInstance', { params: { id }, query: {} });
    expect(instance.output).toEqual({ doubled: [2, 4], signal: 'fine' });
    const run = await ask('getFlowRun', { params: { id } });
    expect(run.steps.map(({ name, status }) => [name, status])).toEqual([
      ['doubled', 'completed'],
      ['reviewed', 'completed'],
    ]);
    const page = await ask('listFlowItems', { params: { id }, query: { step: 'doubled' } });
    expect(page.items.map(({ output }) => output)).toEqual([2, 4]);
  });

  it('schedule routes put, return, pause, resume and delete schedules', async () => {
    const { ask } = await openServer();
    const params = { name: 'nightly' };
    const put = { params, body: { cron: '0 3 * * *', task: 'double', input: 1, onFail: true } };
    const schedule = await ask('putSchedule', put);
    expect(schedule).toMatchObject({ name: 'nightly', paused: false });
    await ask('putSchedule', {
      params: { name: 'hourly' },
      body: { every: '1h', orchestration: 'hello', input: 'x' },
    });
    expect(await ask('getSchedule', { params })).toEqual(schedule);
    expect((await ask('listSchedules', { query: {} })).items.map(({ name }) => name)).toEqual([
      'hourly',
      'nightly',
    ]);
    const { runs } = await ask('nextRuns', { params, query: { count: 2 } });
    expect(runs).toHaveLength(2);
    await ask('pauseSchedule', { params, body: {} });
    const trigger = { params, body: { key: 'k', reason: 'a test' } };
    expect(await ask('triggerSchedule', trigger)).toEqual({
      id: 'nightly@trigger-k',
      created: true,
    });
    expect(await ask('triggerSchedule', trigger)).toMatchObject({ created: false });
    const window = { from: Date.UTC(2020, 0, 1), to: Date.UTC(2020, 0, 3), limit: 1 };
    expect(await ask('backfillSchedule', { params, body: window })).toEqual({
      started: 1,
      existing: 0,
      nextFrom: Date.UTC(2020, 0, 2, 3),
    });
    expect(await ask('getSchedule', { params })).toMatchObject({ paused: true });
    await ask('resumeSchedule', { params, body: {} });
    expect(await ask('deleteSchedule', { params, body: {} })).toEqual({ deleted: true });
    expect(await ask('deleteSchedule', { params, body: {} })).toEqual({ deleted: false });
  });

  it('session routes open, renew, return, change and end sessions', async () => {
    const { ask } = await openServer();
    const params = { id: 's' };
    const body = { id: 's', label: 'batch', idleTimeoutMs: 30_000, variables: { zone: 'a' } };
    const session = await ask('openSession', { body });
    expect(session).toMatchObject({ id: 's', owner: 'admin token', state: 'open' });
    expect(await ask('openSession', { body })).toEqual(session);
    expect(await ask('keepAlive', { params, body: {} })).toMatchObject({ state: 'open' });
    const set = { zone: null, region: 'b' };
    const changed = await ask('setSessionVariables', { params, body: { set } });
    expect(changed.variables).toEqual({ region: 'b' });
    expect(await ask('getSession', { params })).toMatchObject({ variables: { region: 'b' } });
    const listed = await ask('listSessions', { query: { label: 'batch', state: ['open'] } });
    expect(listed.items).toHaveLength(1);
    expect(await ask('listJobs', { params, query: {} })).toEqual({ items: [] });
    expect(await ask('waitForSession', { params, query: { timeoutMs: 0 } })).toEqual({
      ended: false,
    });
    await ask('shutdownSession', { params, body: { mode: 'graceful' } });
    expect(await ask('waitForSession', { params, query: {} })).toEqual({ ended: true });
  });

  it('job routes submit, wait for, read, take, cancel and abandon jobs', async () => {
    const { ask } = await openServer();
    const params = { id: 's' };
    await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
    const job = (id: string, name: string, input?: unknown) =>
      ({ id, ...life, kind: 'task', name, ...(input !== undefined && { input }) }) as const;
    const { results } = await ask('submitJobs', {
      params,
      body: {
        jobs: [
          job('emitter', 'emits', 3),
          job('canceled', 'endless'),
          job('abandoned', 'endless'),
          { id: 'greeter', ...life, kind: 'orchestration', name: 'hello', input: 'job' },
          { id: 'greeter', incarnation: 'incarnation-2', kind: 'orchestration', name: 'hello' },
        ],
      },
    });
    expect(results).toMatchObject([{}, {}, {}, {}, { error: { code: 'INSTANCE_ALREADY_EXISTS' } }]);
    const keyOf = (id: string) => ({ id, ...life });
    const read = async (after: number) =>
      (await ask('readChunks', { params, body: { reads: [{ ...keyOf('emitter'), after }] } }))
        .pages;
    const seen: unknown[] = [];
    for (let over = false, after = 0; !over;) {
      const [page] = await read(after);
      seen.push(...(page?.chunks.map(({ value }) => value) ?? []));
      after = page?.chunks.at(-1)?.seq ?? after;
      over = page?.over ?? false;
    }
    expect(seen).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(
      await ask('readChunks', { params, body: { reads: [keyOf('canceled')], timeoutMs: 0 } }),
    ).toEqual({ pages: [] });
    const stop = { reason: 'no longer wanted' };
    expect(
      await ask('cancelJobs', { params, body: { jobs: [keyOf('canceled')], ...stop } }),
    ).toMatchObject({
      results: [{ found: true, changed: true }],
    });
    expect(
      await ask('abandonJobs', { params, body: { jobs: [keyOf('abandoned')], ...stop } }),
    ).toMatchObject({ results: [{ found: true, changed: true }] });
    const other = { id: 'greeter', incarnation: 'incarnation-2' };
    expect(await ask('cancelJobs', { params, body: { jobs: [other] } })).toEqual({
      results: [{ found: false, changed: false, status: null }],
    });
    const replies = new Map<string, unknown>();
    for (const id of ['emitter', 'canceled', 'greeter']) {
      const answer = await ask('waitForJobs', { params, body: { jobs: [keyOf(id)] } });
      for (const { reply } of answer.replies) replies.set(id, reply);
    }
    expect(Object.fromEntries(replies)).toMatchObject({
      emitter: { kind: 'completed', output: 3 },
      greeter: { kind: 'completed', output: 'Hello, job!' },
      canceled: {
        kind: 'error',
        error: { code: 'OPERATION_CANCELED', reason: 'no longer wanted' },
      },
    });
    const query = life;
    const shown = await ask('getJob', { params: { id: 's', jobId: 'emitter' }, query });
    expect(shown).toMatchObject({ kind: 'task', status: 'completed' });
    expect((await ask('listJobs', { params, query: {} })).items.length).toBeGreaterThan(0);
    const jobs = ['emitter', 'canceled', 'greeter'].map(keyOf);
    expect(await ask('takeJobs', { params, body: { jobs } })).toEqual({});
    await ask('shutdownSession', { params, body: { mode: 'forceful', leaving: true } });
    expect(await ask('waitForSession', { params, query: {} })).toEqual({ ended: true });
    expect(await ask('listJobs', { params, query: {} })).toEqual({ items: [] });
  });

  it('health, queue, metrics and OpenAPI routes return their documents', async () => {
    const { ask, fetch, send } = await openServer();
    expect(await ask('health', {})).toEqual({ status: 'ok' });
    expect(await ask('live', {})).toEqual({ status: 'ok' });
    expect(await ask('ready', {})).toEqual({ status: 'ok' });
    expect(await ask('queueDepths', {})).toMatchObject({ messages: 0 });
    expect(await ask('getSeries', { query: { name: 'hello' } })).toMatchObject({ items: [] });
    expect(await ask('systemMetrics', {})).toMatchObject({ instances: { completed: 0 } });
    await send('getInstance', { params: { id: 'nobody' } });
    const text = await ask('prometheus', {});
    expect(text).toContain('perdure_instances{status="completed"} 0\n');
    expect(text).toContain('perdure_server_answers_total{route="getInstance",status="404"} 1\n');
    for (const line of text.trimEnd().split('\n')) {
      expect(line).toMatch(
        /^(# (HELP|TYPE) perdure_\w+ .+|perdure_\w+(\{\w+="[\w.+-]+"(,\w+="[\w.+-]+")*\})? [\d.e+-]+)$/,
      );
    }
    expect(await ask('me', {})).toMatchObject({
      name: 'admin token',
      role: 'admin',
      server: { version: expect.stringMatching(/^\d+\.\d+\.\d+/) as string },
      store: { kind: expect.stringMatching(/^(sqlite|postgres)/) as string },
      capabilities: expect.arrayContaining(['deleteInstance']) as string[],
    });
    const document = await ask('openApi', {});
    expect(Object.keys(document['paths'] as object)).toContain('/v1/instances/{id}');
    expect((await fetch('/v1/health')).status).toBe(200);
  });
});

describeServer('views', (open) => {
  it('getTimeline, readTree, getHistory and getFlowGraph return what a viewer shows', async () => {
    const { ask, send, tokens } = await open({ worker: workload, flows: [review] });
    await ask('startInstance', { body: { name: 'parent', id: 'p' } });
    await ask('waitForInstance', { params: { id: 'p' }, query: {} });
    const params = { id: 'p' };
    const { items } = await ask('getTimeline', { params, query: {} });
    expect(items).toMatchObject([
      { operation: 1, kind: 'child', childId: 'the-child', outcome: 'completed' },
    ]);
    const tree = await ask('readTree', { params, query: {} });
    expect(tree.items.map(({ id, depth, status }) => [id, depth, status])).toEqual([
      ['p', 0, 'completed'],
      ['the-child', 1, 'completed'],
    ]);
    const newest = await send('getHistory', {
      params,
      query: { order: 'desc', limit: 1, payloads: 'none' },
    });
    expect(newest.json).toMatchObject({
      items: [{ id: 4, event: { kind: 'executionCompleted', payload: null } }],
      nextBefore: 4,
    });
    const run = await ask('startFlow', { params: { name: 'review' }, body: { input: [1, 2] } });
    await expect
      .poll(async () => (await ask('getFlowGraph', { params: run })).nodes[0]?.status)
      .toBe('completed');
    expect(await ask('getFlowGraph', { params: run })).toMatchObject({
      flow: 'review',
      nodes: [
        { name: 'doubled', kind: 'map', status: 'completed', items: { completed: 2, pending: 0 } },
        { name: 'reviewed', status: 'pending', signal: { name: 'approved', received: false } },
      ],
      edges: [{ from: 'doubled', to: 'reviewed', kind: 'needs' }],
      output: ['reviewed'],
    });
    const read = await send('me', {}, { token: tokens.read });
    expect(read.json).toMatchObject({ name: 'read token', role: 'read' });
    expect(read.text).not.toContain('deleteInstance');
    expect(read.text).toContain('watchInstances');
  });
});

it('every route is used in routes.test.ts or streams.test.ts', async () => {
  const { readFile } = await import('node:fs/promises');
  const read = (name: string) => readFile(new URL(name, import.meta.url), 'utf8');
  const text = (await read('routes.test.ts')) + (await read('streams.test.ts'));
  const missing = Object.keys(routes).filter((name) => !text.includes(`'${name}'`));
  expect(missing).toEqual([]);
});
