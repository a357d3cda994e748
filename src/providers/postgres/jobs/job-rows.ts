import type { InstanceStatus } from '../../../model/status.ts';
import type { AbandonedResult, JobBinding, JobKey, JobRecord } from '../../contract/sessions.ts';
import { keys, one, prepare, rowsOf, strings, rowIdOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { outputOf } from '../tables/instance-rows.ts';
import { RunState } from '../tables/task-rows.ts';
import { nowSql } from '../driver/scope.ts';

interface NewRow {
  readonly instanceKey: number;
  readonly sessionKey: number;
  readonly isTask: boolean;
  readonly name: string;
  readonly disposable: boolean;
}

/** A job with the state of its run. */
export interface JobRow {
  readonly instanceKey: number;
  readonly sessionId: string | null;
  readonly disposable: boolean;
  readonly status: InstanceStatus;
  readonly abandonedAt: number | null;
  readonly disposeAt: number | null;
}

/** The instance that has an id. */
export interface IdHolder {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly definitionKey: number;
}

interface ClaimedRow extends JobKey {
  readonly isTask: boolean;
  readonly name: string;
  readonly output: string | null;
  readonly attempts: number;
}

type ListedRow = Omit<JobRecord, 'kind'> & { readonly isTask: boolean };

/** When sessions and jobs have to be processed next. */
export interface NextJobTimes {
  readonly now: number;
  /** When the next session is due. */
  readonly dueAt: number | null;
  /** When the next abandoned run has to be checked. */
  readonly checkAt: number | null;
  /** When the next late result can be claimed. */
  readonly disposeAt: number | null;
}

interface JobTimes {
  readonly instanceKey: number;
  readonly checkAt: number | null;
  readonly disposeAt: number | null;
}

/** Reads and writes `jobs`. A call locks its rows in key order. */
export class JobRows {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /** The instances that have these ids. */
  async holders(tx: Transaction, instanceIds: readonly string[]): Promise<readonly IdHolder[]> {
    return tx.query<IdHolder>(...this.#statements.holders({ instanceIds }));
  }

  async insert(tx: Transaction, rows: readonly NewRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#statements.insert({ rows }));
  }

  /** Locks the jobs of these instance ids. */
  lock(tx: Transaction, instanceIds: readonly string[]): Promise<readonly (JobRow & JobKey)[]> {
    return tx.query<JobRow & JobKey>(...this.#statements.lock({ instanceIds }));
  }

  async lockByKey(tx: Transaction, keys: readonly number[]): Promise<readonly JobRow[]> {
    return keys.length === 0 ? [] : tx.query<JobRow>(...this.#statements.lockByKey({ keys }));
  }

  /** The keys of jobs of a session that are not abandoned. */
  async selectOpen(tx: Transaction, sessionKey: number, limit: number): Promise<readonly number[]> {
    const select = this.#statements.selectOpen({ sessionKey, limit });
    return (await tx.query<{ instanceKey: number }>(...select)).map(
      ({ instanceKey }) => instanceKey,
    );
  }

  /** Locks abandoned jobs of a session whose runs have ended. */
  lockEnded(tx: Transaction, sessionKey: number, limit: number): Promise<readonly JobRow[]> {
    return tx.query<JobRow>(...this.#statements.lockEnded({ sessionKey, limit }));
  }

  /** Locks abandoned jobs that are due for a check of their runs. */
  lockToCheck(tx: Transaction, now: number, limit: number): Promise<readonly JobRow[]> {
    return tx.query<JobRow>(...this.#statements.lockToCheck({ at: now, limit }));
  }

  /** Marks jobs as abandoned, and deletes their chunks. */
  async abandon(
    tx: Transaction,
    keys: readonly number[],
    { now, checkAt }: { readonly now: number; readonly checkAt: number },
  ): Promise<void> {
    if (keys.length > 0) await tx.execute(...this.#statements.abandon({ keys, at: now, checkAt }));
  }

  /** Sets when to check runs, and from when on their late results can be claimed. */
  async setTimes(tx: Transaction, times: readonly JobTimes[]): Promise<void> {
    if (times.length > 0) await tx.execute(...this.#statements.setTimes({ times }));
  }

  /** Claims late results of runs with these names. */
  async claim(
    tx: Transaction,
    request: {
      readonly orchestrations: readonly string[];
      readonly tasks: readonly string[];
      readonly limit: number;
      readonly lockMs: number;
    },
    nowParameter: number | null,
  ): Promise<readonly AbandonedResult[]> {
    const { orchestrations, tasks } = request;
    const limit = Math.max(request.limit, 0);
    const lockMs = Math.ceil(request.lockMs);
    const rows = await tx.query<ClaimedRow>(
      ...this.#statements.claim({ now: nowParameter, orchestrations, tasks, limit, lockMs }),
    );
    return rows.map(({ isTask, name, output, attempts, ...key }) => ({
      key,
      kind: isTask ? 'task' : 'orchestration',
      name,
      output,
      attempt: attempts,
    }));
  }

  /** The clock, and when sessions and jobs have to be processed next. */
  async nextAt(tx: Transaction, nowParameter: number | null): Promise<NextJobTimes> {
    const [row] = await tx.query<NextJobTimes>(...this.#statements.nextAt({ now: nowParameter }));
    if (row === undefined) throw new Error('The query for the next session returned no row.');
    return row;
  }

  /** Marks all jobs of sessions as abandoned. Returns the sessions that have jobs. */
  async abandonAll(
    tx: Transaction,
    sessionKeys: readonly number[],
    now: number,
  ): Promise<ReadonlySet<number>> {
    if (sessionKeys.length === 0) return new Set();
    const [, rows] = await Promise.all([
      tx.execute(...this.#statements.abandonAll({ sessionKeys, at: now })),
      tx.query<{ sessionKey: number }>(...this.#statements.sessionsWithJobs({ sessionKeys })),
    ]);
    return new Set(rows.map(({ sessionKey }) => sessionKey));
  }

  /** The sessions and names of jobs, in input order. */
  async bindings(
    tx: Transaction,
    jobs: readonly Omit<JobKey, 'sessionId'>[],
  ): Promise<readonly (JobBinding | undefined)[]> {
    const instanceIds = [...new Set(jobs.map(({ instanceId }) => instanceId))];
    const rows = await tx.query<JobBinding & JobKey>(...this.#statements.bindings({ instanceIds }));
    const byId = new Map(rows.map((row) => [row.instanceId, row]));
    return jobs.map(({ instanceId, incarnation }) => {
      const row = byId.get(instanceId);
      if (row?.incarnation !== incarnation) return undefined;
      return { sessionId: row.sessionId, name: row.name };
    });
  }

  async list(
    tx: Transaction,
    page: { readonly sessionId: string; readonly after: number; readonly limit: number },
  ): Promise<readonly JobRecord[]> {
    const limit = Math.max(page.limit, 0);
    const rows = await tx.query<ListedRow>(...this.#statements.list({ ...page, limit }));
    return rows.map(({ isTask, ...row }) => ({
      ...row,
      kind: isTask ? 'task' : 'orchestration',
    }));
  }

  /** Deletes jobs with their chunks. */
  async delete(tx: Transaction, keys: readonly number[]): Promise<void> {
    if (keys.length > 0) await tx.execute(...this.#statements.delete({ keys }));
  }
}

const newRows = rowsOf<NewRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  session_key: ['bigint', ({ sessionKey }) => sessionKey],
  is_task: ['boolean', ({ isTask }) => isTask],
  name: ['text', ({ name }) => name],
  disposable: ['boolean', ({ disposable }) => disposable],
});
const timeRows = rowsOf<JobTimes>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  check_at: ['bigint', ({ checkAt }) => checkAt],
  dispose_at: ['bigint', ({ disposeAt }) => disposeAt],
});

function statements(schema: string) {
  const table = `${schema}.jobs`;
  const number = one<number>('bigint');
  const sessionId = `(SELECT session_id FROM ${schema}.sessions AS session
      WHERE session.session_key = job.session_key) AS "sessionId"`;
  const columns = `job.instance_key AS "instanceKey", ${sessionId}, disposable, status,
      abandoned_at AS "abandonedAt", dispose_at AS "disposeAt"`;
  // OFFSET 0 keeps the join order, from each job to its run.
  const jobs = `${table} AS job CROSS JOIN LATERAL (
      SELECT instance_id, incarnation, status, ended_at FROM ${schema}.instances AS one
      WHERE one.instance_key = job.instance_key OFFSET 0) AS instance`;
  const ofRun = (expression: string) =>
    `(SELECT ${expression} FROM ${schema}.instances AS one WHERE one.instance_key = job.instance_key)`;
  return {
    holders: prepare(
      'perdure_select_id_holders',
      { instanceIds: strings() },
      ({ instanceIds }) =>
        `SELECT instance_id AS "instanceId", incarnation, definition_key AS "definitionKey"
        FROM ${schema}.instances WHERE instance_id = ANY (${instanceIds})`,
    ),
    insert: prepare(
      'perdure_insert_jobs',
      { rows: newRows },
      ({ rows }) =>
        `INSERT INTO ${table} (${rows.names}) SELECT ${rows.names} FROM ${rows.as('new')}`,
    ),
    lock: prepare(
      'perdure_lock_jobs',
      { instanceIds: strings() },
      ({ instanceIds }) => `SELECT ${columns}, instance_id AS "instanceId", incarnation FROM ${jobs}
        WHERE job.instance_key = ANY (ARRAY(
          SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY (${instanceIds})))
        ORDER BY job.instance_key FOR UPDATE OF job`,
    ),
    lockByKey: prepare(
      'perdure_lock_jobs_by_key',
      { keys: keys() },
      ({ keys }) => `SELECT ${columns} FROM ${jobs} WHERE job.instance_key = ANY (${keys})
        ORDER BY job.instance_key FOR UPDATE OF job`,
    ),
    selectOpen: prepare(
      'perdure_select_open_jobs',
      { sessionKey: number, limit: number },
      ({ sessionKey, limit }) => `SELECT instance_key AS "instanceKey" FROM ${table}
        WHERE session_key = ${sessionKey} AND abandoned_at IS NULL LIMIT ${limit}`,
    ),
    lockEnded: prepare(
      'perdure_lock_ended_jobs',
      { sessionKey: number, limit: number },
      ({ sessionKey, limit }) => `SELECT ${columns} FROM ${jobs}
        WHERE session_key = ${sessionKey} AND abandoned_at IS NOT NULL AND dispose_at IS NULL
          AND instance.ended_at IS NOT NULL
        ORDER BY job.instance_key LIMIT ${limit} FOR UPDATE OF job`,
    ),
    lockToCheck: prepare(
      'perdure_lock_jobs_to_check',
      { at: number, limit: number },
      ({ at, limit }) => `SELECT ${columns} FROM ${jobs} WHERE check_at <= ${at}
        ORDER BY check_at LIMIT ${limit} FOR UPDATE OF job SKIP LOCKED`,
    ),
    abandon: prepare(
      'perdure_abandon_jobs',
      { keys: keys(), at: number, checkAt: number },
      ({ keys, at, checkAt }) =>
        `WITH gone AS (DELETE FROM ${schema}.chunks WHERE instance_key = ANY (${keys}))
        UPDATE ${table} SET abandoned_at = ${at}, check_at = ${checkAt}, waiting_chunks = 0, waiting_bytes = 0
        WHERE instance_key = ANY (${keys})`,
    ),
    setTimes: prepare(
      'perdure_set_job_times',
      { times: timeRows },
      ({ times }) =>
        `UPDATE ${table} AS job SET check_at = times.check_at, dispose_at = times.dispose_at
        FROM ${times.as('times')}
        ${rowIdOf(table, 'one.instance_key = times.instance_key')}
        WHERE job.ctid = found.row_id`,
    ),
    claim: prepare(
      'perdure_claim_abandoned',
      {
        now: one<number | null>('bigint'),
        tasks: strings(),
        orchestrations: strings(),
        limit: number,
        lockMs: number,
      },
      ({ tasks, orchestrations, limit, lockMs }) => `WITH due AS MATERIALIZED (
          SELECT instance_key FROM ${table}
          WHERE dispose_at <= ${nowSql} AND name = ANY (CASE WHEN is_task THEN ${tasks} ELSE ${orchestrations} END)
          ORDER BY dispose_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)
        UPDATE ${table} AS job SET dispose_at = ${nowSql} + ${lockMs}, attempts = attempts + 1
        WHERE job.instance_key = ANY (ARRAY(SELECT instance_key FROM due))
        RETURNING ${sessionId}, ${ofRun('instance_id')} AS "instanceId", ${ofRun('incarnation')} AS incarnation,
          is_task AS "isTask", name, ${ofRun(outputOf(schema, 'one'))} AS output, attempts`,
    ),
    nextAt: prepare(
      'perdure_next_session',
      { now: one<number | null>('bigint') },
      () =>
        `SELECT ${nowSql} AS now, (SELECT due_at FROM ${schema}.sessions ORDER BY due_at LIMIT 1) AS "dueAt",
          (SELECT check_at FROM ${table} WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1) AS "checkAt",
          (SELECT dispose_at FROM ${table} WHERE dispose_at IS NOT NULL ORDER BY dispose_at LIMIT 1) AS "disposeAt"`,
    ),
    abandonAll: prepare(
      'perdure_abandon_jobs_of_sessions',
      { sessionKeys: keys(), at: number },
      ({ sessionKeys, at }) => `UPDATE ${table} SET abandoned_at = ${at}, check_at = ${at}
        WHERE session_key = ANY (${sessionKeys}) AND abandoned_at IS NULL`,
    ),
    sessionsWithJobs: prepare(
      'perdure_sessions_with_jobs',
      { sessionKeys: keys() },
      ({ sessionKeys }) =>
        `SELECT session_key AS "sessionKey" FROM unnest(${sessionKeys}) AS wanted (session_key)
        WHERE (SELECT 1 FROM ${table} AS job WHERE job.session_key = wanted.session_key LIMIT 1) IS NOT NULL`,
    ),
    bindings: prepare(
      'perdure_select_job_bindings',
      { instanceIds: strings() },
      ({ instanceIds }) =>
        `SELECT instance.instance_id AS "instanceId", instance.incarnation, ${sessionId}, name
        FROM unnest(${instanceIds}) AS wanted (instance_id) CROSS JOIN LATERAL (
            SELECT instance_key, instance_id, incarnation FROM ${schema}.instances AS one
            WHERE one.instance_id = wanted.instance_id LIMIT 1) AS instance
          CROSS JOIN LATERAL (
            SELECT session_key, name FROM ${table} AS one
            WHERE one.instance_key = instance.instance_key LIMIT 1) AS job`,
    ),
    list: prepare(
      'perdure_list_jobs',
      { sessionId: one<string>('text'), after: number, limit: number },
      ({ sessionId, after, limit }) =>
        `SELECT job.instance_key AS "jobKey", session_id AS "sessionId", instance_id AS "instanceId", incarnation,
          is_task AS "isTask", name, ${new RunState(schema).status('instance')} AS status, disposable, instance.created_at AS "createdAt",
          abandoned_at AS "abandonedAt"
        FROM ${schema}.sessions AS session CROSS JOIN LATERAL (
            SELECT * FROM ${table} AS one
            WHERE one.session_key = session.session_key AND one.instance_key > ${after}
            ORDER BY one.instance_key LIMIT ${limit}) AS job
          CROSS JOIN LATERAL (
            SELECT instance_key, instance_id, incarnation, status, priority, created_at FROM ${schema}.instances AS one
            WHERE one.instance_key = job.instance_key OFFSET 0) AS instance
        WHERE session_id = ${sessionId} ORDER BY job.instance_key`,
    ),
    delete: prepare(
      'perdure_delete_jobs',
      { keys: keys() },
      ({ keys }) => `WITH gone AS (DELETE FROM ${table} WHERE instance_key = ANY (${keys})
          RETURNING instance_key, last_seq)
        DELETE FROM ${schema}.chunks
        WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM gone WHERE last_seq > 0))`,
    ),
  };
}
