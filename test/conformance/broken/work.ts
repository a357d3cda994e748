import { encodeMessage } from '../../../src/model/message.ts';
import { LockLostError } from '../../../src/model/failures/errors.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import { lockedKey, type BrokenProvider } from './broken-provider.ts';

export const brokenWork: readonly BrokenProvider[] = [
  {
    fault: 'an instance is held after another turn was committed',
    rejectedBy: 'hold/needs-a-free-instance-as-it-stood',
    override: ({ provider, db }) => {
      const lastTurn = db.prepare<[number], string>(
        'SELECT last_turn FROM instances WHERE instance_key = ?',
      );
      return {
        holdInstances: (holds) =>
          provider.holdInstances(
            holds.map((hold) => ({
              ...hold,
              lastTurn: lastTurn.pluck().get(hold.instanceKey) ?? hold.lastTurn,
            })),
          ),
      };
    },
  },
  {
    fault: 'an instance without messages is not held',
    rejectedBy: 'hold/keeps-what-waits-and-what-comes',
    override: () => ({ holdInstances: async (holds) => holds.map(() => true) }),
  },
  {
    fault: 'an unstarted claim counts after its lease has expired',
    rejectedBy: 'abandon-work/unstarted-is-given-back-after-its-lease',
    override: ({ provider }) => ({
      abandonWorkItems: (abandons) =>
        provider.abandonWorkItems(abandons.map((abandon) => ({ ...abandon, unstarted: false }))),
    }),
  },
  {
    fault: 'an expired claim of an instance cannot be given back',
    rejectedBy: 'abandon/an-expired-claim-can-be-given-back',
    override: ({ provider }) => ({
      abandonOrchestrationItems: (abandons) =>
        provider.abandonOrchestrationItems(
          abandons.map((abandon) => ({ ...abandon, evenIfExpired: false })),
        ),
    }),
  },
  {
    fault: 'a completion of an old execution is enqueued',
    rejectedBy: 'continue/old-completions-are-dropped',
    override({ provider }) {
      const items = new Map<string, WorkItem>();
      return {
        async fetchWorkItems(params) {
          const fetched = await provider.fetchWorkItems(params);
          for (const item of fetched) items.set(item.lockToken, item);
          return fetched;
        },
        async ackWorkItems(acks) {
          const results = await provider.ackWorkItems(acks);
          for (const { lockToken } of acks) {
            const item = items.get(lockToken);
            if (item === undefined) continue;
            const { instanceId, executionId, operation } = item;
            const [instance] = await provider.getInstances([instanceId]);
            if (instance?.executionId === executionId) continue;
            const completion = {
              kind: 'activityCompleted',
              executionId,
              operation,
              payload: null,
            } as const;
            await provider.enqueueMessages([{ instanceId, message: encodeMessage(completion) }]);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'a canceled item leaves no message',
    rejectedBy: 'work-ack/a-cancellation-becomes-a-message',
    override: ({ provider, db }) => ({
      async ackWorkItems(acks) {
        const results = await provider.ackWorkItems(acks);
        if (acks.some(({ outcome }) => outcome.kind === 'canceled')) {
          db.prepare('DELETE FROM orchestrator_queue').run();
        }
        return results;
      },
    }),
  },
  {
    fault: 'a failure is stored as an empty success',
    rejectedBy: 'work-ack/a-failure-becomes-a-message',
    override: ({ provider }) => ({
      ackWorkItems: (acks) =>
        provider.ackWorkItems(
          acks.map(({ lockToken }) => ({
            lockToken,
            outcome: { kind: 'completed', payload: null },
          })),
        ),
    }),
  },
  {
    fault: 'a completion does not name the worker that ran it',
    rejectedBy: 'work-ack/tells-who-ran-it',
    override: ({ provider }) => ({
      ackWorkItems: (acks) =>
        provider.ackWorkItems(
          acks.map(({ lockToken, outcome }) => {
            if (outcome.kind === 'skipped') return { lockToken, outcome };
            const { ran: _, ...rest } = outcome;
            return { lockToken, outcome: rest };
          }),
        ),
    }),
  },
  {
    fault: 'one lost item fails its whole batch of acks',
    rejectedBy: 'batch/lost-work-spares-its-neighbours',
    override: ({ provider, db }) => {
      const held = db.prepare('SELECT 1 FROM worker_queue WHERE item_key = ?');
      return {
        ackWorkItems: async (acks) =>
          acks.every(({ lockToken }) => held.get(lockedKey(lockToken) || -1) !== undefined)
            ? provider.ackWorkItems(acks)
            : acks.map(() => ({ ok: false, error: new LockLostError('ackWorkItems') })),
      };
    },
  },
  {
    fault: 'a renewal reports a flagged item as lost',
    rejectedBy: 'renew/extends-a-flagged-item-too',
    override: ({ provider }) => ({
      async renewWorkItemLocks(renewals, extendMs) {
        const results = await provider.renewWorkItemLocks(renewals, extendMs);
        return results.map((result) =>
          result.held && result.cancel !== null ? { held: false } : result,
        );
      },
    }),
  },
  {
    fault: 'a renewal reports a cancel request and does not extend the lease',
    rejectedBy: 'renew/extends-a-flagged-item-too',
    override: ({ provider, db }) => ({
      async renewWorkItemLocks(renewals, extendMs) {
        const ends = renewals.map(({ lockToken }) =>
          db
            .prepare<[number], number>('SELECT locked_until FROM worker_queue WHERE item_key = ?')
            .pluck()
            .get(lockedKey(lockToken)),
        );
        const results = await provider.renewWorkItemLocks(renewals, extendMs);
        const restore = db.prepare(
          'UPDATE worker_queue SET locked_until = ?, next_at = ? WHERE item_key = ?',
        );
        for (const [index, { lockToken }] of renewals.entries()) {
          const result = results[index];
          if (result?.held !== true || result.cancel === null) continue;
          restore.run(ends[index], ends[index], lockedKey(lockToken));
        }
        return results;
      },
    }),
  },
  {
    fault: 'a renewal does not report the cancel request',
    rejectedBy: 'cancel/claimed-work-is-flagged',
    override: ({ provider }) => ({
      async renewWorkItemLocks(renewals, extendMs) {
        const results = await provider.renewWorkItemLocks(renewals, extendMs);
        return results.map((result) => (result.held ? { held: true, cancel: null } : result));
      },
    }),
  },
  {
    fault: 'a renewal adds to the lease instead of counting from now',
    rejectedBy: 'renew/extends-from-now',
    override: ({ provider, db, clock }) => ({
      renewWorkItemLocks(renewals, extendMs) {
        const until = db
          .prepare<[number], number>('SELECT locked_until FROM worker_queue WHERE item_key = ?')
          .pluck();
        const [first] = renewals;
        const left = (until.get(lockedKey(first?.lockToken ?? '')) ?? clock.now()) - clock.now();
        return provider.renewWorkItemLocks(renewals, extendMs + left);
      },
    }),
  },
  {
    fault: 'heartbeats are not stored',
    rejectedBy: 'renew/stores-heartbeats',
    override: ({ provider }) => ({
      renewWorkItemLocks: (renewals, extendMs) =>
        provider.renewWorkItemLocks(
          renewals.map(({ lockToken }) => ({ lockToken })),
          extendMs,
        ),
    }),
  },
  {
    fault: 'a renewal without a heartbeat clears the last one',
    rejectedBy: 'renew/stores-heartbeats',
    override: ({ provider }) => ({
      renewWorkItemLocks: (renewals, extendMs) =>
        provider.renewWorkItemLocks(
          renewals.map(({ lockToken, heartbeat = null }) => ({ lockToken, heartbeat })),
          extendMs,
        ),
    }),
  },
  {
    fault: 'a retry counts no failure',
    rejectedBy: 'retry/counts-a-failure-and-resets-the-claims',
    override: ({ provider }) => ({
      retryWorkItems: (retries) =>
        provider.abandonWorkItems(
          retries.map(({ lockToken, delayMs }) => ({ lockToken, delayMs, giveBackClaim: true })),
        ),
    }),
  },
  {
    fault: 'a retry ignores its delay',
    rejectedBy: 'retry/waits-its-delay',
    override: ({ provider }) => ({
      retryWorkItems: (retries) =>
        provider.retryWorkItems(retries.map((retry) => ({ ...retry, delayMs: 0 }))),
    }),
  },
  {
    fault: 'a retry enqueues a failure message',
    rejectedBy: 'retry/is-no-outcome',
    override: ({ provider }) => ({
      retryWorkItems: async (retries) => {
        const results = await provider.ackWorkItems(
          retries.map(({ lockToken, failure }) => ({
            lockToken,
            outcome: { kind: 'failed', failure },
          })),
        );
        return results.map(({ ok }) => ok);
      },
    }),
  },
  {
    fault: 'a flagged item is retried',
    rejectedBy: 'retry/a-flagged-item-ends-instead',
    override: ({ provider, db }) => ({
      retryWorkItems(retries) {
        db.prepare('UPDATE worker_queue SET cancel_requested = 0').run();
        return provider.retryWorkItems(retries);
      },
    }),
  },
  {
    fault: 'the explanation of an abandoned item is dropped',
    rejectedBy: 'abandon-work/keeps-its-explanation',
    override: ({ provider }) => ({
      abandonWorkItems: (abandons) =>
        provider.abandonWorkItems(
          abandons.map((abandon) => {
            const { explanation: _, ...rest } = abandon;
            return rest;
          }),
        ),
    }),
  },
  {
    fault: 'abandoned work is claimed again without its delay',
    rejectedBy: 'abandon-work/waits-its-delay',
    override: ({ provider }) => ({
      abandonWorkItems: (abandons) =>
        provider.abandonWorkItems(abandons.map((abandon) => ({ ...abandon, delayMs: 0 }))),
    }),
  },
  {
    fault: 'work is claimed by workers without its code',
    rejectedBy: 'filter/claims-only-named-activities',
    override: ({ provider }) => ({
      fetchWorkItems: ({ names: _names, ...params }) => provider.fetchWorkItems(params),
    }),
  },
  {
    fault: 'a flagged item waits for a worker with its code',
    rejectedBy: 'cancel/a-flagged-item-goes-to-any-worker',
    override: ({ provider }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        return items.filter(({ name }) => params.names?.includes(name) ?? true);
      },
    }),
  },
  {
    fault: 'a fetch does not report the cancel request',
    rejectedBy: 'cancel/a-flagged-item-goes-to-any-worker',
    override: ({ provider }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        return items.map((item) => ({ ...item, cancel: null }));
      },
    }),
  },
  {
    fault: 'the newest work is claimed first',
    rejectedBy: 'order/the-work-that-waits-longest-is-first',
    override: ({ provider }) => ({
      fetchWorkItems: async (params) => (await provider.fetchWorkItems(params)).toReversed(),
    }),
  },
  {
    fault: 'work with an expired claim is claimed last',
    rejectedBy: 'order/work-of-a-lost-worker-waits-from-the-end-of-its-lock',
    override: ({ provider }) => ({
      fetchWorkItems: async (params) =>
        (await provider.fetchWorkItems(params)).toSorted((a, b) => a.claims - b.claims),
    }),
  },
];
