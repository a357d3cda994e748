import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { forceDelete } from '../../deletion-helpers.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import {
  claimExactly,
  complete,
  countByKey,
  createKeyed,
  createPlain,
  declare,
  keyed,
  lanesOf,
  limitedTask,
  limitsOf,
  rateOf,
  runningOf,
  setLimits,
} from '../../limit-helpers.ts';
import { createTask, createTasks, failure, idsOf } from '../../task-helpers.ts';
import { expectPending, withTimeLimit } from '../../time-limit.ts';

const waitMs = 600_000;

export const limitLanes: Capability = {
  title: 'keys and rates of limited definitions',
  cases: [
    {
      id: 'lane/a-new-key-comes-next',
      title: 'the first run of a key is claimed next, however many of another key wait',
      async run(store) {
        await createKeyed(store, 'a', 200);
        await claimExactly(store, 50, 50);
        await createKeyed(store, 'b', 1);
        assert.ok(idsOf(await store.claimWork({ max: 2 })).includes('b1'));
      },
    },
    {
      id: 'lane/keys-share-by-weight',
      title: 'keys are served in proportion to their weights, in one fetch and over many',
      async run(store) {
        for (const [key, weight] of [
          ['a', 3],
          ['b', 1],
          ['c', 1],
        ] as const) {
          await createKeyed(store, key, 120, { lane: { key, weight } });
        }
        assert.deepEqual(countByKey(await store.claimWork({ max: 50 })), { a: 30, b: 10, c: 10 });
        const items = [];
        for (let round = 0; round < 50; round += 1) {
          items.push(...(await store.claimWork({ max: 1 })));
        }
        const counts = countByKey(items);
        for (const [key, expected] of [
          ['a', 30],
          ['b', 10],
          ['c', 10],
        ] as const) {
          assert.ok(Math.abs((counts[key] ?? 0) - expected) <= 2, `${key}: ${counts[key]}`);
        }
      },
    },
    {
      id: 'lane/the-newest-weight-counts',
      title: 'the weight of the newest run holds for its key',
      async run(store) {
        await createKeyed(store, 'a', 40);
        await createKeyed(store, 'b', 40);
        await createTasks(store, [keyed('b', 41, { lane: { key: 'b', weight: 4 } })]);
        assert.deepEqual(countByKey(await store.claimWork({ max: 20 })), { a: 4, b: 16 });
      },
    },
    {
      id: 'lane/priority-counts-within-a-key',
      title: 'within a key the highest priority is first, then the longest due',
      async run(store) {
        for (const [number, priority] of [
          [1, 0],
          [2, -5],
          [3, 7],
          [4, 7],
        ] as const) {
          await createTasks(store, [keyed('a', number, { priority })]);
          await store.clock.advance(1);
        }
        await createTasks(store, [keyed('a', 5, { priority: 100, delayMs: 5_000 })]);
        const ids = [];
        for (let round = 0; round < 4; round += 1)
          ids.push(...idsOf(await store.claimWork({ max: 1 })));
        assert.deepEqual(ids, ['a3', 'a4', 'a1', 'a2']);
        await claimExactly(store, 0);
      },
    },
    {
      id: 'lane/a-delayed-run-comes-in-time',
      title: 'a waiting fetch resolves when a delayed run or a retry of a key is due',
      async run(store) {
        await declare(store, { perKey: 1 });
        await createKeyed(store, 'a', 1, { delayMs: 5_000 });
        const waiting = store.claimWork({ waitMs });
        await expectPending(waiting, 'the fetch');
        await store.clock.advance(5_000);
        const { lockToken } = only(await withTimeLimit(waiting, 'after the delay'), 'item');
        await store.provider.retryWorkItems([{ lockToken, delayMs: 3_000, failure }]);
        const again = store.claimWork({ waitMs });
        await expectPending(again, 'the fetch');
        await store.clock.advance(3_000);
        assert.deepEqual(idsOf(await withTimeLimit(again, 'after the retry')), ['a1']);
      },
    },
    {
      id: 'lane/keys-are-only-text',
      title: 'keys with any characters are different lanes',
      async run(store) {
        const keys = ['a', 'A', ' a', "'", '%', 'ä', '\u{1F600}', 'x'.repeat(255)];
        await declare(store, { perKey: 1 });
        for (const [index, key] of keys.entries()) {
          for (const number of [1, 2]) {
            await createTask(store, `run ${index} ${number}`, { lane: { key, weight: 1 } });
          }
        }
        await claimExactly(store, keys.length);
        const lanes = await lanesOf(store);
        assert.deepEqual(new Set(lanes.map(({ key }) => key)), new Set(keys));
      },
    },
    {
      id: 'lane/a-bad-key-is-rejected',
      title: 'a run with an invalid key or weight is rejected, and others are created',
      async run(store) {
        const results = await store.provider.createTasks([
          keyed('a', 1),
          keyed('b', 1, { lane: { key: '', weight: 1 } }),
          keyed('c', 1, { lane: { key: 'x'.repeat(10_000), weight: 1 } }),
          keyed('d', 1, { lane: { key: 'd', weight: 0 } }),
          keyed('e', 1),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'refused', 'refused', 'refused', 'created'],
        );
        await claimExactly(store, 2);
      },
    },
    {
      id: 'lane/is-listed',
      title: 'lanes are listed by key with their numbers and the limit that holds them',
      async run(store) {
        await declare(store, { perKey: 1 });
        await createKeyed(store, 'a', 3, { lane: { key: 'a', weight: 5 } });
        await createKeyed(store, 'b', 1, { delayMs: 7_000 });
        await createPlain(store, 1);
        await claimExactly(store, 2);
        const dueAt = store.clock.now() + 7_000;
        const none = { heldBy: null, nextAt: null };
        assert.deepEqual(await lanesOf(store), [
          { key: '', weight: 1, running: 1, waiting: 0, ...none },
          { key: 'a', weight: 5, running: 1, waiting: 2, heldBy: 'perKey', nextAt: null },
          { key: 'b', weight: 1, running: 0, waiting: 1, heldBy: null, nextAt: dueAt },
        ]);
        const { provider } = store;
        const byKey = { ...limitedTask, limit: 1, order: 'key' } as const;
        const second = await provider.listLanes({ ...byKey, afterKey: '' });
        assert.deepEqual([second.records.map(({ key }) => key), second.more], [['a'], true]);
        const last = await provider.listLanes({ ...byKey, afterKey: 'a' });
        assert.deepEqual([last.records.map(({ key }) => key), last.more], [['b'], false]);
        const most = await provider.listLanes({ ...limitedTask, limit: 2, order: 'waiting' });
        assert.deepEqual([most.records.map(({ key }) => key), most.more], [['a', 'b'], true]);
        assert.deepEqual(
          await provider.listLanes({ kind: 'task', name: 'none', limit: 1, order: 'key' }),
          { records: [], more: false },
        );
      },
    },
    {
      id: 'lane/an-idle-one-is-deleted',
      title: 'a key without items is not listed after a later claim',
      async run(store) {
        for (let key = 0; key < 5; key += 1) await createKeyed(store, `k${key}`, 1);
        await complete(store, await claimExactly(store, 5));
        await createKeyed(store, 'z', 1);
        await claimExactly(store, 1);
        assert.deepEqual(
          (await lanesOf(store)).map(({ key }) => key),
          ['z'],
        );
      },
    },
    {
      id: 'lane/a-removed-one-is-free',
      title: 'a key whose runs are deleted while one is held has a free place for new runs',
      async run(store) {
        await declare(store, { perKey: 1 });
        await createKeyed(store, 'a', 3);
        const [held] = await claimExactly(store, 1);
        assert.ok(held);
        for (const id of ['a1', 'a2', 'a3']) await forceDelete(store, id);
        await claimExactly(store, 0);
        assert.equal(await runningOf(store), 0);
        await createKeyed(store, 'a', 2);
        const again = await claimExactly(store, 1);
        expectLockLost(await store.ackWork(held.lockToken));
        await claimExactly(store, 0);
        assert.deepEqual(
          (await lanesOf(store)).map(({ key, running, waiting }) => [key, running, waiting]),
          [['a', 1, 1]],
        );
        await complete(store, again);
        await claimExactly(store, 1);
      },
    },
    {
      id: 'limit/inspection-shows-what-holds-an-item',
      title: 'the inspection of a queued item shows its key, the limit that holds it, and its rank',
      async run(store) {
        await declare(store, { global: 2, perKey: 1 });
        await createKeyed(store, 'a', 3);
        await createKeyed(store, 'b', 2);
        const inspect = async (instanceId: string) => {
          const details = await store.provider.inspectInstance({ instanceId, maxPending: 1 });
          const { lane, limitHold } = only(details?.pending ?? [], 'pending item');
          return { lane, limitHold };
        };
        assert.deepEqual((await inspect('a2')).limitHold, {
          limit: null,
          max: null,
          running: 0,
          nextAt: null,
          ahead: 1,
        });
        const [first] = await claimExactly(store, 1, 1);
        assert.deepEqual(await inspect('a1'), { lane: 'a', limitHold: null });
        assert.deepEqual(await inspect('a3'), {
          lane: 'a',
          limitHold: { limit: 'perKey', max: 1, running: 1, nextAt: null, ahead: 1 },
        });
        await claimExactly(store, 1);
        await setLimits(store, { perKey: null });
        const held = { limit: 'global', max: 2, running: 2, nextAt: null, ahead: 0 };
        assert.deepEqual(await inspect('b2'), { lane: 'b', limitHold: held });
        await setLimits(store, { global: null, rate: rateOf(1, 10_000) });
        await complete(store, first === undefined ? [] : [first]);
        await claimExactly(store, 1);
        const { limitHold } = await inspect('b2');
        assert.equal(limitHold?.limit, 'rate');
        assert.equal(limitHold.nextAt, store.clock.now() + 10_000);
        const [listed] = await store.provider.inspectInstances({
          instanceIds: ['b2'],
          maxPending: 1,
          maxEvents: 1,
        });
        assert.deepEqual(listed?.pending[0]?.limitHold, limitHold);
      },
    },
    {
      id: 'limit/a-lease-that-expired-before-has-no-place',
      title: 'a run whose lease expired before its definition was limited is claimed in its order',
      async run(store) {
        await createPlain(store, 1);
        await claimExactly(store, 1);
        await store.clock.advance(3_600_000);
        await createTask(store, 'later');
        await declare(store, { global: 2 });
        assert.deepEqual(idsOf(await claimExactly(store, 1, 1)), ['run1']);
        assert.deepEqual(idsOf(await claimExactly(store, 1)), ['later']);
      },
    },
    {
      id: 'limit/queues-count-its-items',
      title: 'queue depths, queues of definitions and unclaimed work include items of lanes',
      async run(store) {
        const { provider, clock } = store;
        await declare(store, { perKey: 1 });
        await createKeyed(store, 'a', 3);
        await createKeyed(store, 'b', 1, { delayMs: 60_000 });
        const nothing = { runnable: [], activities: [], minWaitMs: 10_000, limit: 10 };
        await clock.advance(20_000);
        const unclaimed = await provider.findUnclaimedWork({ ...nothing, tasks: [] });
        assert.deepEqual(
          unclaimed.map(({ kind, name, dueForMs }) => [kind, name, dueForMs]),
          [['task', 'task', 20_000]],
        );
        await claimExactly(store, 1);
        const { tasks } = await provider.queueDepths();
        assert.deepEqual([tasks.ready, tasks.delayed, tasks.claimed], [2, 1, 1]);
      },
    },
    {
      id: 'rate/admits-a-burst-then-one-per-interval',
      title: 'a rate admits its burst and one more, then one per interval',
      async run(store) {
        await declare(store, { rate: rateOf(10, 1_000, { burst: 4 }) });
        await createPlain(store, 30);
        await claimExactly(store, 5);
        await claimExactly(store, 0);
        await store.clock.advance(99);
        await claimExactly(store, 0);
        await store.clock.advance(1);
        await claimExactly(store, 1);
        await store.clock.advance(300);
        await claimExactly(store, 3);
        await store.clock.advance(60_000);
        await claimExactly(store, 5);
        assert.equal((await limitsOf(store))?.nextTokenAt, store.clock.now() + 100);
      },
    },
    {
      id: 'rate/counts-per-key',
      title: 'with perKey each key has its own rate',
      async run(store) {
        await declare(store, { rate: rateOf(1, 1_000, { perKey: true }) });
        await createKeyed(store, 'a', 3);
        await createKeyed(store, 'b', 3);
        assert.deepEqual(countByKey(await store.claimWork()), { a: 1, b: 1 });
        await claimExactly(store, 0);
        const [lane] = await lanesOf(store);
        assert.deepEqual([lane?.heldBy, lane?.nextAt], ['rate', store.clock.now() + 1_000]);
        await store.clock.advance(1_000);
        assert.deepEqual(countByKey(await store.claimWork()), { a: 1, b: 1 });
      },
    },
    {
      id: 'rate/a-key-keeps-its-rate-when-it-is-idle',
      title: 'a key whose items have ended does not get its tokens back',
      async run(store) {
        await declare(store, { rate: rateOf(1, 60_000, { perKey: true }) });
        for (let round = 0; round < 3; round += 1) {
          await createKeyed(store, 'a', 1, { instanceId: `a${round}` });
          await createKeyed(store, `b${round}`, 1);
          await complete(store, await store.claimWork());
        }
        const { records } = await store.provider.listLanes({
          ...limitedTask,
          limit: 10,
          order: 'key',
        });
        assert.equal(records.find(({ key }) => key === 'a')?.waiting, 2);
      },
    },
    {
      id: 'rate/a-retry-takes-a-token',
      title: 'a retry takes a token, and tokens are not given back',
      async run(store) {
        await declare(store, { rate: rateOf(1, 1_000) });
        await createPlain(store, 1);
        const { lockToken } = await store.claimWorkOne();
        await store.provider.retryWorkItems([{ lockToken, delayMs: 0, failure }]);
        await claimExactly(store, 0);
        await store.clock.advance(1_000);
        const again = await store.claimWorkOne();
        expectCommitted(await store.ackWork(again.lockToken));
      },
    },
    {
      id: 'rate/a-raised-rate-counts-from-its-change',
      title: 'after a rate is raised, a waiting run waits at most one interval of the new rate',
      async run(store) {
        for (const perKey of [false, true]) {
          await setLimits(store, { rate: rateOf(1, 600_000, { perKey }) });
          await createKeyed(store, perKey ? 'b' : 'a', 2);
          await complete(store, await claimExactly(store, 1));
          await setLimits(store, { rate: rateOf(1, 1_000, { perKey }) });
          await store.clock.advance(999);
          await claimExactly(store, 0);
          await store.clock.advance(1);
          await complete(store, await claimExactly(store, 1));
          await store.clock.advance(5_000);
        }
      },
    },
    {
      id: 'rate/a-lowered-rate-counts-from-its-change',
      title: 'after a rate is lowered, runs start by the new rate',
      async run(store) {
        for (const perKey of [false, true]) {
          const key = perKey ? 'b' : 'a';
          await setLimits(store, { rate: rateOf(10, 1_000, { burst: 4, perKey }) });
          await createKeyed(store, key, 12);
          await complete(store, await claimExactly(store, 5));
          await setLimits(store, { rate: rateOf(1, 10_000, { perKey }) });
          await store.clock.advance(499);
          await claimExactly(store, 0);
          await store.clock.advance(1);
          await complete(store, await claimExactly(store, 1));
          await store.clock.advance(9_999);
          await claimExactly(store, 0);
          await store.clock.advance(1);
          await complete(store, await claimExactly(store, 1));
          await setLimits(store, { rate: null });
          await complete(store, await claimExactly(store, 5));
          await store.clock.advance(20_000);
        }
      },
    },
    {
      id: 'rate/odd-periods-are-never-exceeded',
      title: 'rates whose interval is no whole number admit at most limit + burst in a period',
      async run(store) {
        for (const [limit, perMs, burst] of [
          [7, 333, 2],
          [3, 100, 0],
          [11, 997, 5],
        ] as const) {
          await setLimits(store, { rate: rateOf(limit, perMs, { burst }) });
          await createKeyed(store, `key${limit}-`, 5 * limit);
          const times: number[] = [];
          // Claims each token at the first time at which it is available.
          while (times.length < 5 * limit) {
            const items = await store.claimWork();
            assert.ok(items.length > 0, 'a token is available at the time that is listed');
            times.push(...items.map(() => store.clock.now()));
            await complete(store, items);
            await store.clock.advanceTo((await limitsOf(store))?.nextTokenAt ?? store.clock.now());
          }
          for (const from of times) {
            const within = times.filter((at) => at >= from && at < from + perMs).length;
            assert.ok(within <= limit + burst, `${within} of ${limit} + ${burst} in ${perMs} ms`);
          }
          const [first = 0, last = 0] = [times[0], times.at(-1)];
          // One interval is rounded up to microseconds, and each claim to milliseconds.
          assert.ok(last - first <= 5 * perMs, `${last - first} ms for five periods`);
          await store.clock.advance(10_000);
        }
      },
    },
    {
      id: 'rate/a-raised-rate-counts-for-idle-keys',
      title: 'a key without runs gets tokens of a raised rate from the change on',
      async run(store) {
        await declare(store, { rate: rateOf(1, 600_000, { perKey: true }) });
        await createKeyed(store, 'a', 1);
        await complete(store, await claimExactly(store, 1));
        await setLimits(store, { rate: rateOf(1, 1_000, { perKey: true }) });
        await store.clock.advance(999);
        await createKeyed(store, 'a', 1, { instanceId: 'a2' });
        await claimExactly(store, 0);
        await store.clock.advance(1);
        await claimExactly(store, 1);
      },
    },
    {
      id: 'rate/a-clock-that-is-set-back-costs-one-interval',
      title: 'after the clock was set back, the next token comes within one interval',
      async run(store) {
        for (const perKey of [false, true]) {
          await setLimits(store, { rate: rateOf(1, 1_000, { perKey }) });
          const key = perKey ? 'b' : 'a';
          await createKeyed(store, key, 1);
          await complete(store, await claimExactly(store, 1));
          await store.clock.setBack('2d');
          await createKeyed(store, key, 1, { instanceId: `${key}2` });
          await claimExactly(store, 0);
          await store.clock.advance(1_000);
          await complete(store, await claimExactly(store, 1));
          await store.clock.advance(5_000);
        }
      },
    },
    {
      id: 'rate/declarations-give-no-tokens-back',
      title: 'declarations that run beside claims give no tokens back',
      async run(store) {
        const limits = { rate: rateOf(10, 1_000) };
        await declare(store, limits);
        await createPlain(store, 100);
        await claimExactly(store, 1);
        const over = new AbortController();
        const declareUntilOver = async () => {
          while (!over.signal.aborted) await declare(store, limits);
        };
        const declaring = Array.from({ length: 3 }, declareUntilOver);
        let claimed = 0;
        for (let round = 0; round < 30; round += 1) {
          await store.clock.advance(100);
          claimed += (await store.claimWork()).length;
        }
        over.abort();
        await Promise.all(declaring);
        claimed += (await store.claimWork()).length;
        assert.equal(claimed, 30);
      },
    },
    {
      id: 'rate/a-token-ends-a-wait',
      title: 'a waiting fetch resolves when the next token is available',
      async run(store) {
        for (const perKey of [false, true]) {
          const key = perKey ? 'b' : 'a';
          await declare(store, { rate: rateOf(1, 1_000, { perKey }) });
          await createKeyed(store, key, 2);
          await complete(store, await claimExactly(store, 1));
          const waiting = store.claimWork({ waitMs });
          await expectPending(waiting, 'the fetch');
          await store.clock.advance(1_000);
          await complete(store, await withTimeLimit(waiting, 'after a token'));
          await store.clock.advance(5_000);
        }
      },
    },
  ],
};
