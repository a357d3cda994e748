import type Database from 'better-sqlite3';
import type { StoredEvent } from '../../../model/event.ts';
import type { CancelRow } from '../../shared/instance-record-row.ts';
import { archiveSql, liveAgain } from '../tables/replaced-rows.ts';
import { mustChangeOne } from '../tables/instance-rows.ts';

/** The state of a new execution after its kept events. */
interface NextExecution {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly historyLength: number;
  readonly isStarted: 0 | 1;
  readonly now: number;
}

interface NewFork extends Omit<NextExecution, 'instanceKey'> {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly inputHash: string;
  readonly forkedFrom: string;
}

interface Cancel extends CancelRow {
  readonly instanceKey: number;
  readonly now: number;
}

/** The events of an execution that a new one copies. */
interface CopiedRange {
  readonly fromKey: number;
  readonly fromExecution: number;
  readonly toKey: number;
  readonly toExecution: number;
  readonly last: number;
}

/** Writes that start an ended instance again, or copy one. No other statement changes an ended instance. */
export class RerunRows {
  readonly #archive;
  readonly #reopen;
  readonly #reopenTask;
  readonly #insertFork;
  readonly #setCancel;
  readonly #copyHistory;
  readonly #copyPayloads;
  readonly #insertFirst;
  readonly #selectLength;
  readonly #selectFork;
  readonly #selectTask;
  readonly #hasJob;
  readonly #hasItems;

