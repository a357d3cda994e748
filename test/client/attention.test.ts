import { describe, expect, it, onTestFinished } from 'vitest';
import type { Attention } from '../../src/client/explaining/attention.ts';
import { LocalClient } from '../../src/client/local-client.ts';
import { findAttention } from '../../src/client/explaining/find-attention.ts';
import { readAttention } from '../../src/client/explaining/read-attention.ts';
import { encodeBlockedDetails } from '../../src/model/failures/blocked.ts';
import { newWorker, workItem } from '../../src/testing/conformance/sample-data.ts';
import { StoreUnderTest } from '../../src/testing/conformance/store-under-test.ts';
import { createTask, startTask } from '../../src/testing/conformance/task-helpers.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { engineStores } from '../engine/engine-store.ts';

const failureOf = (message: string, code?: string): string =>
  JSON.stringify({ name: 'E', message, code });

async function fail(store: StoreUnderTest, id: string, failure: string): Promise<void> {
  const { lockToken } = await startTask(store, id, { name: 'mail' }, { tasks: ['mail'] });
  await store.ackWork(lockToken, { kind: 'failed', failure });
}

/** Creates one problem of each kind. Returns the times of their creation. */
async function createProblems(store: StoreUnderTest, client: LocalClient) {
  const { provider, clock } = store;
  await provider.registerWorkers([
    newWorker('lost', { heartbeatMs: 1_000, name: 'lost worker', host: 'h' }),
    newWorker('live', {
      heartbeatMs: 86_400_000,
      name: 'live worker',
      tasks: ['mail', 'resize'],
      leaked: 2,
    }),
  ]);
  const startedAt = clock.now();
  await store.create('stuck');
  const { lockToken } = await store.claimOne();
  const recorded = {
    kind: 'activityScheduled',
    name: 'charge',
    text: 'activity "charge"',
  } as const;
  const details = encodeBlockedDetails({ code: 'NONDETERMINISM', eventId: 2, recorded });
  const blocked = { reason: 'changed', buildId: 'b', details };
  await provider.abandonOrchestrationItems([
    { lockToken, delayMs: 86_400_000, giveBackClaim: true, blocked },
  ]);
  await fail(store, 'f1', failureOf('declined', 'DECLINED'));
  await clock.advance(10);
  await fail(store, 'f2', failureOf('declined again', 'DECLINED'));
  await fail(store, 'f3', failureOf('broken'));
  const failedAt = clock.now();
  const queuedAt = clock.now();
  await createTask(store, 'r1', { name: 'resize' });
  await createTask(store, 'r2', { name: 'resize' });
  await createTask(store, 'x1', { name: 'fax' });
  await client.schedules.put('nightly', { every: '10m', task: 'mail' });
  const { nextAt = 0 } = (await client.schedules.get('nightly')) ?? {};
  await client.pause({ kind: 'task', name: 'pdf' }, { reason: 'printer', actor: 'ada' });
  const pausedAt = clock.now();
  await clock.advance('12m');
  return { startedAt, failedAt, queuedAt, nextAt, pausedAt };
}

