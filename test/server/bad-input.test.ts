import { describe, expect, it } from 'vitest';
import { codeOf, describeServer, openServer, type TestServer } from './helpers/server-fixture.ts';
import { workload } from './helpers/workload.ts';

describe('invalid requests', () => {
  const post = (
    server: TestServer,
    body: string | Uint8Array<ArrayBuffer>,
    path = '/v1/instances',
  ) =>
    server.fetch(path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.tokens.admin}`,
        'content-type': 'application/json',
      },
      body,
    });

  it('a body that is not JSON returns 400 INVALID_REQUEST', async () => {
    const server = await openServer();
    const bodies = [
      '',
      '{',
      '{"name":}',
      'null trailing',
      '{"name":"a",}',
      "{'name':'a'}",
      '\uFEFF{"name":"a"}x',
      '[',
      'NaN',
    ];
    for (const body of bodies) {
      const answer = await post(server, body);
      expect([body, answer.status, codeOf(answer)]).toEqual([body, 400, 'INVALID_REQUEST']);
    }
    const broken = await post(server, Uint8Array.from([0x22, 0xff, 0xfe, 0x22]));
    expect([broken.status, broken.text.includes('UTF-8')]).toEqual([400, true]);
  });

  it('a body with wrong, unknown or missing fields returns 400 with the path', async () => {
    const { send } = await openServer();
    const cases: readonly (readonly [unknown, string])[] = [
      [null, 'body'],
      [[], 'body'],
      ['text', 'body'],
      [{}, 'body.name'],
      [{ name: 7 }, 'body.name'],
      [{ name: ['a'] }, 'body.name'],
      [{ name: 'a', id: null }, 'body.id'],
      [{ name: 'a', nmae: 'b' }, 'body'],
      [{ name: 'a', constructor: 'b' }, 'body'],
      [{ name: 'a', id: 'x'.repeat(1_001) }, 'body.id'],
    ];
    for (const [body, path] of cases) {
      const { status, json } = await send('startInstance', { body: body ?? 'null' });
      const { error } = json as {
        readonly error: { readonly issues: { readonly path: string }[] };
      };
      expect([body, status, error.issues[0]?.path]).toEqual([body, 400, path]);
    }
    const many = await send('runTasks', {
      body: { requests: Array.from({ length: 900 }, () => ({ task: 1 })) },
    });
    expect(many.text.length).toBeLessThan(5_000);
  });

  it('invalid, repeated or unknown query parameters return 400', async () => {
    const server = await openServer();
    const headers = { authorization: `Bearer ${server.tokens.read}` };
    const bad = [
      'limit=0',
      'limit=1001',
      'limit=1e2',
      'limit=',
      'limit=5&limit=6',
      'status=lost',
      'blocked=yes',
      'createdFrom=yesterday',
      'unknown=1',
      '__proto__=1',
      'constructor=1',
      'cursor=%00',
      'cursor=k!',
      'limit=99999999999999999999',
    ];
    for (const query of bad) {
      const { status } = await server.fetch(`/v1/instances?${query}`, { headers });
      expect([query, status]).toEqual([query, 400]);
    }
    const none = await server.fetch('/v1/queues?x=1', { headers });
    expect([none.status, codeOf(none)]).toEqual([400, 'INVALID_REQUEST']);
  });

  it('any valid id works in a path, and an invalid one returns INVALID_ID', async () => {
    const { send, ask } = await openServer({ worker: workload });
    const good = [
      '.',
      '..',
      '~',
      '~x',
      'a/b',
      'a b',
      'ü',
      '😀',
      '%2F',
      '?x=1',
      '#',
      'a%',
      '__proto__',
      'constructor',
      'wait',
    ];
    for (const id of good) {
      await ask('startInstance', { body: { name: 'hello', input: 'x', id } });
      expect(await ask('getInstance', { params: { id } })).toMatchObject({ id });
    }
    for (const id of ['a\u0000b', "a'b", 'a"b', 'a\nb', '\u2028']) {
      const answer = await send('getInstance', { params: { id } });
      expect([id, answer.status, codeOf(answer)]).toEqual([id, 400, 'INVALID_ID']);
    }
  });

  it('a path with invalid percent-encoding returns 404', async () => {
    const { fetch, tokens } = await openServer();
    const headers = { authorization: `Bearer ${tokens.admin}` };
    for (const path of [
      '/v1/instances/%',
      '/v1/instances/%zz',
      '/v1/instances/%ff',
      '/v1/instances/%c0%ae',
    ]) {
      expect([path, (await fetch(path, { headers })).status]).toEqual([path, 404]);
    }
  });

  it('a __proto__ key returns 400, and a constructor key is accepted as data', async () => {
    const server = await openServer({ worker: workload });
    const spelled = [
      '{"name":"hello","input":{"__proto__":{"polluted":1}}}',
      '{"name":"hello","input":{"\\u005f_proto__":1}}',
      '{"__proto__":{"name":"hello"}}',
    ];
    for (const body of spelled) {
      const answer = await post(server, body);
      expect([body, answer.status]).toEqual([body, 400]);
    }
    const fine = await post(
      server,
      '{"name":"hello","input":{"constructor":{"prototype":{"x":1}},"u":"\\u00fc"}}',
    );
    expect(fine.status).toBe(200);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('a body nested 200,000 levels deep returns 400', async () => {
    const server = await openServer();
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const deep = open.repeat(200_000) + '1' + close.repeat(200_000);
      const { status } = await post(server, `{"name":"hello","input":${deep}}`);
      expect(status).toBe(400);
    }
  });

  it('errors of the client are returned with their code and HTTP status', async () => {
    const { send } = await openServer();
    const answers = [
      await send('putSchedule', { params: { name: 's' }, body: { cron: 'never', task: 't' } }),
      await send('putSchedule', { params: { name: 's' }, body: { task: 't' } }),
      await send('runTask', { body: { task: 't', priority: 1_000 } }),
      await send('runTask', { body: { task: 't', delay: '5 parsecs' } }),
      await send('startInstance', { body: { name: 'x', input: 'y'.repeat(2 * 1024 * 1024) } }),
      await send('getInstance', { params: { id: 'nobody' } }),
      await send('startFlow', { params: { name: 'nothing' }, body: {} }),
      await send('runRetention', { body: {} }),
      await send('nextRuns', { params: { name: 'nothing' } }),
      await send('deleteInstance', { params: { id: 'nobody' }, body: {} }),
    ];
    expect(answers.map((answer) => [answer.status, codeOf(answer)])).toEqual([
      [400, 'INVALID_SCHEDULE'],
      [400, 'INVALID_SCHEDULE'],
      [400, 'INVALID_OPTION'],
      [400, 'INVALID_DURATION'],
      [413, 'PAYLOAD_TOO_LARGE'],
      [404, 'INSTANCE_NOT_FOUND'],
      [404, 'UNREGISTERED'],
      [400, 'INVALID_OPTION'],
      [404, 'SCHEDULE_NOT_FOUND'],
      [404, 'INSTANCE_NOT_FOUND'],
    ]);
  });

  it('a start with headers, tags or an event beyond their limits returns 400 and creates nothing', async () => {
    const { send, perdure } = await openServer();
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, 'x']));
    const bombs = [
      { headers: many(33) },
      { headers: many(5_000) },
      { headers: { big: 'x'.repeat(10_000) } },
      { headers: { ['n'.repeat(200)]: 'x' } },
      { headers: { 'line\nbreak': 'x' } },
      { headers: { half: '\ud800' } },
      { headers: { number: 5 } },
      { headers: [] },
      { tags: many(17) },
      { tags: { big: 'x'.repeat(300) } },
      { event: { name: '' } },
      { event: { name: 'e', key: 'k'.repeat(5_000) } },
      { onConflict: 'replace' },
      { onConflict: 'reject', replaceKey: 'key' },
    ];
    for (const options of bombs) {
      const { status, text } = await send('startInstance', {
        body: { name: 'hello', id: 'bomb', ...options },
      });
      expect([Object.keys(options), status]).toEqual([Object.keys(options), 400]);
      expect(text.length).toBeLessThan(5_000);
    }
    expect(await perdure.client.get('bomb')).toBeUndefined();
  });
});

describeServer('sessions and jobs of other tokens', (open) => {
  const life = { incarnation: 'incarnation-1' };

  it('another token gets FORBIDDEN for a session and cannot stop its jobs', async () => {
    const { send, ask, tokens, perdure } = await open({ worker: workload });
    const params = { id: 'mine' };
    await ask('openSession', { body: { id: 'mine', idleTimeoutMs: 30_000 } });
    const submit = { jobs: [{ id: 'job', ...life, kind: 'task', name: 'endless' }] };
    await send('submitJobs', { params, body: submit });
    const key = { jobs: [{ id: 'job', ...life }] };
    const as = { token: tokens.operate };
    const refused = await Promise.all([
      send('submitJobs', { params, body: submit }, as),
      send('keepAlive', { params, body: {} }, as),
      send('shutdownSession', { params, body: { mode: 'forceful' } }, as),
      send('setSessionVariables', { params, body: { set: { a: 'b' } } }, as),
      send('abandonJobs', { params, body: key }, as),
      send('cancelJobs', { params, body: key }, as),
      send('takeJobs', { params, body: key }, as),
      send('waitForJobs', { params, body: key }, as),
      send('readChunks', { params, body: { reads: key.jobs } }, as),
      send('getJob', { params: { id: 'mine', jobId: 'job' }, query: life }, as),
      send('openSession', { body: { id: 'mine', idleTimeoutMs: 30_000 } }, as),
    ]);
    expect(refused.map((answer) => [answer.status, codeOf(answer)])).toEqual(
      refused.map(() => [403, 'FORBIDDEN']),
    );
    const theirs = { id: 'theirs' };
    await send('openSession', { body: { id: 'theirs', idleTimeoutMs: 30_000 } }, as);
    const tried = await send('abandonJobs', { params: theirs, body: key }, as);
    expect(tried.json).toEqual({ results: [{ found: false, changed: false, status: null }] });
    expect(await perdure.client.get('job')).not.toHaveProperty('cancel');
    expect((await ask('getSession', { params })).state).toBe('open');
    await ask('shutdownSession', { params: theirs, body: { mode: 'forceful' } });
  });

  it('the key of a job does not let another session read its stream', async () => {
    const { send, ask, tokens } = await open({ worker: workload });
    const [mine, theirs] = [{ id: 'mine' }, { id: 'theirs' }];
    const as = { token: tokens.operate };
    await ask('openSession', { body: { id: 'mine', idleTimeoutMs: 30_000 } });
    await send('openSession', { body: { id: 'theirs', idleTimeoutMs: 30_000 } }, as);
    const submit = {
      jobs: [{ id: 'job', ...life, kind: 'task' as const, name: 'emits', input: 3 }],
    };
    await ask('submitJobs', { params: mine, body: submit });
    await ask('waitForJobs', { params: mine, body: { jobs: [{ id: 'job', ...life }] } });
    const reads = [{ id: 'job', ...life, after: 2 }];
    const tried = await send('readChunks', { params: theirs, body: { reads } }, as);
    expect(tried.json).toEqual({ pages: [{ id: 'job', ...life, chunks: [], over: true }] });
    const streamed = await send(
      'streamJob',
      { params: { id: 'theirs', jobId: 'job' }, body: { ...life, after: 2 } },
      as,
    );
    expect(streamed.text).not.toContain('chunk');
    const own = { reads: [{ id: 'job', ...life }] };
    const { pages } = await ask('readChunks', { params: mine, body: own });
    expect(pages[0]?.chunks.map(({ seq }) => seq)).toEqual([1, 2, 3]);
    for (const params of [mine, theirs]) {
      await ask('shutdownSession', { params, body: { mode: 'forceful' } });
    }
  });

  it('invalid session calls return SESSION_NOT_FOUND, SESSION_CLOSED, INVALID_INPUT or INVALID_NAME', async () => {
    const { send, ask } = await open();
    const params = { id: 's' };
    const missing = await send('keepAlive', { params, body: {} });
    expect([missing.status, codeOf(missing)]).toEqual([404, 'SESSION_NOT_FOUND']);
    await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
    const pending = { jobs: [{ id: 'j', ...life, kind: 'task', name: 'nobody-runs-it' }] } as const;
    await send('submitJobs', { params, body: pending });
    await ask('shutdownSession', { params, body: { mode: 'graceful' } });
    const late = await ask('submitJobs', {
      params,
      body: { jobs: [{ id: 'late', ...life, kind: 'task', name: 'nobody-runs-it' }] },
    });
    expect(late.results).toMatchObject([{ error: { code: 'SESSION_CLOSED' } }]);
    expect(await ask('keepAlive', { params, body: {} })).toMatchObject({ state: 'draining' });
    await ask('shutdownSession', { params, body: { mode: 'forceful' } });
    expect((await ask('waitForSession', { params, query: {} })).ended).toBe(true);
    const bad: readonly object[] = [
      { idleTimeoutMs: 4_999 },
      { idleTimeoutMs: 10_800_001 },
      { idleTimeoutMs: 5_000.5 },
      { label: '' },
      { variables: { a: 1 } },
      { variables: { 'a\u0000b': 'c' } },
      { variables: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`v${n}`, ''])) },
      { owner: 'somebody else' },
    ];
    for (const fields of bad) {
      const body = { id: 'x', idleTimeoutMs: 30_000, ...fields };
      expect([fields, (await send('openSession', { body })).status]).toEqual([fields, 400]);
    }
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`v${n}`, '']));
    await ask('openSession', { body: { id: 'full', idleTimeoutMs: 30_000, variables: many } });
    const set = async (variables: Readonly<Record<string, string | null>>) => {
      const answer = await send('setSessionVariables', {
        params: { id: 'full' },
        body: { set: variables },
      });
      return [answer.status, codeOf(answer)];
    };
    expect(await set({ another: '' })).toEqual([400, 'INVALID_INPUT']);
    expect(await set({ 'a\u0000b': '' })).toEqual([400, 'INVALID_NAME']);
    expect(await set({ v0: null, another: '' })).toEqual([200, undefined]);
    await ask('shutdownSession', { params: { id: 'full' }, body: { mode: 'forceful' } });
  });
});
