import assert from 'node:assert/strict';
import { decodeMessage } from '../../../../model/message.ts';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { activityCancel, workItem } from '../../sample-data.ts';
import { expectCommitted, expectRefused, only } from '../../expectations.ts';
import { contents, labels, lockMs } from '../../store-under-test.ts';
import type { WorkOutcome } from '../../../../providers/contract/work-queue.ts';

export const workAcks: Capability = {
  title: 'work item acks',
  cases: [
    {
      id: 'work-ack/a-result-becomes-a-message',
      title: 'acking a completed work item enqueues activityCompleted with its result',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { workItems: [workItem(9)] });
        const { lockToken } = await store.claimWorkOne();
        const outcome = { kind: 'completed', payload: '{"ok":[1]}' } as const;
        const result = await store.expectNoChange(() => store.ackWork(lockToken, outcome));
        assert.deepEqual(expectCommitted(result), []);
        const { messages, claims } = await store.claimOne();
        assert.equal(claims, 1);
        const { messageKey: _key, ...message } = only(messages, 'message');
        assert.deepEqual(message, {
          kind: 'activityCompleted',
          executionId: 1,
          operation: 9,
          data: '{}',
          payload: '{"ok":[1]}',
        });
        await expectUnchanged();
      },
    },
    {
      id: 'work-ack/a-result-may-be-nothing',
      title: 'a completed work item without a result enqueues activityCompleted without a payload',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        expectCommitted(await store.ackWork(lockToken, { kind: 'completed', payload: null }));
        assert.equal(only((await store.claimOne()).messages, 'message').payload, null);
      },
    },
    {
      id: 'work-ack/a-failure-becomes-a-message',
      title: 'acking a failed work item enqueues activityFailed with the failure',
      async run(store) {
        await store.begin('a', { workItems: [workItem(9)] });
        const { lockToken } = await store.claimWorkOne();
        const failure = { name: 'Error', message: 'no', details: { tries: 3 } };
        const outcome = { kind: 'failed', failure: JSON.stringify(failure) } as const;
        expectCommitted(await store.ackWork(lockToken, outcome));
        const message = decodeMessage(only((await store.claimOne()).messages, 'message'));
        assert.equal(message.kind, 'activityFailed');
        assert.deepEqual(
          [message.executionId, message.operation, message.failure],
          [1, 9, failure],
        );
      },
    },
    {
      id: 'work-ack/a-cancellation-becomes-a-message',
      title:
        'acking a canceled work item enqueues activityCanceled with reason, trigger and leaked',
      async run(store) {
        await store.begin('a', { workItems: [workItem(8), workItem(9)] });
        const items = (await store.claimWork()).toSorted((x, y) => x.operation - y.operation);
        await store.raise('a', 'go');
        const activityCancels = [{ ...activityCancel(9, 'too slow'), trigger: 'timeout' } as const];
        await store.commit(await store.claimOne(), { activityCancels });
        for (const [index, { lockToken }] of items.entries()) {
          const outcome = { kind: 'canceled', leaked: index === 1 } as const;
          expectCommitted(await store.ackWork(lockToken, outcome));
        }
        const common = { kind: 'activityCanceled', executionId: 1 };
        assert.deepEqual(contents(await store.claimOne()), [
          { ...common, operation: 8, reason: 'canceled', trigger: 'cancel' },
          { ...common, operation: 9, reason: 'too slow', trigger: 'timeout', leaked: true },
        ]);
      },
    },
    {
      id: 'work-ack/tells-who-ran-it',
      title: 'outcome messages contain the worker and start time given in the ack',
      async run(store) {
        await store.begin('a', { workItems: [1, 2, 3].map((operation) => workItem(operation)) });
        const [one, two, three] = await store.claimWorkInOrder();
        assert.ok(one && two && three);
        const ran = { worker: 'w "1"', startedAt: 17 };
        const failure = { name: 'Error', message: 'no' };
        const completed = { kind: 'completed', payload: '1', ran } as const;
        const failed = { kind: 'failed', failure: JSON.stringify(failure), ran } as const;
        const canceled = { kind: 'canceled', leaked: false, ran } as const;
        expectCommitted(await store.ackWork(one.lockToken, completed));
        expectCommitted(await store.ackWork(two.lockToken, failed));
        expectCommitted(await store.ackWork(three.lockToken, canceled));
        const { messages } = await store.claimOne();
        const received = messages.map((message) => decodeMessage(message) as Partial<typeof ran>);
        assert.deepEqual(
          received.map(({ worker, startedAt }) => ({ worker, startedAt })),
          [ran, ran, ran],
        );
      },
    },
    {
      id: 'work-ack/comes-in-the-order-of-the-acks',
      title: 'outcomes are enqueued in ack order',
      async run(store) {
        await store.begin('a', { workItems: [1, 2, 3].map((operation) => workItem(operation)) });
        const items = (await store.claimWork()).toSorted((x, y) => y.operation - x.operation);
        const outcome = { kind: 'completed', payload: null } as const;
        await store.provider.ackWorkItems(items.map(({ lockToken }) => ({ lockToken, outcome })));
        assert.deepEqual(
          labels(await store.claimOne()),
          [3, 2, 1].map((operation) => `activityCompleted ${operation}`),
        );
      },
    },
    {
      id: 'work-ack/during-a-turn-waits-for-the-next',
      title: 'an outcome that arrives during a turn survives the ack of that turn',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        expectCommitted(await store.ackWork((await store.claimWorkOne()).lockToken));
        await store.expectIdle();
        await store.commit(item);
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'work-ack/of-a-finished-instance-enqueues-nothing',
      title: 'acking a work item of an ended instance enqueues no message',
      async run(store) {
        const outcomes: readonly WorkOutcome[] = [
          { kind: 'completed', payload: '1' },
          { kind: 'failed', failure: '{"name":"Error","message":"no"}' },
          { kind: 'canceled', leaked: false },
        ];
        await store.begin('a', { workItems: outcomes.map((_, index) => workItem(index)) });
        const items = await store.claimWork();
        await store.raise('a', 'go');
        const outcome = { status: 'completed', payload: null } as const;
        await store.commit(await store.claimOne(), { outcome });
        const acks = items.map(({ lockToken, operation }) => ({
          lockToken,
          outcome: outcomes[operation] ?? assert.fail(),
        }));
        const results = await store.expectNoChange(() => store.provider.ackWorkItems(acks));
        assert.deepEqual(
          results.map(({ ok }) => ok),
          [true, true, true],
        );
        await store.clock.advance(lockMs);
        await store.expectIdle();
      },
    },
    {
      id: 'work-ack/an-unreadable-failure-spares-its-neighbours',
      title: 'a failure with invalid JSON is rejected, keeps its claim and affects no other ack',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [bad, good] = (await store.claimWork()).toSorted((x, y) => x.operation - y.operation);
        assert.ok(bad && good);
        const results = await store.provider.ackWorkItems([
          { lockToken: bad.lockToken, outcome: { kind: 'failed', failure: '{"name":' } },
          { lockToken: good.lockToken, outcome: { kind: 'completed', payload: null } },
        ]);
        expectRefused(results[0] ?? assert.fail());
        expectCommitted(results[1] ?? assert.fail());
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['activityCompleted 2']);
        await store.commit(item);
        expectCommitted(await store.ackWork(bad.lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
  ],
};
