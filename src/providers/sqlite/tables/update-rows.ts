import type Database from 'better-sqlite3';
import type { InstanceStatus } from '../../../model/status.ts';
import type { UpdateReply } from '../../contract/updates.ts';
import { keptUpdates, type StoredUpdate } from '../../rules/updates.ts';

/** The instance of an update. */
export interface UpdateReceiverRow {
  readonly instanceKey: number;
  readonly definitionKey: number;
  readonly executionId: number;
  readonly status: InstanceStatus;
  readonly isOver: 0 | 1;
}

/** The rows of `updates`. */
export class UpdateRows {
  readonly #receiver;
  readonly #receiverByKey;
  readonly #select;
  readonly #countOpen;
  readonly #lastSeq;
  readonly #insert;
  readonly #trim;
  readonly #reply;
  readonly #interrupt;
  readonly #deleteOf;

  constructor(db: Database.Database) {
    const receiver = `SELECT instance_key AS instanceKey, definition_key AS definitionKey,
        execution_id AS executionId, status,
        ended_at IS NOT NULL OR closing_reason IS NOT NULL OR priority IS NOT NULL AS isOver
      FROM instances`;
    this.#receiver = db.prepare<[string], UpdateReceiverRow>(`${receiver} WHERE instance_id = ?`);
    this.#receiverByKey = db.prepare<[number], UpdateReceiverRow>(
      `${receiver} WHERE instance_key = ?`,
    );
    this.#select = db.prepare<[number, string], StoredUpdate>(
      `SELECT name, input_hash AS inputHash, outcome, reply, failure
       FROM updates WHERE instance_key = ? AND update_key = ?`,
    );
    this.#countOpen = db
      .prepare<[number, number], number>(
        'SELECT count(*) FROM (SELECT 1 FROM updates WHERE instance_key = ? AND outcome IS NULL LIMIT +?)',
      )
      .pluck();
    this.#lastSeq = db
      .prepare<[number], number | null>('SELECT max(seq) FROM updates WHERE instance_key = ?')
      .pluck();
    this.#insert = db.prepare<[number, string, number, string, string, number]>(
      `INSERT INTO updates (instance_key, update_key, seq, name, input_hash, requested_at)
       VALUES (?, ?, ?, ?, ?, ?)`,
    );
    this.#trim = db.prepare<[number, number]>(
      'DELETE FROM updates WHERE instance_key = ? AND seq <= ? AND outcome IS NOT NULL',
    );
    this.#reply = db.prepare<[string, string | null, string | null, number, string]>(
      `UPDATE updates SET outcome = ?, reply = ?, failure = ?
       WHERE instance_key = ? AND update_key = ? AND outcome IS NULL`,
    );
    this.#interrupt = db.prepare<[string, number]>(
      `UPDATE updates SET outcome = 'interrupted', failure = ? WHERE instance_key = ? AND outcome IS NULL`,
    );
    this.#deleteOf = db.prepare<[{ keys: string }]>(
      'DELETE FROM updates WHERE instance_key IN (SELECT value FROM json_each(:keys))',
    );
  }

  findReceiver(instanceId: string): UpdateReceiverRow | undefined {
    return this.#receiver.get(instanceId);
  }

  getReceiver(instanceKey: number): UpdateReceiverRow | undefined {
    return this.#receiverByKey.get(instanceKey);
  }

  find(instanceKey: number, key: string): StoredUpdate | undefined {
    return this.#select.get(instanceKey, key);
  }

  /** Whether at least `max` updates have no reply. */
  isFull(instanceKey: number, max: number): boolean {
    return this.#countOpen.get(instanceKey, max) === max;
  }

  insert(
    instanceKey: number,
    update: { readonly key: string; readonly name: string; readonly inputHash: string },
    now: number,
  ): void {
    const { key, name, inputHash } = update;
    const seq = (this.#lastSeq.get(instanceKey) ?? 0) + 1;
    this.#insert.run(instanceKey, key, seq, name, inputHash, now);
    if (seq > keptUpdates) this.#trim.run(instanceKey, seq - keptUpdates);
  }

  /** Writes replies. A reply to an update that has one changes nothing. */
  reply(instanceKey: number, replies: readonly UpdateReply[]): void {
    for (const { key, outcome, payload, failure } of replies) {
      this.#reply.run(outcome, payload, failure, instanceKey, key);
    }
  }

  /** Replies to all open updates that their execution has ended. */
  interrupt(instanceKey: number, status: InstanceStatus): void {
    this.#interrupt.run(status, instanceKey);
  }

  /** Deletes the updates of instances: `keys` is a JSON array. */
  deleteOfInstances(keys: string): void {
    this.#deleteOf.run({ keys });
  }
}
