import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';
import { createTask, failTask, newTask, outcomes, startTask } from '../../task-helpers.ts';

const dedupeKey = 'key';

export const dedupeKeys: Capability = {
  title: 'dedupe keys',
  cases: [
    {
      id: 'key/names-the-active-run',
      title: 'createTasks() returns the pending or running run that has the dedupe key',
      async run(store) {
        await createTask(store, 'a', { dedupeKey });
        const second = () => createTask(store, 'b', { dedupeKey });
        const active = { kind: 'active', instanceId: 'a' };
        assert.deepEqual(await store.expectNoChange(second), active);
        await store.claimWorkOne();
        assert.deepEqual(await store.expectNoChange(second), active);
        assert.deepEqual(await store.claimWork(), []);
      },
    },
    {
      id: 'key/is-free-after-every-end',
      title: 'every end of a run frees its dedupe key',
      async run(store) {
        for (const [index, outcome] of outcomes.entries()) {
          const { lockToken } = await startTask(store, `acked ${index}`, { dedupeKey });
          expectCommitted(await store.ackWork(lockToken, outcome));
        }
        const create = async (id: string, expiresAt?: number) => {
          const parts = expiresAt === undefined ? {} : { expiresAt };
          const result = await createTask(store, id, { dedupeKey, ...parts });
          assert.equal(result.kind, 'created', id);
        };
        await create('canceled');
        await store.cancel('canceled');
        await create('terminated');
        await store.terminate('terminated');
        await create('expired', store.clock.now() + 1);
        await store.clock.advance(1);
        assert.deepEqual(await store.claimWork(), []);
        await create('last');
      },
    },
    {
      id: 'key/is-held-while-canceling',
      title: 'a canceling run keeps its dedupe key until its handler has stopped',
      async run(store) {
        const { lockToken } = await startTask(store, 'a', { dedupeKey });
        await store.cancel('a');
        const second = () => createTask(store, 'b', { dedupeKey });
        assert.deepEqual(await second(), { kind: 'active', instanceId: 'a' });
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        assert.equal((await second()).kind, 'created');
      },
    },
    {
      id: 'key/is-held-after-a-terminate',
      title: 'a terminated run keeps its dedupe key until its work item is settled',
      async run(store) {
        const { lockToken } = await startTask(store, 'a', { dedupeKey });
        await store.terminate('a');
        const create = (id: string) => createTask(store, id, { dedupeKey });
        assert.deepEqual(await create('b'), { kind: 'active', instanceId: 'a' });
        expectCommitted(await store.ackWork(lockToken));
        assert.equal((await create('b')).kind, 'created');
        await store.claimWorkOne();
        await store.terminate('b');
        await store.clock.advance(lockMs);
        const { lockToken: lapsed } = await store.claimWorkOne({ tasks: [], names: [] });
        assert.deepEqual(await create('c'), { kind: 'active', instanceId: 'b' });
        expectCommitted(await store.ackWork(lapsed, { kind: 'canceled', leaked: false }));
        assert.equal((await create('c')).kind, 'created');
      },
    },
    {
      id: 'key/is-held-between-attempts',
      title: 'a run keeps its dedupe key between attempts and after its lease expired',
      async run(store) {
        const { provider } = store;
        const { lockToken } = await startTask(store, 'a', { dedupeKey });
        await provider.retryWorkItems([{ lockToken, delayMs: 0, failure: '{}' }]);
        const active = { kind: 'active', instanceId: 'a' };
        assert.deepEqual(await createTask(store, 'b', { dedupeKey }), active);
        await store.claimWorkOne();
        await store.clock.advance(lockMs);
        assert.deepEqual(await createTask(store, 'b', { dedupeKey }), active);
      },
    },
    {
      id: 'key/is-not-held-by-the-handler-for-failures',
      title: 'a failed run frees its dedupe key while its on-fail handler runs',
      async run(store) {
        const { lockToken } = await failTask(store, 'a', { dedupeKey });
        assert.equal((await createTask(store, 'b', { dedupeKey })).kind, 'created');
        expectCommitted(await store.ackWork(lockToken));
        const third = await createTask(store, 'c', { dedupeKey });
        assert.deepEqual(third, { kind: 'active', instanceId: 'b' });
      },
    },
    {
      id: 'key/belongs-to-its-name',
      title: 'tasks of different names can have the same dedupe key',
      async run(store) {
        await createTask(store, 'a', { dedupeKey });
        const other = await createTask(store, 'b', { dedupeKey, name: 'other' });
        assert.equal(other.kind, 'created');
        const longer = await createTask(store, 'c', { dedupeKey: `${dedupeKey} ` });
        assert.equal(longer.kind, 'created');
      },
    },
    {
      id: 'key/a-known-id-comes-first',
      title: 'a repeated createTasks() returns exists or conflict and takes no dedupe key',
      async run(store) {
        await createTask(store, 'a', { dedupeKey });
        assert.deepEqual(await createTask(store, 'a', { dedupeKey }), { kind: 'exists' });
        const other = { dedupeKey, inputHash: 'other' };
        const conflict = { kind: 'conflict', name: 'task' };
        assert.deepEqual(await createTask(store, 'a', other), conflict);
        const free = { dedupeKey: 'free' };
        assert.deepEqual(await createTask(store, 'a', free), { kind: 'exists' });
        assert.equal((await createTask(store, 'b', free)).kind, 'created');
      },
    },
    {
      id: 'key/concurrent-creations-have-one-winner',
      title: 'one of 20 concurrent creations with one dedupe key wins; the others return active',
      async run(store) {
        const ids = Array.from({ length: 20 }, (_, index) => `t${index}`);
        const results = await Promise.all(ids.map((id) => createTask(store, id, { dedupeKey })));
        const winners = ids.filter((_, index) => results[index]?.kind === 'created');
        assert.equal(winners.length, 1);
        for (const [index, id] of ids.entries()) {
          if (id === winners[0]) continue;
          assert.deepEqual(results[index], { kind: 'active', instanceId: winners[0] });
        }
        await store.claimWorkOne();
      },
    },
    {
      id: 'shared/one-key-has-one-run',
      title: 'concurrent creations with one dedupe key by two processes have one winner',
      async run(store) {
        const other = await store.reopen();
        for (let round = 0; round < 10; round += 1) {
          const key = { dedupeKey: `k${round}` };
          const results = await Promise.all([
            store.provider.createTasks([newTask(`a${round}`, key)]),
            other.createTasks([newTask(`b${round}`, key)]),
          ]);
          const kinds = results.flat().map(({ kind }) => kind);
          assert.deepEqual(kinds.toSorted(), ['active', 'created']);
          const winner = kinds[0] === 'created' ? `a${round}` : `b${round}`;
          const loser = results.flat().find(({ kind }) => kind === 'active');
          assert.deepEqual(loser, { kind: 'active', instanceId: winner });
        }
      },
    },
  ],
};
