/**
 * Every operator action is recorded: through the local client, and over HTTP with and without authentication. A cancel or a
 * terminate of the local client without an actor is a request of a program, and not recorded.
 */
import { expect, onTestFinished, test } from 'vitest';
import { orchestration, Perdure, type Client } from 'perdure';
import { auditActions, type AuditAction } from '../../src/providers/contract/management.ts';
import { serve } from '../../src/server/serve.ts';
import { describeRemote, type OpenRemote } from './describe-remote.ts';

const waits = orchestration('waits', async (ctx) => ctx.waitFor('go'));
const fails = orchestration('fails', async () => {
  throw new Error('on purpose');
});
const eternal = orchestration('eternal', async (ctx, rounds: number): Promise<unknown> => {
  if (rounds > 0) return ctx.continueAsNew(rounds - 1);
  return ctx.waitFor('go');
});
const orchestrations = [waits, fails, eternal];
const nightly = { orchestration: 'waits', cron: '0 0 * * *' } as const;

type Operator = Pick<
  Client,
  | 'cancel'
  | 'terminate'
  | 'retry'
  | 'fork'
  | 'pause'
  | 'limits'
  | 'resume'
  | 'deleteInstance'
  | 'deleteInstanceBulk'
  | 'pruneExecutions'
  | 'pruneExecutionsBulk'
  | 'retention'
  | 'schedules'
  | 'sessions'
  | 'bulk'
>;

/** One call per action, without an actor. `a` to `j` wait for an event, `f` and `g` have failed, `p` and `q` continued. */
const actions: Readonly<Record<AuditAction, (client: Operator) => Promise<unknown>>> = {
  cancel: (client) => client.cancel('a', { reason: 'late' }),
  cancelBulk: (client) => client.bulk.cancel({ idPrefix: 'b' }, { reason: 'late' }),
  terminate: (client) => client.terminate('c', { reason: 'late' }),
  terminateBulk: (client) => client.bulk.terminate({ idPrefix: 'd' }, { reason: 'late' }),
  raiseEventBulk: (client) => client.bulk.raiseEvent({ idPrefix: 'e' }, 'go'),
  retry: (client) => client.retry('f', { from: 'start', reason: 'again' }),
  retryBulk: (client) => client.bulk.retry({ idPrefix: 'g' }, { from: 'start' }),
  fork: (client) => client.fork('c', { from: 'start', id: 'fork', reason: 'again' }),
  pause: (client) => client.pause('h', { reason: 'late' }),
  resume: (client) => client.resume('h', { reason: 'late' }),
  pauseBulk: (client) => client.bulk.pause({ idPrefix: 'i' }),
  resumeBulk: (client) => client.bulk.resume({ idPrefix: 'i' }),
  prune: (client) => client.pruneExecutions('p', { keepLast: 1 }),
  pruneBulk: (client) =>
    client.pruneExecutionsBulk({ name: 'eternal' }, { keepLast: 1, includeRunning: true }),
  delete: (client) => client.deleteInstance('c'),
  deleteBulk: (client) => client.deleteInstanceBulk({ instanceIds: ['d'] }),
  retentionPause: (client) => client.retention.pause(),
  retentionResume: (client) => client.retention.resume(),
  retention: (client) => client.retention.run({ policies: [{ names: 'fails', keepFor: 0 }] }),
  schedulePut: (client) => client.schedules.put('nightly', nightly),
  schedulePause: (client) => client.schedules.pause('nightly'),
  scheduleResume: (client) => client.schedules.resume('nightly'),
  trigger: (client) => client.schedules.trigger('nightly', { key: 't' }),
  backfill: (client) =>
    client.schedules.backfill('nightly', { from: Date.now() - 3 * 86_400_000, to: Date.now() }),
  scheduleDelete: (client) => client.schedules.delete('nightly'),
  sessionShutdown: (client) => client.sessions.shutdown('session', 'forceful'),
  limitsSet: (client) =>
    client.limits.set({ kind: 'task', name: 'sync' }, { concurrency: { global: 1 } }),
  limitsReset: (client) => client.limits.reset('sync'),
};

