import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectInAnyOrder, expectRefused } from '../../expectations.ts';
import { child, cleanupMs, event, startMessage } from '../../sample-data.ts';
import { contents, labels, type StoreUnderTest } from '../../store-under-test.ts';
import type { Turn, TurnOutcome } from '../../../../providers/contract/turn.ts';

/** Begins a parent with four children: running, pending, with cancellation abandon, and ended. */
async function beginParentWithChildren(store: StoreUnderTest): Promise<void> {
  const left = { cancellation: 'abandon' } as const;
  const children = [child('running', 1), child('over', 2), child('left', 3, left)];
  await store.begin('parent', { children });
  const payload = '"done"';
  for (const item of await store.claim()) {
    const isOver = item.instanceId === 'over';
    await store.commit(item, isOver ? { outcome: { status: 'completed', payload } } : {});
  }
  await store.raise('parent', 'more');
  await store.commit(await store.claimOne(), { children: [child('pending', 4)] });
}

/** Commits a turn of the parent without claiming its pending child. */
async function turn(store: StoreUnderTest, parts: Partial<Turn>): Promise<void> {
  await store.raise('parent', 'go');
  const runnable = [{ name: 'sample', version: '1' }];
  await store.commit(await store.claimOne({ runnable }), parts);
}

async function statusesOf(store: StoreUnderTest): Promise<readonly (string | undefined)[]> {
  const ids = ['running', 'pending', 'left', 'over'];
  return (await store.provider.getInstances(ids)).map((record) => record?.status);
}

