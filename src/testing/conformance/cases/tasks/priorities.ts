import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { workItem } from '../../sample-data.ts';
import { lockMs } from '../../store-under-test.ts';
import { createTask, createTasks, failure, idsOf, newTask } from '../../task-helpers.ts';

export const priorities: Capability = {
  title: 'priorities',
  cases: [
    {
      id: 'priority/higher-first-then-first-in',
      title: 'runs are claimed by priority, then by visibility time',
      async run(store) {
        for (const [id, priority] of [
          ['low', -100],
          ['normal', 0],
          ['high', 10],
          ['top', 100],
          ['high too', 10],
        ] as const) {
          await createTask(store, id, { priority });
          await store.clock.advance(1);
        }
        const claimed = [];
        for (let count = 0; count < 5; count += 1) {
          claimed.push(...idsOf(await store.claimWork({ max: 1 })));
        }
        assert.deepEqual(claimed, ['top', 'high', 'high too', 'normal', 'low']);
      },
    },
    {
      id: 'priority/counts-within-a-batch',
      title: 'a fetch of several claims the highest priorities, in order',
      async run(store) {
        const wanted = [3, 1, 2, 3, 1, 2].map((priority, index) =>
          newTask(`${priority}${index}`, { priority }),
        );
        await createTasks(store, wanted);
        assert.deepEqual(idsOf(await store.claimWork({ max: 4 })), ['30', '33', '22', '25']);
        assert.deepEqual(idsOf(await store.claimWork({ max: 4 })), ['11', '14']);
      },
    },
    {
      id: 'priority/counts-across-names',
      title: 'priority orders tasks and activities across names',
      async run(store) {
        const workItems = [
          workItem(1),
          workItem(2, { priority: 20 }),
          workItem(3, { name: 'b', priority: 5 }),
        ];
        await createTasks(store, [
          newTask('c', { name: 'c', priority: 10 }),
          newTask('d', { name: 'd', priority: -1 }),
        ]);
        await store.begin('o', { workItems });
        const items = await store.claimWork();
        assert.deepEqual(
          items.map(({ instanceId, kind, operation }) =>
            kind === 'activity' ? operation : instanceId,
          ),
          [2, 'c', 3, 1, 'd'],
        );
      },
    },
    {
      id: 'priority/what-cannot-be-claimed-does-not-stand-in-the-way',
      title: 'delayed and held runs of higher priority do not block lower ones',
      async run(store) {
        const runAt = store.clock.now() + 2 * lockMs;
        await createTasks(store, [
          ...Array.from({ length: 30 }, (_, index) =>
            newTask(`delayed ${index}`, { priority: 100 - index, runAt }),
          ),
          newTask('held', { priority: 90 }),
        ]);
        assert.deepEqual(idsOf(await store.claimWork()), ['held']);
        await createTasks(store, [
          newTask('low', { priority: -5 }),
          newTask('lower', { priority: -6 }),
        ]);
        assert.deepEqual(idsOf(await store.claimWork({ max: 1 })), ['low']);
        assert.deepEqual(idsOf(await store.claimWork({ max: 1 })), ['lower']);
        await store.clock.advanceTo(runAt);
        const next = idsOf(await store.claimWork({ max: 2 }));
        assert.deepEqual(next, ['delayed 0', 'delayed 1']);
      },
    },
    {
      id: 'priority/stays-over-attempts',
      title: 'a run keeps its priority after a retry and an abandon',
      async run(store) {
        const { provider } = store;
        await createTasks(store, [newTask('a', { priority: 5 }), newTask('b', { priority: 1 })]);
        const [first] = await store.claimWork({ max: 1 });
        const lockToken = first?.lockToken ?? '';
        await provider.retryWorkItems([{ lockToken, delayMs: 0, failure }]);
        const [second] = await store.claimWork({ max: 1 });
        assert.equal(second?.instanceId, 'a');
        await provider.abandonWorkItems([
          { lockToken: second.lockToken, delayMs: 0, giveBackClaim: false },
        ]);
        const [third] = await store.claimWork({ max: 1, lockMs: 1 });
        assert.equal(third?.instanceId, 'a');
      },
    },
  ],
};
