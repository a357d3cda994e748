import assert from 'node:assert/strict';
import type { CancelInstance, StopResult } from '../../../../providers/contract/cancellation.ts';
import type { Capability } from '../../conformance-case.ts';
import { completed, forceDelete } from '../../deletion-helpers.ts';
import { newInstance, startMessage, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { startTask } from '../../task-helpers.ts';

const first = { reason: 'enough', actor: 'ann', key: 'k' };

const cancel = (store: StoreUnderTest, id: string, parts: Partial<CancelInstance> = {}) =>
  store.cancel(id, { ...first, ...parts });

const changed = (status: StopResult['status']) => ({ found: true, changed: true, status });

export const repeatedStops: Capability = {
  title: 'repeated stops',
  cases: [
    {
      id: 'stop/a-repeat-changes-nothing',
      title:
        'requestCancel() with the key of an earlier request returns `changed` and changes nothing',
      async run(store) {
        await store.begin('plain');
        await store.begin('both');
        await store.begin('held', { workItems: [workItem(1, { claimMs: lockMs })] });
        await store.begin('queued', { workItems: [workItem(1)] });
        for (const id of ['plain', 'held', 'queued']) {
          assert.deepEqual(await cancel(store, id), changed('canceling'));
          const again = await store.expectNoChange(() => cancel(store, id, { reason: 'again' }));
          assert.deepEqual(again, changed('canceling'));
          const another = await store.expectNoChange(() => cancel(store, id, { key: 'other' }));
          assert.deepEqual(another, { found: true, changed: false, status: 'canceling' });
        }
        await startTask(store, 'task');
        assert.deepEqual(await cancel(store, 'task'), changed('canceling'));
        assert.deepEqual(await cancel(store, 'task'), changed('canceling'));
        // Both attempts in one batch.
        const request = { instanceId: 'both', cleanupMs: 1_000, ...first };
        assert.deepEqual(await store.provider.requestCancel([request, request]), [
          changed('canceling'),
          changed('canceling'),
        ]);
      },
    },
    {
      id: 'stop/a-repeat-spares-the-next-life',
      title: 'a repeated requestCancel() does not cancel a retried, replaced or recreated instance',
      async run(store) {
        for (const id of ['retried', 'replaced', 'recreated']) {
          await store.create(id);
          assert.deepEqual(await cancel(store, id), changed('canceled'));
        }
        const { incarnation, executionId } = await store.record('retried');
        const source = { instanceId: 'retried', incarnation, executionId, historyLength: 1 };
        const start = { messages: [startMessage()] };
        const [retried] = await store.provider.retryInstances([{ source, version: '1', start }]);
        assert.equal(retried?.kind, 'retried');
        await store.provider.createInstances([
          newInstance('replaced', { inputHash: 'other', onConflict: 'terminateExisting' }),
        ]);
        await forceDelete(store, 'recreated');
        assert.deepEqual(await cancel(store, 'recreated'), changed(null));
        await store.create('recreated');
        for (const id of ['retried', 'replaced', 'recreated']) {
          const { status } = await store.record(id);
          const again = await store.expectNoChange(() => cancel(store, id));
          assert.deepEqual(again, changed(status));
          assert.deepEqual(await cancel(store, id, { key: 'next' }), {
            ...changed(status === 'running' ? 'canceling' : 'canceled'),
          });
        }
      },
    },
    {
      id: 'stop/a-key-belongs-to-its-id',
      title: 'requestCancel() of another instance with the same key is another request',
      async run(store) {
        await store.begin('a');
        await store.begin('b');
        assert.deepEqual(await cancel(store, 'a'), changed('canceling'));
        assert.deepEqual(await cancel(store, 'b'), changed('canceling'));
        assert.equal((await store.record('b')).status, 'canceling');
      },
    },
    {
      id: 'stop/a-key-belongs-to-its-action',
      title: 'terminate() with the key of a cancel request, and the reverse, is another request',
      async run(store) {
        for (const id of ['plain', 'held']) {
          const items = id === 'held' ? { workItems: [workItem(1, { claimMs: lockMs })] } : {};
          await store.begin(id, items);
          assert.deepEqual(await cancel(store, id), changed('canceling'));
          assert.deepEqual(await store.terminate(id, { key: 'k' }), changed('terminated'));
        }
        await store.create('reverse');
        assert.deepEqual(await store.terminate('reverse', { key: 'k' }), changed('terminated'));
        await forceDelete(store, 'reverse');
        await store.begin('reverse');
        assert.deepEqual(await cancel(store, 'reverse'), changed('canceling'));
      },
    },
    {
      id: 'stop/a-key-expires-after-ten-minutes',
      title: 'requestCancel() with a key that was used more than ten minutes ago is a new request',
      async run(store) {
        for (const id of ['a', 'b']) {
          await store.create(id);
          assert.deepEqual(await cancel(store, id), changed('canceled'));
          await forceDelete(store, id);
        }
        await store.clock.advance(10 * 60_000 - 1);
        await store.begin('a');
        await store.begin('b');
        assert.deepEqual(await cancel(store, 'a'), changed('running'));
        await store.clock.advance(1);
        assert.deepEqual(await cancel(store, 'a'), changed('canceling'));
        assert.deepEqual(await cancel(store, 'b'), changed('canceling'));
        const again = await store.expectNoChange(() => cancel(store, 'a'));
        assert.deepEqual(again, changed('canceling'));
      },
    },
    {
      id: 'stop/an-ineffective-request-keeps-its-key-free',
      title: 'requestCancel() that found nothing to stop stops an instance that is created later',
      async run(store) {
        assert.deepEqual(await cancel(store, 'a'), { found: false, changed: false, status: null });
        await store.begin('over', { outcome: completed });
        assert.equal((await cancel(store, 'over')).changed, false);
        await store.begin('a');
        assert.deepEqual(await cancel(store, 'a'), changed('canceling'));
        assert.equal((await cancel(store, 'over')).changed, false);
      },
    },
    {
      id: 'terminate/a-repeat-changes-nothing',
      title: 'terminate() with the key of an earlier request does not end the next execution',
      async run(store) {
        await store.begin('a');
        const terminate = () => store.terminate('a', { key: 'k' });
        assert.deepEqual(await terminate(), changed('terminated'));
        assert.deepEqual(await store.expectNoChange(terminate), changed('terminated'));
        await store.provider.createInstances([
          newInstance('a', { inputHash: 'other', onConflict: 'terminateExisting' }),
        ]);
        assert.deepEqual(await store.expectNoChange(terminate), changed('running'));
      },
    },
  ],
};
