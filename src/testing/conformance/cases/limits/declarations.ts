import assert from 'node:assert/strict';
import { isPerdureError } from '../../../../model/failures/errors.ts';
import type { Limits } from '../../../../providers/contract/limits.ts';
import type { Capability } from '../../conformance-case.ts';
import { auditEntry } from '../../deletion-helpers.ts';
import { only } from '../../expectations.ts';
import {
  claimExactly,
  complete,
  createKeyed,
  createPlain,
  declare,
  limitedTask,
  limitsOf,
  rateOf,
  setLimits,
} from '../../limit-helpers.ts';

const dayMs = 86_400_000;
const invalid: readonly Limits[] = [
  { global: 0 },
  { global: -1 },
  { perKey: 1.5 },
  { perKey: 1e9 },
  { global: Number.NaN },
  { global: 2 ** 53 },
  { rate: rateOf(0, 1_000) },
  { rate: rateOf(-1, 1_000) },
  { rate: rateOf(0.5, 1_000) },
  { rate: rateOf(1e9, 1_000) },
  { rate: rateOf(1, 0) },
  { rate: rateOf(1, 0.5) },
  { rate: rateOf(1, 32 * dayMs) },
  { rate: rateOf(1, 1_000, { burst: -1 }) },
  { rate: rateOf(1, 1_000, { burst: 0.5 }) },
  { rate: rateOf(1, 1_000, { burst: 1e9 }) },
  { rate: rateOf(1, 31 * dayMs, { burst: 100 }) },
];

/** The largest figures that are valid. */
const largest: readonly Limits[] = [
  { global: 1_000_000, perKey: 1_000_000 },
  { rate: rateOf(1_000_000, 1_000, { burst: 1_000_000 }) },
  { rate: rateOf(1_000_000, 31 * dayMs, { burst: 1_000_000, perKey: true }) },
  { rate: rateOf(1, 31 * dayMs, { burst: 11 }) },
];

