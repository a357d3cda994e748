import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import {
  collectFinished,
  createTask,
  createTasks,
  expectStatus,
  failure,
  newTask,
  startTask,
} from '../../task-helpers.ts';
import { collectHints } from '../../collect-hints.ts';
import { withTimeLimit, expectPending } from '../../time-limit.ts';

const emptyFilter = { names: [], tasks: [] };

export const expiries: Capability = {
  title: 'task expiry',
  cases: [
    {
      id: 'expiry/ends-what-has-not-started',
      title: 'an unstarted run expires exactly at expiresAt',
      async run(store) {
        const finished = collectFinished(store);
        const expiresAt = store.clock.now() + 100;
        await createTask(store, 'a', { expiresAt });
        await store.clock.advance(99);
        assert.deepEqual(await store.claimWork(emptyFilter), []);
        await expectStatus(store, 'a', 'pending');
        await store.clock.advance(1);
        assert.deepEqual(await store.claimWork(), []);
        const { status, endedAt, startedAt } = await store.record('a');
        assert.deepEqual([status, endedAt, startedAt], ['expired', expiresAt, null]);
        assert.deepEqual(finished(), ['a']);
        await store.expectIdle();
      },
    },
    {
      id: 'expiry/needs-no-worker-that-knows-it',
      title: 'a fetch by a worker without the task ends an expired run',
      async run(store) {
        await createTask(store, 'a', { expiresAt: store.clock.now() + 5 });
        await store.clock.advance(5);
        assert.deepEqual(await store.claimWork(emptyFilter), []);
        await expectStatus(store, 'a', 'expired');
      },
    },
    {
      id: 'expiry/wakes-who-waits',
      title: 'a waiting fetch expires a run at expiresAt and continues to wait',
      async run(store) {
        const waiting = store.claimWork({ waitMs: 60_000, ...emptyFilter });
        await expectPending(waiting, 'the fetch');
        const { next } = collectHints(store.provider);
        await createTask(store, 'a', { expiresAt: store.clock.now() + 1_000 });
        await store.clock.advance(1_000);
        assert.deepEqual((await next('finished')).instanceIds, ['a']);
        await expectStatus(store, 'a', 'expired');
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(60_000);
        assert.deepEqual(await withTimeLimit(waiting, 'the end of the wait'), []);
      },
    },
    {
      id: 'expiry/spares-what-has-started',
      title: 'a run that was claimed in time does not expire',
      async run(store) {
        const { provider } = store;
        const expiresAt = store.clock.now() + 10;
        const held = await startTask(store, 'held', { expiresAt });
        const retried = await startTask(store, 'retried', { expiresAt });
        await provider.retryWorkItems([
          { lockToken: retried.lockToken, delayMs: 2 * lockMs, failure },
        ]);
        const { lockToken } = await startTask(store, 'handed-back', { expiresAt });
        await provider.abandonWorkItems([{ lockToken, delayMs: 2 * lockMs, giveBackClaim: true }]);
        await startTask(store, 'lost', { expiresAt }, { lockMs: 5 });
        const canceling = await startTask(store, 'canceling', { expiresAt });
        await store.cancel('canceling');
        await store.clock.advance(10);
        assert.deepEqual(
          (await store.claimWork()).map(({ instanceId }) => instanceId),
          ['lost'],
        );
        for (const id of ['held', 'retried', 'handed-back', 'lost']) {
          await expectStatus(store, id, 'running');
        }
        expectCommitted(await store.ackWork(held.lockToken));
        await expectStatus(store, 'canceling', 'canceling');
        expectCommitted(await store.ackWork(canceling.lockToken));
        await expectStatus(store, 'canceling', 'canceled');
      },
    },
    {
      id: 'expiry/goes-on-for-what-is-handed-back-unstarted',
      title: 'a first claim abandoned as unstarted makes the run pending, and it can expire',
      async run(store) {
        const { provider } = store;
        const expiresAt = store.clock.now() + 10;
        const unstarted = { delayMs: 5, giveBackClaim: true, unstarted: true };
        const began = await startTask(store, 'began', { expiresAt });
        await provider.abandonWorkItems([
          { lockToken: began.lockToken, delayMs: 0, giveBackClaim: true },
        ]);
        await store.clock.advance(1);
        const again = await store.claimWorkOne();
        const { lockToken } = await startTask(store, 'unstarted', { expiresAt });
        await startTask(store, 'lost', { expiresAt }, { lockMs: 2 });
        await store.clock.advance(2);
        const lost = await store.claimWorkOne();
        const results = await provider.abandonWorkItems(
          [again, { lockToken }, lost].map((held) => ({
            ...unstarted,
            lockToken: held.lockToken,
          })),
        );
        assert.deepEqual(results, [true, true, true]);
        const record = await store.record('unstarted');
        assert.deepEqual([record.status, record.startedAt], ['pending', null]);
        for (const id of ['began', 'lost']) await expectStatus(store, id, 'running');
        await store.clock.advance(7);
        await store.claimWork();
        await expectStatus(store, 'unstarted', 'expired');
        for (const id of ['began', 'lost']) await expectStatus(store, id, 'running');
      },
    },
    {
      id: 'expiry/spares-what-was-asked-to-stop',
      title: 'a canceling run past its point of no return does not expire',
      async run(store) {
        const { lockToken } = await startTask(store, 'a', { expiresAt: store.clock.now() + 10 });
        await store.provider.markPointOfNoReturn(lockToken);
        await store.cancel('a');
        const { startedAt } = await store.record('a');
        const handBack = { lockToken, delayMs: 0, giveBackClaim: true, unstarted: true };
        assert.deepEqual(await store.provider.abandonWorkItems([handBack]), [true]);
        await store.clock.advance(10);
        await store.claimWork(emptyFilter);
        const record = await store.record('a');
        assert.deepEqual([record.status, record.startedAt], ['canceling', startedAt]);
      },
    },
    {
      id: 'expiry/comes-before-its-time-to-run',
      title: 'a run with expiresAt before runAt expires at expiresAt',
      async run(store) {
        const now = store.clock.now();
        await createTask(store, 'a', { runAt: now + 1_000, expiresAt: now + 10 });
        await store.clock.advance(10);
        assert.deepEqual(await store.claimWork(emptyFilter), []);
        await expectStatus(store, 'a', 'expired');
      },
    },
    {
      id: 'expiry/none-of-many-is-claimed-too-late',
      title: 'none of 1,200 expired runs is claimed, and a run behind them is',
      async run(store) {
        const expiresAt = store.clock.now() + 10;
        const late = Array.from({ length: 1_200 }, (_, index) =>
          newTask(`late ${index}`, { expiresAt, priority: 5 }),
        );
        await createTasks(store, [...late, newTask('good')]);
        await store.clock.advance(10);
        const claimed: string[] = [];
        for (let count = 0; count < 20 && claimed.length === 0; count += 1) {
          claimed.push(...(await store.claimWork({ max: 1 })).map((item) => item.instanceId));
        }
        assert.deepEqual(claimed, ['good']);
        while ((await store.provider.queueDepths()).tasks.ready > 0)
          await store.claimWork(emptyFilter);
        const { instances } = await store.provider.systemMetrics();
        assert.deepEqual([instances.expired, instances.running], [1_200, 1]);
      },
    },
    {
      id: 'expiry/leaves-what-is-over',
      title: 'a canceled or terminated run does not expire',
      async run(store) {
        const expiresAt = store.clock.now() + 10;
        await createTasks(store, [newTask('a', { expiresAt }), newTask('b', { expiresAt })]);
        await store.cancel('a');
        await store.terminate('b');
        await store.clock.advance(10);
        await store.expectNoChange(() => store.expectIdle());
        await expectStatus(store, 'a', 'canceled');
        await expectStatus(store, 'b', 'terminated');
      },
    },
  ],
};
