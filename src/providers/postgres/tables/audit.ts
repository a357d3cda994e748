import type { AuditRecord, ListAuditParams } from '../../contract/management.ts';
import { sumSteps, type AuditedStep, type AuditSum } from '../../rules/audit-sums.ts';
import { one, optional, prepare, rowsOf, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

const maxRecords = 10_000;

/** Reads and writes `audit`: one row per operation, limited to the newest 10,000. */
export class Audit {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /** Records changes, or adds them to the records of the same operations. */
  async record(tx: Transaction, steps: readonly AuditedStep[], now: number): Promise<void> {
    const { add, trim } = this.#statements;
    const sums = sumSteps(steps);
    if (sums.length === 0) return;
    const added = await tx.query<{ isNew: boolean }>(...add({ sums, at: now }));
    if (added.some(({ isNew }) => isNew)) await tx.execute(...trim({}));
  }

  /** Removes the ids of deleted instances. */
  async forget(tx: Transaction, instanceIds: readonly string[]): Promise<void> {
    await tx.execute(...this.#statements.forget({ instanceIds }));
  }

  /** The smallest key that each bulk operation has visited, by audit id. */
  async progressOf(
    tx: Transaction,
    auditIds: readonly string[],
  ): Promise<ReadonlyMap<string, number>> {
    const rows = await tx.query<{ auditId: string; progressKey: number }>(
      ...this.#statements.progress({ auditIds }),
    );
    return new Map(rows.map(({ auditId, progressKey }) => [auditId, progressKey]));
  }

  list(tx: Transaction, params: ListAuditParams): Promise<readonly AuditRecord[]> {
    const { limit, beforeKey = Number.MAX_SAFE_INTEGER, instanceId, auditId } = params;
    const { actions, actor, from, before } = params;
    const { list, listOfInstance, listOfOperation } = this.#statements;
    const values = { limit, beforeKey, actions, actor, from, before };
    // One statement for each access path: a generic plan cannot choose an index by the presence of a condition.
    if (auditId !== undefined) {
      const others = { ...values, instanceId };
      return tx.query<AuditRecord>(...listOfOperation({ ...others, auditId }));
    }
    if (instanceId !== undefined) {
      return tx.query<AuditRecord>(...listOfInstance({ ...values, instanceId }));
    }
    return tx.query<AuditRecord>(...list(values));
  }
}

const sumRows = rowsOf<AuditSum>()({
  audit_id: 'text',
  action: 'text',
  actor: 'text',
  reason: 'text',
  instance_id: 'text',
  filter: 'text',
  instances: 'bigint',
  instances_deleted: 'bigint',
  executions_deleted: 'bigint',
  events_deleted: 'bigint',
  queue_messages_deleted: 'bigint',
  progress_key: 'bigint',
});

const conditions = {
  beforeKey: one<number>('bigint'),
  actions: optional(strings()),
  actor: optional(one<string>('text')),
  from: optional(one<number>('bigint')),
  before: optional(one<number>('bigint')),
  limit: one<number>('bigint'),
};

function statements(schema: string) {
  const table = `${schema}.audit`;
  const counts = [
    'instances',
    'instances_deleted',
    'executions_deleted',
    'events_deleted',
    'queue_messages_deleted',
  ];
  const select = `SELECT audit_key AS "auditKey", audit_id AS "auditId", action, actor, reason,
    instance_id AS "instanceId", filter, at, instances,
    instances_deleted AS "instancesDeleted", executions_deleted AS "executionsDeleted",
    events_deleted AS "eventsDeleted", queue_messages_deleted AS "queueMessagesDeleted" FROM ${table}`;
  const matches = (p: { readonly [Name in keyof typeof conditions]: string }) =>
    `audit_key < ${p.beforeKey} AND (${p.actions} IS NULL OR action = ANY (${p.actions}))
     AND (${p.actor} IS NULL OR actor = ${p.actor}) AND (${p.from} IS NULL OR at >= ${p.from})
     AND (${p.before} IS NULL OR at < ${p.before})`;
  return {
    // `xmax` is 0 only in a row that this statement inserted.
    add: prepare(
      'perdure_add_audit',
      { sums: sumRows, at: one<number>('bigint') },
      ({ sums, at }) => `INSERT INTO ${table} AS record (${sums.names}, at)
        SELECT ${sums.names}, ${at} FROM ${sums.withPlace('step')} ORDER BY place
        ON CONFLICT (audit_id) DO UPDATE
        SET ${counts.map((count) => `${count} = record.${count} + excluded.${count}`).join(', ')},
          progress_key = least(record.progress_key, excluded.progress_key)
        RETURNING xmax = 0 AS "isNew"`,
    ),
    trim: prepare(
      'perdure_trim_audit',
      {},
      () => `DELETE FROM ${table} WHERE audit_key <=
        (SELECT audit_key FROM ${table} ORDER BY audit_key DESC LIMIT 1 OFFSET ${maxRecords})`,
    ),
    forget: prepare(
      'perdure_forget_audited_instances',
      { instanceIds: strings() },
      ({ instanceIds }) =>
        `UPDATE ${table} SET instance_id = NULL WHERE instance_id = ANY (${instanceIds})`,
    ),
    progress: prepare(
      'perdure_audit_progress',
      { auditIds: strings() },
      ({ auditIds }) => `SELECT audit_id AS "auditId", progress_key AS "progressKey" FROM ${table}
        WHERE audit_id = ANY (${auditIds}) AND progress_key IS NOT NULL`,
    ),
    list: prepare(
      'perdure_list_audit',
      conditions,
      (p) => `${select} WHERE ${matches(p)} ORDER BY audit_key DESC LIMIT ${p.limit}`,
    ),
    listOfInstance: prepare(
      'perdure_list_audit_of_instance',
      { ...conditions, instanceId: one<string>('text') },
      (p) => `${select} WHERE instance_id = ${p.instanceId} AND ${matches(p)}
        ORDER BY audit_key DESC LIMIT ${p.limit}`,
    ),
    listOfOperation: prepare(
      'perdure_list_audit_of_operation',
      {
        ...conditions,
        auditId: one<string>('text'),
        instanceId: optional(one<string>('text')),
      },
      (p) => `${select} WHERE audit_id = ${p.auditId} AND ${matches(p)}
        AND (${p.instanceId} IS NULL OR instance_id = ${p.instanceId})
        ORDER BY audit_key DESC LIMIT ${p.limit}`,
    ),
  };
}
