import { aroundTurns, type BrokenProvider } from './broken-provider.ts';

export const brokenClaims: readonly BrokenProvider[] = [
  {
    fault: 'claims of an instance are not counted',
    rejectedBy: 'claims/count-from-one',
    override: ({ provider, db }) => ({
      async fetchOrchestrationItems(params) {
        const items = await provider.fetchOrchestrationItems(params);
        db.prepare('UPDATE instance_locks SET claims = 0').run();
        return items.map((item) => ({ ...item, claims: 1 }));
      },
    }),
  },
  {
    fault: 'a suspect instance shares its claim with others',
    rejectedBy: 'claims/the-third-comes-alone',
    override: ({ provider, db }) => ({
      fetchOrchestrationItems(params) {
        db.prepare('UPDATE instance_locks SET claims = min(claims, 1)').run();
        return provider.fetchOrchestrationItems(params);
      },
    }),
  },
  {
    fault: 'a suspect instance is claimed before the others',
    rejectedBy: 'claims/the-third-comes-alone',
    override: ({ provider, db, clock }) => ({
      fetchOrchestrationItems(params) {
        const suspect = db
          .prepare(`SELECT 1 FROM instance_locks WHERE claims > 1 AND next_at <= ?`)
          .get(clock.now());
        if (suspect === undefined) return provider.fetchOrchestrationItems(params);
        db.prepare('UPDATE instance_locks SET claims = 0 WHERE claims > 1').run();
        return provider.fetchOrchestrationItems({ ...params, max: 1 });
      },
    }),
  },
  {
    fault: 'a claim that is given back still counts',
    rejectedBy: 'claims/an-abandoned-claim-counts-unless-given-back',
    override: ({ provider }) => ({
      abandonOrchestrationItems: (abandons) =>
        provider.abandonOrchestrationItems(
          abandons.map((abandon) => ({ ...abandon, giveBackClaim: false })),
        ),
    }),
  },
  {
    fault: 'every abandoned claim is given back, even without giveBackClaim',
    rejectedBy: 'claims/an-abandoned-claim-counts-unless-given-back',
    override: ({ provider }) => ({
      abandonOrchestrationItems: (abandons) =>
        provider.abandonOrchestrationItems(
          abandons.map((abandon) => ({ ...abandon, giveBackClaim: true })),
        ),
    }),
  },
  {
    fault: 'a committed turn does not reset the claim count',
    rejectedBy: 'claims/are-reset-by-a-turn-that-leaves-messages',
    override: (intact) =>
      aroundTurns(intact, (instanceKey) => {
        const { db } = intact;
        const read = db.prepare('SELECT claims FROM instance_locks WHERE instance_key = ?').pluck();
        const claims = read.get(instanceKey);
        const write = db.prepare('UPDATE instance_locks SET claims = ? WHERE instance_key = ?');
        return () => void write.run(claims, instanceKey);
      }),
  },
  {
    fault: 'a suspect work item shares its claim with others',
    rejectedBy: 'claims/the-third-of-work-comes-alone',
    override: ({ provider, db }) => ({
      fetchWorkItems(params) {
        db.prepare('UPDATE worker_queue SET claims = min(claims, 1)').run();
        return provider.fetchWorkItems(params);
      },
    }),
  },
  {
    fault: 'claims of a work item are not counted',
    rejectedBy: 'claims/of-work-count-from-one',
    override: ({ provider, db }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        db.prepare('UPDATE worker_queue SET claims = 0').run();
        return items.map((item) => ({ ...item, claims: 1 }));
      },
    }),
  },
  {
    fault: 'a claim at insert is not counted',
    rejectedBy: 'claim-at-insert/holds-for-its-lease',
    override: (intact) =>
      aroundTurns(intact, () => () => {
        intact.db.prepare('UPDATE worker_queue SET claims = 0').run();
      }),
  },
  {
    fault: 'blocking an instance counts as a claim',
    rejectedBy: 'blocked/counts-no-claim',
    override: ({ provider }) => ({
      abandonOrchestrationItems: (abandons) =>
        provider.abandonOrchestrationItems(
          abandons.map((abandon) => ({
            ...abandon,
            giveBackClaim: abandon.giveBackClaim && abandon.blocked === undefined,
          })),
        ),
    }),
  },
];
