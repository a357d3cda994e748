import type { AuditEntry, AuditRecord } from '../../contract/management.ts';
import { numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';

/** What was taken away. */
interface Taken {
  readonly instancesDeleted: number;
  readonly executionsDeleted: number;
  readonly eventsDeleted: number;
  readonly queueMessagesDeleted: number;
}

/** What one step of an operation took away; without an entry it is not recorded. */
export interface AuditedStep {
  readonly entry: AuditEntry | undefined;
  readonly taken: Taken;
}

type Sum = AuditEntry & Taken;

const maxRecords = 10_000;

/** The rows of `audit`: one per operation, the newest so many. */
export class Audit {
  readonly #add: Statement;
  readonly #trim: Statement;
  readonly #list: Statement;

  constructor(schema: string) {
    const table = `${schema}.audit`;
    const sum = (column: string) => `${column} = record.${column} + excluded.${column}`;
    // A row that an insert has just made has no xmax.
    this.#add = {
      name: 'perdure_add_audit',
      text: `INSERT INTO ${table} AS record (audit_id, action, actor, filter, at, instances_deleted, executions_deleted,
          events_deleted, queue_messages_deleted)
        SELECT audit_id, action, actor, filter, $9::bigint, instances, executions, events, queue_messages
        FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
          WITH ORDINALITY
          AS step (audit_id, action, actor, filter, instances, executions, events, queue_messages, place)
        ORDER BY place
        ON CONFLICT (audit_id) DO UPDATE
        SET ${['instances', 'executions', 'events', 'queue_messages'].map((of) => sum(`${of}_deleted`)).join(', ')}
        RETURNING xmax = 0 AS "isNew"`,
    };
    this.#trim = {
      name: 'perdure_trim_audit',
      text: `DELETE FROM ${table} WHERE audit_key <=
        (SELECT audit_key FROM ${table} ORDER BY audit_key DESC LIMIT 1 OFFSET ${maxRecords})`,
    };
    this.#list = {
      name: 'perdure_list_audit',
      text: `SELECT audit_key AS "auditKey", audit_id AS "auditId", action, actor, filter, at,
          instances_deleted AS "instancesDeleted", executions_deleted AS "executionsDeleted",
          events_deleted AS "eventsDeleted", queue_messages_deleted AS "queueMessagesDeleted"
        FROM ${table} WHERE audit_key < $1::bigint ORDER BY audit_key DESC LIMIT $2::bigint`,
    };
  }

  /** Records what was taken away, or adds it to the records of the same operations. */
  async record(tx: Transaction, steps: readonly AuditedStep[], now: number): Promise<void> {
    const sums = sumUp(steps);
    if (sums.length === 0) return;
    const added = await tx.query<{ isNew: boolean }>(this.#add, [
      texts(sums.map(({ auditId }) => auditId)),
      texts(sums.map(({ action }) => action)),
      texts(sums.map(({ actor }) => actor)),
      texts(sums.map(({ filter }) => filter)),
      numbers(sums.map(({ instancesDeleted }) => instancesDeleted)),
      numbers(sums.map(({ executionsDeleted }) => executionsDeleted)),
      numbers(sums.map(({ eventsDeleted }) => eventsDeleted)),
      numbers(sums.map(({ queueMessagesDeleted }) => queueMessagesDeleted)),
      now,
    ]);
    if (added.some(({ isNew }) => isNew)) await tx.execute(this.#trim, []);
  }

  list(
    tx: Transaction,
    { limit, beforeKey = Number.MAX_SAFE_INTEGER }: { limit: number; beforeKey?: number },
  ): Promise<readonly AuditRecord[]> {
    return tx.query<AuditRecord>(this.#list, [beforeKey, limit]);
  }
}

/** One sum per operation, in the order in which they come first; what took nothing away is left out. */
function sumUp(steps: readonly AuditedStep[]): readonly Sum[] {
  const sums = new Map<string, Sum>();
  for (const { entry, taken } of steps) {
    const isNothing = Object.values(taken).every((count) => count === 0);
    if (entry === undefined || isNothing) continue;
    const sum = sums.get(entry.auditId);
    sums.set(entry.auditId, sum === undefined ? { ...entry, ...taken } : add(sum, taken));
  }
  return [...sums.values()];
}

function add(sum: Sum, taken: Taken): Sum {
  return {
    ...sum,
    instancesDeleted: sum.instancesDeleted + taken.instancesDeleted,
    executionsDeleted: sum.executionsDeleted + taken.executionsDeleted,
    eventsDeleted: sum.eventsDeleted + taken.eventsDeleted,
    queueMessagesDeleted: sum.queueMessagesDeleted + taken.queueMessagesDeleted,
  };
}
