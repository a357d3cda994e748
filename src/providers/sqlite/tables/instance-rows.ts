import type Database from 'better-sqlite3';
import type { CancellationType } from '../../../model/cancel.ts';
import type { ParentRef, StoredEvent } from '../../../model/event.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import type { Turn, TurnOutcome } from '../../contract/turn.ts';
import { existingStart } from '../../rules/starts.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { DefinitionKind, Definitions } from './definitions.ts';
import { eventPayload, isLarge } from './history.ts';

/** The instance of a turn, as it was before the turn. */
export interface TurnTarget {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly historyLength: number;
  /** Whether an earlier turn started a child. */
  readonly hasChildren: 0 | 1;
  readonly isPaused: 0 | 1;
  /** Whether it has a row in `instance_locks`. Without one it has no messages. */
  readonly hasLockRow: boolean;
}

/** The target of a turn, with the columns of its fence. */
export interface InstanceRow extends Omit<TurnTarget, 'hasLockRow'> {
  readonly incarnation: string;
  readonly lastTurn: string | null;
}

/** All columns that decide what a stop or a claim does to an instance. */
export interface FullRow extends InstanceRow {
  readonly parentInstanceId: string | null;
  readonly parentExecutionId: number | null;
  readonly parentOperation: number | null;
  readonly cancelReason: string | null;
  readonly cancelTrigger: 'timeout' | null;
  /** The reason of a cancel whose end is recorded. The instance is `canceled` once no item is left. */
  readonly closingReason: string | null;
  readonly isTask: 0 | 1;
}

interface Receiver {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly executionId: number;
  /** Whether it takes no messages: it has ended, is closing, or is a task run. */
  readonly isClosed: 0 | 1;
  readonly bufferedEvents: number;
  /** Of a pending instance: when it may start, if that was set. */
  readonly runAt: number | null;
}

interface NewRow {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly inputHash: string;
  readonly cancellation?: CancellationType;
  readonly headers?: string;
}

