import { encodeMessage } from '../../../src/model/message.ts';
import type { TurnAck } from '../../../src/providers/contract/work-queue.ts';
import { lockedKey, type BrokenProvider, type Intact } from './broken-provider.ts';

const later = 1_000_000_000;

function editAcks({ provider }: Intact, edit: (ack: TurnAck) => TurnAck) {
  return { ackTurns: (acks: readonly TurnAck[]) => provider.ackTurns(acks.map(edit)) };
}

/** Runs the acks with the messages of their instances hidden. */
async function withoutMessages<Result>(
  { db }: Intact,
  acks: readonly TurnAck[],
  run: () => Promise<Result>,
): Promise<Result> {
  const shift = db.prepare(
    'UPDATE orchestrator_queue SET visible_at = visible_at + ? WHERE instance_key = ?',
  );
  for (const { instanceKey } of acks) shift.run(later, instanceKey);
  const result = await run();
  for (const { instanceKey } of acks) shift.run(-later, instanceKey);
  return result;
}

export const brokenTurnAcks: readonly BrokenProvider[] = [
  {
    fault: 'a fast turn is not fenced by the last turn',
    rejectedBy: 'turn-ack/needs-the-last-turn',
    override: (intact) => {
      const lastTurn = intact.db
        .prepare<[number], string>('SELECT last_turn FROM instances WHERE instance_key = ?')
        .pluck();
      return editAcks(intact, (ack) => ({
        ...ack,
        lastTurn: lastTurn.get(ack.instanceKey) ?? ack.lastTurn,
      }));
    },
  },
  {
    fault: 'a fast turn is not fenced by the incarnation',
    rejectedBy: 'turn-ack/needs-this-incarnation',
    override: (intact) => {
      const incarnation = intact.db
        .prepare<[number], string>('SELECT incarnation FROM instances WHERE instance_key = ?')
        .pluck();
      return editAcks(intact, (ack) => ({
        ...ack,
        incarnation: incarnation.get(ack.instanceKey) ?? ack.incarnation,
      }));
    },
  },
  {
    fault: 'a fast turn is not fenced by the execution',
    rejectedBy: 'turn-ack/needs-this-execution',
    override: (intact) => {
      const executionId = intact.db
        .prepare<[number], number>('SELECT execution_id FROM instances WHERE instance_key = ?')
        .pluck();
      return editAcks(intact, (ack) => ({
        ...ack,
        executionId: executionId.get(ack.instanceKey) ?? ack.executionId,
      }));
    },
  },
  {
    fault: 'a fast turn ignores waiting messages',
    rejectedBy: 'turn-ack/needs-no-visible-message',
    override: (intact) => ({
      ackTurns: (acks) => withoutMessages(intact, acks, () => intact.provider.ackTurns(acks)),
    }),
  },
  {
    fault: 'a fast turn ignores the claim of another worker',
    rejectedBy: 'turn-ack/needs-a-free-instance',
    override: (intact) => ({
      ackTurns: (acks) =>
        withoutMessages(intact, acks, () => {
          const unlock = intact.db.prepare(
            'UPDATE instance_locks SET lock_token = NULL, locked_until = NULL WHERE instance_key = ?',
          );
          for (const { instanceKey } of acks) unlock.run(instanceKey);
          return intact.provider.ackTurns(acks);
        }),
    }),
  },
  {
    fault: 'a fast turn accepts expired leases',
    rejectedBy: 'turn-ack/needs-unexpired-tokens',
    override: (intact) => ({
      ackTurns(acks) {
        const revive = intact.db.prepare(
          'UPDATE worker_queue SET locked_until = locked_until + ? WHERE item_key = ?',
        );
        for (const token of acks.flatMap(({ lockTokens }) => lockTokens)) {
          revive.run(later, lockedKey(token));
        }
        return intact.provider.ackTurns(acks);
      },
    }),
  },
  {
    fault: 'a fast turn acks its remaining items and ignores lost ones',
    rejectedBy: 'turn-ack/needs-every-token-held',
    override: (intact) => {
      const held = intact.db.prepare(
        `SELECT 1 FROM worker_queue WHERE item_key || '.' || lock_token = ?`,
      );
      return editAcks(intact, (ack) => ({
        ...ack,
        lockTokens: ack.lockTokens.filter((token) => held.get(token) !== undefined),
      }));
    },
  },
  {
    fault: 'a fast turn with items of other instances commits',
    rejectedBy: 'turn-ack/needs-items-of-its-own-instance',
    override: (intact) => {
      const own = intact.db.prepare(
        'SELECT 1 FROM worker_queue WHERE item_key = ? AND instance_key = ?',
      );
      return editAcks(intact, (ack) => ({
        ...ack,
        lockTokens: ack.lockTokens.filter(
          (token) => own.get(lockedKey(token), ack.instanceKey) !== undefined,
        ),
      }));
    },
  },
  {
    fault: 'a fast turn with items of old executions commits',
    rejectedBy: 'turn-ack/needs-items-of-its-own-execution',
    override: (intact) => {
      const own = intact.db.prepare(
        'SELECT 1 FROM worker_queue WHERE item_key = ? AND execution_id = ?',
      );
      return editAcks(intact, (ack) => ({
        ...ack,
        lockTokens: ack.lockTokens.filter(
          (token) => own.get(lockedKey(token), ack.executionId) !== undefined,
        ),
      }));
    },
  },
  {
    fault: 'a fast turn ignores a cancel request',
    rejectedBy: 'turn-ack/needs-unflagged-items',
    override: (intact) => ({
      ackTurns(acks) {
        intact.db.prepare('UPDATE worker_queue SET cancel_requested = 0').run();
        return intact.provider.ackTurns(acks);
      },
    }),
  },
  {
    fault: 'a fast turn leaves its items in the queue',
    rejectedBy: 'turn-ack/settles-several-items-at-once',
    override: (intact) => editAcks(intact, (ack) => ({ ...ack, lockTokens: [] })),
  },
  {
    fault: 'a fast turn also enqueues the completions that it applied',
    rejectedBy: 'turn-ack/follows-another',
    override: ({ provider, db }) => ({
      async ackTurns(acks) {
        const owner = db.prepare<
          [string],
          { instanceId: string; executionId: number; operation: number }
        >(
          `SELECT instance_id AS instanceId, item.execution_id AS executionId, operation
           FROM worker_queue AS item JOIN instances USING (instance_key)
           WHERE item_key || '.' || lock_token = ?`,
        );
        const owners = acks.flatMap(({ lockTokens }) =>
          lockTokens.map((token) => owner.get(token)).filter((row) => row !== undefined),
        );
        const results = await provider.ackTurns(acks);
        await provider.enqueueMessages(
          owners.map(({ instanceId, executionId, operation }) => ({
            instanceId,
            message: encodeMessage({
              kind: 'activityCompleted',
              executionId,
              operation,
              payload: null,
            }),
          })),
        );
        return results;
      },
    }),
  },
];
