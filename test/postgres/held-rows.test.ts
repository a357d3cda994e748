/** Calls that wait for row locks of another connection, which changes the rows before it commits. */
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import {
  event,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const fetch = { max: 2, lockMs: 600_000, waitMs: 0 };

async function openWithBlocker() {
  const { open, url } = await temporaryStore();
  const provider = await open({ listen: false, answerTimeoutMs: 60_000 });
  const connect = async () => {
    const blocker = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
    await blocker.connect();
    onTestFinished(() => blocker.end());
    return async (sql: string) => (await blocker.query<Record<string, unknown>>(sql)).rows;
  };
  const rows = await connect();
  const untilLockWait = async (): Promise<void> => {
    const waiting = `SELECT 1 FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    await expect.poll(() => rows(waiting), { timeout: 15_000 }).toHaveLength(1);
  };
  return { provider, rows, connect, untilLockWait };
}

/** A claimed run whose row another connection locks. */
async function openWithHeldRun() {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createTasks([newTask('a')]);
  const [item] = await provider.fetchWorkItems(fetch);
  const lockToken = item?.lockToken ?? '';
  const ackAround = async (change: string) => {
    await rows('BEGIN');
    await rows(`SELECT FROM instances FOR NO KEY UPDATE`);
    const outcome = { kind: 'completed', payload: '1' } as const;
    const acking = provider.ackWorkItems([{ lockToken, outcome }]);
    await untilLockWait();
    await rows(change);
    await rows('COMMIT');
    const [result] = await acking;
    return result;
  };
  const state = async () => {
    const [run] = await provider.getInstances(['a']);
    const items = await rows(`SELECT FROM worker_queue`);
    return { status: run?.status, items: items.length };
  };
  return { ackAround, state };
}

it('an ack completes a run whose row is updated while the ack waits', async () => {
  const { ackAround, state } = await openWithHeldRun();
  expect(await ackAround(`UPDATE instances SET custom_status = 'x'`)).toMatchObject({
    ok: true,
    ended: 'completed',
  });
  expect(await state()).toEqual({ status: 'completed', items: 0 });
});

it('an ack ends a run as canceled when a cancel commits while it waits', async () => {
  const { ackAround, state } = await openWithHeldRun();
  const cancel = `UPDATE instances SET status = 'canceling', cancel_requested_at = 1, cancel_reason = 'x';
    UPDATE worker_queue SET cancel_requested = TRUE, cancel_requested_at = 1, cancel_trigger = 'cancel', cancel_reason = 'x'`;
  expect(await ackAround(cancel)).toMatchObject({ ok: true, ended: 'canceled' });
  expect(await state()).toEqual({ status: 'canceled', items: 0 });
});

it('an ack ends a run as canceled when only its work item is flagged', async () => {
  const { ackAround, state } = await openWithHeldRun();
  const flag = `UPDATE worker_queue SET cancel_requested = TRUE, cancel_requested_at = 1, cancel_trigger = 'cancel', cancel_reason = 'x'`;
  expect(await ackAround(flag)).toMatchObject({ ok: true, ended: 'canceled' });
  expect(await state()).toEqual({ status: 'canceled', items: 0 });
});

it('an ack returns LOCK_LOST when another worker claims the run while it waits', async () => {
  const { ackAround, state } = await openWithHeldRun();
  expect(await ackAround(`UPDATE worker_queue SET lock_token = 'other'`)).toMatchObject({
    ok: false,
    error: { code: 'LOCK_LOST' },
  });
  expect(await state()).toEqual({ status: 'running', items: 1 });
});

/** An instance whose last turn is acked while another connection holds a row lock. */
async function openWithTurn() {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  const [created] = await provider.createInstances([
    newInstance('a', {
      incarnation: 'a',
      firstTurn: newTurn({
        turnId: 'first',
        events: [event('begun')],
        workItems: [workItem(1, { claimMs: 600_000 })],
      }),
    }),
  ]);
  if (created?.kind !== 'created') throw new Error(created?.kind);
  const ackAround = async (hold: string, change: string) => {
    await rows('BEGIN');
    await rows(hold);
    const acking = provider.ackTurns([
      {
        instanceKey: created.instanceKey,
        incarnation: 'a',
        executionId: 1,
        lastTurn: 'first',
        lockTokens: created.claimed.map(({ lockToken }) => lockToken),
        turn: newTurn({
          firstEventId: 2,
          events: [event('done')],
          outcome: { status: 'completed', payload: '1' },
        }),
      },
    ]);
    await untilLockWait();
    await rows(change);
    await rows('COMMIT');
    const [result] = await acking;
    return result;
  };
  const state = () =>
    rows(`SELECT status, (SELECT count(*)::int FROM worker_queue) AS items FROM instances`);
  return { ackAround, state };
}

it('a turn ack locks its instance before its items and commits to updated rows', async () => {
  const { ackAround, state } = await openWithTurn();
  const move = `SELECT FROM worker_queue FOR UPDATE NOWAIT; UPDATE worker_queue SET heartbeat = '1';
    UPDATE instances SET custom_status = 'x'`;
  const result = await ackAround('SELECT FROM instances FOR NO KEY UPDATE', move);
  expect(result).toMatchObject({ ok: true });
  expect(await state()).toEqual([{ status: 'completed', items: 0 }]);
});

it('a turn ack commits after another transaction updates its locked work item', async () => {
  const { ackAround, state } = await openWithTurn();
  const move = `UPDATE worker_queue SET heartbeat = '1'`;
  expect(await ackAround('SELECT FROM worker_queue FOR UPDATE', move)).toMatchObject({ ok: true });
  expect(await state()).toEqual([{ status: 'completed', items: 0 }]);
});

it.each(['instances', 'worker_queue'])(
  'a turn ack that waits for %s fails when another worker claims its activity',
  async (table) => {
    const { ackAround, state } = await openWithTurn();
    const claim = `UPDATE worker_queue SET lock_token = 'other'`;
    expect(await ackAround(`SELECT FROM ${table} FOR NO KEY UPDATE`, claim)).toMatchObject({
      ok: false,
    });
    expect(await state()).toEqual([{ status: 'running', items: 1 }]);
  },
);

it('no other worker claims an instance while a turn that keeps its claim is committed', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createInstances([newInstance('a')]);
  const claim = { max: 1, lockMs: 5_000, waitMs: 0 };
  const [item] = await provider.fetchOrchestrationItems(claim);
  const lockToken = item?.lockToken ?? '';
  const keep = (firstEventId: number, messageKeys: readonly number[]) => {
    const turn = newTurn({ firstEventId, turnId: `${firstEventId}`, events: [event('step')] });
    return provider.ackOrchestrationItems([{ lockToken, messageKeys, keep: true, turn }]);
  };
  await keep(1, item?.messages.map(({ messageKey }) => messageKey) ?? []);
  await provider.enqueueMessages([{ instanceId: 'a', message: raised('x') }]);
  // The commit waits for a transaction that may take the place of its event.
  await rows('BEGIN');
  await rows(`INSERT INTO history (instance_key, execution_id, event_id, kind, at, data)
    SELECT instance_key, 1, 2, 'other', 1, '{}' FROM instances`);
  const keeping = keep(2, []);
  await untilLockWait();
  const hasExpired = () =>
    rows(
      `SELECT FROM instance_locks WHERE locked_until < extract(epoch FROM clock_timestamp()) * 1000`,
    );
  await expect.poll(hasExpired).toHaveLength(1);
  expect(await provider.fetchOrchestrationItems(claim)).toEqual([]);
  await rows('ROLLBACK');
  expect(await keeping).toMatchObject([{ ok: true }]);
  const [next] = await provider.fetchOrchestrationItems(claim);
  expect(next?.historyLength).toBe(2);
});

it('a cancel flags an activity that is scheduled and renewed while the cancel waits', async () => {
  const { provider, connect, untilLockWait } = await openWithBlocker();
  const [turn, renewal, laterRenewal] = [await connect(), await connect(), await connect()];
  const renew = (operation: number) =>
    `UPDATE worker_queue SET locked_until = locked_until + 1 WHERE operation = ${operation}`;
  const workItems = [workItem(1, { claimMs: 600_000 })];
  await provider.createInstances([
    newInstance('a', { firstTurn: newTurn({ events: [event('begun')], workItems }) }),
  ]);
  await turn('BEGIN');
  await turn('SELECT FROM instances FOR NO KEY UPDATE');
  const columns =
    'instance_key, next_at, created_at, execution_id, definition_key, claims, lock_token, locked_until';
  await turn(`INSERT INTO worker_queue (operation, ${columns})
    SELECT 2, ${columns} FROM worker_queue`);
  await renewal('BEGIN');
  await renewal(renew(1));
  const request = { instanceId: 'a', reason: 'x', actor: null, cleanupMs: 60_000 };
  const canceling = provider.requestCancel([request]);
  await untilLockWait();
  await turn('COMMIT');
  // The cancel now waits for the first activity. It has not seen the second one.
  await laterRenewal('BEGIN');
  await laterRenewal(renew(2));
  await renewal('COMMIT');
  await untilLockWait();
  await laterRenewal('COMMIT');
  expect(await canceling).toMatchObject([{ found: true, changed: true, status: 'canceling' }]);
  expect(await turn('SELECT operation, cancel_requested FROM worker_queue ORDER BY 1')).toEqual([
    { operation: 1, cancel_requested: true },
    { operation: 2, cancel_requested: true },
  ]);
});

it('batched renewals hold no row lock while they wait for another row', async () => {
  const { provider, rows, untilLockWait } = await openWithBlocker();
  await provider.createTasks([newTask('a'), newTask('b')]);
  await provider.createInstances([newInstance('c'), newInstance('d')]);
  const items = await provider.fetchWorkItems(fetch);
  const turns = await provider.fetchOrchestrationItems(fetch);
  await rows(`SET lock_timeout = 500`);
  for (const { table, key, renewals } of [
    {
      table: 'worker_queue',
      key: 'item_key',
      renewals: () => items.toReversed().map((item) => provider.renewWorkItemLocks([item], 60_000)),
    },
    {
      table: 'instance_locks',
      key: 'instance_key',
      renewals: () =>
        turns
          .toReversed()
          .map(({ lockToken }) => provider.renewOrchestrationLocks([lockToken], 60_000)),
    },
  ]) {
    await rows('BEGIN');
    await rows(`SELECT FROM ${table} ORDER BY ${key} LIMIT 1 FOR UPDATE`);
    const renewing = Promise.all(renewals());
    await untilLockWait();
    try {
      await rows(`SELECT FROM ${table} ORDER BY ${key} FOR UPDATE`);
    } finally {
      await rows('COMMIT');
    }
    expect((await renewing).flat()).toHaveLength(2);
  }
});
