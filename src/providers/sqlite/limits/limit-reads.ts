import type Database from 'better-sqlite3';
import {
  maxCountedItems,
  type LaneRecord,
  type LimitHold,
  type LimitsPage,
  type LimitsRecord,
  type ListLanesParams,
  type ListLimitsParams,
} from '../../contract/limits.ts';
import { holdingLimit, nextTokenAt, ratesOf, tokensAt } from '../../rules/limits.ts';
import type { Definitions } from '../tables/definitions.ts';
import { isWaiting } from './lane-rows.ts';
import type { LimitRow, LimitRows } from './limit-rows.ts';

interface StoredLane {
  readonly lane: string;
  readonly weight: number;
  readonly running: number;
  readonly tatUs: number;
}

interface Head {
  readonly priority: number;
  readonly nextAt: number;
}

/** An item of a lane that waits. */
export interface WaitingItem {
  readonly itemKey: number;
  readonly limitKey: number;
  readonly lane: string;
  readonly priority: number;
  readonly dueAt: number;
}

// Bounds the lanes that are counted for a listing by waiting items.
const maxCountedLanes = 10_000;
const aboveAll = 101;

/** Reads limits, lanes and what they hold back, for operators. */
export class LimitReads {
  readonly #definitions: Definitions;
  readonly #limits: LimitRows;
  readonly #list;
  readonly #lanes;
  readonly #lane;
  readonly #countOf;
  readonly #countLane;
  readonly #beginnings;
  readonly #beginningsInLane;
  readonly #head;
  readonly #ahead;

