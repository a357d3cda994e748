import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import {
  collectFinished,
  createTask,
  expectStatus,
  expectTokenRejected,
  failTask,
  failure,
  outcomes,
  startTask,
} from '../../task-helpers.ts';

async function stateOf(store: StoreUnderTest, instanceId: string): Promise<string | null> {
  return (await store.record(instanceId)).task?.onFail ?? null;
}

export const onFail: Capability = {
  title: 'on-fail handlers',
  cases: [
    {
      id: 'on-fail/follows-a-failure',
      title: 'the on-fail handler receives the input and failure of its run, which stays failed',
      async run(store) {
        const finished = collectFinished(store);
        const options = '{"attempts":3}';
        const parts = { name: 'mail', payload: '{"to":1}', onFail: { options } };
        const { lockToken } = await startTask(store, 'a', parts);
        assert.equal(await stateOf(store, 'a'), null);
        await createTask(store, 'b', { priority: 99 });
        await store.clock.advance(1);
        expectCommitted(await store.ackWork(lockToken, { kind: 'failed', failure }));
        assert.equal(await stateOf(store, 'a'), 'queued');
        const [item] = await store.claimWork({ max: 1 });
        const { kind, instanceId, name, payload, claims, failures } = item ?? assert.fail();
        assert.deepEqual(
          { kind, instanceId, name, payload, claims, failures },
          {
            kind: 'onFail',
            instanceId: 'a',
            name: 'mail',
            payload: '{"to":1}',
            claims: 1,
            failures: 0,
          },
        );
        assert.deepEqual([item?.options, item?.failure], [options, failure]);
        assert.equal(await stateOf(store, 'a'), 'running');
        expectCommitted(await store.ackWork(item?.lockToken ?? ''));
        const { status, output, failure: failed, task } = await store.record('a');
        assert.deepEqual([status, output, failed], ['failed', null, failure]);
        assert.deepEqual([task?.onFail, task?.failures], ['completed', 1]);
        assert.deepEqual(finished(), ['a']);
      },
    },
    {
      id: 'on-fail/only-after-a-failure',
      title: 'runs that do not fail, or have no on-fail handler, queue none',
      async run(store) {
        for (const [index, outcome] of outcomes.entries()) {
          const isFailure = outcome.kind === 'failed';
          const parts = isFailure ? {} : { onFail: { options: null } };
          const { lockToken } = await startTask(store, `${index}`, parts);
          expectCommitted(await store.ackWork(lockToken, outcome));
          assert.equal(await stateOf(store, `${index}`), null);
        }
        await store.expectIdle();
      },
    },
    {
      id: 'on-fail/may-come-with-the-ack',
      title: 'an ack can add an on-fail handler only to a run created without one',
      async run(store) {
        const brought = { kind: 'failed', failure, onFail: { options: '"brought"' } } as const;
        const without = await startTask(store, 'without');
        expectCommitted(await store.ackWork(without.lockToken, brought));
        const first = await store.claimWorkOne();
        assert.deepEqual([first.kind, first.options], ['onFail', '"brought"']);
        const own = await startTask(store, 'own', { onFail: { options: null } });
        expectCommitted(await store.ackWork(own.lockToken, brought));
        const second = await store.claimWorkOne();
        assert.deepEqual([second.kind, second.options], ['onFail', null]);
      },
    },
    {
      id: 'on-fail/goes-to-workers-that-know-its-task',
      title: 'the on-fail handler is claimed by the name of its task',
      async run(store) {
        const { lockToken } = await startTask(store, 'a', { onFail: { options: null } });
        expectCommitted(await store.ackWork(lockToken, { kind: 'failed', failure }));
        assert.deepEqual(await store.claimWork({ names: ['task'], tasks: [] }), []);
        const item = await store.claimWorkOne({ names: [], tasks: ['task'] });
        assert.equal(item.kind, 'onFail');
      },
    },
    {
      id: 'on-fail/has-its-own-attempts',
      title: 'the on-fail handler has its own claims and failures',
      async run(store) {
        const { lockToken } = await failTask(store, 'a');
        const retried = [{ lockToken, delayMs: 100, failure }];
        assert.deepEqual(await store.provider.retryWorkItems(retried), [true]);
        assert.equal(await stateOf(store, 'a'), 'running');
        assert.deepEqual(await store.claimWork(), []);
        await store.clock.advance(100);
        const again = await store.claimWorkOne();
        assert.deepEqual([again.kind, again.failures, again.claims], ['onFail', 1, 1]);
        assert.equal((await store.record('a')).task?.failures, 1);
      },
    },
    {
      id: 'on-fail/survives-a-lost-worker',
      title: 'an on-fail handler whose lease expired is claimable again; its old token is rejected',
      async run(store) {
        const lost = await failTask(store, 'a');
        await store.clock.advance(lockMs);
        const item = await store.claimWorkOne();
        assert.deepEqual([item.kind, item.claims], ['onFail', 2]);
        await expectTokenRejected(store, lost.lockToken);
        expectCommitted(await store.ackWork(item.lockToken));
        assert.equal(await stateOf(store, 'a'), 'completed');
      },
    },
    {
      id: 'on-fail/its-own-failure-is-kept',
      title: 'a failed on-fail handler records its failure apart from that of its run',
      async run(store) {
        const { lockToken } = await failTask(store, 'a');
        const own = '{"name":"Error","message":"handler"}';
        expectCommitted(await store.ackWork(lockToken, { kind: 'failed', failure: own }));
        const { status, failure: failed, task } = await store.record('a');
        assert.deepEqual([status, failed], ['failed', failure]);
        assert.deepEqual([task?.onFail, task?.onFailFailure], ['failed', own]);
        await store.expectIdle();
      },
    },
    {
      id: 'on-fail/is-not-stopped',
      title: 'cancel and terminate of a failed run do not affect its on-fail handler',
      async run(store) {
        const { lockToken } = await failTask(store, 'a');
        const unchanged = { found: true, changed: false, status: 'failed' };
        assert.deepEqual(await store.expectNoChange(() => store.cancel('a')), unchanged);
        assert.deepEqual(await store.expectNoChange(() => store.terminate('a')), unchanged);
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        expectCommitted(await store.ackWork(lockToken));
        assert.equal(await stateOf(store, 'a'), 'completed');
      },
    },
    {
      id: 'on-fail/keeps-its-run-from-deletion',
      title: 'a run with an unfinished on-fail handler is deleted only with force',
      async run(store) {
        const { provider } = store;
        const remove = async (force: boolean) =>
          only(await provider.deleteInstancesAtomic([{ instanceIds: ['a'], force }]), 'result');
        const { lockToken: first } = await startTask(store, 'a', { onFail: { options: null } });
        expectCommitted(await store.ackWork(first, { kind: 'failed', failure }));
        const running = { kind: 'running', instanceId: 'a', status: 'failed' };
        assert.deepEqual(await store.expectNoChange(() => remove(false)), running);
        const { lockToken } = await store.claimWorkOne();
        assert.deepEqual(await store.expectNoChange(() => remove(false)), running);
        assert.equal((await remove(true)).kind, 'deleted');
        await expectTokenRejected(store, lockToken);
        await store.expectIdle();
        const again = await failTask(store, 'a');
        expectCommitted(await store.ackWork(again.lockToken));
        assert.equal((await remove(false)).kind, 'deleted');
      },
    },
    {
      id: 'on-fail/a-late-failure-queues-none',
      title: 'a failure after a cancel, terminate or deletion queues no on-fail handler',
      async run(store) {
        const parts = { onFail: { options: null } };
        const late = { kind: 'failed', failure } as const;
        const canceled = await startTask(store, 'canceled', parts);
        const terminated = await startTask(store, 'terminated', parts);
        const deleted = await startTask(store, 'deleted', parts);
        await store.cancel('canceled');
        await store.terminate('terminated');
        await store.provider.deleteInstancesAtomic([{ instanceIds: ['deleted'], force: true }]);
        for (const { lockToken } of [canceled, terminated, deleted]) {
          await store.ackWork(lockToken, late);
        }
        await expectStatus(store, 'canceled', 'canceled');
        await expectStatus(store, 'terminated', 'terminated');
        await store.clock.advance(lockMs);
        await store.expectIdle();
      },
    },
  ],
};
