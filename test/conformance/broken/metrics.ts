import type { BrokenProvider } from './broken-provider.ts';

export const brokenMetrics: readonly BrokenProvider[] = [
  {
    fault: 'listChildren() ignores the order of its ids',
    rejectedBy: 'family/children-come-in-the-order-asked',
    override: ({ provider }) => ({
      listChildren: (ids) => provider.listChildren(ids.toSorted()),
    }),
  },
  {
    fault: 'listChildren() includes grandchildren',
    rejectedBy: 'family/children-come-in-the-order-asked',
    override: ({ provider }) => ({
      async listChildren(ids) {
        const lists = await provider.listChildren(ids);
        const below = await Promise.all(lists.map((list) => provider.listChildren(list)));
        return lists.map((list, index) => [...list, ...(below[index]?.flat() ?? [])]);
      },
    }),
  },
  {
    fault: 'a detached instance is a child of its starter',
    rejectedBy: 'family/detached-ones-have-no-parent',
    override: ({ provider, db }) => ({
      listChildren(ids) {
        db.exec(`UPDATE instances SET parent_instance_id = 'a' WHERE instance_id = 'free'`);
        return provider.listChildren(ids);
      },
    }),
  },
  {
    fault: 'getParentId() returns null for an unknown id',
    rejectedBy: 'family/a-parent-is-named',
    override: ({ provider }) => ({
      getParentId: async (id) => (await provider.getParentId(id)) ?? null,
    }),
  },
  {
    fault: 'getParentId() returns the root of the tree',
    rejectedBy: 'family/a-parent-is-named',
    override: ({ provider }) => ({
      async getParentId(id) {
        let parent = await provider.getParentId(id);
        for (let above = parent; above != null; above = await provider.getParentId(above)) {
          parent = above;
        }
        return parent;
      },
    }),
  },
  {
    fault: 'claimed activities count as ready',
    rejectedBy: 'figures/queues-are-counted',
    override: ({ provider }) => ({
      async queueDepths() {
        const { activities, ...others } = await provider.queueDepths();
        const ready = activities.ready + activities.claimed;
        return { ...others, activities: { ...activities, ready } };
      },
    }),
  },
  {
    fault: 'queueDepths() stops after a part of the entries',
    rejectedBy: 'figures/queues-are-counted-in-parts',
    override: ({ provider }) => ({
      async queueDepths() {
        const { tasks, ...others } = await provider.queueDepths();
        return { ...others, tasks: { ...tasks, ready: Math.min(tasks.ready, 10_000) } };
      },
    }),
  },
  {
    fault: 'an expired claim counts as claimed',
    rejectedBy: 'figures/queues-are-counted',
    override: ({ provider, db }) => {
      const count = db
        .prepare<[], number>('SELECT count(*) FROM worker_queue WHERE lock_token IS NOT NULL')
        .pluck();
      return {
        async queueDepths() {
          const { activities, ...others } = await provider.queueDepths();
          return { ...others, activities: { ...activities, claimed: count.get() ?? 0 } };
        },
      };
    },
  },
  {
    fault: 'oldestReadyAt is the creation time of the oldest instance',
    rejectedBy: 'figures/queues-are-counted',
    override: ({ provider, db }) => {
      const oldest = db.prepare<[], number>('SELECT min(created_at) FROM instances').pluck();
      return {
        async queueDepths() {
          const { orchestrations, ...others } = await provider.queueDepths();
          const oldestReadyAt = oldest.get() ?? null;
          return { ...others, orchestrations: { ...orchestrations, oldestReadyAt } };
        },
      };
    },
  },
  {
    fault: 'definitionQueues() counts claimed entries as ready',
    rejectedBy: 'figures/queues-by-definition',
    override: ({ provider }) => ({
      definitionQueues: async (params) =>
        (await provider.definitionQueues(params)).map((one) => ({
          ...one,
          ready: one.ready + one.claimed,
        })),
    }),
  },
  {
    fault: 'definitionQueues() counts paused entries as ready',
    rejectedBy: 'figures/queues-by-definition-are-paused',
    override: ({ provider }) => ({
      definitionQueues: async (params) =>
        (await provider.definitionQueues(params)).map((one) => ({
          ...one,
          ready: one.ready + one.paused,
          paused: 0,
        })),
    }),
  },
  {
    fault: 'definitionQueues() ignores its cap',
    rejectedBy: 'figures/queues-by-definition-are-capped',
    override: ({ provider }) => ({
      definitionQueues: (params) => provider.definitionQueues({ ...params, cap: 1_000 }),
    }),
  },
  {
    fault: 'failed instances are also counted as completed',
    rejectedBy: 'figures/the-store-is-counted',
    override: ({ provider }) => ({
      async systemMetrics() {
        const { instances, ...others } = await provider.systemMetrics();
        const completed = instances.completed + instances.failed;
        return { ...others, instances: { ...instances, completed } };
      },
    }),
  },
  {
    fault: 'the current execution counts as finished',
    rejectedBy: 'figures/the-store-is-counted',
    override: ({ provider }) => ({
      async systemMetrics() {
        const metrics = await provider.systemMetrics();
        const all = Object.values(metrics.instances).reduce((sum, count) => sum + count, 0);
        return { ...metrics, finishedExecutions: metrics.finishedExecutions + all };
      },
    }),
  },
  {
    fault: 'only the events of the current execution are measured',
    rejectedBy: 'figures/an-instance-is-measured',
    override: ({ provider, db }) => {
      const length = db
        .prepare<[string], number>('SELECT history_length FROM instances WHERE instance_id = ?')
        .pluck();
      return {
        async measureInstance(id) {
          const size = await provider.measureInstance(id);
          return size === undefined ? undefined : { ...size, events: length.get(id) ?? 0 };
        },
      };
    },
  },
  {
    fault: 'measureInstance() returns a size for an unknown instance',
    rejectedBy: 'figures/an-instance-is-measured',
    override: ({ provider }) => ({
      measureInstance: async (id) =>
        (await provider.measureInstance(id)) ?? {
          executions: 0,
          events: 0,
          children: 0,
          messages: 0,
          activities: 0,
        },
    }),
  },
  {
    fault: 'every page of executions returns the first page',
    rejectedBy: 'read/executions-come-in-pages',
    override: ({ provider }) => ({
      listExecutions: (params) => provider.listExecutions({ ...params, after: 0 }),
    }),
  },
  {
    fault: 'every page of executions includes the current one',
    rejectedBy: 'read/executions-come-in-pages',
    override: ({ provider }) => ({
      async listExecutions(params) {
        const all = await provider.listExecutions({ ...params, limit: 1_000 });
        return [...all.slice(0, params.limit), ...all.slice(params.limit).slice(-1)];
      },
    }),
  },
];
