import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { JobKey } from '../../../src/providers/contract/sessions.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** The key of the existing job with this id. */
function byIdAlone({ db }: Intact, { instanceId }: JobKey): JobKey | undefined {
  return db
    .prepare<[string], JobKey>(
      `SELECT instance_id AS instanceId, incarnation, session_id AS sessionId
       FROM instances JOIN jobs USING (instance_key) JOIN sessions USING (session_key) WHERE instance_id = ?`,
    )
    .get(instanceId);
}

/** Runs SQL on the database right before jobs are abandoned. */
function beforeAbandoning({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    abandonJobs(jobs) {
      db.exec(sql);
      return provider.abandonJobs(jobs);
    },
  };
}

/** Jobs, each with one guard removed. */
export const brokenJobs: readonly BrokenProvider[] = [
  {
    fault: 'a session that ends accepts jobs',
    rejectedBy: 'job/needs-an-open-session',
    override: ({ provider, db }) => ({
      async submitJobs(jobs) {
        db.exec(`UPDATE sessions SET state = 'open'`);
        return provider.submitJobs(jobs);
      },
    }),
  },
  {
    fault: 'a job joins a run with the same input',
    rejectedBy: 'job/never-joins-a-run-of-others',
    override: ({ provider }) => ({
      async submitJobs(jobs) {
        const results = await provider.submitJobs(jobs);
        return results.map((result) => (result.kind === 'conflict' ? { kind: 'exists' } : result));
      },
    }),
  },
  {
    fault: 'a repeated submit returns conflict',
    rejectedBy: 'job/the-same-submit-exists',
    override: ({ provider }) => ({
      async submitJobs(jobs) {
        const results = await provider.submitJobs(jobs);
        return results.map((result) =>
          result.kind === 'exists' ? { kind: 'conflict', name: 'x' } : result,
        );
      },
    }),
  },
  {
    fault: 'a run is created without its job',
    rejectedBy: 'job/is-a-run-of-its-session',
    override: ({ provider, db }) => ({
      async submitJobs(jobs) {
        const results = await provider.submitJobs(jobs);
        db.exec('DELETE FROM jobs');
        return results;
      },
    }),
  },
  {
    fault: 'a job is found by its id alone, without its incarnation',
    rejectedBy: 'job/is-bound-to-its-session',
    override: ({ provider, db }) => ({
      getJobBindings: (jobs) =>
        provider.getJobBindings(
          jobs.map(({ instanceId, incarnation }) => ({
            instanceId,
            incarnation:
              db
                .prepare<[string], string>(
                  'SELECT incarnation FROM instances WHERE instance_id = ?',
                )
                .pluck()
                .get(instanceId) ?? incarnation,
          })),
        ),
    }),
  },
  {
    fault: 'a reply is taken from a run that has not ended',
    rejectedBy: 'job/cannot-be-taken-early',
    override: ({ db }) => ({
      async takeJobs() {
        db.exec('DELETE FROM jobs');
      },
    }),
  },
  {
    fault: 'a taken reply is not deleted',
    rejectedBy: 'job/a-taken-reply-ends-it',
    override: () => ({ takeJobs: async () => undefined }),
  },
  {
    fault: 'an abandon reaches another incarnation of the id',
    rejectedBy: 'job/is-meant-by-its-whole-key',
    override: (intact) => ({
      abandonJobs: (jobs) =>
        intact.provider.abandonJobs(jobs.map((job) => ({ ...job, ...byIdAlone(intact, job) }))),
    }),
  },
  {
    fault: 'an abandoned run is not asked to stop',
    rejectedBy: 'job/an-abandoned-run-is-asked-to-stop',
    override: ({ provider, db }) => ({
      async abandonJobs(jobs) {
        db.exec('UPDATE jobs SET abandoned_at = 1, check_at = 1');
        const [record] = await provider.getInstances(jobs.map(({ instanceId }) => instanceId));
        return [{ found: true, changed: true, status: record?.status ?? null }];
      },
    }),
  },
  {
    fault: 'a second abandon overwrites the first',
    rejectedBy: 'job/can-be-abandoned-twice',
    override: (intact) =>
      beforeAbandoning(intact, 'UPDATE jobs SET abandoned_at = NULL, check_at = NULL'),
  },
  {
    fault: 'a job whose reply was taken can be abandoned',
    rejectedBy: 'job/an-abandon-after-the-reply-changes-nothing',
    override: ({ provider, db }) => ({
      async abandonJobs(jobs) {
        db.exec(`INSERT INTO jobs (instance_key, session_key, is_task, name, disposable)
          SELECT instance_key, 1, 1, 'task', 1 FROM instances WHERE ended_at IS NOT NULL`);
        return provider.abandonJobs(jobs);
      },
    }),
  },
  {
    fault: 'an abandoned job is never deleted',
    rejectedBy: 'job/an-abandoned-one-is-forgotten-at-its-end',
    override: ({ provider, db }) => ({
      dueSessions(limit) {
        db.exec('UPDATE jobs SET check_at = NULL');
        return provider.dueSessions(limit);
      },
    }),
  },
  {
    fault: 'a job is not deleted with its instance',
    rejectedBy: 'job/goes-with-its-instance',
    override: ({ provider, db }) => ({
      async deleteInstancesAtomic(trees) {
        const chunks = db.prepare<[], unknown[]>('SELECT * FROM chunks').raw().all();
        const results = await provider.deleteInstancesAtomic(trees);
        const next = `(SELECT 1 + max(seq) FROM sqlite_sequence WHERE name = 'instances')`;
        db.exec(`INSERT INTO jobs (instance_key, session_key, is_task, name, disposable, last_seq)
          VALUES (${next}, 1, 1, 'task', 0, ${chunks.length})`);
        return results;
      },
    }),
  },
  {
    fault: 'jobs are listed in any order',
    rejectedBy: 'job/is-listed-oldest-first',
    override: ({ provider }) => ({
      listJobs: async (params) => (await provider.listJobs(params)).toReversed(),
    }),
  },
  {
    fault: 'late results are claimed by workers without the task',
    rejectedBy: 'abandoned/only-named-ones',
    override: ({ provider }) => ({
      claimAbandoned: (request) =>
        provider.claimAbandoned({ ...request, tasks: ['mine', 'theirs', 'task'] }),
    }),
  },
  {
    fault: 'a late result is claimed twice',
    rejectedBy: 'abandoned/has-one-claimant-at-a-time',
    override: ({ provider }) => ({
      claimAbandoned: (request) => provider.claimAbandoned({ ...request, lockMs: 0 }),
    }),
  },
  {
    fault: 'a late result that is not disposable is claimed',
    rejectedBy: 'abandoned/only-completed-disposable-ones',
    override: (intact) => beforeAbandoning(intact, 'UPDATE jobs SET disposable = 1'),
  },
  {
    fault: 'a result from before the abandon is not disposed of',
    rejectedBy: 'abandoned/a-result-that-came-before-it',
    override: (intact) => beforeAbandoning(intact, 'UPDATE jobs SET disposable = 0'),
  },
  {
    fault: 'a late result is not disposed of',
    rejectedBy: 'abandoned/a-late-result-is-claimed',
    override: ({ provider, db }) => ({
      dueSessions(limit) {
        db.exec('UPDATE jobs SET disposable = 0');
        return provider.dueSessions(limit);
      },
    }),
  },
  {
    fault: 'a failed disposal is not retried',
    rejectedBy: 'abandoned/is-retried-until-done',
    override: ({ provider }) => ({
      settleAbandoned: (settled) =>
        provider.settleAbandoned(settled.map(({ key }) => ({ key, retryInMs: null }))),
    }),
  },
];