  constructor(db: Database.Database) {
    this.#archive = db.prepare<[number]>(archiveSql);
    this.#reopen = db.prepare<[NextExecution]>(
      `UPDATE instances SET ${liveAgain}, status = 'running', definition_key = :definitionKey,
         history_length = :historyLength, started_at = coalesce(started_at, :now),
         execution_started_at = iif(:isStarted, :now, NULL), custom_status = NULL,
         custom_status_version = custom_status_version + (custom_status IS NOT NULL)
       WHERE instance_key = :instanceKey AND ended_at IS NOT NULL`,
    );
    this.#reopenTask = db.prepare<
      [{ instanceKey: number; hasInput: 0 | 1; input: string | null; now: number }]
    >(
      `UPDATE instances SET ${liveAgain}, status = 'pending', started_at = NULL, execution_started_at = NULL,
         failures = 0, run_at = :now, expires_at = NULL, input = iif(:hasInput, :input, input),
         on_fail = iif(on_fail IS NULL, NULL, 'ready'), on_fail_failure = NULL
       WHERE instance_key = :instanceKey AND ended_at IS NOT NULL`,
    );
    this.#insertFork = db.prepare<[NewFork]>(
      `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
                              input_hash, created_at, started_at, execution_started_at, forked_from)
       VALUES (:instanceId, :incarnation, :definitionKey, iif(:isStarted, 'running', 'pending'), 1, :historyLength,
               :inputHash, :now, iif(:isStarted, :now, NULL), iif(:isStarted, :now, NULL), :forkedFrom)
       ON CONFLICT (instance_id) DO NOTHING`,
    );
    this.#setCancel = db.prepare<[Cancel]>(
      `UPDATE instances SET status = 'canceling', cancel_requested_at = :now, cancel_reason = :reason,
         cancel_actor = :actor, cancel_cause = :trigger
       WHERE instance_key = :instanceKey`,
    );
    // One statement for a history of any length.
    this.#copyHistory = db.prepare<[CopiedRange]>(
      `INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload, payload_event)
       SELECT :toKey, :toExecution, event_id, kind, at, data, payload, payload_event FROM history
       WHERE instance_key = :fromKey AND execution_id = :fromExecution AND event_id BETWEEN 2 AND :last
       ORDER BY event_id`,
    );
    // Also of the first event: later ones may refer to its payload.
    this.#copyPayloads = db.prepare<[CopiedRange]>(
      `INSERT INTO large_payloads (instance_key, execution_id, event_id, payload)
       SELECT :toKey, :toExecution, event_id, payload FROM large_payloads
       WHERE instance_key = :fromKey AND execution_id = :fromExecution AND event_id <= :last`,
    );
    this.#insertFirst = db.prepare<[number, number, string, number, string, string | null]>(
      `INSERT INTO history (instance_key, execution_id, event_id, kind, at, data, payload)
       VALUES (?, ?, 1, ?, ?, ?, ?)`,
    );
    this.#selectLength = db
      .prepare<[{ instanceKey: number; executionId: number }], number>(
        `SELECT history_length FROM instances WHERE instance_key = :instanceKey AND execution_id = :executionId
         UNION ALL
         SELECT history_length FROM executions WHERE instance_key = :instanceKey AND execution_id = :executionId`,
      )
      .pluck();
    this.#selectFork = db.prepare<
      [string],
      { definitionKey: number; inputHash: string; forkedFrom: string | null }
    >(
      `SELECT definition_key AS definitionKey, input_hash AS inputHash, forked_from AS forkedFrom
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectTask = db.prepare<[number], { priority: number; dedupeKey: string | null }>(
      'SELECT priority, dedupe_key AS dedupeKey FROM instances WHERE instance_key = ?',
    );
    this.#hasJob = db.prepare<[number]>('SELECT 1 FROM jobs WHERE instance_key = ?').pluck();
    this.#hasItems = db
      .prepare<[number]>('SELECT 1 FROM worker_queue WHERE instance_key = ? LIMIT 1')
      .pluck();
  }

  /** Archives the ended execution of an orchestration and begins the next one. */
  reopen(next: NextExecution): void {
    mustChangeOne(this.#archive.run(next.instanceKey));
    mustChangeOne(this.#reopen.run(next));
  }

  /** Archives the ended execution of a task run and makes the run pending. */
  reopenTask(instanceKey: number, input: string | null | undefined, now: number): void {
    mustChangeOne(this.#archive.run(instanceKey));
    const hasInput = input === undefined ? 0 : 1;
    mustChangeOne(this.#reopenTask.run({ instanceKey, hasInput, input: input ?? null, now }));
  }

  /** Inserts a fork. Returns `undefined` if the id is taken. */
  insertFork(fork: NewFork): number | undefined {
    const { changes, lastInsertRowid } = this.#insertFork.run(fork);
    return changes === 0 ? undefined : Number(lastInsertRowid);
  }

  /** Makes an instance `canceling`, as its kept events say. */
  setCancel(cancel: Cancel): void {
    mustChangeOne(this.#setCancel.run(cancel));
  }

  /** Writes the kept events of a new execution. Throws if the source has fewer. */
  copyHistory(options: {
    readonly from: { readonly instanceKey: number; readonly executionId: number };
    readonly to: { readonly instanceKey: number; readonly executionId: number };
    readonly first: StoredEvent;
    readonly length: number;
  }): void {
    const { from, to, first, length } = options;
    const { kind, at, data, payload } = first;
    this.#insertFirst.run(to.instanceKey, to.executionId, kind, at, data, payload);
    const range = {
      fromKey: from.instanceKey,
      fromExecution: from.executionId,
      toKey: to.instanceKey,
      toExecution: to.executionId,
      last: length,
    };
    const { changes } = this.#copyHistory.run(range);
    this.#copyPayloads.run(range);
    if (changes !== length - 1) throw new Error(`Copied ${changes + 1} of ${length} events.`);
  }

  /** The number of events of an execution, or `undefined` if there is no such execution. */
  lengthOf(instanceKey: number, executionId: number): number | undefined {
    return this.#selectLength.get({ instanceKey, executionId });
  }

  findFork(instanceId: string) {
    return this.#selectFork.get(instanceId);
  }

  taskOf(instanceKey: number) {
    return this.#selectTask.get(instanceKey);
  }

  /** Whether a caller can still take the reply of the run. */
  hasJob(instanceKey: number): boolean {
    return this.#hasJob.get(instanceKey) !== undefined;
  }

  hasItems(instanceKey: number): boolean {
    return this.#hasItems.get(instanceKey) !== undefined;
  }
}
