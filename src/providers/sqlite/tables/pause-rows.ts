import type Database from 'better-sqlite3';
import type { DefinitionKind, Pause, PausedDefinition } from '../../contract/pausing.ts';

/** A pause of an instance, as the children of a turn under way inherit it. */
export interface InstancePause extends Pause {
  readonly tree: 0 | 1;
}

/**
 * Pauses in rows of `instances`, and in the queue rows of paused instances.
 *
 * An orchestration that is paused has a row in `instance_locks`, even without messages. All its queue rows have negative
 * definition keys; see `queueKey`.
 */
export class PauseRows {
  readonly #select;
  readonly #pause;
  readonly #lift;
  readonly #parkLock;
  readonly #parkItems;
  readonly #unparkLock;
  readonly #deleteEmptyLock;
  readonly #unparkItems;

  constructor(db: Database.Database) {
    this.#select = db.prepare<[number], InstancePause>(
      `SELECT paused_at AS at, paused_reason AS reason, paused_actor AS actor, paused_tree AS tree
       FROM instances WHERE instance_key = ? AND paused_at IS NOT NULL`,
    );
    this.#pause = db.prepare<[InstancePause & { instanceKey: number }]>(
      `UPDATE instances
       SET paused_at = :at, paused_reason = :reason, paused_actor = :actor, paused_tree = :tree
       WHERE instance_key = :instanceKey AND ended_at IS NULL AND paused_at IS NULL`,
    );
    this.#lift = db.prepare<[number]>(
      `UPDATE instances
       SET paused_at = NULL, paused_reason = NULL, paused_actor = NULL, paused_tree = NULL
       WHERE instance_key = ?`,
    );
    this.#parkLock = db.prepare<[number, number]>(
      `INSERT INTO instance_locks (instance_key, definition_key, claims) VALUES (?, -?, 0)
       ON CONFLICT (instance_key) DO UPDATE SET definition_key = -abs(definition_key)`,
    );
    this.#parkItems = db.prepare<[number]>(
      'UPDATE worker_queue SET definition_key = -abs(definition_key), limit_key = -abs(limit_key) WHERE instance_key = ?',
    );
    this.#unparkLock = db.prepare<[number]>(
      'UPDATE instance_locks SET definition_key = abs(definition_key) WHERE instance_key = ?',
    );
    // An instance without messages, lock, claims and hold-back has no row.
    this.#deleteEmptyLock = db.prepare<[number]>(
      `DELETE FROM instance_locks WHERE instance_key = ? AND next_at IS NULL AND held_until IS NULL
         AND lock_token IS NULL AND claims = 0`,
    );
    this.#unparkItems = db.prepare<[number]>(
      'UPDATE worker_queue SET definition_key = abs(definition_key), limit_key = abs(limit_key) WHERE instance_key = ?',
    );
  }

  /** Returns the pause of an instance, or `undefined`. */
  get(instanceKey: number): InstancePause | undefined {
    return this.#select.get(instanceKey);
  }

  /** Pauses a live instance. */
  pause(
    {
      instanceKey,
      definitionKey,
      isTask,
    }: { readonly instanceKey: number; readonly definitionKey: number; readonly isTask: 0 | 1 },
    { at, reason, actor, tree }: InstancePause,
  ): void {
    this.#pause.run({ instanceKey, at, reason, actor, tree });
    if (isTask === 0) this.#parkLock.run(instanceKey, definitionKey);
    this.#parkItems.run(instanceKey);
  }

  /** Ends the pause of an instance. */
  lift(instanceKey: number): void {
    this.#lift.run(instanceKey);
    this.#unparkLock.run(instanceKey);
    this.#deleteEmptyLock.run(instanceKey);
    this.#unparkItems.run(instanceKey);
  }
}

/**
 * The rows of `paused_definitions`.
 *
 * Each start and each turn checks whether a definition is paused. The first of a transaction reads whether any is. No other
 * process can change that before the commit.
 */
export class PausedDefinitions {
  readonly #any;
  readonly #has;
  readonly #insert;
  readonly #delete;
  readonly #list;
  #transaction: object | undefined;
  #isAnyPaused = false;

  constructor(db: Database.Database) {
    this.#any = db.prepare<[], 1>('SELECT 1 FROM paused_definitions LIMIT 1').pluck();
    this.#has = db
      .prepare<[DefinitionKind, string], 1>(
        'SELECT 1 FROM paused_definitions WHERE kind = ? AND name = ?',
      )
      .pluck();
    this.#insert = db.prepare<[PausedDefinition]>(
      `INSERT INTO paused_definitions (kind, name, paused_at, reason, actor)
       VALUES (:kind, :name, :at, :reason, :actor) ON CONFLICT (kind, name) DO NOTHING`,
    );
    this.#delete = db.prepare<[DefinitionKind, string]>(
      'DELETE FROM paused_definitions WHERE kind = ? AND name = ?',
    );
    this.#list = db.prepare<[], PausedDefinition>(
      `SELECT kind, name, paused_at AS at, reason, actor FROM paused_definitions ORDER BY kind, name`,
    );
  }

  /** Whether a definition is paused. `transaction` identifies the write transaction that the call is part of. */
  has(transaction: object, kind: DefinitionKind, name: string): boolean {
    if (this.#transaction !== transaction) {
      this.#isAnyPaused = this.#any.get() !== undefined;
      this.#transaction = transaction;
    }
    return this.#isAnyPaused && this.#has.get(kind, name) !== undefined;
  }

  /** Returns whether the definition was not paused before. */
  pause({ kind, name, at, reason, actor }: PausedDefinition): boolean {
    this.#transaction = undefined;
    return this.#insert.run({ kind, name, at, reason, actor }).changes === 1;
  }

  /** Returns whether the definition was paused. */
  resume(kind: DefinitionKind, name: string): boolean {
    this.#transaction = undefined;
    return this.#delete.run(kind, name).changes === 1;
  }

  list(): readonly PausedDefinition[] {
    return this.#list.all();
  }
}
