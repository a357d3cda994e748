import type Database from 'better-sqlite3';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  CountInstancesParams,
  DefinitionRecord,
  InstanceConditions,
  InstanceCount,
} from '../../contract/instances.ts';
import {
  chooseWalk,
  failureNeedles,
  maxExamined,
  statusesOf,
  toKeyPage,
  type Candidate,
  type KeyPage,
  type Walk,
} from '../../rules/listing.ts';
import type { Definitions } from '../tables/definitions.ts';

type Values = Record<string, number | string | null>;

interface Query {
  /** The keys that may match, in descending order. */
  readonly walk: string;
  readonly conditions: readonly string[];
  readonly values: Values;
}

// Above all keys.
const noKey = Number.MAX_SAFE_INTEGER;

/** Finds the instances of lists and counts. Each query reads one index in order and tests a bounded number of rows. */
export class InstanceList {
  readonly #db: Database.Database;
  readonly #definitions: Definitions;
  readonly #statements = new Map<string, Database.Statement<[Values]>>();
  readonly #countPrefix;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#db = db;
    this.#definitions = definitions;
    this.#countPrefix = db
      .prepare<[Values], number>(
        `SELECT count(*) FROM (SELECT 1 FROM instances WHERE ${prefixRange} LIMIT :budget)`,
      )
      .pluck();
  }

  /** Finds the keys of a page. */
  page(params: {
    readonly filter: InstanceConditions;
    readonly limit: number;
    readonly beforeKey?: number | undefined;
  }): KeyPage {
    const { filter, limit, beforeKey = noKey } = params;
    return this.#find(filter, { limit, beforeKey, budget: Math.max(maxExamined, limit) });
  }

  count({ filter, cap }: CountInstancesParams): InstanceCount {
    const budget = cap + maxExamined;
    const { keys, nextKey } = this.#find(filter, { limit: cap, beforeKey: noKey, budget });
    return { count: keys.length, capped: nextKey !== null };
  }

  #find(
    filter: InstanceConditions,
    page: { readonly limit: number; readonly beforeKey: number; readonly budget: number },
  ): KeyPage {
    const { limit, beforeKey, budget } = page;
    const query = this.#query(filter, budget);
    if (query === undefined || limit < 1) return { keys: [], nextKey: null };
    const failure = failureNeedles(filter).length > 0 ? 'failure' : 'NULL';
    const where = query.conditions.length === 0 ? '' : `WHERE ${query.conditions.join(' AND ')}`;
    const values = { ...query.values, beforeKey, budget, limit: limit + 1 };
    // CROSS JOIN fixes the order: the walk is outside, and stops at the limit.
    const candidates = this.#prepare(
      `SELECT instances.instance_key AS instanceKey, ${failure} AS failure
       FROM (${query.walk} LIMIT :budget) AS walked CROSS JOIN instances ON instances.instance_key = walked.instance_key
       ${where} LIMIT :limit`,
    ).all(values) as Candidate[];
    const stoppedAt = candidates.length > limit ? null : this.#stop(query, values);
    return toKeyPage(candidates, filter, { limit, stoppedAt });
  }

  /** The last key within the budget, if more keys follow. */
  #stop({ walk }: Query, values: Values & { readonly budget: number }): number | null {
    const offset = values.budget - 1;
    const rows = this.#prepare(`${walk} LIMIT 2 OFFSET :offset`).all({ ...values, offset }) as {
      instance_key: number;
    }[];
    return rows.length === 2 ? (rows[0]?.instance_key ?? null) : null;
  }

  #query(filter: InstanceConditions, budget: number): Query | undefined {
    const { names, kind, version } = filter;
    const isAnything = names === undefined && kind === undefined && version === undefined;
    const kinds = kind === undefined ? (['orchestration', 'task'] as const) : [kind];
    const definitionKeys = isAnything ? undefined : this.#definitions.keysOf(kinds, names, version);
    const statuses = statusesOf(filter)?.filter((status) => instanceStatuses.includes(status));
    if (definitionKeys?.length === 0 || statuses?.length === 0) return undefined;
    const values: Values = {
      idPrefix: filter.idPrefix ?? null,
      parentInstanceId: filter.parentInstanceId ?? null,
    };
    const conditions = rowConditions(filter, { definitionKeys, statuses, values });
    const walk = this.#walk(filter, { definitionKeys, values, budget });
    return { walk, conditions, values };
  }

  #walk(
    filter: InstanceConditions,
    {
      definitionKeys,
      values,
      budget,
    }: {
      readonly definitionKeys: readonly number[] | undefined;
      readonly values: Values;
      readonly budget: number;
    },
  ): string {
    // A prefix of few ids is read by id and sorted. One of many ids is found soon in any order.
    if (filter.idPrefix !== undefined) {
      const count = this.#countPrefix.get({ idPrefix: filter.idPrefix, budget }) ?? budget;
      if (count < budget) {
        return `SELECT instance_key FROM (SELECT instance_key FROM instances WHERE ${prefixRange})
          WHERE instance_key < :beforeKey ORDER BY instance_key DESC`;
      }
    }
    const walk = chooseWalk(filter, definitionKeys);
    if (walk.by === 'tag') Object.assign(values, { tagName: walk.name, tagValue: walk.value });
    return `${sources(walk)
      .map(([table, where]) => {
        const conditions = [...(where === '' ? [] : [where]), 'instance_key < :beforeKey'];
        return `SELECT instance_key FROM ${table} WHERE ${conditions.join(' AND ')}`;
      })
      .join(' UNION ALL ')} ORDER BY instance_key DESC`;
  }

  /** Counts the instances of definitions by status. Reads at most `cap` rows of each, and `cap` index entries per end. */
  definitions({
    afterKey,
    limit,
    cap,
  }: {
    readonly afterKey: number;
    readonly limit: number;
    readonly cap: number;
  }): readonly DefinitionRecord[] {
    const records: DefinitionRecord[] = [];
    const keys = this.#definitions
      .keysOf(['orchestration', 'task'])
      .filter((key) => key > afterKey);
    for (const definitionKey of keys.toSorted((a, b) => a - b)) {
      if (records.length === limit) break;
      const counts = this.#countsOf(definitionKey, cap);
      if (Object.keys(counts).length === 0) continue;
      const { kind, name, version } = this.#definitions.get(definitionKey);
      if (kind !== 'activity') records.push({ definitionKey, kind, name, version, counts });
    }
    return records;
  }

  #countsOf(definitionKey: number, cap: number): DefinitionRecord['counts'] {
    const newest = this.#prepare(
      `SELECT status, count(*) AS count FROM (
         SELECT status FROM instances WHERE definition_key = :definitionKey
         ORDER BY instance_key DESC LIMIT :most) GROUP BY status`,
    ).all({ definitionKey, most: cap + 1 }) as { status: InstanceStatus; count: number }[];
    const counts: Partial<Record<InstanceStatus, InstanceCount>> = {};
    const total = newest.reduce((sum, { count }) => sum + count, 0);
    for (const { status, count } of newest) {
      counts[status] = { count: Math.min(count, cap), capped: total > cap };
    }
    if (total <= cap) return counts;
    for (const status of endedOtherwise) {
      const count = this.#prepare(
        `SELECT count(*) AS count FROM (SELECT 1 FROM instances INDEXED BY instances_ended_otherwise
           WHERE definition_key = :definitionKey AND ${endedAs(status)} LIMIT :most)`,
      )
        .pluck()
        .get({ definitionKey, most: cap + 1 }) as number;
      if (count > 0) counts[status] = { count: Math.min(count, cap), capped: count > cap };
    }
    return counts;
  }

  #prepare(text: string): Database.Statement<[Values]> {
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    const statement = this.#db.prepare<[Values]>(text);
    if (this.#statements.size >= 200) this.#statements.clear();
    this.#statements.set(text, statement);
    return statement;
  }
}

