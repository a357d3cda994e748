import type { BrokenProvider } from './broken-provider.ts';

export const brokenUnclaimedWork: readonly BrokenProvider[] = [
  {
    fault: 'versions that the worker does not have are not listed',
    rejectedBy: 'unclaimed/lists-what-the-worker-cannot-run',
    override: ({ provider }) => ({
      async findUnclaimedWork(params) {
        const known = new Set(params.runnable.map(({ name }) => name));
        const work = await provider.findUnclaimedWork(params);
        return work.filter(({ kind, name }) => kind !== 'orchestration' || !known.has(name));
      },
    }),
  },
  {
    fault: 'activities and tasks of one name are confused',
    rejectedBy: 'unclaimed/lists-what-the-worker-cannot-run',
    override: ({ provider }) => ({
      findUnclaimedWork(params) {
        const { activities, tasks } = params;
        const both = [...activities, ...tasks];
        return provider.findUnclaimedWork({ ...params, activities: both, tasks: both });
      },
    }),
  },
  {
    fault: 'findUnclaimedWork() ignores minWaitMs',
    rejectedBy: 'unclaimed/work-must-have-waited',
    override: ({ provider }) => ({
      findUnclaimedWork: (params) => provider.findUnclaimedWork({ ...params, minWaitMs: 0 }),
    }),
  },
  {
    fault: 'expired runs are listed',
    rejectedBy: 'unclaimed/only-what-may-be-claimed-counts',
    override: ({ provider, db }) => ({
      findUnclaimedWork(params) {
        db.exec('UPDATE worker_queue SET expires_at = NULL');
        return provider.findUnclaimedWork(params);
      },
    }),
  },
  {
    fault: 'flagged work is listed',
    rejectedBy: 'unclaimed/only-what-may-be-claimed-counts',
    override: ({ provider, db }) => ({
      findUnclaimedWork(params) {
        db.exec('UPDATE worker_queue SET cancel_requested = 0');
        return provider.findUnclaimedWork(params);
      },
    }),
  },
  {
    fault: 'definitions with live claims are listed',
    rejectedBy: 'unclaimed/a-live-claim-shows-that-a-worker-has-the-code',
    override: ({ provider, db }) => ({
      findUnclaimedWork(params) {
        db.exec('UPDATE worker_queue SET lock_token = NULL, locked_until = NULL');
        return provider.findUnclaimedWork(params);
      },
    }),
  },
  {
    fault: 'an expired claim counts as held',
    rejectedBy: 'unclaimed/a-lapsed-claim-counts-from-its-end',
    override: ({ provider, db }) => ({
      findUnclaimedWork(params) {
        db.exec(`UPDATE worker_queue SET next_at = next_at + 3600000 WHERE lock_token IS NOT NULL`);
        return provider.findUnclaimedWork(params);
      },
    }),
  },
  {
    fault: 'definitions are listed by name',
    rejectedBy: 'unclaimed/the-longest-waiting-is-first',
    override: ({ provider }) => ({
      async findUnclaimedWork(params) {
        const work = await provider.findUnclaimedWork({ ...params, limit: 1_000 });
        return work.toSorted((a, b) => b.name.localeCompare(a.name)).slice(0, params.limit);
      },
    }),
  },
];