describe.each(['SQLite', 'PostgreSQL'] as const)('attention() and queues() on %s', (kind) => {
  const create = engineStores(kind);

  async function open(): Promise<{ store: StoreUnderTest; client: LocalClient }> {
    const clock = new FakeClock();
    const files = await create();
    const provider = await files.open({ clock });
    const client = new LocalClient({ provider, clock });
    onTestFinished(async () => {
      await client.close();
      await provider.close();
      await files.remove();
    });
    return {
      store: new StoreUnderTest({ provider, clock, corrupt: undefined, reopen: undefined }),
      client,
    };
  }

  it('attention() of an empty store finds nothing', async () => {
    const { store, client } = await open();
    expect(await client.attention()).toEqual({ at: store.clock.now(), findings: [] });
  });

  it('attention() finds each kind of problem with its count, age and examples', async () => {
    const { store, client } = await open();
    const times = await createProblems(store, client);
    const { at, findings } = await client.attention();
    expect(at).toBe(store.clock.now());
    expect(findings).toEqual([
      {
        kind: 'blocked',
        count: 1,
        oldestAt: times.startedAt,
        instances: [
          {
            id: 'stuck',
            name: 'sample',
            at: times.startedAt,
            text: 'Blocked: recorded `charge`, issued nothing',
          },
        ],
      },
      {
        kind: 'failed',
        count: 3,
        oldestAt: times.startedAt,
        groups: [
          {
            code: 'DECLINED',
            error: 'E',
            name: 'mail',
            count: 2,
            id: 'f2',
            message: 'declined again',
            at: times.failedAt,
          },
          { error: 'E', name: 'mail', count: 1, id: 'f3', message: 'broken', at: times.failedAt },
        ],
      },
      {
        kind: 'unclaimed',
        count: 1,
        oldestAt: times.queuedAt,
        work: [{ kind: 'task', name: 'fax', dueForMs: at - times.queuedAt, waiting: 1 }],
      },
      { kind: 'leaked', count: 2, workers: [{ id: 'live', name: 'live worker', leaked: 2 }] },
      {
        kind: 'staleWorkers',
        count: 1,
        oldestAt: times.startedAt,
        workers: [{ id: 'lost', name: 'lost worker', host: 'h', lastSeenAt: times.startedAt }],
      },
      {
        kind: 'lateSchedules',
        count: 1,
        oldestAt: times.nextAt,
        schedules: [{ name: 'nightly', reason: 'late', since: times.nextAt }],
      },
      {
        kind: 'oldQueues',
        count: 1,
        oldestAt: times.queuedAt,
        queues: [
          {
            kind: 'task',
            name: 'resize',
            ready: 2,
            delayed: 0,
            claimed: 0,
            paused: 0,
            oldestReadyAt: times.queuedAt,
            workers: 1,
          },
        ],
      },
      {
        kind: 'pausedDefinitions',
        count: 1,
        oldestAt: times.pausedAt,
        definitions: [
          { kind: 'task', name: 'pdf', at: times.pausedAt, reason: 'printer', actor: 'ada' },
        ],
      },
    ]);
    const reads = await readAttention(store.provider);
    const viewer = { maySee: (name: string) => name === 'resize', seesWorkers: false };
    expect(findAttention(reads, viewer).findings.map((one) => one.kind)).toEqual(['oldQueues']);
  });

  it('work of a task that no worker has is listed once, with its runs and its calls', async () => {
    const { store, client } = await open();
    const { provider, clock } = store;
    const calls = [workItem(1, { name: 'task:mail' }), workItem(2, { name: 'task:fax' })];
    await store.begin('a', { workItems: calls });
    await provider.registerWorkers([newWorker('w')]);
    await clock.advance('5s');
    await createTask(store, 'm1', { name: 'mail' });
    await createTask(store, 'm2', { name: 'mail' });
    await clock.advance('10s');
    const mail = { kind: 'task', name: 'mail', dueForMs: 15_000 };
    const fax = { kind: 'task', name: 'fax', dueForMs: 15_000 };
    const unclaimed = await client.unclaimedWork();
    expect(unclaimed).toHaveLength(2);
    expect(unclaimed).toEqual(expect.arrayContaining([mail, fax]));
    const findingOf = ({ findings }: Attention) => findings.find((one) => one.kind === 'unclaimed');
    const all = [
      { ...mail, waiting: 3 },
      { ...fax, waiting: 1 },
    ];
    expect(findingOf(await client.attention())?.work).toEqual(expect.arrayContaining(all));
    // Calls belong to orchestrations, which this viewer does not see.
    const viewer = { maySee: (name: string) => name === 'mail', seesWorkers: false };
    const seen = findingOf(findAttention(await readAttention(provider), viewer));
    expect(seen?.work).toEqual([{ ...mail, waiting: 2 }]);
    await provider.registerWorkers([newWorker('v', { tasks: ['mail', 'fax'] })]);
    expect(await client.unclaimedWork()).toEqual([]);
  });

  it('attention() leaves out failures and lost workers of more than an hour ago', async () => {
    const { store, client } = await open();
    await createProblems(store, client);
    await store.clock.advance('1h');
    const kinds = (await client.attention()).findings.map((one) => one.kind);
    expect(kinds).not.toContain('failed');
    expect(kinds).not.toContain('staleWorkers');
    expect(kinds).toContain('blocked');
  });

  it('attention() finds a schedule whose ticks wait for a run', async () => {
    const { store, client } = await open();
    const { provider, clock } = store;
    await client.schedules.put('s', { every: '10m', task: 'mail', overlap: 'skip' });
    const { id } = await client.schedules.trigger('s', { key: 'k' });
    const [record] = await provider.listSchedules({ limit: 1 });
    const tickAt = clock.now();
    await provider.tickSchedules([
      {
        name: 's',
        revision: record?.revision ?? 0,
        nextAt: clock.now() + 600_000,
        lastTickAt: tickAt,
        instances: [],
        tasks: [],
        error: null,
        whileRunning: { bufferedTicks: [], skipped: 1 },
      },
    ]);
    const { findings } = await client.attention();
    expect(findings).toEqual([
      {
        kind: 'lateSchedules',
        count: 1,
        oldestAt: tickAt,
        schedules: [
          { name: 's', reason: 'overlap', since: tickAt, lastInstanceId: id, skippedTicks: 1 },
        ],
      },
    ]);
    await client.cancel(id);
    expect((await client.attention()).findings).toEqual([]);
  });

  it('queues() lists queues with work first, then idle definitions of live workers', async () => {
    const { store, client } = await open();
    const { provider, clock } = store;
    await provider.registerWorkers([
      newWorker('w1', { tasks: ['mail', 'idle'], activities: ['charge'] }),
      newWorker('w2', { tasks: ['mail'] }),
    ]);
    await client.pause({ kind: 'task', name: 'pdf' }, { reason: 'printer' });
    const at = clock.now();
    await store.begin('a', { workItems: [workItem(1, { name: 'charge' })] });
    await store.claimWork({ names: ['charge'] });
    await createTask(store, 'm', { name: 'mail' });
    await createTask(store, 'p', { name: 'pdf' });
    const none = { ready: 0, delayed: 0, claimed: 0, paused: 0, oldestReadyAt: null };
    const pause = { at, reason: 'printer' };
    const named = (await client.queues()).filter(({ kind: of }) => of !== 'orchestration');
    expect(named).toEqual([
      { kind: 'task', name: 'mail', ...none, ready: 1, oldestReadyAt: at, workers: 2 },
      { kind: 'activity', name: 'charge', ...none, claimed: 1, workers: 1 },
      { kind: 'task', name: 'pdf', ...none, paused: 1, workers: 0, pause },
      { kind: 'task', name: 'idle', ...none, workers: 1 },
    ]);
  });
});
