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
import { taskOperation } from '../../shared/work-item-row.ts';
import { text } from '../driver/arrays.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { RunState } from '../tables/task-rows.ts';

/** Collects the values of a query, and numbers their placeholders. */
class Values {
  readonly list: unknown[] = [];

  add(value: unknown, type: 'bigint' | 'int' | 'text' | 'int[]' | 'text[]'): string {
    this.list.push(value);
    return `$${this.list.length}::${type}`;
  }
}

interface Page {
  readonly limit: number;
  readonly beforeKey: number;
  readonly budget: number;
}

// Above all keys.
const noKey = Number.MAX_SAFE_INTEGER;

/** Finds the instances of lists and counts. Each query reads one index in order and tests a bounded number of rows. */
export class InstanceList {
  readonly #schema: string;
  readonly #run: RunState;
  readonly #sql: ReturnType<typeof statements>;
  // One statement per form of a filter.
  readonly #statements = new Map<string, Statement>();

  constructor(schema: string) {
    this.#schema = schema;
    this.#run = new RunState(schema);
    this.#sql = statements(schema);
  }

  /** Finds the keys of a page. */
  page(
    tx: Transaction,
    params: {
      readonly filter: InstanceConditions;
      readonly limit: number;
      readonly beforeKey?: number | undefined;
    },
  ): Promise<KeyPage> {
    const { filter, limit, beforeKey = noKey } = params;
    return this.#find(tx, filter, { limit, beforeKey, budget: Math.max(maxExamined, limit) });
  }

