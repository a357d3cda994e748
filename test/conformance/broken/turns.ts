import { LockLostError } from '../../../src/model/failures/errors.ts';
import { randomToken } from '../../../src/model/values/random-id.ts';
import type { CommitResult } from '../../../src/providers/contract/turn.ts';
import { aroundTurns, editTurns, lockedKey, type BrokenProvider } from './broken-provider.ts';

const later = 1_000_000_000;

export const brokenTurns: readonly BrokenProvider[] = [
  {
    fault: 'a timer is due at fireAt instead of its delay after the commit',
    rejectedBy: 'timer/a-delay-counts-from-the-commit',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        timers: turn.timers.map(({ operation, fireAt }) => ({ operation, fireAt })),
      })),
  },
  {
    fault: 'an ack deletes all messages of its instance',
    rejectedBy: 'ack/leaves-later-arrivals',
    override: (intact) =>
      aroundTurns(intact, (instanceKey) => () => {
        intact.db.prepare('DELETE FROM orchestrator_queue WHERE instance_key = ?').run(instanceKey);
      }),
  },
  {
    fault: 'an ack deletes every fetched message, not only those it names',
    rejectedBy: 'ack/deletes-the-named-messages',
    override({ provider }) {
      const fetched = new Map<string, readonly number[]>();
      return {
        async fetchOrchestrationItems(params) {
          const items = await provider.fetchOrchestrationItems(params);
          for (const { lockToken, messages } of items) {
            fetched.set(
              lockToken,
              messages.map(({ messageKey }) => messageKey),
            );
          }
          return items;
        },
        ackOrchestrationItems: (acks) =>
          provider.ackOrchestrationItems(
            acks.map((ack) => ({ ...ack, messageKeys: fetched.get(ack.lockToken) ?? [] })),
          ),
      };
    },
  },
  {
    fault: 'an ack deletes messages of other instances',
    rejectedBy: 'ack/spares-messages-of-others',
    override: ({ provider, db }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        const remove = db.prepare('DELETE FROM orchestrator_queue WHERE message_key = ?');
        for (const { messageKeys } of acks) for (const key of messageKeys) remove.run(key);
        return results;
      },
    }),
  },
  {
    fault: 'events with existing ids are renumbered',
    rejectedBy: 'atomic/event-ids-that-exist-are-refused',
    override: (intact) => {
      const length = intact.db
        .prepare<[number], number>('SELECT history_length FROM instances WHERE instance_key = ?')
        .pluck();
      return editTurns(intact, (turn, instanceKey = 0) => {
        const next = (length.get(instanceKey) ?? 0) + 1;
        return { ...turn, firstEventId: Math.max(turn.firstEventId, next) };
      });
    },
  },
  {
    fault: 'a gap in event ids is closed silently',
    rejectedBy: 'atomic/gaps-in-event-ids-are-refused',
    override: (intact) => {
      const length = intact.db
        .prepare<[number], number>('SELECT history_length FROM instances WHERE instance_key = ?')
        .pluck();
      return editTurns(intact, (turn, instanceKey = 0) => {
        const next = (length.get(instanceKey) ?? 0) + 1;
        return { ...turn, firstEventId: Math.min(turn.firstEventId, next) };
      });
    },
  },
  {
    fault: 'the messages of a refused turn are sent',
    rejectedBy: 'atomic/a-refused-ack-leaves-nothing',
    override: ({ provider }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        for (const [index, { turn }] of acks.entries()) {
          if (results[index]?.ok !== true) await provider.enqueueMessages(turn.messages);
        }
        return results;
      },
    }),
  },
  {
    fault: 'a refused turn loses its claim',
    rejectedBy: 'atomic/a-refused-ack-keeps-the-claim',
    override: ({ provider }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        const refused = acks.filter((_, index) => results[index]?.ok !== true);
        await provider.abandonOrchestrationItems(
          refused.map(({ lockToken }) => ({ lockToken, delayMs: 0, giveBackClaim: false })),
        );
        return results;
      },
    }),
  },
  {
    fault: 'a second work item for one operation is dropped silently',
    rejectedBy: 'atomic/an-operation-has-one-work-item',
    override: (intact) => {
      const exists = intact.db.prepare(
        'SELECT 1 FROM worker_queue WHERE instance_key = ? AND operation = ?',
      );
      return editTurns(intact, (turn, instanceKey) => ({
        ...turn,
        workItems: [
          ...new Map(turn.workItems.map((item) => [item.operation, item])).values(),
        ].filter(({ operation }) => exists.get(instanceKey, operation) === undefined),
      }));
    },
  },
  {
    fault: 'one lost token fails its whole batch of acks',
    rejectedBy: 'batch/a-lost-ack-spares-its-neighbours',
    override: ({ provider, db }) => {
      const held = db.prepare('SELECT 1 FROM instance_locks WHERE instance_key = ?');
      return {
        ackOrchestrationItems: async (acks) =>
          acks.every(({ lockToken }) => held.get(lockedKey(lockToken) || -1) !== undefined)
            ? provider.ackOrchestrationItems(acks)
            : acks.map(() => ({ ok: false, error: new LockLostError('ackOrchestrationItems') })),
      };
    },
  },
  {
    fault: 'one invalid turn fails the rest of its batch of acks',
    rejectedBy: 'batch/a-bad-turn-spares-its-neighbours',
    override: ({ provider }) => ({
      async ackOrchestrationItems(acks) {
        const results: CommitResult[] = [];
        for (const ack of acks) {
          const last = results.at(-1);
          if (last?.ok === false) results.push(last);
          else results.push(...(await provider.ackOrchestrationItems([ack])));
        }
        return results;
      },
    }),
  },
  {
    fault: 'timers are returned before they are due',
    rejectedBy: 'timer/is-hidden-until-due',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        timers: turn.timers.map((timer) => ({ ...timer, fireAt: 0 })),
      })),
  },
  {
    fault: 'withdrawn timers fire',
    rejectedBy: 'timer/that-is-withdrawn-never-fires',
    override: (intact) => editTurns(intact, (turn) => ({ ...turn, timerWithdrawals: [] })),
  },
  {
    fault: 'a withdrawal removes the timers of that operation in every instance',
    rejectedBy: 'timer/that-is-withdrawn-never-fires',
    override: (intact) =>
      aroundTurns(intact, (_instanceKey, turn) => () => {
        const remove = intact.db.prepare(
          `DELETE FROM orchestrator_queue WHERE kind = 'timerFired' AND operation = ?`,
        );
        for (const operation of turn.timerWithdrawals) remove.run(operation);
      }),
  },
  {
    fault: 'a withdrawal does not remove due timers',
    rejectedBy: 'timer/that-is-due-can-still-be-withdrawn',
    override: (intact) => {
      const due = intact.db.prepare(
        `SELECT 1 FROM orchestrator_queue
         WHERE kind = 'timerFired' AND instance_key = ? AND operation = ? AND visible_at <= ?`,
      );
      return editTurns(intact, (turn, instanceKey) => ({
        ...turn,
        timerWithdrawals: turn.timerWithdrawals.filter(
          (operation) => due.get(instanceKey, operation, intact.clock.now()) === undefined,
        ),
      }));
    },
  },
  {
    fault: 'a withdrawal removes every message of its operation',
    rejectedBy: 'timer/a-withdrawal-spares-other-messages',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => () => {
        const remove = intact.db.prepare(
          'DELETE FROM orchestrator_queue WHERE instance_key = ? AND operation = ?',
        );
        for (const operation of turn.timerWithdrawals) remove.run(instanceKey, operation);
      }),
  },
  {
    fault: 'the parent gets no message when a child id is taken',
    rejectedBy: 'child/a-taken-id-is-told-to-the-parent',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        children: turn.children.map((child) => ({ ...child, ifTaken: null })),
      })),
  },
  {
    fault: 'a detached start is not confirmed',
    rejectedBy: 'child/a-detached-start-is-confirmed',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        children: turn.children.map(({ ifStarted, ...child }) => {
          return ifStarted === undefined ? child : { ...child, ifTaken: null };
        }),
      })),
  },
  {
    fault: 'a repeated detached start is refused',
    rejectedBy: 'child/a-repeated-detached-start-is-confirmed',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        children: turn.children.map((child) => ({ ...child, inputHash: randomToken() })),
      })),
  },
  {
    fault: 'a detached start with the id of another start is confirmed',
    rejectedBy: 'child/a-detached-id-of-another-start-is-taken',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        children: turn.children.map((child) =>
          child.ifStarted === undefined ? child : { ...child, ifTaken: child.ifStarted },
        ),
      })),
  },
  {
    fault: 'the second detached start of one id is dropped',
    rejectedBy: 'child/the-second-detached-start-of-one-id',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        children: [...new Map(turn.children.toReversed().map((one) => [one.instanceId, one]))]
          .map(([, one]) => one)
          .toReversed(),
      })),
  },
  {
    fault: 'children have no parent',
    rejectedBy: 'child/is-created-with-its-start',
    override: (intact) =>
      editTurns(intact, (turn) => ({
        ...turn,
        children: turn.children.map((child) => ({ ...child, parentOperation: null })),
      })),
  },
  {
    fault: 'a child reuses the id of an ended instance',
    rejectedBy: 'child/the-id-of-a-finished-instance-is-taken',
    override: (intact) => {
      const remove = intact.db.prepare(
        'DELETE FROM instances WHERE instance_id = ? AND ended_at IS NOT NULL',
      );
      return editTurns(intact, (turn) => {
        for (const { instanceId } of turn.children) remove.run(instanceId);
        return turn;
      });
    },
  },
  {
    fault: 'messages of a turn are delivered in reverse',
    rejectedBy: 'message/of-a-turn-is-delivered-in-order',
    override: (intact) =>
      editTurns(intact, (turn) => ({ ...turn, messages: turn.messages.toReversed() })),
  },
  {
    fault: 'a turn without a custom status clears it',
    rejectedBy: 'ack/sets-keeps-and-clears-the-custom-status',
    override: (intact) =>
      editTurns(intact, (turn) => ({ ...turn, customStatus: turn.customStatus ?? null })),
  },
  {
    fault: 'the id of the last turn is not stored',
    rejectedBy: 'ack/records-the-turn-as-the-last',
    override: (intact) => editTurns(intact, (turn) => ({ ...turn, turnId: 'always the same' })),
  },
  {
    fault: 'cancels are applied before the items are inserted',
    rejectedBy: 'cancel/scheduled-in-the-same-turn-never-starts',
    override: (intact) =>
      editTurns(intact, (turn) => {
        const scheduled = new Set(turn.workItems.map(({ operation }) => operation));
        const activityCancels = turn.activityCancels.filter(
          ({ operation }) => !scheduled.has(operation),
        );
        return { ...turn, activityCancels };
      }),
  },
  {
    fault: 'canceled unclaimed items still start',
    rejectedBy: 'cancel/unclaimed-work-is-removed',
    override: (intact) => editTurns(intact, (turn) => ({ ...turn, activityCancels: [] })),
  },
  {
    fault: 'canceled items are deleted while a worker holds them',
    rejectedBy: 'cancel/claimed-work-is-flagged',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => () => {
        const remove = intact.db.prepare(
          'DELETE FROM worker_queue WHERE instance_key = ? AND operation = ?',
        );
        for (const { operation } of turn.activityCancels) remove.run(instanceKey, operation);
      }),
  },
  {
    fault: 'a cancel deletes a queued completion',
    rejectedBy: 'cancel/a-queued-completion-stays',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => () => {
        const remove = intact.db.prepare(
          `DELETE FROM orchestrator_queue
           WHERE instance_key = ? AND operation = ? AND kind = 'activityCompleted'`,
        );
        for (const { operation } of turn.activityCancels) remove.run(instanceKey, operation);
      }),
  },
  {
    fault: 'a later cancel overwrites the first',
    rejectedBy: 'cancel/the-first-request-is-kept',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => () => {
        const overwrite = intact.db.prepare(
          `UPDATE worker_queue SET cancel_reason = ?, cancel_requested_at = ?
           WHERE instance_key = ? AND operation = ? AND cancel_requested = 1`,
        );
        for (const { operation, reason } of turn.activityCancels) {
          overwrite.run(reason, intact.clock.now(), instanceKey, operation);
        }
      }),
  },
  {
    fault: 'items claimed at insert are left in the queue',
    rejectedBy: 'claim-at-insert/holds-for-its-lease',
    override: (intact) =>
      aroundTurns(intact, () => () => {
        intact.db
          .prepare('UPDATE worker_queue SET next_at = 0, lock_token = NULL, locked_until = NULL')
          .run();
      }),
  },
  {
    fault: 'the end of an instance leaves its unclaimed work in the queue',
    rejectedBy: 'terminal/removes-unclaimed-work',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => {
        const rows = intact.db
          .prepare<[number], Record<string, unknown>>(
            'SELECT * FROM worker_queue WHERE instance_key = ? AND lock_token IS NULL',
          )
          .all(instanceKey);
        return () => {
          if (turn.outcome.status === 'running') return;
          for (const row of rows) {
            const columns = Object.keys(row);
            intact.db
              .prepare(
                `INSERT INTO worker_queue (${columns.join(', ')})
                 VALUES (${columns.map((column) => `:${column}`).join(', ')})`,
              )
              .run(row);
          }
        };
      }),
  },
  {
    fault: 'the end of an instance does not flag its claimed work',
    rejectedBy: 'terminal/flags-claimed-work',
    override: (intact) =>
      aroundTurns(intact, () => () => {
        intact.db
          .prepare('UPDATE worker_queue SET cancel_requested = 0, cancel_requested_at = NULL')
          .run();
      }),
  },
  {
    fault: 'continue-as-new drops waiting messages',
    rejectedBy: 'continue/carries-waiting-messages',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => () => {
        if (turn.outcome.status !== 'continuedAsNew') return;
        intact.db
          .prepare(`DELETE FROM orchestrator_queue WHERE instance_key = ? AND kind <> 'start'`)
          .run(instanceKey);
      }),
  },
  {
    fault: 'continue-as-new deletes the finished history',
    rejectedBy: 'continue/keeps-the-finished-execution',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => () => {
        if (turn.outcome.status !== 'continuedAsNew') return;
        intact.db.prepare('DELETE FROM history WHERE instance_key = ?').run(instanceKey);
      }),
  },
  {
    fault: 'timers of the old execution fire in the next one',
    rejectedBy: 'continue/old-timers-never-fire',
    override: (intact) =>
      aroundTurns(intact, (instanceKey, turn) => {
        const { db } = intact;
        const continues = turn.outcome.status === 'continuedAsNew';
        const hide = db.prepare(
          `UPDATE orchestrator_queue SET execution_id = execution_id + ? WHERE instance_key = ? AND kind = 'timerFired'`,
        );
        if (continues) hide.run(later, instanceKey);
        return () => {
          if (continues) hide.run(-later, instanceKey);
        };
      }),
  },
];
