import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { WorkOutcome } from '../../../src/providers/contract/work-queue.ts';
import { lockedKey, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Does something below the provider right before acks. */
function beforeAcks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    ackWorkItems(acks) {
      db.exec(sql);
      return provider.ackWorkItems(acks);
    },
  };
}

/** Does something below the provider right after acks. */
function afterAcks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async ackWorkItems(acks) {
      const results = await provider.ackWorkItems(acks);
      db.exec(sql);
      return results;
    },
  };
}

/** Stores other outcomes than those that workers bring. */
function editOutcomes(
  { provider }: Intact,
  edit: (outcome: WorkOutcome) => WorkOutcome,
): Partial<Provider> {
  return {
    ackWorkItems: (acks) =>
      provider.ackWorkItems(acks.map((ack) => ({ ...ack, outcome: edit(ack.outcome) }))),
  };
}

/** Acks, stops and handlers for failures of task runs, each with one guard taken out. */
export const brokenTaskEnds: readonly BrokenProvider[] = [
  {
    fault: 'a run that is handed back unstarted counts as started',
    rejectedBy: 'expiry/goes-on-for-what-is-handed-back-unstarted',
    override: ({ provider }) => ({
      abandonWorkItems: (abandons) =>
        provider.abandonWorkItems(abandons.map((abandon) => ({ ...abandon, unstarted: false }))),
    }),
  },
  {
    fault: 'a hand-back that ends a run does not say so',
    rejectedBy: 'task-cancel/a-handed-back-run-ends-instead',
    override: ({ provider }) => ({
      retryWorkItems: async (retries) =>
        (await provider.retryWorkItems(retries)).map((result) => result !== false),
    }),
  },
  {
    fault: 'a run that completed has no output',
    rejectedBy: 'task-ack/completes-a-run',
    override: (intact) => afterAcks(intact, 'UPDATE instances SET output = NULL'),
  },
  {
    fault: 'the end of a run is told twice',
    rejectedBy: 'task-ack/completes-a-run',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          listener(hint);
          if (hint.kind === 'finished') listener(hint);
        }),
    }),
  },
  {
    fault: 'a skipped run counts as completed',
    rejectedBy: 'task-ack/skips-a-run',
    override: (intact) =>
      editOutcomes(intact, (outcome) =>
        outcome.kind === 'skipped' ? { kind: 'completed', payload: null } : outcome,
      ),
  },
  {
    fault: 'a run that fails for good does not count its last attempt',
    rejectedBy: 'task-ack/fails-a-run',
    override: (intact) => afterAcks(intact, 'UPDATE instances SET failures = failures - 1'),
  },
  {
    fault: 'a run that was never asked to stop has no reason for its cancellation',
    rejectedBy: 'task-ack/a-handler-may-cancel-its-run',
    override: (intact) =>
      afterAcks(intact, 'UPDATE instances SET cancel_reason = NULL, cancel_requested_at = NULL'),
  },
  {
    fault: 'failed attempts are not on record',
    rejectedBy: 'task-ack/counts-failures-over-attempts',
    override: ({ provider, db }) => ({
      async retryWorkItems(retries) {
        const results = await provider.retryWorkItems(retries);
        db.exec('UPDATE instances SET failures = 0');
        return results;
      },
    }),
  },
  {
    fault: 'a lease that has ended still settles a run',
    rejectedBy: 'task-ack/needs-a-held-item',
    override: ({ provider, db }) => ({
      ackWorkItems(acks) {
        const revive = db.prepare(
          'UPDATE worker_queue SET locked_until = 9e15 WHERE item_key = ? AND lock_token IS NOT NULL',
        );
        for (const { lockToken } of acks) revive.run(lockedKey(lockToken) || -1);
        return provider.ackWorkItems(acks);
      },
    }),
  },
  {
    fault: 'a completion that comes after the request to stop counts',
    rejectedBy: 'task-ack/of-a-flagged-run-is-discarded',
    override: (intact) => beforeAcks(intact, 'UPDATE worker_queue SET cancel_requested = 0'),
  },
  {
    fault: 'an ack answers what the handler brought and not how the run ended',
    rejectedBy: 'task-ack/of-a-flagged-run-is-discarded',
    override: ({ provider }) => ({
      async ackWorkItems(acks) {
        const results = await provider.ackWorkItems(acks);
        return results.map((result, index) => {
          const ended = acks[index]?.outcome.kind;
          return result.ok && ended !== undefined ? { ...result, ended } : result;
        });
      },
    }),
  },
  {
    fault: 'a request past the point of no return discards the outcome',
    rejectedBy: 'task-ack/past-the-point-of-no-return-counts',
    override: (intact) =>
      beforeAcks(
        intact,
        'UPDATE worker_queue SET cancel_requested = 1 WHERE cancel_requested_at IS NOT NULL',
      ),
  },
  {
    fault: 'the end of a run ends its neighbours',
    rejectedBy: 'task-ack/leaves-others-alone',
    override: (intact) =>
      afterAcks(
        intact,
        `UPDATE instances SET status = 'completed', ended_at = 1, completed_at = 1
         WHERE ended_at IS NULL AND priority IS NOT NULL`,
      ),
  },
  {
    fault: 'a queued run that is canceled waits for a worker to end it',
    rejectedBy: 'task-cancel/a-queued-run-ends-at-once',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep BEFORE DELETE ON worker_queue BEGIN SELECT RAISE(IGNORE); END`);
      return {};
    },
  },
  {
    fault: 'a run between attempts is canceling, and nobody ends it',
    rejectedBy: 'task-cancel/between-attempts-ends-at-once',
    override: ({ provider, db }) => ({
      requestCancel(requests) {
        db.exec(`UPDATE worker_queue SET lock_token = 'nobody', locked_until = 9000000000000000`);
        return provider.requestCancel(requests);
      },
    }),
  },
  {
    fault: 'a run is canceled while its handler goes on',
    rejectedBy: 'task-cancel/a-held-run-is-canceling',
    override: ({ provider, db, clock }) => ({
      requestCancel(requests) {
        db.prepare('UPDATE worker_queue SET locked_until = ?').run(clock.now());
        return provider.requestCancel(requests);
      },
    }),
  },
  {
    fault: 'a run that was asked to stop is tried again',
    rejectedBy: 'task-cancel/a-handed-back-run-ends-instead',
    override: ({ provider, db }) => ({
      retryWorkItems(retries) {
        db.exec('UPDATE worker_queue SET cancel_requested = 0');
        return provider.retryWorkItems(retries);
      },
    }),
  },
  {
    fault: 'a canceling run waits for a worker that knows it',
    rejectedBy: 'task-cancel/a-lost-worker-does-not-hold-it',
    override: ({ provider }) => ({
      fetchWorkItems: async (params) =>
        params.tasks?.length === 0 ? [] : provider.fetchWorkItems(params),
    }),
  },
  {
    fault: 'the newest cancel of a run is the one on record',
    rejectedBy: 'task-cancel/the-first-request-is-kept',
    override: ({ provider, db }) => ({
      async requestCancel(requests) {
        const results = await provider.requestCancel(requests);
        const overwrite = db.prepare(
          'UPDATE instances SET cancel_reason = ? WHERE instance_id = ?',
        );
        for (const { reason, instanceId } of requests) overwrite.run(reason, instanceId);
        return results;
      },
    }),
  },
  {
    fault: 'a failure overwrites the end of a run that has completed',
    rejectedBy: 'task-cancel/races-have-one-winner',
    override: ({ provider, db }) => ({
      async ackWorkItems(acks) {
        const results = await provider.ackWorkItems(acks);
        const fail = acks.some(({ outcome }) => outcome.kind === 'failed');
        if (fail) db.exec(`UPDATE instances SET failure = '{}'`);
        return results;
      },
    }),
  },
  {
    fault: 'a late ack gives a terminated run another end',
    rejectedBy: 'task-terminate/ends-at-once',
    override: (intact) =>
      beforeAcks(
        intact,
        `UPDATE instances SET status = 'running', ended_at = NULL, terminated_at = NULL
         WHERE status = 'terminated'`,
      ),
  },
  {
    fault: 'a terminated run does not tell its handler',
    rejectedBy: 'task-terminate/ends-at-once',
    override: ({ provider, db }) => ({
      async terminate(requests) {
        const results = await provider.terminate(requests);
        db.exec('UPDATE worker_queue SET cancel_requested = 0');
        return results;
      },
    }),
  },
  {
    fault: 'a deleted run leaves its item',
    rejectedBy: 'task-delete/takes-everything-with-it',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep BEFORE DELETE ON worker_queue BEGIN SELECT RAISE(IGNORE); END`);
      return {};
    },
  },
  {
    fault: 'no handler follows a failure',
    rejectedBy: 'on-fail/follows-a-failure',
    override: ({ provider }) => ({
      createTasks: (tasks) =>
        provider.createTasks(tasks.map(({ onFail: _onFail, ...task }) => task)),
    }),
  },
  {
    fault: 'the handler for failures waits behind runs that have not begun',
    rejectedBy: 'on-fail/follows-a-failure',
    override: (intact) =>
      afterAcks(intact, 'UPDATE worker_queue SET priority = 0 WHERE operation = 2'),
  },
  {
    fault: 'the handler for failures makes its run complete',
    rejectedBy: 'on-fail/follows-a-failure',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER mend AFTER UPDATE ON instances WHEN NEW.on_fail = 'completed' AND NEW.status = 'failed'
        BEGIN UPDATE instances SET status = 'completed', failed_at = NULL, completed_at = ended_at
              WHERE instance_key = NEW.instance_key; END`);
      return {};
    },
  },
  {
    fault: 'a handler for failures follows every end',
    rejectedBy: 'on-fail/only-after-a-failure',
    override: (intact) =>
      editOutcomes(intact, (outcome) =>
        outcome.kind === 'skipped' ? { kind: 'failed', failure: '{}' } : outcome,
      ),
  },
  {
    fault: 'a handler that the worker brings is not kept',
    rejectedBy: 'on-fail/may-come-with-the-ack',
    override: (intact) =>
      editOutcomes(intact, (outcome) =>
        outcome.kind === 'failed' ? { kind: 'failed', failure: outcome.failure } : outcome,
      ),
  },
  {
    fault: 'a retry of the handler for failures counts as one of its run',
    rejectedBy: 'on-fail/has-its-own-attempts',
    override: ({ provider, db }) => ({
      async retryWorkItems(retries) {
        const results = await provider.retryWorkItems(retries);
        db.exec('UPDATE instances SET failures = failures + 1');
        return results;
      },
    }),
  },
  {
    fault: 'the handler for failures is lost with its worker',
    rejectedBy: 'on-fail/survives-a-lost-worker',
    override: ({ provider, db, clock }) => ({
      fetchWorkItems(params) {
        db.prepare('DELETE FROM worker_queue WHERE operation = 2 AND locked_until <= ?').run(
          clock.now(),
        );
        return provider.fetchWorkItems(params);
      },
    }),
  },
  {
    fault: 'why the handler for failures failed is forgotten',
    rejectedBy: 'on-fail/its-own-failure-is-kept',
    override: (intact) => afterAcks(intact, 'UPDATE instances SET on_fail_failure = NULL'),
  },
  {
    fault: 'a cancel of a failed run stops its handler for failures',
    rejectedBy: 'on-fail/is-not-stopped',
    override: ({ provider, db }) => ({
      async requestCancel(requests) {
        const results = await provider.requestCancel(requests);
        db.exec(
          `UPDATE worker_queue SET cancel_requested = 1, cancel_requested_at = 1, cancel_trigger = 'cancel'`,
        );
        return results;
      },
    }),
  },
  {
    fault: 'a run is deleted although its handler for failures has still to run',
    rejectedBy: 'on-fail/keeps-its-run-from-deletion',
    override: ({ provider }) => ({
      deleteInstancesAtomic: (trees) =>
        provider.deleteInstancesAtomic(trees.map((tree) => ({ ...tree, force: true }))),
    }),
  },
  {
    fault: 'a failure after a cancel queues the handler for failures',
    rejectedBy: 'on-fail/a-late-failure-queues-none',
    override: (intact) => beforeAcks(intact, 'UPDATE worker_queue SET cancel_requested = 0'),
  },
];
