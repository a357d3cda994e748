import { expect, it } from 'vitest';
import { createToken } from 'perdure/server';
import { openEvents } from './helpers/event-reader.ts';
import {
  codeOf,
  describeServer,
  type TestServer,
  type TestServerOptions,
} from './helpers/server-fixture.ts';
import { workload } from './helpers/workload.ts';

const incarnation = 'incarnation-1';
const admin = createToken();

/** Opens a server with two operate tokens, each with a session, and a job in the first session. */
async function openWithJob(open: (options?: TestServerOptions) => Promise<TestServer>) {
  const [ann, ben, eve] = [createToken(), createToken(), createToken()];
  const server = await open({
    worker: workload,
    tokens: [
      { name: 'ann', role: 'operate', sha256: ann.sha256 },
      { name: 'ben', role: 'operate', sha256: ben.sha256 },
      { name: 'eve', role: 'read', sha256: eve.sha256 },
      { name: 'root', role: 'admin', sha256: admin.sha256 },
    ],
  });
  const root = admin.token;
  const as = (token: string) => ({ token });
  for (const [id, token] of [
    ['of-ann', ann.token],
    ['of-ben', ben.token],
  ] as const) {
    const body = { id, idleTimeoutMs: 60_000, variables: { secret: `of ${id}` } };
    expect((await server.send('openSession', { body }, as(token))).status).toBe(200);
  }
  const job = { id: 'job', incarnation, kind: 'task', name: 'endless' } as const;
  const sent = { params: { id: 'of-ann' }, body: { jobs: [job] } };
  expect((await server.send('submitJobs', sent, as(ann.token))).json).toEqual({ results: [{}] });
  return { server, ann: ann.token, ben: ben.token, eve: eve.token, root, job };
}

describeServer('job isolation between tokens', (open) => {
  it('a job cannot be stopped, waited for or read through another session', async () => {
    const { server, ann, ben, job } = await openWithJob(open);
    const { send, perdure } = server;
    const jobs = [{ id: 'job', incarnation }];
    const through = { params: { id: 'of-ben' }, body: { jobs } };
    const notFound = { results: [{ found: false, changed: false, status: null }] };
    // The id and the incarnation are not secret: an export contains both.
    const asBen = { token: ben };
    expect((await send('cancelJobs', through, asBen)).json).toEqual(notFound);
    expect((await send('abandonJobs', through, asBen)).json).toEqual(notFound);
    expect((await send('takeJobs', through, asBen)).status).toBe(200);
    // A repeated submit finds the job but gives no access to it.
    await send('submitJobs', { params: { id: 'of-ben' }, body: { jobs: [job] } }, asBen);
    expect((await send('cancelJobs', through, asBen)).json).toEqual(notFound);
    expect((await send('waitForJobs', through, asBen)).json).toMatchObject({
      replies: [{ id: 'job', reply: { kind: 'error', error: { code: 'INSTANCE_NOT_FOUND' } } }],
    });
    const one = { params: { id: 'of-ben', jobId: 'job' }, query: { incarnation } };
    expect(codeOf(await send('getJob', one, asBen))).toBe('INSTANCE_NOT_FOUND');
    const read = { params: { id: 'of-ben' }, body: { reads: jobs } };
    expect((await send('readChunks', read, asBen)).json).toMatchObject({
      pages: [{ chunks: [], over: true }],
    });
    expect(await perdure.client.get('job')).not.toHaveProperty('cancel');
    // The owner can cancel it through its own session.
    const own = { params: { id: 'of-ann' }, body: { jobs } };
    expect((await send('cancelJobs', own, { token: ann })).json).toMatchObject({
      results: [{ found: true, changed: true }],
    });
    expect((await send('waitForJobs', own, { token: ann })).json).toMatchObject({
      replies: [{ reply: { kind: 'error', error: { code: 'OPERATION_CANCELED' } } }],
    });
  });

  it('a run that is not a job cannot be canceled through a session', async () => {
    const { server, ben } = await openWithJob(open);
    const { send, perdure } = server;
    await perdure.client.start('waits', undefined, { id: 'plain' });
    const exported = await perdure.client.exportHistory('plain');
    const jobs = [{ id: 'plain', incarnation: exported.incarnation }];
    const through = { params: { id: 'of-ben' }, body: { jobs } };
    expect((await send('cancelJobs', through, { token: ben })).json).toEqual({
      results: [{ found: false, changed: false, status: null }],
    });
    expect(await perdure.client.get('plain')).not.toHaveProperty('cancel');
  });

  it('a job whose reply was taken keeps its status and ignores cancels', async () => {
    const { server, ann } = await openWithJob(open);
    const { send } = server;
    const params = { id: 'of-ann' };
    const done = { id: 'done', incarnation, kind: 'task', name: 'double', input: 2 } as const;
    await send('submitJobs', { params, body: { jobs: [done] } }, { token: ann });
    const jobs = [{ id: 'done', incarnation }];
    const reply = { replies: [{ reply: { kind: 'completed', output: 4 } }] };
    const asAnn = { token: ann };
    expect((await send('waitForJobs', { params, body: { jobs } }, asAnn)).json).toMatchObject(
      reply,
    );
    await send('takeJobs', { params, body: { jobs } }, asAnn);
    const one = { params: { id: 'of-ann', jobId: 'done' }, query: { incarnation } };
    expect((await send('getJob', one, asAnn)).json).toMatchObject({ status: 'completed' });
    for (const route of ['cancelJobs', 'abandonJobs'] as const) {
      expect((await send(route, { params, body: { jobs } }, asAnn)).json).toEqual({
        results: [{ found: true, changed: false, status: 'completed' }],
      });
    }
  });

  it('session variables are returned only to the owner and to admins', async () => {
    const { server, ann, ben, eve, root } = await openWithJob(open);
    const { send } = server;
    const shownTo = async (token: string): Promise<readonly unknown[]> => {
      const one = await send('getSession', { params: { id: 'of-ann' } }, { token });
      const list = await send('listSessions', { query: {} }, { token });
      const { items } = list.json as { items: { id: string }[] };
      return [one.json, items.find(({ id }) => id === 'of-ann')];
    };
    const secret = { variables: { secret: 'of of-ann' } };
    for (const token of [ann, root]) {
      for (const shown of await shownTo(token)) {
        expect(shown).toMatchObject(secret);
        expect(shown).not.toHaveProperty('variablesHidden');
      }
    }
    for (const token of [ben, eve]) {
      for (const shown of await shownTo(token)) {
        expect(shown).toMatchObject({ variables: {}, variablesHidden: true, owner: 'ann' });
        expect(JSON.stringify(shown)).not.toContain('of of-ann');
      }
    }
  });

  it('streamJob through a session of another token returns 403', async () => {
    const { server, ben } = await openWithJob(open);
    const events = await openEvents(
      { ...server, tokens: { ...server.tokens, admin: ben } },
      'streamJob',
      { params: { id: 'of-ann', jobId: 'job' }, body: { incarnation } },
    );
    expect(events.status).toBe(403);
  });
});
