import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { child, raised, workItem } from '../../sample-data.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';
import { withTimeLimit, expectPending } from '../../time-limit.ts';

const waitMs = 60_000;

export const waits: Capability = {
  title: 'waiting fetches',
  cases: [
    {
      id: 'wait/zero-answers-at-once',
      title: 'a fetch with waitMs 0 resolves immediately with an empty list',
      async run(store) {
        assert.deepEqual(await withTimeLimit(store.claim({ waitMs: 0 }), 'fetch of instances'), []);
        assert.deepEqual(await withTimeLimit(store.claimWork({ waitMs: 0 }), 'fetch of work'), []);
        assert.equal(store.clock.alarmCount, 0);
      },
    },
    {
      id: 'wait/answers-at-once-when-there-is-work',
      title: 'a fetch with waitMs resolves immediately if work is available',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        const items = await withTimeLimit(store.claim({ waitMs }), 'fetch of instances');
        assert.deepEqual(items.map(labels), [['x']]);
        const work = await withTimeLimit(store.claimWork({ waitMs }), 'fetch of work');
        assert.deepEqual(
          work.map(({ operation }) => operation),
          [1],
        );
        assert.equal(store.clock.alarmCount, 0);
      },
    },
    {
      id: 'wait/a-new-instance-ends-it',
      title: 'a waiting fetch resolves when an instance is created',
      async run(store) {
        const waiting = store.claim({ waitMs });
        await expectPending(waiting, 'the fetch');
        await store.create('a');
        const items = await withTimeLimit(waiting, 'after a start');
        assert.deepEqual(
          items.map(({ instanceId }) => instanceId),
          ['a'],
        );
      },
    },
    {
      id: 'wait/a-message-ends-it',
      title: 'a waiting fetch resolves when a message arrives',
      async run(store) {
        await store.begin('a');
        const waiting = store.claim({ waitMs });
        await expectPending(waiting, 'the fetch');
        await store.raise('a', 'x');
        assert.deepEqual((await withTimeLimit(waiting, 'after a message')).map(labels), [['x']]);
      },
    },
    {
      id: 'wait/a-completion-ends-it',
      title: 'a waiting fetch of instances resolves when a work item is acked',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const waiting = store.claim({ waitMs });
        await expectPending(waiting, 'the fetch');
        expectCommitted(await store.ackWork(lockToken));
        const items = await withTimeLimit(waiting, 'after a completion');
        assert.deepEqual(items.map(labels), [['activityCompleted 1']]);
      },
    },
    {
      id: 'wait/scheduled-work-ends-it',
      title: 'a waiting fetch of work resolves when a turn schedules a work item',
      async run(store) {
        const waiting = store.claimWork({ waitMs });
        await expectPending(waiting, 'the fetch');
        await store.begin('a', { workItems: [workItem(1)] });
        const items = await withTimeLimit(waiting, 'after a turn');
        assert.deepEqual(
          items.map(({ operation }) => operation),
          [1],
        );
      },
    },
    {
      id: 'wait/what-a-turn-sends-ends-it',
      title: 'waiting fetches resolve when a turn starts a child or sends a message',
      async run(store) {
        await store.begin('reader', {}, { name: 'reader' });
        const kids = store.claim({ waitMs, runnable: [{ name: 'kid', version: null }] });
        const readers = store.claim({ waitMs, runnable: [{ name: 'reader', version: '1' }] });
        await store.create('a');
        const item = await store.claimOne();
        await expectPending(kids, 'the fetch of children');
        await expectPending(readers, 'the fetch of receivers');
        await store.commit(item, { children: [child('kid', 1, { name: 'kid' })] });
        assert.equal(
          only(await withTimeLimit(kids, 'after a child'), 'instance').instanceId,
          'kid',
        );
        await store.raise('a', 'go');
        const message = { instanceId: 'reader', message: raised('hello') };
        await store.commit(await store.claimOne(), { messages: [message] });
        const reader = only(await withTimeLimit(readers, 'after a message of a turn'), 'instance');
        assert.deepEqual(labels(reader), ['hello']);
      },
    },
    {
      id: 'wait/a-due-timer-ends-it',
      title: 'a waiting fetch resolves exactly when a timer becomes due',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 5_000 }] });
        const waiting = store.claim({ waitMs });
        await store.clock.advance(4_999);
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(1);
        const item = only(await withTimeLimit(waiting, 'at the time of the timer'), 'instance');
        assert.deepEqual(labels(item), ['timerFired 1']);
        assert.equal(item.nowMs, store.clock.now());
      },
    },
    {
      id: 'wait/a-timer-set-meanwhile-ends-it',
      title: 'a waiting fetch resolves when a timer created during the wait becomes due',
      async run(store) {
        await store.begin('a');
        const runnable = [{ name: 'sample', version: '1' }];
        const waiting = store.claim({ waitMs, runnable });
        await expectPending(waiting, 'the fetch');
        await store.begin('b', { timers: [{ operation: 1, fireAt: store.clock.now() + 100 }] });
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(100);
        const item = only(await withTimeLimit(waiting, 'at the time of the timer'), 'instance');
        assert.deepEqual([item.instanceId, ...labels(item)], ['b', 'timerFired 1']);
      },
    },
    {
      id: 'wait/an-expired-lock-ends-it',
      title: 'waiting fetches resolve when other claims expire',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        await store.claimOne();
        await store.claimWorkOne();
        const instances = store.claim({ waitMs });
        const work = store.claimWork({ waitMs });
        await store.clock.advance(lockMs - 1);
        await expectPending(instances, 'the fetch of instances');
        await expectPending(work, 'the fetch of work');
        await store.clock.advance(1);
        assert.equal(only(await withTimeLimit(instances, 'at expiry'), 'instance').claims, 2);
        assert.equal(only(await withTimeLimit(work, 'at expiry'), 'work item').claims, 2);
      },
    },
    {
      id: 'wait/handed-back-work-ends-it',
      title: 'waiting fetches resolve when claims are abandoned or retried, after the delay',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        const [one, two] = await store.claimWork();
        assert.ok(one && two);
        const instances = store.claim({ waitMs });
        const work = store.claimWork({ waitMs, max: 1 });
        await expectPending(instances, 'the fetch of instances');
        const { provider } = store;
        const now = { delayMs: 0, giveBackClaim: true };
        await provider.abandonOrchestrationItems([{ lockToken: item.lockToken, ...now }]);
        assert.deepEqual((await withTimeLimit(instances, 'after an abandon')).map(labels), [['x']]);
        await expectPending(work, 'the fetch of work');
        await provider.abandonWorkItems([{ lockToken: one.lockToken, ...now }]);
        const handedBack = only(await withTimeLimit(work, 'after an abandon'), 'work item');
        assert.equal(handedBack.operation, one.operation);
        const retried = store.claimWork({ waitMs });
        await provider.retryWorkItems([{ lockToken: two.lockToken, delayMs: 500, failure: '{}' }]);
        await expectPending(retried, 'the fetch of work');
        await store.clock.advance(500);
        const again = only(await withTimeLimit(retried, 'after a retry delay'), 'work item');
        assert.equal(again.operation, two.operation);
      },
    },
    {
      id: 'wait/ends-when-the-time-is-up',
      title: 'a waiting fetch resolves with an empty list exactly after waitMs',
      async run(store) {
        const fetches: readonly Promise<readonly unknown[]>[] = [
          store.claim({ waitMs: 500 }),
          store.claimWork({ waitMs: 500 }),
        ];
        for (const waiting of fetches) await expectPending(waiting, 'the fetch');
        await store.clock.advance(499);
        for (const waiting of fetches) await expectPending(waiting, 'the fetch');
        await store.clock.advance(1);
        for (const waiting of fetches)
          assert.deepEqual(await withTimeLimit(waiting, 'time is up'), []);
        assert.equal(store.clock.alarmCount, 0);
      },
    },
    {
      id: 'wait/ends-when-the-signal-aborts',
      title: 'a waiting fetch resolves with an empty list when its signal aborts',
      async run(store) {
        const { signal, abort } = abortable();
        const fetches: readonly Promise<readonly unknown[]>[] = [
          store.claim({ waitMs, signal }),
          store.claimWork({ waitMs, signal }),
        ];
        for (const waiting of fetches) await expectPending(waiting, 'the fetch');
        abort();
        for (const waiting of fetches)
          assert.deepEqual(await withTimeLimit(waiting, 'aborted'), []);
        assert.equal(store.clock.alarmCount, 0);
        await store.begin('a', { workItems: [workItem(1)] });
        assert.equal((await store.claimWorkOne()).claims, 1);
      },
    },
    {
      id: 'wait/an-aborted-signal-does-not-wait',
      title: 'a fetch with an aborted signal resolves immediately and claims nothing',
      async run(store) {
        const { signal, abort } = abortable();
        abort();
        await store.create('a');
        assert.deepEqual(
          await withTimeLimit(store.claim({ waitMs, signal }), 'aborted before'),
          [],
        );
        assert.deepEqual(
          await withTimeLimit(store.claimWork({ waitMs, signal }), 'aborted before'),
          [],
        );
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'wait/what-it-cannot-run-does-not-end-it',
      title: 'a waiting fetch does not resolve for work outside its filter',
      async run(store) {
        const runnable = [{ name: 'mine', version: null }];
        const instances = store.claim({ waitMs, runnable });
        const work = store.claimWork({ waitMs, names: ['mine'] });
        await store.begin('foreign', { workItems: [workItem(1)] });
        await store.raise('foreign', 'x');
        await expectPending(instances, 'the fetch of instances');
        await expectPending(work, 'the fetch of work');
        await store.create('a', { name: 'mine' });
        assert.equal(
          only(await withTimeLimit(instances, 'after its own start'), 'instance').name,
          'mine',
        );
        const foreign = await store.claimOne();
        await store.commit(foreign, { workItems: [workItem(2, { name: 'mine' })] });
        assert.equal(
          only(await withTimeLimit(work, 'after its own work'), 'work item').name,
          'mine',
        );
      },
    },
    {
      id: 'wait/one-item-goes-to-one-waiter',
      title: 'a new instance resolves one of several waiting fetches',
      async run(store) {
        const { signal, abort } = abortable();
        const results: (readonly string[])[] = [];
        const fetches = [1, 2, 3].map(async () => {
          const items = await store.claim({ waitMs, signal });
          results.push(items.map(({ instanceId }) => instanceId));
        });
        await store.create('a');
        await withTimeLimit(Promise.race(fetches), 'after a start');
        await expectPending(Promise.all(fetches), 'two fetches');
        assert.deepEqual(results, [['a']]);
        abort();
        await withTimeLimit(Promise.all(fetches), 'aborted');
        assert.deepEqual(results, [['a'], [], []]);
      },
    },
    {
      id: 'wait/ends-at-close',
      title: 'waiting fetches resolve with an empty list when the provider closes',
      async run(store) {
        const fetches: readonly Promise<readonly unknown[]>[] = [
          store.claim({ waitMs }),
          store.claimWork({ waitMs }),
        ];
        for (const waiting of fetches) await expectPending(waiting, 'the fetch');
        await store.provider.close();
        for (const waiting of fetches) assert.deepEqual(await withTimeLimit(waiting, 'closed'), []);
        assert.equal(store.clock.alarmCount, 0);
      },
    },
  ],
};

function abortable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
