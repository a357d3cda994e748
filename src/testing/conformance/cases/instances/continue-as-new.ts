import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { event, startMessage, workItem } from '../../sample-data.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';

const continued = { status: 'continuedAsNew', version: '2', start: startMessage() } as const;

/** Continues an instance without unread messages as new. */
async function continueAsNew(store: StoreUnderTest, instanceId: string): Promise<void> {
  await store.raise(instanceId, 'continue');
  const item = await store.claimOne();
  await store.commit(item, { events: [event('continued')], outcome: continued });
}

export const continueAsNewCases: Capability = {
  title: 'executions and continue-as-new',
  cases: [
    {
      id: 'continue/begins-the-next-execution',
      title:
        'continue-as-new starts the next execution with its start message and an empty history',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { customStatus: '"kept"' });
        const before = await store.record('a');
        await store.clock.advance(10);
        const start = { ...startMessage(), payload: '"next input"' };
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), { outcome: { ...continued, start } });
        const { executionId, version, lastTurn, historyLength, claims, messages } =
          await store.claimOne();
        assert.deepEqual(
          { executionId, version, lastTurn, historyLength, claims },
          { executionId: 2, version: '2', lastTurn: null, historyLength: 0, claims: 1 },
        );
        const { messageKey: _key, ...message } = only(messages, 'message');
        assert.deepEqual(message, start);
        assert.deepEqual(await store.record('a'), { ...before, executionId: 2, version: '2' });
        const [, next] = await store.executions('a');
        assert.deepEqual(next, {
          executionId: 2,
          status: 'pending',
          version: '2',
          startedAt: null,
          endedAt: null,
          historyLength: 0,
          failure: null,
          reason: null,
        });
        await expectUnchanged();
      },
    },
    {
      id: 'continue/keeps-the-finished-execution',
      title: 'continue-as-new keeps the finished execution with its history, version and times',
      async run(store) {
        const startedAt = store.clock.now();
        await store.begin('a', { events: [event('one'), event('two')] });
        await store.clock.advance(10);
        await continueAsNew(store, 'a');
        const endedAt = store.clock.now();
        await store.clock.advance(10);
        await store.commit(await store.claimOne(), { version: '2', events: [event('anew')] });
        assert.deepEqual(await store.executions('a'), [
          {
            executionId: 1,
            status: 'continuedAsNew',
            version: '1',
            startedAt,
            endedAt,
            historyLength: 3,
            failure: null,
            reason: null,
          },
          {
            executionId: 2,
            status: 'running',
            version: '2',
            startedAt: endedAt + 10,
            endedAt: null,
            historyLength: 1,
            failure: null,
            reason: null,
          },
        ]);
        assert.deepEqual(await store.historyLabels('a', 1), ['one', 'two', 'continued']);
      },
    },
    {
      id: 'continue/keeps-histories-apart',
      title: 'each execution numbers its events from 1 and has its own history',
      async run(store) {
        await store.begin('a', { events: [event('first, 1')] });
        for (const executionId of [2, 3]) {
          await continueAsNew(store, 'a');
          await store.commit(await store.claimOne(), {
            events: [event(`execution ${executionId}`)],
          });
        }
        await store.raise('a', 'x');
        const { executionId, historyLength, instanceKey } = await store.claimOne();
        assert.deepEqual({ executionId, historyLength }, { executionId: 3, historyLength: 1 });
        const reads = [1, 2, 3, 4].map((id) => ({ instanceKey, executionId: id, after: 0 }));
        const histories = await store.provider.readHistory(reads);
        assert.deepEqual(
          histories.map((events) => events.map(({ payload }) => payload)),
          [['"first, 1"', '"continued"'], ['"execution 2"', '"continued"'], ['"execution 3"'], []],
        );
      },
    },
    {
      id: 'continue/carries-waiting-messages',
      title: 'unread external events are carried into the next execution, after its start',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        await store.raise('a', 'early', 'late');
        await store.commit(item, { outcome: continued });
        await store.raise('a', 'latest');
        assert.deepEqual(labels(await store.claimOne()), ['start', 'early', 'late', 'latest']);
      },
    },
    {
      id: 'continue/old-completions-are-dropped',
      title: 'an activity of a superseded execution settles without a message',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await continueAsNew(store, 'a');
        await store.commit(await store.claimOne());
        const result = await store.expectNoChange(() => store.ackWork(lockToken));
        expectCommitted(result);
        expectLockLost(await store.ackWork(lockToken));
        await store.expectIdle();
      },
    },
    {
      id: 'continue/queued-completions-of-the-old-execution-are-dropped',
      title: 'continue-as-new deletes unread completions of the old execution',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        expectCommitted(await store.ackWork((await store.claimWorkOne()).lockToken));
        await store.commit(item, { outcome: continued });
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'continue/ends-outstanding-work',
      title:
        'continue-as-new deletes unclaimed work items of the old execution and flags claimed ones',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const running = await store.claimWorkOne({ max: 1 });
        await continueAsNew(store, 'a');
        assert.deepEqual(await store.claimWork(), []);
        const { lockToken } = running;
        const [renewed] = await store.provider.renewWorkItemLocks([{ lockToken }], lockMs);
        assert.ok(renewed?.held && renewed.cancel, 'the claimed item should be asked to stop');
        assert.equal(renewed.cancel.requestedAt, store.clock.now());
      },
    },
    {
      id: 'continue/old-timers-never-fire',
      title: 'continue-as-new deletes the timers of the old execution',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 10 }] });
        await continueAsNew(store, 'a');
        const fireAt = store.clock.now() + 50;
        await store.commit(await store.claimOne(), { timers: [{ operation: 1, fireAt }] });
        await store.clock.advance(49);
        await store.expectIdle();
        await store.clock.advance(1);
        const { messages } = await store.claimOne();
        const { executionId, operation } = only(messages, 'message');
        assert.deepEqual({ executionId, operation }, { executionId: 2, operation: 1 });
      },
    },
    {
      id: 'continue/operations-count-anew',
      title: 'the next execution can reuse an operation number of a work item that still runs',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { payload: '"old"' })] });
        const old = await store.claimWorkOne();
        await continueAsNew(store, 'a');
        await store.commit(await store.claimOne(), {
          workItems: [workItem(1, { payload: '"new"' })],
        });
        const current = await store.claimWorkOne();
        assert.deepEqual([current.executionId, current.payload], [2, '"new"']);
        expectCommitted(
          await store.ackWork(old.lockToken, { kind: 'completed', payload: '"stale"' }),
        );
        assert.deepEqual(await store.claim(), []);
        expectCommitted(
          await store.ackWork(current.lockToken, { kind: 'completed', payload: '"good"' }),
        );
        const message = only((await store.claimOne()).messages, 'message');
        assert.deepEqual([message.executionId, message.payload], [2, '"good"']);
      },
    },
    {
      id: 'continue/many-in-a-row',
      title: 'ten executions in a row are listed in order',
      async run(store) {
        await store.create('a');
        for (let execution = 1; execution < 10; execution++) {
          await store.commit(await store.claimOne(), { events: [event('x')], outcome: continued });
        }
        const outcome = { status: 'completed', payload: null } as const;
        await store.commit(await store.claimOne(), { outcome });
        const executions = await store.executions('a');
        assert.deepEqual(
          executions.map(({ executionId, status }) => `${executionId} ${status}`),
          [
            ...Array.from({ length: 9 }, (_, index) => `${index + 1} continuedAsNew`),
            '10 completed',
          ],
        );
        await store.expectIdle();
      },
    },
    {
      id: 'continue/an-unpicked-version-can-be-picked-anew',
      title:
        'a next execution without a version is claimable only by workers that accept version null',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), { outcome: { ...continued, version: null } });
        assert.deepEqual(await store.claim({ runnable: [{ name: 'sample', version: '1' }] }), []);
        const runnable = [{ name: 'sample', version: null }];
        assert.equal((await store.claimOne({ runnable })).version, null);
      },
    },
  ],
};
