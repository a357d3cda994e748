import assert from 'node:assert/strict';
import type { CreateResult, NewInstance } from '../../../../providers/contract/instances.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { only } from '../../expectations.ts';
import { openSession, orchestrationJob } from '../../job-helpers.ts';
import { child, event, newInstance, raised, startMessage } from '../../sample-data.ts';
import { contents, labels, type StoreUnderTest } from '../../store-under-test.ts';
import { newTask } from '../../task-helpers.ts';

async function start(
  { provider }: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewInstance> = {},
): Promise<CreateResult> {
  return only(await provider.createInstances([newInstance(instanceId, parts)]), 'result');
}

const completed = { outcome: { status: 'completed', payload: '"done"' } } as const;

export const starting: Capability = {
  title: 'starts that find an instance',
  cases: [
    {
      id: 'start-event/comes-with-the-start',
      title: 'createInstances() enqueues the event after the start message',
      async run(store) {
        const result = await start(store, 'new', { event: { message: raised('hello') } });
        assert.equal(result.kind, 'created');
        assert.deepEqual(labels(await store.claimOne()), ['start', 'hello']);
      },
    },
    {
      id: 'start-event/reaches-a-live-instance',
      title: 'createInstances() raises the event at a live instance, whatever its input',
      async run(store) {
        await store.begin('live');
        const event = { message: raised('hello') };
        const parts = [{}, { inputHash: 'another' }];
        for (const own of parts) {
          const result = await start(store, 'live', { event, ...own });
          assert.deepEqual(result, { kind: 'exists', event: 'enqueued' });
        }
        assert.deepEqual(labels(await store.claimOne()), ['hello', 'hello']);
        const other = await start(store, 'live', { event, name: 'another' });
        assert.deepEqual(other, { kind: 'conflict', name: 'sample' });
        const full = await start(store, 'live', { event: { ...event, maxPending: 1 } });
        assert.deepEqual(full, { kind: 'exists', event: 'full' });
      },
    },
    {
      id: 'start-event/is-refused-after-the-end',
      title: 'createInstances() returns `over` for the event of an ended instance',
      async run(store) {
        await store.begin('over', completed);
        const event = { message: raised('hello') };
        const result = await store.expectNoChange(() => start(store, 'over', { event }));
        assert.deepEqual(result, { kind: 'exists', event: 'over' });
      },
    },
    {
      id: 'start-event/its-key-counts',
      title: 'the key of a start event makes its repeat one event',
      async run(store) {
        const event = { message: raised('hello'), key: 'k' };
        assert.equal((await start(store, 'new', { event })).kind, 'created');
        assert.deepEqual(await start(store, 'new', { event }), {
          kind: 'exists',
          event: 'repeated',
        });
        assert.deepEqual(labels(await store.claimOne()), ['start', 'hello']);
      },
    },
    {
      id: 'start-event/concurrent-starts-have-one-instance',
      title: 'concurrent starts with events create one instance, which gets all events',
      async run(store) {
        const starts = Array.from({ length: 8 }, (_, index) =>
          start(store, 'one', { event: { message: raised(`${index}`) } }),
        );
        const results = await Promise.all(starts);
        assert.equal(results.filter(({ kind }) => kind === 'created').length, 1);
        const received = labels(await store.claimOne());
        assert.equal(received[0], 'start');
        assert.deepEqual(received.slice(1).toSorted(), ['0', '1', '2', '3', '4', '5', '6', '7']);
      },
    },
    {
      id: 'conflict/uses-the-existing',
      title:
        'createInstances() with `useExisting` returns `exists` for another input, live or ended',
      async run(store) {
        await store.begin('over', completed);
        await store.begin('live');
        for (const id of ['over', 'live']) {
          const own = { inputHash: 'another', onConflict: 'useExisting' } as const;
          const result = await store.expectNoChange(() => start(store, id, own));
          assert.deepEqual(result, { kind: 'exists' });
        }
      },
    },
    {
      id: 'conflict/replaces-a-live-instance',
      title:
        'createInstances() with `terminateExisting` starts the next execution of a live instance',
      async run(store) {
        const begun = await store.begin('live', { tags: { old: '1' } }, { timeoutMs: 1_000 });
        await store.raise('live', 'late');
        const result = await start(store, 'live', {
          inputHash: 'another',
          onConflict: 'terminateExisting',
          tags: { new: '2' },
        });
        assert.equal(result.kind, 'created');
        assert.equal(result.instanceKey, begun.instanceKey);
        const record = await store.record('live');
        assert.deepEqual(
          [record.status, record.executionId, record.tags, record.terminated],
          ['running', 2, { new: '2' }, null],
        );
        const executions = await store.executions('live');
        assert.deepEqual(
          executions.map(({ status }) => status),
          ['terminated', 'pending'],
        );
        assert.deepEqual(await store.historyLabels('live'), ['begun', null]);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['start']);
        assert.equal(item.executionId, 2);
        // The new start has no timeout.
        await store.clock.advance(1_000);
        const applied = await store.provider.applyTimeouts({ limit: 1, cleanupMs: 1 });
        assert.equal(applied.canceled, 0);
        await store.commit(item, { events: [event('again')], ...completed });
        assert.equal((await store.record('live')).output, '"done"');
        // The input of the new start identifies a repeat.
        assert.deepEqual(await start(store, 'live', { inputHash: 'another' }), { kind: 'exists' });
      },
    },
    {
      id: 'conflict/replaces-an-ended-instance',
      title: 'createInstances() with `terminateExisting` also replaces an ended instance',
      async run(store) {
        await store.begin('over', completed);
        const result = await start(store, 'over', { onConflict: 'terminateExisting' });
        assert.equal(result.kind, 'created');
        const { status, executionId, output } = await store.record('over');
        assert.deepEqual([status, executionId, output], ['running', 2, null]);
        const [first] = await store.executions('over');
        assert.equal(first?.status, 'completed');
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'conflict/replaces-an-instance-that-ends-meanwhile',
      title: 'a replacement at the same time as the last turn keeps its start message',
      async run(store) {
        await store.begin('one');
        await store.raise('one', 'last');
        const item = await store.claimOne();
        const [, result] = await Promise.all([
          store.commit(item, { events: [event('end')], ...completed }).catch(() => undefined),
          start(store, 'one', { onConflict: 'terminateExisting' }),
        ]);
        assert.equal(result.kind, 'created');
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'conflict/a-repeat-replaces-nothing',
      title: 'a repeat with the same incarnation replaces nothing',
      async run(store) {
        await store.begin('live');
        const again = { incarnation: 'again', onConflict: 'terminateExisting' } as const;
        assert.equal((await start(store, 'live', again)).kind, 'created');
        const repeat = await store.expectNoChange(() => start(store, 'live', again));
        assert.deepEqual(repeat, { kind: 'exists' });
      },
    },
    {
      id: 'conflict/ends-the-tree',
      title: 'a replacement terminates the descendants, and names the ids that children have',
      async run(store) {
        await store.begin('live', { children: [child('fixed', 1), child('live/1.2', 2)] });
        await start(store, 'live', { onConflict: 'terminateExisting' });
        assert.equal((await store.record('fixed')).status, 'terminated');
        const [message] = contents(await store.claimOne());
        assert.deepEqual(message?.['takenChildIds'], ['fixed']);
      },
    },
    {
      id: 'conflict/another-name-stays',
      title: 'another name, another kind, a child and a job are not used and not replaced',
      async run(store) {
        await openSession(store);
        await store.provider.submitJobs([orchestrationJob('job')]);
        await store.claimOne();
        await store.provider.createTasks([newTask('task', { name: 'sample' })]);
        await store.begin('parent', { children: [child('child', 1)] });
        for (const onConflict of ['useExisting', 'terminateExisting'] as const) {
          const other = { name: 'another', onConflict };
          const renamed = await store.expectNoChange(() => start(store, 'parent', other));
          assert.deepEqual(renamed, { kind: 'conflict', name: 'sample' });
          const task = await store.expectNoChange(() => start(store, 'task', { onConflict }));
          assert.equal(task.kind, 'conflict');
        }
        for (const id of ['child', 'job']) {
          const own = { onConflict: 'terminateExisting' } as const;
          const result = await store.expectNoChange(() => start(store, id, own));
          assert.equal(result.kind, 'conflict');
        }
      },
    },
    {
      id: 'dedupe/names-the-live-instance',
      title: 'createInstances() returns `active` for a key that a live instance of the name holds',
      async run(store) {
        const dedupeKey = 'k';
        assert.equal((await start(store, 'first', { dedupeKey })).kind, 'created');
        const event = { message: raised('hello') };
        assert.deepEqual(await start(store, 'second', { dedupeKey, event }), {
          kind: 'active',
          instanceId: 'first',
          event: 'enqueued',
        });
        assert.deepEqual(labels(await store.claimOne()), ['start', 'hello']);
        assert.deepEqual(await start(store, 'first', { dedupeKey }), { kind: 'exists' });
        assert.equal((await start(store, 'third', { dedupeKey: 'other' })).kind, 'created');
        assert.equal((await start(store, 'fourth', { dedupeKey, name: 'other' })).kind, 'created');
        assert.equal(
          (await store.provider.createTasks([newTask('task', { name: 'sample', dedupeKey })]))[0]
            ?.kind,
          'created',
        );
      },
    },
    {
      id: 'dedupe/is-free-after-the-end',
      title: 'a key is free once its holder has ended or was deleted',
      async run(store) {
        const dedupeKey = 'k';
        await store.begin('first', completed, { dedupeKey });
        await store.begin('second', {}, { dedupeKey });
        assert.equal((await start(store, 'third', { dedupeKey })).kind, 'active');
        await store.cancel('second');
        assert.equal((await start(store, 'third', { dedupeKey })).kind, 'active');
        await forceDelete(store, 'second');
        assert.equal((await start(store, 'third', { dedupeKey })).kind, 'created');
      },
    },
    {
      id: 'dedupe/concurrent-starts-have-one-winner',
      title: 'concurrent starts with one key create one instance',
      async run(store) {
        const results = await Promise.all(
          Array.from({ length: 8 }, (_, index) => start(store, `${index}`, { dedupeKey: 'k' })),
        );
        assert.equal(results.filter(({ kind }) => kind === 'created').length, 1);
        const { instances } = await store.provider.listInstances({ filter: {}, limit: 10 });
        assert.equal(instances.length, 1);
      },
    },
    {
      id: 'start-delay/waits-for-its-time',
      title: 'an instance with a delay or a time is claimable from then on',
      async run(store) {
        await start(store, 'delayed', { delayMs: 1_000 });
        await start(store, 'timed', { runAt: store.clock.now() + 2_000 });
        await start(store, 'past', { runAt: store.clock.now() - 1 });
        assert.equal((await store.claimOne()).instanceId, 'past');
        await store.clock.advance(999);
        assert.deepEqual(await store.claim(), []);
        await store.clock.advance(1);
        assert.equal((await store.claimOne()).instanceId, 'delayed');
        await store.clock.advance(1_000);
        assert.equal((await store.claimOne()).instanceId, 'timed');
      },
    },
    {
      id: 'start-delay/holds-events-back',
      title: 'events of an instance that may not start yet arrive with its start',
      async run(store) {
        await start(store, 'delayed', { delayMs: 1_000, event: { message: raised('first') } });
        await store.raise('delayed', 'second');
        assert.deepEqual(await store.claim(), []);
        await store.clock.advance(1_000);
        assert.deepEqual(labels(await store.claimOne()), ['start', 'first', 'second']);
      },
    },
    {
      id: 'event-key/is-one-event',
      title: 'enqueueMessages() returns `repeated` for a key, also after the message was read',
      async run(store) {
        await store.begin('live');
        const entry = { instanceId: 'live', message: raised('hello'), key: 'k' };
        const raise = () => store.provider.enqueueMessages([entry]);
        assert.deepEqual(await store.provider.enqueueMessages([entry, entry]), [
          'enqueued',
          'repeated',
        ]);
        assert.deepEqual(await raise(), ['repeated']);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['hello']);
        await store.commit(item, completed);
        assert.deepEqual(await raise(), ['repeated']);
        assert.deepEqual(await store.provider.enqueueMessages([{ ...entry, key: 'other' }]), [
          'over',
        ]);
      },
    },
    {
      id: 'event-key/belongs-to-its-instance',
      title: 'a key of one instance is free for another, and no key deduplicates nothing',
      async run(store) {
        await store.begin('one');
        await store.begin('other');
        const message = raised('hello');
        const results = await store.provider.enqueueMessages([
          { instanceId: 'one', message, key: 'k' },
          { instanceId: 'other', message, key: 'k' },
          { instanceId: 'one', message },
          { instanceId: 'one', message },
        ]);
        assert.deepEqual(results, ['enqueued', 'enqueued', 'enqueued', 'enqueued']);
      },
    },
    {
      id: 'event-key/survives-continue-as-new',
      title: 'a key counts over a continue-as-new',
      async run(store) {
        await store.begin('live');
        const entry = { instanceId: 'live', message: raised('hello'), key: 'k' };
        await store.provider.enqueueMessages([entry]);
        const outcome = { status: 'continuedAsNew', version: null, start: startMessage() } as const;
        await store.commit(await store.claimOne(), { outcome });
        assert.deepEqual(await store.provider.enqueueMessages([entry]), ['repeated']);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'event-key/survives-a-replacement',
      title: 'a key counts over a replacement by `terminateExisting`',
      async run(store) {
        await store.begin('live');
        const entry = { instanceId: 'live', message: raised('hello'), key: 'k' };
        assert.deepEqual(await store.provider.enqueueMessages([entry]), ['enqueued']);
        const replaced = await start(store, 'live', {
          inputHash: 'another',
          onConflict: 'terminateExisting',
        });
        assert.equal(replaced.kind, 'created');
        assert.deepEqual(await store.provider.enqueueMessages([entry]), ['repeated']);
        assert.deepEqual(await store.provider.enqueueMessages([{ ...entry, key: 'other' }]), [
          'enqueued',
        ]);
        assert.deepEqual(labels(await store.claimOne()), ['start', 'hello']);
      },
    },
    {
      id: 'event-key/is-deleted-with-its-instance',
      title: 'a deletion deletes the keys of the instance',
      async run(store) {
        const entry = { instanceId: 'live', message: raised('hello'), key: 'k' };
        await store.begin('live');
        await store.provider.enqueueMessages([entry]);
        await forceDelete(store, 'live');
        await store.begin('live');
        assert.deepEqual(await store.provider.enqueueMessages([entry]), ['enqueued']);
      },
    },
    {
      id: 'event-key/a-refused-event-keeps-its-key-free',
      title: 'an event that is refused does not use its key',
      async run(store) {
        await store.begin('live');
        await store.raise('live', 'first');
        const entry = { instanceId: 'live', message: raised('second'), key: 'k' };
        const refused = await store.provider.enqueueMessages([{ ...entry, maxPending: 1 }]);
        assert.deepEqual(refused, ['full']);
        assert.deepEqual(await store.provider.enqueueMessages([entry]), ['enqueued']);
      },
    },
  ],
};