export const childCancels: Capability = {
  title: 'child cancels',
  cases: [
    {
      id: 'child-cancel/by-a-turn-asks-the-child',
      title: 'a turn that cancels a running child sets it to canceling with a clean-up limit',
      async run(store) {
        await beginParentWithChildren(store);
        await store.clock.advance(7);
        await turn(store, {
          childCancels: [{ instanceId: 'running', reason: 'lost' }],
          cleanupMs: 500,
        });
        assert.deepEqual(await statusesOf(store), ['canceling', 'pending', 'running', 'completed']);
        const { cancel } = await store.record('running');
        const requestedAt = store.clock.now();
        assert.deepEqual(cancel, { reason: 'lost', actor: null, requestedAt });
        const items = await store.claim();
        const kid = items.find(({ instanceId }) => instanceId === 'running') ?? assert.fail();
        assert.deepEqual(labels(kid), ['cancel']);
        await store.commit(kid);
        await store.clock.advance(499);
        assert.deepEqual(await store.claim({ runnable: [] }), []);
        await store.clock.advance(1);
        assert.equal((await store.claimOne({ runnable: [] })).instanceId, 'running');
      },
    },
    {
      id: 'child-cancel/of-a-pending-child-tells-the-parent',
      title: 'a turn that cancels a pending child ends it immediately and enqueues childCanceled',
      async run(store) {
        await beginParentWithChildren(store);
        await turn(store, {
          children: [child('new', 5)],
          childCancels: [
            { instanceId: 'pending', reason: 'lost' },
            { instanceId: 'new', reason: 'never needed' },
          ],
        });
        assert.equal((await store.record('pending')).status, 'canceled');
        assert.equal((await store.record('new')).status, 'canceled');
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'parent');
        assert.deepEqual(contents(item), [
          { kind: 'childCanceled', executionId: 1, operation: 4, reason: 'lost' },
          { kind: 'childCanceled', executionId: 1, operation: 5, reason: 'never needed' },
        ]);
      },
    },
    {
      id: 'child-cancel/spares-strangers',
      title: 'a turn that cancels an instance that is not its child changes nothing',
      async run(store) {
        await store.begin('stranger');
        await store.begin('parent', { children: [child('stranger', 1)] });
        await store.commit(await store.claimOne());
        await store.begin('other', { children: [child('its child', 1)] });
        await store.commit(await store.claimOne());
        await store.expectNoChange(() =>
          turn(store, {
            childCancels: ['stranger', 'its child', 'nobody', 'parent'].map((instanceId) => ({
              instanceId,
              reason: 'no',
            })),
          }),
        );
        await store.expectIdle();
      },
    },
    {
      id: 'child-cancel/is-undone-with-its-turn',
      title: 'a rejected turn cancels no child',
      async run(store) {
        await store.begin('parent', { children: [child('kid', 1)] });
        await store.commit(await store.claimOne());
        await store.raise('parent', 'go');
        const item = await store.claimOne();
        const childCancels = [{ instanceId: 'kid', reason: 'no' }];
        const parts = { firstEventId: 1, events: [event('clashes')], childCancels };
        expectRefused(await store.expectNoChange(() => store.ack(item, parts)));
        assert.equal((await store.record('kid')).status, 'running');
      },
    },
    {
      id: 'child-cancel/by-the-end-of-the-parent',
      title: 'every end of a parent cancels its children, except those with cancellation abandon',
      async run(store) {
        const outcomes: readonly TurnOutcome[] = [
          { status: 'completed', payload: null },
          { status: 'failed', failure: '{}' },
          { status: 'canceled', reason: 'stopped', cleanupSkipped: false },
        ];
        const left = { cancellation: 'abandon' } as const;
        for (const outcome of outcomes) {
          const id = (kind: string) => `${kind} of ${outcome.status}`;
          const children = [child(id('running'), 1), child(id('left'), 2, left)];
          await store.begin(id('parent'), { children });
          for (const item of await store.claim()) await store.commit(item);
          await store.raise(id('parent'), 'end');
          const late = [child(id('late'), 3), child(id('late and left'), 4, left)];
          await store.commit(await store.claimOne(), { children: late, outcome });
          const ids = ['running', 'left', 'late', 'late and left', 'parent'].map(id);
          const records = await store.provider.getInstances(ids);
          assert.deepEqual(
            records.map((record) => record?.status),
            ['canceling', 'running', 'canceled', 'pending', outcome.status],
          );
          for (const item of await store.claim()) {
            await store.commit(item, { outcome: { status: 'completed', payload: null } });
          }
          await store.terminate(id('left'));
        }
      },
    },
    {
      id: 'child-cancel/of-the-last-turn',
      title: 'a child started in the last turn of its parent ends as canceled without starting',
      async run(store) {
        const outcome = { status: 'completed', payload: null } as const;
        await store.begin('parent', { children: [child('kid', 1)], outcome });
        assert.equal((await store.record('kid')).status, 'canceled');
        await store.expectIdle();
      },
    },
    {
      id: 'child-cancel/by-continue-as-new',
      title:
        'continue-as-new cancels the children of the old execution and sends no message to the next',
      async run(store) {
        await beginParentWithChildren(store);
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        await turn(store, { outcome });
        assert.deepEqual(await statusesOf(store), [
          'canceling',
          'canceled',
          'running',
          'completed',
        ]);
        const claimed = await store.claim();
        expectInAnyOrder(
          claimed.map((item) => [item.instanceId, ...labels(item)]),
          [
            ['parent', 'start'],
            ['running', 'cancel'],
          ],
        );
        const canceled = { status: 'canceled', reason: 'x', cleanupSkipped: false } as const;
        for (const item of claimed) {
          await store.commit(item, item.instanceId === 'parent' ? {} : { outcome: canceled });
        }
        await store.expectIdle();
      },
    },
    {
      id: 'child-cancel/of-an-execution-spares-the-next',
      title: 'a turn cancels only children of its own execution',
      async run(store) {
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        const left = child('first', 1, { cancellation: 'abandon' });
        await store.begin('parent', { children: [left] });
        await store.commit(await store.claimOne());
        await store.raise('parent', 'go');
        await store.commit(await store.claimOne(), { outcome });
        for (const item of await store.claim()) {
          const parts = item.instanceId === 'parent' ? { children: [child('second', 1)] } : {};
          await store.commit(item, parts);
        }
        await turn(store, { childCancels: [{ instanceId: 'first', reason: 'not mine' }] });
        const [first, second] = await store.provider.getInstances(['first', 'second']);
        assert.deepEqual([first?.status, second?.status], ['running', 'pending']);
      },
    },
    {
      id: 'child-cancel/a-request-leaves-children-to-the-code',
      title: 'requestCancel() of a parent does not cancel its children until its end',
      async run(store) {
        await beginParentWithChildren(store);
        await store.cancel('parent');
        assert.deepEqual(await statusesOf(store), ['running', 'pending', 'running', 'completed']);
        await store.clock.advance(cleanupMs);
        const runnable = [{ name: 'nothing', version: null }];
        const item = await store.claimOne({ runnable });
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: true } as const;
        await store.commit(item, { outcome });
        assert.deepEqual(await statusesOf(store), [
          'canceling',
          'canceled',
          'running',
          'completed',
        ]);
      },
    },
  ],
};
