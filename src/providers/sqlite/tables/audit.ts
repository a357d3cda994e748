import type Database from 'better-sqlite3';
import type { AuditRecord, ListAuditParams } from '../../contract/management.ts';
import { sumSteps, type AuditedStep, type AuditSum } from '../../rules/audit-sums.ts';

type Params = [AuditSum & { readonly now: number }];

const maxRecords = 10_000;

const columns = `audit_key AS auditKey, audit_id AS auditId, action, actor, reason, instance_id AS instanceId, filter, at,
  instances, instances_deleted AS instancesDeleted, executions_deleted AS executionsDeleted,
  events_deleted AS eventsDeleted, queue_messages_deleted AS queueMessagesDeleted`;

/** The rows of `audit`: one per operation, limited to the newest 10,000. */
export class Audit {
  readonly #db: Database.Database;
  readonly #add;
  readonly #insert;
  readonly #trim;
  readonly #forget;
  readonly #progress;

  constructor(db: Database.Database) {
    this.#db = db;
    this.#add = db.prepare<Params>(
      `UPDATE audit
       SET instances = instances + :instances,
           instances_deleted = instances_deleted + :instancesDeleted,
           executions_deleted = executions_deleted + :executionsDeleted,
           events_deleted = events_deleted + :eventsDeleted,
           queue_messages_deleted = queue_messages_deleted + :queueMessagesDeleted,
           progress_key = min(coalesce(progress_key, :progressKey), coalesce(:progressKey, progress_key))
       WHERE audit_id = :auditId`,
    );
    this.#insert = db.prepare<Params>(
      `INSERT INTO audit (audit_id, action, actor, reason, instance_id, filter, at, instances, instances_deleted,
                          executions_deleted, events_deleted, queue_messages_deleted, progress_key)
       VALUES (:auditId, :action, :actor, :reason, :instanceId, :filter, :now, :instances, :instancesDeleted,
               :executionsDeleted, :eventsDeleted, :queueMessagesDeleted, :progressKey)`,
    );
    // Keys have no gaps, because only the oldest rows are deleted.
    this.#trim = db.prepare<[number | bigint]>('DELETE FROM audit WHERE audit_key <= ?');
    this.#forget = db.prepare<[string]>(
      `UPDATE audit SET instance_id = NULL
       WHERE instance_id IS NOT NULL AND instance_id IN (SELECT value FROM json_each(?))`,
    );
    this.#progress = db
      .prepare<[string], number | null>('SELECT progress_key FROM audit WHERE audit_id = ?')
      .pluck();
  }

  /** Records changes. Adds the counts to an existing record of the same operation. */
  record(steps: readonly AuditedStep[], now: number): void {
    for (const sum of sumSteps(steps)) this.#recordOne({ ...sum, now });
  }

  #recordOne(params: Params[0]): void {
    if (this.#add.run(params).changes === 1) return;
    const { lastInsertRowid } = this.#insert.run(params);
    this.#trim.run(Number(lastInsertRowid) - maxRecords);
  }

  /** Removes the ids of deleted instances. */
  forget(instanceIds: readonly string[]): void {
    this.#forget.run(JSON.stringify(instanceIds));
  }

  /** The smallest key that a bulk operation has visited. */
  progressOf(auditId: string): number | null | undefined {
    return this.#progress.get(auditId);
  }

  list(params: ListAuditParams): readonly AuditRecord[] {
    const { limit, beforeKey, auditId, actions, actor, instanceId, from, before } = params;
    const conditions = [
      beforeKey !== undefined && 'audit_key < :beforeKey',
      auditId !== undefined && 'audit_id = :auditId',
      actions !== undefined && 'action IN (SELECT value FROM json_each(:actions))',
      actor !== undefined && 'actor = :actor',
      instanceId !== undefined && 'instance_id = :instanceId',
      from !== undefined && 'at >= :from',
      before !== undefined && 'at < :before',
    ].filter((condition) => condition !== false);
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    const values = { beforeKey, auditId, actor, instanceId, from, before };
    return this.#db
      .prepare<[object], AuditRecord>(
        `SELECT ${columns} FROM audit ${where} ORDER BY audit_key DESC LIMIT +:limit`,
      )
      .all({ ...values, actions: actions && JSON.stringify(actions), limit });
  }
}
