import type Database from 'better-sqlite3';
import { deadlineOf, type StartTimes } from '../../rules/deadlines.ts';

/** An instance whose timeout has passed. */
export interface PassedDeadline {
  readonly instanceKey: number;
  readonly timeoutMs: number;
}

/** The rows of `instance_deadlines`. An instance without a timeout has none. */
export class InstanceDeadlines {
  readonly #insert;
  readonly #selectPassed;
  readonly #selectNext;
  readonly #clear;
  readonly #renew;
  readonly #copy;
  readonly #delete;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<[number, number, number]>(
      `INSERT INTO instance_deadlines (instance_key, timeout_ms, due_at) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET timeout_ms = excluded.timeout_ms, due_at = excluded.due_at`,
    );
    this.#selectPassed = db.prepare<[number, number], PassedDeadline>(
      `SELECT instance_key AS instanceKey, timeout_ms AS timeoutMs FROM instance_deadlines
       WHERE due_at <= ? ORDER BY due_at LIMIT +?`,
    );
    this.#selectNext = db
      .prepare<[], number | null>(
        'SELECT min(due_at) FROM instance_deadlines WHERE due_at IS NOT NULL',
      )
      .pluck();
    this.#clear = db.prepare<[number]>(
      'UPDATE instance_deadlines SET due_at = NULL WHERE instance_key = ?',
    );
    this.#renew = db.prepare<[number, number]>(
      'UPDATE instance_deadlines SET due_at = ? + timeout_ms WHERE instance_key = ?',
    );
    this.#copy = db.prepare<[number, number, number]>(
      `INSERT INTO instance_deadlines (instance_key, timeout_ms, due_at)
       SELECT ?, timeout_ms, ? + timeout_ms FROM instance_deadlines WHERE instance_key = ?`,
    );
    this.#delete = db.prepare<[string]>(
      'DELETE FROM instance_deadlines WHERE instance_key IN (SELECT value FROM json_each(?))',
    );
  }

  /** Stores the timeout of a new instance, if it has one. */
  add(instanceKey: number, times: StartTimes, now: number): void {
    if (times.timeoutMs === undefined) return;
    const { timeoutMs, dueAt } = deadlineOf(times.timeoutMs, times, now);
    this.#insert.run(instanceKey, timeoutMs, dueAt);
  }

  /** Replaces the timeout of an instance. */
  replace(instanceKey: number, times: StartTimes, now: number): void {
    this.deleteOfInstances(JSON.stringify([instanceKey]));
    this.add(instanceKey, times, now);
  }

  /** The instances whose timeouts have passed, longest first. */
  passed(now: number, limit: number): readonly PassedDeadline[] {
    return this.#selectPassed.all(now, limit);
  }

  /** When the next timeout passes. `null`: no instance has one. */
  nextAt(): number | null {
    return this.#selectNext.get() ?? null;
  }

  /** Marks the timeout of an instance as applied. */
  clear(instanceKey: number): void {
    this.#clear.run(instanceKey);
  }

  /** Starts the timeout of an instance that runs again, if it has one. */
  renew(instanceKey: number, now: number): void {
    this.#renew.run(now, instanceKey);
  }

  /** Gives a fork the timeout of its source, if that has one. */
  copy(fromKey: number, toKey: number, now: number): void {
    this.#copy.run(toKey, now, fromKey);
  }

  deleteOfInstances(keys: string): void {
    this.#delete.run(keys);
  }
}
