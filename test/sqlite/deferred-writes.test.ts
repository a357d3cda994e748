import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { LockLostError } from '../../src/model/failures/errors.ts';
import { createInstanceStore } from '../../src/providers/sqlite/instances/instances.ts';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';
import { createOrchestrationQueue } from '../../src/providers/sqlite/queues/orchestration-queue.ts';
import { Store } from '../../src/providers/sqlite/store.ts';
import { createWorkQueue } from '../../src/providers/sqlite/queues/work-queue.ts';
import { event, newInstance, newTurn } from '../../src/testing/conformance/sample-data.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

const outcome = { status: 'completed', payload: null } as const;
const fetch = { max: 1_000, lockMs: 60_000, waitMs: 0 };

/** A store whose instances all have a due timer. */
async function openDue(instances: number) {
  let statements = 0;
  const db = new Database(':memory:', { verbose: () => void (statements += 1) });
  migrate(db, 0);
  const clock = new FakeClock();
  const store = new Store({ db, clock, pollMs: 5, busyTimeoutMs: 100 });
  onTestFinished(() => store.close());
  const provider = {
    ...createOrchestrationQueue(store),
    ...createWorkQueue(store),
    ...createInstanceStore(store),
  };
  const timers = [{ operation: 1, fireAt: clock.now() }];
  const ids = Array.from({ length: instances }, (_, index) => `i${index}`);
  const created = await provider.createInstances(
    ids.map((id) => {
      const firstTurn = newTurn({ turnId: id, events: [event('begun')], timers });
      return newInstance(id, { incarnation: id, firstTurn });
    }),
  );
  /** The acks of the turns that the timers trigger. */
  const turns = () =>
    created.map((result, index) => {
      const lastTurn = ids[index] ?? '';
      const turn = newTurn({ firstEventId: 2, events: [event('over')], outcome });
      const instanceKey = result.kind === 'created' ? result.instanceKey : -1;
      const fences = { instanceKey, incarnation: lastTurn, executionId: 1, lastTurn };
      return { ...fences, lockTokens: [], timers: [1], turn };
    });
  const count = (table: string) =>
    db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get();
  const counted = async (action: () => Promise<unknown>): Promise<number> => {
    const before = statements;
    await action();
    return statements - before;
  };
  return { db, provider, turns, count, counted };
}

it('ackTurns() that ends 400 instances takes about five statements per instance', async () => {
  const { provider, turns, count, counted } = await openDue(400);
  const statements = await counted(() => provider.ackTurns(turns()));
  // Five per instance: its row, lock, timer, items and new status.
  expect(statements).toBeLessThan(5 * 400 + 30);
  expect(count('history')).toBe(800);
  expect([count('orchestrator_queue'), count('instance_locks')]).toEqual([0, 0]);
});

it('a claim of 400 instances takes fewer than 30 statements', async () => {
  const { provider, counted } = await openDue(400);
  expect(await counted(() => provider.fetchOrchestrationItems(fetch))).toBeLessThan(30);
});

it('an event id that already exists fails its own turn and no other', async () => {
  const { db, provider, turns, count } = await openDue(30);
  const acks = turns();
  db.prepare(`INSERT INTO history VALUES (?, 1, 2, 'stray', 0, '{}', NULL, NULL)`).run(
    acks[7]?.instanceKey,
  );
  const results = await provider.ackTurns(acks);
  expect(results.flatMap(({ ok }, index) => (ok ? [] : [index]))).toEqual([7]);
  expect(count('history')).toBe(60);
  expect([count('orchestrator_queue'), count('instance_locks')]).toEqual([1, 1]);
});

it('an instance that ends is not claimed or acked again in the same transaction', async () => {
  const { provider } = await openDue(20);
  const items = await provider.fetchOrchestrationItems(fetch);
  const acks = items.map(({ lockToken, messages }) => ({
    lockToken,
    messageKeys: messages.map(({ messageKey }) => messageKey),
    turn: newTurn({ firstEventId: 2, events: [event('over')], outcome }),
  }));
  const [once, again, claimed, enqueued] = await Promise.all([
    provider.ackOrchestrationItems(acks),
    provider.ackOrchestrationItems(acks),
    provider.fetchOrchestrationItems(fetch),
    provider.enqueueMessages([{ instanceId: 'i3', message: newInstance('x').start }]),
  ]);
  expect(once.every(({ ok }) => ok)).toBe(true);
  for (const result of again) {
    expect(result).toMatchObject({ ok: false, error: expect.any(LockLostError) as Error });
  }
  expect(claimed).toEqual([]);
  expect(enqueued).toEqual(['over']);
});
