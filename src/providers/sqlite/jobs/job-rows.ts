import type Database from 'better-sqlite3';
import type { InstanceStatus } from '../../../model/status.ts';
import type { JobBinding, JobKey, JobRecord } from '../../contract/sessions.ts';
import { outputOf } from '../tables/instance-rows.ts';

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
  readonly disposable: 0 | 1;
  readonly status: InstanceStatus;
  readonly hasEnded: 0 | 1;
  readonly abandonedAt: number | null;
  readonly disposeAt: number | null;
  readonly lastSeq: number;
}

/** A claimed result of an abandoned job. */
export interface DisposableRow extends JobKey {
  readonly instanceKey: number;
  readonly isTask: 0 | 1;
  readonly name: string;
  readonly output: string | null;
  readonly attempts: number;
}

type ListedRow = Omit<JobRecord, 'kind' | 'disposable'> & {
  readonly isTask: 0 | 1;
  readonly disposable: 0 | 1;
};

const columns = `instance_key AS instanceKey, disposable, status, ended_at IS NOT NULL AS hasEnded,
  abandoned_at AS abandonedAt, dispose_at AS disposeAt, last_seq AS lastSeq`;
const runs = 'jobs JOIN instances USING (instance_key)';

/** The rows of `jobs`. */
export class JobRows {
  readonly #insert;
  readonly #select;
  readonly #selectByKey;
  readonly #selectBinding;
  readonly #selectOpen;
  readonly #selectEnded;
  readonly #selectToCheck;
  readonly #setAbandoned;
  readonly #setCheck;
  readonly #setDispose;
  readonly #selectDisposable;
  readonly #claim;
  readonly #nextAt;
  readonly #abandonAll;
  readonly #count;
  readonly #list;
  readonly #delete;
  readonly #deleteChunks;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<[number, number, 0 | 1, string, 0 | 1]>(
      `INSERT INTO jobs (instance_key, session_key, is_task, name, disposable) VALUES (?, ?, ?, ?, ?)`,
    );
    this.#select = db.prepare<[string, string, string], JobRow>(
      `SELECT ${columns} FROM instances JOIN jobs USING (instance_key)
       WHERE instance_id = ? AND incarnation = ?
         AND session_key = (SELECT session_key FROM sessions WHERE session_id = ?)`,
    );
    this.#selectByKey = db.prepare<[number], JobRow>(
      `SELECT ${columns} FROM ${runs} WHERE instance_key = ?`,
    );
    this.#selectBinding = db.prepare<[string, string], JobBinding>(
      `SELECT session_id AS sessionId, name
       FROM instances CROSS JOIN jobs USING (instance_key) CROSS JOIN sessions USING (session_key)
       WHERE instance_id = ? AND incarnation = ?`,
    );
    this.#selectOpen = db.prepare<[number, number], JobRow>(
      `SELECT ${columns} FROM ${runs} WHERE session_key = ? AND abandoned_at IS NULL LIMIT +?`,
    );
    this.#selectEnded = db.prepare<[number, number], JobRow>(
      `SELECT ${columns} FROM ${runs}
       WHERE session_key = ? AND abandoned_at IS NOT NULL AND dispose_at IS NULL AND ended_at IS NOT NULL LIMIT +?`,
    );
    this.#selectToCheck = db.prepare<[number, number], JobRow>(
      `SELECT ${columns} FROM ${runs} WHERE check_at <= ? ORDER BY check_at LIMIT +?`,
    );
    this.#setAbandoned = db.prepare<[number, number, number]>(
      `UPDATE jobs SET abandoned_at = ?, check_at = ?, waiting_chunks = 0, waiting_bytes = 0 WHERE instance_key = ?`,
    );
    this.#setCheck = db.prepare<[number, number]>(
      'UPDATE jobs SET check_at = ? WHERE instance_key = ?',
    );
    this.#setDispose = db.prepare<[number, number]>(
      'UPDATE jobs SET dispose_at = ?, check_at = NULL WHERE instance_key = ?',
    );
    // CROSS JOIN fixes the join order: one index search per name.
    this.#selectDisposable = db.prepare<
      [{ names: string; isTask: 0 | 1; now: number; limit: number }],
      DisposableRow
    >(
      `SELECT jobs.instance_key AS instanceKey, session_id AS sessionId, instance_id AS instanceId, incarnation,
              is_task AS isTask, name, ${outputOf()} AS output, attempts
       FROM json_each(:names)
         CROSS JOIN jobs ON is_task = :isTask AND name = json_each.value AND dispose_at <= :now
         CROSS JOIN instances USING (instance_key) CROSS JOIN sessions USING (session_key)
       LIMIT +:limit`,
    );
    this.#claim = db.prepare<[number, number]>(
      'UPDATE jobs SET dispose_at = ?, attempts = attempts + 1 WHERE instance_key = ?',
    );
    this.#nextAt = db.prepare<[], { checkAt: number | null; disposeAt: number | null }>(
      `SELECT (SELECT min(check_at) FROM jobs WHERE check_at IS NOT NULL) AS checkAt,
              (SELECT min(dispose_at) FROM jobs WHERE dispose_at IS NOT NULL) AS disposeAt`,
    );
    this.#abandonAll = db.prepare<[number, number, number]>(
      'UPDATE jobs SET abandoned_at = ?, check_at = ? WHERE session_key = ? AND abandoned_at IS NULL',
    );
    this.#count = db
      .prepare<[number], number>('SELECT count(*) FROM jobs WHERE session_key = ?')
      .pluck();
    this.#list = db.prepare<[string, number, number], ListedRow>(
      `SELECT instance_key AS jobKey, session_id AS sessionId, instance_id AS instanceId, incarnation,
              is_task AS isTask, name, status, disposable, instances.created_at AS createdAt,
              abandoned_at AS abandonedAt
       FROM sessions JOIN jobs USING (session_key) JOIN instances USING (instance_key)
       WHERE session_id = ? AND instance_key > ? ORDER BY instance_key LIMIT +?`,
    );
    this.#delete = db.prepare<[number]>('DELETE FROM jobs WHERE instance_key = ?');
    this.#deleteChunks = db.prepare<[number]>('DELETE FROM chunks WHERE instance_key = ?');
  }

  insert({ instanceKey, sessionKey, isTask, name, disposable }: NewRow): void {
    this.#insert.run(instanceKey, sessionKey, isTask ? 1 : 0, name, disposable ? 1 : 0);
  }

  find({ instanceId, incarnation, sessionId }: JobKey): JobRow | undefined {
    return this.#select.get(instanceId, incarnation, sessionId);
  }

  get(instanceKey: number): JobRow | undefined {
    return this.#selectByKey.get(instanceKey);
  }

  binding({ instanceId, incarnation }: Omit<JobKey, 'sessionId'>): JobBinding | undefined {
    return this.#selectBinding.get(instanceId, incarnation);
  }

  /** The jobs of a session that are not abandoned. */
  selectOpen(sessionKey: number, limit: number): readonly JobRow[] {
    return this.#selectOpen.all(sessionKey, limit);
  }

  /** The abandoned jobs of a session whose runs have ended. */
  selectEnded(sessionKey: number, limit: number): readonly JobRow[] {
    return this.#selectEnded.all(sessionKey, limit);
  }

  /** The abandoned jobs whose check is due. */
  selectToCheck(now: number, limit: number): readonly JobRow[] {
    return this.#selectToCheck.all(now, limit);
  }

  setAbandoned(job: Pick<JobRow, 'instanceKey' | 'lastSeq'>, now: number, checkAt: number): void {
    this.#setAbandoned.run(now, checkAt, job.instanceKey);
    if (job.lastSeq > 0) this.#deleteChunks.run(job.instanceKey);
  }

  setCheck(instanceKey: number, checkAt: number): void {
    this.#setCheck.run(checkAt, instanceKey);
  }

  /** Makes the result of an abandoned job claimable from `disposeAt`. */
  setDispose(instanceKey: number, disposeAt: number): void {
    this.#setDispose.run(disposeAt, instanceKey);
  }

  /** Claims results of abandoned jobs with these names. */
  claim(options: {
    readonly names: readonly string[];
    readonly isTask: boolean;
    readonly now: number;
    readonly lockedUntil: number;
    readonly limit: number;
  }): readonly DisposableRow[] {
    const { names, isTask, now, lockedUntil, limit } = options;
    if (names.length === 0 || limit < 1) return [];
    const wanted = { names: JSON.stringify(names), isTask: isTask ? 1 : 0, now, limit } as const;
    const rows = this.#selectDisposable.all(wanted);
    for (const { instanceKey } of rows) this.#claim.run(lockedUntil, instanceKey);
    return rows;
  }

  /** When the next abandoned run is to be checked, and when the next result can be claimed. */
  nextAt(): { readonly checkAt: number | null; readonly disposeAt: number | null } {
    return this.#nextAt.get() ?? { checkAt: null, disposeAt: null };
  }

  /** Marks all jobs of a session as abandoned. Returns whether there are any. */
  abandonAll(sessionKey: number, now: number): boolean {
    this.#abandonAll.run(now, now, sessionKey);
    return (this.#count.get(sessionKey) ?? 0) > 0;
  }

  list(sessionId: string, after: number, limit: number): readonly JobRecord[] {
    return this.#list.all(sessionId, after, Math.max(limit, 0)).map(({ isTask, ...row }) => ({
      ...row,
      kind: isTask === 1 ? 'task' : 'orchestration',
      disposable: row.disposable === 1,
    }));
  }

  /** Deletes a job with its chunks. */
  delete({ instanceKey, lastSeq }: Pick<JobRow, 'instanceKey' | 'lastSeq'>): void {
    this.#delete.run(instanceKey);
    if (lastSeq > 0) this.#deleteChunks.run(instanceKey);
  }
}
