import type { EngineStore, StoreKind } from '../../engine/engine-store.ts';

/** What `addPlainInstances` adds. */
export interface PlainInstances {
  readonly kind: StoreKind;
  readonly count: number;
  /** The completed root whose definition, version and input the instances have. */
  readonly like: string;
  /** The id of the newest is `<prefix>-<count>`. Default: `plain`. */
  readonly prefix?: string;
  /** The newest one was created then; each older one a second before. */
  readonly now: number;
}

/**
 * Adds ended instances by one statement, for large lists: every 50th failed, the others completed. They have no history
 * and no output.
 */
export async function addPlainInstances(
  { tamper }: Pick<EngineStore, 'tamper'>,
  { kind, count, like, prefix = 'plain', now }: PlainInstances,
): Promise<void> {
  const createdAt = `${Math.floor(now)} - (${count} - n) * 1000`;
  const endedAt = `${createdAt} + 5`;
  const failure = `'{"name":"CardDeclined","message":"Card declined: insufficient funds","code":"PAYMENT_DECLINED"}'`;
  await tamper(`
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length, input_hash,
      created_at, started_at, execution_started_at, ended_at, completed_at, failed_at, failure)
    SELECT '${prefix}-' || n, incarnation || '-' || n, definition_key,
      CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END, 1, 0, input_hash,
      ${createdAt}, ${createdAt}, ${createdAt}, ${endedAt},
      CASE WHEN n % 50 = 0 THEN NULL ELSE ${endedAt} END,
      CASE WHEN n % 50 = 0 THEN ${endedAt} END,
      CASE WHEN n % 50 = 0 THEN ${failure} END
    FROM instances CROSS JOIN numbers WHERE instance_id = '${like}'
    ORDER BY n`);
  // PostgreSQL lists instances that ended otherwise than completed by this column.
  if (kind === 'PostgreSQL')
    await tamper(`UPDATE instances SET listed_as = 'failed' WHERE failed_at IS NOT NULL`);
}
