import type Database from 'better-sqlite3';
import type { CancellationType } from '../../../model/cancel.ts';
import { mustChangeOne } from './instance-rows.ts';

/** Archives the ended execution of an instance. */
export const archiveSql = `INSERT INTO executions (instance_key, execution_id, definition_key, status, history_length, started_at,
                               ended_at, failure, reason)
       SELECT instance_key, execution_id, definition_key, status, history_length,
              coalesce(execution_started_at, created_at), ended_at, failure,
              iif(status = 'terminated', terminate_reason, cancel_reason)
       FROM instances WHERE instance_key = ? AND ended_at IS NOT NULL`;

/** The assignments that make an ended instance live, as its next execution. */
export const liveAgain = `execution_id = execution_id + 1, last_turn = NULL, ended_at = NULL, completed_at = NULL,
      failed_at = NULL, canceled_at = NULL, terminated_at = NULL, skipped_at = NULL, expired_at = NULL,
      cancel_requested_at = NULL, cancel_reason = NULL, cancel_actor = NULL, cancel_cause = NULL, terminate_reason = NULL,
      terminate_actor = NULL, closing_reason = NULL, cleanup_skipped = 0, leaked = 0, buffered_events = 0,
      output = NULL, failure = NULL`;

interface Replacement {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly inputHash: string;
  readonly incarnation: string;
  readonly now: number;
}

/** The operation of a parent that replaces its child. */
export interface ParentCall {
  readonly operation: number;
  readonly cancellation: CancellationType;
}

// More are given their ids again, and those starts fail.
const maxChildIds = 10_000;

/** Writes that replace an ended instance by a new start under the same id. */
export class ReplacedRows {
  readonly #archive;
  readonly #reopen;
  readonly #deleteLane;
  readonly #hasEnded;
  readonly #hasJob;
  readonly #childIds;
  readonly #setCall;

  constructor(db: Database.Database) {
    this.#archive = db.prepare<[number]>(archiveSql);
    this.#reopen = db.prepare<[Replacement]>(
      `UPDATE instances SET ${liveAgain}, status = 'running', definition_key = :definitionKey,
         input_hash = :inputHash, incarnation = :incarnation, history_length = 0,
         started_at = coalesce(started_at, :now), execution_started_at = NULL, custom_status = NULL,
         custom_status_version = custom_status_version + (custom_status IS NOT NULL), run_at = NULL,
         tags = NULL, headers = NULL
       WHERE instance_key = :instanceKey AND ended_at IS NOT NULL`,
    );
    this.#deleteLane = db.prepare<[number]>('DELETE FROM run_lanes WHERE instance_key = ?');
    this.#hasEnded = db
      .prepare<[number], 1>(
        'SELECT 1 FROM instances WHERE instance_key = ? AND ended_at IS NOT NULL',
      )
      .pluck();
    this.#hasJob = db
      .prepare<[number], 1>('SELECT 1 FROM jobs WHERE instance_key = ? LIMIT 1')
      .pluck();
    this.#childIds = db
      .prepare<[string], string>(
        `SELECT instance_id FROM instances WHERE parent_instance_id = ?
         ORDER BY instance_key DESC LIMIT ${maxChildIds}`,
      )
      .pluck();
    this.#setCall = db.prepare<[number, CancellationType, number]>(
      'UPDATE instances SET parent_operation = ?, cancellation = ? WHERE instance_key = ?',
    );
  }

  /** Archives the ended execution, and makes the instance live with another start. Deletes the key of the former one. */
  reopen(replacement: Replacement): void {
    mustChangeOne(this.#archive.run(replacement.instanceKey));
    mustChangeOne(this.#reopen.run(replacement));
    this.#deleteLane.run(replacement.instanceKey);
  }

  /** Makes a replaced child reply to another operation of its parent. */
  setCall(instanceKey: number, { operation, cancellation }: ParentCall): void {
    mustChangeOne(this.#setCall.run(operation, cancellation, instanceKey));
  }

  hasEnded(instanceKey: number): boolean {
    return this.#hasEnded.get(instanceKey) !== undefined;
  }

  /** Whether a caller can still take the reply of the run. */
  hasJob(instanceKey: number): boolean {
    return this.#hasJob.get(instanceKey) !== undefined;
  }

  childIds(instanceId: string): readonly string[] {
    return this.#childIds.all(instanceId);
  }
}