export const limitDeclarations: Capability = {
  title: 'declared limits and limits of operators',
  cases: [
    {
      id: 'limit/is-declared-and-listed',
      title: 'declared limits hold and are listed with their state',
      async run(store) {
        const limits = { global: 2, perKey: 1, rate: rateOf(7, 333, { burst: 3 }) };
        assert.deepEqual(await declare(store, limits), {
          ...limitedTask,
          effective: limits,
          declaredBy: 'build',
          contradictions: [],
        });
        await createPlain(store, 3);
        await claimExactly(store, 1);
        const state = { running: 1, waiting: 2, nextTokenAt: null };
        const expected = { declared: limits, declaredBy: 'build', override: null };
        assert.deepEqual(await limitsOf(store), {
          ...limitedTask,
          ...expected,
          effective: limits,
          ...state,
        });
      },
    },
    {
      id: 'limit/are-listed-in-order',
      title: 'limits are listed by kind and name, in pages',
      async run({ provider }) {
        const names = [
          ['activity', 'a'],
          ['orchestration', 'a'],
          ['task', 'A'],
          ['task', 'a'],
          ['task', 'ä'],
        ] as const;
        const definitions = names
          .toReversed()
          .map(([kind, name]) => ({ kind, name, limits: { global: 1 } }));
        await provider.declareLimits({ buildId: 'build', definitions });
        const seen = [];
        let after;
        for (;;) {
          const page = await provider.listLimits({ limit: 2, ...(after && { after }) });
          seen.push(...page.records.map(({ kind, name }) => [kind, name]));
          after = page.records.at(-1);
          if (!page.more) break;
        }
        assert.deepEqual(seen, names);
        const none = await provider.listLimits({ limit: 2, only: { kind: 'task', name: 'none' } });
        assert.deepEqual(none, { records: [], more: false });
      },
    },
    {
      id: 'limit/the-newest-build-wins',
      title: 'the build that first declared last wins, and the others are contradictions',
      async run(store) {
        await declare(store, { global: 1 }, 'one');
        await store.clock.advance(1);
        const two = await declare(store, { global: 2 }, 'two');
        assert.deepEqual([two.effective, two.declaredBy], [{ global: 2 }, 'two']);
        assert.deepEqual(two.contradictions, [{ buildId: 'one', limits: { global: 1 } }]);
        await store.clock.advance(1);
        const again = await declare(store, { global: 1 }, 'one');
        assert.deepEqual([again.effective, again.declaredBy], [{ global: 2 }, 'two']);
        assert.deepEqual(again.contradictions, [{ buildId: 'one', limits: { global: 1 } }]);
        const replaced = await declare(store, { global: 3 }, 'two');
        assert.deepEqual(replaced.effective, { global: 3 });
        assert.deepEqual((await declare(store, { global: 3 }, 'one')).contradictions, []);
      },
    },
    {
      id: 'limit/a-much-older-build-does-not-win-back',
      title: 'a build that declares its limits again after 20 newer builds does not win',
      async run(store) {
        await declare(store, { global: 1 }, 'old');
        for (let build = 1; build <= 20; build += 1) {
          await declare(store, { global: 2 }, `build ${build}`);
        }
        const again = await declare(store, { global: 1 }, 'old');
        assert.deepEqual([again.effective, again.declaredBy], [{ global: 2 }, 'build 20']);
        assert.deepEqual(again.contradictions, [{ buildId: 'old', limits: { global: 1 } }]);
      },
    },
    {
      id: 'limit/a-newer-build-can-remove-it',
      title: 'a newer build without limits removes those of the code',
      async run(store) {
        await declare(store, { global: 1 }, 'one');
        assert.deepEqual((await declare(store, {}, 'two')).effective, {});
        await createPlain(store, 3);
        await claimExactly(store, 3);
      },
    },
    {
      id: 'limit/a-declaration-without-limits-stores-nothing',
      title: 'a definition that never had limits is not listed after it was declared without',
      async run(store) {
        assert.deepEqual((await declare(store, {})).effective, {});
        assert.equal(await limitsOf(store), undefined);
      },
    },
    {
      id: 'limit/bad-figures-are-rejected',
      title: 'figures out of range are rejected, and change nothing',
      async run(store) {
        await declare(store, { global: 2 });
        const isInvalid = (error: unknown) => isPerdureError(error, 'INVALID_OPTION');
        for (const limits of invalid) {
          await assert.rejects(declare(store, limits), isInvalid);
          await assert.rejects(setLimits(store, limits), isInvalid);
        }
        assert.deepEqual((await limitsOf(store))?.effective, { global: 2 });
      },
    },
    {
      id: 'limit/the-largest-figures-hold',
      title: 'the largest figures are stored, listed and admit runs',
      async run(store) {
        for (const [index, limits] of largest.entries()) {
          await setLimits(store, { global: null, perKey: null, rate: null, ...limits });
          assert.deepEqual((await limitsOf(store))?.effective, limits);
          await createKeyed(store, `key${index}-`, 3);
          await complete(store, await claimExactly(store, 3));
          await store.clock.advance(1);
        }
        // The rate of 31 days has used 3 of its 12 tokens.
        await createKeyed(store, 'last', 20);
        await complete(store, await claimExactly(store, 9));
        await store.clock.advance(31 * dayMs - 2);
        await claimExactly(store, 0);
        await store.clock.advance(1);
        await claimExactly(store, 1);
      },
    },
    {
      id: 'limit/an-operator-sets-single-figures',
      title: 'an operator replaces or removes single figures, and a reset restores the code',
      async run(store) {
        await declare(store, { global: 5, perKey: 2 });
        const set = await setLimits(store, { global: 1 });
        assert.deepEqual([set.effective, set.override], [{ global: 1, perKey: 2 }, { global: 1 }]);
        const removed = await setLimits(store, { perKey: null });
        assert.deepEqual(removed.effective, { global: 1 });
        assert.deepEqual(removed.override, { global: 1, perKey: null });
        assert.deepEqual((await declare(store, { global: 9 }, 'newer')).effective, { global: 1 });
        const reset = await setLimits(store, null);
        assert.deepEqual([reset.effective, reset.override], [{ global: 9 }, null]);
      },
    },
    {
      id: 'limit/an-operator-can-limit-anything',
      title: 'an operator can limit a definition that no worker has declared',
      async run(store) {
        await createPlain(store, 3);
        const { declaredBy, effective } = await setLimits(store, { global: 1 });
        assert.deepEqual([declaredBy, effective], [null, { global: 1 }]);
        await claimExactly(store, 1);
      },
    },
    {
      id: 'limit/a-change-is-audited',
      title: 'a change of an operator is recorded once, and a repeat is not',
      async run(store) {
        const { provider } = store;
        const request = { ...limitedTask, override: { global: 1 } };
        await provider.setLimits({ ...request, audit: auditEntry({ auditId: 'one' }) });
        await provider.setLimits({ ...request, audit: auditEntry({ auditId: 'two' }) });
        const records = await provider.listAudit({ limit: 10 });
        assert.equal(only(records, 'record').auditId, 'one');
      },
    },
  ],
};
