import type Database from 'better-sqlite3';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { beforeTokens, lockedKey, type BrokenProvider, type Intact } from './broken-provider.ts';

const far = 9_007_199_254_740_991;

/** Lets the token of a deleted item hold the work item that now has its row. */
function passOnItem(db: Database.Database): (lockToken: string) => void {
  const update = db.prepare(
    'UPDATE worker_queue SET lock_token = ?, locked_until = ?, next_at = ? WHERE item_key = ?',
  );
  return (lockToken) => {
    const secret = lockToken.slice(lockToken.indexOf('.') + 1);
    update.run(secret, far, far, lockedKey(lockToken));
  };
}

/** Lets the token of a deleted instance hold the newest one. Returns the token to use. */
function passOnInstance({ db }: Intact): (lockToken: string) => string {
  const isKnown = db.prepare('SELECT 1 FROM instances WHERE instance_key = ?');
  const newest = db.prepare<[], number>('SELECT max(instance_key) FROM instance_locks').pluck();
  const lock = db.prepare(
    'UPDATE instance_locks SET lock_token = ?, locked_until = ?, next_at = ? WHERE instance_key = ?',
  );
  return (lockToken) => {
    const key = newest.get();
    if (isKnown.get(lockedKey(lockToken)) !== undefined || key == null) return lockToken;
    lock.run('passed on', far, far, key);
    return `${key}.passed on`;
  };
}

/** Gives the messages of deleted instances to new instances with their ids. */
function inheritMessages({ provider, db }: Intact): Partial<Provider> {
  db.exec(
    `CREATE TEMP TABLE left_behind AS
     SELECT instances.instance_id, orchestrator_queue.* FROM orchestrator_queue JOIN instances USING (instance_key)`,
  );
  const keep = db.prepare(
    `INSERT INTO temp.left_behind
     SELECT instances.instance_id, orchestrator_queue.* FROM orchestrator_queue JOIN instances USING (instance_key)
     WHERE instance_id = ?`,
  );
  const inherit = db.prepare(
    `INSERT INTO orchestrator_queue (instance_key, visible_at, kind, execution_id, operation, data, payload)
     SELECT ?, visible_at, kind, execution_id, operation, data, payload FROM temp.left_behind
     WHERE instance_id = ? AND kind <> 'start'`,
  );
  return {
    deleteInstancesAtomic(trees) {
      for (const id of trees.flatMap(({ instanceIds }) => instanceIds)) keep.run(id);
      return provider.deleteInstancesAtomic(trees);
    },
    async createInstances(instances) {
      const results = await provider.createInstances(instances);
      for (const [index, result] of results.entries()) {
        if (result.kind === 'created') {
          inherit.run(result.instanceKey, instances[index]?.instanceId);
        }
      }
      return results;
    },
  };
}

