import assert from 'node:assert/strict';
import type { Provider } from '../../../../providers/contract/provider.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectInAnyOrder, expectLockLost, only } from '../../expectations.ts';
import { claimExactly, createKeyed, declare, runningOf } from '../../limit-helpers.ts';
import { cleanupMs, newProcess, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { newTask } from '../../task-helpers.ts';
import { expectPending, withTimeLimit } from '../../time-limit.ts';

const host = 'host-1';
const dayMs = 86_400_000;
const fetchAll = { max: 100, lockMs, waitMs: 0 };

/** Registers the process of the store, which counts as dead, and returns a second process of its host. */
async function openSecondProcess(store: StoreUnderTest): Promise<Provider> {
  const survivor = await store.reopen();
  await store.provider.registerProcess(newProcess(host));
  await survivor.registerProcess(newProcess(host, { pid: 2 }));
  return survivor;
}

/** Takes over the claims of every other process of the host. */
async function takeOver(survivor: Provider): Promise<number> {
  const others = await survivor.listProcesses(host);
  return survivor.takeOverClaims(others.map(({ processId }) => processId));
}

export const takeovers: Capability = {
  title: 'processes and takeovers',
  cases: [
    {
      id: 'process/is-listed-for-its-host',
      title: 'listProcesses() returns the other registered processes of a host',
      async run(store) {
        const other = await store.reopen();
        await store.provider.registerProcess(
          newProcess(host, { pid: 7, startTime: "4'2 \u{1f4be}" }),
        );
        const listed = only(await other.listProcesses(host), 'process');
        assert.deepEqual([listed.pid, listed.startTime], [7, "4'2 \u{1f4be}"]);
        assert.deepEqual(await other.listProcesses('host-2'), []);
        assert.deepEqual(await store.provider.listProcesses(host), []);
        await other.registerProcess(newProcess(host, { pid: 8 }));
        const { pid, processId } = only(await store.provider.listProcesses(host), 'process');
        assert.equal(pid, 8);
        assert.notEqual(processId, listed.processId);
      },
    },
    {
      id: 'process/is-registered-once',
      title: 'a process that registers again is listed once, with its latest values',
      async run(store) {
        const other = await store.reopen();
        await store.provider.registerProcess(newProcess('before', { pid: 7 }));
        await store.provider.registerProcess(newProcess(host, { pid: 9, startTime: '1' }));
        const { pid, startTime } = only(await other.listProcesses(host), 'process');
        assert.deepEqual([pid, startTime], [9, '1']);
        assert.deepEqual(await other.listProcesses('before'), []);
      },
    },
    {
      id: 'process/is-forgotten-after-a-day',
      title: 'registerProcess() deletes processes not registered again for over a day',
      async run(store) {
        const other = await store.reopen();
        await store.provider.registerProcess(newProcess(host));
        await store.clock.advance(dayMs);
        await other.registerProcess(newProcess(host));
        assert.equal((await other.listProcesses(host)).length, 1);
        await store.clock.advance(1);
        await other.registerProcess(newProcess(host));
        assert.deepEqual(await other.listProcesses(host), []);
      },
    },
    {
      id: 'process/leaves-alone',
      title: 'unregisterProcess() removes only its own process and keeps its claims',
      async run(store) {
        const survivor = await openSecondProcess(store);
        const third = await store.reopen();
        await third.registerProcess(newProcess(host, { pid: 3 }));
        await store.create('a');
        const { lockToken } = await store.claimOne();
        await store.provider.unregisterProcess();
        await store.provider.unregisterProcess();
        assert.deepEqual(
          (await survivor.listProcesses(host)).map(({ pid }) => pid),
          [3],
        );
        assert.deepEqual(await store.provider.renewOrchestrationLocks([lockToken], lockMs), [true]);
      },
    },
    {
      id: 'takeover/ends-the-claims-of-the-dead',
      title: 'takeOverClaims() releases the claims of a dead process and invalidates its tokens',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await store.begin('a', { workItems: [workItem(1), workItem(2, { priority: 7 })] });
        await store.provider.createTasks([newTask('t')]);
        const work = await store.claimWork();
        assert.equal(work.length, 3);
        await store.create('b');
        const claimed = await store.claimOne();
        assert.equal(await takeOver(survivor), 4);
        assert.deepEqual(await survivor.listProcesses(host), []);
        expectLockLost(await store.ack(claimed));
        const renewals = work.map(({ lockToken }) => ({ lockToken }));
        for (const { held } of await store.provider.renewWorkItemLocks(renewals, lockMs)) {
          assert.equal(held, false);
        }
        const again = await survivor.fetchWorkItems(fetchAll);
        expectInAnyOrder(
          again.map(({ instanceId, operation }) => `${instanceId} ${operation}`),
          work.map(({ instanceId, operation }) => `${instanceId} ${operation}`),
        );
        const instances = await survivor.fetchOrchestrationItems(fetchAll);
        assert.deepEqual(
          instances.map(({ instanceId }) => instanceId),
          ['b'],
        );
      },
    },
    {
      id: 'takeover/counts-as-an-expired-lease',
      title: 'takeOverClaims() counts the released claims, like expired leases',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWork();
        await store.create('b');
        await store.claimOne();
        await takeOver(survivor);
        assert.equal(only(await survivor.fetchWorkItems(fetchAll), 'item').claims, 2);
        assert.equal(only(await survivor.fetchOrchestrationItems(fetchAll), 'instance').claims, 2);
      },
    },
    {
      id: 'takeover/takes-claims-made-with-a-turn',
      title: 'takeOverClaims() releases work items claimed at insert',
      async run(store) {
        const survivor = await openSecondProcess(store);
        const { claimed } = await store.begin('a', {
          workItems: [workItem(1, { claimMs: lockMs })],
        });
        assert.equal(claimed.length, 1);
        assert.equal(await takeOver(survivor), 1);
        assert.equal((await survivor.fetchWorkItems(fetchAll)).length, 1);
      },
    },
    {
      id: 'takeover/frees-the-places-of-limits',
      title: 'takeOverClaims() frees the places of limited items, and ends a wait for one',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await declare(store, { global: 3, perKey: 2 });
        await createKeyed(store, 'a', 4);
        await createKeyed(store, 'b', 1);
        const held = await claimExactly(store, 3);
        const [renewed, ...others] = held;
        assert.ok(renewed);
        assert.equal((await store.renewWork(renewed.lockToken)).held, true);
        const waiting = survivor.fetchWorkItems({ ...fetchAll, waitMs: 60_000 });
        await expectPending(waiting, 'the fetch');
        assert.equal(await takeOver(survivor), 3);
        const again = await withTimeLimit(waiting, 'after the takeover');
        assert.equal(again.length, 3);
        assert.equal(await runningOf(store), 3);
        await claimExactly(store, 0);
        for (const { lockToken } of others) expectLockLost(await store.ackWork(lockToken));
        assert.equal((await store.renewWork(renewed.lockToken)).held, false);
        assert.equal(await runningOf(store), 3);
      },
    },
    {
      id: 'takeover/takes-renewed-claims',
      title: 'takeOverClaims() releases renewed and repeated claims',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWork();
        await store.clock.advance(lockMs);
        const { lockToken } = only(await store.claimWork(), 'item');
        await store.clock.advance(lockMs / 2);
        await store.provider.renewWorkItemLocks([{ lockToken }], lockMs);
        assert.equal(await takeOver(survivor), 1);
        assert.equal(only(await survivor.fetchWorkItems(fetchAll), 'item').claims, 3);
      },
    },
    {
      id: 'takeover/lets-any-worker-end-what-was-canceled',
      title: 'after a takeover, any worker can claim a flagged work item',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWork();
        await store.provider.requestCancel([
          { instanceId: 'a', reason: 'enough', actor: null, cleanupMs },
        ]);
        assert.equal(
          (await survivor.fetchWorkItems({ ...fetchAll, names: [], tasks: [] })).length,
          0,
        );
        await takeOver(survivor);
        const item = only(
          await survivor.fetchWorkItems({ ...fetchAll, names: [], tasks: [] }),
          'item',
        );
        assert.equal(item.cancel?.reason, 'enough');
      },
    },
    {
      id: 'takeover/spares-the-living',
      title: 'takeOverClaims() keeps claims of other processes and delayed tasks',
      async run(store) {
        const survivor = await openSecondProcess(store);
        const third = await store.reopen();
        await third.registerProcess(newProcess('host-2', { pid: 1 }));
        await store.begin('a', { workItems: [workItem(1), workItem(2), workItem(3)] });
        for (const instanceId of ['b', 'c', 'd']) await store.create(instanceId);
        const one = { max: 1, lockMs, waitMs: 0 };
        const held: { item: string; instance: string; provider: Provider }[] = [];
        for (const provider of [store.provider, survivor, third]) {
          const item = only(await provider.fetchWorkItems(one), 'item').lockToken;
          const instance = only(await provider.fetchOrchestrationItems(one), 'instance').lockToken;
          held.push({ item, instance, provider });
        }
        await store.provider.createTasks([newTask('later', { runAt: store.clock.now() + 1_000 })]);
        assert.equal(await takeOver(survivor), 2);
        for (const [index, { item, instance, provider }] of held.entries()) {
          const [renewed] = await provider.renewWorkItemLocks([{ lockToken: item }], lockMs);
          assert.equal(renewed?.held, index > 0);
          const kept = await provider.renewOrchestrationLocks([instance], lockMs);
          assert.deepEqual(kept, [index > 0]);
        }
        assert.equal((await survivor.fetchWorkItems(fetchAll)).length, 1);
      },
    },
    {
      id: 'takeover/leaves-sessions-and-leases',
      title: 'takeOverClaims() keeps named leases',
      async run(store) {
        const survivor = await openSecondProcess(store);
        const lease = { name: 'sweeper', owner: 'dead', leaseMs: lockMs };
        await store.provider.takeLease(lease);
        await takeOver(survivor);
        assert.equal(await survivor.takeLease({ ...lease, owner: 'living' }), false);
      },
    },
    {
      id: 'takeover/wakes-waiting-fetches',
      title: 'a waiting fetch returns work that a takeover releases',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWork();
        const waiting = survivor.fetchWorkItems({ ...fetchAll, waitMs: 60_000 });
        await store.clock.advance(1);
        await takeOver(survivor);
        assert.equal((await waiting).length, 1);
      },
    },
    {
      id: 'takeover/can-be-repeated',
      title: 'takeOverClaims() of unknown or already released processes returns 0',
      async run(store) {
        const survivor = await openSecondProcess(store);
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWork();
        const [dead] = await survivor.listProcesses(host);
        const processIds = [dead?.processId ?? ''];
        assert.equal(await survivor.takeOverClaims([]), 0);
        assert.equal(await survivor.takeOverClaims(['nobody']), 0);
        assert.equal(await survivor.takeOverClaims(processIds), 1);
        const { lockToken } = only(await survivor.fetchWorkItems(fetchAll), 'item');
        assert.equal(await survivor.takeOverClaims(processIds), 0);
        const outcome = { kind: 'completed', payload: null } as const;
        const [result] = await survivor.ackWorkItems([{ lockToken, outcome }]);
        assert.equal(result?.ok, true);
      },
    },
  ],
};
