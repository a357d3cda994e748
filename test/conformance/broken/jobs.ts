import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { JobKey } from '../../../src/providers/contract/sessions.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Takes every key of an id for the one that is there. */
function byIdAlone({ db }: Intact, { instanceId }: JobKey): JobKey | undefined {
  return db
    .prepare<[string], JobKey>(
      `SELECT instance_id AS instanceId, incarnation, session_id AS sessionId
       FROM instances JOIN jobs USING (instance_key) JOIN sessions USING (session_key) WHERE instance_id = ?`,
    )
    .get(instanceId);
}

/** Changes something below the provider right before jobs are abandoned. */
function beforeAbandoning({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    abandonJobs(jobs) {
      db.exec(sql);
      return provider.abandonJobs(jobs);
    },
  };
}

/** Jobs, each with one guard taken out. */
export const brokenJobs: readonly BrokenProvider[] = [
  {
    fault: 'jobs are taken by sessions that end',
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
    fault: 'a submit that is repeated is a conflict with itself',
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
    fault: 'a job is named by its id, whatever its incarnation',
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
    fault: 'a reply is taken from a run that goes on',
    rejectedBy: 'job/cannot-be-taken-early',
    override: ({ db }) => ({
      async takeJobs() {
        db.exec('DELETE FROM jobs');
      },
    }),
  },
  {
    fault: 'a reply that was taken is kept',
    rejectedBy: 'job/a-taken-reply-ends-it',
    override: () => ({ takeJobs: async () => undefined }),
  },
  {
    fault: 'a cancel hits another life of the id',
    rejectedBy: 'job/is-meant-by-its-whole-key',
    override: (intact) => ({
      abandonJobs: (jobs) =>
        intact.provider.abandonJobs(jobs.map((job) => ({ ...job, ...byIdAlone(intact, job) }))),
    }),
  },
  {
    fault: 'an abandoned run goes on',
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
    fault: 'a second abandon is the one on record',
    rejectedBy: 'job/can-be-abandoned-twice',
    override: (intact) =>
      beforeAbandoning(intact, 'UPDATE jobs SET abandoned_at = NULL, check_at = NULL'),
  },
  {
    fault: 'a job whose reply was taken is abandoned all the same',
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
    fault: 'an abandoned job is never forgotten',
    rejectedBy: 'job/an-abandoned-one-is-forgotten-at-its-end',
    override: ({ provider, db }) => ({
      dueSessions(limit) {
        db.exec('UPDATE jobs SET check_at = NULL');
        return provider.dueSessions(limit);
      },
    }),
  },
  {
    fault: 'a job stays when its instance is deleted',
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
    fault: 'late results are handed to everybody',
    rejectedBy: 'abandoned/only-named-ones',
    override: ({ provider }) => ({
      claimAbandoned: (request) =>
        provider.claimAbandoned({ ...request, tasks: ['mine', 'theirs', 'task'] }),
    }),
  },
  {
    fault: 'a late result has several claimants',
    rejectedBy: 'abandoned/has-one-claimant-at-a-time',
    override: ({ provider }) => ({
      claimAbandoned: (request) => provider.claimAbandoned({ ...request, lockMs: 0 }),
    }),
  },
  {
    fault: 'a result that nobody can dispose of is handed out',
    rejectedBy: 'abandoned/only-completed-disposable-ones',
    override: (intact) => beforeAbandoning(intact, 'UPDATE jobs SET disposable = 1'),
  },
  {
    fault: 'a result that came before the abandon is forgotten',
    rejectedBy: 'abandoned/a-result-that-came-before-it',
    override: (intact) => beforeAbandoning(intact, 'UPDATE jobs SET disposable = 0'),
  },
  {
    fault: 'a late result is forgotten',
    rejectedBy: 'abandoned/a-late-result-is-claimed',
    override: ({ provider, db }) => ({
      dueSessions(limit) {
        db.exec('UPDATE jobs SET disposable = 0');
        return provider.dueSessions(limit);
      },
    }),
  },
  {
    fault: 'a failed attempt to dispose of a result is the last',
    rejectedBy: 'abandoned/is-retried-until-done',
    override: ({ provider }) => ({
      settleAbandoned: (settled) =>
        provider.settleAbandoned(settled.map(({ key }) => ({ key, retryInMs: null }))),
    }),
  },
];
