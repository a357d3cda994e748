/** Deletions on PostgreSQL while another connection holds row locks, and the rows that they leave. */
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { watchStatements } from './helpers/statement-log.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const audit = { auditId: 'one', action: 'delete', actor: 'me', filter: '{}' } as const;
const continued = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;

/** A store, and a second connection that locks and changes its rows. */
async function openWithBlocker() {
  const { open, url } = await temporaryStore();
  const clock = new FakeClock();
  const blocker = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
  blocker.on('error', () => undefined);
  const provider = await open({ clock, listen: false });
  await blocker.connect();
  onTestFinished(() => blocker.end());
  const rows = async (sql: string) => (await blocker.query<Record<string, unknown>>(sql)).rows;
  const untilLockWait = async (): Promise<void> => {
    const waiting = `SELECT 1 FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    await expect.poll(() => rows(waiting)).toHaveLength(1);
  };
  return { provider, clock, open, rows, untilLockWait };
}

async function forceDelete(provider: Provider, instanceIds: readonly string[]) {
  const [result] = await provider.deleteInstancesAtomic([{ instanceIds, force: true, audit }]);
  return result;
}

/** Creates an instance with a child, work items, a timer and two executions. */
async function createTree(provider: Provider, events: number): Promise<readonly string[]> {
  await provider.createInstances([newInstance('root')]);
  const fetch = { max: 1, lockMs: 60_000, waitMs: 0 };
  for (const outcome of [continued, { status: 'running' } as const]) {
    const [item] = await provider.fetchOrchestrationItems(fetch);
    const turn = newTurn({
      events: Array.from({ length: events / 2 }, (_, n) => event(`secret ${n}`)),
      outcome,
      ...(outcome.status === 'running' && {
        children: [child('kid', 1)],
        workItems: [workItem(2, { claimMs: 10_000 }), workItem(3)],
        timers: [{ operation: 4, fireAt: 2_000_000_000_000 }],
      }),
    });
    const messageKeys = (item?.messages ?? []).map(({ messageKey }) => messageKey);
    await provider.ackOrchestrationItems([{ lockToken: item?.lockToken ?? '', messageKeys, turn }]);
  }
  return ['kid', 'root'];
}

const tables = `SELECT table_name AS name,
    (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM ' || quote_ident(table_name), true, true, '')))[1]::text::int AS rows
  FROM information_schema.tables WHERE table_schema = 'perdure'`;

it.each([10, 9_000])(
  'deletion and reclaim of %i events leave only the audit record',
  async (events) => {
    const { provider, clock, rows } = await openWithBlocker();
    const instanceIds = await createTree(provider, events);
    expect(await forceDelete(provider, instanceIds)).toEqual({
      kind: 'deleted',
      counts: {
        instancesDeleted: 2,
        executionsDeleted: 3,
        eventsDeleted: events,
        queueMessagesDeleted: 4,
      },
    });
    // The hash of a start is kept for ten minutes.
    await clock.advance(600_000);
    while ((await provider.reclaimDeleted(1_000)).left);
    const left = (await rows(tables)).filter((table) => table['rows'] !== 0);
    expect(left.map(({ name }) => String(name)).toSorted()).toEqual([
      'audit',
      'definitions',
      'perdure_migrations',
    ]);
  },
);

it('a deletion waits for a running turn and returns orphan for its new child', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createInstances([newInstance('a'), newInstance('b')]);
  await rows('BEGIN');
  await rows(`SELECT FROM instances WHERE instance_id = 'a' FOR NO KEY UPDATE`);
  const deletion = forceDelete(provider, ['a']);
  await untilLockWait();
  await rows(`UPDATE instances SET parent_instance_id = 'a' WHERE instance_id = 'b'`);
  await rows('COMMIT');
  expect(await deletion).toEqual({ kind: 'orphan', instanceId: 'b', parentInstanceId: 'a' });
  expect(await forceDelete(provider, ['b', 'a'])).toMatchObject({
    counts: { instancesDeleted: 2 },
  });
});

it('a deletion returns running when its instance resumes while the deletion waits', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  const firstTurn = newTurn({
    events: [event('x')],
    outcome: { status: 'completed', payload: null },
  });
  await provider.createInstances([newInstance('a', { firstTurn })]);
  await rows('BEGIN');
  await rows(`UPDATE instances SET status = 'running', ended_at = NULL, completed_at = NULL`);
  const deletion = provider.deleteInstancesAtomic([{ instanceIds: ['a'], force: false }]);
  await untilLockWait();
  await rows('COMMIT');
  expect(await deletion).toEqual([{ kind: 'running', instanceId: 'a', status: 'running' }]);
});

it('a worker that claims an item during its deletion gets a cancel hint', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createInstances([
    newInstance('a', { firstTurn: newTurn({ events: [event('x')], workItems: [workItem(1)] }) }),
  ]);
  const flagged: string[] = [];
  provider.hints((hint) => {
    if (hint.kind === 'cancelRequested') flagged.push(...hint.lockTokens);
  });
  await rows('BEGIN');
  const [item] =
    await rows(`UPDATE worker_queue SET lock_token = 'mine', locked_until = next_at + 60000,
    next_at = next_at + 60000 RETURNING item_key`);
  const deletion = forceDelete(provider, ['a']);
  await untilLockWait();
  await rows('COMMIT');
  expect(await deletion).toMatchObject({ counts: { queueMessagesDeleted: 1 } });
  const lockToken = `${String(item?.['item_key'])}.mine`;
  expect(flagged).toEqual([lockToken]);
  expect(await provider.renewWorkItemLocks([{ lockToken }], 60_000)).toEqual([
    { held: false, deleted: true },
  ]);
});

it('enqueueMessages() returns missing when its instance is deleted while it waits', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createInstances([newInstance('a')]);
  await rows('BEGIN');
  await rows('DELETE FROM orchestrator_queue; DELETE FROM instance_locks; DELETE FROM instances');
  const raising = provider.enqueueMessages([{ instanceId: 'a', message: raised('x') }]);
  await untilLockWait();
  await rows('COMMIT');
  expect(await raising).toEqual(['missing']);
  expect(await rows('SELECT FROM orchestrator_queue')).toEqual([]);
});

it('createInstances() waits for a deletion of its id and creates a new instance', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createInstances([newInstance('a')]);
  await rows('BEGIN');
  await rows('DELETE FROM orchestrator_queue; DELETE FROM instance_locks; DELETE FROM instances');
  const starting = provider.createInstances([newInstance('a')]);
  await untilLockWait();
  await rows('COMMIT');
  expect(await starting).toMatchObject([{ kind: 'created' }]);
  expect(await provider.fetchOrchestrationItems({ max: 9, lockMs: 1, waitMs: 0 })).toHaveLength(1);
});

it('concurrent reclaimDeleted() calls reclaim every row once', async () => {
  const { provider, open, rows } = await openWithBlocker();
  const ids = Array.from({ length: 30 }, (_, n) => `i${n}`);
  const events = Array.from({ length: 300 }, (_, n) => event(`${n}`));
  await provider.createInstances(
    ids.map((id) => newInstance(id, { firstTurn: newTurn({ events }) })),
  );
  await provider.deleteInstancesAtomic(ids.map((id) => ({ instanceIds: [id], force: true })));
  const { pendingReclaims } = await provider.systemMetrics();
  expect(pendingReclaims).toBeGreaterThan(4_000);
  const others = [provider, await open({ listen: false }), await open({ listen: false })];
  const taken = await Promise.all(
    others.map(async (one) => {
      let sum = 0;
      for (let left = true; left;) {
        const step = await one.reclaimDeleted(200);
        sum += step.rows;
        ({ left } = step);
      }
      return sum;
    }),
  );
  expect(taken.reduce((sum, one) => sum + one, 0)).toBe(pendingReclaims);
  expect(await rows('SELECT FROM history')).toEqual([]);
});

it('takeLease() succeeds for exactly one of three concurrent callers', async () => {
  const { provider, clock, open } = await openWithBlocker();
  const others = [provider, await open({ clock }), await open({ clock })];
  for (let round = 0; round < 10; round += 1) {
    const lease = { name: `lease ${round}`, leaseMs: 60_000 };
    const taken = await Promise.all(
      others.map((one, index) => one.takeLease({ ...lease, owner: `${index}` })),
    );
    expect(taken.filter(Boolean)).toHaveLength(1);
  }
});

it('deleting a tree of 2,001 instances takes no more statements than two', async () => {
  const { provider, clock } = await openWithBlocker();
  const sent = watchStatements();
  const statements: number[] = [];
  for (const size of [1, 2_000]) {
    const ids = Array.from({ length: size }, (_, n) => `kid ${n}`);
    const children = ids.map((id, n) => child(id, n + 1));
    const workItems = [workItem(9_999, { claimMs: 3_600_000 })];
    const firstTurn = newTurn({ events: [event('x')], children, workItems });
    await provider.createInstances([newInstance('root', { firstTurn })]);
    // The starts of younger instances are recorded, which takes two more statements.
    await clock.advance(600_000);
    sent();
    expect(await forceDelete(provider, [...ids, 'root'])).toMatchObject({
      counts: { instancesDeleted: size + 1, queueMessagesDeleted: size + 1 },
    });
    statements.push(sent().length);
  }
  // The first deletion also inserts the audit record.
  expect(statements).toEqual([15, 14]);
});
