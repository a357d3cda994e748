import assert from 'node:assert/strict';
import type { Turn } from '../../../../providers/contract/turn.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import { by, expectNothingClaimable, pause, pausedOf, resume } from '../../pause-helpers.ts';
import { child, event, newTurn, workItem } from '../../sample-data.ts';
import { labels } from '../../store-under-test.ts';

export const treePauses: Capability = {
  title: 'pauses of trees',
  cases: [
    {
      id: 'pause/a-whole-tree',
      title: 'with `tree` the descendants are paused and resumed too',
      async run(store) {
        await store.begin('a', { children: [child('b', 1)] });
        assert.equal((await pause(store, 'a')).changed, true);
        assert.equal(await pausedOf(store, 'b'), null);
        assert.equal((await pause(store, 'a', { tree: true })).changed, true);
        assert.deepEqual(await pausedOf(store, 'b'), { at: store.clock.now(), ...by });
        await expectNothingClaimable(store);
        await resume(store, 'a');
        await expectNothingClaimable(store);
        assert.equal((await resume(store, 'a', true)).changed, true);
        assert.equal((await store.claimOne()).instanceId, 'b');
      },
    },
    {
      id: 'pause/a-child-of-a-turn-under-way',
      title: 'a child that a turn under way starts is paused if the tree is',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await pause(store, 'a', { tree: true });
        await store.commit(item, { children: [child('b', 1)] });
        assert.equal((await pausedOf(store, 'b'))?.reason, by.reason);
        await expectNothingClaimable(store);
        await resume(store, 'a', true);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'pause/a-child-canceled-by-the-turn-that-starts-it',
      title: 'a child that one turn of a paused tree starts and cancels is canceled, not paused',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await pause(store, 'a', { tree: true });
        const children = [child('b', 1), child('c', 2)];
        const childCancels = [{ instanceId: 'b', reason: 'lost the race' }];
        await store.clock.advance(5);
        await store.commit(item, { children, childCancels });
        const { status, paused } = await store.record('b');
        assert.deepEqual({ status, paused }, { status: 'canceled', paused: null });
        assert.deepEqual(await pausedOf(store, 'c'), { at: store.clock.now(), ...by });
        assert.equal((await store.provider.systemMetrics()).pausedInstances, 2);
        await expectNothingClaimable(store);
        await resume(store, 'a', true);
        const claimed = await store.claim();
        assert.deepEqual(
          new Map(claimed.map((one) => [one.instanceId, labels(one)])),
          new Map([
            ['a', ['childCanceled 1']],
            ['c', ['start']],
          ]),
        );
      },
    },
    {
      id: 'pause/a-cancel-in-the-batch-of-a-turn',
      title: 'a parent that cancels a paused child in the batch of its turn ends the pause',
      async run(store) {
        await store.begin('a', { children: [child('b', 1)] });
        await store.commit(await store.claimOne(), { events: [event('begun')] });
        await store.raise('a', 'x');
        await store.raise('b', 'x');
        const items = await store.claim();
        await pause(store, 'b');
        const turns: Readonly<Record<string, Partial<Turn>>> = {
          a: { childCancels: [{ instanceId: 'b', reason: 'not wanted' }] },
          b: { workItems: [workItem(1, { shielded: true })] },
        };
        const acks = items.map(({ instanceId, lockToken, messages, historyLength }) => ({
          lockToken,
          messageKeys: messages.map(({ messageKey }) => messageKey),
          turn: newTurn({ firstEventId: historyLength + 1, ...turns[instanceId] }),
          instanceId,
        }));
        // The turn of the child is before the one that cancels it.
        const ordered = acks.toSorted((one, other) => (one.instanceId < other.instanceId ? 1 : -1));
        for (const result of await store.provider.ackOrchestrationItems(ordered)) {
          expectCommitted(result);
        }
        const { status, paused } = await store.record('b');
        assert.deepEqual({ status, paused }, { status: 'canceling', paused: null });
        assert.equal((await store.claimWorkOne()).instanceId, 'b');
        const stopping = await store.claimOne();
        assert.deepEqual([stopping.instanceId, labels(stopping)], ['b', ['cancel']]);
      },
    },
  ],
};
