import assert from 'node:assert/strict';
import { decodeEvent } from '../../../../model/event.ts';
import { decodeMessage } from '../../../../model/message.ts';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost, only } from '../../expectations.ts';
import { child, cleanupMs, event, raised, workItem } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';

const terminated = { found: true, changed: true, status: 'terminated' };

/** Begins a tree of running and pending descendants. Those named `left` have cancellation abandon. */
async function beginDescendants(store: StoreUnderTest): Promise<void> {
  await store.begin('parent', { children: [child('kid', 1)] });
  const left = { cancellation: 'abandon' } as const;
  await store.commit(await store.claimOne(), {
    children: [child('grandkid', 1), child('left grandkid', 2, left)],
  });
  for (const item of await store.claim()) await store.commit(item);
  await store.raise('parent', 'more');
  await store.commit(await store.claimOne(), {
    children: [child('pending', 2), child('left', 3, left)],
  });
}

async function statuses(store: StoreUnderTest): Promise<Readonly<Record<string, string>>> {
  const { instances: records } = await store.provider.listInstances({ filter: {}, limit: 100 });
  return Object.fromEntries(records.map(({ instanceId, status }) => [instanceId, status]));
}

export const terminations: Capability = {
  title: 'termination',
  cases: [
    {
      id: 'terminate/a-missing-instance-is-not-found',
      title: 'terminate() of an unknown instance returns found: false and changes nothing',
      async run(store) {
        await store.begin('a');
        const result = await store.expectNoChange(() => store.terminate('nobody'));
        assert.deepEqual(result, { found: false, changed: false, status: null });
      },
    },
    {
      id: 'terminate/ends-at-once',
      title: 'terminate() ends a running instance immediately and appends executionTerminated',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { customStatus: '"busy"' });
        const before = await store.record('a');
        await store.clock.advance(7);
        assert.deepEqual(await store.terminate('a', { reason: 'stuck', actor: 'ada' }), terminated);
        assert.deepEqual(await store.record('a'), {
          ...before,
          status: 'terminated',
          endedAt: store.clock.now(),
          terminated: { reason: 'stuck', actor: 'ada' },
        });
        const [first, last] = await store.history('a');
        assert.deepEqual(first, event('begun'));
        assert.deepEqual(last && decodeEvent(last), {
          kind: 'executionTerminated',
          at: store.clock.now(),
          reason: 'stuck',
          actor: 'ada',
          payload: null,
        });
        const { status, historyLength } = only(await store.executions('a'), 'run');
        assert.deepEqual([status, historyLength], ['terminated', 2]);
        await expectUnchanged();
      },
    },
    {
      id: 'terminate/a-pending-instance-ends-too',
      title: 'terminate() ends a pending instance and deletes its start message',
      async run(store) {
        await store.create('a');
        assert.deepEqual(await store.terminate('a'), terminated);
        const { kind } = only(await store.history('a'), 'event');
        assert.equal(kind, 'executionTerminated');
        await store.expectIdle();
      },
    },
    {
      id: 'terminate/what-is-over-stays-as-it-is',
      title: 'terminate() of an ended or terminated instance changes nothing',
      async run(store) {
        await store.begin('done', { outcome: { status: 'completed', payload: '1' } });
        await store.begin('ended');
        await store.terminate('ended', { reason: 'first' });
        await store.expectNoChange(async () => {
          const done = { found: true, changed: false, status: 'completed' };
          assert.deepEqual(await store.terminate('done'), done);
          const again = await store.terminate('ended', { reason: 'second', actor: 'bob' });
          assert.deepEqual(again, { ...terminated, changed: false });
          assert.deepEqual(await store.cancel('ended'), { ...terminated, changed: false });
        });
      },
    },
    {
      id: 'terminate/a-turn-under-way-is-lost',
      title: 'terminate() during a turn rejects its ack and renewal',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await store.terminate('a');
        const parts = { workItems: [workItem(1)], children: [child('kid', 2)] };
        expectLockLost(await store.expectNoChange(() => store.ack(item, parts)));
        assert.deepEqual(await store.provider.renewOrchestrationLocks([item.lockToken], lockMs), [
          false,
        ]);
        await store.expectIdle();
      },
    },
    {
      id: 'terminate/drops-messages-and-timers',
      title: 'terminate() deletes messages and timers, and later messages return over',
      async run(store) {
        const timers = [{ operation: 1, fireAt: store.clock.now() + 10 }];
        await store.begin('a', { timers });
        await store.raise('a', 'x');
        await store.terminate('a');
        const late = [{ instanceId: 'a', message: raised('late') }];
        assert.deepEqual(await store.provider.enqueueMessages(late), ['over']);
        await store.clock.advance('1d');
        await store.expectIdle();
      },
    },
    {
      id: 'terminate/stops-all-its-work',
      title: 'terminate() deletes queued work items and flags claimed ones, also if shielded',
      async run(store) {
        const claimMs = lockMs;
        const workItems = [
          workItem(1, { claimMs }),
          workItem(2, { claimMs, shielded: true }),
          workItem(3, { claimMs }),
          workItem(4),
          workItem(5, { shielded: true }),
        ];
        const { claimed } = await store.begin('a', { workItems });
        const tokens = claimed.map(({ lockToken }) => lockToken);
        await store.provider.markPointOfNoReturn(tokens[2] ?? '');
        await store.terminate('a', { reason: 'stuck' });
        assert.deepEqual(await store.claimWork(), []);
        const cancel = { reason: 'stuck', trigger: 'cancel', requestedAt: store.clock.now() };
        for (const token of tokens) {
          assert.deepEqual(await store.renewWork(token), { held: true, cancel });
          expectCommitted(await store.ackWork(token, { kind: 'canceled', leaked: false }));
        }
        await store.expectIdle();
        assert.equal((await store.record('a')).status, 'terminated');
      },
    },
    {
      id: 'terminate/leaves-abandoned-work',
      title: 'terminate() leaves work items with cancellation abandon unchanged',
      async run(store) {
        const cancellation = 'abandon' as const;
        const workItems = [
          workItem(1, { cancellation, claimMs: lockMs }),
          workItem(2, { cancellation }),
        ];
        const { claimed } = await store.begin('a', { workItems });
        await store.terminate('a');
        const { lockToken } = only(claimed, 'claimed item');
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        const { operation, cancel } = await store.claimWorkOne();
        assert.deepEqual({ operation, cancel }, { operation: 2, cancel: null });
      },
    },
    {
      id: 'terminate/tells-its-parent',
      title: 'the parent of a terminated child receives childFailed with INSTANCE_TERMINATED',
      async run(store) {
        await store.begin('parent', { children: [child('kid', 4)] });
        await store.terminate('kid', { reason: 'stuck' });
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'parent');
        const message = decodeMessage(only(item.messages, 'message'));
        assert.equal(message.kind, 'childFailed');
        const { executionId, operation, failure } = message;
        assert.deepEqual([executionId, operation, failure.code], [1, 4, 'INSTANCE_TERMINATED']);
        assert.match(failure.message, /stuck/);
      },
    },
    {
      id: 'terminate/asks-its-children-to-stop',
      title: 'terminate() cancels the children, except those with cancellation abandon',
      async run(store) {
        await beginDescendants(store);
        await store.terminate('parent', { reason: 'stuck', actor: 'ada' });
        assert.deepEqual(await statuses(store), {
          parent: 'terminated',
          kid: 'canceling',
          pending: 'canceled',
          left: 'pending',
          grandkid: 'running',
          'left grandkid': 'running',
        });
        const { cancel } = await store.record('kid');
        assert.deepEqual([cancel?.reason, cancel?.actor], ['stuck', 'ada']);
        const claimed = (await store.claim()).map(({ instanceId }) => instanceId);
        expectInAnyOrder(claimed, ['kid', 'left']);
      },
    },
    {
      id: 'terminate/its-children-may-clean-up',
      title: 'terminate() gives its canceled children the clean-up limit of the request',
      async run(store) {
        await beginDescendants(store);
        await store.terminate('parent', { cleanupMs });
        for (const item of await store.claim()) await store.commit(item);
        await store.clock.advance(cleanupMs - 1);
        assert.deepEqual(await store.claim({ runnable: [] }), []);
        await store.clock.advance(1);
        assert.equal((await store.claimOne({ runnable: [] })).instanceId, 'kid');
      },
    },
    {
      id: 'terminate/ends-a-whole-tree',
      title:
        'terminate() with tree: true also terminates descendants, except those with cancellation abandon',
      async run(store) {
        await beginDescendants(store);
        assert.deepEqual(await store.terminate('parent', { tree: true }), terminated);
        assert.deepEqual(await statuses(store), {
          parent: 'terminated',
          kid: 'terminated',
          pending: 'terminated',
          left: 'pending',
          grandkid: 'terminated',
          'left grandkid': 'running',
        });
        assert.equal((await store.claimOne()).instanceId, 'left');
      },
    },
    {
      id: 'terminate/a-canceling-instance-keeps-its-request',
      title: 'terminate() of a canceling instance keeps its cancel on record',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        await store.cancel('a', { reason: 'first', actor: 'ada' });
        assert.deepEqual(await store.terminate('a', { reason: 'stuck' }), terminated);
        const { cancel, terminated: end } = await store.record('a');
        assert.deepEqual([cancel?.reason, end], ['first', { reason: 'stuck', actor: null }]);
        await store.clock.advance(cleanupMs);
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'terminate/a-canceled-end-stands',
      title: 'terminate() after a canceled end flags work items past their point of no return',
      async run(store) {
        const workItems = [1, 2].map((operation) => workItem(operation, { claimMs: lockMs }));
        const { claimed } = await store.begin('a', { workItems });
        const [one = '', two = ''] = claimed.map(({ lockToken }) => lockToken);
        await store.provider.markPointOfNoReturn(one);
        await store.provider.markPointOfNoReturn(two);
        const retry = { lockToken: two, delayMs: 500, failure: '{}' };
        await store.provider.retryWorkItems([retry]);
        await store.cancel('a');
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: true } as const;
        await store.commit(await store.claimOne(), { outcome });
        const result = await store.terminate('a', { reason: 'stuck' });
        assert.deepEqual(result, { found: true, changed: true, status: 'canceling' });
        const renewed = await store.renewWork(one);
        assert.ok(renewed.held);
        assert.equal(renewed.cancel?.reason, 'stuck');
        const again = await store.terminate('a');
        assert.deepEqual(again, { found: true, changed: false, status: 'canceling' });
        expectCommitted(await store.ackWork(one, { kind: 'canceled', leaked: false }));
        const { status, terminated: end } = await store.record('a');
        assert.deepEqual([status, end], ['canceled', null]);
        await store.clock.advance(500);
        await store.expectIdle();
      },
    },
    {
      id: 'terminate/stops-what-holds-a-canceled-end',
      title: 'terminate() deletes the last delayed work item of a canceled end, which completes it',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.provider.markPointOfNoReturn(lockToken);
        await store.provider.retryWorkItems([{ lockToken, delayMs: 500, failure: '{}' }]);
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: true } as const;
        await store.cancel('a');
        await store.commit(await store.claimOne(), { outcome });
        assert.equal((await store.record('a')).status, 'canceling');
        const result = await store.terminate('a');
        assert.deepEqual(result, { found: true, changed: true, status: 'canceled' });
        await store.clock.advance(500);
        await store.expectIdle();
      },
    },
    {
      id: 'terminate/time-does-not-go-back',
      title: 'executionTerminated is not earlier than the last event if the clock is behind',
      async run(store) {
        const at = store.clock.now() + 1_000;
        await store.begin('a', { events: [{ ...event('begun'), at }] });
        await store.terminate('a');
        assert.deepEqual(
          (await store.history('a')).map((one) => one.at),
          [at, at],
        );
      },
    },
    {
      id: 'terminate/answers-each-of-a-batch',
      title: 'terminate() returns a result per request, also if one request ends another instance',
      async run(store) {
        await store.begin('parent', { children: [child('kid', 1)] });
        const ids = ['nobody', 'parent', 'kid', 'parent'];
        const results = await store.provider.terminate(
          ids.map((instanceId) => ({ instanceId, reason: 'x', actor: null, tree: true })),
        );
        assert.deepEqual(results, [
          { found: false, changed: false, status: null },
          terminated,
          { ...terminated, changed: false },
          { ...terminated, changed: false },
        ]);
        await store.expectIdle();
      },
    },
  ],
};
