import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, newInstance, newTurn, workItem } from '../../sample-data.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { labels } from '../../store-under-test.ts';

export const creation: Capability = {
  title: 'creation and idempotence',
  cases: [
    {
      id: 'create/inserts-a-pending-row',
      title: 'a new instance is pending, with its given name, version and incarnation',
      async run(store) {
        const instance = newInstance('a', { version: '3', name: 'order' });
        const [result] = await store.provider.createInstances([instance]);
        assert.equal(result?.kind, 'created');
        assert.deepEqual(result.claimed, []);
        assert.deepEqual(await store.record('a'), {
          instanceKey: result.instanceKey,
          instanceId: 'a',
          incarnation: instance.incarnation,
          kind: 'orchestration',
          name: 'order',
          version: '3',
          status: 'pending',
          executionId: 1,
          parentInstanceId: null,
          output: null,
          failure: null,
          customStatus: null,
          customStatusVersion: 0,
          createdAt: store.clock.now(),
          runAt: null,
          startedAt: null,
          endedAt: null,
          cancel: null,
          cleanupSkipped: false,
          leaked: 0,
          terminated: null,
          blocked: null,
          tags: {},
          forkedFrom: null,
          paused: null,
          task: null,
        });
      },
    },
    {
      id: 'create/enqueues-the-start-with-the-row',
      title: 'a new instance is claimable immediately, with only its start message',
      async run(store) {
        const instance = newInstance('a');
        const [result] = await store.provider.createInstances([instance]);
        const item = await store.claimOne();
        const { lockToken, messages, ...known } = item;
        assert.ok(lockToken.length > 0);
        assert.deepEqual(known, {
          instanceKey: result?.kind === 'created' && result.instanceKey,
          instanceId: 'a',
          incarnation: instance.incarnation,
          executionId: 1,
          name: instance.name,
          version: null,
          parent: null,
          claims: 1,
          lastTurn: null,
          historyLength: 0,
          nowMs: store.clock.now(),
        });
        assert.deepEqual(
          messages.map(({ messageKey: _key, ...message }) => message),
          [instance.start],
        );
        await store.expectIdle();
      },
    },
    {
      id: 'create/the-same-start-exists',
      title:
        'createInstances() with the same id, name and input returns exists and changes nothing',
      async run(store) {
        await store.create('a', { inputHash: 'h1' });
        const repeat = newInstance('a', { inputHash: 'h1', version: '2' });
        const results = await store.expectNoChange(() => store.provider.createInstances([repeat]));
        assert.deepEqual(results, [{ kind: 'exists' }]);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'create/another-name-conflicts',
      title:
        'createInstances() with the id of another orchestration returns conflict with its name',
      async run(store) {
        await store.create('a', { name: 'first' });
        const other = newInstance('a', { name: 'second' });
        const results = await store.expectNoChange(() => store.provider.createInstances([other]));
        assert.deepEqual(results, [{ kind: 'conflict', name: 'first' }]);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'create/another-input-conflicts',
      title: 'createInstances() with an id that has another input returns conflict',
      async run(store) {
        await store.create('a', { name: 'first', inputHash: 'h1' });
        const other = newInstance('a', { name: 'first', inputHash: 'h2' });
        const results = await store.expectNoChange(() => store.provider.createInstances([other]));
        assert.deepEqual(results, [{ kind: 'conflict', name: 'first' }]);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'create/an-id-that-is-over-stays-taken',
      title: 'createInstances() with the id of an ended instance returns exists or conflict',
      async run(store) {
        await store.begin('a', { outcome: { status: 'completed', payload: '1' } });
        const results = await store.expectNoChange(() =>
          store.provider.createInstances([
            newInstance('a'),
            newInstance('a', { inputHash: 'other' }),
            newInstance('a', { name: 'other' }),
          ]),
        );
        const conflict = { kind: 'conflict', name: 'sample' };
        assert.deepEqual(results, [{ kind: 'exists' }, conflict, conflict]);
        await store.expectIdle();
      },
    },
    {
      id: 'create/a-claimed-instance-keeps-its-claim',
      title: 'a repeated start does not affect the claim or history of a running instance',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const repeat = [newInstance('a'), newInstance('a', { inputHash: 'other' })];
        await store.expectNoChange(() => store.provider.createInstances(repeat));
        await store.expectIdle();
        await store.commit(item);
        await store.expectIdle();
      },
    },
    {
      id: 'create/repeats-within-a-batch',
      title: 'a batch that repeats an id creates it once',
      async run(store) {
        const first = newInstance('a');
        const results = await store.provider.createInstances([
          first,
          newInstance('a'),
          newInstance('a', { inputHash: 'other' }),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'exists', 'conflict'],
        );
        assert.equal((await store.record('a')).incarnation, first.incarnation);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'create/a-conflict-spares-its-neighbours',
      title: 'a conflict does not affect the other starts of its batch',
      async run(store) {
        await store.create('taken', { name: 'other' });
        const results = await store.provider.createInstances([
          newInstance('before'),
          newInstance('taken'),
          newInstance('after'),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'conflict', 'created'],
        );
        const claimed = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(claimed, [
          ['after', 'start'],
          ['before', 'start'],
          ['taken', 'start'],
        ]);
      },
    },
    {
      id: 'create/a-refused-one-spares-its-neighbours',
      title: 'an invalid first turn is refused and does not affect the other starts',
      async run(store) {
        const twice = newTurn({ events: [event('x')], workItems: [workItem(1), workItem(1)] });
        const gap = newTurn({ firstEventId: 2, events: [event('x')] });
        const results = await store.provider.createInstances([
          newInstance('before'),
          newInstance('bad', { firstTurn: twice }),
          newInstance('bad', { firstTurn: gap }),
          newInstance('after'),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'refused', 'refused', 'created'],
        );
        assert.deepEqual(await store.provider.getInstances(['bad']), [undefined]);
        assert.deepEqual(await store.claimWork(), []);
        const ids = (await store.claim()).map(({ instanceId }) => instanceId);
        expectInAnyOrder(ids, ['after', 'before']);
      },
    },
    {
      id: 'create/concurrent-starts-have-one-winner',
      title: 'exactly one of several concurrent starts with one id creates the instance',
      async run(store) {
        const attempts = Array.from({ length: 8 }, () =>
          store.provider.createInstances([newInstance('a')]),
        );
        const kinds = (await Promise.all(attempts)).flat().map(({ kind }) => kind);
        expectInAnyOrder(kinds, ['created', ...Array<string>(7).fill('exists')]);
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
  ],
};
