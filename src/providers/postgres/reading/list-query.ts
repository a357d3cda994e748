import type { InstanceStatus } from '../../../model/status.ts';
import type { InstanceConditions } from '../../contract/instances.ts';
import { failureNeedles, type KeyRange, type Walk } from '../../rules/listing.ts';
import { taskOperation } from '../../shared/work-item-row.ts';
import { text } from '../driver/arrays.ts';
import { RunState } from '../tables/task-rows.ts';

/** Collects the values of a query, and numbers their placeholders. */
export class Values {
  readonly list: unknown[] = [];

  add(value: unknown, type: 'bigint' | 'int' | 'text' | 'int[]' | 'text[]'): string {
    this.list.push(value);
    return `$${this.list.length}::${type}`;
  }
}

/** A filter, resolved. */
export interface Query {
  readonly filter: InstanceConditions;
  /** `undefined`: any. */
  readonly definitionKeys: readonly number[] | undefined;
  readonly statuses: readonly InstanceStatus[] | undefined;
  readonly range: KeyRange;
  /** The definitions in the queues that no live worker has. Read only for a condition on them. */
  readonly waiting: Waiting | undefined;
}

/** Definitions in the queues that no live worker has, and the time. */
export interface Waiting {
  readonly now: number;
  readonly lockKeys: readonly number[];
  readonly itemKeys: readonly number[];
}

/** The times between which instances ended, both inclusive, and the end of the previous page. */
export interface EndWindow {
  readonly from: number;
  readonly last: number;
  readonly before: { readonly instanceKey: number; readonly endedAt: number };
}

/** Returns a subquery of keys. */
export type KeysSql = (values: Values, range: KeyRange) => string;

/** The texts of list queries. */
export class ListSql {
  readonly #schema: string;
  readonly #run: RunState;

  constructor(schema: string) {
    this.#schema = schema;
    this.#run = new RunState(schema);
  }