  async count(tx: Transaction, { filter, cap }: CountInstancesParams): Promise<InstanceCount> {
    const budget = cap + maxExamined;
    const { keys, nextKey } = await this.#find(tx, filter, {
      limit: cap,
      beforeKey: noKey,
      budget,
    });
    return { count: keys.length, capped: nextKey !== null };
  }

  /** Counts the instances of definitions by status. Reads at most `cap` rows of each, and `cap` index entries per end. */
  async definitions(
    tx: Transaction,
    params: { readonly afterKey: number; readonly limit: number; readonly cap: number },
  ): Promise<readonly DefinitionRecord[]> {
    const { cap } = params;
    const rows = await tx.query<{
      definitionKey: number;
      kind: 'orchestration' | 'task';
      name: string;
      version: string;
      counts: Readonly<Partial<Record<InstanceStatus, number>>>;
      ended: Readonly<Partial<Record<InstanceStatus, number>>> | null;
    }>(...this.#sql.definitions({ ...params, most: cap + 1 }));
    return rows.map(({ definitionKey, kind, name, version, counts, ended }) => {
      const newest = Object.entries(counts) as [InstanceStatus, number][];
      const isCut = newest.reduce((sum, [, count]) => sum + count, 0) > cap;
      const all: Partial<Record<InstanceStatus, InstanceCount>> = {};
      for (const [status, count] of newest) {
        all[status] = { count: Math.min(count, cap), capped: isCut };
      }
      for (const [status, count] of Object.entries(ended ?? {}) as [InstanceStatus, number][]) {
        if (isCut) all[status] = { count: Math.min(count, cap), capped: count > cap };
      }
      return { definitionKey, kind, name, version: version === '' ? null : version, counts: all };
    });
  }

  async #find(tx: Transaction, filter: InstanceConditions, page: Page): Promise<KeyPage> {
    const nothing = { keys: [], nextKey: null };
    const { limit, budget } = page;
    const definitionKeys = await this.#definitionKeys(tx, filter);
    const statuses = statusesOf(filter)?.filter((status) => instanceStatuses.includes(status));
    if (definitionKeys?.length === 0 || statuses?.length === 0 || limit < 1) return nothing;
    const isFewIds =
      filter.idPrefix !== undefined && (await this.#hasFew(tx, filter.idPrefix, budget));
    const walked = (values: Values) =>
      isFewIds
        ? this.#walkPrefix(filter, page, values)
        : this.#walk(chooseWalk(filter, definitionKeys), { filter, page, values });
    const values = new Values();
    const walk = walked(values);
    const conditions = this.#rowConditions(filter, { definitionKeys, statuses, values });
    const failure = failureNeedles(filter).length > 0 ? 'failure' : 'NULL::text AS failure';
    const where = conditions.map((condition) => `AND ${condition}`).join(' ');
    const most = values.add(limit + 1, 'int');
    // The inner LIMIT makes the planner probe one row at a time.
    const candidates = await tx.query<Candidate>(
      this.#statement(`SELECT walked.instance_key AS "instanceKey", found.failure
        FROM (${walk} LIMIT ${values.add(budget, 'int')}) AS walked CROSS JOIN LATERAL (
          SELECT ${failure} FROM ${this.#schema}.instances AS instances
          WHERE instances.instance_key = walked.instance_key ${where} LIMIT 1) AS found
        LIMIT ${most}`),
      values.list,
    );
    const stoppedAt = candidates.length > limit ? null : await this.#stop(tx, walked, budget);
    return toKeyPage(candidates, filter, { limit, stoppedAt });
  }

  /** The last key within the budget, if more keys follow. */
  async #stop(
    tx: Transaction,
    walked: (values: Values) => string,
    budget: number,
  ): Promise<number | null> {
    const values = new Values();
    const walk = walked(values);
    const rows = await tx.query<{ instance_key: number }>(
      this.#statement(`${walk} LIMIT 2 OFFSET ${values.add(budget - 1, 'int')}`),
      values.list,
    );
    return rows.length === 2 ? (rows[0]?.instance_key ?? null) : null;
  }

  /** The keys of the definitions that match; `undefined` means all. */
  async #definitionKeys(
    tx: Transaction,
    { names, kind, version }: InstanceConditions,
  ): Promise<readonly number[] | undefined> {
    if (names === undefined && kind === undefined && version === undefined) return undefined;
    const values = new Values();
    const conditions = [
      kind === undefined ? `kind <> 'activity'` : `kind = ${values.add(kind, 'text')}`,
      ...(names === undefined ? [] : [`name = ANY (${values.add(names.map(text), 'text[]')})`]),
      ...(version === undefined ? [] : [`version = ${values.add(text(version), 'text')}`]),
    ];
    const rows = await tx.query<{ definition_key: number }>(
      this.#statement(
        `SELECT definition_key FROM ${this.#schema}.definitions WHERE ${conditions.join(' AND ')}`,
      ),
      values.list,
    );
    return rows.map((row) => row.definition_key);
  }

  async #hasFew(tx: Transaction, idPrefix: string, budget: number): Promise<boolean> {
    const [row] = await tx.query<{ count: number }>(
      ...this.#sql.countPrefix({ first: idPrefix, end: endOf(idPrefix), budget }),
    );
    return row !== undefined && row.count < budget;
  }

  /** A prefix of few ids is read by id and sorted. */
  #walkPrefix({ idPrefix = '' }: InstanceConditions, { beforeKey }: Page, values: Values): string {
    const first = values.add(text(idPrefix), 'text');
    const end = values.add(endOf(text(idPrefix)), 'text');
    return `SELECT instance_key FROM (SELECT instance_key FROM ${this.#schema}.instances
        WHERE instance_id >= ${first} AND instance_id < ${end} OFFSET 0) AS named
      WHERE instance_key < ${values.add(beforeKey, 'bigint')} ORDER BY instance_key DESC`;
  }

  #walk(
    walk: Walk,
    parts: { readonly filter: InstanceConditions; readonly page: Page; readonly values: Values },
  ): string {
    const { filter, page, values } = parts;
    const before = values.add(page.beforeKey, 'bigint');
    const arms = this.#sources(walk, filter, values).map(
      ([table, where]) =>
        `(SELECT instance_key FROM ${this.#schema}.${table} WHERE ${where} AND instance_key < ${before}
          ORDER BY instance_key DESC)`,
    );
    return arms.length === 1
      ? (arms[0] ?? '').slice(1, -1)
      : `SELECT instance_key FROM (${arms.join(' UNION ALL ')}) AS arm ORDER BY instance_key DESC`;
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
          ...(hasLive && kind !== 'task' ? [['instances', `listed_as = 'live'`] as const] : []),
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
                `listed_as = '${status}' AND listed_as <> 'live' AND definition_key = ${values.add(key, 'int')}`,
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
  #rowConditions(
    filter: InstanceConditions,
    parts: {
      readonly definitionKeys: readonly number[] | undefined;
      readonly statuses: readonly InstanceStatus[] | undefined;
      readonly values: Values;
    },
  ): readonly string[] {
    const { definitionKeys, statuses, values } = parts;
    const { idPrefix, parentInstanceId, blocked, leaked, paused } = filter;
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
    for (const [name, value] of Object.entries(filter.tags ?? {})) {
      conditions.push(`EXISTS (SELECT 1 FROM ${this.#schema}.instance_tags AS tag
        WHERE tag.name = ${values.add(text(name), 'text')} AND tag.value = ${values.add(text(value), 'text')}
          AND tag.instance_key = instances.instance_key)`);
    }
    return conditions;
  }

  #statement(text: string): Statement {
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    const statement = { name: `perdure_list_${this.#statements.size}`, text };
    this.#statements.set(text, statement);
    return statement;
  }
}

