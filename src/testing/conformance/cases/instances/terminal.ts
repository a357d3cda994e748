import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { event, raised, workItem } from '../../sample-data.ts';
import { expectLockLost } from '../../expectations.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import type { TurnOutcome } from '../../../../providers/contract/turn.ts';

const outcomes: readonly TurnOutcome[] = [
  { status: 'completed', payload: '1' },
  { status: 'failed', failure: '{}' },
];

/** Ends an instance without unread messages. */
async function end(store: StoreUnderTest, instanceId: string, outcome: TurnOutcome): Promise<void> {
  await store.raise(instanceId, 'end');
  await store.commit(await store.claimOne(), { events: [event('ended')], outcome });
}

export const terminal: Capability = {
  title: 'end of an instance',
  cases: [
    {
      id: 'terminal/drops-waiting-messages',
      title:
        'ending an instance deletes its unread messages, also those its last turn sends itself',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        for (const [index, outcome] of outcomes.entries()) {
          const instanceId = `a${index}`;
          await store.create(instanceId);
          const item = await store.claimOne();
          await store.raise(instanceId, 'too late');
          const messages = [{ instanceId, message: raised('to itself') }];
          await store.commit(item, { messages, outcome });
        }
        await store.clock.advance(lockMs);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'terminal/drops-timers',
      title: 'ending an instance deletes its timers, also those of its last turn',
      async run(store) {
        for (const [index, outcome] of outcomes.entries()) {
          const fireAt = store.clock.now() + 10;
          await store.begin(`a${index}`, { timers: [{ operation: 1, fireAt }] });
          await store.raise(`a${index}`, 'end');
          const timers = [{ operation: 2, fireAt }];
          await store.commit(await store.claimOne(), { timers, outcome });
        }
        await store.clock.advance('30d');
        await store.expectIdle();
      },
    },
    {
      id: 'terminal/removes-unclaimed-work',
      title: 'ending an instance deletes its unclaimed work items',
      async run(store) {
        for (const [index, outcome] of outcomes.entries()) {
          await store.begin(`a${index}`, { workItems: [workItem(1), workItem(2)] });
          const { lockToken } = await store.claimWorkOne({ max: 1 });
          await store.provider.retryWorkItems([{ lockToken, delayMs: 50, failure: '{}' }]);
          await end(store, `a${index}`, outcome);
        }
        await store.expectIdle();
        await store.clock.advance('1d');
        await store.expectIdle();
      },
    },
    {
      id: 'terminal/flags-claimed-work',
      title: 'ending an instance flags its claimed work items, which keep their lease',
      async run(store) {
        for (const [index, outcome] of outcomes.entries()) {
          await store.begin(`a${index}`, { workItems: [workItem(1)] });
          const { lockToken } = await store.claimWorkOne();
          await end(store, `a${index}`, outcome);
          const [renewed] = await store.provider.renewWorkItemLocks([{ lockToken }], lockMs);
          assert.ok(renewed?.held && renewed.cancel, 'the item should be held, and asked to stop');
          assert.equal(renewed.cancel.requestedAt, store.clock.now());
          await store.expectIdle();
        }
      },
    },
    {
      id: 'terminal/never-changes-again',
      title: 'late acks, messages and abandons do not change an ended instance',
      async run(store) {
        const begun = await store.begin('a', { workItems: [workItem(1)] });
        const work = await store.claimWorkOne();
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await store.commit(item, { outcome: { status: 'completed', payload: '"first"' } });
        await store.expectNoChange(async () => {
          expectLockLost(await store.ack(item, { outcome: { status: 'failed', failure: '{}' } }));
          const failed = { status: 'failed', failure: '{}' } as const;
          expectLockLost(await store.ackTurn(begun, [work.lockToken], { outcome: failed }));
          await store.ackWork(work.lockToken);
          await store.provider.enqueueMessages([{ instanceId: 'a', message: raised('late') }]);
          await store.provider.abandonOrchestrationItems([
            { lockToken: item.lockToken, delayMs: 0, giveBackClaim: true },
          ]);
          await store.clock.advance('1d');
        });
        await store.expectIdle();
      },
    },
    {
      id: 'terminal/leaves-its-history-readable',
      title: 'the history and executions of an ended instance are readable',
      async run(store) {
        const startedAt = store.clock.now();
        await store.begin('a');
        await store.clock.advance(9);
        await end(store, 'a', { status: 'failed', failure: '{}' });
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'ended']);
        const endedAt = startedAt + 9;
        assert.deepEqual(await store.executions('a'), [
          {
            executionId: 1,
            status: 'failed',
            version: '1',
            startedAt,
            endedAt,
            historyLength: 2,
            failure: null,
            reason: null,
          },
        ]);
      },
    },
  ],
};
