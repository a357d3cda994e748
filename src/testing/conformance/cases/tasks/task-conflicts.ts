import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import { openSession, submit, taskJob } from '../../job-helpers.ts';
import { createTask, expectTokenRejected, failTask, startTask } from '../../task-helpers.ts';

const replacing = { onConflict: 'terminateExisting', inputHash: 'another' } as const;

export const taskConflicts: Capability = {
  title: 'task runs whose id is taken',
  cases: [
    {
      id: 'task-conflict/uses-the-existing',
      title: 'createTasks() with `useExisting` returns `exists` for another input',
      async run(store) {
        const item = await startTask(store, 'over');
        expectCommitted(await store.ackWork(item.lockToken));
        await createTask(store, 'queued', { delayMs: 1_000 });
        for (const id of ['over', 'queued']) {
          const own = { onConflict: 'useExisting', inputHash: 'another' } as const;
          const result = await store.expectNoChange(() => createTask(store, id, own));
          assert.deepEqual(result, { kind: 'exists' });
        }
      },
    },
    {
      id: 'task-conflict/replaces-a-queued-run',
      title: 'createTasks() with `terminateExisting` replaces a queued run with all its options',
      async run(store) {
        await createTask(store, 'one', {
          delayMs: 1_000,
          tags: { old: '1' },
          timeoutMs: 1_000,
          dedupeKey: 'k',
        });
        const result = await createTask(store, 'one', {
          ...replacing,
          payload: '"new"',
          priority: 7,
          tags: { new: '2' },
        });
        assert.equal(result.kind, 'created');
        const item = await store.claimWorkOne();
        assert.deepEqual([item.instanceId, item.payload], ['one', '"new"']);
        const { executionId, status, tags } = await store.record('one');
        assert.deepEqual([executionId, status, tags], [2, 'running', { new: '2' }]);
        const [first] = await store.executions('one');
        assert.equal(first?.status, 'terminated');
        // The key of the replaced run is free, and the new one has no timeout.
        assert.equal(
          (await createTask(store, 'two', { dedupeKey: 'k', delayMs: 1e9 })).kind,
          'created',
        );
        await store.clock.advance(2_000);
        const applied = await store.provider.applyTimeouts({ limit: 1, cleanupMs: 1 });
        assert.equal(applied.canceled, 0);
        expectCommitted(await store.ackWork(item.lockToken));
        assert.deepEqual(await createTask(store, 'one', { inputHash: 'another' }), {
          kind: 'exists',
        });
      },
    },
    {
      id: 'task-conflict/replaces-a-held-run',
      title: 'a worker that holds a replaced run loses its lease, and changes nothing',
      async run(store) {
        const held = await startTask(store, 'one');
        assert.equal((await createTask(store, 'one', replacing)).kind, 'created');
        await expectTokenRejected(store, held.lockToken);
        const item = await store.claimWorkOne();
        assert.equal(item.instanceId, 'one');
        expectCommitted(await store.ackWork(item.lockToken));
        const { status, executionId } = await store.record('one');
        assert.deepEqual([status, executionId], ['completed', 2]);
        await store.expectIdle();
      },
    },
    {
      id: 'task-conflict/replaces-an-ended-run',
      title: 'an ended run is replaced, with a delay and an expiry of its own',
      async run(store) {
        const item = await startTask(store, 'one');
        expectCommitted(await store.ackWork(item.lockToken));
        const times = { delayMs: 1_000, expiresInMs: 500 };
        assert.equal((await createTask(store, 'one', { ...replacing, ...times })).kind, 'created');
        const { status, output } = await store.record('one');
        assert.deepEqual([status, output], ['pending', null]);
        assert.deepEqual(await store.claimWork(), []);
        await store.clock.advance(1_500);
        assert.deepEqual(await store.claimWork(), []);
        assert.equal((await store.record('one')).status, 'expired');
      },
    },
    {
      id: 'task-conflict/a-repeat-replaces-nothing',
      title: 'a repeat with the same incarnation replaces nothing',
      async run(store) {
        await createTask(store, 'one');
        const again = { ...replacing, incarnation: 'again' };
        assert.equal((await createTask(store, 'one', again)).kind, 'created');
        const repeat = await store.expectNoChange(() => createTask(store, 'one', again));
        assert.deepEqual(repeat, { kind: 'exists' });
      },
    },
    {
      id: 'task-conflict/another-name-stays',
      title: 'another name, an orchestration and a job are not used and not replaced',
      async run(store) {
        await openSession(store);
        await submit(store, taskJob('job', { delayMs: 1_000 }));
        await store.begin('orchestration');
        await createTask(store, 'one', { delayMs: 1_000 });
        for (const onConflict of ['useExisting', 'terminateExisting'] as const) {
          const other = { name: 'another', onConflict };
          const results = await store.expectNoChange(async () => [
            await createTask(store, 'one', other),
            await createTask(store, 'orchestration', { name: 'sample', onConflict }),
          ]);
          assert.deepEqual(
            results.map(({ kind }) => kind),
            ['conflict', 'conflict'],
          );
        }
        const job = await store.expectNoChange(() => createTask(store, 'job', replacing));
        assert.deepEqual(job, { kind: 'conflict', name: 'task' });
      },
    },
    {
      id: 'task-conflict/waits-for-the-handler-of-failures',
      title: 'a failed run is not replaced before its onFail handler has finished',
      async run(store) {
        const handler = await failTask(store, 'one');
        const early = await store.expectNoChange(() => createTask(store, 'one', replacing));
        assert.deepEqual(early, { kind: 'conflict', name: 'task' });
        expectCommitted(await store.ackWork(handler.lockToken));
        assert.equal((await createTask(store, 'one', replacing)).kind, 'created');
      },
    },
  ],
};
