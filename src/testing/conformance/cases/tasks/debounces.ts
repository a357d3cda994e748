import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { expectCommitted } from '../../expectations.ts';
import { claimOnly, debounced, forBothKinds, type RunKind } from '../../keyed-starts.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { createTask, failure } from '../../task-helpers.ts';

/** Starts with one debounce key. The ids differ by kind. */
function starter(store: StoreUnderTest, runs: RunKind) {
  return {
    id: (name: string) => `${runs.kind} ${name}`,
    start: (name: string, input: string, parts: Parameters<typeof debounced>[2] = {}) =>
      runs.start(store.provider, `${runs.kind} ${name}`, debounced('key', input, parts)),
  };
}

export const debounces: Capability = {
  title: 'debounced starts',
  cases: [
    {
      id: 'debounce/moves-a-run-that-has-not-started',
      title: 'a start with the key of a run that has not started moves it, with the new input',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          assert.equal((await start('a', 'first', { tags: { t: '1' } })).kind, 'created');
          const { createdAt } = await store.record(id('a'));
          await store.clock.advance(600);
          const moved = await start('b', 'second', { tags: { u: '2' } });
          assert.deepEqual(moved, { kind: 'active', instanceId: id('a') });
          await store.clock.advance(999);
          assert.deepEqual(await runs.claim(store), []);
          const record = await store.record(id('a'));
          assert.deepEqual([record.createdAt, record.tags], [createdAt, { u: '2' }]);
          const list = (tags: Record<string, string>) =>
            store.provider.listInstances({ filter: { tags }, limit: 10 });
          assert.equal((await list({ t: '1' })).instances.length, 0);
          assert.equal((await list({ u: '2' })).instances.length, 1);
          await store.clock.advance(1);
          const run = await claimOnly(store, runs);
          assert.deepEqual([run.id, run.input], [id('a'), 'second']);
          await run.complete();
          const [known] = await store.provider.getInstances([id('b')]);
          assert.equal(known, undefined);
          await forceDelete(store, id('a'));
        }),
    },
    {
      id: 'debounce/replaces-the-options-of-a-task',
      title: 'a moved task run has the priority, options, expiry and handler of the newest start',
      async run(store) {
        const start = (id: string, requestKey: string, parts: object) =>
          createTask(store, id, { debounce: { key: 'key', requestKey }, delayMs: 1_000, ...parts });
        const onFail = { options: '"handler"' };
        await start('a', '1', { priority: 1, expiresInMs: 500, onFail });
        await store.clock.advance(500);
        await start('b', '2', { priority: 7, expiresInMs: 2_000, options: '{"headers":{}}' });
        // The first expiry would be now.
        await store.clock.advance(1_000);
        const { task } = await store.record('a');
        const now = store.clock.now();
        assert.deepEqual([task?.priority, task?.runAt, task?.expiresAt], [7, now, now + 2_000]);
        const item = await store.claimWorkOne();
        assert.equal(item.options, '{"headers":{}}');
        expectCommitted(await store.ackWork(item.lockToken, { kind: 'failed', failure }));
        assert.deepEqual(await store.claimWork(), []);
        // Without an expiry, the first one is gone.
        await start('c', '3', { expiresInMs: 10 });
        await start('d', '4', {});
        await store.clock.advance(1_500);
        assert.equal((await store.claimWorkOne()).instanceId, 'c');
      },
    },
    {
      id: 'debounce/stops-at-its-max-wait',
      title: 'a run begins at most `maxWaitMs` of the newest start after its first start',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { start } = starter(store, runs);
          await start('a', '0', { maxWaitMs: 9_000 });
          for (let count = 1; count <= 4; count += 1) {
            await store.clock.advance(600);
            assert.deepEqual(await runs.claim(store), []);
            await start('b', `${count}`, { maxWaitMs: 2_500 });
          }
          await store.clock.advance(99);
          assert.deepEqual(await runs.claim(store), []);
          await store.clock.advance(1);
          const run = await claimOnly(store, runs);
          assert.equal(run.input, '4');
          await run.complete();
        }),
    },
    {
      id: 'debounce/a-started-run-stays',
      title: 'a start with the key of a run that has started or ended creates another run',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          await start('a', 'first');
          await store.clock.advance(1_000);
          const first = await claimOnly(store, runs);
          assert.equal((await start('b', 'second')).kind, 'created');
          await start('c', 'third');
          await first.complete();
          await store.clock.advance(1_000);
          const second = await claimOnly(store, runs);
          assert.deepEqual([first.input, second.id, second.input], ['first', id('b'), 'third']);
          // A worker that dies has started it, too.
          await store.clock.advance(lockMs);
          assert.equal((await start('d', 'fourth')).kind, 'created');
          await forceDelete(store, id('b'));
          await store.cancel(id('d'));
          assert.equal((await start('e', 'fifth')).kind, 'created');
          await forceDelete(store, id('e'));
          assert.equal((await start('f', 'sixth')).kind, 'created');
          await forceDelete(store, id('f'));
        }),
    },
    {
      id: 'debounce/a-retried-run-stays',
      title: 'a start with the key of a run that was retried creates another run',
      async run(store) {
        const start = (id: string, requestKey: string) =>
          createTask(store, id, { debounce: { key: 'key', requestKey }, delayMs: 1_000 });
        await start('a', '1');
        await store.clock.advance(1_000);
        await store.ackWork((await store.claimWorkOne()).lockToken, { kind: 'failed', failure });
        const { incarnation, executionId } = await store.record('a');
        const source = { instanceId: 'a', incarnation, executionId, historyLength: 0 };
        await store.provider.retryInstances([{ source, version: null }]);
        assert.equal((await start('b', '2')).kind, 'created');
        assert.equal((await store.claimWorkOne()).instanceId, 'a');
      },
    },
    {
      id: 'debounce/a-repeated-request-changes-nothing',
      title: 'a repeated request key returns the run, pending or started, and changes nothing',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          await start('a', 'first');
          const repeated = debounced('key', 'second');
          const repeat = () => runs.start(store.provider, id('b'), repeated);
          const active = { kind: 'active', instanceId: id('a') };
          assert.deepEqual(await repeat(), active);
          await store.clock.advance(500);
          assert.deepEqual(await store.expectNoChange(repeat), active);
          await store.clock.advance(500);
          const run = await claimOnly(store, runs);
          assert.equal(run.input, 'second');
          assert.deepEqual(await store.expectNoChange(repeat), active);
          await run.complete();
          assert.deepEqual(await store.expectNoChange(repeat), active);
        }),
    },
    {
      id: 'debounce/belongs-to-its-name',
      title: 'a debounce key belongs to one name and one kind, and is no dedupe key',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          await start('a', 'first');
          assert.equal((await start('b', 'second', { name: 'other' })).kind, 'created');
          const another = debounced('key ', 'third');
          assert.equal((await runs.start(store.provider, id('c'), another)).kind, 'created');
          const dedupe = { dedupeKey: 'key', dedupeMs: 1_000 };
          assert.equal((await runs.start(store.provider, id('d'), dedupe)).kind, 'created');
        }),
    },
    {
      id: 'debounce/holds-events-back',
      title: 'events of a moved instance come after its start',
      async run(store) {
        await forBothKinds(async (runs) => {
          if (runs.kind === 'task') return;
          const { id, start } = starter(store, runs);
          await start('a', 'first');
          await store.raise(id('a'), 'one');
          await store.clock.advance(500);
          await start('b', 'second');
          await store.raise(id('a'), 'two');
          await store.clock.advance(999);
          assert.deepEqual(await store.claim(), []);
          await store.clock.advance(1);
          assert.deepEqual(labels(await store.claimOne()), ['start', 'one', 'two']);
        });
      },
    },
    {
      id: 'debounce/replaces-the-timeout',
      title: 'the timeout of a moved run is that of the newest start, from its new time',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          const apply = () => store.provider.applyTimeouts({ limit: 10, cleanupMs: 0 });
          await start('a', 'first', { timeoutMs: 100 });
          await store.clock.advance(900);
          await start('b', 'second', { timeoutMs: 300 });
          await store.clock.advance(1_299);
          assert.equal((await apply()).canceled, 0);
          await store.clock.advance(1);
          assert.equal((await apply()).canceled, 1);
          await start('c', 'third', { timeoutMs: 100 });
          await start('d', 'fourth');
          await store.clock.advance(5_000);
          assert.equal((await apply()).canceled, 0);
          await forceDelete(store, id('c'));
        }),
    },
    {
      id: 'debounce/keeps-a-pause',
      title: 'a paused run is moved and stays paused',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          await start('a', 'first');
          const pause = { reason: null, actor: null, tree: false };
          await store.provider.pauseInstances([{ instanceId: id('a'), ...pause }]);
          assert.equal((await start('b', 'second')).kind, 'active');
          await store.clock.advance(1_000);
          assert.deepEqual(await runs.claim(store), []);
          await store.provider.resumeInstances([{ instanceId: id('a'), tree: false }]);
          const run = await claimOnly(store, runs);
          assert.equal(run.input, 'second');
          await run.complete();
        }),
    },
    {
      id: 'inspect/shows-a-debounced-run',
      title: 'inspectTurn() returns when a debounced run starts and how often it was moved',
      run: (store) =>
        forBothKinds(async (runs) => {
          const { id, start } = starter(store, runs);
          const debounce = async () => (await store.provider.inspectTurn(id('a')))?.debounce;
          await start('a', 'first');
          const startsAt = store.clock.now() + 1_000;
          assert.deepEqual(await debounce(), { key: 'key', startsAt, moves: 0 });
          await store.clock.advance(500);
          await start('b', 'second');
          await start('c', 'third');
          const movedTo = startsAt + 500;
          assert.deepEqual(await debounce(), { key: 'key', startsAt: movedTo, moves: 2 });
          assert.equal((await store.record(id('a'))).runAt, movedTo);
          const listed = await store.provider.inspectInstances({
            instanceIds: [id('a')],
            maxPending: 1,
            maxEvents: 1,
          });
          assert.equal(listed[0]?.turn.debounce?.moves, 2);
          await store.clock.advance(1_000);
          const run = await claimOnly(store, runs);
          assert.equal(await debounce(), null);
          await run.complete();
          assert.equal(await debounce(), null);
        }),
    },
    {
      id: 'shared/one-debounce-key-has-one-run',
      title:
        'concurrent starts of two processes with one key have one run with one of their inputs',
      async run(store) {
        const other = await store.reopen();
        await forBothKinds(async (runs) => {
          for (let round = 0; round < 4; round += 1) {
            const inputs = Array.from({ length: 10 }, (_, index) => `${round} ${index}`);
            const results = await Promise.all(
              inputs.map((input, index) =>
                runs.start(
                  index % 2 === 0 ? store.provider : other,
                  `${runs.kind} ${input}`,
                  debounced('key', input),
                ),
              ),
            );
            assert.equal(results.filter(({ kind }) => kind === 'created').length, 1);
            assert.equal(results.filter(({ kind }) => kind === 'active').length, 9);
            await runs.start(other, `${runs.kind} last`, debounced('key', 'last'));
            await store.clock.advance(1_000);
            const run = await claimOnly(store, runs);
            assert.equal(run.input, 'last');
            await run.complete();
          }
        });
      },
    },
    {
      id: 'debounce/a-batch-is-in-order',
      title: 'the last of several starts of one call with one key wins',
      async run(store) {
        const requests = ['1', '2', '3'].map((input) => debounced('key', input));
        await forBothKinds(async (runs) => {
          // Sent together, so that a store may batch them.
          const results = await Promise.all(
            requests.map((parts, index) =>
              runs.start(store.provider, `${runs.kind} ${index}`, parts),
            ),
          );
          assert.deepEqual(
            results.map(({ kind }) => kind),
            ['created', 'active', 'active'],
          );
          await store.clock.advance(1_000);
          const run = await claimOnly(store, runs);
          assert.equal(run.input, '3');
          await run.complete();
        });
      },
    },
    {
      id: 'shared/a-claim-and-a-move-exclude-each-other',
      title: 'a start that races with the claim of its run moves it or creates another run',
      async run(store) {
        const other = await store.reopen();
        await forBothKinds(async (runs) => {
          for (let round = 0; round < 12; round += 1) {
            const key = `${runs.kind} ${round}`;
            await runs.start(store.provider, `${key} a`, debounced(key, 'old'));
            await store.clock.advance(1_000);
            const parts = debounced(key, 'new');
            const [claimed, result] = await Promise.all([
              runs.claim(store, other),
              runs.start(store.provider, `${key} b`, parts),
            ]);
            const [run] = claimed;
            // Claimed with the old input: the new one has a run of its own. Moved: no worker has the old one.
            assert.equal(result.kind, run === undefined ? 'active' : 'created');
            if (run !== undefined) {
              assert.equal(run.input, 'old');
              await run.complete();
            }
            await store.clock.advance(1_000);
            const last = await claimOnly(store, runs);
            assert.equal(last.input, 'new');
            await last.complete();
          }
        });
      },
    },
  ],
};