  constructor(
    db: Database.Database,
    parts: { readonly definitions: Definitions; readonly limitRows: LimitRows },
  ) {
    this.#definitions = parts.definitions;
    this.#limits = parts.limitRows;
    this.#list = db
      .prepare<[{ kind: string; name: string; limit: number }], number>(
        `SELECT definition_key FROM limits JOIN definitions USING (definition_key)
         WHERE (kind, name) > (:kind, :name) ORDER BY kind, name LIMIT +:limit`,
      )
      .pluck();
    const columns = 'lane, weight, running, tat AS tatUs';
    this.#lanes = db.prepare<[number, string, number], StoredLane>(
      `SELECT ${columns} FROM lanes WHERE definition_key = ? AND lane > ? ORDER BY lane LIMIT +?`,
    );
    this.#lane = db.prepare<[number, string], StoredLane>(
      `SELECT ${columns} FROM lanes WHERE definition_key = ? AND lane = ?`,
    );
    const count = (condition: string) =>
      `SELECT count(*) FROM (SELECT 1 FROM worker_queue
         WHERE limit_key = ? AND ${condition} LIMIT ${maxCountedItems})`;
    this.#countOf = db.prepare<[number], number>(count(isWaiting)).pluck();
    this.#countLane = db
      .prepare<[number, string], number>(count(`lane = ? AND ${isWaiting}`))
      .pluck();
    const beginnings = (condition: string) =>
      `SELECT count(*) FROM (SELECT 1 FROM instance_places
         WHERE definition_key = ? AND ${condition} has_begun = 0 LIMIT ${maxCountedItems})`;
    this.#beginnings = db.prepare<[number], number>(beginnings('')).pluck();
    this.#beginningsInLane = db
      .prepare<[number, string], number>(beginnings('lane = ? AND'))
      .pluck();
    this.#head = db.prepare<[number, string, number], Head>(
      `SELECT priority, next_at AS nextAt FROM worker_queue
       WHERE limit_key = ? AND lane = ? AND (claims > 1) = 0 AND ${isWaiting} AND priority < ?
       ORDER BY priority DESC, next_at LIMIT 1`,
    );
    const before = '(priority > ? OR (priority = ? AND (next_at, item_key) < (?, ?)))';
    this.#ahead = db
      .prepare<[number, string, number, number, number, number], number>(
        count(`lane = ? AND (claims > 1) = 0 AND ${isWaiting} AND ${before}`),
      )
      .pluck();
  }

  /** Limited definitions by kind and name. */
  list({ limit, after, only }: ListLimitsParams, now: number): LimitsPage<LimitsRecord> {
    if (only !== undefined) {
      const key = this.#definitions.find(only.kind, only.name, null);
      const isLimited = key !== undefined && this.#limits.get(key) !== undefined;
      return { records: isLimited ? [this.record(key, now)] : [], more: false };
    }
    const { kind, name } = after ?? { kind: '', name: '' };
    const keys = this.#list.all({ kind, name, limit: limit + 1 });
    const records = keys.slice(0, limit).map((key) => this.record(key, now));
    return { records, more: keys.length > limit };
  }

  /** The limits of a definition with their state. */
  record(definitionKey: number, now: number): LimitsRecord {
    const { kind, name } = this.#definitions.get(definitionKey);
    const row = this.#limits.get(definitionKey);
    const { declared, declaredBy, override } = this.#limits.sources(definitionKey);
    const limits = row?.limits ?? {};
    const { shared } = ratesOf(limits);
    const tatUs = row?.tatUs ?? 0;
    const isUsedUp = shared !== undefined && tokensAt(shared, tatUs, now) === 0;
    return {
      kind,
      name,
      declared,
      declaredBy,
      override,
      effective: limits,
      running: row?.running ?? 0,
      waiting: this.#waitingOf(definitionKey),
      nextTokenAt: isUsedUp ? nextTokenAt(shared, tatUs, now) : null,
    };
  }

  /** Lanes of a definition. */
  lanes(params: ListLanesParams, now: number): LimitsPage<LaneRecord> {
    const { kind, name, limit, order, afterKey } = params;
    const key = this.#definitions.find(kind, name, null);
    const row = key === undefined ? undefined : this.#limits.get(key);
    if (row === undefined) return { records: [], more: false };
    if (order === 'waiting') return this.#mostWaiting(row, limit, now);
    const isFirst = afterKey === undefined;
    // The empty key is smaller than all others.
    const first = isFirst ? this.#lane.get(row.definitionKey, '') : undefined;
    const others = this.#lanes.all(row.definitionKey, afterKey ?? '', limit + 1);
    const found = first === undefined ? others : [first, ...others];
    const records = found.slice(0, limit).map((lane) => this.#toRecord(row, lane, now));
    return { records, more: found.length > limit };
  }

  /** Why an item of a lane that is due has not been claimed. */
  hold({ itemKey, limitKey, lane, priority, dueAt }: WaitingItem, now: number): LimitHold {
    const row = this.#limits.get(limitKey);
    const own = this.#lane.get(limitKey, lane) ?? { running: 0, tatUs: 0 };
    const held = row === undefined ? null : holdingLimit(row.limits, row, own, now);
    return {
      limit: held?.limit ?? null,
      max: held?.max ?? null,
      running: held?.limit === 'global' ? (row?.running ?? 0) : own.running,
      nextAt: held?.nextAt ?? null,
      ahead: this.#ahead.get(limitKey, lane, priority, priority, dueAt, itemKey) ?? 0,
    };
  }

  /** Items and instances of a definition that wait. A definition has only one of them. */
  #waitingOf(definitionKey: number): number {
    return (this.#countOf.get(definitionKey) ?? 0) + (this.#beginnings.get(definitionKey) ?? 0);
  }

  #waitingIn(definitionKey: number, lane: string): number {
    return (
      (this.#countLane.get(definitionKey, lane) ?? 0) +
      (this.#beginningsInLane.get(definitionKey, lane) ?? 0)
    );
  }

  #mostWaiting(row: LimitRow, limit: number, now: number): LimitsPage<LaneRecord> {
    const first = this.#lane.get(row.definitionKey, '');
    const others = this.#lanes.all(row.definitionKey, '', maxCountedLanes);
    const lanes = (first === undefined ? others : [first, ...others]).map((lane) => ({
      lane,
      waiting: this.#waitingIn(row.definitionKey, lane.lane),
    }));
    const chosen = lanes.toSorted((a, b) => b.waiting - a.waiting).slice(0, limit);
    const records = chosen.map(({ lane }) => this.#toRecord(row, lane, now));
    return { records, more: lanes.length > limit };
  }

  #toRecord(row: LimitRow, lane: StoredLane, now: number): LaneRecord {
    const { definitionKey, limits } = row;
    const { isDue, nextAt } = this.#dueIn(definitionKey, lane.lane, now);
    const held = isDue ? holdingLimit(limits, row, lane, now) : null;
    return {
      key: lane.lane,
      weight: lane.weight,
      running: lane.running,
      waiting: this.#waitingIn(definitionKey, lane.lane),
      heldBy: held?.limit ?? null,
      nextAt: held === null ? nextAt : held.nextAt,
    };
  }

  /** Whether a lane has due items, else when the first is due. */
  #dueIn(
    definitionKey: number,
    lane: string,
    now: number,
  ): { readonly isDue: boolean; readonly nextAt: number | null } {
    if ((this.#beginningsInLane.get(definitionKey, lane) ?? 0) > 0) {
      return { isDue: true, nextAt: null };
    }
    let first = Infinity;
    let head = this.#head.get(definitionKey, lane, aboveAll);
    while (head !== undefined) {
      if (head.nextAt <= now) return { isDue: true, nextAt: null };
      first = Math.min(first, head.nextAt);
      head = this.#head.get(definitionKey, lane, head.priority);
    }
    return { isDue: false, nextAt: first === Infinity ? null : first };
  }
}
