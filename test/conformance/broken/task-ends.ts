import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { WorkOutcome } from '../../../src/providers/contract/work-queue.ts';
import { lockedKey, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Runs SQL on the database right before acks. */
function beforeAcks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    ackWorkItems(acks) {
      db.exec(sql);
      return provider.ackWorkItems(acks);
    },
  };
}

/** Runs SQL on the database right after acks. */
function afterAcks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async ackWorkItems(acks) {
      const results = await provider.ackWorkItems(acks);
      db.exec(sql);
      return results;
    },
  };
}

/** Changes the outcomes that workers ack. */
function editOutcomes(
  { provider }: Intact,
  edit: (outcome: WorkOutcome) => WorkOutcome,
): Partial<Provider> {
  return {
    ackWorkItems: (acks) =>
      provider.ackWorkItems(acks.map((ack) => ({ ...ack, outcome: edit(ack.outcome) }))),
  };
}

/** Acks, stops and on-fail handlers of task runs, each with one guard removed. */
export const brokenTaskEnds: readonly BrokenProvider[] = [
  {
    fault: 'a run abandoned as unstarted counts as started',
    rejectedBy: 'expiry/goes-on-for-what-is-handed-back-unstarted',
    override: ({ provider }) => ({
      abandonWorkItems: (abandons) =>
        provider.abandonWorkItems(abandons.map((abandon) => ({ ...abandon, unstarted: false }))),
    }),
  },
  {
    fault: 'a retry that ends a run does not return its status',
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
    fault: 'the end of a run emits two hints',
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
    fault: 'a run canceled by its own handler has no cancel reason',
    rejectedBy: 'task-ack/a-handler-may-cancel-its-run',
    override: (intact) =>
      afterAcks(intact, 'UPDATE instances SET cancel_reason = NULL, cancel_requested_at = NULL'),
  },
  {
    fault: 'failed attempts are not counted',
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
    fault: 'a run is acked after its lease has expired',
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
    fault: 'a completion after a cancel request counts',
    rejectedBy: 'task-ack/of-a-flagged-run-is-discarded',
    override: (intact) => beforeAcks(intact, 'UPDATE worker_queue SET cancel_requested = 0'),
  },
  {
    fault: 'an ack returns the outcome of the handler instead of the final status',
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
    fault: 'a cancel request past the point of no return discards the outcome',
    rejectedBy: 'task-ack/past-the-point-of-no-return-counts',
    override: (intact) =>
      beforeAcks(
        intact,
        'UPDATE worker_queue SET cancel_requested = 1 WHERE cancel_requested_at IS NOT NULL',
      ),
  },
  {
    fault: 'the end of a run ends other runs',
    rejectedBy: 'task-ack/leaves-others-alone',
    override: (intact) =>
      afterAcks(
        intact,
        `UPDATE instances SET status = 'completed', ended_at = 1, completed_at = 1
         WHERE ended_at IS NULL AND priority IS NOT NULL`,
      ),
  },
  {
    fault: 'a canceled queued run keeps its work item',
    rejectedBy: 'task-cancel/a-queued-run-ends-at-once',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep BEFORE DELETE ON worker_queue BEGIN SELECT RAISE(IGNORE); END`);
      return {};
    },
  },
  {
    fault: 'a run canceled between attempts stays canceling',
    rejectedBy: 'task-cancel/between-attempts-ends-at-once',
    override: ({ provider, db }) => ({
      requestCancel(requests) {
        db.exec(`UPDATE worker_queue SET lock_token = 'nobody', locked_until = 9000000000000000`);
        return provider.requestCancel(requests);
      },
    }),
  },
  {
    fault: 'a run becomes canceled while its handler runs',
    rejectedBy: 'task-cancel/a-held-run-is-canceling',
    override: ({ provider, db, clock }) => ({
      requestCancel(requests) {
        db.prepare('UPDATE worker_queue SET locked_until = ?').run(clock.now());
        return provider.requestCancel(requests);
      },
    }),
  },
  {
    fault: 'a flagged run is retried',
    rejectedBy: 'task-cancel/a-handed-back-run-ends-instead',
    override: ({ provider, db }) => ({
      retryWorkItems(retries) {
        db.exec('UPDATE worker_queue SET cancel_requested = 0');
        return provider.retryWorkItems(retries);
      },
    }),
  },
  {
    fault: 'a canceling run waits for a worker with its code',
    rejectedBy: 'task-cancel/a-lost-worker-does-not-hold-it',
    override: ({ provider }) => ({
      fetchWorkItems: async (params) =>
        params.tasks?.length === 0 ? [] : provider.fetchWorkItems(params),
    }),
  },
  {
    fault: 'a later cancel of a run overwrites the first reason',
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
    fault: 'a late failure is stored on a completed run',
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
    fault: 'a late ack changes the status of a terminated run',
    rejectedBy: 'task-terminate/ends-at-once',
    override: (intact) =>
      beforeAcks(
        intact,
        `UPDATE instances SET status = 'running', ended_at = NULL, terminated_at = NULL
         WHERE status = 'terminated'`,
      ),
  },
  {
    fault: 'terminate() does not flag the work item of a run',
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
    fault: 'a deleted run leaves its work item',
    rejectedBy: 'task-delete/takes-everything-with-it',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep BEFORE DELETE ON worker_queue BEGIN SELECT RAISE(IGNORE); END`);
      return {};
    },
  },
  {
    fault: 'a failure queues no on-fail handler',
    rejectedBy: 'on-fail/follows-a-failure',
    override: ({ provider }) => ({
      createTasks: (tasks) =>
        provider.createTasks(tasks.map(({ onFail: _onFail, ...task }) => task)),
    }),
  },
  {
    fault: 'the on-fail handler waits behind queued runs',
    rejectedBy: 'on-fail/follows-a-failure',
    override: (intact) =>
      afterAcks(intact, 'UPDATE worker_queue SET priority = 0 WHERE operation = 2'),
  },
  {
    fault: 'the on-fail handler changes its run to completed',
    rejectedBy: 'on-fail/follows-a-failure',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER overwrite AFTER UPDATE ON instances WHEN NEW.on_fail = 'completed' AND NEW.status = 'failed'
        BEGIN UPDATE instances SET status = 'completed', failed_at = NULL, completed_at = ended_at
              WHERE instance_key = NEW.instance_key; END`);
      return {};
    },
  },
  {
    fault: 'an on-fail handler follows a skipped run',
    rejectedBy: 'on-fail/only-after-a-failure',
    override: (intact) =>
      editOutcomes(intact, (outcome) =>
        outcome.kind === 'skipped' ? { kind: 'failed', failure: '{}' } : outcome,
      ),
  },
  {
    fault: 'an on-fail handler given with the ack is not queued',
    rejectedBy: 'on-fail/may-come-with-the-ack',
    override: (intact) =>
      editOutcomes(intact, (outcome) =>
        outcome.kind === 'failed' ? { kind: 'failed', failure: outcome.failure } : outcome,
      ),
  },
  {
    fault: 'a retry of the on-fail handler counts as a failure of its run',
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
    fault: 'the on-fail handler is lost when its lease expires',
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
    fault: 'the failure of the on-fail handler is not stored',
    rejectedBy: 'on-fail/its-own-failure-is-kept',
    override: (intact) => afterAcks(intact, 'UPDATE instances SET on_fail_failure = NULL'),
  },
  {
    fault: 'a cancel of a failed run stops its on-fail handler',
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
    fault: 'a run is deleted before its on-fail handler has run',
    rejectedBy: 'on-fail/keeps-its-run-from-deletion',
    override: ({ provider }) => ({
      deleteInstancesAtomic: (trees) =>
        provider.deleteInstancesAtomic(trees.map((tree) => ({ ...tree, force: true }))),
    }),
  },
  {
    fault: 'a failure after a cancel queues the on-fail handler',
    rejectedBy: 'on-fail/a-late-failure-queues-none',
    override: (intact) => beforeAcks(intact, 'UPDATE worker_queue SET cancel_requested = 0'),
  },
];