const endedOtherwise = ['failed', 'canceled', 'terminated', 'skipped', 'expired'] as const;

const prefixRange =
  'instance_id >= :idPrefix AND instance_id < :idPrefix || char(0x10ffff, 0x10ffff)';

// Literals, not parameters: only then can the planner use the partial index.
function endedAs(status: InstanceStatus): string {
  return `status = '${status}' AND ended_at IS NOT NULL AND status <> 'completed'`;
}

/** The tables and conditions of a walk. */
function sources(walk: Walk): readonly (readonly [table: string, where: string])[] {
  switch (walk.by) {
    case 'all':
      return [['instances NOT INDEXED', '']];
    case 'parent':
      return [['instances', 'parent_instance_id = :parentInstanceId']];
    case 'tag':
      return [['instance_tags', 'name = :tagName AND value = :tagValue']];
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
function rowConditions(
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
  add('ended_at >= :endedFrom', 'endedFrom', filter.endedFrom);
  add('ended_at < :endedBefore', 'endedBefore', filter.endedBefore);
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
  for (const [index, [name, value]] of Object.entries(filter.tags ?? {}).entries()) {
    conditions.push(
      `EXISTS (SELECT 1 FROM instance_tags AS tag WHERE tag.name = :tag${index}
         AND tag.value = :tagged${index} AND tag.instance_key = instances.instance_key)`,
    );
    Object.assign(values, { [`tag${index}`]: name, [`tagged${index}`]: value });
  }
  return conditions;
}