async function arrange({ perdure }: Awaited<ReturnType<OpenRemote>>): Promise<void> {
  const { client } = perdure;
  for (const id of ['a', 'b', 'c', 'd', 'e', 'h', 'i'])
    await client.start(waits, undefined, { id });
  for (const id of ['f', 'g', 'gone']) {
    const handle = await client.start(fails, undefined, { id });
    await expect(handle.result()).rejects.toThrow('on purpose');
  }
  for (const id of ['p', 'q']) await client.start(eternal, 2, { id });
  for (const id of ['p', 'q']) {
    await expect
      .poll(async () => (await client.listExecutions(id)).items.length, { timeout: 20_000 })
      .toBe(3);
  }
  for (const id of ['a', 'b', 'c', 'd', 'e', 'h', 'i']) {
    await expect
      .poll(async () => (await client.get(id))?.status, { timeout: 20_000 })
      .toBe('running');
  }
  const session = await client.openSession({ label: 'session' });
  onTestFinished(() => session.close());
}

/** Calls every action and returns `action actor` of the records, oldest first. */
async function recordsOf(operator: Operator, local: Client): Promise<readonly string[]> {
  for (const call of Object.values(actions)) await call(operator);
  const { items } = await local.listAudit({ limit: 100 });
  // A sweep without an actor has a generated one, because it is also the name in the report.
  const nameOf = (actor: string | null) =>
    actor === null || /^client \S+$/.test(actor) ? 'null' : actor;
  return items.map(({ action, actor }) => `${action} ${nameOf(actor)}`).toReversed();
}

const recorded = (actor: string) => Object.keys(actions).map((action) => `${action} ${actor}`);

describeRemote('the audit of every operator action', (open) => {
  test('records each action of the local client once; stops only with an actor', async () => {
    const remote = await open({ orchestrations });
    await arrange(remote);
    const { client } = remote.perdure;
    const stops = ['cancel null', 'terminate null'];
    expect(await recordsOf(client, client)).toEqual(
      recorded('null').filter((record) => !stops.includes(record)),
    );
    await client.start(waits, undefined, { id: 'x' });
    await client.cancel('x', { actor: 'ann' });
    await client.terminate('x', { actor: 'ann' });
    const { items } = await client.listAudit({ actor: 'ann' });
    expect(items.map(({ action }) => action)).toEqual(['terminate', 'cancel']);
    expect(Object.keys(actions).toSorted()).toEqual(auditActions.toSorted());
  });

  test('records each request to a server without authentication once, with the actor anonymous', async () => {
    const remote = await open({ orchestrations });
    await arrange(remote);
    const server = await serve(remote.perdure, { port: 0 });
    onTestFinished(() => server.close());
    const connection = await Perdure.connect(server.url);
    onTestFinished(() => connection.close());
    const records = await recordsOf(connection.client, remote.perdure.client);
    expect(records).toEqual(recorded('anonymous'));
  });

  test('records each request with a token once, with the name of the token', async () => {
    const remote = await open({ orchestrations });
    await arrange(remote);
    expect(await recordsOf(remote.client, remote.perdure.client)).toEqual(recorded('tester'));
  });

  test('an action that changes nothing is not recorded', async () => {
    const { client, perdure } = await open({ orchestrations });
    await (await perdure.client.start(waits, undefined, { id: 'a' })).terminate();
    const before = (await perdure.client.listAudit()).items.length;
    await client.cancel('a');
    await client.terminate('a');
    expect(await client.pause('a')).toMatchObject({ changed: false, status: 'terminated' });
    await client.bulk.cancel({ idPrefix: 'a' });
    await client.schedules.delete('unknown');
    await client.retention.resume();
    expect((await perdure.client.listAudit()).items).toHaveLength(before);
  });
});
