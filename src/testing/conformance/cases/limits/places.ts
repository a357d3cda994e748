import assert from 'node:assert/strict';
import type { LimitOverride } from '../../../../providers/contract/limits.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import {
  claimExactly,
  complete,
  countByKey,
  createKeyed,
  createPlain,
  declare,
  lanesOf,
  runningOf,
  setLimits,
} from '../../limit-helpers.ts';
import { pause, resume } from '../../pause-helpers.ts';
import { workItem } from '../../sample-data.ts';
import { lockMs } from '../../store-under-test.ts';
import { createTask, createTasks, failTask, failure, idsOf, newTask } from '../../task-helpers.ts';
import { expectPending, withTimeLimit } from '../../time-limit.ts';

const waitMs = 60_000;

export const limitPlaces: Capability = {
  title: 'places of limited definitions',
  cases: [
    {
      id: 'limit/global-is-never-exceeded',
      title: 'no more items of a definition are claimed than its global limit',
      async run(store) {
        await declare(store, { global: 3 });
        await createPlain(store, 5);
        await createKeyed(store, 'a', 5);
        await createTask(store, 'other', { name: 'other' });
        const items = await claimExactly(store, 4);
        assert.ok(idsOf(items).includes('other'));
        assert.equal(await runningOf(store), 3);
        await claimExactly(store, 0);
        const own = items.filter(({ name }) => name === 'task');
        await complete(store, own.slice(0, 2));
        await claimExactly(store, 2);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'limit/a-claim-shows-that-it-is-limited',
      title: 'claimed items show whether limits of their definition count them',
      async run(store) {
        await createKeyed(store, 'a', 6);
        const fairOnly = await claimExactly(store, 2, 2);
        assert.deepEqual(
          fairOnly.map(({ limited }) => limited),
          [undefined, undefined],
        );
        const changes: readonly LimitOverride[] = [
          { global: 10 },
          { global: null, perKey: 10 },
          { perKey: null, rate: { limit: 1, perMs: 1, burst: 100, perKey: true } },
          { rate: null },
        ];
        const shown: boolean[] = [];
        for (const change of changes) {
          await setLimits(store, change);
          shown.push(only(await claimExactly(store, 1, 1), 'item').limited ?? false);
        }
        assert.deepEqual(shown, [true, true, true, false]);
      },
    },
    {
      id: 'limit/per-key-is-never-exceeded',
      title: 'no more items of a key are claimed than the limit per key',
      async run(store) {
        await declare(store, { perKey: 2 });
        await createKeyed(store, 'a', 5);
        await createKeyed(store, 'b', 1);
        await createPlain(store, 3);
        const items = await claimExactly(store, 5);
        const ofA = items.filter(({ instanceId }) => instanceId.startsWith('a'));
        assert.equal(ofA.length, 2);
        await claimExactly(store, 0);
        await complete(store, ofA.slice(0, 1));
        assert.deepEqual(idsOf(await store.claimWork()), ['a3']);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'limit/an-activity-is-limited',
      title: 'activities have limits and keys like tasks',
      async run(store) {
        const definitions = [
          { kind: 'activity', name: 'activity', limits: { global: 3, perKey: 1 } } as const,
        ];
        await store.provider.declareLimits({ buildId: 'build', definitions });
        const lane = { key: 'a', weight: 1 };
        const workItems = [
          workItem(1, { lane }),
          workItem(2, { lane }),
          workItem(3),
          workItem(4),
          workItem(5, { name: 'other' }),
        ];
        await store.begin('o', { workItems });
        const items = await store.claimWorkInOrder();
        assert.deepEqual(
          items.map(({ operation }) => operation),
          [1, 3, 5],
        );
        expectCommitted(await store.ackWork(items[0]?.lockToken ?? ''));
        assert.equal((await store.claimWorkOne()).operation, 2);
      },
    },
    {
      id: 'limit/calls-of-a-task-count-with-its-runs',
      title: 'calls of a task by orchestrations and its runs share its limits',
      async run(store) {
        await declare(store, { global: 2, perKey: 1 });
        await createKeyed(store, 'a', 1);
        const name = 'task:task';
        const keyed = { key: 'a', weight: 1 };
        const { claimed } = await store.begin('o', {
          workItems: [
            workItem(1, { name, lane: keyed, claimMs: lockMs }),
            workItem(2, { name, claimMs: lockMs }),
            workItem(3, { name, lane: { key: 'b', weight: 1 } }),
          ],
        });
        assert.deepEqual(claimed, []);
        const [run, call] = await store.claimWorkInOrder();
        const parts = [run, call].map((item) => [item?.kind, item?.name, item?.operation]);
        assert.deepEqual(parts, [
          ['task', 'task', 1],
          ['activity', name, 2],
        ]);
        assert.equal(await runningOf(store), 2);
        await claimExactly(store, 0);
        expectCommitted(await store.ackWork(call?.lockToken ?? ''));
        // The key "a" is in use by the run.
        assert.equal((await store.claimWorkOne()).operation, 3);
        await complete(store, run === undefined ? [] : [run]);
        assert.equal((await store.claimWorkOne()).operation, 1);
        assert.equal(await runningOf(store), 2);
      },
    },
    {
      id: 'limit/counts-calls-that-were-queued-before',
      title: 'calls that were queued or running before their task was limited count',
      async run(store) {
        const name = 'task:task';
        await store.begin('o', {
          workItems: [workItem(1, { name }), workItem(2, { name }), workItem(3, { name })],
        });
        const first = only(await store.claimWork({ max: 1 }), 'item');
        await declare(store, { global: 2 });
        await createPlain(store, 2);
        await claimExactly(store, 1);
        await claimExactly(store, 0);
        assert.equal(await runningOf(store), 2);
        expectCommitted(await store.ackWork(first.lockToken));
        await claimExactly(store, 1);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'limit/a-limited-item-is-not-claimed-at-insert',
      title: 'an item of a limited activity is not claimed at its insert',
      async run(store) {
        const definitions = [
          { kind: 'activity', name: 'activity', limits: { global: 1 } } as const,
        ];
        await store.provider.declareLimits({ buildId: 'build', definitions });
        const workItems = [
          workItem(1, { claimMs: lockMs }),
          workItem(2, { claimMs: lockMs }),
          workItem(3, { claimMs: lockMs, name: 'keyed', lane: { key: 'a', weight: 1 } }),
          workItem(4, { claimMs: lockMs, name: 'other' }),
        ];
        const { claimed } = await store.begin('o', { workItems });
        assert.deepEqual(
          claimed.map(({ operation }) => operation),
          [4],
        );
        const items = await store.claimWorkInOrder();
        assert.deepEqual(
          items.map(({ operation }) => operation),
          [1, 3],
        );
      },
    },
    {
      id: 'limit/every-end-frees-its-place',
      title: 'an ack, retry, abandon, terminate and delete free the place of an item, once',
      async run(store) {
        const { provider } = store;
        await declare(store, { global: 1, perKey: 1 });
        await createKeyed(store, 'a', 8);
        const ends: readonly ((lockToken: string, id: string) => Promise<unknown>)[] = [
          (lockToken) => store.ackWork(lockToken),
          (lockToken) => store.ackWork(lockToken, { kind: 'failed', failure }),
          (lockToken) => provider.retryWorkItems([{ lockToken, delayMs: 500_000, failure }]),
          (lockToken) =>
            provider.abandonWorkItems([{ lockToken, delayMs: 500_000, giveBackClaim: true }]),
          async (lockToken, id) => {
            await store.cancel(id);
            return store.ackWork(lockToken, { kind: 'canceled', leaked: false });
          },
          (_, id) => forceDelete(store, id),
          async (lockToken, id) => {
            await store.terminate(id);
            return store.ackWork(lockToken);
          },
        ];
        for (const end of ends) {
          const { lockToken, instanceId } = await store.claimWorkOne();
          await claimExactly(store, 0);
          await end(lockToken, instanceId);
          assert.equal(await runningOf(store), 0);
          expectLockLost(await store.ackWork(lockToken));
          assert.equal(await runningOf(store), 0);
        }
        assert.deepEqual(idsOf(await store.claimWork()), ['a8']);
        const [lane] = await lanesOf(store);
        assert.equal(lane?.running, 1);
      },
    },
    {
      id: 'limit/a-queued-item-has-no-place',
      title: 'a cancel, terminate or delete of a queued item changes no place',
      async run(store) {
        await declare(store, { global: 2 });
        await createKeyed(store, 'a', 5);
        await claimExactly(store, 2);
        await store.cancel('a3');
        await store.terminate('a4');
        await forceDelete(store, 'a5');
        assert.equal(await runningOf(store), 2);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'limit/an-expired-lease-frees-its-place',
      title: 'another item gets the place of an expired lease, and the former token is invalid',
      async run(store) {
        await declare(store, { global: 1 });
        await createKeyed(store, 'a', 1);
        await createKeyed(store, 'b', 1);
        const { lockToken, instanceId } = await store.claimWorkOne();
        await store.clock.advance(lockMs - 1);
        await claimExactly(store, 0);
        await store.clock.advance(1);
        const next = await store.claimWorkOne();
        assert.notEqual(next.instanceId, instanceId);
        expectLockLost(await store.ackWork(lockToken));
        assert.equal((await store.renewWork(lockToken)).held, false);
        assert.equal(await runningOf(store), 1);
        await complete(store, [next]);
        const again = await store.claimWorkOne();
        assert.deepEqual([again.instanceId, again.claims], [instanceId, 2]);
      },
    },
    {
      id: 'limit/a-renewal-keeps-the-place',
      title: 'a renewed lease keeps its place',
      async run(store) {
        await declare(store, { global: 1 });
        await createPlain(store, 2);
        const { lockToken } = await store.claimWorkOne();
        for (let round = 0; round < 3; round += 1) {
          await store.clock.advance(lockMs - 1);
          assert.equal((await store.renewWork(lockToken)).held, true);
          await claimExactly(store, 0);
        }
        assert.equal(await runningOf(store), 1);
        expectCommitted(await store.ackWork(lockToken));
        await claimExactly(store, 1);
      },
    },
    {
      id: 'limit/a-canceled-item-needs-no-place',
      title: 'a canceled item whose lease expired is claimed although the limit is reached',
      async run(store) {
        await declare(store, { global: 1 });
        await createPlain(store, 3);
        const { instanceId } = await store.claimWorkOne();
        await store.cancel(instanceId);
        await store.clock.advance(lockMs);
        const items = await claimExactly(store, 2);
        const canceled = items.find((item) => item.instanceId === instanceId);
        assert.ok(canceled?.cancel);
        assert.equal(await runningOf(store), 1);
        expectCommitted(
          await store.ackWork(canceled.lockToken, { kind: 'canceled', leaked: false }),
        );
        assert.equal(await runningOf(store), 1);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'limit/counts-what-runs-already',
      title: 'items that were queued or running before the first limit count',
      async run(store) {
        await createPlain(store, 5);
        const held = await store.claimWork({ max: 2 });
        await declare(store, { global: 3 });
        const more = await claimExactly(store, 1);
        assert.equal(await runningOf(store), 3);
        await complete(store, held);
        await claimExactly(store, 2);
        await complete(store, more);
        assert.equal(await runningOf(store), 2);
      },
    },
    {
      id: 'limit/lowering-stops-nothing',
      title: 'a limit below what runs stops nothing, and admits nothing until fewer run',
      async run(store) {
        await declare(store, { global: 4 });
        await createPlain(store, 6);
        const items = await claimExactly(store, 4);
        await setLimits(store, { global: 2 });
        await complete(store, items.slice(0, 2));
        await claimExactly(store, 0);
        await complete(store, items.slice(2, 3));
        await claimExactly(store, 1);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'limit/lowering-a-key-stops-nothing',
      title: 'a limit per key below what runs admits nothing of the key until fewer run',
      async run(store) {
        await declare(store, { perKey: 3 });
        await createKeyed(store, 'a', 5);
        await createKeyed(store, 'b', 1);
        const items = await claimExactly(store, 4);
        const ofA = items.filter(({ instanceId }) => instanceId.startsWith('a'));
        assert.equal(ofA.length, 3);
        // A newer build declares less.
        await declare(store, { perKey: 1 }, 'newer');
        await createKeyed(store, 'c', 2);
        assert.deepEqual(countByKey(await store.claimWork()), { c: 1 });
        await complete(store, ofA.slice(0, 2));
        await claimExactly(store, 0);
        await complete(store, ofA.slice(2));
        assert.deepEqual(countByKey(await store.claimWork()), { a: 1 });
      },
    },
    {
      id: 'limit/raising-ends-a-wait',
      title: 'a waiting fetch resolves when a limit is raised',
      async run(store) {
        await declare(store, { perKey: 1 });
        await createKeyed(store, 'a', 2);
        await claimExactly(store, 1);
        const waiting = store.claimWork({ waitMs });
        await expectPending(waiting, 'the fetch');
        await setLimits(store, { perKey: 2 });
        assert.deepEqual(idsOf(await withTimeLimit(waiting, 'after a raise')), ['a2']);
      },
    },
    {
      id: 'limit/a-freed-place-ends-a-wait',
      title: 'a waiting fetch resolves when a place is freed by an ack, a delete or a retry',
      async run(store) {
        await declare(store, { global: 1 });
        await createPlain(store, 4);
        let { lockToken, instanceId } = await store.claimWorkOne();
        const frees = [
          () => store.ackWork(lockToken),
          () => forceDelete(store, instanceId),
          () => store.provider.retryWorkItems([{ lockToken, delayMs: 500_000, failure }]),
        ];
        for (const free of frees) {
          const waiting = store.claimWork({ waitMs });
          await expectPending(waiting, 'the fetch');
          await free();
          ({ lockToken, instanceId } = only(
            await withTimeLimit(waiting, 'after a freed place'),
            'item',
          ));
        }
      },
    },
    {
      id: 'limit/an-expired-lease-ends-a-wait',
      title: 'a waiting fetch resolves when a place expires',
      async run(store) {
        await declare(store, { global: 1 });
        await createPlain(store, 2);
        await claimExactly(store, 1);
        const waiting = store.claimWork({ waitMs });
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(lockMs);
        assert.equal((await withTimeLimit(waiting, 'after a lease')).length, 1);
        assert.equal(await runningOf(store), 1);
      },
    },
    {
      id: 'limit/starves-no-other-definition',
      title: 'limited and unlimited definitions share a fetch, whatever their priorities',
      async run(store) {
        await declare(store, { global: 1_000 });
        await createTasks(
          store,
          Array.from({ length: 40 }, (_, index) => newTask(`run${index}`, { priority: -10 })),
        );
        await createTasks(
          store,
          Array.from({ length: 40 }, (_, index) =>
            newTask(`other${index}`, { name: 'other', priority: 10 }),
          ),
        );
        const items = await store.claimWork({ max: 20 });
        const own = items.filter(({ name }) => name === 'task').length;
        assert.deepEqual([items.length, own], [20, 10]);
        const names = new Set<string>();
        for (let round = 0; round < 4; round += 1) {
          for (const { name } of await store.claimWork({ max: 1 })) names.add(name);
        }
        assert.equal(names.size, 2);
      },
    },
    {
      id: 'limit/a-paused-item-is-not-claimed',
      title:
        'a paused run of a lane is not claimed, keeps its place while held, and goes on after the resume',
      async run(store) {
        await declare(store, { global: 2 });
        await createKeyed(store, 'a', 2);
        const [first] = await store.claimWork({ max: 1 });
        assert.ok(first);
        await pause(store, 'a1');
        await pause(store, 'a2');
        await claimExactly(store, 0);
        assert.equal(await runningOf(store), 1);
        await createKeyed(store, 'b', 2);
        const [next] = await claimExactly(store, 1);
        await complete(store, [first]);
        assert.equal(await runningOf(store), 1);
        await claimExactly(store, 1);
        await complete(store, next === undefined ? [] : [next]);
        const waiting = store.claimWork({ waitMs });
        await expectPending(waiting, 'the fetch');
        await resume(store, 'a2');
        assert.deepEqual(idsOf(await withTimeLimit(waiting, 'after the resume')), ['a2']);
      },
    },
    {
      id: 'limit/a-paused-definition-is-not-claimed',
      title: 'items of a paused limited definition are claimed after its resume',
      async run(store) {
        const definition = { kind: 'task', name: 'task', reason: null, actor: null } as const;
        await declare(store, { global: 2 });
        await createKeyed(store, 'a', 2);
        await store.provider.pauseDefinitions([definition]);
        await claimExactly(store, 0);
        await store.provider.resumeDefinitions([definition]);
        await claimExactly(store, 2);
      },
    },
    {
      id: 'limit/an-on-fail-handler-takes-a-place',
      title: 'the onFail handler takes a place in the lane of its run',
      async run(store) {
        await declare(store, { perKey: 1 });
        const handler = await failTask(store, 'a1', { lane: { key: 'a', weight: 1 } });
        assert.deepEqual(
          (await lanesOf(store)).map(({ key, running }) => [key, running]),
          [['a', 1]],
        );
        await createKeyed(store, 'a', 1, { instanceId: 'a2' });
        await claimExactly(store, 0);
        await complete(store, [handler]);
        assert.deepEqual(idsOf(await store.claimWork()), ['a2']);
      },
    },
    {
      id: 'limit/a-rerun-keeps-its-key',
      title: 'a retried run waits in the lane of its key',
      async run(store) {
        await declare(store, { perKey: 1 });
        await createKeyed(store, 'a', 1);
        const { lockToken } = await store.claimWorkOne();
        expectCommitted(await store.ackWork(lockToken, { kind: 'failed', failure }));
        const { incarnation, executionId } = await store.record('a1');
        const source = { instanceId: 'a1', incarnation, executionId, historyLength: 0 };
        const retried = only(
          await store.provider.retryInstances([{ source, version: '1' }]),
          'result',
        );
        assert.equal(retried.kind, 'retried');
        await claimExactly(store, 1);
        assert.deepEqual(
          (await lanesOf(store)).map(({ key, running }) => [key, running]),
          [['a', 1]],
        );
      },
    },
    {
      id: 'limit/a-suspect-comes-alone',
      title: 'an item claimed twice without an outcome is claimed alone, in a place of its own',
      async run(store) {
        await declare(store, { global: 5 });
        await createKeyed(store, 'a', 1);
        for (let round = 0; round < 2; round += 1) {
          await claimExactly(store, 1);
          await store.clock.advance(lockMs);
        }
        await createKeyed(store, 'b', 2);
        assert.deepEqual(idsOf(await claimExactly(store, 2)), ['b1', 'b2']);
        const [suspect] = await claimExactly(store, 1);
        assert.equal(suspect?.claims, 3);
        assert.equal(await runningOf(store), 3);
        await complete(store, suspect === undefined ? [] : [suspect]);
        assert.equal(await runningOf(store), 2);
      },
    },
    {
      id: 'limit/an-expired-run-takes-no-place',
      title: 'a run that expired in its lane ends without a place',
      async run(store) {
        await declare(store, { global: 1 });
        await createKeyed(store, 'a', 1);
        await createKeyed(store, 'b', 2, { expiresInMs: 100 });
        const { lockToken } = await store.claimWorkOne();
        await store.clock.advance(100);
        await store.claimWork();
        assert.equal((await store.record('b1')).status, 'expired');
        assert.equal(await runningOf(store), 1);
        expectCommitted(await store.ackWork(lockToken));
        await claimExactly(store, 0);
        assert.equal(await runningOf(store), 0);
      },
    },
    {
      id: 'shared/limits-hold-over-all-processes',
      title: 'processes share the places of a definition',
      async run(store) {
        const other = await store.reopen();
        const fetch = { max: 100, lockMs, waitMs: 0 };
        await declare(store, { global: 2, perKey: 1 });
        await createKeyed(store, 'a', 3);
        await createKeyed(store, 'b', 3);
        const here = await store.claimWork({ max: 1 });
        const there = await other.fetchWorkItems(fetch);
        assert.deepEqual([here.length, there.length], [1, 1]);
        await claimExactly(store, 0);
        const [item] = there;
        assert.ok(item);
        const waiting = other.fetchWorkItems({ ...fetch, waitMs });
        await expectPending(waiting, 'the fetch');
        expectCommitted(await store.ackWork(item.lockToken));
        const [next] = await withTimeLimit(waiting, 'after an ack elsewhere');
        assert.ok(next);
        assert.equal(await runningOf(store), 2);
        // A process that only claims notices the places that it frees itself.
        const again = other.fetchWorkItems({ ...fetch, waitMs });
        await expectPending(again, 'the fetch');
        const outcome = { kind: 'completed', payload: null } as const;
        await other.ackWorkItems([{ lockToken: next.lockToken, outcome }]);
        assert.equal((await withTimeLimit(again, 'after an own ack')).length, 1);
      },
    },
  ],
};
