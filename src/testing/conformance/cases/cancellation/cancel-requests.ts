import assert from 'node:assert/strict';
import { decodeEvent } from '../../../../model/event.ts';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost, only } from '../../expectations.ts';
import { activityCancel, child, cleanupMs, startMessage, workItem } from '../../sample-data.ts';
import { contents, labels, lockMs } from '../../store-under-test.ts';
import { withTimeLimit, expectPending } from '../../time-limit.ts';
import type { TurnOutcome } from '../../../../providers/contract/turn.ts';

const request = { reason: 'out of stock', actor: 'ada' };

export const cancelRequests: Capability = {
  title: 'cancel requests',
  cases: [
    {
      id: 'stop/a-missing-instance-is-not-found',
      title: 'requestCancel() of an unknown instance returns found: false and changes nothing',
      async run(store) {
        await store.begin('a');
        const result = await store.expectNoChange(() => store.cancel('nobody'));
        assert.deepEqual(result, { found: false, changed: false, status: null });
      },
    },
    {
      id: 'stop/another-life-is-not-found',
      title: 'requestCancel() with another incarnation returns found: false',
      async run(store) {
        await store.begin('a');
        const { incarnation } = await store.record('a');
        const other = await store.expectNoChange(() =>
          store.cancel('a', { ...request, incarnation: `not-${incarnation}` }),
        );
        assert.deepEqual(other, { found: false, changed: false, status: null });
        const meant = await store.cancel('a', { ...request, incarnation });
        assert.deepEqual(meant, { found: true, changed: true, status: 'canceling' });
      },
    },
    {
      id: 'stop/a-pending-instance-ends-at-once',
      title:
        'requestCancel() ends a pending instance immediately as canceled and deletes its start message',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.create('a');
        await store.clock.advance(7);
        const result = await store.cancel('a', request);
        assert.deepEqual(result, { found: true, changed: true, status: 'canceled' });
        const { status, startedAt, endedAt, cancel, cleanupSkipped } = await store.record('a');
        const now = store.clock.now();
        assert.deepEqual(
          { status, startedAt, endedAt, cancel, cleanupSkipped },
          {
            status: 'canceled',
            startedAt: null,
            endedAt: now,
            cancel: { ...request, requestedAt: now },
            cleanupSkipped: false,
          },
        );
        const event = decodeEvent(only(await store.history('a'), 'event'));
        assert.deepEqual(event, {
          kind: 'executionCanceled',
          at: now,
          reason: 'out of stock',
          payload: null,
        });
        const { status: ended, historyLength } = only(await store.executions('a'), 'execution');
        assert.deepEqual([ended, historyLength], ['canceled', 1]);
        await store.clock.advance(cleanupMs);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'stop/a-first-turn-under-way-is-lost',
      title: 'requestCancel() of a claimed pending instance cancels it and rejects its first turn',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        assert.equal((await store.cancel('a')).status, 'canceled');
        expectLockLost(
          await store.expectNoChange(() => store.ack(item, { workItems: [workItem(1)] })),
        );
        await store.expectIdle();
      },
    },
    {
      id: 'stop/a-pending-child-tells-its-parent',
      title: 'a canceled pending child sends childCanceled with the reason to its parent',
      async run(store) {
        await store.begin('a', { children: [child('kid', 3)] });
        await store.cancel('kid', request);
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'a');
        assert.deepEqual(contents(item), [
          { kind: 'childCanceled', executionId: 1, operation: 3, reason: 'out of stock' },
        ]);
      },
    },
    {
      id: 'stop/a-running-instance-is-canceling',
      title:
        'requestCancel() sets a running instance to canceling and records reason, actor and time',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { customStatus: '"busy"' });
        const before = await store.snapshotOf(await store.record('a'));
        await store.clock.advance(7);
        const result = await store.cancel('a', request);
        assert.deepEqual(result, { found: true, changed: true, status: 'canceling' });
        const after = await store.snapshotOf(await store.record('a'));
        const cancel = { ...request, requestedAt: store.clock.now() };
        assert.deepEqual(after.record, { ...before.record, status: 'canceling', cancel });
        assert.deepEqual(after.histories, before.histories);
        await store.commit(await store.claimOne());
        assert.equal((await store.record('a')).status, 'canceling');
        await expectUnchanged();
      },
    },
    {
      id: 'stop/the-first-request-is-kept',
      title: 'a second requestCancel() keeps the first reason, actor and time',
      async run(store) {
        await store.begin('a');
        await store.cancel('a', request);
        await store.clock.advance(7);
        const again = { reason: 'another', actor: 'bob' };
        const result = await store.expectNoChange(() => store.cancel('a', again));
        assert.deepEqual(result, { found: true, changed: false, status: 'canceling' });
        assert.deepEqual(labels(await store.claimOne()), ['cancel']);
      },
    },
    {
      id: 'stop/what-is-over-stays-as-it-is',
      title: 'requestCancel() of an ended instance changes nothing and returns its status',
      async run(store) {
        const outcomes: readonly TurnOutcome[] = [
          { status: 'completed', payload: '1' },
          { status: 'failed', failure: '{}' },
          { status: 'canceled', reason: 'x', cleanupSkipped: false },
        ];
        for (const outcome of outcomes) {
          const { status } = outcome;
          await store.begin(status, { outcome });
          const result = await store.expectNoChange(() => store.cancel(status));
          assert.deepEqual(result, { found: true, changed: false, status });
        }
        await store.expectIdle();
      },
    },
    {
      id: 'stop/the-request-is-read-first',
      title: 'the cancel message precedes the activityCanceled messages that it causes',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        await store.cancel('a', request);
        const received = { executionId: 1, reason: 'out of stock', trigger: 'cancel' };
        assert.deepEqual(contents(await store.claimOne()), [
          { kind: 'cancel', ...request },
          { kind: 'activityCanceled', operation: 1, ...received },
          { kind: 'activityCanceled', operation: 2, ...received },
        ]);
      },
    },
    {
      id: 'stop/removes-unclaimed-work',
      title: 'requestCancel() deletes work items that are queued, delayed or have an expired lease',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { workItems: [1, 2, 3].map((operation) => workItem(operation)) });
        const lost = await store.claimWorkOne({ max: 1, lockMs: 10 });
        const { lockToken } = await store.claimWorkOne({ max: 1 });
        await store.provider.retryWorkItems([{ lockToken, delayMs: 500, failure: '{}' }]);
        await store.clock.advance(10);
        await store.cancel('a');
        expectLockLost(await store.ackWork(lost.lockToken));
        assert.deepEqual(await store.claimWork(), []);
        await store.clock.advance(500);
        assert.deepEqual(await store.claimWork(), []);
        expectInAnyOrder(labels(await store.claimOne()), [
          'cancel',
          'activityCanceled 1',
          'activityCanceled 2',
          'activityCanceled 3',
        ]);
        await expectUnchanged();
      },
    },
    {
      id: 'stop/flags-claimed-work',
      title:
        'requestCancel() flags a claimed work item, which keeps its lease and acks as canceled',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.clock.advance(7);
        await store.cancel('a', request);
        const requestedAt = store.clock.now();
        const cancel = { reason: 'out of stock', trigger: 'cancel', requestedAt };
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel });
        await store.commit(await store.claimOne());
        await store.expectIdle();
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
      },
    },
    {
      id: 'stop/an-item-keeps-its-own-first-reason',
      title: 'requestCancel() keeps the reason of a work item that a turn canceled earlier',
      async run(store) {
        const lost = { ...activityCancel(1, 'lost'), trigger: 'race_lost' } as const;
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const requestedAt = store.clock.now();
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { activityCancels: [lost] });
        await store.clock.advance(7);
        await store.cancel('a', request);
        const cancel = { reason: 'lost', trigger: 'race_lost', requestedAt };
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel });
      },
    },
    {
      id: 'stop/a-removed-item-keeps-its-own-first-reason',
      title:
        'requestCancel() deletes a flagged work item with an expired lease, with its first reason',
      async run(store) {
        const lost = { ...activityCancel(1, 'lost'), trigger: 'race_lost' } as const;
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { activityCancels: [lost] });
        await store.clock.advance(lockMs);
        await store.cancel('a', request);
        const [, received] = contents(await store.claimOne());
        assert.deepEqual(received, { kind: 'activityCanceled', executionId: 1, ...lost });
      },
    },
    {
      id: 'stop/work-of-old-executions-ends-without-a-word',
      title: 'requestCancel() deletes work items of earlier executions without a message',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.raise('a', 'x');
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        await store.commit(await store.claimOne(), { outcome });
        await store.commit(await store.claimOne());
        await store.clock.advance(lockMs);
        await store.cancel('a');
        assert.deepEqual(await store.claimWork(), []);
        assert.deepEqual(labels(await store.claimOne()), ['cancel']);
      },
    },
    {
      id: 'stop/a-lost-worker-ends-a-wait',
      title: 'a waiting fetch returns a flagged work item when its lease expires',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        const waiting = store.claimWork({ names: [], waitMs: 10 * lockMs });
        await expectPending(waiting, 'the fetch');
        await store.cancel('a');
        await store.clock.advance(lockMs - 1);
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(1);
        const item = only(await withTimeLimit(waiting, 'after the lease'), 'work item');
        assert.equal(item.cancel?.trigger, 'cancel');
      },
    },
    {
      id: 'stop/spares-shielded-and-abandoned-work',
      title:
        'requestCancel() leaves shielded work items and those with cancellation abandon unchanged',
      async run(store) {
        const kinds = [{ shielded: true }, { cancellation: 'abandon' }] as const;
        const workItems = kinds.flatMap((parts, index) => [
          workItem(index, { ...parts, claimMs: lockMs }),
          workItem(index + 2, parts),
        ]);
        const { claimed } = await store.begin('a', { workItems });
        await store.cancel('a');
        for (const { lockToken } of claimed) {
          assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
          expectCommitted(await store.ackWork(lockToken));
        }
        const started = await store.claimWorkInOrder();
        assert.deepEqual(
          started.map(({ operation, cancel }) => [operation, cancel]),
          [
            [2, null],
            [3, null],
          ],
        );
        assert.deepEqual(labels(await store.claimOne()), [
          'cancel',
          'activityCompleted 0',
          'activityCompleted 1',
        ]);
      },
    },
    {
      id: 'stop/reaches-work-that-is-waited-for',
      title: 'requestCancel() cancels work items with cancellation wait',
      async run(store) {
        const cancellation = 'wait' as const;
        const workItems = [
          workItem(1, { cancellation, claimMs: lockMs }),
          workItem(2, { cancellation }),
        ];
        const { claimed } = await store.begin('a', { workItems });
        await store.cancel('a');
        const renewed = await store.renewWork(only(claimed, 'claimed item').lockToken);
        assert.ok(renewed.held && renewed.cancel);
        assert.deepEqual(labels(await store.claimOne()), ['cancel', 'activityCanceled 2']);
      },
    },
    {
      id: 'stop/between-executions',
      title:
        'requestCancel() between two executions sets canceling; the start message precedes the cancel',
      async run(store) {
        await store.begin('a', {
          outcome: { status: 'continuedAsNew', version: '1', start: startMessage() },
        });
        assert.equal((await store.cancel('a')).status, 'canceling');
        assert.deepEqual(labels(await store.claimOne()), ['start', 'cancel']);
      },
    },
    {
      id: 'stop/messages-still-arrive',
      title: 'a canceling instance still receives external events and timers',
      async run(store) {
        const timers = [{ operation: 1, fireAt: store.clock.now() + 10 }];
        await store.begin('a', { timers });
        await store.cancel('a');
        await store.raise('a', 'x');
        await store.clock.advance(10);
        assert.deepEqual(labels(await store.claimOne()), ['cancel', 'x', 'timerFired 1']);
      },
    },
    {
      id: 'stop/answers-each-of-a-batch',
      title:
        'requestCancel() returns a result per request; the first request of an instance is kept',
      async run(store) {
        await store.begin('over', { outcome: { status: 'completed', payload: null } });
        await store.begin('running');
        await store.create('pending');
        const ids = ['over', 'running', 'nobody', 'pending', 'running', 'pending'];
        const results = await store.provider.requestCancel(
          ids.map((instanceId, index) => ({
            instanceId,
            reason: `request ${index}`,
            actor: null,
            cleanupMs,
          })),
        );
        assert.deepEqual(
          results.map(({ found, changed, status }) => [found, changed, status]),
          [
            [true, false, 'completed'],
            [true, true, 'canceling'],
            [false, false, null],
            [true, true, 'canceled'],
            [true, false, 'canceling'],
            [true, false, 'canceled'],
          ],
        );
        const reasons = await store.provider.getInstances(['running', 'pending']);
        assert.deepEqual(
          reasons.map((record) => record?.cancel?.reason),
          ['request 1', 'request 3'],
        );
      },
    },
  ],
};
