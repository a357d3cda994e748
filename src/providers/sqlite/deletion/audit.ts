import type Database from 'better-sqlite3';
import type { AuditEntry, AuditRecord } from '../../contract/management.ts';
import { isRecordedWithoutCounts } from '../../rules/pauses.ts';

/** The numbers of deleted rows. */
interface DeletedCounts {
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
}

/** The counts of one step of an operation. Steps without an entry are not recorded. */
export interface AuditedStep {
  readonly entry: AuditEntry | undefined;
  readonly counts: DeletedCounts;
}

type Params = [DeletedCounts & AuditEntry & { readonly now: number }];

const maxRecords = 10_000;

/** The rows of `audit`: one per operation, limited to the newest 10,000. */
export class Audit {
  readonly #add;
  readonly #insert;
  readonly #trim;
  readonly #list;

  constructor(db: Database.Database) {
    this.#add = db.prepare<Params>(
      `UPDATE audit
       SET instances_deleted = instances_deleted + :instancesDeleted,
           executions_deleted = executions_deleted + :executionsDeleted,
           events_deleted = events_deleted + :eventsDeleted,
           queue_messages_deleted = queue_messages_deleted + :queueMessagesDeleted
       WHERE audit_id = :auditId`,
    );
    this.#insert = db.prepare<Params>(
      `INSERT INTO audit (audit_id, action, actor, filter, at, instances_deleted, executions_deleted,
                          events_deleted, queue_messages_deleted)
       VALUES (:auditId, :action, :actor, :filter, :now, :instancesDeleted, :executionsDeleted,
               :eventsDeleted, :queueMessagesDeleted)`,
    );
    // Keys have no gaps, because only the oldest rows are deleted.
    this.#trim = db.prepare<[number | bigint]>('DELETE FROM audit WHERE audit_key <= ?');
    this.#list = db.prepare<[number, number], AuditRecord>(
      `SELECT audit_key AS auditKey, audit_id AS auditId, action, actor, filter, at,
              instances_deleted AS instancesDeleted, executions_deleted AS executionsDeleted,
              events_deleted AS eventsDeleted, queue_messages_deleted AS queueMessagesDeleted
       FROM audit WHERE audit_key < ? ORDER BY audit_key DESC LIMIT +?`,
    );
  }

  /** Records operator actions. Adds the counts to an existing record of the same operation. */
  record(steps: readonly AuditedStep[], now: number): void {
    const sums = new Map<string, { readonly entry: AuditEntry; readonly counts: DeletedCounts }>();
    for (const { entry, counts } of steps) {
      const isEmpty = Object.values(counts).every((count) => count === 0);
      if (entry === undefined || (isEmpty && !isRecordedWithoutCounts(entry))) continue;
      const sum = sums.get(entry.auditId);
      sums.set(entry.auditId, sum === undefined ? { entry, counts } : add(sum, counts));
    }
    for (const { entry, counts } of sums.values()) this.#recordOne({ ...entry, ...counts, now });
  }

  #recordOne(params: Params[0]): void {
    if (this.#add.run(params).changes === 1) return;
    const { lastInsertRowid } = this.#insert.run(params);
    this.#trim.run(Number(lastInsertRowid) - maxRecords);
  }

  list(limit: number, beforeKey: number | undefined): readonly AuditRecord[] {
    return this.#list.all(beforeKey ?? Number.MAX_SAFE_INTEGER, limit);
  }
}

function add(
  { entry, counts: a }: { readonly entry: AuditEntry; readonly counts: DeletedCounts },
  b: DeletedCounts,
) {
  const counts = {
    instancesDeleted: a.instancesDeleted + b.instancesDeleted,
    executionsDeleted: a.executionsDeleted + b.executionsDeleted,
    eventsDeleted: a.eventsDeleted + b.eventsDeleted,
    queueMessagesDeleted: a.queueMessagesDeleted + b.queueMessagesDeleted,
  };
  return { entry, counts };
}