export const brokenDeletedInstances: readonly BrokenProvider[] = [
  ...['delete/leaves-the-id-free', 'former-life/a-canceling-instance-stays-gone'].map(
    (rejectedBy): BrokenProvider => ({
      fault: `a reused id inherits the messages of the deleted instance (${rejectedBy})`,
      rejectedBy,
      override: inheritMessages,
    }),
  ),
  {
    fault: 'a reused id inherits the timers of the deleted instance',
    rejectedBy: 'delete/leaves-no-message-to-a-parent',
    override: inheritMessages,
  },
  {
    fault: 'a turn ack of a deleted instance recreates it',
    rejectedBy: 'former-life/a-turn-is-lost',
    override: ({ provider, db }) => {
      const insert = db.prepare(
        `INSERT OR IGNORE INTO instances (instance_id, incarnation, definition_key, status, execution_id,
                                          history_length, input_hash, created_at)
         VALUES ('a', 'again', 1, 'running', 1, 0, 'hash', 0)`,
      );
      return {
        async ackOrchestrationItems(acks) {
          const results = await provider.ackOrchestrationItems(acks);
          if (results.some(({ ok }) => !ok)) insert.run();
          return results;
        },
      };
    },
  },
  ...['former-life/a-turn-is-lost', 'former-life/a-first-turn-is-lost'].map(
    (rejectedBy): BrokenProvider => ({
      fault: `a turn of a deleted instance is committed to its successor (${rejectedBy})`,
      rejectedBy,
      override: (intact) => {
        const passOn = passOnInstance(intact);
        return {
          ackOrchestrationItems: (acks) =>
            intact.provider.ackOrchestrationItems(
              acks.map((ack) => ({ ...ack, lockToken: passOn(ack.lockToken) })),
            ),
        };
      },
    }),
  ),
  {
    fault: 'a claim of a deleted instance can be renewed',
    rejectedBy: 'former-life/a-claim-cannot-be-handed-back',
    override: (intact) => {
      const passOn = passOnInstance(intact);
      return {
        renewOrchestrationLocks: (tokens, extendMs) =>
          intact.provider.renewOrchestrationLocks(tokens.map(passOn), extendMs),
      };
    },
  },
  {
    fault: 'a claim of a deleted instance can be abandoned',
    rejectedBy: 'former-life/a-claim-cannot-be-handed-back',
    override: (intact) => {
      const passOn = passOnInstance(intact);
      return {
        abandonOrchestrationItems: (abandons) =>
          intact.provider.abandonOrchestrationItems(
            abandons.map((one) => ({ ...one, lockToken: passOn(one.lockToken) })),
          ),
      };
    },
  },
  {
    fault: 'a result of a deleted instance acks the work of its successor',
    rejectedBy: 'former-life/a-result-is-lost',
    override: ({ provider, db }) => ({
      ackWorkItems: beforeTokens((items) => provider.ackWorkItems(items), passOnItem(db)),
    }),
  },
  {
    fault: 'a renewal of a deleted instance extends the lease of its successor',
    rejectedBy: 'former-life/a-renewal-is-lost',
    override: ({ provider, db }) => ({
      renewWorkItemLocks: beforeTokens(
        (renewals, extendMs: number) => provider.renewWorkItemLocks(renewals, extendMs),
        passOnItem(db),
      ),
    }),
  },
  {
    fault: 'a renewal of deleted work does not return deleted: true',
    rejectedBy: 'former-life/a-renewal-is-lost',
    override: ({ provider }) => ({
      renewWorkItemLocks: async (renewals, extendMs) =>
        (await provider.renewWorkItemLocks(renewals, extendMs)).map((result) =>
          result.held ? result : { held: false },
        ),
    }),
  },
  {
    fault: 'every lost lease is reported as deleted',
    rejectedBy: 'former-life/tokens-are-told-apart',
    override: ({ provider }) => ({
      renewWorkItemLocks: async (renewals, extendMs) =>
        (await provider.renewWorkItemLocks(renewals, extendMs)).map((result) =>
          result.held ? result : { held: false, deleted: true },
        ),
    }),
  },
  {
    fault: 'deleted work can be abandoned',
    rejectedBy: 'former-life/work-cannot-be-handed-back',
    override: ({ provider, db }) => ({
      abandonWorkItems: beforeTokens((items) => provider.abandonWorkItems(items), passOnItem(db)),
    }),
  },
  {
    fault: 'deleted work can be retried',
    rejectedBy: 'former-life/work-cannot-be-handed-back',
    override: ({ provider, db }) => ({
      retryWorkItems: beforeTokens((items) => provider.retryWorkItems(items), passOnItem(db)),
    }),
  },
  {
    fault: 'deleted work can pass its point of no return',
    rejectedBy: 'former-life/has-no-point-of-no-return',
    override: ({ provider, db }) => {
      const passOn = passOnItem(db);
      return {
        markPointOfNoReturn(lockToken) {
          passOn(lockToken);
          return provider.markPointOfNoReturn(lockToken);
        },
      };
    },
  },
  {
    fault: 'a fast turn is fenced by the instance id alone',
    rejectedBy: 'former-life/a-fast-turn-is-lost',
    override: ({ provider, db }) => {
      const newest = db.prepare<[], { key: number; incarnation: string; lastTurn: string }>(
        `SELECT instance_key AS key, incarnation, last_turn AS lastTurn FROM instances
         ORDER BY instance_key DESC LIMIT 1`,
      );
      return {
        ackTurns(acks) {
          const { key: instanceKey, ...life } = newest.get() ?? { key: -1 };
          const lockTokens: readonly string[] = [];
          return provider.ackTurns(
            acks.map((ack) => ({ ...ack, ...life, instanceKey, lockTokens })),
          );
        },
      };
    },
  },
  {
    fault: 'the messages of a lost turn are sent',
    rejectedBy: 'former-life/a-child-sends-no-message',
    override: ({ provider }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        const lost = acks.filter((_, index) => results[index]?.ok !== true);
        await provider.enqueueMessages(lost.flatMap(({ turn }) => turn.messages));
        return results;
      },
    }),
  },
  {
    fault: 'readHistory() of a deleted instance returns the history of its successor',
    rejectedBy: 'former-life/is-not-read',
    override: ({ provider, db }) => {
      const newest = db.prepare<[], number>('SELECT max(instance_key) FROM instances').pluck();
      return {
        readHistory: (ranges) =>
          provider.readHistory(
            ranges.map((range) => ({ ...range, instanceKey: newest.get() ?? -1 })),
          ),
      };
    },
  },
];
