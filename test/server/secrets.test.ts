import { expect, it, onTestFinished } from 'vitest';
import { activity, orchestration, Perdure, ProviderError, type Provider } from 'perdure';
import { flow } from 'perdure/flows';
import { serve } from 'perdure/server';
import { openSqlite } from 'perdure/sqlite';
import { openEvents } from './helpers/event-reader.ts';
import { codeOf, describeServer } from './helpers/server-fixture.ts';

const canary = 'canary-9c1e';

function failure(): Error {
  const cause = new Error('the cause');
  cause.stack = `Error: the cause\n    at ${canary}`;
  const error = new Error('It failed.', { cause });
  error.stack = `Error: It failed.\n    at ${canary}`;
  return error;
}

const breaks = activity('breaks', async () => {
  throw failure();
});
const fails = orchestration('fails', (ctx) =>
  ctx.call(breaks, undefined, { retry: { maxAttempts: 1 } }),
);
const broken = flow('broken')
  .step('breaks', { retry: { maxAttempts: 1 } }, () => {
    throw failure();
  })
  .output('breaks');

describeServer('stacks and store errors', (open) => {
  it('failure stacks appear in responses only with showStacks', async () => {
    const worker = { orchestrations: [fails], activities: [breaks], flows: [broken] };
    for (const showStacks of [false, true]) {
      const server = await open({ worker, flows: [broken], showStacks });
      const { ask, send } = server;
      const params = { id: 'f' };
      await ask('startInstance', { body: { name: 'fails', id: 'f' } });
      await ask('startFlow', { params: { name: 'broken' }, body: { id: 'flow' } });
      await ask('openSession', { body: { id: 's', idleTimeoutMs: 30_000 } });
      const incarnation = 'incarnation-1';
      const job = { id: 'j', incarnation, kind: 'orchestration', name: 'fails' } as const;
      await ask('submitJobs', { params: { id: 's' }, body: { jobs: [job] } });
      const jobs = [{ id: 'j', incarnation }];
      await ask('waitForInstance', { params: { id: 'flow' }, query: {} });
      const answers = {
        wait: (await send('waitForInstance', { params })).text,
        waits: (await send('waitForInstances', { body: { ids: ['f'] } })).text,
        get: (await send('getInstance', { params })).text,
        size: (await send('measureInstance', { params })).text,
        list: (await send('listInstances', { query: { payloads: true } })).text,
        history: (await send('getHistory', { params })).text,
        export: (await send('exportHistory', { params })).text,
        flow: (await send('getFlowRun', { params: { id: 'flow' } })).text,
        reply: (await send('waitForJobs', { params: { id: 's' }, body: { jobs } })).text,
        job: (await send('getJob', { params: { id: 's', jobId: 'j' }, query: { incarnation } }))
          .text,
        events: JSON.stringify(
          await (await openEvents(server, 'watchInstance', { params })).rest(),
        ),
      };
      for (const [name, text] of Object.entries(answers)) {
        expect([name, text.includes('It failed.')]).toEqual([name, true]);
        expect([name, text.includes(canary)]).toEqual([name, showStacks]);
      }
    }
  });
});

it('the message of a store error is logged but never sent in a response', async () => {
  const store = await openSqlite({ path: ':memory:' });
  let trouble: Error | undefined;
  const troubled = new Proxy(store, {
    get(target, name: keyof Provider) {
      const value: unknown = Reflect.get(target, name);
      if (name !== 'getInstances' || trouble === undefined) return value;
      const reason = trouble;
      return () => Promise.reject(reason);
    },
  });
  const perdure = await Perdure.open(troubled);
  onTestFinished(() => perdure.close());
  const logged: { requestId?: string; error?: unknown }[] = [];
  const silent = (): undefined => undefined;
  const error = (fields: object): void => void logged.push(fields);
  const logger = { debug: silent, info: silent, warn: silent, error };
  const server = await serve(perdure, { port: 0, logger });
  onTestFinished(() => server.close());
  const secret = `SELECT * FROM secrets at postgres://user:${canary}@host/db`;
  const cases = [
    [
      new ProviderError({ operation: 'getInstances', message: secret, retryable: true }),
      503,
      'PROVIDER',
    ],
    [
      new ProviderError({ operation: 'getInstances', message: secret, retryable: false }),
      500,
      'PROVIDER',
    ],
    [new Error(secret), 500, 'INTERNAL'],
  ] as const;
  for (const [thrown, status, code] of cases) {
    trouble = thrown;
    const response = await fetch(`${server.url}/v1/instances/a`);
    const text = await response.text();
    const json = JSON.parse(text) as { readonly requestId: string };
    const answer = { status: response.status, headers: response.headers, text, json };
    expect([response.status, codeOf(answer)]).toEqual([status, code]);
    expect(text).not.toContain(canary);
    expect(text).not.toContain('SELECT');
    expect(logged.at(-1)).toMatchObject({ requestId: json.requestId, error: thrown });
  }
  trouble = undefined;
  expect((await fetch(`${server.url}/v1/instances/a`)).status).toBe(404);
});

it('the report of a failed sweep contains no store error message', async () => {
  const store = await openSqlite({ path: ':memory:' });
  const troubled = new Proxy(store, {
    get(target, name: keyof Provider) {
      if (name !== 'scanInstances') return Reflect.get(target, name) as unknown;
      const message = `DELETE FROM secrets at postgres://user:${canary}@host/db`;
      return () =>
        Promise.reject(new ProviderError({ operation: name, message, retryable: false }));
    },
  });
  const perdure = await Perdure.open(troubled);
  onTestFinished(() => perdure.close());
  const server = await serve(perdure, { port: 0 });
  onTestFinished(() => server.close());
  const run = await fetch(`${server.url}/v1/retention/run`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ policies: [{ keepFor: '1s' }] }),
  });
  const status = await fetch(`${server.url}/v1/retention`);
  for (const text of [await run.text(), await status.text()]) {
    expect(text).toContain('"outcome":"failed"');
    expect(text).toContain('scanInstances');
    expect(text).not.toContain(canary);
  }
});
