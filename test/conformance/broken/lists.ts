import type { InstanceConditions } from '../../../src/providers/contract/instances.ts';
import type { BrokenProvider } from './broken-provider.ts';

/** A list that ignores one condition. */
const ignoring = (condition: keyof InstanceConditions, rejectedBy: string): BrokenProvider => ({
  fault: `listInstances() ignores ${condition}`,
  rejectedBy,
  override: ({ provider }) => ({
    listInstances: ({ filter, ...params }) => {
      const { [condition]: _ignored, ...others } = filter;
      return provider.listInstances({ ...params, filter: others });
    },
  }),
});

export const brokenLists: readonly BrokenProvider[] = [
  ignoring('names', 'list/by-several-names'),
  ignoring('rootsOnly', 'list/roots-only'),
  ignoring('endedFrom', 'list/by-end-window'),
  ignoring('endedBefore', 'list/by-end-window'),
  ignoring('failureCode', 'list/by-failure-code'),
  ignoring('failureText', 'list/by-failure-text'),
  ignoring('leaked', 'list/by-leaked'),
  ignoring('paused', 'list/by-paused'),
  ignoring('tags', 'list/by-tags'),
  ignoring('unregistered', 'list/by-unregistered'),
  {
    fault: 'a list by end is in the order of creation',
    rejectedBy: 'list/by-end-order',
    override: ({ provider }) => ({
      listInstances: async ({ orderBy: _orderBy, ...params }) => ({
        ...(await provider.listInstances(params)),
        nextEndedAt: 0,
      }),
    }),
  },
  {
    fault: 'a page by end starts after all instances with the last end',
    rejectedBy: 'list/end-order-pages-have-no-gaps',
    override: ({ provider }) => ({
      listInstances: (params) =>
        provider.listInstances(
          params.beforeEndedAt === undefined ? params : { ...params, beforeKey: 0 },
        ),
    }),
  },
  {
    fault: 'a list by end ignores its filter',
    rejectedBy: 'list/end-order-combines',
    override: ({ provider }) => ({
      listInstances: (params) =>
        provider.listInstances(params.orderBy === 'ended' ? { ...params, filter: {} } : params),
    }),
  },
  {
    fault: 'the first page of a window has only examined newer instances',
    rejectedBy: 'list/a-window-is-found-directly',
    override: ({ provider }) => ({
      listInstances: (params) =>
        params.filter.createdBefore !== undefined && params.beforeKey === undefined
          ? Promise.resolve({ instances: [], nextKey: 10_000 })
          : provider.listInstances(params),
    }),
  },
  {
    fault: 'a condition on the failure hides all other conditions',
    rejectedBy: 'list/pairs-of-conditions-combine',
    override: ({ provider }) => ({
      listInstances: ({ filter, ...params }) => {
        const { failureCode } = filter;
        const kept = failureCode === undefined ? filter : { failureCode };
        return provider.listInstances({ ...params, filter: kept });
      },
    }),
  },
  {
    fault: 'a list ends when one page has examined all its rows',
    rejectedBy: 'list/a-bounded-scan-leaves-no-gap',
    override: ({ provider }) => ({
      listInstances: async (params) => {
        const { instances, nextKey } = await provider.listInstances(params);
        return { instances, nextKey: instances.length < params.limit ? null : nextKey };
      },
    }),
  },
  {
    fault: 'a count exceeds its cap',
    rejectedBy: 'count/stops-at-its-cap',
    override: ({ provider }) => ({
      countInstances: ({ filter, cap }) => provider.countInstances({ filter, cap: cap + 1 }),
    }),
  },
  {
    fault: 'a count ignores its filter',
    rejectedBy: 'count/is-exact-below-its-cap',
    override: ({ provider }) => ({
      countInstances: ({ cap }) => provider.countInstances({ filter: {}, cap }),
    }),
  },
  {
    fault: 'definitions are counted up to one instance',
    rejectedBy: 'definitions/are-counted-by-status',
    override: ({ provider }) => ({
      listDefinitions: (params) => provider.listDefinitions({ ...params, cap: 1 }),
    }),
  },
  {
    fault: 'capped counts of definitions are not marked',
    rejectedBy: 'definitions/counts-are-capped',
    override: ({ provider }) => ({
      listDefinitions: async (params) => {
        const found = await provider.listDefinitions(params);
        return found.map((definition) => ({
          ...definition,
          counts: Object.fromEntries(
            Object.entries(definition.counts).map(([status, { count }]) => [
              status,
              { count, capped: false },
            ]),
          ),
        }));
      },
    }),
  },
  {
    fault: 'each page of definitions starts at the first',
    rejectedBy: 'definitions/come-in-pages',
    override: ({ provider }) => {
      let pages = 0;
      return {
        listDefinitions: (params) => {
          pages += 1;
          return provider.listDefinitions(pages > 4 ? params : { ...params, afterKey: 0 });
        },
      };
    },
  },
  {
    fault: 'the tags of starts are dropped',
    rejectedBy: 'tags/come-with-the-start',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(instances.map(({ tags: _tags, ...instance }) => instance)),
    }),
  },
  {
    fault: 'the tags of tasks are dropped',
    rejectedBy: 'tags/of-tasks-and-children',
    override: ({ provider }) => ({
      createTasks: (tasks) => provider.createTasks(tasks.map(({ tags: _tags, ...task }) => task)),
    }),
  },
  {
    fault: 'the tags of a turn are dropped',
    rejectedBy: 'tags/a-turn-merges-them',
    override: ({ provider }) => ({
      ackOrchestrationItems: (acks) =>
        provider.ackOrchestrationItems(
          acks.map(({ turn: { tags: _tags, ...turn }, ...ack }) => ({ ...ack, turn })),
        ),
    }),
  },
  {
    fault: 'a continue-as-new drops the tags',
    rejectedBy: 'tags/survive-continue-as-new',
    override: ({ provider, db }) => ({
      ackOrchestrationItems: async (acks) => {
        const results = await provider.ackOrchestrationItems(acks);
        if (acks.some(({ turn }) => turn.outcome.status === 'continuedAsNew')) {
          db.exec('UPDATE instances SET tags = NULL; DELETE FROM instance_tags');
        }
        return results;
      },
    }),
  },
  {
    fault: 'a deletion keeps the tags in their index',
    rejectedBy: 'tags/are-deleted-with-their-instance',
    override: ({ provider, db }) => ({
      deleteInstancesAtomic: async (trees) => {
        const results = await provider.deleteInstancesAtomic(trees);
        // The next instance has the key of the index entry that was kept.
        db.exec(
          `INSERT INTO instance_tags SELECT 't', '1', seq + 1 FROM sqlite_sequence WHERE name = 'instances'`,
        );
        return results;
      },
    }),
  },
  {
    fault: 'a repeated start replaces the tags',
    rejectedBy: 'tags/are-not-part-of-the-start',
    override: ({ provider, db }) => ({
      createInstances: async (instances) => {
        const results = await provider.createInstances(instances);
        if (results.some(({ kind }) => kind === 'exists')) {
          db.exec(`UPDATE instances SET tags = '{"t":"2"}'`);
        }
        return results;
      },
    }),
  },
];
