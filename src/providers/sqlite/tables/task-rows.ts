import type Database from 'better-sqlite3';
import type { TerminalStatus } from '../../../model/status.ts';
import type { NewTask, OnFailState } from '../../contract/tasks.ts';
import type { TaskTimes } from '../../rules/starts.ts';
import type { CancelRow } from '../../shared/instance-record-row.ts';
import { mustChangeOne } from './instance-rows.ts';

/** A task run that a write has ended. */
export interface EndedRun {
  readonly instanceId: string;
  readonly dedupeKey: string | null;
}

/** A task run that a write has failed. */
export interface FailedRun extends EndedRun {
  /** `ready`: it was created with an `onFail` handler. */
  readonly onFail: 'ready' | null;
  readonly onFailOptions: string | null;
}

interface End {
  readonly instanceKey: number;
  readonly now: number;
}

/** Writes to rows of `instances` that are task runs. None changes an ended run. */
export class TaskRows {
  readonly #insert;
  readonly #start;
  readonly #unstart;
  readonly #countFailure;
  readonly #complete;
  readonly #selectEnded;
  readonly #fail;
  readonly #skip;
  readonly #expire;
  readonly #cancel;
  readonly #terminate;
  readonly #requestCancel;
  readonly #setOnFail;
  readonly #endOnFail;
  readonly #selectKey;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<
      [
        string,
        string,
        number,
        string,
        number,
        number,
        string | null,
        string | null,
        number | null,
        number | null,
        string | null,
        string | null,
        string | null,
      ]
    >(
      `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
                              input_hash, created_at, priority, input, options, run_at, expires_at,
                              dedupe_key, failures, on_fail, on_fail_options)
       VALUES (?, ?, ?, 'pending', 1, 0, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)
       ON CONFLICT (instance_id) DO NOTHING`,
    );
    this.#start = db.prepare<[number, number, number]>(
      `UPDATE instances SET status = 'running', started_at = ?, execution_started_at = ?
       WHERE instance_key = ? AND status = 'pending'`,
    );
    this.#unstart = db
      .prepare<[{ instanceKey: number; claimedAt: number | null }], number | null>(
        `UPDATE instances SET status = 'pending', started_at = NULL, execution_started_at = NULL
         WHERE instance_key = :instanceKey AND status = 'running' AND started_at = :claimedAt
         RETURNING expires_at`,
      )
      .pluck();
    this.#countFailure = db.prepare<[number]>(
      'UPDATE instances SET failures = failures + 1 WHERE instance_key = ?',
    );
    const update = (status: TerminalStatus, assignments = '') =>
      `UPDATE instances SET status = '${status}', ended_at = :now, ${status}_at = :now ${assignments}
       WHERE instance_key = :instanceKey AND ended_at IS NULL
       RETURNING instance_id AS instanceId, dedupe_key AS dedupeKey`;
    const end = <Values extends object = object>(status: TerminalStatus, assignments = '') =>
      db.prepare<[End & Values], EndedRun>(update(status, assignments));
    // By place, because nearly all runs end here: a parameter with a name takes 0.1 µs more.
    // A RETURNING takes 3 µs, a query 0.7.
    this.#complete = db.prepare<[number, number, string | null, number]>(
      `UPDATE instances SET status = 'completed', ended_at = ?, completed_at = ?, output = ?
       WHERE instance_key = ? AND ended_at IS NULL`,
    );
    this.#selectEnded = db.prepare<[number], EndedRun>(
      'SELECT instance_id AS instanceId, dedupe_key AS dedupeKey FROM instances WHERE instance_key = ?',
    );
    this.#fail = db.prepare<[End & { failure: string }], FailedRun>(
      `${update('failed', ', failure = :failure, failures = failures + 1')},
                 on_fail AS onFail, on_fail_options AS onFailOptions`,
    );
    this.#skip = end('skipped');
    this.#expire = end('expired');
    // The first request is kept. A run that cancels itself records its own reason.
    this.#cancel = end<CancelRow>(
      'canceled',
      `, cancel_actor = iif(cancel_requested_at IS NULL, :actor, cancel_actor),
         cancel_cause = iif(cancel_requested_at IS NULL, :trigger, cancel_cause),
         cancel_reason = coalesce(cancel_reason, :reason),
         cancel_requested_at = coalesce(cancel_requested_at, :now)`,
    );
    this.#terminate = end<{ reason: string; actor: string | null }>(
      'terminated',
      ', terminate_reason = :reason, terminate_actor = :actor',
    );
    this.#requestCancel = db.prepare<[End & CancelRow]>(
      `UPDATE instances
       SET status = 'canceling', cancel_requested_at = :now, cancel_reason = :reason, cancel_actor = :actor,
           cancel_cause = :trigger
       WHERE instance_key = :instanceKey AND status IN ('pending', 'running')`,
    );
    this.#setOnFail = db.prepare<[OnFailState, number]>(
      'UPDATE instances SET on_fail = ? WHERE instance_key = ?',
    );
    this.#endOnFail = db.prepare<[OnFailState, string | null, number]>(
      'UPDATE instances SET on_fail = ?, on_fail_failure = ? WHERE instance_key = ?',
    );
    this.#selectKey = db
      .prepare<[number], string | null>('SELECT dedupe_key FROM instances WHERE instance_key = ?')
      .pluck();
  }

  /** Inserts a run that waits for its first claim. Returns `undefined` if the id is taken. */
  insert(
    task: NewTask,
    how: TaskTimes & { readonly definitionKey: number; readonly now: number },
  ): number | undefined {
    const { changes, lastInsertRowid } = this.#insert.run(
      task.instanceId,
      task.incarnation,
      how.definitionKey,
      task.inputHash,
      how.now,
      task.priority,
      task.payload,
      task.options,
      how.runAt,
      how.expiresAt,
      task.dedupeKey ?? null,
      task.onFail === undefined ? null : 'ready',
      task.onFail?.options ?? null,
    );
    return changes === 0 ? undefined : Number(lastInsertRowid);
  }

  /** Makes a pending run `running`. */
  start(instanceKey: number, now: number): void {
    this.#start.run(now, now, instanceKey);
  }

  /** Makes a run `pending` if this claim made it `running`. Returns when it expires, or `null`. */
  unstart(instanceKey: number, claimedAt: number | null): number | null {
    return this.#unstart.get({ instanceKey, claimedAt }) ?? null;
  }

  countFailure(instanceKey: number): void {
    this.#countFailure.run(instanceKey);
  }

  complete(instanceKey: number, output: string | null, now: number): EndedRun | undefined {
    const { changes } = this.#complete.run(now, now, output, instanceKey);
    return changes === 0 ? undefined : this.#selectEnded.get(instanceKey);
  }

  fail(instanceKey: number, failure: string, now: number): FailedRun | undefined {
    return this.#fail.get({ instanceKey, now, failure });
  }

  skip(instanceKey: number, now: number): EndedRun | undefined {
    return this.#skip.get({ instanceKey, now });
  }

  expire(instanceKey: number, now: number): EndedRun | undefined {
    return this.#expire.get({ instanceKey, now });
  }

  cancel(end: End & CancelRow): EndedRun | undefined {
    return this.#cancel.get(end);
  }

  terminate(
    end: End & { readonly reason: string; readonly actor: string | null },
  ): EndedRun | undefined {
    return this.#terminate.get(end);
  }

  /** Makes a run whose item is held `canceling`. */
  requestCancel(request: End & CancelRow): void {
    mustChangeOne(this.#requestCancel.run(request));
  }

  setOnFail(instanceKey: number, state: OnFailState): void {
    this.#setOnFail.run(state, instanceKey);
  }

  endOnFail(instanceKey: number, state: OnFailState, failure: string | null): void {
    this.#endOnFail.run(state, failure, instanceKey);
  }

  /** The dedupe key that a run was created with, even if it no longer holds it. */
  keyOf(instanceKey: number): string | null {
    return this.#selectKey.get(instanceKey) ?? null;
  }
}

