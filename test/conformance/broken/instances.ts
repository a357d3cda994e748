import type {
  CreateResult,
  InstanceRecord,
  NewInstance,
} from '../../../src/providers/contract/instances.ts';
import type { BrokenProvider } from './broken-provider.ts';

export const brokenInstances: readonly BrokenProvider[] = [
  {
    fault: 'createInstances() swaps the results exists and conflict',
    rejectedBy: 'create/the-same-start-exists',
    override: ({ provider }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        return results.map((result) => {
          if (result.kind === 'exists') return { kind: 'conflict', name: '' };
          return result.kind === 'conflict' ? { kind: 'exists' } : result;
        });
      },
    }),
  },
  {
    fault: 'a start with another input returns exists',
    rejectedBy: 'create/another-input-conflicts',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(instances.map((each) => ({ ...each, inputHash: 'any' }))),
    }),
  },
  {
    fault: 'a repeated start enqueues its start message again',
    rejectedBy: 'create/the-same-start-exists',
    override: ({ provider }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        const repeated = instances.filter((_, index) => results[index]?.kind === 'exists');
        await provider.enqueueMessages(
          repeated.map(({ instanceId, start }) => ({ instanceId, message: start })),
        );
        return results;
      },
    }),
  },
  {
    fault: 'the id of an ended instance can be reused',
    rejectedBy: 'create/an-id-that-is-over-stays-taken',
    override: ({ provider, db }) => ({
      createInstances(instances) {
        db.prepare('DELETE FROM instances WHERE ended_at IS NOT NULL').run();
        return provider.createInstances(instances);
      },
    }),
  },
  {
    fault: 'a conflict fails the rest of its batch of starts',
    rejectedBy: 'create/a-conflict-spares-its-neighbours',
    override: ({ provider }) => ({
      async createInstances(instances) {
        const results: CreateResult[] = [];
        for (const instance of instances) {
          const last = results.at(-1);
          if (last?.kind === 'conflict') results.push(last);
          else results.push(...(await provider.createInstances([instance])));
        }
        return results;
      },
    }),
  },
  {
    fault: 'an instance is created without its start message',
    rejectedBy: 'create/enqueues-the-start-with-the-row',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        db.prepare('DELETE FROM orchestrator_queue').run();
        return results;
      },
    }),
  },
  {
    fault: 'a first turn leaves the start message in the queue',
    rejectedBy: 'first-turn/enqueues-no-start',
    override: ({ provider }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        await provider.enqueueMessages(
          withFirstTurn(instances).map(({ instanceId, start }) => ({ instanceId, message: start })),
        );
        return results;
      },
    }),
  },
  {
    fault: 'a first turn with a taken id sends its messages',
    rejectedBy: 'first-turn/of-a-taken-id-commits-nothing',
    override: ({ provider }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        await provider.enqueueMessages(
          withFirstTurn(instances).flatMap(({ firstTurn }) => firstTurn?.messages ?? []),
        );
        return results;
      },
    }),
  },
  {
    fault: 'a first turn does not return the items that it claims',
    rejectedBy: 'first-turn/reports-items-claimed-at-insert',
    override: ({ provider }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        return results.map((result) =>
          result.kind === 'created' ? { ...result, claimed: [] } : result,
        );
      },
    }),
  },
  {
    fault: 'batches of more than 500 instances are truncated',
    rejectedBy: 'large/instances',
    override: ({ provider }) => ({
      createInstances: (instances) => provider.createInstances(instances.slice(0, 500)),
    }),
  },
  {
    fault: 'ids are trimmed and normalized before they are stored',
    rejectedBy: 'hostile/look-alikes-are-different-ids',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(
          instances.map((each) => ({
            ...each,
            instanceId: each.instanceId.trim().normalize('NFC'),
          })),
        ),
    }),
  },
  {
    fault: 'getInstances() omits missing instances',
    rejectedBy: 'read/instances-come-in-the-order-asked',
    override: ({ provider }) => ({
      getInstances: async (ids) =>
        (await provider.getInstances(ids)).filter((record) => record !== undefined),
    }),
  },
  {
    fault: 'a page of a list skips one instance',
    rejectedBy: 'read/list-pages-have-no-gaps-or-repeats',
    override: ({ provider }) => ({
      listInstances: ({ beforeKey, ...params }) =>
        provider.listInstances({
          ...params,
          ...(beforeKey !== undefined && { beforeKey: beforeKey - 1 }),
        }),
    }),
  },
  {
    fault: 'a page of a list repeats the last instance of the page before',
    rejectedBy: 'read/list-pages-have-no-gaps-or-repeats',
    override: ({ provider }) => ({
      listInstances: ({ beforeKey, ...params }) =>
        provider.listInstances({
          ...params,
          ...(beforeKey !== undefined && { beforeKey: beforeKey + 1 }),
        }),
    }),
  },
  {
    fault: 'a list is sorted oldest first',
    rejectedBy: 'read/list-is-newest-first',
    override: ({ provider }) => ({
      listInstances: async (params) => {
        const { instances, nextKey } = await provider.listInstances(params);
        return { instances: instances.toReversed(), nextKey };
      },
    }),
  },
  {
    fault: 'wildcards in a prefix match anything',
    rejectedBy: 'read/list-filters-by-id-prefix',
    override: ({ provider }) => ({
      async listInstances({ filter: { idPrefix = '', ...filter }, ...params }) {
        const escaped = idPrefix.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
        const pattern = new RegExp(`^${escaped.replaceAll('%', '.*').replaceAll('_', '.')}`, 'i');
        const { instances, nextKey } = await provider.listInstances({ filter, ...params });
        return {
          instances: instances.filter(({ instanceId }) => pattern.test(instanceId)),
          nextKey,
        };
      },
    }),
  },
  {
    fault: 'a list by time includes its last moment',
    rejectedBy: 'read/list-filters-by-time',
    override: ({ provider }) => ({
      listInstances: ({ filter: { createdBefore, ...filter }, ...params }) =>
        provider.listInstances({
          filter: {
            ...filter,
            ...(createdBefore !== undefined && { createdBefore: createdBefore + 1 }),
          },
          ...params,
        }),
    }),
  },
  {
    fault: 'conditions of a list filter are combined with OR',
    rejectedBy: 'read/list-filters-combine',
    override: ({ provider }) => ({
      async listInstances({ filter, ...params }) {
        const found = new Map<number, InstanceRecord>();
        for (const [condition, value] of Object.entries(filter)) {
          const { instances: records } = await provider.listInstances({
            filter: { [condition]: value },
            ...params,
          });
          for (const record of records) found.set(record.instanceKey, record);
        }
        const instances = [...found.values()].toSorted((a, b) => b.instanceKey - a.instanceKey);
        return { instances, nextKey: null };
      },
    }),
  },
  {
    fault: 'readHistory() always returns the first execution',
    rejectedBy: 'continue/keeps-histories-apart',
    override: ({ provider }) => ({
      readHistory: (reads) =>
        provider.readHistory(reads.map((read) => ({ ...read, executionId: 1 }))),
    }),
  },
  {
    fault: 'a page of a history begins with the event it should follow',
    rejectedBy: 'read/history-comes-in-pages',
    override: ({ provider }) => ({
      readInstanceHistory: (params) =>
        provider.readInstanceHistory({ ...params, after: params.after - 1 }),
    }),
  },
  {
    fault: 'a first turn drops the headers of its start',
    rejectedBy: 'headers/are-kept-with-the-instance',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(
          instances.map(({ headers, ...instance }) =>
            instance.firstTurn === undefined && headers !== undefined
              ? { ...instance, headers }
              : instance,
          ),
        ),
    }),
  },
  {
    fault: 'children have no headers',
    rejectedBy: 'headers/of-children-and-detached-starts',
    override: ({ provider }) => ({
      ackOrchestrationItems: (acks) =>
        provider.ackOrchestrationItems(
          acks.map((ack) => ({
            ...ack,
            turn: {
              ...ack.turn,
              children: ack.turn.children.map(({ headers: _headers, ...child }) => child),
            },
          })),
        ),
    }),
  },
  {
    fault: 'claimed activities have no headers',
    rejectedBy: 'headers/come-with-claimed-activities',
    override: ({ provider }) => ({
      fetchWorkItems: async (params) =>
        (await provider.fetchWorkItems(params)).map(({ headers: _headers, ...item }) => item),
    }),
  },
  {
    fault: 'readInstanceHistory() ignores maxBytes',
    rejectedBy: 'read/history-ends-at-its-bytes',
    override: ({ provider }) => ({
      readInstanceHistory: ({ maxBytes: _maxBytes, ...params }) =>
        provider.readInstanceHistory(params),
    }),
  },
  {
    fault: 'listInstances() ignores maxBytes',
    rejectedBy: 'read/list-ends-at-its-bytes',
    override: ({ provider }) => ({
      listInstances: ({ maxBytes: _maxBytes, ...params }) => provider.listInstances(params),
    }),
  },
  {
    fault: 'a page cut by maxBytes is the last',
    rejectedBy: 'read/list-ends-at-its-bytes',
    override: ({ provider }) => ({
      listInstances: async (params) => ({
        ...(await provider.listInstances(params)),
        nextKey: null,
      }),
    }),
  },
  {
    fault: 'listInstances() ignores payloads: false',
    rejectedBy: 'read/list-leaves-payloads-out',
    override: ({ provider }) => ({
      listInstances: ({ payloads: _payloads, ...params }) => provider.listInstances(params),
    }),
  },
  {
    fault: 'getInstances() ignores maxBytes',
    rejectedBy: 'read/instances-end-at-their-bytes',
    override: ({ provider }) => ({
      getInstances: (instanceIds) => provider.getInstances(instanceIds),
    }),
  },
];

function withFirstTurn(instances: readonly NewInstance[]): readonly NewInstance[] {
  return instances.filter(({ firstTurn }) => firstTurn !== undefined);
}
