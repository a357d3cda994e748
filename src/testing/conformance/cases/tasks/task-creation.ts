import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { newInstance } from '../../sample-data.ts';
import { only } from '../../expectations.ts';
import { createTask, createTasks, newTask } from '../../task-helpers.ts';

export const taskCreation: Capability = {
  title: 'task creation',
  cases: [
    {
      id: 'task-create/counts-a-delay-by-its-own-clock',
      title: 'delayMs counts from the store clock at creation',
      async run(store) {
        await store.clock.advance(123);
        await createTasks(store, [
          newTask('a', { delayMs: 10 }),
          newTask('b', { delayMs: 10, expiresInMs: 5 }),
          newTask('c', { delayMs: 20, dedupeKey: 'k' }),
        ]);
        const now = store.clock.now();
        const times = async (id: string) => {
          const { task } = await store.record(id);
          return [task?.runAt, task?.expiresAt];
        };
        assert.deepEqual(await times('a'), [now + 10, null]);
        assert.deepEqual(await times('b'), [now + 10, now + 15]);
        assert.deepEqual(await times('c'), [now + 20, null]);
        await store.clock.advance(9);
        await store.expectIdle();
        await store.clock.advance(1);
        assert.equal((await store.claimWork()).length, 2);
        await store.expectIdle();
        await store.clock.advance(10);
        assert.equal((await store.claimWorkOne()).instanceId, 'c');
      },
    },
    {
      id: 'task-create/counts-an-expiry-from-when-it-may-start',
      title: 'expiresInMs counts from the time at which the run may start',
      async run(store) {
        const now = store.clock.now();
        await createTasks(store, [
          newTask('now', { expiresInMs: 7 }),
          newTask('past', { runAt: now - 100, expiresInMs: 7 }),
          newTask('later', { runAt: now + 50, expiresInMs: 7 }),
        ]);
        for (const [id, expiresAt] of [
          ['now', now + 7],
          ['past', now + 7],
          ['later', now + 57],
        ] as const) {
          const { task } = await store.record(id);
          assert.equal(task?.expiresAt, expiresAt, id);
        }
      },
    },
    {
      id: 'task-create/inserts-a-pending-run',
      title: 'createTasks() creates a pending run with its given values',
      async run(store) {
        const now = store.clock.now();
        const task = newTask('a', {
          name: 'mail',
          priority: 7,
          payload: '{"to":1}',
          options: '{"headers":{}}',
          runAt: now + 10,
          expiresAt: now + 20,
          dedupeKey: 'k',
          onFail: { options: null },
        });
        const result = only(await store.provider.createTasks([task]), 'result');
        assert.equal(result.kind, 'created');
        assert.deepEqual(await store.record('a'), {
          instanceKey: result.instanceKey,
          instanceId: 'a',
          incarnation: task.incarnation,
          kind: 'task',
          name: 'mail',
          version: null,
          status: 'pending',
          executionId: 1,
          parentInstanceId: null,
          output: null,
          failure: null,
          customStatus: null,
          customStatusVersion: 0,
          createdAt: now,
          runAt: now + 10,
          startedAt: null,
          endedAt: null,
          cancel: null,
          cleanupSkipped: false,
          leaked: 0,
          terminated: null,
          blocked: null,
          tags: {},
          forkedFrom: null,
          paused: null,
          task: {
            priority: 7,
            input: '{"to":1}',
            dedupeKey: 'k',
            runAt: now + 10,
            expiresAt: now + 20,
            failures: 0,
            options: '{"headers":{}}',
            onFail: null,
            onFailFailure: null,
          },
        });
      },
    },
    {
      id: 'task-create/enqueues-the-item-with-the-row',
      title: 'a new task run is claimable immediately, with its given values',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        const task = newTask('a', { name: 'mail', payload: '{"to":1}', options: '{"x":[1]}' });
        const result = only(await store.provider.createTasks([task]), 'result');
        assert.equal(result.kind, 'created');
        const { lockToken, ...claimed } = await store.claimWorkOne();
        assert.ok(lockToken.length > 0);
        assert.deepEqual(claimed, {
          kind: 'task',
          instanceKey: result.instanceKey,
          instanceId: 'a',
          incarnation: task.incarnation,
          executionId: 1,
          operation: claimed.operation,
          name: 'mail',
          orchestration: 'mail',
          payload: '{"to":1}',
          options: '{"x":[1]}',
          claims: 1,
          failures: 0,
          heartbeat: null,
          cancel: null,
          nowMs: store.clock.now(),
          dueAt: store.clock.now(),
        });
        await expectUnchanged();
      },
    },
    {
      id: 'task-create/needs-no-turn',
      title: 'a task run has no messages and no history, and one execution',
      async run(store) {
        await createTask(store, 'a');
        assert.deepEqual(await store.claim(), []);
        assert.deepEqual(await store.history('a'), []);
        const execution = only(await store.executions('a'), 'execution');
        assert.deepEqual([execution.status, execution.historyLength], ['pending', 0]);
      },
    },
    {
      id: 'task-create/has-no-messages',
      title: 'enqueueMessages() to a task run returns over and stores nothing',
      async run(store) {
        await createTask(store, 'a');
        const message = {
          kind: 'eventRaised',
          executionId: null,
          operation: null,
          data: '{}',
          payload: null,
        };
        const results = await store.expectNoChange(() =>
          store.provider.enqueueMessages([{ instanceId: 'a', message }]),
        );
        assert.deepEqual(results, ['over']);
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.provider.queueDepths()).messages, 0);
      },
    },
    {
      id: 'task-create/the-same-task-exists',
      title: 'createTasks() with the same id, name and input returns exists, also after its end',
      async run(store) {
        await createTask(store, 'a');
        const again = () => createTask(store, 'a', { priority: 5 });
        assert.deepEqual(await store.expectNoChange(again), { kind: 'exists' });
        await store.ackWork((await store.claimWorkOne()).lockToken);
        assert.deepEqual(await store.expectNoChange(again), { kind: 'exists' });
        await store.expectIdle();
      },
    },
    {
      id: 'task-create/another-name-or-input-conflicts',
      title: 'createTasks() with the id of another name or input returns conflict',
      async run(store) {
        await createTask(store, 'a');
        for (const parts of [{ name: 'other' }, { inputHash: 'other' }]) {
          const result = await store.expectNoChange(() => createTask(store, 'a', parts));
          assert.deepEqual(result, { kind: 'conflict', name: 'task' });
        }
        only(await store.claimWork(), 'item');
      },
    },
    {
      id: 'task-create/ids-are-shared-with-orchestrations',
      title: 'a task and an orchestration of one name cannot share an id',
      async run(store) {
        const name = 'both';
        await store.create('a', { name });
        const task = await store.expectNoChange(() => createTask(store, 'a', { name }));
        assert.deepEqual(task, { kind: 'conflict', name });
        await createTask(store, 'b', { name });
        const starts = () => store.provider.createInstances([newInstance('b', { name })]);
        assert.deepEqual(await store.expectNoChange(starts), [{ kind: 'conflict', name }]);
      },
    },
    {
      id: 'task-create/repeats-within-a-batch',
      title: 'createTasks() compares each task with earlier ones of its batch',
      async run(store) {
        const results = await store.provider.createTasks([
          newTask('a'),
          newTask('a'),
          newTask('a', { inputHash: 'other' }),
          newTask('b', { dedupeKey: 'k' }),
          newTask('c', { dedupeKey: 'k' }),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'exists', 'conflict', 'created', 'active'],
        );
        assert.deepEqual((await store.claimWork()).length, 2);
      },
    },
    {
      id: 'task-create/a-bad-one-spares-its-neighbours',
      title: 'an invalid task is refused and does not affect the others of its batch',
      async run(store) {
        const bad = { dedupeKey: 'k', onFail: { options: null } };
        const results = await store.provider.createTasks([
          newTask('a'),
          newTask('too-high', { priority: 101, ...bad }),
          newTask('too-low', { priority: -101, ...bad }),
          newTask('b', { priority: -100, dedupeKey: 'k' }),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'refused', 'refused', 'created'],
        );
        const records = await store.provider.getInstances(['too-high', 'too-low']);
        assert.deepEqual(records, [undefined, undefined]);
        assert.equal((await store.claimWork()).length, 2);
      },
    },
    {
      id: 'task-create/a-thousand-at-once',
      title: 'a thousand tasks are created, claimed and acked in one call each',
      async run(store) {
        const tasks = Array.from({ length: 1_000 }, (_, index) => newTask(`t${index}`));
        await createTasks(store, tasks);
        const items = await store.claimWork();
        assert.deepEqual(
          items.map(({ instanceId }) => instanceId),
          tasks.map(({ instanceId }) => instanceId),
        );
        const outcome = { kind: 'completed', payload: null } as const;
        const acks = items.map(({ lockToken }) => ({ lockToken, outcome }));
        const results = await store.provider.ackWorkItems(acks);
        assert.ok(results.every((result) => result.ok && result.ended === 'completed'));
        const metrics = await store.provider.systemMetrics();
        assert.equal(metrics.instances.completed, 1_000);
        await store.expectIdle();
      },
    },
    {
      id: 'task-create/thousands-keep-their-order',
      title:
        'thousands of tasks of one call are claimed in order, and a taken id spares the others',
      async run(store) {
        await createTasks(store, [newTask('taken', { inputHash: 'other' })]);
        await store.claimWorkOne();
        const tasks = Array.from({ length: 2_500 }, (_, index) => newTask(`t${index}`));
        await createTasks(store, tasks);
        const later = [...tasks.map((_, index) => newTask(`u${index}`)), newTask('taken')];
        const results = await store.provider.createTasks(later);
        assert.deepEqual(
          results.filter(({ kind }) => kind !== 'created').map(({ kind }) => kind),
          ['conflict'],
        );
        assert.equal(results.length, later.length);
        const claimed: string[] = [];
        while (claimed.length < 2 * tasks.length) {
          const items = await store.claimWork({ max: 1_000 });
          assert.ok(items.length > 0);
          claimed.push(...items.map(({ instanceId }) => instanceId));
        }
        const created = [...tasks, ...later.slice(0, -1)];
        assert.deepEqual(
          claimed,
          created.map(({ instanceId }) => instanceId),
        );
      },
    },
    {
      id: 'task-create/text-is-only-text',
      title: 'ids, names, dedupe keys and options of any text are stored unchanged',
      async run(store) {
        const texts = [`'; DROP TABLE x --`, '%_\\', 'é', 'e\u0301', '\u0001x', '', '🙂'];
        const tasks = texts.map((text, index) =>
          newTask(`${index} ${text}`, {
            name: `n${text}`,
            dedupeKey: `k${text}`,
            options: JSON.stringify(text),
            payload: JSON.stringify(text),
          }),
        );
        await createTasks(store, tasks);
        for (const [index, task] of tasks.entries()) {
          const item = await store.claimWorkOne({ tasks: [task.name], names: [] });
          assert.deepEqual(
            [item.instanceId, item.name, item.payload, item.options],
            [task.instanceId, task.name, task.payload, task.options],
          );
          const { dedupeKey, name } = task;
          assert.ok(dedupeKey !== undefined);
          const held = await createTask(store, `again ${index}`, { name, dedupeKey });
          assert.deepEqual(held, { kind: 'active', instanceId: task.instanceId });
        }
      },
    },
  ],
};