/** The item of a task run that has expired. */
export interface ExpiredItem {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly isPaused: 0 | 1;
}

/** The item of a task run, or of its `onFail` handler. */
interface TaskItem {
  readonly instanceKey: number;
  readonly operation: number;
  readonly definitionKey: number;
  readonly priority: number;
  readonly nextAt: number;
  readonly expiresAt: number | null;
  readonly options: string | null;
  readonly now: number;
  /** `null`: the task is not limited. */
  readonly lane: string | null;
}

/** Rows of `worker_queue` that belong to task runs. */
export class TaskItems {
  readonly #insert;
  readonly #insertInLane;
  readonly #setExpiry;
  readonly #selectExpired;
  readonly #selectInstance;

  constructor(db: Database.Database) {
    // The input stays with the run, for operators and for the `onFail` handler.
    const insert = (column: string, value: string) =>
      db.prepare<
        [
          number,
          number,
          number,
          number,
          number,
          number | null,
          number,
          string | null,
          ...lane: readonly (string | number)[],
        ]
      >(
        `INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at, expires_at,
                                   claims, failures, created_at, options${column})
         VALUES (?, 1, ?, ?, ?, ?, ?, 0, 0, ?, ?${value})`,
      );
    this.#insert = insert('', '');
    this.#insertInLane = insert(', lane, limit_key', ', ?, ?');
    this.#setExpiry = db.prepare<[number, number]>(
      'UPDATE worker_queue SET expires_at = ? WHERE item_key = ?',
    );
    this.#selectExpired = db.prepare<[number, number], ExpiredItem>(
      `SELECT item_key AS itemKey, instance_key AS instanceKey, abs(definition_key) AS definitionKey,
              definition_key < 0 AS isPaused
       FROM worker_queue WHERE expires_at <= ? ORDER BY expires_at LIMIT +?`,
    );
    this.#selectInstance = db
      .prepare<[number], number>('SELECT instance_key FROM worker_queue WHERE item_key = ?')
      .pluck();
  }

  /** Inserts the item of a task run, or of its `onFail` handler. */
  insert(item: TaskItem): void {
    const { lane } = item;
    const row = [
      item.instanceKey,
      item.operation,
      item.definitionKey,
      item.priority,
      item.nextAt,
      item.expiresAt,
      item.now,
      item.options,
    ] as const;
    if (lane === null) this.#insert.run(...row);
    else this.#insertInLane.run(...row, lane, item.definitionKey);
  }

  setExpiry(itemKey: number, expiresAt: number): void {
    this.#setExpiry.run(expiresAt, itemKey);
  }

  /** Items of expired task runs, longest overdue first. */
  selectExpired(now: number, max: number): readonly ExpiredItem[] {
    return this.#selectExpired.all(now, max);
  }

  instanceOf(itemKey: number): number | undefined {
    return this.#selectInstance.get(itemKey);
  }
}

