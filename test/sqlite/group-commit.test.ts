import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/model/clock.ts';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';
import { createInstanceStore } from '../../src/providers/sqlite/instances/instances.ts';
import { createOrchestrationQueue } from '../../src/providers/sqlite/queues/orchestration-queue.ts';
import { createWorkQueue } from '../../src/providers/sqlite/queues/work-queue.ts';
import { Store } from '../../src/providers/sqlite/store.ts';
import {
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';

let statements: string[];
let db: Database.Database;
let store: Store;
let provider: ReturnType<typeof createInstanceStore> &
  ReturnType<typeof createOrchestrationQueue> &
  ReturnType<typeof createWorkQueue>;

beforeEach(() => {
  statements = [];
  db = new Database(':memory:', { verbose: (sql) => statements.push(String(sql)) });
  migrate(db, 0);
  store = new Store({ db, clock: systemClock, pollMs: 5, busyTimeoutMs: 100 });
  provider = {
    ...createInstanceStore(store),
    ...createOrchestrationQueue(store),
    ...createWorkQueue(store),
  };
  statements.length = 0;
});

afterEach(async () => {
  await store.close();
});

const count = (sql: string): number => statements.filter((each) => each === sql).length;

const withFirstTurn = (instanceId: string, operations: readonly number[]) =>
  newInstance(instanceId, {
    firstTurn: newTurn({
      events: [event('started')],
      workItems: operations.map((operation) => workItem(operation)),
    }),
  });

describe('group commit of calls made in one event-loop turn', () => {
  it('51 concurrent calls share one transaction without a savepoint', async () => {
    await Promise.all([
      ...Array.from({ length: 50 }, (_, i) => provider.createInstances([newInstance(`i${i}`)])),
      provider.enqueueMessages([{ instanceId: 'i0', message: raised('x') }]),
    ]);
    expect(count('BEGIN IMMEDIATE')).toBe(1);
    expect(count('COMMIT')).toBe(1);
    expect(count('SAVEPOINT item')).toBe(0);
    expect((await provider.listInstances({ filter: {}, limit: 100 })).instances).toHaveLength(50);
  });

  it('a call sees the writes of earlier calls in its group', async () => {
    const [created, enqueued] = await Promise.all([
      provider.createInstances([newInstance('i')]),
      provider.enqueueMessages([{ instanceId: 'i', message: raised('x') }]),
    ]);
    expect(created).toMatchObject([{ kind: 'created' }]);
    expect(enqueued).toEqual(['enqueued']);
  });

  it('calls settle and hints are emitted only after the commit', async () => {
    const seen: string[] = [];
    const stop = store.wakeUps.listen(({ kind }) =>
      seen.push(`${kind}, open: ${db.inTransaction}`),
    );
    const done = provider
      .createInstances([
        newInstance('i', {
          firstTurn: newTurn({ outcome: { status: 'completed', payload: null } }),
        }),
      ])
      .then(() => seen.push(`settled, open: ${db.inTransaction}`));
    expect(seen).toEqual([]);
    await done;
    stop();
    expect(seen.toSorted()).toEqual([
      'committed, open: false',
      'finished, open: false',
      'settled, open: false',
    ]);
  });

  it('a refused instance is rolled back alone, and the rest of its group commits', async () => {
    const [before, bad, after, message] = await Promise.all([
      provider.createInstances([withFirstTurn('before', [1])]),
      // Two items of one operation violate a unique key between other writes.
      provider.createInstances([withFirstTurn('bad', [1, 1]), withFirstTurn('beside', [1])]),
      provider.createInstances([withFirstTurn('after', [1])]),
      provider.enqueueMessages([{ instanceId: 'before', message: raised('x') }]),
    ]);
    expect([before, bad, after].flat().map(({ kind }) => kind)).toEqual([
      'created',
      'refused',
      'created',
      'created',
    ]);
    expect(message).toEqual(['enqueued']);
    const kept = await provider.getInstances(['before', 'bad', 'beside', 'after']);
    expect(kept.map((record) => record?.status)).toEqual([
      'running',
      undefined,
      'running',
      'running',
    ]);
    expect(db.prepare('SELECT count(*) FROM history').pluck().get()).toBe(3);
    expect(db.prepare('SELECT count(*) FROM worker_queue').pluck().get()).toBe(3);
  });

  it('a definition name of a refused instance can be stored again', async () => {
    const bad = withFirstTurn('bad', [1, 1]);
    const named = { ...bad, name: 'only in bad', firstTurn: { ...bad.firstTurn!, version: '9' } };
    const [refused] = await provider.createInstances([named]);
    expect(refused?.kind).toBe('refused');
    await provider.createInstances([newInstance('other', { name: 'other name' })]);
    const [good] = await provider.createInstances([{ ...named, firstTurn: newTurn() }]);
    expect(good?.kind).toBe('created');
    const [record, other] = await provider.getInstances(['bad', 'other']);
    expect(record?.name).toBe('only in bad');
    expect(other?.name).toBe('other name');
  });

  it('a call whose arguments cannot be stored rejects alone', async () => {
    const hostile = { ...raised('x'), data: {} as string };
    const [good, bad] = await Promise.allSettled([
      provider.createInstances([newInstance('i')]),
      provider
        .enqueueMessages([{ instanceId: 'i', message: hostile }])
        .then((results) => results.length),
    ]);
    expect(good).toMatchObject({ status: 'fulfilled', value: [{ kind: 'created' }] });
    expect(bad).toMatchObject({
      status: 'rejected',
      reason: { code: 'PROVIDER', retryable: false },
    });
    expect(
      await provider.fetchOrchestrationItems({ max: 9, lockMs: 1_000, waitMs: 0 }),
    ).toMatchObject([{ messages: [{ kind: 'start' }] }]);
  });

  it('a fetch with nothing to claim opens no transaction', async () => {
    expect(await provider.fetchWorkItems({ max: 9, lockMs: 1_000, waitMs: 0 })).toEqual([]);
    expect(await provider.ackWorkItems([])).toEqual([]);
    expect(count('BEGIN IMMEDIATE')).toBe(0);
  });
});

describe('a full database', () => {
  it('a full database rejects the whole group as retryable and recovers with space', async () => {
    await provider.createInstances([newInstance('before')]);
    db.pragma(`max_page_count = ${Number(db.pragma('page_count', { simple: true })) + 2}`);
    const large = newInstance('large', {
      start: { ...raised('x'), payload: JSON.stringify('x'.repeat(100_000)) },
    });
    const results = await Promise.allSettled([
      provider.createInstances([newInstance('beside')]),
      provider.createInstances([large]),
    ]);
    for (const result of results) {
      expect(result).toMatchObject({
        status: 'rejected',
        reason: { code: 'PROVIDER', operation: 'createInstances', retryable: true },
      });
    }
    const ids = ['before', 'beside', 'large'];
    const kept = await provider.getInstances(ids);
    expect(kept.map((record) => record?.instanceId)).toEqual(['before', undefined, undefined]);
    db.pragma('max_page_count = 1000000');
    const again = await provider.createInstances([newInstance('beside'), large]);
    expect(again.map(({ kind }) => kind)).toEqual(['created', 'created']);
  });
});

describe('close()', () => {
  it('close() completes pending calls and rejects later ones with CLOSED', async () => {
    const created = provider.createInstances([newInstance('i')]);
    const waiting = provider.fetchWorkItems({ max: 1, lockMs: 1, waitMs: 60_000 });
    const closed = store.close();
    expect(await created).toMatchObject([{ kind: 'created' }]);
    expect(await waiting).toEqual([]);
    await closed;
    await store.close();
    const closedError = { code: 'CLOSED' };
    await expect(provider.createInstances([])).rejects.toMatchObject(closedError);
    await expect(provider.getInstances(['i'])).rejects.toMatchObject(closedError);
    await expect(provider.fetchWorkItems({ max: 1, lockMs: 1, waitMs: 0 })).rejects.toMatchObject(
      closedError,
    );
  });

  it('close() ends concurrent fetches, and those that reject have code CLOSED', async () => {
    await provider.createInstances([newInstance('i')]);
    const fetches = Array.from({ length: 5 }, async (_, delay) => {
      for (let i = 0; i < delay; i++) await Promise.resolve();
      return provider.fetchOrchestrationItems({ max: 1, lockMs: 1, waitMs: 60_000 });
    });
    await Promise.resolve();
    await store.close();
    for (const result of await Promise.allSettled(fetches)) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'CLOSED' });
    }
  });
});
