import type { AuditEntry, AuditRecord } from '../../contract/management.ts';
import { isRecordedWithoutCounts } from '../../rules/pauses.ts';
import { one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** Numbers of deleted rows. */
interface Deleted {
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
}

/** The deletions of one step of an operation. Without an entry they are not recorded. */
export interface AuditedStep {
  readonly entry: AuditEntry | undefined;
  readonly deleted: Deleted;
}

type Sum = AuditEntry & Deleted;

const maxRecords = 10_000;

/** Reads and writes `audit`: one row per operation, limited to the newest 10,000. */
export class Audit {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /** Records deletions, or adds them to the records of the same operations. */
  async record(tx: Transaction, steps: readonly AuditedStep[], now: number): Promise<void> {
    const { add, trim } = this.#statements;
    const sums = sumUp(steps);
    if (sums.length === 0) return;
    const added = await tx.query<{ isNew: boolean }>(...add({ sums, at: now }));
    if (added.some(({ isNew }) => isNew)) await tx.execute(...trim({}));
  }

  list(
    tx: Transaction,
    { limit, beforeKey = Number.MAX_SAFE_INTEGER }: { limit: number; beforeKey?: number },
  ): Promise<readonly AuditRecord[]> {
    return tx.query<AuditRecord>(...this.#statements.list({ beforeKey, limit }));
  }
}

const sumRows = rowsOf<Sum>()({
  audit_id: 'text',
  action: 'text',
  actor: 'text',
  filter: 'text',
  instances_deleted: 'bigint',
  executions_deleted: 'bigint',
  events_deleted: 'bigint',
  queue_messages_deleted: 'bigint',
});

function statements(schema: string) {
  const table = `${schema}.audit`;
  const counts = [
    'instances_deleted',
    'executions_deleted',
    'events_deleted',
    'queue_messages_deleted',
  ];
  return {
    // `xmax` is 0 only in a row that this statement inserted.
    add: prepare(
      'perdure_add_audit',
      { sums: sumRows, at: one<number>('bigint') },
      ({ sums, at }) => `INSERT INTO ${table} AS record (${sums.names}, at)
        SELECT ${sums.names}, ${at} FROM ${sums.withPlace('step')} ORDER BY place
        ON CONFLICT (audit_id) DO UPDATE
        SET ${counts.map((count) => `${count} = record.${count} + excluded.${count}`).join(', ')}
        RETURNING xmax = 0 AS "isNew"`,
    ),
    trim: prepare(
      'perdure_trim_audit',
      {},
      () => `DELETE FROM ${table} WHERE audit_key <=
        (SELECT audit_key FROM ${table} ORDER BY audit_key DESC LIMIT 1 OFFSET ${maxRecords})`,
    ),
    list: prepare(
      'perdure_list_audit',
      { beforeKey: one<number>('bigint'), limit: one<number>('bigint') },
      ({ beforeKey, limit }) =>
        `SELECT audit_key AS "auditKey", audit_id AS "auditId", action, actor, filter, at,
          instances_deleted AS "instancesDeleted", executions_deleted AS "executionsDeleted",
          events_deleted AS "eventsDeleted", queue_messages_deleted AS "queueMessagesDeleted"
        FROM ${table} WHERE audit_key < ${beforeKey} ORDER BY audit_key DESC LIMIT ${limit}`,
    ),
  };
}

/** One sum per operation, in the order of their first steps. Omits operations that deleted nothing. */
function sumUp(steps: readonly AuditedStep[]): readonly Sum[] {
  const sums = new Map<string, Sum>();
  for (const { entry, deleted } of steps) {
    const isNothing = Object.values(deleted).every((count) => count === 0);
    if (entry === undefined || (isNothing && !isRecordedWithoutCounts(entry))) continue;
    const sum = sums.get(entry.auditId);
    sums.set(entry.auditId, sum === undefined ? { ...entry, ...deleted } : add(sum, deleted));
  }
  return [...sums.values()];
}

function add(sum: Sum, deleted: Deleted): Sum {
  return {
    ...sum,
    instancesDeleted: sum.instancesDeleted + deleted.instancesDeleted,
    executionsDeleted: sum.executionsDeleted + deleted.executionsDeleted,
    eventsDeleted: sum.eventsDeleted + deleted.eventsDeleted,
    queueMessagesDeleted: sum.queueMessagesDeleted + deleted.queueMessagesDeleted,
  };
}