/** The rows of `dedupe_keys`. A run that no longer holds its key cannot free it for another run. */
export class DedupeKeys {
  readonly #holder;
  readonly #liveHolder;
  readonly #setKey;
  readonly #freeOfOrchestrations;
  readonly #take;
  readonly #free;
  readonly #freeOfInstances;

  constructor(db: Database.Database) {
    this.#holder = db
      .prepare<[number, string], string>(
        `SELECT instance_id FROM dedupe_keys JOIN instances USING (instance_key)
         WHERE dedupe_keys.definition_key = ? AND dedupe_keys.dedupe_key = ?`,
      )
      .pluck();
    this.#liveHolder = db
      .prepare<[number, string], string>(
        `SELECT instance_id FROM dedupe_keys JOIN instances USING (instance_key)
         WHERE dedupe_keys.definition_key = ? AND dedupe_keys.dedupe_key = ? AND ended_at IS NULL`,
      )
      .pluck();
    this.#setKey = db.prepare<[string, number]>(
      'UPDATE instances SET dedupe_key = ? WHERE instance_key = ?',
    );
    // The keys of an orchestration belong to its name: the definition without a version.
    this.#freeOfOrchestrations = db.prepare<[string]>(
      `DELETE FROM dedupe_keys WHERE (definition_key, dedupe_key, instance_key) IN
         (SELECT named.definition_key, dedupe_key, instance_key
          FROM json_each(?) CROSS JOIN instances ON instance_key = value
            CROSS JOIN definitions AS own ON own.definition_key = instances.definition_key
            CROSS JOIN definitions AS named
              ON named.kind = own.kind AND named.name = own.name AND named.version = ''
          WHERE dedupe_key IS NOT NULL AND priority IS NULL)`,
    );
    // Replaces a row without an instance, which a damaged file can have.
    this.#take = db.prepare<[number, string, number]>(
      `INSERT INTO dedupe_keys (definition_key, dedupe_key, instance_key) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET instance_key = excluded.instance_key`,
    );
    this.#free = db.prepare<[number, string, number]>(
      `DELETE FROM dedupe_keys
       WHERE definition_key = ? AND dedupe_key = ? AND instance_key = ?`,
    );
    this.#freeOfInstances = db.prepare<[string]>(
      `DELETE FROM dedupe_keys WHERE (definition_key, dedupe_key, instance_key) IN
         (SELECT definition_key, dedupe_key, instance_key
          FROM json_each(?) CROSS JOIN instances ON instance_key = value
          WHERE dedupe_key IS NOT NULL)`,
    );
  }

  /** The id of the run that holds a key. */
  holderOf(definitionKey: number, dedupeKey: string): string | undefined {
    return this.#holder.get(definitionKey, dedupeKey);
  }

  /** The id of the live instance that holds a key. */
  liveHolderOf(definitionKey: number, dedupeKey: string): string | undefined {
    return this.#liveHolder.get(definitionKey, dedupeKey);
  }

  /** Assigns a key to an instance, and records it there. */
  takeFor(definitionKey: number, dedupeKey: string, instanceKey: number): void {
    this.take(definitionKey, dedupeKey, instanceKey);
    this.#setKey.run(dedupeKey, instanceKey);
  }

  /** Frees the keys of orchestrations that are about to be deleted. */
  freeOfOrchestrations(keys: string): void {
    this.#freeOfOrchestrations.run(keys);
  }

  /** Assigns a free key to a run. */
  take(definitionKey: number, dedupeKey: string, instanceKey: number): void {
    this.#take.run(definitionKey, dedupeKey, instanceKey);
  }

  /** Frees the key of a run, if it has one. */
  free(run: {
    readonly instanceKey: number;
    readonly definitionKey: number;
    readonly dedupeKey: string | null;
  }): void {
    if (run.dedupeKey === null) return;
    this.#free.run(run.definitionKey, run.dedupeKey, run.instanceKey);
  }

  /** Frees the keys of instances that are about to be deleted. */
  freeOfInstances(instanceKeys: readonly number[]): void {
    this.#freeOfInstances.run(JSON.stringify(instanceKeys));
  }
}
