import { encodeMessage } from '../../../src/model/message.ts';
import { beforeTokens, lockedKey, type BrokenProvider, type Intact } from './broken-provider.ts';

const farFuture = 9_000_000_000_000;

/** Extends an expired lock if the token is the last one of its row. */
function revive({ db }: Intact, table: 'instance_locks' | 'worker_queue') {
  const key = table === 'instance_locks' ? 'instance_key' : 'item_key';
  const statement = db.prepare(
    `UPDATE ${table} SET locked_until = ?, next_at = ? WHERE ${key} || '.' || lock_token = ?`,
  );
  return (lockToken: string) => void statement.run(farFuture, farFuture, lockToken);
}

/** The current token of the row that this token locked. */
function current({ db }: Intact, table: 'instance_locks' | 'worker_queue') {
  const key = table === 'instance_locks' ? 'instance_key' : 'item_key';
  const statement = db
    .prepare<[number], string>(`SELECT ${key} || '.' || lock_token FROM ${table} WHERE ${key} = ?`)
    .pluck();
  return (lockToken: string) => statement.get(lockedKey(lockToken)) ?? lockToken;
}

/** Any token that currently holds a lock. */
function any({ db }: Intact, table: 'instance_locks' | 'worker_queue') {
  const key = table === 'instance_locks' ? 'instance_key' : 'item_key';
  const statement = db
    .prepare<[], string>(
      `SELECT ${key} || '.' || lock_token FROM ${table} WHERE lock_token IS NOT NULL
       ORDER BY locked_until`,
    )
    .pluck();
  return (lockToken: string) => statement.get() ?? lockToken;
}

