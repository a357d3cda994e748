import { encodeMessage } from '../../../src/model/message.ts';
import type { TurnAck } from '../../../src/providers/contract/work-queue.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

const later = 1_000_000_000;

/** Runs a statement for each timer of the acks before them. */
function beforeTimers({ provider, db }: Intact, sql: string) {
  return {
    ackTurns(acks: readonly TurnAck[]) {
      const statement = db.prepare<[{ instanceKey: number; operation: number }]>(sql);
      for (const { instanceKey, timers = [] } of acks) {
        for (const operation of timers) statement.run({ instanceKey, operation });
      }
      return provider.ackTurns(acks);
    },
  };
}

export const brokenTimerTurns: readonly BrokenProvider[] = [
  {
    fault: 'a fast turn consumes timers before they are due',
    rejectedBy: 'timer-turn/needs-timers-that-are-due',
    override: (intact) =>
      beforeTimers(
        intact,
        `UPDATE orchestrator_queue SET visible_at = visible_at - ${later}
         WHERE instance_key = :instanceKey AND operation = :operation AND kind = 'timerFired'`,
      ),
  },
  {
    fault: 'a fast turn consumes timers that do not exist',
    rejectedBy: 'timer-turn/needs-timers-that-wait',
    override: ({ provider, db }) => {
      const waits = db.prepare<[number, number]>(
        `SELECT 1 FROM orchestrator_queue WHERE instance_key = ? AND operation = ? AND kind = 'timerFired'`,
      );
      const waiting = ({ instanceKey, timers = [] }: TurnAck) =>
        timers.filter((operation) => waits.get(instanceKey, operation) !== undefined);
      return {
        ackTurns: (acks) =>
          provider.ackTurns(acks.map((ack) => ({ ...ack, timers: waiting(ack) }))),
      };
    },
  },
  {
    fault: 'a fast turn with timers ignores other messages',
    rejectedBy: 'timer-turn/needs-no-other-message',
    override: (intact) =>
      beforeTimers(
        intact,
        `UPDATE orchestrator_queue SET visible_at = visible_at + ${later}
         WHERE instance_key = :instanceKey AND operation IS NOT :operation`,
      ),
  },
  {
    fault: 'a fast turn with timers is refused because of later messages',
    rejectedBy: 'timer-turn/leaves-what-came-later',
    override: ({ provider }) => ({
      ackTurns: (acks) => provider.ackTurns(acks.map(({ asOfMs: _asOfMs, ...ack }) => ack)),
    }),
  },
  {
    fault: 'a fast turn consumes timers by the clock of the worker',
    rejectedBy: 'timer-turn/a-time-to-come-takes-nothing-early',
    override: ({ provider, db }) => ({
      ackTurns(acks) {
        const hasten = db.prepare<[number, number]>(
          'UPDATE orchestrator_queue SET visible_at = 0 WHERE instance_key = ? AND visible_at <= ?',
        );
        for (const { instanceKey, asOfMs = 0 } of acks) hasten.run(instanceKey, asOfMs);
        return provider.ackTurns(acks);
      },
    }),
  },
  {
    fault: 'a fast turn consumes timers of a claimed instance',
    rejectedBy: 'timer-turn/needs-a-free-instance',
    override: (intact) =>
      beforeTimers(
        intact,
        `UPDATE instance_locks SET lock_token = NULL, locked_until = NULL
         WHERE instance_key = :instanceKey AND :operation > 0`,
      ),
  },
  {
    fault: 'a fast turn leaves its consumed timers in the queue',
    rejectedBy: 'timer-turn/takes-the-timers-with-it',
    override: ({ provider, db }) => ({
      async ackTurns(acks) {
        const results = await provider.ackTurns(acks);
        const idOf = db
          .prepare<[number], string>('SELECT instance_id FROM instances WHERE instance_key = ?')
          .pluck();
        const left = acks.flatMap(({ instanceKey, executionId, timers = [] }) =>
          timers.map((operation) => ({
            instanceId: idOf.get(instanceKey) ?? '',
            message: encodeMessage({ kind: 'timerFired', executionId, operation }),
          })),
        );
        await provider.enqueueMessages(left);
        return results;
      },
    }),
  },
];
