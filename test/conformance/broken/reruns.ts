import type { InstanceFork, InstanceRetry } from '../../../src/providers/contract/reruns.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Runs SQL on the database right before or after a retry or a fork. */
function around(
  { provider, db }: Intact,
  { before = '', after = '' }: { readonly before?: string; readonly after?: string },
): Partial<Provider> {
  const run = async <Result>(call: () => Promise<Result>): Promise<Result> => {
    db.exec(before);
    const result = await call();
    db.exec(after);
    return result;
  };
  return {
    retryInstances: (retries) => run(() => provider.retryInstances(retries)),
    forkInstances: (forks) => run(() => provider.forkInstances(forks)),
  };
}

function editRetries(
  { provider }: Intact,
  edit: (retry: InstanceRetry) => InstanceRetry,
): Partial<Provider> {
  return { retryInstances: (retries) => provider.retryInstances(retries.map(edit)) };
}

function editForks(
  { provider }: Intact,
  edit: (fork: InstanceFork) => InstanceFork,
): Partial<Provider> {
  return { forkInstances: (forks) => provider.forkInstances(forks.map(edit)) };
}

export const brokenReruns: readonly BrokenProvider[] = [
  {
    fault: 'a retry changes a completed instance',
    rejectedBy: 'retry-run/rejects-what-cannot-be-retried',
    override: (intact) =>
      around(intact, {
        before: `UPDATE instances SET status = 'failed', failed_at = completed_at, completed_at = NULL
                 WHERE status = 'completed'`,
      }),
  },
  {
    fault: 'a retry leaves the ended execution unreadable',
    rejectedBy: 'retry-run/keeps-the-ended-execution',
    override: (intact) => around(intact, { after: 'DELETE FROM executions' }),
  },
  {
    fault: 'a retry moves the events of the ended execution',
    rejectedBy: 'retry-run/keeps-the-ended-execution',
    override: (intact) =>
      around(intact, { after: 'DELETE FROM history WHERE execution_id = 1 AND event_id > 2' }),
  },
  {
    fault: 'a late outcome of the ended execution reaches the retried instance',
    rejectedBy: 'retry-run/a-late-outcome-is-dropped',
    override: (intact) =>
      around(intact, {
        after: `UPDATE worker_queue SET execution_id = 2, operation = 99, cancel_requested = 0
                WHERE execution_id = 1`,
      }),
  },
  {
    fault: 'a retry schedules its work twice',
    rejectedBy: 'retry-run/schedules-what-is-open',
    override: (intact) =>
      editRetries(intact, (retry) => {
        const { turn } = retry.start ?? {};
        if (retry.start === undefined || turn === undefined) return retry;
        const again = turn.workItems.map((item) => ({ ...item, operation: item.operation + 100 }));
        const workItems = [...turn.workItems, ...again];
        return { ...retry, start: { ...retry.start, turn: { ...turn, workItems } } };
      }),
  },
  {
    fault: 'a retry leaves the end of the instance',
    rejectedBy: 'retry-run/makes-the-instance-live',
    override: (intact) =>
      around(intact, {
        after: `UPDATE instances SET terminate_reason = 'old' WHERE execution_id = 2`,
      }),
  },
  {
    fault: 'a retry does not check the execution that it was computed from',
    rejectedBy: 'retry-run/rejects-another-execution',
    override: ({ provider, db }) => ({
      retryInstances: (retries) =>
        provider.retryInstances(
          retries.map((retry) => {
            const row = db
              .prepare<[string], { executionId: number; historyLength: number }>(
                `SELECT execution_id AS executionId, history_length AS historyLength
                 FROM instances WHERE instance_id = ?`,
              )
              .get(retry.source.instanceId);
            return { ...retry, source: { ...retry.source, ...row } };
          }),
        ),
    }),
  },
  {
    fault: 'a retried task run does not hold its dedupe key',
    rejectedBy: 'retry-run/runs-a-task-again',
    override: (intact) => around(intact, { after: 'DELETE FROM dedupe_keys' }),
  },
  {
    fault: 'a task run is retried while another run holds its dedupe key',
    rejectedBy: 'retry-run/a-taken-key-rejects',
    override: (intact) => around(intact, { before: 'DELETE FROM dedupe_keys' }),
  },
  {
    fault: 'a retried instance does not hold its dedupe key',
    rejectedBy: 'retry-run/takes-its-key-again',
    override: (intact) => around(intact, { after: 'DELETE FROM dedupe_keys' }),
  },
  {
    fault: 'an instance is retried while a live one holds its dedupe key',
    rejectedBy: 'retry-run/takes-its-key-again',
    override: (intact) => around(intact, { before: 'DELETE FROM dedupe_keys' }),
  },
  {
    fault: 'a retry is not audited',
    rejectedBy: 'retry-run/is-audited',
    override: (intact) => around(intact, { after: 'DELETE FROM audit' }),
  },
  {
    fault: 'a bulk operation can retry an instance twice',
    rejectedBy: 'retry-run/a-bulk-operation-retries-once',
    override: ({ provider }) => ({
      retryInstances: (retries) =>
        provider.retryInstances(retries.map(({ bulkKey: _ignored, ...retry }) => retry)),
    }),
  },
  {
    fault: 'a retry leaves the instance paused',
    rejectedBy: 'retry-run/of-a-paused-instance-is-not-paused',
    override: (intact) => around(intact, { after: 'UPDATE instances SET paused_at = 1' }),
  },
  {
    fault: 'a retry deletes the tags of its instance',
    rejectedBy: 'retry-run/keeps-the-tags',
    override: (intact) => around(intact, { after: 'UPDATE instances SET tags = NULL' }),
  },
  {
    fault: 'a fork is not listed by its tags',
    rejectedBy: 'fork/stores-its-tags',
    override: (intact) => around(intact, { after: 'DELETE FROM instance_tags' }),
  },
  {
    fault: 'a fork changes its original',
    rejectedBy: 'fork/leaves-its-original-unchanged',
    override: (intact) =>
      around(intact, { after: `UPDATE instances SET custom_status = '1' WHERE instance_id = 'a'` }),
  },
  {
    fault: 'a fork copies more than the kept events',
    rejectedBy: 'fork/copies-the-kept-events',
    override: (intact) =>
      editForks(intact, (fork) => {
        const { kept } = fork.start;
        if (kept === undefined) return fork;
        return { ...fork, start: { ...fork.start, kept: { ...kept, length: kept.length + 1 } } };
      }),
  },
  {
    fault: 'a fork takes the id of another instance',
    rejectedBy: 'fork/a-taken-id-conflicts',
    override: (intact) =>
      around(intact, { before: `DELETE FROM instances WHERE instance_id = 'taken'` }),
  },
  {
    fault: 'a fork ignores how long its source is',
    rejectedBy: 'fork/rejects-a-missing-source',
    override: (intact) =>
      editForks(intact, (fork) => ({ ...fork, source: { ...fork.source, historyLength: 2 } })),
  },
];
