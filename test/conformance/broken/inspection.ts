import type { InstanceDetails, PendingItem, TurnState } from 'perdure/provider';
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

/** Changes the turn state that inspectTurn() returns. */
function withTurn(
  provider: Provider,
  change: (turn: TurnState) => Partial<TurnState>,
): Pick<Provider, 'inspectTurn'> {
  return {
    async inspectTurn(instanceId) {
      const turn = await provider.inspectTurn(instanceId);
      return turn && { ...turn, ...change(turn) };
    },
  };
}

export const brokenInspection: readonly BrokenProvider[] = [
  {
    fault: 'findStoredTexts() does not search work items',
    rejectedBy: 'inspect/finds-stored-texts',
    override: ({ provider }) => ({
      findStoredTexts: async (params) =>
        (await provider.findStoredTexts(params)).filter((text) => !text.includes('item')),
    }),
  },
  {
    fault: 'findStoredTexts() searches a pattern',
    rejectedBy: 'inspect/finds-texts-of-one-instance',
    override: ({ db }) => ({
      findStoredTexts: async ({ instanceId, text }) =>
        db
          .prepare<[string, string], string>(
            `SELECT payload FROM history JOIN instances USING (instance_key)
             WHERE instance_id = ? AND payload LIKE '%' || ? || '%'`,
          )
          .pluck()
          .all(instanceId, text),
    }),
  },
  {
    fault: 'blocking an instance again keeps the details of the first reason',
    rejectedBy: 'blocked/details-belong-to-the-newest-reason',
    override: ({ provider }) => {
      let first: string | undefined;
      return {
        abandonOrchestrationItems: (abandons) =>
          provider.abandonOrchestrationItems(
            abandons.map((one) => {
              first ??= one.blocked?.details;
              if (one.blocked === undefined || first === undefined) return one;
              return { ...one, blocked: { ...one.blocked, details: first } };
            }),
          ),
      };
    },
  },
  {
    fault: 'an abandon without a block deletes the details',
    rejectedBy: 'blocked/details-belong-to-the-newest-reason',
    override: ({ provider, db }) => ({
      async abandonOrchestrationItems(abandons) {
        const results = await provider.abandonOrchestrationItems(abandons);
        if (abandons.some(({ blocked }) => blocked === undefined))
          db.prepare('UPDATE instance_locks SET blocked_details = NULL').run();
        return results;
      },
    }),
  },
  {
    fault: 'every renewal dates the heartbeat',
    rejectedBy: 'inspect/dates-heartbeats',
    override: ({ provider, db, clock }) => ({
      async renewWorkItemLocks(renewals, extendMs) {
        const results = await provider.renewWorkItemLocks(renewals, extendMs);
        db.prepare('UPDATE worker_queue SET heartbeat_at = ?').run(clock.now());
        return results;
      },
    }),
  },
  {
    fault: 'a retry keeps the maximum of attempts of an earlier one',
    rejectedBy: 'inspect/shows-the-limit-of-attempts',
    override: ({ provider }) => {
      let first: number | null | undefined;
      return {
        retryWorkItems: (retries) => {
          first ??= retries[0]?.maxAttempts;
          return provider.retryWorkItems(
            retries.map((one) => ({ ...one, maxAttempts: first ?? null })),
          );
        },
      };
    },
  },
  {
    fault: 'inspectInstance() hides the point of no return',
    rejectedBy: 'inspect/shows-the-point-of-no-return',
    override: ({ provider }) =>
      withItems(provider, (item) => ({ ...item, pointOfNoReturn: false })),
  },
  {
    fault: 'inspectTurn() shows a hold-back that has ended',
    rejectedBy: 'inspect/shows-when-a-turn-is-due',
    override: ({ provider }) =>
      withTurn(provider, ({ heldUntil, dueAt }) => ({ heldUntil: heldUntil ?? dueAt })),
  },
  {
    fault: 'inspectTurn() shows an expired claim as held',
    rejectedBy: 'inspect/shows-who-runs-a-turn',
    override: ({ provider }) =>
      withTurn(provider, ({ held, expired }) => ({
        held: held ?? (expired && { worker: null, claimedAt: null, lockedUntil: expired.at }),
      })),
  },
  {
    fault: 'a claim of an instance stores another worker',
    rejectedBy: 'inspect/shows-who-runs-a-turn',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ ...params, worker: 'another' }),
    }),
  },
  {
    fault: 'inspectTurn() does not show that only running work is left',
    rejectedBy: 'inspect/shows-a-canceled-end',
    override: ({ provider }) => withTurn(provider, () => ({ isClosing: false })),
  },
  {
    fault: 'inspectTurn() does not show that a job is abandoned',
    rejectedBy: 'inspect/shows-the-session-of-a-job',
    override: ({ provider }) =>
      withTurn(provider, ({ job }) => ({ job: job && { ...job, abandonedAt: null } })),
  },
  {
    fault: 'inspectInstances() drops missing instances',
    rejectedBy: 'inspect/many-come-in-the-order-asked',
    override: ({ provider }) => ({
      inspectInstances: async (params) =>
        (await provider.inspectInstances(params)).filter((found) => found !== undefined),
    }),
  },
  {
    fault: 'inspectInstances() lists all pending items',
    rejectedBy: 'inspect/many-equal-the-single-reads',
    override: ({ provider }) => ({
      inspectInstances: (params) => provider.inspectInstances({ ...params, maxPending: 1_000 }),
    }),
  },
  {
    fault: 'inspectInstances() returns the events of a page from the newest',
    rejectedBy: 'inspect/idle-ones-have-their-last-events',
    override: ({ provider }) => ({
      inspectInstances: async (params) =>
        (await provider.inspectInstances(params)).map(
          (found) => found && { ...found, events: found.events.toReversed() },
        ),
    }),
  },
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
