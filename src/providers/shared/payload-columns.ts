/**
 * The columns with payloads, failures and messages of instances, by table. External payloads that none of them refers to are
 * deleted. Not included: chunks of streams and the input of schedules, which are never external.
 */
export const payloadColumns = {
  instances: ['input', 'output', 'failure', 'custom_status', 'on_fail_failure'],
  executions: ['failure'],
  history: ['data', 'payload'],
  instance_locks: ['blocked_reason', 'blocked_details'],
  orchestrator_queue: ['data', 'payload'],
  worker_queue: ['payload', 'last_failure', 'heartbeat'],
  updates: ['reply', 'failure'],
  instance_state: ['value'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/** A query for the texts of one instance that `matches` accepts, in one snapshot. */
export function textsOfInstance(
  tables: Readonly<Record<string, readonly string[]>>,
  {
    prefix,
    instanceKey,
    matches,
  }: {
    /** Before each table name. */
    readonly prefix: string;
    /** The key of the instance, as SQL. */
    readonly instanceKey: string;
    readonly matches: (column: string) => string;
  },
): string {
  return Object.entries(tables)
    .flatMap(([table, columns]) =>
      columns.map(
        (column) =>
          `SELECT ${column} AS text FROM ${prefix}${table} WHERE instance_key = ${instanceKey} AND ${matches(column)}`,
      ),
    )
    .join(' UNION ALL ');
}
