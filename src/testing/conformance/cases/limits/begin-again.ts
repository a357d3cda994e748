import assert from 'node:assert/strict';
import type { NewInstance } from '../../../../providers/contract/instances.ts';
import type { RerunSource } from '../../../../providers/contract/reruns.ts';
import { beginAll, createAll, end, limit, ofKey, running, sample } from '../../begin-helpers.ts';
import type { Capability } from '../../conformance-case.ts';
import { only } from '../../expectations.ts';
import { event, newInstance, raised } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';

/** Starts the instance again with another input, in place of its execution. */
async function replace({ provider }: StoreUnderTest, id: string): Promise<void> {
  const start = newInstance(id, { onConflict: 'terminateExisting', inputHash: 'other' });
  const [result] = await provider.createInstances([start]);
  assert.equal(result?.kind, 'created');
}

/** Fails a begun instance by its next turn. */
async function fail(store: StoreUnderTest, instanceId: string): Promise<void> {
  await store.raise(instanceId, 'fail');
  const item = only(await store.claim(), 'claim of the instance to fail');
  assert.equal(item.instanceId, instanceId);
  const failure = '{"name":"Error","message":"x"}';
  await store.commit(item, { firstEventId: 2, outcome: { status: 'failed', failure } });
}

async function sourceOf(store: StoreUnderTest, instanceId: string): Promise<RerunSource> {
  const { incarnation, executionId } = await store.record(instanceId);
  return { instanceId, incarnation, executionId, historyLength: 1 };
}

/** A start that keeps the first event of a failed instance. */
const kept = { kept: { first: event('begun'), length: 1 }, messages: [raised('again')] };

async function retryFailed(store: StoreUnderTest, id: string): Promise<void> {
  const source = await sourceOf(store, id);
  const [result] = await store.provider.retryInstances([{ source, version: '1', start: kept }]);
  assert.equal(result?.kind, 'retried');
}

export const beginAgain: Capability = {
  title: 'limits of instances that begin again',
  cases: [
    {
      id: 'begin/a-replacement-has-its-own-key',
      title: 'a start that replaces an instance has its own key, or none',
      async run(store) {
        await limit(store, { perKey: 1 });
        const keysInUse = async () => {
          const { records } = await store.provider.listLanes({
            ...sample,
            limit: 10,
            order: 'key',
          });
          return records.flatMap(({ key, running: inUse }) => (inUse === 0 ? [] : [key]));
        };
        const replace = async (parts: Partial<NewInstance>) => {
          const start = newInstance('a', { onConflict: 'terminateExisting', ...parts });
          const [result] = await store.provider.createInstances([start]);
          assert.equal(result?.kind, 'created');
          assert.deepEqual(await beginAll(store), ['a']);
        };
        await createAll(store, ['a'], 'one');
        assert.deepEqual(await beginAll(store), ['a']);
        await replace(ofKey('two'));
        assert.deepEqual(await keysInUse(), ['two']);
        await replace({});
        assert.deepEqual(await keysInUse(), ['']);
      },
    },
    {
      id: 'begin/a-replacement-waits',
      title: 'a start that replaces a waiting, a begun or an ended instance waits for a place',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b']);
        assert.deepEqual(await beginAll(store), ['a']);
        await replace(store, 'b');
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.provider.inspectTurn('b'))?.waitingKey, '');
        assert.equal(await running(store), 1);
        await replace(store, 'a');
        assert.equal((await beginAll(store)).length, 1);
        assert.deepEqual(await store.claim(), []);
        assert.equal(await running(store), 1);
        await store.terminate('a');
        await store.terminate('b');
        await createAll(store, ['c']);
        assert.deepEqual(await beginAll(store), ['c']);
        await replace(store, 'a');
        assert.deepEqual(await store.claim(), []);
        await store.raise('a', 'early');
        assert.deepEqual(await store.claim(), []);
        await end(store, 'c');
        assert.deepEqual(await beginAll(store), ['a']);
        assert.equal(await running(store), 1);
      },
    },
    {
      id: 'begin/a-retry-waits',
      title: 'a retried and a forked instance wait for a place, and keep it until their end',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b']);
        assert.deepEqual(await beginAll(store), ['a']);
        await fail(store, 'a');
        assert.deepEqual(await beginAll(store), ['b']);
        const source = await sourceOf(store, 'a');
        await retryFailed(store, 'a');
        const { incarnation, inputHash, name } = newInstance('fork');
        const forks = await store.provider.forkInstances([
          {
            source,
            instanceId: 'fork',
            incarnation,
            inputHash,
            name,
            version: '1',
            forkedFrom: '{}',
            start: kept,
          },
        ]);
        assert.deepEqual(forks, [{ kind: 'forked' }]);
        assert.deepEqual(await store.claim(), []);
        assert.equal(await running(store), 1);
        for (const id of ['a', 'fork']) {
          assert.equal((await store.provider.inspectTurn(id))?.waitingKey, '');
        }
        await store.terminate('b');
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'a');
        await store.commit(item, { firstEventId: 2, events: [event('again')] });
        assert.deepEqual(await store.claim(), []);
        await store.terminate('a');
        assert.equal((await store.claimOne()).instanceId, 'fork');
        assert.equal(await running(store), 1);
      },
    },
    {
      id: 'begin/a-fork-has-the-key-of-its-source',
      title: 'a fork waits for a place of the key of its source, and has its weight',
      async run(store) {
        await limit(store, { perKey: 1 });
        await store.create('a', ofKey('one', 3));
        assert.deepEqual(await beginAll(store), ['a']);
        const { incarnation, inputHash, name } = newInstance('fork');
        const own = { instanceId: 'fork', incarnation, inputHash, name, version: '1' };
        const forks = await store.provider.forkInstances([
          { source: await sourceOf(store, 'a'), ...own, forkedFrom: '{}', start: kept },
        ]);
        assert.deepEqual(forks, [{ kind: 'forked' }]);
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.provider.inspectTurn('fork'))?.waitingKey, 'one');
        const { records } = await store.provider.listLanes({ ...sample, limit: 10, order: 'key' });
        assert.deepEqual(
          records.map(({ key, weight, waiting }) => ({ key, weight, waiting })),
          [{ key: 'one', weight: 3, waiting: 1 }],
        );
        await store.terminate('a');
        assert.equal((await store.claimOne()).instanceId, 'fork');
      },
    },
    {
      id: 'begin/a-canceled-retry-cleans-up',
      title: 'a retried instance that is canceled while it waits is claimed, and counts',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b']);
        assert.deepEqual(await beginAll(store), ['a']);
        await fail(store, 'a');
        assert.deepEqual(await beginAll(store), ['b']);
        await retryFailed(store, 'a');
        assert.deepEqual(await store.claim(), []);
        await store.cancel('a');
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'a');
        assert.equal(await running(store), 2);
        await store.commit(item, {
          firstEventId: 2,
          outcome: { status: 'canceled', reason: 'x', cleanupSkipped: false },
        });
        await createAll(store, ['c']);
        assert.deepEqual(await store.claim(), []);
        assert.equal(await running(store), 1);
        await end(store, 'b');
        assert.deepEqual(await beginAll(store), ['c']);
      },
    },
  ],
};
