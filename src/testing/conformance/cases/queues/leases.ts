import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';

const leaseMs = 1_000;
const lease = { name: 'sweeper', owner: 'one', leaseMs };
const others = { ...lease, owner: 'two' };

export const leases: Capability = {
  title: 'named leases and records',
  cases: [
    {
      id: 'lease/has-one-owner',
      title: 'takeLease() extends a held lease for its owner and returns false for others',
      async run({ provider, clock }) {
        assert.equal(await provider.takeLease(lease), true);
        assert.equal(await provider.takeLease(others), false);
        await clock.advance(leaseMs - 1);
        assert.equal(await provider.takeLease(lease), true);
        await clock.advance(leaseMs - 1);
        assert.equal(await provider.takeLease(others), false);
        const taken = await Promise.all([
          provider.takeLease({ ...lease, name: 'other' }),
          provider.takeLease({ ...others, name: 'other' }),
        ]);
        assert.deepEqual(taken.toSorted(), [false, true]);
      },
    },
    {
      id: 'lease/goes-on-when-it-has-expired',
      title: 'takeLease() grants an expired lease to another owner',
      async run({ provider, clock }) {
        await provider.takeLease(lease);
        await clock.advance(leaseMs);
        assert.equal(await provider.takeLease(others), true);
        assert.equal(await provider.takeLease(lease), false);
      },
    },
    {
      id: 'lease/is-given-back-by-its-owner',
      title: 'releaseLease() frees a lease only for its owner',
      async run({ provider }) {
        await provider.takeLease(lease);
        await provider.releaseLease(others);
        assert.equal(await provider.takeLease(others), false);
        await provider.releaseLease(lease);
        assert.equal(await provider.takeLease(others), true);
        await provider.releaseLease({ name: 'never taken', owner: 'one' });
      },
    },
    {
      id: 'record/is-kept-as-it-is',
      title: 'readRecord() returns the last written value, and null if unset or deleted',
      async run({ provider }) {
        assert.equal(await provider.readRecord('a'), null);
        await provider.writeRecord('a', '{"x":1}');
        await provider.writeRecord("b'; --", '');
        await provider.writeRecord('a', 'später \u{1f4be}');
        assert.equal(await provider.readRecord('a'), 'später \u{1f4be}');
        assert.equal(await provider.readRecord("b'; --"), '');
        await provider.writeRecord('a', null);
        await provider.writeRecord('a', null);
        assert.equal(await provider.readRecord('a'), null);
        assert.equal(await provider.readRecord("b'; --"), '');
      },
    },
    {
      id: 'shared/a-lease-excludes-other-processes',
      title: 'leases and records are shared between processes',
      async run(store) {
        const other = await store.reopen();
        assert.equal(await store.provider.takeLease(lease), true);
        assert.equal(await other.takeLease(others), false);
        await store.provider.writeRecord('a', 'x');
        assert.equal(await other.readRecord('a'), 'x');
        await store.provider.close();
        await store.clock.advance(leaseMs);
        assert.equal(await other.takeLease(others), true);
      },
    },
  ],
};