function isLive(status: InstanceStatus): boolean {
  return status === 'pending' || status === 'running' || status === 'canceling';
}

// The items of paused runs have negative keys.
function ofTask(schema: string): string {
  return `abs(definition_key) = ANY (ARRAY(SELECT definition_key FROM ${schema}.definitions WHERE kind = 'task'))`;
}

function endOf(prefix: string): string {
  return `${prefix}\u{10ffff}\u{10ffff}`;
}

function statements(schema: string) {
  return {
    countPrefix: prepare(
      'perdure_count_prefix',
      { first: one<string>('text'), end: one<string>('text'), budget: one<number>('int') },
      ({ first, end, budget }) => `SELECT count(*) AS count FROM (SELECT FROM ${schema}.instances
        WHERE instance_id >= ${first} AND instance_id < ${end} LIMIT ${budget}) AS named`,
    ),
    definitions: prepare(
      'perdure_list_definitions',
      {
        afterKey: one<number>('int'),
        limit: one<number>('int'),
        most: one<number>('int'),
      },
      ({
        afterKey,
        limit,
        most,
      }) => `SELECT definition_key AS "definitionKey", kind, name, version, counts, ended
        FROM ${schema}.definitions CROSS JOIN LATERAL (
          SELECT json_object_agg(status, count) AS counts FROM (
            SELECT status, count(*) AS count FROM (
              SELECT ${new RunState(schema).status('newest')} AS status FROM (
                SELECT * FROM ${schema}.instances AS one WHERE one.definition_key = definitions.definition_key
                ORDER BY one.instance_key DESC LIMIT ${most}) AS newest) AS named GROUP BY status) AS grouped
        ) AS counted CROSS JOIN LATERAL (
          SELECT json_object_agg(status, count) AS ended FROM (
            SELECT status, (SELECT count(*) FROM (
              SELECT FROM ${schema}.instances AS one WHERE one.listed_as = wanted.status AND one.listed_as <> 'live'
                AND one.definition_key = definitions.definition_key LIMIT ${most}) AS found) AS count
            FROM unnest(ARRAY['failed', 'canceled', 'terminated', 'skipped', 'expired']) AS wanted (status)
          ) AS totals WHERE count > 0
        ) AS ends
        WHERE kind <> 'activity' AND definition_key > ${afterKey} AND counts IS NOT NULL
        ORDER BY definition_key LIMIT ${limit}`,
    ),
  };
}
