import type Database from 'better-sqlite3';
import { instanceStatuses, type InstanceStatus } from '../../../model/status.ts';
import type {
  DefinitionRecord,
  InstanceConditions,
  InstanceCount,
  ListInstancesParams,
} from '../../contract/instances.ts';
import {
  creationWindow,
  endWindow,
  estimateEntries,
  failureNeedles,
  isPageOver,
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
import type { Workers } from '../queues/workers.ts';
import type { Definitions } from '../tables/definitions.ts';
import {
  endedAs,
  endedSet,
  prefixSet,
  rowConditions,
  unregisteredSet,
  walkSql,
  type Values,
} from './list-query.ts';
import type { UnclaimedWorkFinder } from './unclaimed-work.ts';
import { platform } from '../../../model/platform.ts';

/** The parts of the store that a list reads. */
interface ListParts {
  readonly definitions: Definitions;
  readonly workers: Workers;
  readonly unclaimedWork: UnclaimedWorkFinder;
  now(): number;
}

/** A filter, resolved. */
interface Query {
  readonly filter: InstanceConditions;
  readonly definitionKeys: readonly number[] | undefined;
  readonly conditions: readonly string[];
  readonly values: Values;
  readonly range: KeyRange;
}

/** The rows that a query examines: a subquery of keys, and their estimated number. */
interface Source {
  readonly sql: string;
  readonly entries: number;
  /** Whether the subquery returns its keys in descending order. */
  readonly isOrdered: boolean;
}

/** Ends a search: at so many matches or examined rows. */
interface Bounds {
  readonly limit: number;
  readonly maxRows: number;
}

// Above all keys and times.
const noKey = Number.MAX_SAFE_INTEGER;
// Rows between two readings of the clock. The first slice is small, because most pages need only one.
const firstSlice = 256;
const maxSlice = 1_024;
// Small enough that a slice of a count blocks the event loop for a few milliseconds.
const countedRows = 2_048;

/** Finds the instances of lists and counts. Each query reads one index in order and tests a bounded number of rows. */
export class InstanceList {
  readonly #db: Database.Database;
  readonly #parts: ListParts;
  readonly #statements = new Map<string, Database.Statement<[Values]>>();

  constructor(db: Database.Database, parts: ListParts) {
    this.#db = db;
    this.#parts = parts;
  }

  /** Finds the keys of a page. */
  page(params: ListInstancesParams): KeyPage {
    const { filter, limit, orderBy, beforeKey = noKey, beforeEndedAt = noKey } = params;
    const bounds = { limit, maxRows: Math.max(maxExamined, limit) };
    if (orderBy !== 'ended') return this.#find(filter, beforeKey, bounds);
    return this.#findEnded(filter, { instanceKey: beforeKey, endedAt: beforeEndedAt }, bounds);
  }

  /** Counts the matches in one slice of at most `maxRows` keys below `beforeKey`. `nextKey` is where the next slice starts. */
  countSlice(
    filter: InstanceConditions,
    {
      cap,
      maxRows,
      beforeKey = noKey,
    }: {
      readonly cap: number;
      readonly maxRows: number;
      readonly beforeKey?: number | undefined;
    },
  ): { readonly count: number; readonly examined: number; readonly nextKey: number | null } {
    const bounds = { limit: Math.min(cap, countedRows), maxRows: Math.min(maxRows, countedRows) };
    const { keys, next, examined } = this.#find(filter, beforeKey, bounds);
    return { count: keys.length, examined, nextKey: next?.instanceKey ?? null };
  }

  #find(
    filter: InstanceConditions,
    beforeKey: number,
    bounds: Bounds,
  ): KeyPage & { readonly examined: number } {
    const query = bounds.limit < 1 ? undefined : this.#query(filter, beforeKey);
    if (query === undefined) return { keys: [], next: null, examined: 0 };
    const { limit, maxRows } = bounds;
    const source = this.#source(query, maxSorted);
    const begun = platform.monotonic();
    const slices = source.isOrdered
      ? this.#orderedSlices(query, source)
      : this.#sortedSlices(query, source, maxRows);
    const found: Candidate[] = [];
    let examined = 0;
    let size = Math.min(firstSlice, maxRows);
    for (; ; size = Math.min(size * 2, maxSlice, maxRows - examined)) {
      const slice = slices(size, limit + 1 - found.length);
      found.push(...slice.candidates);
      const { stoppedAt } = slice;
      examined += size;
      const isOver =
        found.length > limit || stoppedAt === null || isPageOver(examined, { ...bounds, begun });
      if (!isOver) continue;
      const position = stoppedAt === null ? null : { instanceKey: stoppedAt, endedAt: null };
      return { ...toKeyPage(found, filter, { limit, stoppedAt: position }), examined };
    }
  }

  /** Reads slices of an index in the order of keys. */
  #orderedSlices({ values, range, ...query }: Query, { sql }: Source): ReadSlice {
    const select = this.#prepare(candidatesSql(query, `${sql} LIMIT :size`));
    const stop = this.#prepare(`${sql} LIMIT 2 OFFSET :size - 1`);
    let { beforeKey } = range;
    return (size, limit) => {
      const given = { ...values, ...range, beforeKey, size, limit };
      const candidates = select.all(given) as Candidate[];
      // A full slice needs no end: the page ends within it.
      const ends = candidates.length === limit ? [] : (stop.all(given) as Keyed[]);
      const stoppedAt = ends.length === 2 ? (ends[0]?.instance_key ?? null) : null;
      if (stoppedAt !== null) beforeKey = stoppedAt;
      return { candidates, stoppedAt };
    };
  }

  /** Reads all keys of a small set, sorts them, and tests them in slices. */
  #sortedSlices({ values, range, ...query }: Query, { sql }: Source, maxRows: number): ReadSlice {
    const keys = this.#prepare(
      // The plus signs keep the planner from reading the whole table in the order of keys.
      `SELECT instance_key FROM (${sql}) WHERE +instance_key < :beforeKey AND +instance_key > :aboveKey
       ORDER BY +instance_key DESC LIMIT :most`,
    )
      .pluck()
      .all({ ...values, ...range, most: maxRows + 1 }) as number[];
    const select = this.#prepare(
      candidatesSql(query, 'SELECT value AS instance_key FROM json_each(:keys)'),
    );
    let from = 0;
    return (size, limit) => {
      const slice = keys.slice(from, from + size);
      from += size;
      const given = { ...values, limit, keys: JSON.stringify(slice) };
      const candidates = select.all(given) as Candidate[];
      return { candidates, stoppedAt: from < keys.length ? (slice.at(-1) ?? null) : null };
    };
  }

  /** Finds a page in the order of ends: sorts a small set, or reads the index of ends. */
  #findEnded(filter: InstanceConditions, before: ListPosition, bounds: Bounds): KeyPage {
    const query = bounds.limit < 1 ? undefined : this.#query(filter, noKey);
    if (query === undefined) return { keys: [], next: null };
    const { values, range } = query;
    const { limit } = bounds;
    const { from, last } = endWindow(filter);
    const given: Values = {
      ...values,
      ...range,
      firstEnd: from,
      beforeEnd: before.endedAt,
      beforeEndKey: before.instanceKey,
    };
    const source = this.#source(query, maxSortedByEnd);
    if (this.#isSmall(source, given)) {
      const conditions = [...query.conditions, '+instances.ended_at IS NOT NULL', isBeforeEnd];
      const candidates = this.#prepare(
        candidatesSql({ ...query, conditions }, source.sql, endOrder),
      ).all({ ...given, limit: limit + 1 }) as Candidate[];
      return toKeyPage(candidates, filter, { limit, stoppedAt: null });
    }
    const walk = `SELECT instance_key, ended_at FROM instances INDEXED BY instances_ended
      WHERE ended_at >= :firstEnd AND ended_at <= :lastEnd AND ${isBeforeEnd}
      ORDER BY ended_at DESC, instance_key DESC`;
    const select = this.#prepare(candidatesSql(query, `${walk} LIMIT :size`));
    const stop = this.#prepare(`${walk} LIMIT 2 OFFSET :size - 1`);
    const begun = platform.monotonic();
    const found: Candidate[] = [];
    let examined = 0;
    given['lastEnd'] = Math.min(last, before.endedAt ?? noKey);
    for (let size = firstSlice; ; size = Math.min(size * 2, maxSlice)) {
      const wanted = limit + 1 - found.length;
      found.push(...(select.all({ ...given, size, limit: wanted }) as Candidate[]));
      if (found.length > limit) return toKeyPage(found, filter, { limit, stoppedAt: null });
      const ends = stop.all({ ...given, size }) as (Keyed & { ended_at: number })[];
      const [end] = ends;
      if (end === undefined || ends.length < 2) {
        return toKeyPage(found, filter, { limit, stoppedAt: null });
      }
      const stoppedAt = { instanceKey: end.instance_key, endedAt: end.ended_at };
      examined += size;
      if (isPageOver(examined, { ...bounds, begun })) {
        return toKeyPage(found, filter, { limit, stoppedAt });
      }
      const { endedAt, instanceKey } = stoppedAt;
      Object.assign(given, { lastEnd: endedAt, beforeEnd: endedAt, beforeEndKey: instanceKey });
    }
  }

  /** Whether a source has few enough entries to sort them by their ends. */
  #isSmall({ sql, isOrdered }: Source, values: Values): boolean {
    if (!isOrdered) return true;
    const beyond = this.#prepare(`${sql} LIMIT 1 OFFSET ${maxSortedByEnd}`);
    return beyond.get(values) === undefined;
  }

  #query(filter: InstanceConditions, beforeKey: number): Query | undefined {
    const { names, kind, version } = filter;
    const isAnything = names === undefined && kind === undefined && version === undefined;
    const kinds = kind === undefined ? (['orchestration', 'task'] as const) : [kind];
    const { definitions } = this.#parts;
    const definitionKeys = isAnything ? undefined : definitions.keysOf(kinds, names, version);
    const statuses = statusesOf(filter)?.filter((status) => instanceStatuses.includes(status));
    if (definitionKeys?.length === 0 || statuses?.length === 0) return undefined;
    const values: Values = {
      ...(filter.unregistered !== undefined && this.#waitingValues()),
      ...(filter.endedFrom !== undefined && { endedEnd: filter.endedBefore ?? noKey }),
    };
    const conditions = rowConditions(filter, { definitionKeys, statuses, values });
    const range = this.#range(filter, beforeKey);
    return { filter, definitionKeys, conditions, values, range };
  }

  /** The definitions in the queues that no live worker has. */
  #waitingValues(): Values {
    const { workers, unclaimedWork } = this.#parts;
    const now = this.#parts.now();
    const live = liveWorkers(workers.list(now));
    const { lockKeys, itemKeys } = unclaimedWork.unknownKeys(definitionsOf(live));
    return { now, lockKeys: JSON.stringify(lockKeys), itemKeys: JSON.stringify(itemKeys) };
  }

  /** The keys between which all matches are. */
  #range(filter: InstanceConditions, beforeKey: number): KeyRange {
    const { from, before } = creationWindow(filter);
    const search = this.#prepare(creationKeySql('instances', { time: ':time', top: ':beforeKey' }));
    const find = (time: number) => search.get({ time, beforeKey }) as CreationKeyRow;
    const endKey = before === undefined ? undefined : endKeyOf(find(endSearchTime(before)), before);
    const startKey = from === undefined ? undefined : startKeyOf(find(startSearchTime(from)), from);
    return { aboveKey: startKey ?? 0, beforeKey: Math.min(endKey ?? noKey, beforeKey) };
  }

  /** Chooses the source with the fewest rows to examine. A set of at most `maxSet` entries is sorted by key. */
  #source(query: Query, maxSet: number): Source {
    const { filter, definitionKeys, range, values } = query;
    const walks = walksOf(filter, definitionKeys);
    const sets = [
      ...(filter.unregistered === true ? [unregisteredSet] : []),
      ...(filter.endedFrom === undefined ? [] : [endedSet]),
      ...(filter.idPrefix === undefined ? [] : [prefixSet]),
    ];
    const ordered = walks.map((walk) => ({ sql: walkSql(walk), isOrdered: true }));
    const needsEstimate = ordered.length > 1 || sets.length > 0 || maxSet === maxSortedByEnd;
    let best: Source = { sql: '', entries: Infinity, isOrdered: true };
    for (const source of ordered) {
      const entries = needsEstimate ? this.#estimate(source.sql, query) : 0;
      if (entries < best.entries) best = { ...source, entries };
      if (entries === 0) return best;
    }
    for (const sql of sets) {
      const entries = this.#prepare(`SELECT count(*) FROM (${sql} LIMIT :most)`)
        .pluck()
        .get({ ...values, ...range, most: maxSet + 1 }) as number;
      if (entries <= Math.min(maxSet, best.entries)) best = { sql, entries, isOrdered: false };
    }
    return best;
  }

  #estimate(sql: string, { values, range }: Query): number {
    const probed = this.#prepare(`${sql} LIMIT 1 OFFSET ${probedEntries - 1}`)
      .pluck()
      .get({ ...values, ...range }) as number | undefined;
    return estimateEntries(probed, {
      ...range,
      beforeKey: Math.min(range.beforeKey, this.#newestKey() + 1),
    });
  }

  #newestKey(): number {
    const newest = this.#prepare('SELECT max(instance_key) FROM instances').pluck().get({});
    return (newest as number | null) ?? 0;
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
    const keys = this.#parts.definitions
      .keysOf(['orchestration', 'task'])
      .filter((key) => key > afterKey);
    for (const definitionKey of keys.toSorted((a, b) => a - b)) {
      if (records.length === limit) break;
      const counts = this.#countsOf(definitionKey, cap);
      if (Object.keys(counts).length === 0) continue;
      const { kind, name, version } = this.#parts.definitions.get(definitionKey);
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

interface Keyed {
  readonly instance_key: number;
}

/** Tests the next `size` keys, until `limit` match. `stoppedAt` is the last key tested, if more follow. */
type ReadSlice = (
  size: number,
  limit: number,
) => { readonly candidates: readonly Candidate[]; readonly stoppedAt: number | null };

// Plus signs, because the planner would derive an upper bound from the condition and start there.
const isBeforeEnd = `(+instances.ended_at < :beforeEnd
  OR (+instances.ended_at = :beforeEnd AND instances.instance_key < :beforeEndKey))`;
const endOrder = 'ORDER BY instances.ended_at DESC, instances.instance_key DESC';

/** A query of the keys that match. CROSS JOIN fixes the order: the keys are outside, and stop at the limit. */
function candidatesSql(
  { filter, conditions }: Pick<Query, 'filter' | 'conditions'>,
  keys: string,
  order = '',
): string {
  const failure = failureNeedles(filter).length > 0 ? 'failure' : 'NULL';
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
  return `SELECT instances.instance_key AS instanceKey, ${failure} AS failure, instances.ended_at AS endedAt
    FROM (${keys}) AS walked CROSS JOIN instances ON instances.instance_key = walked.instance_key
    ${where} ${order} LIMIT :limit`;
}
