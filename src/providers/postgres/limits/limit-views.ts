import {
  maxCountedItems,
  type LaneRecord,
  type LimitedKind,
  type LimitHold,
  type LimitOverride,
  type Limits,
  type LimitsPage,
  type LimitsRecord,
  type ListLanesParams,
  type ListLimitsParams,
} from '../../contract/limits.ts';
import { gcraOf, holdingLimit, nextTokenAt } from '../../rules/limits.ts';
import { clock, keys, one, optional, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { countedKeys } from '../tables/definitions.ts';
import { inLane, suspectInLane } from './limit-text.ts';

interface DefinitionRow {
  readonly now: number;
  readonly kind: LimitedKind;
  readonly name: string;
  readonly declared: string;
  readonly declaredBy: string | null;
  readonly override: string | null;
  readonly effective: string;
  readonly running: number;
  readonly tat: number;
  readonly waiting: number;
}

interface LaneRow {
  readonly now: number;
  readonly lane: string;
  readonly weight: number;
  readonly running: number;
  readonly tat: number;
  readonly due: number;
  readonly delayed: number;
  readonly nextAt: number | null;
  readonly effective: string;
  readonly allRunning: number;
  readonly definitionTat: number;
}

interface HoldRow extends Pick<
  LaneRow,
  'now' | 'running' | 'tat' | 'effective' | 'allRunning' | 'definitionTat'
> {
  readonly itemKey: number;
  readonly ahead: number;
}

// Lanes that a list by waiting items reads, and items that may belong to lanes that no claim has seen yet.
const maxRead = 10_000;

/** Reads limits and lanes for operators. Adds the signals that the next claim will read. */
export class LimitViews {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  async list(
    tx: Transaction,
    { limit, after, only }: ListLimitsParams,
    now: number | null,
  ): Promise<LimitsPage<LimitsRecord>> {
    const rows = await tx.query<DefinitionRow>(
      ...this.#sql.list({
        now,
        limit: limit + 1,
        afterKind: after?.kind,
        afterName: after?.name,
        onlyKind: only?.kind,
        onlyName: only?.name,
      }),
    );
    return { records: rows.slice(0, limit).map(toRecord), more: rows.length > limit };
  }

  async lanes(
    tx: Transaction,
    { kind, name, limit, order, afterKey }: ListLanesParams,
    now: number | null,
  ): Promise<LimitsPage<LaneRecord>> {
    const rows = await tx.query<LaneRow>(
      ...this.#sql.lanes({
        now,
        kind,
        name,
        afterKey: order === 'key' ? afterKey : undefined,
        limit: order === 'key' ? limit + 1 : maxRead,
      }),
    );
    const records = rows.map(toLane);
    if (order === 'waiting') records.sort((a, b) => b.waiting - a.waiting);
    return { records: records.slice(0, limit), more: records.length > limit };
  }

  /** Which limits hold back items of lanes that are due. */
  async holds(
    tx: Transaction,
    itemKeys: readonly number[],
    now: number | null,
  ): Promise<ReadonlyMap<number, LimitHold>> {
    if (itemKeys.length === 0) return new Map();
    const rows = await tx.query<HoldRow>(...this.#sql.holds({ now, itemKeys }));
    return new Map(rows.map((row) => [row.itemKey, toHold(row)]));
  }
}

function toRecord(row: DefinitionRow): LimitsRecord {
  const { kind, name, declaredBy, running, waiting } = row;
  const effective = JSON.parse(row.effective) as Limits;
  const { rate } = effective;
  const tokenAt =
    rate === undefined || rate.perKey ? row.now : nextTokenAt(gcraOf(rate), row.tat, row.now);
  return {
    kind,
    name,
    declared: JSON.parse(row.declared) as Limits,
    declaredBy,
    override: row.override === null ? null : (JSON.parse(row.override) as LimitOverride),
    effective,
    running,
    waiting,
    nextTokenAt: tokenAt > row.now ? tokenAt : null,
  };
}

function holdOf(row: Omit<HoldRow, 'itemKey' | 'ahead'>) {
  return holdingLimit(
    JSON.parse(row.effective) as Limits,
    { running: row.allRunning, tatUs: row.definitionTat },
    { running: row.running, tatUs: row.tat },
    row.now,
  );
}

function toLane(row: LaneRow): LaneRecord {
  const hold = row.due > 0 ? holdOf(row) : null;
  const nextAt = row.due > 0 ? (hold?.nextAt ?? null) : row.nextAt;
  return {
    key: row.lane,
    weight: row.weight,
    running: row.running,
    waiting: Math.min(row.due + row.delayed, maxCountedItems),
    heldBy: hold?.limit ?? null,
    nextAt,
  };
}

