import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { child, event, raised, workItem } from '../../sample-data.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';

const fullTurn = {
  events: [event('never')],
  workItems: [workItem(7)],
  timers: [{ operation: 8, fireAt: 0 }],
  children: [child('never', 9)],
  messages: [{ instanceId: 'a', message: raised('never') }],
  customStatus: '"never"',
  outcome: { status: 'completed', payload: '"never"' },
} as const;

const abandonNow = { delayMs: 0, giveBackClaim: false } as const;

export const fencing: Capability = {
  title: 'fencing',
  cases: [
    {
      id: 'fence/a-token-is-fresh-for-every-claim',
      title: 'every claim has a unique lock token',
      async run(store) {
        const begun = await store.begin('a', {
          workItems: [workItem(1, { claimMs: lockMs }), workItem(2)],
        });
        const tokens = begun.claimed.map(({ lockToken }) => lockToken);
        await store.raise('a', 'go');
        for (let claim = 0; claim < 4; claim++) {
          tokens.push(...(await store.claim()).map(({ lockToken }) => lockToken));
          tokens.push(...(await store.claimWork()).map(({ lockToken }) => lockToken));
          await store.clock.advance(lockMs);
        }
        assert.ok(tokens.length >= 9, 'the store handed out fewer claims than it should');
        assert.equal(new Set(tokens).size, tokens.length);
      },
    },
    {
      id: 'fence/an-unknown-token-cannot-ack',
      title: 'an ack with an unknown token is rejected and changes nothing',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        for (const lockToken of ['never given out', '']) {
          expectLockLost(
            await store.expectNoChange(() => store.ack({ ...item, lockToken }, fullTurn)),
          );
        }
        await store.commit(item);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'fence/an-expired-token-cannot-ack',
      title: 'an ack after the lock expired is rejected and changes nothing',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        await store.clock.advance(lockMs);
        expectLockLost(await store.expectNoChange(() => store.ack(item, fullTurn)));
        assert.deepEqual(labels(await store.claimOne()), ['go']);
        await expectUnchanged();
      },
    },
    {
      id: 'fence/a-token-that-was-taken-over-cannot-ack',
      title: 'a worker that lost its claim to another cannot ack; the other can',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const stale = await store.claimOne();
        await store.clock.advance(lockMs);
        const current = await store.claimOne();
        expectLockLost(await store.expectNoChange(() => store.ack(stale, fullTurn)));
        await store.commit(current, { events: [event('good')] });
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'good']);
        await store.expectIdle();
      },
    },
    {
      id: 'fence/a-token-acks-once',
      title: 'a repeated ack of a committed turn is rejected and changes nothing',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        await store.commit(item, { events: [event('good')] });
        const repeat = { ...item, historyLength: 1 };
        expectLockLost(await store.expectNoChange(() => store.ack(repeat, fullTurn)));
        await store.expectIdle();
      },
    },
    {
      id: 'fence/an-abandoned-token-cannot-ack',
      title: 'an ack after an abandon is rejected and changes nothing',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const { lockToken } = item;
        assert.deepEqual(
          await store.provider.abandonOrchestrationItems([{ lockToken, ...abandonNow }]),
          [true],
        );
        expectLockLost(await store.expectNoChange(() => store.ack(item, fullTurn)));
        assert.deepEqual(labels(await store.claimOne()), ['go']);
      },
    },
    {
      id: 'fence/a-late-turn-cannot-reopen-an-instance',
      title: 'a late ack of a lost claim does not change an ended instance',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const stale = await store.claimOne();
        await store.clock.advance(lockMs);
        const outcome = { status: 'completed', payload: '"first"' } as const;
        await store.commit(await store.claimOne(), { outcome });
        const failed = { status: 'failed', failure: '{}' } as const;
        for (const late of [fullTurn.outcome, failed, { status: 'running' } as const]) {
          const parts = { ...fullTurn, outcome: late };
          expectLockLost(await store.expectNoChange(() => store.ack(stale, parts)));
        }
        assert.equal((await store.record('a')).output, '"first"');
        await store.expectIdle();
      },
    },
    {
      id: 'fence/a-refused-ack-inserts-no-instance',
      title: 'an ack without a held claim creates no instance',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        await store.commit(item, { outcome: { status: 'completed', payload: null } });
        const ghost = { ...item, instanceId: 'ghost', instanceKey: item.instanceKey + 1_000 };
        expectLockLost(await store.expectNoChange(() => store.ack(ghost, fullTurn)));
        assert.deepEqual(await store.provider.getInstances(['ghost', 'never']), [
          undefined,
          undefined,
        ]);
      },
    },
    {
      id: 'fence/tokens-of-the-two-queues-are-apart',
      title: 'instance tokens do not ack work items, and work item tokens do not ack turns',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const work = await store.claimWorkOne();
        expectLockLost(await store.ackWork(item.lockToken));
        expectLockLost(
          await store.expectNoChange(() =>
            store.ack({ ...item, lockToken: work.lockToken }, fullTurn),
          ),
        );
        await store.commit(item);
        expectCommitted(await store.ackWork(work.lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'fence/an-unknown-token-cannot-settle-work',
      title: 'a work item ack with an unknown token is rejected',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        for (const unknown of ['never given out', '']) {
          expectLockLost(await store.expectNoChange(() => store.ackWork(unknown)));
        }
        await store.expectIdle();
        expectCommitted(await store.ackWork(lockToken));
      },
    },
    {
      id: 'fence/an-expired-token-cannot-settle-work',
      title: 'a work item ack after its lease expired is rejected; the item is claimable again',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.clock.advance(lockMs);
        expectLockLost(await store.expectNoChange(() => store.ackWork(lockToken)));
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.claimWorkOne()).operation, 1);
      },
    },
    {
      id: 'fence/a-token-that-was-taken-over-cannot-settle-work',
      title: 'a worker that lost its work item to another cannot ack it; the other can',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const stale = await store.claimWorkOne();
        await store.clock.advance(lockMs);
        const current = await store.claimWorkOne();
        expectLockLost(await store.expectNoChange(() => store.ackWork(stale.lockToken)));
        assert.deepEqual(await store.claim(), []);
        expectCommitted(
          await store.ackWork(current.lockToken, { kind: 'completed', payload: '2' }),
        );
        const { messages } = await store.claimOne();
        assert.equal(only(messages, 'message').payload, '2');
      },
    },
    {
      id: 'fence/a-token-settles-work-once',
      title: 'a work item acked twice completes once',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const again = { lockToken, outcome: { kind: 'completed', payload: null } } as const;
        const [first, second] = await store.provider.ackWorkItems([again, again]);
        assert.ok(first && second);
        expectCommitted(first);
        expectLockLost(second);
        expectLockLost(await store.ackWork(lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'fence/a-handed-back-token-cannot-settle-work',
      title: 'an abandoned or retried work item cannot be acked with its old token',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const [one, two] = await store.claimWork();
        assert.ok(one && two);
        const { provider } = store;
        await provider.abandonWorkItems([{ lockToken: one.lockToken, ...abandonNow }]);
        await provider.retryWorkItems([{ lockToken: two.lockToken, delayMs: 0, failure: '{}' }]);
        expectLockLost(await store.ackWork(one.lockToken));
        expectLockLost(await store.ackWork(two.lockToken));
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.claimWork()).length, 2);
      },
    },
  ],
};