export const brokenFences: readonly BrokenProvider[] = [
  {
    fault: 'a turn is acked with any token',
    rejectedBy: 'fence/an-unknown-token-cannot-ack',
    override(intact) {
      const token = any(intact, 'instance_locks');
      return {
        ackOrchestrationItems: (acks) =>
          intact.provider.ackOrchestrationItems(
            acks.map((ack) => ({ ...ack, lockToken: token(ack.lockToken) })),
          ),
      };
    },
  },
  {
    fault: 'a turn is acked after its lock has expired',
    rejectedBy: 'fence/an-expired-token-cannot-ack',
    override: (intact) => ({
      ackOrchestrationItems: beforeTokens(
        (acks) => intact.provider.ackOrchestrationItems(acks),
        revive(intact, 'instance_locks'),
      ),
    }),
  },
  {
    fault: 'a turn is acked with a superseded token',
    rejectedBy: 'fence/a-token-that-was-taken-over-cannot-ack',
    override(intact) {
      const token = current(intact, 'instance_locks');
      return {
        ackOrchestrationItems: (acks) =>
          intact.provider.ackOrchestrationItems(
            acks.map((ack) => ({ ...ack, lockToken: token(ack.lockToken) })),
          ),
      };
    },
  },
  {
    fault: 'a repeated ack returns ok',
    rejectedBy: 'fence/a-token-acks-once',
    override({ provider }) {
      const committed = new Set<string>();
      return {
        async ackOrchestrationItems(acks) {
          const results = await provider.ackOrchestrationItems(acks);
          return results.map((result, index) => {
            const { lockToken = '' } = acks[index] ?? {};
            if (result.ok) committed.add(lockToken);
            return committed.has(lockToken) ? { ok: true, claimed: [] } : result;
          });
        },
      };
    },
  },
  {
    fault: 'the token of an abandoned claim stays valid',
    rejectedBy: 'fence/an-abandoned-token-cannot-ack',
    override: () => ({
      abandonOrchestrationItems: async (abandons) => abandons.map(() => true),
    }),
  },
  {
    fault: 'a token is the same for every claim of an instance',
    rejectedBy: 'fence/a-token-is-fresh-for-every-claim',
    override({ provider }) {
      const real = new Map<string, string>();
      return {
        async fetchOrchestrationItems(params) {
          const items = await provider.fetchOrchestrationItems(params);
          return items.map((item) => {
            real.set(item.instanceId, item.lockToken);
            return { ...item, lockToken: item.instanceId };
          });
        },
        ackOrchestrationItems: (acks) =>
          provider.ackOrchestrationItems(
            acks.map((ack) => ({ ...ack, lockToken: real.get(ack.lockToken) ?? ack.lockToken })),
          ),
      };
    },
  },
  {
    fault: 'an expired lock of an instance can be renewed',
    rejectedBy: 'lock/an-expired-claim-cannot-be-renewed',
    override(intact) {
      const bringBack = revive(intact, 'instance_locks');
      return {
        renewOrchestrationLocks: (lockTokens, extendMs) => {
          for (const lockToken of lockTokens) bringBack(lockToken);
          return intact.provider.renewOrchestrationLocks(lockTokens, extendMs);
        },
      };
    },
  },
  {
    fault: 'a lock lasts one millisecond too long',
    rejectedBy: 'lock/ends-at-its-moment',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ ...params, lockMs: params.lockMs + 1 }),
      renewOrchestrationLocks: (tokens, extendMs) =>
        provider.renewOrchestrationLocks(tokens, extendMs + 1),
    }),
  },
  {
    fault: 'two workers can claim the same instance',
    rejectedBy: 'lock/a-claimed-instance-is-exclusive',
    override: ({ provider }) => ({
      fetchOrchestrationItems: (params) =>
        provider.fetchOrchestrationItems({ ...params, lockMs: 0 }),
    }),
  },
  {
    fault: 'a work item is acked with any token',
    rejectedBy: 'fence/an-unknown-token-cannot-settle-work',
    override(intact) {
      const token = any(intact, 'worker_queue');
      return {
        ackWorkItems: (acks) =>
          intact.provider.ackWorkItems(
            acks.map((ack) => ({ ...ack, lockToken: token(ack.lockToken) })),
          ),
      };
    },
  },
  {
    fault: 'a work item is acked after its lease has expired',
    rejectedBy: 'fence/an-expired-token-cannot-settle-work',
    override: (intact) => ({
      ackWorkItems: beforeTokens(
        (acks) => intact.provider.ackWorkItems(acks),
        revive(intact, 'worker_queue'),
      ),
    }),
  },
  {
    fault: 'a work item is acked with a superseded token',
    rejectedBy: 'fence/a-token-that-was-taken-over-cannot-settle-work',
    override(intact) {
      const token = current(intact, 'worker_queue');
      return {
        ackWorkItems: (acks) =>
          intact.provider.ackWorkItems(
            acks.map((ack) => ({ ...ack, lockToken: token(ack.lockToken) })),
          ),
      };
    },
  },
  {
    fault: 'a refused ack still enqueues its completion',
    rejectedBy: 'fence/an-expired-token-cannot-settle-work',
    override({ provider }) {
      const owners = new Map<
        string,
        { instanceId: string; executionId: number; operation: number }
      >();
      return {
        async fetchWorkItems(params) {
          const items = await provider.fetchWorkItems(params);
          for (const item of items) owners.set(item.lockToken, item);
          return items;
        },
        async ackWorkItems(acks) {
          const results = await provider.ackWorkItems(acks);
          for (const [index, { lockToken }] of acks.entries()) {
            const owner = owners.get(lockToken);
            if (results[index]?.ok === true || owner === undefined) continue;
            const { instanceId, executionId, operation } = owner;
            const message = encodeMessage({
              kind: 'activityCompleted',
              executionId,
              operation,
              payload: null,
            });
            await provider.enqueueMessages([{ instanceId, message }]);
          }
          return results;
        },
      };
    },
  },
  {
    fault: 'an expired lease of a work item can be renewed',
    rejectedBy: 'renew/an-expired-lease-is-lost',
    override: (intact) => ({
      renewWorkItemLocks: beforeTokens(
        (renewals, extendMs: number) => intact.provider.renewWorkItemLocks(renewals, extendMs),
        revive(intact, 'worker_queue'),
      ),
    }),
  },
];
