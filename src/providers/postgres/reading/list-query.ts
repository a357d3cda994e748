import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type { InstanceConditions, ListInstancesParams } from '../../contract/instances.ts';
import { text } from '../driver/arrays.ts';
import { taskOperation } from '../tables/work-items.ts';

/** A query for the keys of a page. */
interface ListQuery {
  readonly keys: string;
  readonly values: readonly unknown[];
}

/** The values of a query, each with its placeholder. */
class Values {
  readonly list: unknown[] = [];

  add(value: unknown, type: string): string {
    this.list.push(value);
    return `$${this.list.length}::${type}`;
  }
}

/**
 * Builds the query for one page of instances, newest first; `$1` is the limit. Each status and each version of a name is
 * a query of its own, which an index answers in order and ends at the limit; together they are merged. Task runs that are
 * not over are found by their items.
 * `undefined` when nothing can match.
 */
export function listQuery(params: ListInstancesParams, schema: string): ListQuery | undefined {
  const { filter, limit, beforeKey } = params;
  const statuses =
    filter.status === undefined
      ? [undefined]
      : [...new Set(filter.status)].filter((status) => instanceStatuses.includes(status)).sort();
  if (statuses.length === 0) return undefined;
  const values = new Values();
  const limitValue = values.add(limit, 'int');
  const shared = sharedConditions(filter, schema, values);
  if (beforeKey !== undefined) shared.push(`instance_key < ${values.add(beforeKey, 'bigint')}`);
  const versions = definitionsOf(filter, schema, values);
  const ofWanted = versions === undefined ? [] : ['definition_key = wanted_key'];
  const walk = (conditions: readonly string[]) => {
    const all = [...conditions, ...shared, ...ofWanted];
    const where = all.length === 0 ? '' : `WHERE ${all.join(' AND ')}`;
    return `SELECT instance_key FROM ${schema}.instances AS listed ${where}
      ORDER BY instance_key DESC LIMIT ${limitValue}`;
  };
  const walkRuns = (status: LiveStatus) => {
    const ofVersion =
      versions === undefined
        ? ''
        : `AND item.definition_key = ANY (ARRAY(SELECT wanted_key FROM ${versions}))`;
    const conditions = [
      'instance_key = item.instance_key',
      isRun,
      status === 'canceling' ? `status = 'canceling'` : `status = 'pending'`,
      ...shared,
    ];
    return `SELECT item.instance_key FROM ${schema}.worker_queue AS item CROSS JOIN LATERAL (
        SELECT FROM ${schema}.instances AS listed WHERE ${conditions.join(' AND ')} LIMIT 1) AS run
      WHERE item.execution_id = 1 AND item.operation = ${taskOperation} ${startConditions[status]} ${ofVersion}
      ORDER BY item.instance_key DESC LIMIT ${limitValue}`;
  };
  const arm = (page: string, from = '') => `SELECT page.instance_key FROM ${from}(${page}) AS page`;
  const perVersion = versions === undefined ? '' : `${versions} CROSS JOIN LATERAL `;
  const arms = statuses.flatMap((status) =>
    isLive(status)
      ? [
          arm(walk([`listed_as = 'live'`, `status = '${status}'`]), perVersion),
          // All names in one walk over the queue, which has no order for each.
          arm(walkRuns(status)),
        ]
      : [arm(walk(statusConditions(status)), perVersion)],
  );
  return { keys: arms.join(' UNION ALL '), values: values.list };
}

const isRun = 'priority IS NOT NULL';

type LiveStatus = 'pending' | 'running' | 'canceling';

// Whether a run has started is known to its item alone.
const startConditions: Readonly<Record<LiveStatus, string>> = {
  pending: 'AND item.started_at IS NULL',
  running: 'AND item.started_at IS NOT NULL',
  canceling: '',
};

function isLive(status: InstanceStatus | undefined): status is LiveStatus {
  return status === 'pending' || status === 'running' || status === 'canceling';
}

/** The definitions that the instances may have; `undefined`: any. */
function definitionsOf(
  { name, kind, version }: InstanceConditions,
  schema: string,
  values: Values,
): string | undefined {
  if (name === undefined && kind === undefined && version === undefined) return undefined;
  const conditions = [
    kind === undefined ? `kind <> 'activity'` : `kind = ${values.add(kind, 'text')}`,
    ...(name === undefined ? [] : [`name = ${values.add(text(name), 'text')}`]),
    ...(version === undefined ? [] : [`version = ${values.add(text(version), 'text')}`]),
  ];
  return `(SELECT definition_key AS wanted_key FROM ${schema}.definitions
    WHERE ${conditions.join(' AND ')}) AS version`;
}

// Written out, not bound: only then does the planner see that the partial index holds these rows.
function statusConditions(status: InstanceStatus | undefined): readonly string[] {
  if (status === undefined) return [];
  return [status === 'completed' ? `status = 'completed'` : `listed_as = '${status}'`];
}

function sharedConditions(filter: InstanceConditions, schema: string, values: Values): string[] {
  const conditions: string[] = [];
  const { idPrefix, parentInstanceId, createdFrom, createdBefore, blocked } = filter;
  if (idPrefix !== undefined) {
    // The range is for the index, the comparison makes it exact.
    const prefix = values.add(text(idPrefix), 'text');
    const end = values.add(`${text(idPrefix)}\u{10ffff}\u{10ffff}`, 'text');
    conditions.push(
      `instance_id >= ${prefix} AND instance_id < ${end} AND starts_with(instance_id, ${prefix})`,
    );
  }
  if (parentInstanceId !== undefined) {
    conditions.push(`parent_instance_id = ${values.add(text(parentInstanceId), 'text')}`);
  }
  if (createdFrom !== undefined) {
    conditions.push(`created_at >= ${values.add(Math.ceil(createdFrom), 'bigint')}`);
  }
  if (createdBefore !== undefined) {
    conditions.push(`created_at < ${values.add(Math.ceil(createdBefore), 'bigint')}`);
  }
  const blockedRows = `SELECT instance_key FROM ${schema}.instance_locks WHERE blocked_build IS NOT NULL`;
  if (blocked === true) conditions.push(`instance_key = ANY (ARRAY(${blockedRows}))`);
  if (blocked === false) {
    conditions.push(
      `(SELECT blocked_build FROM ${schema}.instance_locks AS lock WHERE lock.instance_key = listed.instance_key) IS NULL`,
    );
  }
  return conditions;
}
