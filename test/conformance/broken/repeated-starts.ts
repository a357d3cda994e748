import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Removes the mark of a repeat. */
function unmarked<Start extends { readonly isRepeat?: boolean }>(start: Start): Start {
  const { isRepeat: _, ...rest } = start;
  return rest as Start;
}

/** Records deleted starts under a part of their identity, and lets repeats find them there. */
function recordBy(part: 'instanceId' | 'incarnation'): (intact: Intact) => Partial<Provider> {
  return ({ provider }) => {
    const deleted = new Set<string>();
    return {
      async deleteInstancesAtomic(trees) {
        const ids = trees.flatMap(({ instanceIds }) => instanceIds);
        for (const record of await provider.getInstances(ids)) {
          if (record !== undefined) deleted.add(record[part]);
        }
        return provider.deleteInstancesAtomic(trees);
      },
      async createInstances(instances) {
        const results = await provider.createInstances(
          instances.filter((one) => one.isRepeat !== true || !deleted.has(one[part])),
        );
        return results.length === instances.length ? results : [{ kind: 'exists' }];
      },
    };
  };
}

/** Forgets all deleted starts after each call of a method. */
function forgetAfter(method: 'reclaimDeleted' | 'createInstances' | 'deleteInstancesAtomic') {
  return ({ provider, db }: Intact): Partial<Provider> => {
    const forget = db.prepare('DELETE FROM deleted_starts');
    const original = provider[method] as (...args: unknown[]) => Promise<unknown>;
    return {
      [method]: async (...args: unknown[]) => {
        const result = await original(...args);
        forget.run();
        return result;
      },
    };
  };
}

export const brokenRepeatedStarts: readonly BrokenProvider[] = [
  ...[
    'repeat/a-deleted-instance-stays-deleted',
    'repeat/a-forced-deletion-counts',
    'repeat/a-deleted-first-turn-stays-deleted',
    'repeat/races-with-the-deletion',
  ].map((rejectedBy): BrokenProvider => ({
    fault: `a repeated start runs a deleted instance again (${rejectedBy})`,
    rejectedBy,
    override: ({ provider }) => ({
      createInstances: (instances) => provider.createInstances(instances.map(unmarked)),
    }),
  })),
  {
    fault: 'a repeated task runs again after its run was deleted',
    rejectedBy: 'repeat/of-a-deleted-task',
    override: ({ provider }) => ({
      createTasks: (tasks) => provider.createTasks(tasks.map(unmarked)),
    }),
  },
  {
    fault: 'a repeated job runs again after its run was deleted',
    rejectedBy: 'repeat/of-a-deleted-job',
    override: ({ provider }) => ({
      submitJobs: (jobs) =>
        provider.submitJobs(
          jobs.map((job) =>
            job.kind === 'task'
              ? { ...job, task: unmarked(job.task) }
              : { ...job, instance: unmarked(job.instance) },
          ),
        ),
    }),
  },
  {
    fault: 'a repeated fork runs again after its instance was deleted',
    rejectedBy: 'repeat/of-a-deleted-fork',
    override: ({ provider }) => ({
      forkInstances: (forks) => provider.forkInstances(forks.map(unmarked)),
    }),
  },
  {
    fault: 'a deletion records no start',
    rejectedBy: 'repeat/a-deleted-instance-stays-deleted',
    override: forgetAfter('deleteInstancesAtomic'),
  },
  {
    fault: 'a replacement does not record the replaced start',
    rejectedBy: 'repeat/of-a-replaced-start',
    override: forgetAfter('createInstances'),
  },
  {
    fault: 'deleted starts are swept before their time',
    rejectedBy: 'repeat/is-known-for-ten-minutes',
    override: forgetAfter('reclaimDeleted'),
  },
  {
    fault: 'every start counts as a repeat',
    rejectedBy: 'repeat/other-starts-are-created',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(instances.map((one) => ({ ...one, isRepeat: true }))),
    }),
  },
  {
    fault: 'a repeat creates nothing, whether or not its start was deleted',
    rejectedBy: 'repeat/creates-what-was-never-created',
    override: ({ provider }) => ({
      createInstances: async (instances) =>
        instances.some(({ isRepeat }) => isRepeat)
          ? instances.map(() => ({ kind: 'exists' }))
          : provider.createInstances(instances),
    }),
  },
  {
    fault: 'a repeat replaces the instance of its first attempt',
    rejectedBy: 'repeat/finds-its-instance',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(
          instances.map((one) =>
            one.isRepeat === true
              ? { ...one, incarnation: 'another', onConflict: 'terminateExisting' }
              : one,
          ),
        ),
    }),
  },
  {
    fault: 'deleted starts are recorded by their ids alone',
    rejectedBy: 'repeat/belongs-to-its-id-and-incarnation',
    override: recordBy('instanceId'),
  },
  {
    fault: 'deleted starts are recorded by their incarnations alone',
    rejectedBy: 'repeat/belongs-to-its-id-and-incarnation',
    override: recordBy('incarnation'),
  },
];
