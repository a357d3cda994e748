import { platform } from '../../../model/platform.ts';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  CountInstancesParams,
  DefinitionRecord,
  InstanceConditions,
  InstanceCount,
  ListInstancesParams,
} from '../../contract/instances.ts';
import type { WorkerList } from '../../contract/workers.ts';
import {
  creationWindow,
  endWindow,
  estimateEntries,
  isPageOver,
  nextSlice,
  maxExamined,
  maxSorted,
  maxSortedByEnd,
  probedEntries,
  statusesOf,
  toKeyPage,
  walksOf,
  type Candidate,
  type KeyPage,
  type KeyRange,
  type ListPosition,
} from '../../rules/listing.ts';
import { definitionsOf, liveWorkers } from '../../rules/workers.ts';
import {
  creationKeySql,
  endKeyOf,
  endSearchTime,
  startKeyOf,
  startSearchTime,
  type CreationKeyRow,
} from '../../shared/creation-keys.ts';
import { text } from '../driver/arrays.ts';
import { one, prepare } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { RunState } from '../tables/task-rows.ts';
import {
  ListSql,
  Values,
  type EndWindow,
  type KeysSql,
  type Query,
  type Waiting,
} from './list-query.ts';
import type { UnclaimedWorkFinder } from './unclaimed-work.ts';

/** The rows that a query examines, and their estimated number. */
interface Source {
  readonly keys: KeysSql;
  readonly entries: number;
  /** Whether there are at most `maxSortedByEnd`. */
  readonly isSmall: boolean;
}

/** Ends a search: at so many matches or examined rows. */
interface Bounds {
  readonly limit: number;
  readonly maxRows: number;
}

// Above all keys and times.
const noKey = Number.MAX_SAFE_INTEGER;
// Rows of the first statement of a page. The size of each later one follows from the time of the last one.
const firstSlice = 500;
// One of this size takes about 14 ms. With 1,000 rows more pages exceeded 50 ms.
const maxSlice = 2_000;
// Instances of the smallest window of ends. The index of ends leads to several hundred rows at least.
const firstWindow = 1_000;
// Each connection keeps its prepared statements. Filters of further forms are sent unprepared.
const maxPrepared = 100;

/** Finds the instances of lists and counts. Each query reads one index in order and tests a bounded number of rows. */
export class InstanceList {
  readonly #schema: string;
  readonly #unclaimedWork: UnclaimedWorkFinder;
  readonly #list: ListSql;
  readonly #sql: ReturnType<typeof statements>;
  // One statement per form of a filter.
  readonly #statements = new Map<string, Statement>();
  #hasEndIndex: boolean | undefined;

  constructor(schema: string, unclaimedWork: UnclaimedWorkFinder) {
    this.#schema = schema;
    this.#unclaimedWork = unclaimedWork;
    this.#list = new ListSql(schema);
    this.#sql = statements(schema);
  }

  /** Finds the keys of a page. `workers` are needed for a condition on them. */
  page(tx: Transaction, params: ListInstancesParams, workers?: WorkerList): Promise<KeyPage> {
    const { filter, limit, orderBy, beforeKey = noKey, beforeEndedAt = noKey } = params;
    const bounds = { limit, maxRows: Math.max(maxExamined, limit) };
    if (orderBy !== 'ended') return this.#find(tx, { filter, beforeKey, bounds, workers });
    const before = { instanceKey: beforeKey, endedAt: beforeEndedAt };
    return this.#findEnded(tx, { filter, before, bounds, workers });
  }

  async count(
    tx: Transaction,
    { filter, cap }: CountInstancesParams,
    workers?: WorkerList,
  ): Promise<InstanceCount> {
    const bounds = { limit: cap, maxRows: cap + maxExamined };
    const { keys, next } = await this.#find(tx, { filter, beforeKey: noKey, bounds, workers });
    return { count: keys.length, capped: next !== null };
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

  async #find(
    tx: Transaction,
    call: {
      readonly filter: InstanceConditions;
      readonly beforeKey: number;
      readonly bounds: Bounds;
      readonly workers: WorkerList | undefined;
    },
  ): Promise<KeyPage> {
    const { filter, beforeKey, workers } = call;
    const { limit, maxRows } = call.bounds;
    const begun = platform.monotonic();
    const query = limit < 1 ? undefined : await this.#query(tx, { filter, beforeKey, workers });
    if (query === undefined) return { keys: [], next: null };
    const { keys } = await this.#source(tx, query, maxSorted);
    const found: Candidate[] = [];
    let { range } = query;
    let examined = 0;
    const largest = Math.max(maxSlice, limit + 1);
    let size = Math.max(firstSlice, limit + 1);
    for (;;) {
      const rows = Math.min(size, maxRows - examined);
      const sliceBegun = platform.monotonic();
      const wanted = limit + 1 - found.length;
      const [candidates, stoppedAt] = await Promise.all([
        this.#candidates(tx, query, { limit: wanted, rows, keys, range }),
        this.#stop(tx, keys, { rows, range }),
      ]);
      found.push(...candidates);
      examined += rows;
      const isOver =
        found.length > limit ||
        stoppedAt === null ||
        isPageOver(examined, { ...call.bounds, begun });
      if (isOver) return toKeyPage(found, filter, { limit, stoppedAt });
      range = { ...range, beforeKey: stoppedAt.instanceKey };
      size = nextSlice(rows, { begun, sliceBegun, largest });
    }
  }

