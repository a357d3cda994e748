import type { InstanceStatus } from '../../../model/status.ts';
import type { InstanceConditions } from '../../contract/instances.ts';
import { failureNeedles, type Walk } from '../../rules/listing.ts';

/** Named parameters of a statement. */
export type Values = Record<string, number | string | null>;

/** A subquery that returns the ids that begin with `:idPrefix`. */
export const prefixSet = `SELECT instance_key FROM instances
  WHERE instance_id >= :idPrefix AND instance_id < :idPrefix || char(0x10ffff, 0x10ffff)`;

/** A subquery that returns the instances that ended in a window. */
export const endedSet = `SELECT instance_key FROM instances INDEXED BY instances_ended
  WHERE ended_at >= :endedFrom AND ended_at < :endedEnd`;

// The queue rows of a paused instance have negative definition keys.
const isWaitingTurn = `definition_key IN (SELECT value FROM json_each(:lockKeys)) AND next_at <= :now
  AND blocked_build IS NULL AND (cleanup_at IS NULL OR cleanup_at > :now)`;
const isWaitingWork = `definition_key IN (SELECT value FROM json_each(:itemKeys)) AND cancel_requested = 0
  AND (lock_token IS NULL OR locked_until <= :now) AND (expires_at IS NULL OR expires_at > :now)`;

/** A subquery that returns the instances with work that no live worker can run. */
export const unregisteredSet = `SELECT instance_key FROM instance_locks WHERE next_at IS NOT NULL AND ${isWaitingTurn}
  UNION SELECT instance_key FROM worker_queue WHERE ${isWaitingWork}`;

const isUnregistered = `(EXISTS (SELECT 1 FROM instance_locks AS held
    WHERE held.instance_key = instances.instance_key AND +${isWaitingTurn})
  OR EXISTS (SELECT 1 FROM worker_queue AS item
    WHERE item.instance_key = instances.instance_key AND +${isWaitingWork}))`;

// Literals, not parameters: only then can the planner use the partial index.
export function endedAs(status: InstanceStatus): string {
  return `status = '${status}' AND ended_at IS NOT NULL AND status <> 'completed'`;
}

/** A subquery that returns the keys of a walk between `:aboveKey` and `:beforeKey`, in descending order. */
export function walkSql(walk: Walk): string {
  return `${sources(walk)
    .map(([table, where]) => {
      const conditions = [
        ...(where === '' ? [] : [where]),
        'instance_key < :beforeKey AND instance_key > :aboveKey',
      ];
      return `SELECT instance_key FROM ${table} WHERE ${conditions.join(' AND ')}`;
    })
    .join(' UNION ALL ')} ORDER BY instance_key DESC`;
}

/** The tables and conditions of a walk. */
function sources(walk: Walk): readonly (readonly [table: string, where: string])[] {
  switch (walk.by) {
    case 'all':
      return [['instances NOT INDEXED', '']];
    case 'parent':
      return [['instances', 'parent_instance_id = :parentInstanceId']];
    case 'tag':
      return [['instance_tags', `name = :tag${walk.index} AND value = :tagged${walk.index}`]];
    case 'blocked':
      return [
        ['instance_locks INDEXED BY instance_locks_blocked_keys', 'blocked_build IS NOT NULL'],
      ];
    case 'leaked':
      return [['instances INDEXED BY instances_leaked', 'leaked > 0']];
    case 'paused':
      return [['instances INDEXED BY instances_paused', 'paused_at IS NOT NULL']];
    case 'status':
      return walk.statuses.map((status) => [
        'instances INDEXED BY instances_by_status',
        `status = '${status}' AND status <> 'completed'`,
      ]);
    case 'endAndDefinition':
      return walk.statuses.flatMap((status) =>
        walk.definitionKeys.map(
          (key) =>
            [
              'instances INDEXED BY instances_ended_otherwise',
              `${endedAs(status)} AND definition_key = ${key}`,
            ] as const,
        ),
      );
    case 'definition':
      return walk.definitionKeys.map((key) => [
        'instances INDEXED BY instances_by_definition',
        `definition_key = ${key}`,
      ]);
  }
}

/** The conditions that are tested row by row. Adds their values. */
export function rowConditions(
  filter: InstanceConditions,
  {
    definitionKeys,
    statuses,
    values,
  }: {
    readonly definitionKeys: readonly number[] | undefined;
    readonly statuses: readonly InstanceStatus[] | undefined;
    readonly values: Values;
  },
): readonly string[] {
  const conditions: string[] = [];
  const add = (condition: string, name: string, value: number | string | undefined): void => {
    if (value === undefined) return;
    conditions.push(condition);
    values[name] = value;
  };
  if (statuses !== undefined) {
    conditions.push(`+status IN (${statuses.map((status) => `'${status}'`).join(', ')})`);
  }
  if (definitionKeys !== undefined) {
    conditions.push(`+instances.definition_key IN (${definitionKeys.join(', ')})`);
  }
  add('substr(instance_id, 1, length(:idPrefix)) = :idPrefix', 'idPrefix', filter.idPrefix);
  add('+parent_instance_id = :parentInstanceId', 'parentInstanceId', filter.parentInstanceId);
  if (filter.rootsOnly === true) conditions.push('parent_instance_id IS NULL');
  add('created_at >= :createdFrom', 'createdFrom', filter.createdFrom);
  add('created_at < :createdBefore', 'createdBefore', filter.createdBefore);
  add('+instances.ended_at >= :endedFrom', 'endedFrom', filter.endedFrom);
  add('+instances.ended_at < :endedBefore', 'endedBefore', filter.endedBefore);
  for (const [index, needle] of failureNeedles(filter).entries()) {
    add(`instr(lower(failure), :needle${index}) > 0`, `needle${index}`, needle);
  }
  if (filter.blocked !== undefined) {
    conditions.push(
      `${filter.blocked ? '' : 'NOT '}EXISTS (SELECT 1 FROM instance_locks AS held
         WHERE held.instance_key = instances.instance_key AND blocked_build IS NOT NULL)`,
    );
  }
  if (filter.leaked !== undefined) conditions.push(`leaked ${filter.leaked ? '>' : '='} 0`);
  if (filter.paused !== undefined) {
    conditions.push(`paused_at IS ${filter.paused ? 'NOT ' : ''}NULL`);
  }
  if (filter.unregistered !== undefined) {
    conditions.push(`${filter.unregistered ? '' : 'NOT '}${isUnregistered}`);
  }
  for (const [index, [name, value]] of Object.entries(filter.tags ?? {}).entries()) {
    conditions.push(
      `EXISTS (SELECT 1 FROM instance_tags AS tag WHERE tag.name = :tag${index}
         AND tag.value = :tagged${index} AND tag.instance_key = instances.instance_key)`,
    );
    Object.assign(values, { [`tag${index}`]: name, [`tagged${index}`]: value });
  }
  return conditions;
}
