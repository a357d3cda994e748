import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { workItem } from '../../sample-data.ts';
import { expectCommitted, expectRefused } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import {
  collectFinished,
  createTasks,
  expectStatus,
  expectTokenRejected,
  failure,
  newTask,
  outcomes,
  startTask,
} from '../../task-helpers.ts';

export const taskAcks: Capability = {
  title: 'task acks',
  cases: [
    {
      id: 'task-ack/completes-a-run',
      title: 'a completed run has output and endedAt, and emits finished once',
      async run(store) {
        const finished = collectFinished(store);
        const { lockToken } = await startTask(store, 'a');
        await store.clock.advance(5);
        const result = await store.ackWork(lockToken, { kind: 'completed', payload: '{"n":1}' });
        assert.deepEqual(result, { ok: true, claimed: [], ended: 'completed' });
        const record = await store.record('a');
        const { status, output, failure: failed, endedAt, task } = record;
        const now = store.clock.now();
        assert.deepEqual(
          [status, output, failed, endedAt, task?.failures],
          ['completed', '{"n":1}', null, now, 0],
        );
        assert.deepEqual(finished(), ['a']);
        await store.expectIdle();
      },
    },
    {
      id: 'task-ack/fails-a-run',
      title: 'a failed run has its failure and counts the failed attempt',
      async run(store) {
        const finished = collectFinished(store);
        const { lockToken } = await startTask(store, 'a');
        const result = await store.ackWork(lockToken, { kind: 'failed', failure });
        assert.deepEqual(result, { ok: true, claimed: [], ended: 'failed' });
        const { status, output, failure: failed, task } = await store.record('a');
        assert.deepEqual(
          [status, output, failed, task?.failures, task?.onFail],
          ['failed', null, failure, 1, null],
        );
        assert.deepEqual(finished(), ['a']);
        await store.expectIdle();
      },
    },
    {
      id: 'task-ack/skips-a-run',
      title: 'a skipped run ends without output or failure; an activity cannot be skipped',
      async run(store) {
        const finished = collectFinished(store);
        const { lockToken } = await startTask(store, 'a');
        const result = await store.ackWork(lockToken, { kind: 'skipped' });
        assert.deepEqual(result, { ok: true, claimed: [], ended: 'skipped' });
        const { status, output, failure: failed, endedAt } = await store.record('a');
        assert.deepEqual(
          [status, output, failed, endedAt],
          ['skipped', null, null, store.clock.now()],
        );
        assert.deepEqual(finished(), ['a']);
        await store.begin('o', { workItems: [workItem(1)] });
        const activity = await store.claimWorkOne();
        expectRefused(await store.ackWork(activity.lockToken, { kind: 'skipped' }));
        expectCommitted(await store.ackWork(activity.lockToken));
      },
    },
    {
      id: 'task-ack/a-handler-may-cancel-its-run',
      title: 'a run acked as canceled without a request records a default reason',
      async run(store) {
        const { lockToken } = await startTask(store, 'a');
        const result = await store.ackWork(lockToken, { kind: 'canceled', leaked: true });
        assert.deepEqual(result, { ok: true, claimed: [], ended: 'canceled' });
        const { status, cancel, leaked } = await store.record('a');
        assert.deepEqual([status, leaked], ['canceled', 1]);
        assert.deepEqual(cancel, {
          reason: 'canceled',
          actor: null,
          requestedAt: store.clock.now(),
        });
      },
    },
    {
      id: 'task-ack/counts-failures-over-attempts',
      title: 'the record counts failed attempts, and the run can still complete',
      async run(store) {
        let { lockToken } = await startTask(store, 'a');
        for (let failures = 1; failures <= 3; failures += 1) {
          const retried = await store.provider.retryWorkItems([{ lockToken, delayMs: 0, failure }]);
          assert.deepEqual(retried, [true]);
          assert.equal((await store.record('a')).task?.failures, failures);
          const item = await store.claimWorkOne();
          assert.deepEqual([item.failures, item.claims], [failures, 1]);
          ({ lockToken } = item);
        }
        expectCommitted(await store.ackWork(lockToken));
        const { status, task, failure: failed } = await store.record('a');
        assert.deepEqual([status, task?.failures, failed], ['completed', 3, null]);
      },
    },
    {
      id: 'task-ack/needs-a-held-item',
      title: 'an unknown, settled, abandoned or expired token changes nothing',
      async run(store) {
        const { provider } = store;
        await expectTokenRejected(store, 'nobody');
        const settled = await startTask(store, 'settled');
        expectCommitted(await store.ackWork(settled.lockToken));
        const handedBack = await startTask(store, 'handed-back');
        await provider.abandonWorkItems([
          { lockToken: handedBack.lockToken, delayMs: 100_000, giveBackClaim: true },
        ]);
        const retried = await startTask(store, 'retried');
        await provider.retryWorkItems([
          { lockToken: retried.lockToken, delayMs: 100_000, failure },
        ]);
        const expired = await startTask(store, 'expired');
        await store.clock.advance(lockMs);
        for (const { lockToken } of [settled, handedBack, retried, expired]) {
          await expectTokenRejected(store, lockToken);
        }
      },
    },
    {
      id: 'task-ack/needs-the-current-token',
      title: 'an abandoned token changes nothing although another claim holds the run',
      async run(store) {
        const first = await startTask(store, 'a');
        const handBack = { lockToken: first.lockToken, delayMs: 0, giveBackClaim: true };
        await store.provider.abandonWorkItems([handBack]);
        const second = await store.claimWorkOne();
        await expectTokenRejected(store, first.lockToken);
        expectCommitted(await store.ackWork(second.lockToken));
        await expectStatus(store, 'a', 'completed');
      },
    },
    {
      id: 'task-ack/of-a-flagged-run-is-discarded',
      title: 'a flagged run ends as canceled whatever outcome is acked',
      async run(store) {
        const finished = collectFinished(store);
        for (const [index, outcome] of outcomes.entries()) {
          const id = `${index}`;
          const onFail = { options: null };
          const { lockToken } = await startTask(store, id, { onFail });
          await store.cancel(id, { reason: 'enough' });
          const result = await store.ackWork(
            lockToken,
            outcome.kind === 'failed' ? { ...outcome, onFail } : outcome,
          );
          assert.deepEqual(result, { ok: true, claimed: [], ended: 'canceled' });
          const { status, output, failure: failed, cancel, task } = await store.record(id);
          assert.deepEqual([status, output, failed], ['canceled', null, null]);
          assert.deepEqual([cancel?.reason, task?.onFail], ['enough', null]);
        }
        assert.deepEqual(finished(), ['0', '1', '2', '3']);
        await store.expectIdle();
      },
    },
    {
      id: 'task-ack/past-the-point-of-no-return-counts',
      title: 'a canceled run past its point of no return keeps its acked outcome',
      async run(store) {
        for (const [index, outcome] of outcomes.entries()) {
          const id = `${index}`;
          const { lockToken } = await startTask(store, id);
          assert.deepEqual(await store.provider.markPointOfNoReturn(lockToken), { kind: 'passed' });
          assert.equal((await store.cancel(id, { reason: 'late' })).status, 'canceling');
          assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
          expectCommitted(await store.ackWork(lockToken, outcome));
          const { status, cancel } = await store.record(id);
          assert.deepEqual([status, cancel?.reason], [outcome.kind, 'late']);
        }
      },
    },
    {
      id: 'task-ack/an-unreadable-failure-spares-its-neighbours',
      title: 'a task failure with invalid JSON is rejected and affects no other ack',
      async run(store) {
        await createTasks(store, [newTask('a'), newTask('b')]);
        const [bad, good] = await store.claimWork();
        assert.ok(bad && good);
        const results = await store.provider.ackWorkItems([
          { lockToken: bad.lockToken, outcome: { kind: 'failed', failure: '{"name":' } },
          { lockToken: good.lockToken, outcome: { kind: 'completed', payload: null } },
        ]);
        expectRefused(results[0] ?? assert.fail());
        expectCommitted(results[1] ?? assert.fail());
        await expectStatus(store, 'a', 'running');
        expectCommitted(await store.ackWork(bad.lockToken));
      },
    },
    {
      id: 'task-ack/leaves-others-alone',
      title: 'acking a run changes no other run and no orchestration',
      async run(store) {
        await store.begin('o', { workItems: [workItem(1)] });
        await createTasks(store, [newTask('a'), newTask('b')]);
        const items = await store.claimWork();
        const others = ['o', 'b'];
        const before = await store.provider.getInstances(others);
        const own = items.find(({ instanceId }) => instanceId === 'a');
        expectCommitted(await store.ackWork(own?.lockToken ?? ''));
        assert.deepEqual(await store.provider.getInstances(others), before);
        for (const { instanceId, lockToken } of items) {
          if (instanceId !== 'a') assert.equal((await store.renewWork(lockToken)).held, true);
        }
        assert.deepEqual(await store.claim(), []);
      },
    },
  ],
};