function toHold(row: HoldRow): LimitHold {
  const hold = holdOf(row);
  return {
    limit: hold?.limit ?? null,
    max: hold?.max ?? null,
    running: hold?.limit === 'global' ? row.allRunning : row.running,
    nextAt: hold?.nextAt ?? null,
    ahead: row.ahead,
  };
}

function statements(schema: string) {
  const [items, limits, lanes, signals] = [
    `${schema}.worker_queue`,
    `${schema}.limits`,
    `${schema}.lanes`,
    `${schema}.lane_signals`,
  ];
  const counted = (which: string, definition: string) => `SELECT 1 FROM ${items} AS one
            WHERE one.limit_key = ${definition} AND ${which} LIMIT ${maxCountedItems}`;
  const stragglers = (definition: string) => `SELECT 1 FROM ${items} AS one
            WHERE one.definition_key = ANY (${countedKeys(schema, definition)}) AND lane IS NULL AND NOT cancel_requested
              AND lock_token IS NULL LIMIT ${maxCountedItems}`;
  const beginnings = (
    definition: string,
    which = '',
  ) => `SELECT 1 FROM ${schema}.instance_places AS place
            WHERE place.definition_key = ${definition} ${which} AND NOT has_begun LIMIT ${maxCountedItems}`;
  const delayedInLane =
    'lane IS NOT NULL AND delayed AND NOT cancel_requested AND lock_token IS NULL';
  const freed = (definition: string) =>
    `coalesce((SELECT sum(freed) FROM ${signals} AS one WHERE one.definition_key = ${definition} AND freed <> 0), 0)::int`;
  return {
    list: prepare(
      'perdure_list_limits',
      {
        now: clock,
        limit: one<number>('bigint'),
        afterKind: optional(one<string>('text')),
        afterName: optional(one<string>('text')),
        onlyKind: optional(one<string>('text')),
        onlyName: optional(one<string>('text')),
      },
      ({
        limit,
        afterKind,
        afterName,
        onlyKind,
        onlyName,
      }) => `SELECT ${nowSql} AS now, kind, name, declared, declared_by AS "declaredBy", override,
          effective, running - ${freed('lim.definition_key')} AS running, tat,
          least(${maxCountedItems}, (SELECT count(*) FROM (${[inLane, suspectInLane, delayedInLane]
            .map((which) => `(${counted(which, 'lim.definition_key')})`)
            .join(
              ' UNION ALL ',
            )} UNION ALL (${stragglers('lim.definition_key')}) UNION ALL (${beginnings('lim.definition_key')})) AS waiting)) AS waiting
        FROM ${limits} AS lim CROSS JOIN LATERAL (
          SELECT kind, name FROM ${schema}.definitions AS one WHERE one.definition_key = lim.definition_key LIMIT 1) AS named
        WHERE (${afterKind} IS NULL OR (kind, name) > (${afterKind}, ${afterName}))
          AND (${onlyKind} IS NULL OR kind = ${onlyKind} AND name = ${onlyName})
        ORDER BY kind, name LIMIT ${limit}`,
    ),
    // Lanes whose items no claim has seen yet have no row.
    lanes: prepare(
      'perdure_list_lanes',
      {
        now: clock,
        kind: one<string>('text'),
        name: one<string>('text'),
        afterKey: optional(one<string>('text')),
        limit: one<number>('bigint'),
      },
      ({ kind, name, afterKey, limit }) => {
        const isLater = (lane: string) => `(${afterKey} IS NULL OR ${lane} > ${afterKey})`;
        return `WITH RECURSIVE lim AS MATERIALIZED (
          SELECT * FROM ${limits} WHERE definition_key = (
            SELECT definition_key FROM ${schema}.definitions WHERE kind = ${kind} AND name = ${name} AND version = '')
        ), queued (lane) AS (
          SELECT (SELECT one.lane FROM ${items} AS one WHERE one.limit_key = (SELECT definition_key FROM lim)
              AND ${inLane} AND ${isLater('one.lane')} ORDER BY one.lane LIMIT 1)
          UNION ALL
          SELECT (SELECT one.lane FROM ${items} AS one WHERE one.limit_key = (SELECT definition_key FROM lim)
              AND ${inLane} AND one.lane > queued.lane ORDER BY one.lane LIMIT 1)
          FROM queued WHERE queued.lane IS NOT NULL
        ), signal AS MATERIALIZED (
          SELECT lane, sum(freed)::int AS freed FROM ${signals}
          WHERE definition_key = (SELECT definition_key FROM lim) AND freed <> 0 GROUP BY lane
        ), delayed AS MATERIALIZED (
          SELECT lane, count(*) AS number, min(next_at) AS next_at FROM (
            SELECT lane, next_at FROM ${items} WHERE limit_key = (SELECT definition_key FROM lim) AND ${delayedInLane}
            LIMIT ${maxRead}) AS one GROUP BY lane
        ), suspect AS MATERIALIZED (
          SELECT lane, count(*) AS number FROM (
            SELECT lane FROM ${items} WHERE limit_key = (SELECT definition_key FROM lim) AND ${suspectInLane}
            LIMIT ${maxRead}) AS one GROUP BY lane
        ), listed AS MATERIALIZED (
          SELECT lane FROM (
            (SELECT lane FROM ${lanes} WHERE definition_key = (SELECT definition_key FROM lim) AND ${isLater('lane')}
             ORDER BY lane LIMIT ${limit})
            UNION (SELECT lane FROM queued WHERE lane IS NOT NULL LIMIT ${limit})
            UNION SELECT lane FROM delayed WHERE ${isLater('lane')}
            UNION SELECT lane FROM suspect WHERE ${isLater('lane')}) AS every
          ORDER BY lane LIMIT ${limit}
        ), joined AS MATERIALIZED (
          SELECT listed.lane, coalesce(freed, 0) AS freed, delayed.next_at,
            coalesce(suspect.number, 0) AS suspects, coalesce(delayed.number, 0) AS delayed
          FROM listed FULL JOIN signal ON signal.lane = listed.lane FULL JOIN delayed ON delayed.lane = listed.lane
            FULL JOIN suspect ON suspect.lane = listed.lane
        )
        SELECT ${nowSql} AS now, listed.lane, coalesce((
            SELECT weight FROM ${signals} AS one WHERE one.definition_key = lim.definition_key AND one.lane = listed.lane
              AND freed = 0 AND weight IS NOT NULL ORDER BY signal_key DESC LIMIT 1), known.weight, 1) AS weight,
          coalesce(known.running, 0) - freed AS running, coalesce(known.tat, 0) AS tat,
          counted.number + suspects AS due, delayed, next_at AS "nextAt", lim.effective, lim.running - ${freed('lim.definition_key')} AS "allRunning",
          lim.tat AS "definitionTat"
        FROM lim CROSS JOIN joined AS listed LEFT JOIN LATERAL (
          SELECT weight, running, tat FROM ${lanes} AS one
          WHERE one.definition_key = lim.definition_key AND one.lane = listed.lane LIMIT 1) AS known ON TRUE
        CROSS JOIN LATERAL (SELECT count(*) AS number FROM (
            (${counted(`one.lane = listed.lane AND ${inLane}`, 'lim.definition_key')})
            UNION ALL (${beginnings('lim.definition_key', 'AND place.lane = listed.lane')})) AS one) AS counted
        WHERE listed.lane IS NOT NULL AND (counted.number + suspects + delayed > 0 OR coalesce(known.running, 0) - freed > 0
          OR lim.rate_per_key AND known.tat > ${nowSql} * 1000)
        ORDER BY listed.lane`;
      },
    ),
    holds: prepare(
      'perdure_select_limit_holds',
      { now: clock, itemKeys: keys() },
      ({
        itemKeys,
      }) => `SELECT ${nowSql} AS now, item.item_key AS "itemKey", lim.effective, lim.tat AS "definitionTat",
          lim.running - ${freed('lim.definition_key')} AS "allRunning", coalesce(known.tat, 0) AS tat,
          coalesce(known.running, 0) - coalesce((SELECT sum(freed) FROM ${signals} AS one
            WHERE one.definition_key = lim.definition_key AND one.lane = item.lane AND freed <> 0), 0)::int AS running,
          (SELECT count(*) FROM (
            SELECT 1 FROM ${items} AS one WHERE one.limit_key = item.limit_key AND one.lane = item.lane AND ${inLane}
              AND (one.priority > item.priority
                OR one.priority = item.priority AND (one.next_at, one.item_key) < (item.next_at, item.item_key))
            LIMIT ${maxCountedItems}) AS first) AS ahead
        FROM ${items} AS item JOIN ${limits} AS lim ON lim.definition_key = abs(item.limit_key)
        LEFT JOIN LATERAL (
          SELECT running, tat FROM ${lanes} AS one
          WHERE one.definition_key = lim.definition_key AND one.lane = item.lane LIMIT 1) AS known ON TRUE
        WHERE item.item_key = ANY (${itemKeys}) AND item.lane IS NOT NULL`,
    ),
  };
}
