import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type { InstanceConditions, ListInstancesParams } from '../../contract/instances.ts';

/** A query for the keys of a page. */
interface ListQuery {
  readonly keys: string;
  readonly values: Record<string, unknown>;
}

/**
 * Builds the query for one page of instances, newest first. Each status and each version of a name is a query
 * of its own, which an index answers in order and ends at the limit; together they are merged.
 * `undefined` when nothing can match.
 */
export function listQuery(
  { filter, limit, beforeKey }: ListInstancesParams,
  definitionKeys: readonly number[] | undefined,
): ListQuery | undefined {
  const arms: string[] = [];
  for (const status of filter.status === undefined ? [undefined] : new Set(filter.status)) {
    if (status !== undefined && !instanceStatuses.includes(status)) continue;
    for (const keys of perVersion(definitionKeys)) {
      const conditions = [...armConditions(status, keys), ...sharedConditions(filter)];
      if (beforeKey !== undefined) conditions.push('instance_key < :beforeKey');
      const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
      arms.push(
        `SELECT instance_key FROM (SELECT instance_key FROM instances ${where} ORDER BY instance_key DESC LIMIT +:limit)`,
      );
    }
  }
  if (arms.length === 0) return undefined;
  const { name, idPrefix, parentInstanceId, createdFrom, createdBefore } = filter;
  return {
    keys: arms.join(' UNION ALL '),
    values: { name, idPrefix, parentInstanceId, createdFrom, createdBefore, beforeKey, limit },
  };
}

// Written out, not bound: only then does the planner see that the partial index holds these rows.
function armConditions(status: InstanceStatus | undefined, keys: readonly number[] | undefined) {
  const conditions: string[] = [];
  if (status !== undefined) conditions.push(`status = '${status}'`);
  if (status !== undefined && status !== 'completed') conditions.push(`status <> 'completed'`);
  if (keys !== undefined) conditions.push(`definition_key IN (${keys.join(', ')})`);
  return conditions;
}

// SQLite takes 500 queries in one union; a name with very many versions is sorted instead.
function perVersion(definitionKeys: readonly number[] | undefined) {
  if (definitionKeys === undefined) return [undefined];
  return definitionKeys.length > 50 ? [definitionKeys] : definitionKeys.map((key) => [key]);
}

function sharedConditions(filter: InstanceConditions): readonly string[] {
  const conditions: string[] = [];
  if (filter.idPrefix !== undefined) {
    // The range is for the index, the comparison makes it exact.
    conditions.push(
      `instance_id >= :idPrefix AND instance_id < :idPrefix || char(0x10ffff, 0x10ffff)`,
      'substr(instance_id, 1, length(:idPrefix)) = :idPrefix',
    );
  }
  if (filter.parentInstanceId !== undefined)
    conditions.push('parent_instance_id = :parentInstanceId');
  if (filter.createdFrom !== undefined) conditions.push('created_at >= :createdFrom');
  if (filter.createdBefore !== undefined) conditions.push('created_at < :createdBefore');
  if (filter.blocked !== undefined) {
    conditions.push(
      `instance_key ${filter.blocked ? 'IN' : 'NOT IN'}
       (SELECT instance_key FROM instance_locks WHERE blocked_build IS NOT NULL)`,
    );
  }
  return conditions;
}
