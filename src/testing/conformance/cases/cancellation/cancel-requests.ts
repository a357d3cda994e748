import assert from 'node:assert/strict';
import { decodeEvent } from '../../../../model/event.ts';
import { placeBystander } from '../../bystander.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost, only } from '../../expectations.ts';
import { activityCancel, child, cleanupMs, startMessage, workItem } from '../../sample-data.ts';
import { contents, labels, lockMs } from '../../store-under-test.ts';
import { answered, expectPending } from '../../time-limit.ts';
import type { TurnOutcome } from '../../../../providers/contract/turn.ts';

const request = { reason: 'out of stock', actor: 'ada' };

export const cancelRequests: Capability = {
  title: 'requests that an instance stop',
  cases: [
    {
      id: 'stop/nobody-is-not-found',
      title: 'a cancel of an unknown instance answers that it was not found, and changes nothing',
      async run(store) {
        await store.begin('a');
        const result = await store.expectNoChange(() => store.cancel('nobody'));
        assert.deepEqual(result, { found: false, changed: false, status: null });
      },
    },
    {
      id: 'stop/another-life-is-not-found',
      title:
        'a cancel meant for another life of an id finds nobody; one meant for this life is done',
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
      title: 'a pending instance is canceled at once: its start is gone, its history is its end',
      async run(store) {
        const untouched = await placeBystander(store);
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
        await untouched();
      },
    },
    {
      id: 'stop/a-first-turn-under-way-is-lost',
      title: 'a pending instance that someone has claimed is canceled too, and their turn refused',
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
      title: 'the parent of a pending child that is canceled is told why',
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
      title: 'a running instance is canceling, with the reason, who asked and when, and goes on',
      async run(store) {
        const untouched = await placeBystander(store);
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
        await untouched();
      },
    },
    {
      id: 'stop/the-first-request-is-kept',
      title: 'a second request changes nothing: the first reason, actor and time are kept',
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
      title: 'a cancel of an instance that is over changes nothing and says how it ended',
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
      title: 'the code reads the request first, then what was stopped for it',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        await store.cancel('a', request);
        const told = { executionId: 1, reason: 'out of stock', trigger: 'cancel' };
        assert.deepEqual(contents(await store.claimOne()), [
          { kind: 'cancel', ...request },
          { kind: 'activityCanceled', operation: 1, ...told },
          { kind: 'activityCanceled', operation: 2, ...told },
        ]);
      },
    },
    {
      id: 'stop/removes-unclaimed-work',
      title: 'work that is queued, between attempts, or held by a lost worker never starts',
      async run(store) {
        const untouched = await placeBystander(store);
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
        await untouched();
      },
    },
    {
      id: 'stop/flags-claimed-work',
      title: 'running work keeps its lease, learns of the request, and tells when it has stopped',
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
      title: 'an item that its code gave up earlier keeps that reason',
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
      title: 'also when its worker is lost meanwhile, and it is removed',
      async run(store) {
        const lost = { ...activityCancel(1, 'lost'), trigger: 'race_lost' } as const;
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { activityCancels: [lost] });
        await store.clock.advance(lockMs);
        await store.cancel('a', request);
        const [, told] = contents(await store.claimOne());
        assert.deepEqual(told, { kind: 'activityCanceled', executionId: 1, ...lost });
      },
    },
    {
      id: 'stop/work-of-old-executions-ends-without-a-word',
      title: 'an item that an old execution has left is removed, and the next is told nothing',
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
      title: 'a fetch that waits meanwhile is given what was stopped when its worker is lost',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs })] });
        const waiting = store.claimWork({ names: [], waitMs: 10 * lockMs });
        await expectPending(waiting, 'the fetch');
        await store.cancel('a');
        await store.clock.advance(lockMs - 1);
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(1);
        const item = only(await answered(waiting, 'after the lease'), 'work item');
        assert.equal(item.cancel?.trigger, 'cancel');
      },
    },
    {
      id: 'stop/spares-shielded-and-abandoned-work',
      title: 'work of a shield, and work that is left to itself, runs and starts all the same',
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
      title: 'work whose stop the code waits for is stopped like any other',
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
      title: 'an instance between two executions is canceling, and reads its start first',
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
      title: 'a canceling instance still takes messages, timers and completions',
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
      title: 'a batch answers for each: of two requests for one instance the first counts',
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
