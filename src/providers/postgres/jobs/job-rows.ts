import type { InstanceStatus } from '../../../model/status.ts';
import type { AbandonedResult, JobBinding, JobKey, JobRecord } from '../../contract/sessions.ts';
import { booleans, numbers, text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { RunState } from '../tables/task-rows.ts';
import { placeOf } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';

interface NewRow {
  readonly instanceKey: number;
  readonly sessionKey: number;
  readonly isTask: boolean;
  readonly name: string;
  readonly disposable: boolean;
}

/** A job with what decides what becomes of it. */
export interface JobRow {
  readonly instanceKey: number;
  readonly sessionId: string | null;
  readonly disposable: boolean;
  readonly status: InstanceStatus;
  readonly abandonedAt: number | null;
  readonly disposeAt: number | null;
}

/** Who has an id. */
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

/** The rows of `jobs`. Those of one call are locked in the order of their keys. */
export class JobRows {
  readonly #holders: Statement;
  readonly #insert: Statement;
  readonly #lock: Statement;
  readonly #lockByKey: Statement;
  readonly #selectOpen: Statement;
  readonly #lockEnded: Statement;
  readonly #lockToCheck: Statement;
  readonly #abandon: Statement;
  readonly #setTimes: Statement;
  readonly #claim: Statement;
  readonly #nextAt: Statement;
  readonly #abandonAll: Statement;
  readonly #count: Statement;
  readonly #bindings: Statement;
  readonly #list: Statement;
  readonly #delete: Statement;

  constructor(schema: string) {
    const table = `${schema}.jobs`;
    const sessionId = `(SELECT session_id FROM ${schema}.sessions AS session
      WHERE session.session_key = job.session_key) AS "sessionId"`;
    const columns = `job.instance_key AS "instanceKey", ${sessionId}, disposable, status,
      abandoned_at AS "abandonedAt", dispose_at AS "disposeAt"`;
    // OFFSET 0: from each job to its run, whatever the planner thinks of the tables.
    const jobs = `${table} AS job CROSS JOIN LATERAL (
      SELECT instance_id, incarnation, status, ended_at FROM ${schema}.instances AS one
      WHERE one.instance_key = job.instance_key OFFSET 0) AS instance`;
    const ofRun = (column: string) =>
      `(SELECT ${column} FROM ${schema}.instances AS one WHERE one.instance_key = job.instance_key)`;
    this.#holders = {
      name: 'perdure_select_id_holders',
      text: `SELECT instance_id AS "instanceId", incarnation, definition_key AS "definitionKey"
        FROM ${schema}.instances WHERE instance_id = ANY ($1::text[])`,
    };
    this.#insert = {
      name: 'perdure_insert_jobs',
      text: `INSERT INTO ${table} (instance_key, session_key, is_task, name, disposable)
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::boolean[])`,
    };
    this.#lock = {
      name: 'perdure_lock_jobs',
      text: `SELECT ${columns}, instance_id AS "instanceId", incarnation FROM ${jobs}
        WHERE job.instance_key = ANY (ARRAY(
          SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY ($1::text[])))
        ORDER BY job.instance_key FOR UPDATE OF job`,
    };
    this.#lockByKey = {
      name: 'perdure_lock_jobs_by_key',
      text: `SELECT ${columns} FROM ${jobs} WHERE job.instance_key = ANY ($1::bigint[])
        ORDER BY job.instance_key FOR UPDATE OF job`,
    };
    this.#selectOpen = {
      name: 'perdure_select_open_jobs',
      text: `SELECT instance_key AS "instanceKey" FROM ${table}
        WHERE session_key = $1::bigint AND abandoned_at IS NULL LIMIT $2::bigint`,
    };
    this.#lockEnded = {
      name: 'perdure_lock_ended_jobs',
      text: `SELECT ${columns} FROM ${jobs}
        WHERE session_key = $1::bigint AND abandoned_at IS NOT NULL AND dispose_at IS NULL
          AND instance.ended_at IS NOT NULL
        ORDER BY job.instance_key LIMIT $2::bigint FOR UPDATE OF job`,
    };
    this.#lockToCheck = {
      name: 'perdure_lock_jobs_to_check',
      text: `SELECT ${columns} FROM ${jobs} WHERE check_at <= $1::bigint
        ORDER BY check_at LIMIT $2::bigint FOR UPDATE OF job SKIP LOCKED`,
    };
    this.#abandon = {
      name: 'perdure_abandon_jobs',
      text: `WITH gone AS (DELETE FROM ${schema}.chunks WHERE instance_key = ANY ($1::bigint[]))
        UPDATE ${table} SET abandoned_at = $2::bigint, check_at = $3::bigint, waiting_chunks = 0, waiting_bytes = 0
        WHERE instance_key = ANY ($1::bigint[])`,
    };
    this.#setTimes = {
      name: 'perdure_set_job_times',
      text: `UPDATE ${table} AS job SET check_at = times.check_at, dispose_at = times.dispose_at
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS times (instance_key, check_at, dispose_at)
        ${placeOf(table, 'one.instance_key = times.instance_key')}
        WHERE job.ctid = found.place`,
    };
    this.#claim = {
      name: 'perdure_claim_abandoned',
      text: `WITH due AS MATERIALIZED (
          SELECT instance_key FROM ${table}
          WHERE dispose_at <= ${nowSql} AND name = ANY (CASE WHEN is_task THEN $2::text[] ELSE $3::text[] END)
          ORDER BY dispose_at LIMIT $4::bigint FOR UPDATE SKIP LOCKED)
        UPDATE ${table} AS job SET dispose_at = ${nowSql} + $5::bigint, attempts = attempts + 1
        WHERE job.instance_key = ANY (ARRAY(SELECT instance_key FROM due))
        RETURNING ${sessionId}, ${ofRun('instance_id')} AS "instanceId", ${ofRun('incarnation')} AS incarnation,
          is_task AS "isTask", name, ${ofRun('output')} AS output, attempts`,
    };
    this.#nextAt = {
      name: 'perdure_next_session',
      text: `SELECT ${nowSql} AS now, (SELECT due_at FROM ${schema}.sessions ORDER BY due_at LIMIT 1) AS "dueAt",
          (SELECT check_at FROM ${table} WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1) AS "checkAt",
          (SELECT dispose_at FROM ${table} WHERE dispose_at IS NOT NULL ORDER BY dispose_at LIMIT 1) AS "disposeAt"`,
    };
    this.#abandonAll = {
      name: 'perdure_abandon_jobs_of_sessions',
      text: `UPDATE ${table} SET abandoned_at = $2::bigint, check_at = $2::bigint
        WHERE session_key = ANY ($1::bigint[]) AND abandoned_at IS NULL`,
    };
    this.#count = {
      name: 'perdure_sessions_with_jobs',
      text: `SELECT session_key AS "sessionKey" FROM unnest($1::bigint[]) AS wanted (session_key)
        WHERE (SELECT 1 FROM ${table} AS job WHERE job.session_key = wanted.session_key LIMIT 1) IS NOT NULL`,
    };
    this.#bindings = {
      name: 'perdure_select_job_bindings',
      text: `SELECT instance.instance_id AS "instanceId", instance.incarnation, ${sessionId}, name
        FROM unnest($1::text[]) AS wanted (instance_id) CROSS JOIN LATERAL (
            SELECT instance_key, instance_id, incarnation FROM ${schema}.instances AS one
            WHERE one.instance_id = wanted.instance_id LIMIT 1) AS instance
          CROSS JOIN LATERAL (
            SELECT session_key, name FROM ${table} AS one
            WHERE one.instance_key = instance.instance_key LIMIT 1) AS job`,
    };
    this.#list = {
      name: 'perdure_list_jobs',
      text: `SELECT job.instance_key AS "jobKey", session_id AS "sessionId", instance_id AS "instanceId", incarnation,
          is_task AS "isTask", name, ${new RunState(schema).status('instance')} AS status, disposable, instance.created_at AS "createdAt",
          abandoned_at AS "abandonedAt"
        FROM ${schema}.sessions AS session CROSS JOIN LATERAL (
            SELECT * FROM ${table} AS one
            WHERE one.session_key = session.session_key AND one.instance_key > $2::bigint
            ORDER BY one.instance_key LIMIT $3::bigint) AS job
          CROSS JOIN LATERAL (
            SELECT instance_key, instance_id, incarnation, status, priority, created_at FROM ${schema}.instances AS one
            WHERE one.instance_key = job.instance_key OFFSET 0) AS instance
        WHERE session_id = $1 ORDER BY job.instance_key`,
    };
    this.#delete = {
      name: 'perdure_delete_jobs',
      text: `WITH gone AS (DELETE FROM ${table} WHERE instance_key = ANY ($1::bigint[])
          RETURNING instance_key, last_seq)
        DELETE FROM ${schema}.chunks
        WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM gone WHERE last_seq > 0))`,
    };
  }

  /** Who has these ids. */
  async holders(tx: Transaction, instanceIds: readonly string[]): Promise<readonly IdHolder[]> {
    return tx.query<IdHolder>(this.#holders, [texts(instanceIds)]);
  }

  async insert(tx: Transaction, rows: readonly NewRow[]): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#insert, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ sessionKey }) => sessionKey)),
      booleans(rows.map(({ isTask }) => isTask)),
      texts(rows.map(({ name }) => name)),
      booleans(rows.map(({ disposable }) => disposable)),
    ]);
  }

  /** Locks the jobs of these ids. */
  lock(tx: Transaction, instanceIds: readonly string[]): Promise<readonly (JobRow & JobKey)[]> {
    return tx.query<JobRow & JobKey>(this.#lock, [texts(instanceIds)]);
  }

  async lockByKey(tx: Transaction, keys: readonly number[]): Promise<readonly JobRow[]> {
    return keys.length === 0 ? [] : tx.query<JobRow>(this.#lockByKey, [numbers(keys)]);
  }

  /** The keys of jobs of a session that nobody has abandoned. */
  async selectOpen(tx: Transaction, sessionKey: number, limit: number): Promise<readonly number[]> {
    const rows = await tx.query<{ instanceKey: number }>(this.#selectOpen, [sessionKey, limit]);
    return rows.map(({ instanceKey }) => instanceKey);
  }

  /** Locks abandoned jobs of a session whose runs are over. */
  lockEnded(tx: Transaction, sessionKey: number, limit: number): Promise<readonly JobRow[]> {
    return tx.query<JobRow>(this.#lockEnded, [sessionKey, limit]);
  }

  /** Locks abandoned jobs whose runs may be over by now. */
  lockToCheck(tx: Transaction, now: number, limit: number): Promise<readonly JobRow[]> {
    return tx.query<JobRow>(this.#lockToCheck, [now, limit]);
  }

  /** Marks jobs as abandoned, and drops their chunks. */
  async abandon(
    tx: Transaction,
    keys: readonly number[],
    { now, checkAt }: { readonly now: number; readonly checkAt: number },
  ): Promise<void> {
    if (keys.length > 0) await tx.execute(this.#abandon, [numbers(keys), now, checkAt]);
  }

  /** Sets when to look at a job, or from when on its late result can be claimed. */
  async setTimes(
    tx: Transaction,
    rows: readonly {
      readonly instanceKey: number;
      readonly checkAt: number | null;
      readonly disposeAt: number | null;
    }[],
  ): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#setTimes, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ checkAt }) => checkAt)),
      numbers(rows.map(({ disposeAt }) => disposeAt)),
    ]);
  }

  /** Claims late results of runs of these names. */
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
    const { orchestrations, tasks, limit, lockMs } = request;
    const rows = await tx.query<ClaimedRow>(this.#claim, [
      nowParameter,
      texts(tasks),
      texts(orchestrations),
      Math.max(limit, 0),
      Math.ceil(lockMs),
    ]);
    return rows.map(({ isTask, name, output, attempts, ...key }) => ({
      key,
      kind: isTask ? 'task' : 'orchestration',
      name,
      output,
      attempt: attempts,
    }));
  }

  /** The clock, and when a session, an abandoned run and a late result are to be looked at. */
  async nextAt(tx: Transaction, nowParameter: number | null): Promise<NextLooks> {
    const [row] = await tx.query<NextLooks>(this.#nextAt, [nowParameter]);
    if (row === undefined) throw new Error('The clock has no answer.');
    return row;
  }

  /** Marks all jobs of sessions as abandoned; answers the sessions that have any. */
  async abandonAll(
    tx: Transaction,
    sessionKeys: readonly number[],
    now: number,
  ): Promise<ReadonlySet<number>> {
    if (sessionKeys.length === 0) return new Set();
    const keys = numbers(sessionKeys);
    const [, rows] = await Promise.all([
      tx.execute(this.#abandonAll, [keys, now]),
      tx.query<{ sessionKey: number }>(this.#count, [keys]),
    ]);
    return new Set(rows.map(({ sessionKey }) => sessionKey));
  }

  /** The sessions of jobs, in the order of their keys. */
  async bindings(
    tx: Transaction,
    jobs: readonly Omit<JobKey, 'sessionId'>[],
  ): Promise<readonly (JobBinding | undefined)[]> {
    const ids = new Set(jobs.map(({ instanceId }) => instanceId));
    const rows = await tx.query<JobBinding & JobKey>(this.#bindings, [texts([...ids])]);
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
    const { sessionId, after, limit } = page;
    const values = [text(sessionId), after, Math.max(limit, 0)];
    const rows = await tx.query<ListedRow>(this.#list, values);
    return rows.map(({ isTask, ...row }) => ({
      ...row,
      kind: isTask ? 'task' : 'orchestration',
    }));
  }

  /** Removes jobs with their chunks. */
  async delete(tx: Transaction, keys: readonly number[]): Promise<void> {
    if (keys.length > 0) await tx.execute(this.#delete, [numbers(keys)]);
  }
}

/** When somebody has to look after sessions and jobs. */
export interface NextLooks {
  readonly now: number;
  readonly dueAt: number | null;
  readonly checkAt: number | null;
  readonly disposeAt: number | null;
}
