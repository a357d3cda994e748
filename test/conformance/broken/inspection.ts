import type { InstanceDetails, PendingItem } from 'perdure/provider';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider } from './broken-provider.ts';

/** Changes each pending item that inspectInstance() returns. */
function withItems(
  provider: Provider,
  change: (item: PendingItem) => PendingItem,
): Pick<Provider, 'inspectInstance'> {
  return {
    async inspectInstance(params) {
      const details = await provider.inspectInstance(params);
      return details && { ...details, pending: details.pending.map(change) };
    },
  };
}

const nothing: InstanceDetails = { input: null, pending: [] };

export const brokenInspection: readonly BrokenProvider[] = [
  {
    fault: 'an unknown instance has empty details',
    rejectedBy: 'inspect/an-unknown-id-is-undefined',
    override: ({ provider }) => ({
      inspectInstance: async (params) => (await provider.inspectInstance(params)) ?? nothing,
    }),
  },
  {
    fault: 'inspectInstance() returns the input of the first execution',
    rejectedBy: 'inspect/shows-the-input',
    override: ({ provider, db }) => {
      const first = db
        .prepare<[string], string>(
          `SELECT payload FROM history JOIN instances USING (instance_key)
           WHERE instance_id = ? AND history.execution_id = 1 AND event_id = 1`,
        )
        .pluck();
      return {
        async inspectInstance(params) {
          const details = await provider.inspectInstance(params);
          return details && { ...details, input: first.get(params.instanceId) ?? details.input };
        },
      };
    },
  },
  {
    fault: 'inspectInstance() omits the last failure of a retried item',
    rejectedBy: 'inspect/lists-pending-work',
    override: ({ provider }) => withItems(provider, (item) => ({ ...item, lastFailure: null })),
  },
  {
    fault: 'inspectInstance() shows a retried item as due now',
    rejectedBy: 'inspect/lists-pending-work',
    override: ({ provider, clock }) =>
      withItems(provider, (item) => ({ ...item, dueAt: clock.now() })),
  },
  {
    fault: 'inspectInstance() shows an expired claim as held',
    rejectedBy: 'inspect/a-lapsed-claim-is-not-held',
    override: ({ provider }) =>
      withItems(provider, (item) => ({
        ...item,
        held: item.held ?? { worker: 'one', claimedAt: 0, lockedUntil: 0 },
      })),
  },
  {
    fault: 'inspectInstance() ignores maxPending',
    rejectedBy: 'inspect/pending-work-is-bounded',
    override: ({ provider }) => ({
      inspectInstance: (params) => provider.inspectInstance({ ...params, maxPending: 1_000 }),
    }),
  },
];