  /** The keys of a walk between two keys, in descending order. */
  walk(walk: Walk, filter: InstanceConditions, values: Values, range: KeyRange): string {
    const before = values.add(range.beforeKey, 'bigint');
    const above = values.add(range.aboveKey, 'bigint');
    const arms = this.#sources(walk, filter, values).map(
      ([table, where]) =>
        `(SELECT instance_key FROM ${this.#schema}.${table}
          WHERE ${where} AND instance_key < ${before} AND instance_key > ${above}
          ORDER BY instance_key DESC)`,
    );
    return arms.length === 1
      ? (arms[0] ?? '').slice(1, -1)
      : `SELECT instance_key FROM (${arms.join(' UNION ALL ')}) AS arm ORDER BY instance_key DESC`;
  }

  /** The keys of the ids with a prefix. */
  prefixSet(idPrefix: string, values: Values): string {
    const first = values.add(text(idPrefix), 'text');
    const end = values.add(`${text(idPrefix)}\u{10ffff}\u{10ffff}`, 'text');
    return `SELECT instance_key FROM ${this.#schema}.instances WHERE instance_id >= ${first} AND instance_id < ${end}`;
  }

  /** The keys of the instances that ended in a window. */
  endedSet({ from, last }: Pick<EndWindow, 'from' | 'last'>, values: Values): string {
    return `SELECT instance_key FROM ${this.#schema}.instances
      WHERE ended_at >= ${values.add(from, 'bigint')} AND ended_at <= ${values.add(last, 'bigint')}`;
  }

  /**
   * A query of the matches that ended in a window, in the order of their ends. OFFSET makes the planner search by the
   * window alone, as other conditions can have an index with more entries.
   */
  endedIn(query: Query, window: EndWindow, parts: { values: Values; limit: number }): string {
    const { values, limit } = parts;
    const within = isWithin('ended', window, values);
    return `SELECT instance_key AS "instanceKey", ${failureOf(query)}, ended_at AS "endedAt" FROM (
        SELECT * FROM ${this.#schema}.instances AS ended WHERE ${within} OFFSET 0) AS instances
      WHERE ${['TRUE', ...this.#rowConditions(query, values)].join(' AND ')}
      ORDER BY ended_at DESC, instance_key DESC LIMIT ${values.add(limit, 'int')}`;
  }

  /** The keys of a small set that ended in a window, in the order of their ends. */
  sortedByEnd(keys: string, window: EndWindow, values: Values): string {
    return `SELECT ended.instance_key FROM (${keys} OFFSET 0) AS named CROSS JOIN LATERAL (
        SELECT instance_key, ended_at FROM ${this.#schema}.instances AS one
        WHERE one.instance_key = named.instance_key LIMIT 1) AS ended
      WHERE ${isWithin('ended', window, values)} ORDER BY ended.ended_at DESC, ended.instance_key DESC`;
  }

  /** The keys of the instances with work that no live worker can run. */
  unregisteredSet(waiting: Waiting, values: Values): string {
    const [turn, work] = this.#isWaiting(waiting, values);
    return `SELECT instance_key FROM ${this.#schema}.instance_locks AS lock WHERE lock.next_at IS NOT NULL AND ${turn}
      UNION SELECT instance_key FROM ${this.#schema}.worker_queue AS item WHERE ${work}`;
  }

  // The queue rows of a paused instance have negative definition keys.
  #isWaiting({ now, lockKeys, itemKeys }: Waiting, values: Values): readonly [string, string] {
    const time = values.add(now, 'bigint');
    return [
      `lock.definition_key = ANY (${values.add(lockKeys, 'int[]')}) AND lock.next_at <= ${time}
        AND lock.blocked_build IS NULL AND (lock.cleanup_at IS NULL OR lock.cleanup_at > ${time})`,
      `item.definition_key = ANY (${values.add(itemKeys, 'int[]')}) AND NOT item.cancel_requested
        AND (item.locked_until IS NULL OR item.locked_until <= ${time})
        AND (item.expires_at IS NULL OR item.expires_at > ${time})`,
    ];
  }

  /** A query of the keys that match, in the order of `keys`. The inner LIMIT makes the planner probe one row at a time. */
  candidates(query: Query, keys: string, parts: { values: Values; limit: number }): string {
    const { values, limit } = parts;
    const conditions = this.#rowConditions(query, values);
    const where = conditions.map((condition) => `AND ${condition}`).join(' ');
    return `SELECT walked.instance_key AS "instanceKey", found.failure, found.ended_at AS "endedAt"
      FROM (${keys}) AS walked CROSS JOIN LATERAL (
        SELECT ${failureOf(query)}, ended_at FROM ${this.#schema}.instances AS instances
        WHERE instances.instance_key = walked.instance_key ${where} LIMIT 1) AS found
      LIMIT ${values.add(limit, 'int')}`;
  }

  /** The tables and conditions of a walk. Literals, not parameters, let the planner use partial indexes. */
  #sources(
    walk: Walk,
    { parentInstanceId = '', kind }: InstanceConditions,
    values: Values,
  ): readonly (readonly [table: string, where: string])[] {
    switch (walk.by) {
      case 'all':
        return [['instances', 'TRUE']];
      case 'parent':
        return [
          ['instances', `parent_instance_id = ${values.add(text(parentInstanceId), 'text')}`],
        ];
      case 'tag': {
        const name = values.add(text(walk.name), 'text');
        const value = values.add(text(walk.value), 'text');
        return [['instance_tags', `name = ${name} AND value = ${value}`]];
      }
      case 'blocked':
        return [['instance_locks', 'blocked_build IS NOT NULL']];
      case 'leaked':
        return [['instances', 'leaked > 0']];
      case 'paused':
        return [['instances', 'paused_at IS NOT NULL']];
      case 'status': {
        const ended = walk.statuses.filter((status) => !isLive(status));
        const hasLive = ended.length < walk.statuses.length;
        return [
          ...ended.map((status) => ['instances', `listed_as = '${status}'`] as const),
          ...(hasLive && kind !== 'task' ? [['live_instances', 'TRUE'] as const] : []),
          // A task run that has not ended is found by its work item.
          ...(hasLive && kind !== 'orchestration'
            ? [
                [
                  'worker_queue',
                  `execution_id = 1 AND operation = ${taskOperation} AND ${ofTask(this.#schema)}`,
                ] as const,
              ]
            : []),
        ];
      }
      case 'endAndDefinition':
        return walk.statuses.flatMap((status) =>
          walk.definitionKeys.map(
            (key) =>
              [
                'instances',
                `listed_as = '${status}' AND definition_key = ${values.add(key, 'int')}`,
              ] as const,
          ),
        );
      case 'definition':
        return walk.definitionKeys.map((key) => [
          'instances',
          `definition_key = ${values.add(key, 'int')}`,
        ]);
    }
  }

  /** The conditions that are tested row by row. Adds their values. */
  #rowConditions(query: Query, values: Values): readonly string[] {
    const { filter, definitionKeys, statuses, waiting } = query;
    const { idPrefix, parentInstanceId, blocked, leaked, paused, unregistered } = filter;
    const conditions: string[] = [];
    if (statuses !== undefined) {
      const list = statuses.map((status) => `'${status}'`).join(', ');
      conditions.push(`(${this.#run.status('instances')}) IN (${list})`);
    }
    if (definitionKeys !== undefined) {
      conditions.push(`instances.definition_key = ANY (${values.add(definitionKeys, 'int[]')})`);
    }
    if (idPrefix !== undefined) {
      conditions.push(`starts_with(instance_id, ${values.add(text(idPrefix), 'text')})`);
    }
    if (parentInstanceId !== undefined) {
      conditions.push(`parent_instance_id = ${values.add(text(parentInstanceId), 'text')}`);
    }
    if (filter.rootsOnly === true) conditions.push('parent_instance_id IS NULL');
    const windows = [
      ['created_at >=', filter.createdFrom],
      ['created_at <', filter.createdBefore],
      ['ended_at >=', filter.endedFrom],
      ['ended_at <', filter.endedBefore],
    ] as const;
    for (const [condition, time] of windows) {
      if (time !== undefined)
        conditions.push(`${condition} ${values.add(Math.ceil(time), 'bigint')}`);
    }
    for (const needle of failureNeedles(filter)) {
      conditions.push(
        `strpos(lower(failure COLLATE "C"), ${values.add(text(needle), 'text')}) > 0`,
      );
    }
    if (blocked !== undefined) {
      conditions.push(
        `(SELECT blocked_build FROM ${this.#schema}.instance_locks AS lock
          WHERE lock.instance_key = instances.instance_key) IS ${blocked ? 'NOT ' : ''}NULL`,
      );
    }
    if (leaked !== undefined) conditions.push(`leaked ${leaked ? '>' : '='} 0`);
    if (paused !== undefined) conditions.push(`paused_at IS ${paused ? 'NOT ' : ''}NULL`);
    if (unregistered !== undefined && waiting !== undefined) {
      const [turn, work] = this.#isWaiting(waiting, values);
      conditions.push(
        `${unregistered ? '' : 'NOT '}(EXISTS (SELECT 1 FROM ${this.#schema}.instance_locks AS lock
            WHERE lock.instance_key = instances.instance_key AND ${turn} OFFSET 0)
          OR EXISTS (SELECT 1 FROM ${this.#schema}.worker_queue AS item
            WHERE item.instance_key = instances.instance_key AND ${work} OFFSET 0))`,
      );
    }
    for (const [name, value] of Object.entries(filter.tags ?? {})) {
      conditions.push(`EXISTS (SELECT 1 FROM ${this.#schema}.instance_tags AS tag
        WHERE tag.name = ${values.add(text(name), 'text')} AND tag.value = ${values.add(text(value), 'text')}
          AND tag.instance_key = instances.instance_key OFFSET 0)`);
    }
    return conditions;
  }
}

/** The failure of a candidate, if a condition needs it. */
function failureOf({ filter }: Query): string {
  return failureNeedles(filter).length > 0 ? 'failure' : 'NULL::text AS failure';
}

function isWithin(row: string, { from, last, before }: EndWindow, values: Values): string {
  return `${row}.ended_at >= ${values.add(from, 'bigint')} AND ${row}.ended_at <= ${values.add(last, 'bigint')}
    AND (${row}.ended_at < ${values.add(before.endedAt, 'bigint')}
      OR ${row}.instance_key < ${values.add(before.instanceKey, 'bigint')})`;
}

function isLive(status: InstanceStatus): boolean {
  return status === 'pending' || status === 'running' || status === 'canceling';
}

// The items of paused runs have negative keys.
function ofTask(schema: string): string {
  return `abs(definition_key) = ANY (ARRAY(SELECT definition_key FROM ${schema}.definitions WHERE kind = 'task'))`;
}
