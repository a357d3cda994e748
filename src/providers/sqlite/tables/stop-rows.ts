import type Database from 'better-sqlite3';
import type { CancelDetails } from '../../../model/cancel.ts';
import { toCancelRow, type CancelRow } from '../../shared/instance-record-row.ts';
import type { Turn, TurnOutcome } from '../../contract/turn.ts';
import { mustChangeOne, type TurnTarget } from './instance-rows.ts';

interface CloseParams {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly turnId: string;
  readonly historyLength: number;
  readonly reason: string;
  readonly cleanupSkipped: 0 | 1;
  readonly now: number;
}

interface Child {
  readonly instanceKey: number;
  readonly parentExecutionId: number;
  readonly isLive: 0 | 1;
  readonly isAttached: 0 | 1;
}

/** Writes that stop rows of `instances`. Each keeps the first request, and none changes an ended instance. */
export class StopRows {
  readonly #cancelPending;
  readonly #requestCancel;
  readonly #close;
  readonly #finishClosing;
  readonly #terminate;
  readonly #countLeaked;
  readonly #selectChildren;

  constructor(db: Database.Database) {
    const asked =
      'cancel_requested_at = :now, cancel_reason = :reason, cancel_actor = :actor, cancel_cause = :trigger';
    type Asked = [{ instanceKey: number; now: number } & Required<CancelRow>];
    this.#cancelPending = db.prepare<Asked>(
      `UPDATE instances
       SET status = 'canceled', ended_at = :now, canceled_at = :now, history_length = 1, ${asked}
       WHERE instance_key = :instanceKey AND status = 'pending'`,
    );
    this.#requestCancel = db.prepare<Asked>(
      `UPDATE instances SET status = 'canceling', ${asked}
       WHERE instance_key = :instanceKey AND status = 'running'`,
    );
    // An instance that cancels itself records its own reason.
    this.#close = db.prepare<[CloseParams]>(
      `UPDATE instances
       SET status = 'canceling', closing_reason = :reason, cleanup_skipped = :cleanupSkipped,
           cancel_requested_at = coalesce(cancel_requested_at, :now),
           cancel_reason = coalesce(cancel_reason, :reason),
           definition_key = :definitionKey, last_turn = :turnId, history_length = :historyLength,
           started_at = coalesce(started_at, :now), execution_started_at = coalesce(execution_started_at, :now)
       WHERE instance_key = :instanceKey AND ended_at IS NULL`,
    );
    this.#finishClosing = db.prepare<[number, number, number]>(
      `UPDATE instances SET status = 'canceled', ended_at = ?, canceled_at = ?, closing_reason = NULL
       WHERE instance_key = ? AND ended_at IS NULL AND closing_reason IS NOT NULL`,
    );
    this.#terminate = db.prepare<[number, number, string, string | null, number]>(
      `UPDATE instances
       SET status = 'terminated', ended_at = ?, terminated_at = ?, terminate_reason = ?, terminate_actor = ?,
           history_length = history_length + 1
       WHERE instance_key = ? AND ended_at IS NULL AND closing_reason IS NULL`,
    );
    this.#countLeaked = db.prepare<[number]>(
      'UPDATE instances SET leaked = leaked + 1 WHERE instance_key = ?',
    );
    this.#selectChildren = db.prepare<[string], Child>(
      `SELECT instance_key AS instanceKey, parent_execution_id AS parentExecutionId,
              ended_at IS NULL AS isLive, cancellation <> 'abandon' AS isAttached
       FROM instances WHERE parent_instance_id = ? ORDER BY instance_key DESC`,
    );
  }

  /** Ends an instance that never ran. Its history has one event. */
  cancelPending(instanceKey: number, request: CancelDetails, now: number): void {
    mustChangeOne(this.#cancelPending.run({ instanceKey, ...toCancelRow(request), now }));
  }

  /** Makes a running instance `canceling`. */
  requestCancel(instanceKey: number, request: CancelDetails, now: number): void {
    mustChangeOne(this.#requestCancel.run({ instanceKey, ...toCancelRow(request), now }));
  }

  /** Records a turn that ends as canceled. The instance stays `canceling` until no item is left. */
  close(options: {
    readonly target: TurnTarget;
    readonly turn: Turn;
    readonly outcome: Extract<TurnOutcome, { status: 'canceled' }>;
    readonly definitionKey: number;
    readonly now: number;
  }): void {
    const { target, turn, outcome, definitionKey, now } = options;
    mustChangeOne(
      this.#close.run({
        instanceKey: target.instanceKey,
        definitionKey,
        turnId: turn.turnId,
        historyLength: target.historyLength + turn.events.length,
        reason: outcome.reason,
        cleanupSkipped: outcome.cleanupSkipped ? 1 : 0,
        now,
      }),
    );
  }

  /** Makes a closing instance `canceled`. */
  finishClosing(instanceKey: number, now: number): void {
    mustChangeOne(this.#finishClosing.run(now, now, instanceKey));
  }

  /** Makes an instance `terminated`, with one more event. */
  terminate(options: {
    readonly instanceKey: number;
    readonly reason: string;
    readonly actor: string | null;
    readonly now: number;
  }): void {
    const { instanceKey, reason, actor, now } = options;
    mustChangeOne(this.#terminate.run(now, now, reason, actor, instanceKey));
  }

  /** Counts a handler that still runs after its grace. */
  countLeaked(instanceKey: number): void {
    this.#countLeaked.run(instanceKey);
  }

  /**
   * The attached children of an instance, from an execution on: live ones, or all.
   * Children of later executions have greater keys, so children of earlier executions are not read.
   */
  selectChildren(
    instanceId: string,
    fromExecutionId: number,
    which: 'live' | 'all',
  ): readonly number[] {
    const keys: number[] = [];
    for (const child of this.#selectChildren.iterate(instanceId)) {
      if (child.parentExecutionId < fromExecutionId) break;
      const isWanted = child.isAttached === 1 && (which === 'all' || child.isLive === 1);
      if (isWanted) keys.push(child.instanceKey);
    }
    return keys.toReversed();
  }
}
