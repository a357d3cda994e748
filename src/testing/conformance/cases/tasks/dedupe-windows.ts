import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { claimOnly, forBothKinds } from '../../keyed-starts.ts';

const dedupeMs = 60_000;

export const dedupeWindows: Capability = {
  title: 'windows of dedupe keys',
  cases: [
    {
      id: 'window/names-the-ended-run',
      title: 'a start with the key of an ended run returns it until its window has passed',
      run: (store) =>
        forBothKinds(async (runs) => {
          const start = (id: string) =>
            runs.start(store.provider, `${runs.kind} ${id}`, { dedupeKey: 'key', dedupeMs });
          const active = { kind: 'active', instanceId: `${runs.kind} a` };
          assert.equal((await start('a')).kind, 'created');
          assert.deepEqual(await start('b'), active);
          // The window counts from the creation, not from the end.
          await store.clock.advance(dedupeMs - 1);
          await (await claimOnly(store, runs)).complete();
          assert.deepEqual(await store.expectNoChange(() => start('b')), active);
          await store.clock.advance(1);
          assert.equal((await start('b')).kind, 'created');
          assert.deepEqual(await start('c'), { ...active, instanceId: `${runs.kind} b` });
          await forceDelete(store, `${runs.kind} b`);
        }),
    },
    {
      id: 'window/an-active-run-comes-first',
      title: 'a start with the key of an active run returns it after its window has passed',
      run: (store) =>
        forBothKinds(async (runs) => {
          const start = (id: string) =>
            runs.start(store.provider, `${runs.kind} ${id}`, { dedupeKey: 'key', dedupeMs });
          await start('a');
          await store.clock.advance(2 * dedupeMs);
          assert.deepEqual(await start('b'), { kind: 'active', instanceId: `${runs.kind} a` });
          await (await claimOnly(store, runs)).complete();
          assert.equal((await start('b')).kind, 'created');
          await forceDelete(store, `${runs.kind} b`);
        }),
    },
    {
      id: 'window/belongs-to-starts-with-one',
      title: 'a start without a window ignores the windows of ended runs',
      run: (store) =>
        forBothKinds(async (runs) => {
          const key = { dedupeKey: 'key' };
          const id = (name: string) => `${runs.kind} ${name}`;
          await runs.start(store.provider, id('a'), { ...key, dedupeMs });
          await (await claimOnly(store, runs)).complete();
          assert.equal((await runs.start(store.provider, id('b'), key)).kind, 'created');
          await (await claimOnly(store, runs)).complete();
          const again = await runs.start(store.provider, id('c'), { ...key, dedupeMs });
          assert.deepEqual(again, { kind: 'active', instanceId: id('a') });
          const other = { ...key, dedupeMs, name: 'other' };
          assert.equal((await runs.start(store.provider, id('d'), other)).kind, 'created');
          await forceDelete(store, id('d'));
        }),
    },
    {
      id: 'window/a-known-id-comes-first',
      title: 'a start whose id is taken returns exists or conflict within a window',
      run: (store) =>
        forBothKinds(async (runs) => {
          const start = (id: string, input: string) =>
            runs.start(store.provider, `${runs.kind} ${id}`, { input, dedupeKey: 'key', dedupeMs });
          await start('a', 'first');
          await (await claimOnly(store, runs)).complete();
          assert.deepEqual(await start('a', 'first'), { kind: 'exists' });
          assert.equal((await start('a', 'second')).kind, 'conflict');
        }),
    },
    {
      id: 'window/is-deleted-with-its-run',
      title: 'the deletion of a run ends its window',
      run: (store) =>
        forBothKinds(async (runs) => {
          const start = (id: string) =>
            runs.start(store.provider, `${runs.kind} ${id}`, { dedupeKey: 'key', dedupeMs });
          await start('a');
          await (await claimOnly(store, runs)).complete();
          await forceDelete(store, `${runs.kind} a`);
          assert.equal((await start('b')).kind, 'created');
          await forceDelete(store, `${runs.kind} b`);
        }),
    },
    {
      id: 'shared/one-window-has-one-run',
      title: 'concurrent starts of two processes after the end of a run have one winner',
      async run(store) {
        const other = await store.reopen();
        await forBothKinds(async (runs) => {
          for (let round = 0; round < 5; round += 1) {
            const parts = { dedupeKey: `k${round}`, dedupeMs };
            const results = await Promise.all(
              Array.from({ length: 6 }, (_, index) =>
                runs.start(
                  index % 2 === 0 ? store.provider : other,
                  `${runs.kind} ${round} ${index}`,
                  parts,
                ),
              ),
            );
            const created = results.filter(({ kind }) => kind === 'created');
            assert.equal(created.length, 1);
            const ids = results.flatMap((one) => (one.kind === 'active' ? one.instanceId : []));
            assert.deepEqual([new Set(ids).size, ids.length], [1, 5]);
          }
        });
      },
    },
  ],
};
