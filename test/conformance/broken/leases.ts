import type { BrokenProvider } from './broken-provider.ts';

export const brokenLeases: readonly BrokenProvider[] = [
  {
    fault: 'a lease is granted to every caller',
    rejectedBy: 'lease/has-one-owner',
    override: ({ provider }) => ({
      async takeLease(lease) {
        await provider.takeLease(lease);
        return true;
      },
    }),
  },
  {
    fault: 'a repeated takeLease() of the owner does not extend the lease',
    rejectedBy: 'lease/has-one-owner',
    override: ({ provider, db }) => {
      const isOwn = db.prepare('SELECT 1 FROM leases WHERE name = ? AND owner = ?');
      return {
        takeLease: async (lease) =>
          isOwn.get(lease.name, lease.owner) !== undefined || provider.takeLease(lease),
      };
    },
  },
  {
    fault: 'a lease never expires',
    rejectedBy: 'lease/goes-on-when-it-has-expired',
    override: ({ provider }) => ({
      takeLease: (lease) => provider.takeLease({ ...lease, leaseMs: 1e12 }),
    }),
  },
  {
    fault: 'a lease can be released by any caller',
    rejectedBy: 'lease/is-given-back-by-its-owner',
    override: ({ provider, db }) => ({
      async releaseLease(lease) {
        db.prepare('DELETE FROM leases WHERE name = ?').run(lease.name);
        await provider.releaseLease(lease);
      },
    }),
  },
  {
    fault: 'a lease cannot be released',
    rejectedBy: 'lease/is-given-back-by-its-owner',
    override: () => ({ releaseLease: () => Promise.resolve() }),
  },
  {
    fault: 'a record keeps its first value',
    rejectedBy: 'record/is-kept-as-it-is',
    override: ({ provider }) => ({
      async writeRecord(name, value) {
        if (value !== null && (await provider.readRecord(name)) !== null) return;
        await provider.writeRecord(name, value);
      },
    }),
  },
  {
    fault: 'a record cannot be deleted',
    rejectedBy: 'record/is-kept-as-it-is',
    override: ({ provider }) => ({
      writeRecord: (name, value) => provider.writeRecord(name, value ?? ''),
    }),
  },
];
