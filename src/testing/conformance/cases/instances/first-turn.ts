import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import {
  activityCancel,
  child,
  event,
  newInstance,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, only } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';

export const firstTurn: Capability = {
  title: 'creation with a first turn',
  cases: [
    {
      id: 'first-turn/commits-what-an-ack-commits',
      title: 'creation with a first turn stores the same state as create, claim and ack',
      async run(store) {
        await store.create('reader');
        await store.commit(await store.claimOne());
        const turn = (id: string) => ({
          events: [event('one'), event('two')],
          workItems: [workItem(1), workItem(2, { claimMs: lockMs, options: '{"x":1}' })],
          timers: [{ operation: 3, fireAt: store.clock.now() + 500 }],
          children: [child(`child of ${id}`, 4)],
          messages: [{ instanceId: 'reader', message: raised(`from ${id}`) }],
          activityCancels: [activityCancel(1)],
          customStatus: '"busy"',
        });
        await store.begin('slow', turn('slow'));
        await store.create('fast', { firstTurn: newTurn(turn('fast')) });

        const strip = async (id: string) => {
          const { record, ...rest } = await store.snapshotOf(await store.record(id));
          const { instanceKey: _key, instanceId: _id, incarnation: _incarnation, ...same } = record;
          return { same, ...rest };
        };
        assert.deepEqual(await strip('fast'), await strip('slow'));
        assert.equal((await store.record('child of fast')).parentInstanceId, 'fast');
        const claimed = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(claimed, [
          ['child of fast', 'start'],
          ['child of slow', 'start'],
          ['fast', 'activityCanceled 1'],
          ['reader', 'from slow', 'from fast'],
          ['slow', 'activityCanceled 1'],
        ]);
        await store.clock.advance(lockMs);
        const due = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(due, [
          ['child of fast', 'start'],
          ['child of slow', 'start'],
          ['fast', 'activityCanceled 1', 'timerFired 3'],
          ['reader', 'from slow', 'from fast'],
          ['slow', 'activityCanceled 1', 'timerFired 3'],
        ]);
      },
    },
    {
      id: 'first-turn/enqueues-no-start',
      title: 'creation with a first turn enqueues no start message',
      async run(store) {
        await store.create('a', { firstTurn: newTurn({ events: [event('begun')] }) });
        await store.expectIdle();
        await store.raise('a', 'hello');
        assert.deepEqual(labels(await store.claimOne()), ['hello']);
      },
    },
    {
      id: 'first-turn/is-the-last-turn',
      title: 'the claim after a first turn returns its turn id, history length and version',
      async run(store) {
        const turn = newTurn({ version: '7', events: [event('one'), event('two')] });
        await store.create('a', { firstTurn: turn });
        await store.raise('a', 'hello');
        const { lastTurn, historyLength, version, claims } = await store.claimOne();
        assert.deepEqual(
          { lastTurn, historyLength, version, claims },
          { lastTurn: turn.turnId, historyLength: 2, version: '7', claims: 1 },
        );
      },
    },
    {
      id: 'first-turn/reports-items-claimed-at-insert',
      title: 'createInstances() returns tokens for work items that the first turn claimed',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs }), workItem(2)];
        const instance = newInstance('a', { firstTurn: newTurn({ workItems }) });
        const [result] = await store.provider.createInstances([instance]);
        assert.equal(result?.kind, 'created');
        const { operation, lockToken } = only(result.claimed, 'claimed item');
        assert.equal(operation, 1);
        assert.equal((await store.claimWorkOne()).operation, 2);
        expectCommitted(await store.ackWork(lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'first-turn/can-end-the-instance',
      title: 'a first turn can complete the instance, and nothing is queued',
      async run(store) {
        const turn = newTurn({ outcome: { status: 'completed', payload: '"at once"' } });
        await store.create('a', { firstTurn: turn });
        const { status, output, startedAt, endedAt } = await store.record('a');
        const now = store.clock.now();
        assert.deepEqual(
          { status, output, startedAt, endedAt },
          { status: 'completed', output: '"at once"', startedAt: now, endedAt: now },
        );
        await store.expectIdle();
        const results = await store.provider.enqueueMessages([
          { instanceId: 'a', message: raised('late') },
        ]);
        assert.deepEqual(results, ['over']);
      },
    },
    {
      id: 'first-turn/can-continue-as-new',
      title: 'a first turn can continue as new, and the second execution has its start message',
      async run(store) {
        const start = startMessage();
        const turn = newTurn({
          events: [event('once')],
          outcome: { status: 'continuedAsNew', version: '2', start },
        });
        await store.create('a', { firstTurn: turn });
        const { executionId, version, lastTurn, historyLength, messages } = await store.claimOne();
        assert.deepEqual(
          { executionId, version, lastTurn, historyLength },
          { executionId: 2, version: '2', lastTurn: null, historyLength: 0 },
        );
        assert.deepEqual(
          messages.map(({ kind }) => kind),
          ['start'],
        );
        assert.deepEqual(await store.historyLabels('a', 1), ['once']);
        assert.deepEqual(await store.historyLabels('a', 2), []);
      },
    },
    {
      id: 'first-turn/of-a-taken-id-commits-nothing',
      title: 'a first turn of an id that exists or conflicts stores nothing',
      async run(store) {
        await store.begin('a');
        const turn = newTurn({
          events: [event('never')],
          workItems: [workItem(1)],
          timers: [{ operation: 2, fireAt: store.clock.now() }],
          children: [child('never', 3)],
          messages: [{ instanceId: 'a', message: raised('never') }],
        });
        const results = await store.expectNoChange(() =>
          store.provider.createInstances([
            newInstance('a', { firstTurn: turn }),
            newInstance('a', { firstTurn: turn, inputHash: 'other' }),
          ]),
        );
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['exists', 'conflict'],
        );
        await store.expectIdle();
      },
    },
    {
      id: 'first-turn/is-told-of-a-taken-child',
      title: 'a first turn whose child id is taken receives childFailed',
      async run(store) {
        await store.begin('taken');
        const turn = newTurn({ children: [child('taken', 1)] });
        await store.create('a', { firstTurn: turn });
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, ...labels(item)], ['a', 'childFailed 1']);
      },
    },
    {
      id: 'first-turn/can-be-followed-by-a-turn-ack',
      title: 'a turn ack can settle a work item of the first turn',
      async run(store) {
        const turn = newTurn({
          events: [event('one')],
          workItems: [workItem(1, { claimMs: lockMs })],
        });
        const instance = newInstance('a', { firstTurn: turn });
        const [result] = await store.provider.createInstances([instance]);
        assert.equal(result?.kind, 'created');
        const { instanceKey, claimed } = result;
        const { lockToken } = only(claimed, 'claimed item');
        const begun = {
          instanceId: 'a',
          instanceKey,
          incarnation: instance.incarnation,
          turnId: turn.turnId,
          historyLength: 1,
          claimed,
        };
        const outcome = { status: 'completed', payload: '1' } as const;
        expectCommitted(
          await store.ackTurn(begun, [lockToken], { events: [event('two')], outcome }),
        );
        assert.equal((await store.record('a')).status, 'completed');
        assert.deepEqual(await store.historyLabels('a'), ['one', 'two']);
        await store.expectIdle();
      },
    },
  ],
};