  #candidates(
    tx: Transaction,
    query: Query,
    slice: {
      readonly limit: number;
      /** Absent: all. */
      readonly rows?: number;
      readonly keys: KeysSql;
      readonly range: KeyRange;
    },
  ): Promise<readonly Candidate[]> {
    const values = new Values();
    const walk = slice.keys(values, slice.range);
    const keys = slice.rows === undefined ? walk : `${walk} LIMIT ${values.add(slice.rows, 'int')}`;
    const sql = this.#list.candidates(query, keys, { values, limit: slice.limit });
    return tx.query<Candidate>(this.#statement(sql), values.list);
  }

  /** The last key of a slice, if more keys follow. */
  async #stop(
    tx: Transaction,
    keys: KeysSql,
    { rows, range }: { readonly rows: number; readonly range: KeyRange },
  ): Promise<ListPosition | null> {
    const values = new Values();
    const walk = keys(values, range);
    const found = await tx.query<{ instance_key: number }>(
      this.#statement(`${walk} LIMIT 2 OFFSET ${values.add(rows - 1, 'int')}`),
      values.list,
    );
    const [last, next] = found;
    if (last === undefined || next === undefined) return null;
    return { instanceKey: last.instance_key, endedAt: null };
  }

  /** Finds a page in the order of ends: sorts a small set, or reads windows of time in descending order. */
  async #findEnded(
    tx: Transaction,
    call: {
      readonly filter: InstanceConditions;
      readonly before: { readonly instanceKey: number; readonly endedAt: number };
      readonly bounds: Bounds;
      readonly workers: WorkerList | undefined;
    },
  ): Promise<KeyPage> {
    const { filter, before, workers } = call;
    const { limit } = call.bounds;
    const begun = platform.monotonic();
    const query =
      limit < 1 ? undefined : await this.#query(tx, { filter, beforeKey: noKey, workers });
    if (query === undefined) return { keys: [], next: null };
    const source = await this.#source(tx, query, maxSortedByEnd);
    const { from, last } = endWindow(filter);
    let end = Math.min(last, before.endedAt);
    if (source.isSmall) {
      const window = { from, last: end, before };
      const keys: KeysSql = (values, range) =>
        this.#list.sortedByEnd(source.keys(values, range), window, values);
      const found = await this.#candidates(tx, query, {
        keys,
        range: query.range,
        limit: limit + 1,
      });
      return toKeyPage(found, filter, { limit, stoppedAt: null });
    }
    const found: Candidate[] = [];
    // Windows for about as many instances as were created just before the end of the window.
    let { key: beforeKey } = await this.#creationKey(tx, end, noKey);
    let rows = firstWindow;
    let examined = 0;
    for (;;) {
      const sliceBegun = platform.monotonic();
      const [oldest] = await tx.query<{ instanceKey: number; createdAt: number }>(
        ...this.#sql.createdBefore({ beforeKey, skipped: rows - 1 }),
      );
      const start = Math.max(Math.min(oldest?.createdAt ?? 0, end), from);
      const window = { from: start, last: end, before };
      found.push(...(await this.#endedIn(tx, query, window, limit + 1 - found.length)));
      if (found.length > limit || oldest === undefined || start <= from) {
        return toKeyPage(found, filter, { limit, stoppedAt: null });
      }
      examined += rows;
      rows = nextSlice(rows, { begun, sliceBegun, smallest: firstWindow, largest: maxSlice });
      if (isPageOver(examined, { ...call.bounds, begun })) {
        return toKeyPage(found, filter, { limit, stoppedAt: { instanceKey: 0, endedAt: start } });
      }
      beforeKey = oldest.instanceKey;
      end = start - 1;
    }
  }

  #endedIn(
    tx: Transaction,
    query: Query,
    window: EndWindow,
    limit: number,
  ): Promise<readonly Candidate[]> {
    const values = new Values();
    const sql = this.#list.endedIn(query, window, { values, limit });
    return tx.query<Candidate>(this.#statement(sql), values.list);
  }

  async #query(
    tx: Transaction,
    call: {
      readonly filter: InstanceConditions;
      readonly beforeKey: number;
      readonly workers: WorkerList | undefined;
    },
  ): Promise<Query | undefined> {
    const { filter, beforeKey, workers } = call;
    const statuses = statusesOf(filter)?.filter((status) => instanceStatuses.includes(status));
    if (statuses?.length === 0) return undefined;
    const [definitionKeys, range, waiting] = await Promise.all([
      this.#definitionKeys(tx, filter),
      this.#range(tx, filter, beforeKey),
      workers === undefined ? undefined : this.#waiting(tx, workers),
    ]);
    if (definitionKeys?.length === 0) return undefined;
    return { filter, definitionKeys, statuses, range, waiting };
  }

  async #waiting(tx: Transaction, workers: WorkerList): Promise<Waiting> {
    const known = definitionsOf(liveWorkers(workers));
    return { now: workers.nowMs, ...(await this.#unclaimedWork.unknownKeys(tx, known)) };
  }

  /** The keys between which all matches are. */
  async #range(tx: Transaction, filter: InstanceConditions, beforeKey: number): Promise<KeyRange> {
    const { from, before } = creationWindow(filter);
    const [end, start] = await Promise.all([
      before === undefined
        ? undefined
        : this.#creationKey(tx, Math.ceil(endSearchTime(before)), beforeKey),
      from === undefined
        ? undefined
        : this.#creationKey(tx, Math.ceil(startSearchTime(from)), beforeKey),
    ]);
    const endKey = before === undefined || end === undefined ? undefined : endKeyOf(end, before);
    const startKey =
      from === undefined || start === undefined ? undefined : startKeyOf(start, from);
    return { aboveKey: startKey ?? 0, beforeKey: Math.min(endKey ?? noKey, beforeKey) };
  }

  async #creationKey(tx: Transaction, time: number, top: number): Promise<CreationKeyRow> {
    const [row] = await tx.query<CreationKeyRow>(...this.#sql.creationKey({ time, top }));
    return row ?? { key: noKey, earliestAfter: null, latestBefore: null };
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

  /** Chooses the source with the fewest rows to examine. A set of at most `maxSet` entries is sorted by key. */
  async #source(tx: Transaction, query: Query, maxSet: number): Promise<Source> {
    const { filter, definitionKeys, range } = query;
    const walks = walksOf(filter, definitionKeys).map(
      (walk): KeysSql =>
        (values, between) =>
          this.#list.walk(walk, filter, values, between),
    );
    const sets = await this.#sets(tx, query);
    const [first] = walks;
    const isByEnd = maxSet === maxSortedByEnd;
    if (walks.length === 1 && sets.length === 0 && !isByEnd && first !== undefined) {
      return { keys: first, entries: 0, isSmall: false };
    }
    const values = new Values();
    const columns = [
      `(SELECT max(instance_key) FROM ${this.#schema}.instances)`,
      ...walks.map((walk) => `(${walk(values, range)} LIMIT 1 OFFSET ${probedEntries - 1})`),
      ...(isByEnd
        ? walks.map((walk) => `(${walk(values, range)} LIMIT 1 OFFSET ${maxSortedByEnd})`)
        : []),
      ...sets.map(
        (set) =>
          `(SELECT count(*) FROM (SELECT FROM (${set(values, range)}) AS named LIMIT ${maxSet + 1}) AS counted)`,
      ),
    ];
    const [row] = await tx.query<{ found: readonly (number | null)[] }>(
      this.#statement(`SELECT json_build_array(${columns.join(', ')}) AS found`),
      values.list,
    );
    const [newest, ...found] = row?.found ?? [];
    const top = Math.min(range.beforeKey, (newest ?? 0) + 1);
    const sources = [
      ...walks.map((keys, index): Source => {
        const entries = estimateEntries(found[index] ?? undefined, { ...range, beforeKey: top });
        return { keys, entries, isSmall: isByEnd && found[walks.length + index] === null };
      }),
      ...sets.flatMap((set, index): Source[] => {
        const entries = found[walks.length * (isByEnd ? 2 : 1) + index] ?? Infinity;
        return entries > maxSet ? [] : [{ keys: sorted(set), entries, isSmall: isByEnd }];
      }),
    ];
    const [best] = sources.toSorted((a, b) => a.entries - b.entries);
    if (best === undefined) throw new Error('A list has at least one source.');
    return best;
  }

  /** The sets whose entries are not in the order of keys. */
  async #sets(tx: Transaction, { filter, waiting }: Query): Promise<readonly KeysSql[]> {
    const { idPrefix, endedFrom } = filter;
    const sets: KeysSql[] = [];
    if (filter.unregistered === true && waiting !== undefined) {
      sets.push((values) => this.#list.unregisteredSet(waiting, values));
    }
    if (endedFrom !== undefined && (await this.#canSearchEnds(tx, filter))) {
      sets.push((values) => this.#list.endedSet(endWindow(filter), values));
    }
    if (idPrefix !== undefined) sets.push((values) => this.#list.prefixSet(idPrefix, values));
    return sets;
  }

  /** Whether few instances ended in the window, and an index finds them. Servers before PostgreSQL 16 have none. */
  async #canSearchEnds(tx: Transaction, filter: InstanceConditions): Promise<boolean> {
    const { from, last } = endWindow(filter);
    // About as many end in a window as are created in it. A count would read all of a large window.
    const [start, end] = await Promise.all([
      this.#creationKey(tx, from, noKey),
      this.#creationKey(tx, last, noKey),
    ]);
    if (end.key - start.key > maxSorted) return false;
    if (this.#hasEndIndex === undefined) {
      const [row] = await tx.query<{ exists: boolean }>(...this.#sql.hasEndIndex({}));
      this.#hasEndIndex = row?.exists ?? false;
    }
    return this.#hasEndIndex;
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    if (this.#statements.size >= maxPrepared) return { name: '', text: sql };
    const statement = { name: `perdure_list_${this.#statements.size}`, text: sql };
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Sorts a set by key. */
function sorted(set: KeysSql): KeysSql {
  return (values, { aboveKey, beforeKey }) =>
    `SELECT instance_key FROM (${set(values, { aboveKey, beforeKey })} OFFSET 0) AS named
     WHERE instance_key < ${values.add(beforeKey, 'bigint')} AND instance_key > ${values.add(aboveKey, 'bigint')}
     ORDER BY instance_key DESC`;
}

function statements(schema: string) {
  return {
    hasEndIndex: prepare(
      'perdure_has_end_index',
      {},
      () => `SELECT to_regclass('${schema}.instances_ended') IS NOT NULL AS exists`,
    ),
    creationKey: prepare(
      'perdure_creation_key',
      { time: one<number>('bigint'), top: one<number>('bigint') },
      (given) => creationKeySql(`${schema}.instances`, given),
    ),
    createdBefore: prepare(
      'perdure_created_before',
      { beforeKey: one<number>('bigint'), skipped: one<number>('int') },
      ({
        beforeKey,
        skipped,
      }) => `SELECT instance_key AS "instanceKey", created_at AS "createdAt" FROM ${schema}.instances
        WHERE instance_key < ${beforeKey} ORDER BY instance_key DESC LIMIT 1 OFFSET ${skipped}`,
    ),
    // With `=`, the planner reads all instances in the order of keys to find those of a rare definition.
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
                SELECT * FROM ${schema}.instances AS one
                WHERE one.definition_key BETWEEN definitions.definition_key AND definitions.definition_key
                ORDER BY one.definition_key DESC, one.instance_key DESC LIMIT ${most}) AS newest
            ) AS named GROUP BY status) AS grouped
        ) AS counted CROSS JOIN LATERAL (
          SELECT json_object_agg(status, count) AS ended FROM (
            SELECT status, (SELECT count(*) FROM (
              SELECT FROM ${schema}.instances AS one WHERE one.listed_as = wanted.status
                AND one.definition_key = definitions.definition_key LIMIT ${most}) AS found) AS count
            FROM unnest(ARRAY['failed', 'canceled', 'terminated', 'skipped', 'expired']) AS wanted (status)
          ) AS totals WHERE count > 0
        ) AS ends
        WHERE kind <> 'activity' AND definition_key > ${afterKey} AND counts IS NOT NULL
        ORDER BY definition_key LIMIT ${limit}`,
    ),
  };
}
