import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { child, cleanupMs, event, raised, version, workItem } from '../../sample-data.ts';
import { contents, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import type { NewWorkItem } from '../../../../providers/contract/turn.ts';

const canceled = { status: 'canceled', reason: 'stopped', cleanupSkipped: false } as const;

/** Begins an instance with claimed work items, cancels it, and acks its canceled end. Returns the tokens. */
async function endCanceled(
  store: StoreUnderTest,
  ...items: readonly Partial<NewWorkItem>[]
): Promise<readonly string[]> {
  const workItems = items.map((parts, index) => workItem(index, { claimMs: lockMs, ...parts }));
  const { claimed } = await store.begin('a', { workItems });
  await store.cancel('a');
  await store.commit(await store.claimOne(), { events: [event('ended')], outcome: canceled });
  return claimed.map(({ lockToken }) => lockToken);
}

async function statusOf(store: StoreUnderTest, instanceId = 'a'): Promise<string> {
  return (await store.record(instanceId)).status;
}

export const canceledInstances: Capability = {
  title: 'end of a canceled instance',
  cases: [
    {
      id: 'canceled/ends-at-once-when-nothing-runs',
      title: 'an instance without claimed work items becomes canceled with its last turn',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { workItems: [workItem(1)] });
        await store.cancel('a', { reason: 'first', actor: 'ada' });
        const requestedAt = store.clock.now();
        await store.clock.advance(7);
        const item = await store.claimOne();
        await store.raise('a', 'too late');
        await store.commit(item, { events: [event('ended')], outcome: canceled });
        const { status, endedAt, cancel, cleanupSkipped, leaked } = await store.record('a');
        assert.deepEqual(
          { status, endedAt, cancel, cleanupSkipped, leaked },
          {
            status: 'canceled',
            endedAt: store.clock.now(),
            cancel: { reason: 'first', actor: 'ada', requestedAt },
            cleanupSkipped: false,
            leaked: 0,
          },
        );
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'ended']);
        await store.clock.advance(cleanupMs);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'canceled/waits-for-what-runs',
      title: 'an instance stays canceling and is not claimable until its claimed work item settles',
      async run(store) {
        const [token] = await endCanceled(store, {});
        const { status, endedAt } = await store.record('a');
        assert.deepEqual({ status, endedAt }, { status: 'canceling', endedAt: null });
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'ended']);
        const late = [{ instanceId: 'a', message: raised('late') }];
        assert.deepEqual(await store.provider.enqueueMessages(late), ['over']);
        await store.expectIdle();
        await store.clock.advance(7);
        expectCommitted(await store.ackWork(token ?? '', { kind: 'canceled', leaked: false }));
        const after = await store.record('a');
        assert.deepEqual([after.status, after.endedAt], ['canceled', store.clock.now()]);
        await store.clock.advance(cleanupMs);
        await store.expectIdle();
      },
    },
    {
      id: 'canceled/the-last-one-ends-it',
      title: 'an instance becomes canceled when its last work item settles, with any outcome',
      async run(store) {
        const tokens = await endCanceled(store, {}, {}, {}, {}, {});
        const [a = '', b = '', c = '', d = '', e = ''] = tokens;
        const failure = '{"name":"Error","message":"no"}';
        const { provider } = store;
        const settle = [
          () => store.ackWork(a),
          () => store.ackWork(b, { kind: 'failed', failure }),
          () => store.ackWork(c, { kind: 'canceled', leaked: false }),
          () => provider.retryWorkItems([{ lockToken: d, delayMs: 0, failure }]),
          () => provider.abandonWorkItems([{ lockToken: e, delayMs: 0, giveBackClaim: true }]),
        ];
        for (const one of settle) {
          assert.equal(await statusOf(store), 'canceling');
          await one();
        }
        assert.equal(await statusOf(store), 'canceled');
        await store.expectIdle();
      },
    },
    {
      id: 'canceled/a-lost-worker-does-not-hold-it',
      title: 'any worker can settle a flagged work item with an expired lease',
      async run(store) {
        await endCanceled(store, { name: 'rare' });
        await store.clock.advance(lockMs - 1);
        assert.deepEqual(await store.claimWork({ names: [] }), []);
        await store.clock.advance(1);
        const { lockToken, cancel } = await store.claimWorkOne({ names: [] });
        assert.equal(cancel?.trigger, 'cancel');
        assert.equal(await statusOf(store), 'canceling');
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        assert.equal(await statusOf(store), 'canceled');
      },
    },
    {
      id: 'canceled/does-not-wait-for-abandoned-work',
      title: 'work items with cancellation abandon do not delay the canceled status',
      async run(store) {
        const [token = ''] = await endCanceled(store, { cancellation: 'abandon' });
        assert.equal(await statusOf(store), 'canceled');
        assert.deepEqual(await store.renewWork(token), { held: true, cancel: null });
        const result = await store.expectNoChange(() => store.ackWork(token));
        expectCommitted(result);
        await store.expectIdle();
      },
    },
    {
      id: 'canceled/shielded-work-is-stopped-by-the-end',
      title: 'shielded work items are canceled when their instance ends as canceled',
      async run(store) {
        const workItems = [
          workItem(1, { shielded: true, claimMs: lockMs }),
          workItem(2, { shielded: true }),
        ];
        const { claimed } = await store.begin('a', { workItems });
        await store.cancel('a');
        await store.commit(await store.claimOne(), { outcome: canceled });
        assert.deepEqual(await store.claimWork(), []);
        const { lockToken } = only(claimed, 'claimed item');
        const renewed = await store.renewWork(lockToken);
        assert.ok(renewed.held);
        assert.equal(renewed.cancel?.reason, 'stopped');
        assert.equal(await statusOf(store), 'canceling');
      },
    },
    {
      id: 'canceled/tells-its-parent-at-its-end',
      title: 'the parent receives childCanceled once no work item of the child is claimed',
      async run(store) {
        await store.begin('parent', { children: [child('kid', 4)] });
        const item = await store.claimOne();
        const workItems = [workItem(1, { claimMs: lockMs })];
        const { lockToken } = only(await store.commit(item, { workItems }), 'claimed item');
        await store.cancel('kid');
        await store.commit(await store.claimOne(), { outcome: canceled });
        await store.expectIdle();
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        const received = await store.claimOne();
        assert.equal(received.instanceId, 'parent');
        assert.deepEqual(contents(received), [
          { kind: 'childCanceled', executionId: 1, operation: 4, reason: 'stopped' },
        ]);
      },
    },
    {
      id: 'canceled/handlers-that-go-on-are-counted',
      title: 'each leaked handler is counted on the instance, before and after its last turn',
      async run(store) {
        const workItems = [1, 2, 3].map((operation) => workItem(operation, { claimMs: lockMs }));
        const { claimed } = await store.begin('a', { workItems });
        await store.cancel('a');
        const [one, two, three] = claimed.map(({ lockToken }) => lockToken);
        expectCommitted(await store.ackWork(one ?? '', { kind: 'canceled', leaked: true }));
        assert.equal((await store.record('a')).leaked, 1);
        const item = await store.claimOne();
        assert.deepEqual(contents(item).at(-1), {
          kind: 'activityCanceled',
          executionId: 1,
          operation: 1,
          reason: 'not wanted',
          trigger: 'cancel',
          leaked: true,
        });
        await store.commit(item, { outcome: canceled });
        expectCommitted(await store.ackWork(two ?? '', { kind: 'canceled', leaked: false }));
        expectCommitted(await store.ackWork(three ?? '', { kind: 'canceled', leaked: true }));
        const { status, leaked } = await store.record('a');
        assert.deepEqual({ status, leaked }, { status: 'canceled', leaked: 2 });
      },
    },
    {
      id: 'canceled/waits-for-what-cannot-be-stopped',
      title: 'a work item past its point of no return keeps its instance canceling',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs })];
        const { claimed } = await store.begin('a', { workItems });
        const { lockToken } = only(claimed, 'claimed item');
        await store.provider.markPointOfNoReturn(lockToken);
        await store.cancel('a');
        await store.commit(await store.claimOne(), { outcome: canceled });
        assert.equal(await statusOf(store), 'canceling');
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        expectCommitted(await store.ackWork(lockToken));
        assert.equal(await statusOf(store), 'canceled');
      },
    },
    {
      id: 'canceled/without-a-request-names-its-own',
      title: 'an instance that ends as canceled without a request records the reason of its turn',
      async run(store) {
        await store.begin('a', { outcome: canceled });
        const { status, cancel } = await store.record('a');
        assert.equal(status, 'canceled');
        assert.deepEqual(cancel, {
          reason: 'stopped',
          actor: null,
          requestedAt: store.clock.now(),
        });
      },
    },
    {
      id: 'canceled/never-changes-again',
      title: 'requests and late acks do not change a canceled instance',
      async run(store) {
        const [token = ''] = await endCanceled(store, {});
        await store.ackWork(token, { kind: 'canceled', leaked: false });
        await store.expectNoChange(async () => {
          const stays = { found: true, changed: false, status: 'canceled' };
          assert.deepEqual(await store.cancel('a', { reason: 'again' }), stays);
          assert.deepEqual(await store.terminate('a', { tree: true }), stays);
          await store.ackWork(token, { kind: 'canceled', leaked: true });
          await store.clock.advance('1d');
        });
        await store.expectIdle();
      },
    },
    {
      id: 'canceled/can-be-listed',
      title: 'listInstances() filters by the statuses canceling and canceled',
      async run(store) {
        const [token = ''] = await endCanceled(store, {});
        const list = async (status: 'canceling' | 'canceled') => {
          const page = { filter: { status: [status], names: ['sample'] }, limit: 10 };
          const { instances } = await store.provider.listInstances(page);
          return instances.map(({ instanceId }) => instanceId);
        };
        assert.deepEqual([await list('canceling'), await list('canceled')], [['a'], []]);
        await store.ackWork(token);
        assert.deepEqual([await list('canceling'), await list('canceled')], [[], ['a']]);
        const { status, version: ran } = only(await store.executions('a'), 'run');
        assert.deepEqual([status, ran], ['canceled', version]);
      },
    },
  ],
};
