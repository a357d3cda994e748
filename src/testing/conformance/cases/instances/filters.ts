import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { workItem } from '../../sample-data.ts';

export const filters: Capability = {
  title: 'filters: claim only what can be run',
  cases: [
    {
      id: 'filter/claims-only-runnable-names',
      title:
        'only instances of the named orchestrations are claimed, and the others stay as they are',
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
      title: 'only instances on a version that the worker has are claimed',
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
      title: 'an instance whose version is not yet picked goes to a worker that says it picks one',
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
      title: 'a worker that can run nothing claims nothing',
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
      title: 'instances that nobody here can run do not hide those behind them',
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
      title: 'only work items of the named activities are claimed, and the others stay as they are',
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
      title: 'work items that nobody here can run do not hide those behind them',
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
      title: 'names are compared as they are: case, spaces and wildcards mean themselves',
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
