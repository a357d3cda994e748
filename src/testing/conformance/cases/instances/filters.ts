import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { workItem } from '../../sample-data.ts';

export const filters: Capability = {
  title: 'claim filters',
  cases: [
    {
      id: 'filter/claims-only-runnable-names',
      title: 'a fetch claims only instances of the runnable names and leaves the others unchanged',
      async run(store) {
        for (const name of ['order', 'invoice', 'report']) await store.create(name, { name });
        const runnable = ['report', 'order', 'unknown'].map((name) => ({ name, version: null }));
        const ids = (await store.claim({ runnable })).map(({ instanceId }) => instanceId);
        expectInAnyOrder(ids, ['order', 'report']);
        const { instanceId, claims } = await store.claimOne();
        assert.deepEqual({ instanceId, claims }, { instanceId: 'invoice', claims: 1 });
      },
    },
    {
      id: 'filter/claims-only-runnable-versions',
      title: 'a fetch claims only instances of the runnable versions',
      async run(store) {
        for (const version of ['1', '2', '10']) await store.create(`on ${version}`, { version });
        const runnable = [
          { name: 'sample', version: '2' },
          { name: 'other', version: '1' },
        ];
        assert.equal((await store.claimOne({ runnable })).instanceId, 'on 2');
        assert.deepEqual(await store.claim({ runnable }), []);
        const rest = (await store.claim()).map(({ instanceId }) => instanceId);
        expectInAnyOrder(rest, ['on 1', 'on 10']);
      },
    },
    {
      id: 'filter/an-unpicked-version-needs-its-own-entry',
      title: 'an instance without a version is claimed only by a runnable entry with version null',
      async run(store) {
        await store.create('a');
        const picked = [{ name: 'sample', version: '1' }];
        assert.deepEqual(await store.claim({ runnable: picked }), []);
        const item = await store.claimOne({ runnable: [{ name: 'sample', version: null }] });
        assert.equal(item.version, null);
        await store.commit(item, { version: '1' });
        await store.raise('a', 'x');
        assert.deepEqual(await store.claim({ runnable: [{ name: 'sample', version: null }] }), []);
        assert.equal((await store.claimOne({ runnable: picked })).version, '1');
      },
    },
    {
      id: 'filter/nothing-runnable-claims-nothing',
      title: 'a fetch with an empty filter claims nothing',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        assert.deepEqual(await store.claim({ runnable: [] }), []);
        assert.deepEqual(await store.claimWork({ names: [] }), []);
        assert.equal((await store.claimOne()).claims, 1);
        assert.equal((await store.claimWorkOne()).claims, 1);
      },
    },
    {
      id: 'filter/others-do-not-stand-in-the-way',
      title: 'older instances outside the filter do not block a matching one',
      async run(store) {
        for (let index = 0; index < 30; index++)
          await store.create(`x${index}`, { name: 'foreign' });
        await store.clock.advance(1);
        await store.create('mine');
        const runnable = [{ name: 'sample', version: null }];
        assert.equal((await store.claimOne({ max: 1, runnable })).instanceId, 'mine');
      },
    },
    {
      id: 'filter/claims-only-named-activities',
      title:
        'a fetch claims only work items of the named activities and leaves the others unchanged',
      async run(store) {
        const names = ['charge', 'mail', 'ship'];
        await store.begin('a', {
          workItems: names.map((name, index) => workItem(index, { name })),
        });
        const claimed = await store.claimWork({ names: ['ship', 'charge', 'unknown'] });
        expectInAnyOrder(
          claimed.map(({ name }) => name),
          ['charge', 'ship'],
        );
        const { name, claims } = await store.claimWorkOne();
        assert.deepEqual({ name, claims }, { name: 'mail', claims: 1 });
      },
    },
    {
      id: 'filter/other-activities-do-not-stand-in-the-way',
      title: 'older work items outside the filter do not block a matching one',
      async run(store) {
        const foreign = Array.from({ length: 30 }, (_, index) =>
          workItem(index, { name: 'foreign' }),
        );
        await store.begin('a', { workItems: foreign });
        await store.clock.advance(1);
        await store.begin('b', { workItems: [workItem(1, { name: 'mine' })] });
        const { instanceId } = await store.claimWorkOne({ max: 1, names: ['mine'] });
        assert.equal(instanceId, 'b');
      },
    },
    {
      id: 'filter/names-are-exact',
      title: 'name filters match exactly: case, spaces and wildcards are literal',
      async run(store) {
        await store.create('a', { name: 'order' });
        for (const name of ['Order', 'order ', 'ord', 'orde_', '%', '*']) {
          assert.deepEqual(await store.claim({ runnable: [{ name, version: null }] }), []);
        }
        assert.equal(
          (await store.claimOne({ runnable: [{ name: 'order', version: null }] })).name,
          'order',
        );
      },
    },
  ],
};
