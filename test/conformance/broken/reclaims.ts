import type { BrokenProvider } from './broken-provider.ts';

export const brokenReclaims: readonly BrokenProvider[] = [
  {
    fault: 'the history of a deleted instance can be read by its key',
    rejectedBy: 'reclaim/what-is-hidden-is-gone',
    override: ({ db }) => {
      const read = db.prepare<[number], never>(
        'SELECT kind, at, data, payload FROM history WHERE instance_key = ? ORDER BY event_id',
      );
      return { readHistory: async (ranges) => ranges.map((range) => read.all(range.instanceKey)) };
    },
  },
  {
    fault: 'a reclaim ignores its limit',
    rejectedBy: 'reclaim/goes-on-in-steps',
    override: ({ provider }) => ({
      reclaimDeleted: (maxRows) => provider.reclaimDeleted(maxRows * 1_000_000),
    }),
  },
  {
    fault: 'a reclaim returns left: false while rows are left',
    rejectedBy: 'reclaim/goes-on-in-steps',
    override: ({ provider }) => ({
      reclaimDeleted: async (maxRows) => ({
        ...(await provider.reclaimDeleted(maxRows)),
        left: false,
      }),
    }),
  },
  {
    fault: 'a reclaim deletes events of existing instances',
    rejectedBy: 'reclaim/goes-on-in-steps',
    override: ({ provider, db }) => ({
      reclaimDeleted(maxRows) {
        db.exec('DELETE FROM history WHERE event_id = 2');
        return provider.reclaimDeleted(maxRows);
      },
    }),
  },
  {
    fault: 'the reclaim of an execution deletes the whole history of its instance',
    rejectedBy: 'reclaim/spares-what-was-kept',
    override: ({ provider, db }) => ({
      reclaimDeleted(maxRows) {
        db.exec('UPDATE OR IGNORE pending_reclaims SET execution_id = 0, events = 100000');
        return provider.reclaimDeleted(maxRows);
      },
    }),
  },
];
