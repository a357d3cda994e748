import assert from 'node:assert/strict';
import {
  beginAll,
  createAll,
  end,
  ids,
  limit,
  ofKey,
  running,
  sample,
} from '../../begin-helpers.ts';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { pause, resume } from '../../pause-helpers.ts';
import { event, newInstance, newTurn } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { withTimeLimit } from '../../time-limit.ts';

/** Requests a debounced start. All requests have the same key. */
async function debounce(
  { provider }: StoreUnderTest,
  id: string,
  { requestKey, delayMs }: { readonly requestKey: string; readonly delayMs: number },
): Promise<void> {
  const start = newInstance(id, { debounce: { key: 'key', requestKey }, delayMs });
  await provider.createInstances([start]);
}

export const beginLimits: Capability = {
  title: 'limits of instances',
  cases: [
    {
      id: 'begin/never-more-than-the-limit',
      title: 'only as many instances begin as the limit allows; the others wait in order',
      async run(store) {
        await limit(store, { global: 2 });
        await createAll(store, ['a', 'b', 'c', 'd']);
        assert.deepEqual(await beginAll(store), ['a', 'b']);
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.record('c')).status, 'pending');
        assert.equal(await running(store), 2);
        await end(store, 'a');
        assert.deepEqual(await beginAll(store), ['c']);
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'begin/waits-in-order',
      title: 'more than ten waiting instances of a key begin in the order of their creation',
      async run(store) {
        await limit(store, { perKey: 1 });
        const created = Array.from({ length: 25 }, (_, n) => newInstance(`i${n}`, ofKey('k')));
        await store.provider.createInstances(created);
        const begun: string[] = [];
        for (let count = 0; count < created.length; count += 1) {
          const item = await store.claimOne();
          begun.push(item.instanceId);
          await store.commit(item, { outcome: { status: 'completed', payload: null } });
        }
        assert.deepEqual(
          begun,
          created.map(({ instanceId }) => instanceId),
        );
      },
    },
    {
      id: 'begin/holds-over-processes',
      title: 'two processes together begin no more than the limit',
      async run(store) {
        const other = await store.reopen();
        await limit(store, { global: 3 });
        await createAll(store, ['a', 'b', 'c', 'd', 'e', 'f']);
        const fetch = { max: 2, lockMs, waitMs: 0 };
        const claims = await Promise.all([
          store.claim({ max: 2 }),
          other.fetchOrchestrationItems(fetch),
          store.claim({ max: 2 }),
          other.fetchOrchestrationItems(fetch),
        ]);
        assert.equal(claims.flat().length, 3);
        assert.equal(await running(store), 3);
      },
    },
    {
      id: 'begin/a-version-that-is-not-runnable-takes-no-place',
      title: 'a waiting instance of a version that the claiming worker cannot run takes no place',
      async run(store) {
        await limit(store, { global: 1 });
        const claimAs = (own: string) =>
          store.claim({ runnable: [{ name: 'sample', version: own }] });
        await store.create('first', { version: '2' });
        const [begun] = await claimAs('2');
        assert.ok(begun);
        await store.commit(begun, { version: '2', events: [event('begun')] });
        for (const id of ['old 1', 'old 2']) await store.create(id, { version: '1' });
        assert.deepEqual(await claimAs('1'), []);
        for (const id of ['new 1', 'new 2']) await store.create(id, { version: '2' });
        assert.deepEqual(await claimAs('2'), []);
        await store.terminate('first');
        const [next] = await claimAs('2');
        assert.equal(next?.instanceId, 'new 1');
        assert.deepEqual(await claimAs('1'), []);
        assert.deepEqual(await claimAs('2'), []);
        assert.equal(await running(store), 1);
        await store.commit(next, { outcome: { status: 'completed', payload: null } });
        assert.deepEqual(ids(await claimAs('1')), ['old 1']);
        assert.equal(await running(store), 1);
        await store.terminate('old 1');
        // The other worker claims while both versions wait.
        assert.deepEqual(ids(await claimAs('2')), ['new 2']);
        await store.terminate('new 2');
        assert.deepEqual(ids(await claimAs('1')), ['old 2']);
        await store.terminate('old 2');
        assert.deepEqual(await store.claim(), []);
        assert.equal(await running(store), 0);
      },
    },
    {
      id: 'begin/a-message-does-not-pass',
      title: 'an event for a waiting instance waits with it',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b']);
        assert.deepEqual(await beginAll(store), ['a']);
        await store.raise('b', 'early');
        assert.deepEqual(await store.claim(), []);
        await end(store, 'a');
        assert.deepEqual(
          (await store.claimOne()).messages.map(({ kind }) => kind),
          ['start', 'eventRaised'],
        );
      },
    },
    {
      id: 'begin/per-key',
      title: 'each key has its own places; the lanes are listed',
      async run(store) {
        await limit(store, { perKey: 1, global: 2 });
        await createAll(store, ['a1', 'a2', 'a3'], 'a');
        await createAll(store, ['b1'], 'b');
        assert.deepEqual([...(await beginAll(store))].toSorted(), ['a1', 'b1']);
        await end(store, 'a1');
        assert.deepEqual(await beginAll(store), ['a2']);
        const { records } = await store.provider.listLanes({ ...sample, limit: 10, order: 'key' });
        assert.deepEqual(
          records.map(({ key, running: inUse, waiting, heldBy }) => [key, inUse, waiting, heldBy]),
          [
            ['a', 1, 1, 'perKey'],
            ['b', 1, 0, null],
          ],
        );
      },
    },
    {
      id: 'begin/what-waits-is-shown',
      title: 'an instance that waits for a place is inspected with its key',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a1', 'a2'], 'a');
        await beginAll(store);
        await createAll(store, ['none']);
        assert.deepEqual(await store.claim(), []);
        const keys = await Promise.all(
          ['a1', 'a2', 'none'].map(
            async (id) => (await store.provider.inspectTurn(id))?.waitingKey,
          ),
        );
        assert.deepEqual(keys, [null, 'a', '']);
        const many = await store.provider.inspectInstances({
          instanceIds: ['a2'],
          maxPending: 1,
          maxEvents: 1,
        });
        assert.equal(many[0]?.turn.waitingKey, 'a');
      },
    },
    {
      id: 'begin/keys-take-turns',
      title:
        'the first instance of a key waits for one place, not for all instances of another key',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a1', 'a2', 'a3'], 'a');
        assert.deepEqual(await beginAll(store), ['a1']);
        await createAll(store, ['b1'], 'b');
        assert.deepEqual(await store.claim(), []);
        await end(store, 'a1');
        assert.deepEqual(await beginAll(store), ['b1']);
        await end(store, 'b1');
        assert.deepEqual(await beginAll(store), ['a2']);
      },
    },
    {
      id: 'begin/an-idle-key-does-not-catch-up',
      title: 'a key that was idle takes turns with a busy one, without more places for the past',
      async run(store) {
        await limit(store, { global: 1 });
        const begun: string[] = [];
        const endOne = async (): Promise<void> => {
          const item = await store.claimOne();
          begun.push(item.instanceId.slice(0, 1));
          await store.commit(item, { outcome: { status: 'completed', payload: null } });
        };
        await createAll(store, ['b0', 'b1'], 'b');
        await createAll(store, ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8', 'a9'], 'a');
        for (let count = 0; count < 8; count += 1) await endOne();
        begun.length = 0;
        await createAll(store, ['b2', 'b3', 'b4', 'b5'], 'b');
        for (let count = 0; count < 4; count += 1) await endOne();
        assert.deepEqual(begun.toSorted(), ['a', 'a', 'b', 'b']);
      },
    },
    {
      id: 'begin/an-idle-key-is-deleted',
      title: 'a key whose instances have ended or were stopped is not listed after a later claim',
      async run(store) {
        await limit(store, { perKey: 1 });
        const keys = ['k0', 'k1', 'k2', 'k3', 'k4'];
        for (const key of keys) await createAll(store, [`${key}a`, `${key}b`], key);
        assert.equal((await beginAll(store)).length, keys.length);
        for (const key of keys) {
          await store.terminate(`${key}b`);
          await store.terminate(`${key}a`);
        }
        await createAll(store, ['z'], 'z');
        assert.deepEqual(await beginAll(store), ['z']);
        const { records } = await store.provider.listLanes({ ...sample, limit: 10, order: 'key' });
        assert.deepEqual(
          records.map(({ key }) => key),
          ['z'],
        );
      },
    },
    {
      id: 'begin/a-first-turn-is-not-run',
      title: 'a start with a first turn stores only its start message',
      async run(store) {
        await limit(store, { global: 1 });
        const firstTurn = newTurn({ events: [event('never')] });
        const [result] = await store.provider.createInstances([newInstance('a', { firstTurn })]);
        assert.equal(result?.kind === 'created' && result.withoutTurn, true);
        assert.deepEqual(await beginAll(store), ['a']);
      },
    },
    {
      id: 'begin/every-end-frees-the-place',
      title: 'a cancel, a terminate, a failure and a delete free the place, each once',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['canceled', 'terminated', 'failed', 'deleted', 'last']);
        assert.deepEqual(await beginAll(store), ['canceled']);
        await store.cancel('canceled');
        const [stopping] = await store.claim();
        assert.equal(stopping?.instanceId, 'canceled');
        await store.commit(stopping, {
          outcome: { status: 'canceled', reason: 'x', cleanupSkipped: false },
        });
        assert.deepEqual(await beginAll(store), ['terminated']);
        await store.terminate('terminated');
        assert.deepEqual(await beginAll(store), ['failed']);
        await store.raise('failed', 'x');
        await store.commit(await store.claimOne(), {
          outcome: { status: 'failed', failure: '{"name":"Error","message":"x"}' },
        });
        assert.deepEqual(await beginAll(store), ['deleted']);
        await forceDelete(store, 'deleted');
        assert.deepEqual(await beginAll(store), ['last']);
        assert.equal(await running(store), 1);
      },
    },
    {
      id: 'begin/what-waits-can-be-stopped',
      title: 'a waiting instance is canceled, terminated or deleted without taking a place',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b', 'c', 'd', 'e']);
        assert.deepEqual(await beginAll(store), ['a']);
        await store.cancel('b');
        await store.terminate('c');
        await forceDelete(store, 'd');
        assert.equal((await store.record('b')).status, 'canceled');
        assert.equal(await running(store), 1);
        await end(store, 'a');
        assert.deepEqual(await beginAll(store), ['e']);
      },
    },
    {
      id: 'begin/keeps-its-place',
      title: 'a lost claim and a next execution keep the place',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b']);
        await store.claimOne();
        await store.clock.advance(lockMs + 1);
        const again = await store.claimOne();
        assert.equal(again.instanceId, 'a');
        await store.commit(again, {
          outcome: {
            status: 'continuedAsNew',
            version: null,
            start: newInstance('a').start,
          },
        });
        assert.deepEqual(await beginAll(store), ['a']);
        assert.equal(await running(store), 1);
      },
    },
    {
      id: 'begin/a-paused-instance-does-not-take-the-place',
      title: 'a waiting instance that is paused lets others pass, and waits again after its resume',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b', 'c']);
        assert.deepEqual(await beginAll(store), ['a']);
        await pause(store, 'b');
        await end(store, 'a');
        assert.deepEqual(await beginAll(store), ['c']);
        await resume(store, 'b');
        assert.deepEqual(await store.claim(), []);
        await end(store, 'c');
        assert.deepEqual(await beginAll(store), ['b']);
      },
    },
    {
      id: 'begin/a-moved-start-gives-up-its-turn',
      title: 'a debounced instance that waits for a place and is moved takes none before it is due',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a']);
        assert.deepEqual(await beginAll(store), ['a']);
        await debounce(store, 'deb', { requestKey: '1', delayMs: 0 });
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.provider.inspectTurn('deb'))?.waitingKey, '');
        await debounce(store, 'again', { requestKey: '2', delayMs: 3_600_000 });
        assert.equal((await store.provider.inspectTurn('deb'))?.waitingKey, null);
        await createAll(store, ['c']);
        await end(store, 'a');
        assert.deepEqual(await beginAll(store), ['c']);
        await store.clock.advance(3_600_000);
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.provider.inspectTurn('deb'))?.waitingKey, '');
        await end(store, 'c');
        assert.deepEqual(await beginAll(store), ['deb']);
        assert.equal(await running(store), 1);
      },
    },
    {
      id: 'begin/a-moved-start-frees-its-place',
      title:
        'a debounced instance that is moved frees the place of its first claim, and wakes a worker',
      async run(store) {
        await limit(store, { global: 1 });
        await debounce(store, 'deb', { requestKey: '1', delayMs: 0 });
        const { lockToken } = await store.claimOne();
        const handBack = { lockToken, delayMs: 60_000, giveBackClaim: true };
        assert.deepEqual(await store.provider.abandonOrchestrationItems([handBack]), [true]);
        await createAll(store, ['c']);
        assert.deepEqual(await store.claim(), []);
        const waiting = store.claim({ waitMs: 60_000 });
        await debounce(store, 'again', { requestKey: '2', delayMs: 3_600_000 });
        const claimed = await withTimeLimit(waiting, 'after the move');
        assert.deepEqual(ids(claimed), ['c']);
        for (const item of claimed) await store.commit(item, { events: [event('begun')] });
        assert.equal(await running(store), 1);
        await store.clock.advance(3_600_000);
        await end(store, 'c');
        assert.deepEqual(await beginAll(store), ['deb']);
        assert.equal(await running(store), 1);
      },
    },
    {
      id: 'begin/a-moved-start-stays-paused',
      title: 'a paused debounced instance that is moved is not claimed before its resume',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a']);
        assert.deepEqual(await beginAll(store), ['a']);
        await debounce(store, 'deb', { requestKey: '1', delayMs: 0 });
        assert.deepEqual(await store.claim(), []);
        await pause(store, 'deb');
        await debounce(store, 'again', { requestKey: '2', delayMs: 1_000 });
        await store.clock.advance(1_000);
        await end(store, 'a');
        assert.deepEqual(await store.claim(), []);
        await resume(store, 'deb');
        assert.deepEqual(await beginAll(store), ['deb']);
      },
    },
    {
      id: 'begin/a-change-holds-at-once',
      title:
        'a raised limit lets waiting instances begin and wakes a worker; a lowered one stops none',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b', 'c', 'd']);
        assert.deepEqual(await beginAll(store), ['a']);
        const waiting = store.claim({ waitMs: 60_000 });
        await store.provider.setLimits({ ...sample, override: { global: 3 } });
        const claimed = await withTimeLimit(waiting, 'after the limit was raised');
        for (const item of claimed) await store.commit(item, { events: [event('begun')] });
        await beginAll(store);
        assert.equal(await running(store), 3);
        await store.provider.setLimits({ ...sample, override: { global: 1 } });
        await end(store, 'a');
        assert.deepEqual(await store.claim(), []);
        assert.equal(await running(store), 2);
      },
    },
    {
      id: 'begin/an-end-wakes-who-waits',
      title: 'the end of an instance ends the wait of a worker for the next one',
      async run(store) {
        await limit(store, { global: 1 });
        await createAll(store, ['a', 'b']);
        assert.deepEqual(await beginAll(store), ['a']);
        const waiting = store.claim({ waitMs: 60_000 });
        await store.terminate('a');
        const [next] = await withTimeLimit(waiting, 'after the end');
        assert.equal(next?.instanceId, 'b');
      },
    },
    {
      id: 'begin/what-has-begun-counts',
      title: 'instances that began before the limit go on, and count',
      async run(store) {
        await createAll(store, ['a', 'b']);
        assert.deepEqual(await beginAll(store), ['a', 'b']);
        await limit(store, { global: 2 });
        await createAll(store, ['c']);
        assert.deepEqual(await store.claim(), []);
        await store.raise('a', 'x');
        await store.raise('b', 'x');
        assert.deepEqual(await beginAll(store), ['a', 'b']);
        await end(store, 'a');
        assert.deepEqual(await beginAll(store), ['c']);
      },
    },
    {
      id: 'begin/a-claim-under-way-counts',
      title:
        'an instance whose first turn is under way counts when its orchestration becomes limited',
      async run(store) {
        await createAll(store, ['a', 'paused']);
        const claimed = await store.claim();
        assert.deepEqual(ids(claimed), ['a', 'paused']);
        await pause(store, 'paused');
        await limit(store, { global: 2 });
        assert.equal(await running(store), 2);
        await createAll(store, ['b']);
        assert.deepEqual(await store.claim(), []);
        for (const item of claimed) await store.commit(item, { events: [event('begun')] });
        assert.deepEqual(await store.claim(), []);
        await end(store, 'a');
        assert.deepEqual(await beginAll(store), ['b']);
        assert.equal(await running(store), 2);
      },
    },
    {
      id: 'begin/a-claim-that-expired-before-has-no-place',
      title: 'an instance whose first claim expired before the limit waits for a place',
      async run(store) {
        await createAll(store, ['lost']);
        await store.claimOne();
        await store.clock.advance(lockMs + 1);
        await limit(store, { global: 1 });
        assert.equal(await running(store), 0);
        assert.deepEqual(await beginAll(store), ['lost']);
        assert.equal(await running(store), 1);
      },
    },
  ],
};
