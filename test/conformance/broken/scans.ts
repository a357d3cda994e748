import type { ScanInstancesParams } from '../../../src/providers/contract/management.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

function editScans(
  { provider }: Intact,
  edit: (params: ScanInstancesParams) => ScanInstancesParams,
): Partial<Provider> {
  return { scanInstances: (params) => provider.scanInstances(edit(params)) };
}

export const brokenScans: readonly BrokenProvider[] = [
  {
    fault: 'a scan repeats the last row of a step',
    rejectedBy: 'scan/visits-every-row-once',
    override: (intact) => {
      let steps = 0;
      return editScans(intact, ({ afterKey, ...params }) => {
        steps += 1;
        return { ...params, afterKey: steps > 1 && steps % 2 === 0 ? afterKey - 1 : afterKey };
      });
    },
  },
  {
    fault: 'a scan skips the first row of a step',
    rejectedBy: 'scan/visits-every-row-once',
    override: (intact) =>
      editScans(intact, (params) => ({ ...params, afterKey: params.afterKey + 1 })),
  },
  {
    fault: 'a scan returns rows in the order of ids',
    rejectedBy: 'scan/visits-every-row-once',
    override: ({ provider }) => ({
      async scanInstances(params) {
        const { instances, nextKey } = await provider.scanInstances(params);
        const sorted = instances.toSorted((a, b) => (a.instanceId < b.instanceId ? -1 : 1));
        return { instances: sorted, nextKey };
      },
    }),
  },
  {
    fault: 'a scan omits the end time of an instance',
    rejectedBy: 'scan/tells-what-it-met',
    override: ({ provider }) => ({
      async scanInstances(params) {
        const { instances, nextKey } = await provider.scanInstances(params);
        return { instances: instances.map((one) => ({ ...one, endedAt: null })), nextKey };
      },
    }),
  },
  {
    fault: 'a scan pages by offset instead of by key',
    rejectedBy: 'scan/goes-on-while-rows-go',
    override: ({ provider, db }) => {
      const keyAt = db
        .prepare<[number], number>(
          'SELECT instance_key FROM instances ORDER BY instance_key LIMIT 1 OFFSET ?',
        )
        .pluck();
      return {
        async scanInstances({ afterKey: offset, ...params }) {
          const afterKey = (keyAt.get(offset) ?? Number.MAX_SAFE_INTEGER) - 1;
          const { instances, nextKey } = await provider.scanInstances({ ...params, afterKey });
          return { instances, nextKey: nextKey === null ? null : offset + params.maxScanned };
        },
      };
    },
  },
  ...(['statuses', 'endedBefore', 'rootsOnly', 'withFinishedExecutions'] as const).map(
    (condition): BrokenProvider => ({
      fault: `a scan ignores ${condition}`,
      rejectedBy: 'scan/finds-those-for-which-all-conditions-hold',
      override: (intact) => editScans(intact, ({ [condition]: _ignored, ...params }) => params),
    }),
  ),
  {
    fault: 'a scan includes instances that ended at endedBefore',
    rejectedBy: 'scan/finds-those-for-which-all-conditions-hold',
    override: (intact) =>
      editScans(intact, ({ endedBefore, ...params }) =>
        endedBefore === undefined ? params : { ...params, endedBefore: endedBefore + 1 },
      ),
  },
  {
    fault: 'a scan ends at the first step without a match',
    rejectedBy: 'scan/looks-at-no-more-than-asked',
    override: ({ provider }) => ({
      async scanInstances(params) {
        const { instances, nextKey } = await provider.scanInstances(params);
        return { instances, nextKey: instances.length === 0 ? null : nextKey };
      },
    }),
  },
  {
    fault: 'a scan ignores maxScanned',
    rejectedBy: 'scan/looks-at-no-more-than-asked',
    override: (intact) => editScans(intact, (params) => ({ ...params, maxScanned: 1_000_000 })),
  },
  {
    fault: 'a scan ignores createdBefore',
    rejectedBy: 'scan/ends-where-it-is-told',
    override: (intact) =>
      editScans(intact, ({ createdBefore: _createdBefore, ...params }) => params),
  },
];