/** The rows of `instances`. No statement changes an ended instance. */
export class InstanceRows {
  readonly #insert;
  readonly #insertStarted;
  readonly #insertStartedWithHeaders;
  readonly #select;
  readonly #selectHeld;
  readonly #selectFull;
  readonly #selectAll;
  readonly #selectById;
  readonly #selectReceiver;
  readonly #selectStart;
  readonly #setHasChildren;
  readonly #setCustomStatus;
  readonly #setBufferedEvents;
  readonly #setRunAt;
  readonly #continueAsNew;
  readonly #archive;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<
      [
        string,
        string,
        number,
        string,
        string | null,
        number | null,
        number | null,
        string | null,
        number,
      ]
    >(
      `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
                              input_hash, parent_instance_id, parent_execution_id, parent_operation,
                              cancellation, created_at)
       VALUES (?, ?, ?, 'pending', 1, 0, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (instance_id) DO NOTHING`,
    );
    this.#insertStarted = db.prepare<
      [string, string, number, number, string, string, number, number, number]
    >(
      `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
                              last_turn, input_hash, created_at, started_at, execution_started_at)
       VALUES (?, ?, ?, 'running', 1, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (instance_id) DO NOTHING`,
    );
    // Apart, so that starts without headers do not pay for the column.
    this.#insertStartedWithHeaders = db.prepare<
      [string, string, number, number, string, string, number, number, number, string]
    >(
      `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
                              last_turn, input_hash, created_at, started_at, execution_started_at, headers)
       VALUES (?, ?, ?, 'running', 1, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (instance_id) DO NOTHING`,
    );
    const columns = `instance_key AS instanceKey, instance_id AS instanceId, incarnation,
      definition_key AS definitionKey, status, execution_id AS executionId, history_length AS historyLength,
      last_turn AS lastTurn, has_children AS hasChildren, paused_at IS NOT NULL AS isPaused`;
    const allColumns = `${columns}, parent_instance_id AS parentInstanceId,
      parent_execution_id AS parentExecutionId, parent_operation AS parentOperation,
      cancel_reason AS cancelReason, cancel_cause AS cancelTrigger, closing_reason AS closingReason, priority IS NOT NULL AS isTask`;
    this.#select = db.prepare<[number], InstanceRow>(
      `SELECT ${columns} FROM instances WHERE instance_key = ?`,
    );
    // One statement per ack instead of two. An instance that ended in this group can still have its lock, which is
    // deleted later, so `ended_at` is checked too.
    this.#selectHeld = db.prepare<[number, string, number], InstanceRow>(
      `SELECT ${columns} FROM instances WHERE instance_key = ? AND ended_at IS NULL AND EXISTS (
         SELECT 1 FROM instance_locks
         WHERE instance_key = instances.instance_key AND lock_token = ? AND locked_until > ?)`,
    );
    this.#selectFull = db.prepare<[number], FullRow>(
      `SELECT ${allColumns} FROM instances WHERE instance_key = ?`,
    );
    this.#selectAll = db.prepare<[string], FullRow>(
      `SELECT ${allColumns} FROM instances WHERE instance_key IN (SELECT value FROM json_each(?))`,
    );
    this.#selectById = db.prepare<[string], FullRow>(
      `SELECT ${allColumns} FROM instances WHERE instance_id = ?`,
    );
    this.#selectReceiver = db.prepare<[string], Receiver>(
      `SELECT instance_key AS instanceKey, definition_key AS definitionKey, execution_id AS executionId,
              ended_at IS NOT NULL OR closing_reason IS NOT NULL OR priority IS NOT NULL AS isClosed,
              buffered_events AS bufferedEvents, iif(status = 'pending', run_at, NULL) AS runAt
       FROM instances WHERE instance_id = ?`,
    );
    this.#selectStart = db.prepare<[string], { definitionKey: number; inputHash: string }>(
      `SELECT definition_key AS definitionKey, input_hash AS inputHash FROM instances WHERE instance_id = ?`,
    );
    this.#setHasChildren = db.prepare<[number]>(
      'UPDATE instances SET has_children = 1 WHERE instance_key = ?',
    );
    this.#setRunAt = db.prepare<[number, number]>(
      'UPDATE instances SET run_at = ? WHERE instance_key = ?',
    );
    this.#setBufferedEvents = db.prepare<[number, number]>(
      'UPDATE instances SET buffered_events = ? WHERE instance_key = ?',
    );
    this.#setCustomStatus = db.prepare<[string | null, number, number]>(
      `UPDATE instances SET custom_status = ?, custom_status_version = custom_status_version + ?
       WHERE instance_key = ?`,
    );
    this.#archive = db.prepare<
      [{ instanceKey: number; endedKey: number; historyLength: number; now: number }]
    >(
      `INSERT INTO executions (instance_key, execution_id, definition_key, status, history_length, started_at, ended_at)
       SELECT instance_key, execution_id, :endedKey, 'continuedAsNew', :historyLength,
              coalesce(execution_started_at, :now), :now
       FROM instances WHERE instance_key = :instanceKey AND ended_at IS NULL`,
    );
    this.#continueAsNew = db.prepare<[number, number, number]>(
      `UPDATE instances SET status = iif(status = 'canceling', 'canceling', 'running'), definition_key = ?,
         execution_id = execution_id + 1, last_turn = NULL, history_length = 0, execution_started_at = NULL,
         started_at = coalesce(started_at, ?)
       WHERE instance_key = ? AND ended_at IS NULL`,
    );
  }

  get(instanceKey: number): InstanceRow | undefined {
    return this.#select.get(instanceKey);
  }

  /** Returns the instance that a token holds, or `undefined`. */
  getHeld(token: string, now: number): InstanceRow | undefined {
    const { key, secret } = parseToken(token);
    return this.#selectHeld.get(key, secret, now);
  }

  getFull(instanceKey: number): FullRow | undefined {
    return this.#selectFull.get(instanceKey);
  }

  /** Returns the existing instances among the given keys. */
  getAll(instanceKeys: readonly number[]): readonly FullRow[] {
    return this.#selectAll.all(JSON.stringify(instanceKeys));
  }

  find(instanceId: string): FullRow | undefined {
    return this.#selectById.get(instanceId);
  }

  findReceiver(instanceId: string): Receiver | undefined {
    return this.#selectReceiver.get(instanceId);
  }

  /** The columns by which a repeated start is recognized. */
  findStart(instanceId: string): { definitionKey: number; inputHash: string } | undefined {
    return this.#selectStart.get(instanceId);
  }

  /** Inserts an instance that waits for its first turn. Returns `undefined` if the id is taken. */
  insertPending(options: {
    readonly instance: NewRow;
    readonly definitionKey: number;
    readonly parent: ParentRef | null;
    readonly now: number;
  }): number | undefined {
    const { instance, definitionKey, parent, now } = options;
    const { changes, lastInsertRowid } = this.#insert.run(
      instance.instanceId,
      instance.incarnation,
      definitionKey,
      instance.inputHash,
      parent?.instanceId ?? null,
      parent?.executionId ?? null,
      parent?.operation ?? null,
      parent === null ? null : (instance.cancellation ?? null),
      now,
    );
    return changes === 0 ? undefined : Number(lastInsertRowid);
  }

  /** Inserts an instance in the state after its first turn. Returns `undefined` if the id is taken. */
  insertStarted(options: {
    readonly instance: NewRow;
    readonly definitionKey: number;
    readonly turn: Turn;
    readonly now: number;
  }): number | undefined {
    const { instance, definitionKey, turn, now } = options;
    const values = [
      instance.instanceId,
      instance.incarnation,
      definitionKey,
      turn.events.length,
      turn.turnId,
      instance.inputHash,
      now,
      now,
      now,
    ] as const;
    const { changes, lastInsertRowid } =
      instance.headers === undefined
        ? this.#insertStarted.run(...values)
        : this.#insertStartedWithHeaders.run(...values, instance.headers);
    return changes === 0 ? undefined : Number(lastInsertRowid);
  }

  /** Marks an instance as a parent, so that the end of others needs no query for children. */
  setHasChildren(instanceKey: number): void {
    this.#setHasChildren.run(instanceKey);
  }

  /** Sets when a new instance may start. Messages to it become visible then. */
  setRunAt(instanceKey: number, runAt: number): void {
    this.#setRunAt.run(runAt, instanceKey);
  }

  setBufferedEvents(instanceKey: number, count: number): void {
    this.#setBufferedEvents.run(count, instanceKey);
  }

  setCustomStatus(instanceKey: number, customStatus: string | null, versions: number): void {
    this.#setCustomStatus.run(customStatus, versions, instanceKey);
  }

  /** Archives the ended execution and moves the instance to the next one. */
  continueAsNew(options: {
    readonly target: TurnTarget;
    readonly turn: Turn;
    readonly endedKey: number;
    readonly nextKey: number;
    readonly now: number;
  }): void {
    const { target, turn, endedKey, nextKey, now } = options;
    const { instanceKey } = target;
    const historyLength = target.historyLength + turn.events.length;
    mustChangeOne(this.#archive.run({ instanceKey, endedKey, historyLength, now }));
    mustChangeOne(this.#continueAsNew.run(nextKey, now, instanceKey));
  }
}

export function parentOf(row: FullRow): ParentRef | null {
  const { parentInstanceId, parentExecutionId, parentOperation } = row;
  return parentInstanceId === null || parentExecutionId === null || parentOperation === null
    ? null
    : { instanceId: parentInstanceId, executionId: parentExecutionId, operation: parentOperation };
}

/** Throws unless a write changed exactly one live row. */
export function mustChangeOne({ changes }: { readonly changes: number }): void {
  if (changes !== 1)
    throw new Error(`Expected to change one live instance, but changed ${changes} rows.`);
}

/** Returns the result of a start whose id is taken. Throws if no instance has the id. */
export function findExistingStart(
  {
    instances,
    definitions,
  }: { readonly instances: InstanceRows; readonly definitions: Definitions },
  kind: DefinitionKind,
  wanted: { readonly instanceId: string; readonly name: string; readonly inputHash: string },
): ReturnType<typeof existingStart> {
  const existing = instances.findStart(wanted.instanceId);
  if (existing === undefined) throw new Error('An existing instance cannot be read.');
  const { inputHash } = existing;
  const definition = definitions.get(existing.definitionKey);
  return existingStart({ ...definition, inputHash }, { ...wanted, kind });
}

/** SQL of the output of an instance. `row` is a row of `instances`. */
export function outputOf(row = 'instances'): string {
  return `CASE WHEN ${row}.output IS NULL AND ${row}.completed_at IS NOT NULL AND ${row}.priority IS NULL
    THEN (SELECT ${eventPayload('last')} FROM history AS last WHERE last.instance_key = ${row}.instance_key
          AND last.execution_id = ${row}.execution_id AND last.event_id = ${row}.history_length
          AND last.kind = 'executionCompleted')
    ELSE ${row}.output END`;
}

/** The output that the row stores. A large one is read from the last event. */
function ownOutput({ events }: Turn, output: string | null): string | null {
  return isLarge(output) && isOutputEvent(events.at(-1), output) ? null : output;
}

function isOutputEvent(last: StoredEvent | undefined, output: string): boolean {
  return last?.kind === 'executionCompleted' && last.payload === output;
}

type Value = string | number | null;

/** Writes the state after a turn that leaves its instance running, completed or failed. */
export class OutcomeUpdates {
  readonly #first;
  readonly #next;

  constructor(db: Database.Database) {
    // A cancel request that arrived during the turn stays: no turn changes 'canceling' to 'running'.
    const keepCanceling = `status = iif(status = 'canceling', 'canceling', 'running')`;
    const progress = 'last_turn = ?, history_length = ?';
    this.#first = prepare(db, {
      progress: `${progress}, definition_key = ?, started_at = coalesce(started_at, ?),
        execution_started_at = coalesce(execution_started_at, ?)`,
      running: `${keepCanceling}, `,
    });
    // SQLite rewrites the indexes of every assigned column. Without these a turn takes 2-3 µs less.
    this.#next = prepare(db, { progress, running: '' });
  }

  run(options: {
    readonly target: TurnTarget;
    readonly turn: Turn;
    readonly outcome: Extract<TurnOutcome, { status: 'running' | 'completed' | 'failed' }>;
    readonly definitionKey: number;
    readonly now: number;
  }): void {
    const { target, turn, outcome, definitionKey, now } = options;
    const { instanceKey } = target;
    const length = target.historyLength + turn.events.length;
    // The first turn of an execution has set the version and the start time.
    const isNext =
      target.historyLength > 0 &&
      target.status !== 'pending' &&
      target.definitionKey === definitionKey;
    const updates = isNext ? this.#next : this.#first;
    const progress = isNext
      ? [turn.turnId, length, instanceKey]
      : [turn.turnId, length, definitionKey, now, now, instanceKey];
    switch (outcome.status) {
      case 'running':
        return mustChangeOne(updates.running.run(...progress));
      case 'completed':
        return mustChangeOne(
          updates.completed.run(ownOutput(turn, outcome.payload), now, now, ...progress),
        );
      case 'failed':
        return mustChangeOne(updates.failed.run(outcome.failure, now, now, ...progress));
    }
  }
}

function prepare(
  db: Database.Database,
  { progress, running }: { readonly progress: string; readonly running: string },
) {
  const update = (columns: string) =>
    db.prepare<Value[]>(
      `UPDATE instances SET ${columns}${progress} WHERE instance_key = ? AND ended_at IS NULL`,
    );
  return {
    running: update(running),
    completed: update(`status = 'completed', output = ?, ended_at = ?, completed_at = ?, `),
    failed: update(`status = 'failed', failure = ?, ended_at = ?, failed_at = ?, `),
  };
}
