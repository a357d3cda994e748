import type { Clock } from '../../../model/clock.ts';
import type { Runnable } from '../../contract/orchestration-queue.ts';
import type { Topic } from '../../shared/effects.ts';
import { one, optional, prepare, rowsOf, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { beginDueText } from '../limits/begin-limits.ts';
import type { DefinitionKind } from '../tables/definitions.ts';
import { isCounted } from '../tables/definitions.ts';
import { PauseChecks, type PauseCheck } from '../tables/pause-checks.ts';
import { hasPausedDefinitions } from '../tables/pause-rows.ts';
import type { LimitedDue } from '../batches/limited-definitions.ts';
import { limitColumns, nextDueText } from '../limits/limit-text.ts';
import { isFree } from '../tables/work-items.ts';

/** The definitions that a worker can claim. `undefined` means all, an empty list none. */
export interface Wanted {
  readonly runnable: readonly Runnable[] | undefined;
  readonly buildId: string | undefined;
  /** Names of activities. */
  readonly names: readonly string[] | undefined;
  readonly tasks: readonly string[] | undefined;
}

/** When the next work is due, by the store's clock. A time in the past means now. */
export interface DueTimes {
  readonly now: number;
  readonly nextAt: Readonly<Record<Topic, number>>;
  /** 0 if a schedule has buffered ticks. */
  readonly nextScheduleAt: number;
  /** When the next session or abandoned job has to be processed. */
  readonly nextSessionAt: number;
  /** Lock tokens of held items that were flagged or deleted since the requested time. */
  readonly flagged: readonly string[];
  /** The limited definitions among the wanted ones. Their times are part of `nextAt.work`. */
  readonly limited: readonly LimitedDue[];
  /** When the next item of an unlimited definition is due, flagged, or expires. */
  readonly nextPlainAt: number;
}

interface Row {
  readonly now: number;
  readonly hasPaused: boolean;
  readonly orchestrations: number | null;
  readonly work: number | null;
  readonly schedules: number | null;
  readonly sessions: number | null;
  readonly flagged: readonly string[];
  readonly limited: readonly { readonly key: number; readonly next: number | null }[] | null;
}

/** Reads when the next work is due, without locks, in one statement. */
export class DueQuery {
  readonly #select: PauseChecks<ReturnType<typeof selectDueTimes>>;

  constructor(schema: string) {
    this.#select = new PauseChecks((check) => selectDueTimes(schema, check));
  }

  async run(
    tx: Transaction,
    { runnable, buildId, names, tasks }: Wanted,
    { now, flaggedSince }: { readonly now: number | null; readonly flaggedSince?: number },
  ): Promise<DueTimes> {
    const wanted = {
      now,
      runnable: unique(runnable),
      buildId,
      names: unique(names),
      tasks: unique(tasks),
      flaggedSince: flaggedSince === undefined ? null : Math.floor(flaggedSince),
    };
    const row = await this.#select.run(
      async (select) => (await tx.query<Row>(...select(wanted)))[0],
    );
    if (row === undefined) throw new Error('The due query returned no row.');
    const { orchestrations, work, schedules, sessions, flagged } = row;
    const limited = (row.limited ?? []).map(({ key, next }) => ({
      definitionKey: key,
      nextAt: next ?? Infinity,
    }));
    const nextPlainAt = work ?? Infinity;
    return {
      now: row.now,
      nextAt: {
        orchestrations: orchestrations ?? Infinity,
        work: limited.reduce((first, { nextAt }) => Math.min(first, nextAt), nextPlainAt),
      },
      limited,
      nextPlainAt,
      nextScheduleAt: schedules ?? Infinity,
      nextSessionAt: sessions ?? Infinity,
      flagged,
    };
  }
}

/** Reads the first entry of an index range per definition, and for work per priority. `any` includes paused definitions. */
function selectDueTimes(schema: string, check: PauseCheck) {
  const which = check === 'any' ? 'all' : 'claimable';
  const twice = '(VALUES (FALSE), (TRUE)) AS claimed (twice)';
  const firstInstance = (runnable: RunnableText) =>
    `(SELECT min(first.next_at) FROM ${orchestrationKeys(schema, runnable, which)} AS wanted CROSS JOIN ${twice}
        CROSS JOIN LATERAL (
          SELECT next_at FROM ${schema}.instance_locks AS due
          WHERE due.definition_key = wanted_key AND due.suspect = claimed.twice AND next_at IS NOT NULL
          ORDER BY next_at LIMIT 1) AS first)`;
  // A claimed item keeps its due time until it is renewed. The end of its lease counts only if nothing else is due.
  const itemsOfLevel = `${schema}.worker_queue AS due
            WHERE due.definition_key = wanted_key AND due.suspect = claimed.twice AND NOT cancel_requested
              AND due.priority = level.priority AND lane IS NULL`;
  const firstItem = (work: WorkNames) =>
    `(SELECT min(first.next_at) FROM ${workKeys(schema, work, which)} AS wanted CROSS JOIN ${twice}
        CROSS JOIN LATERAL (
          ${priorityLevels(schema, 'claimed.twice')}
          SELECT CASE WHEN head.next_at <= ${nowSql} THEN head.next_at ELSE least(head.next_at, (
            SELECT min(locked_until) FROM ${itemsOfLevel} AND next_at <= ${nowSql})) END AS next_at
          FROM level LEFT JOIN LATERAL (
            SELECT next_at FROM ${itemsOfLevel} AND (next_at > ${nowSql} OR ${isFree})
            ORDER BY next_at LIMIT 1) AS head ON TRUE) AS first)`;
  const isBlocked = (comparison: '<' | '>', runnable: RunnableText, buildId: string) =>
    `EXISTS (SELECT 1 FROM ${orchestrationKeys(schema, runnable, which)} AS wanted
        CROSS JOIN LATERAL (SELECT 1 FROM ${blockedBy(schema, comparison, buildId)} LIMIT 1) AS one)`;
  return prepare(
    check === 'any' ? 'perdure_look' : 'perdure_look_beside_pauses',
    {
      now: one<number | null>('bigint'),
      runnable: runnableRows,
      buildId: optional(one<string>('text')),
      names: optional(strings()),
      tasks: optional(strings()),
      flaggedSince: one<number | null>('bigint'),
    },
    ({
      runnable,
      buildId,
      names,
      tasks,
      flaggedSince,
    }) => `SELECT ${nowSql} AS "now", ${hasPausedDefinitions(schema)} AS "hasPaused",
        least(
          ${firstInstance(runnable)},
          (SELECT ${cleanupDue} FROM ${schema}.instance_locks WHERE cleanup_at IS NOT NULL
           ORDER BY ${cleanupDue} LIMIT 1),
          ${check === 'any' ? 'NULL' : `(SELECT min(next_at) FROM ${cancelingOfPaused(schema, runnable)})`},
          ${beginDueText(schema, runnable)},
          CASE WHEN ${buildId} IS NOT NULL
            AND (${isBlocked('<', runnable, buildId)} OR ${isBlocked('>', runnable, buildId)}) THEN ${nowSql} END
        ) AS "orchestrations",
        least(
          ${firstItem({ names, tasks })},
          (SELECT expires_at FROM ${schema}.worker_queue WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1),
          (SELECT next_at FROM ${schema}.worker_queue WHERE cancel_requested ORDER BY next_at LIMIT 1)
        ) AS "work",
        least(
          (SELECT next_at FROM ${schema}.schedules WHERE NOT paused AND next_at IS NOT NULL
           ORDER BY next_at LIMIT 1),
          (SELECT 0 FROM ${schema}.schedules WHERE NOT paused AND buffered_ticks IS NOT NULL LIMIT 1)
        ) AS "schedules",
        least(
          (SELECT due_at FROM ${schema}.sessions ORDER BY due_at LIMIT 1),
          (SELECT check_at FROM ${schema}.jobs WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1),
          (SELECT dispose_at FROM ${schema}.jobs WHERE dispose_at IS NOT NULL ORDER BY dispose_at LIMIT 1)
        ) AS "sessions",
        ARRAY(SELECT item_key || '.' || lock_token FROM ${schema}.worker_queue
              WHERE ${flaggedSince} IS NOT NULL AND cancel_requested AND next_at > ${nowSql}
                AND cancel_requested_at >= ${flaggedSince} AND lock_token IS NOT NULL)
          || ARRAY(SELECT item_key || '.' || lock_token FROM ${schema}.tombstones
                   WHERE ${flaggedSince} IS NOT NULL AND locked_until > ${nowSql}
                     AND deleted_at >= ${flaggedSince}) AS "flagged",
        ${limitedTimes(schema, { names, tasks }, check)} AS "limited"`,
  );
}

/** The wanted limited definitions with their due times, as JSON. Reads one empty table while nothing is limited. */
function limitedTimes(schema: string, { names, tasks }: WorkNames, check: PauseCheck): string {
  const isWanted = `(kind = 'activity' AND (${names} IS NULL OR name = ANY (${names}))
            OR kind = 'task' AND (${tasks} IS NULL OR name = ANY (${tasks})))`;
  return `(SELECT json_agg(json_build_object('key', definition_key, 'next', ${nextDueText(schema)})) FROM (
          SELECT ${limitColumns} FROM ${schema}.limits AS one CROSS JOIN LATERAL (
            SELECT FROM ${schema}.definitions AS definition WHERE definition.definition_key = one.definition_key
              AND ${isWanted} ${check === 'any' ? '' : `AND NOT (${isPaused(schema)})`} LIMIT 1) AS wanted) AS lim)`;
}

/** The orchestrations that a worker can run. Send `unique()` values. */
export const runnableRows = optional(
  rowsOf<Runnable>()({
    name: ['text', ({ name }) => name],
    version: ['text', ({ version }) => version ?? ''],
  }),
);
type RunnableText = ReturnType<(typeof runnableRows)['inText']>;

/** The SQL text of the activity names and the task names that a worker can run. */
export interface WorkNames {
  readonly names: string;
  readonly tasks: string;
}

/** Removes duplicates: a definition that is named twice would be read twice. */
export function unique<T extends string | Runnable>(
  list: readonly T[] | undefined,
): readonly T[] | undefined {
  const keyOf = (entry: T) =>
    typeof entry === 'string' ? entry : JSON.stringify([entry.name, entry.version]);
  return list && [...new Map(list.map((entry) => [keyOf(entry), entry])).values()];
}

/** The condition that `definition` is paused. A subquery per name, so that no plan reads a whole table. */
function isPaused(schema: string): string {
  return `(SELECT 1 FROM ${schema}.paused_definitions AS paused
      WHERE paused.kind = definition.kind AND paused.name = definition.name LIMIT 1) IS NOT NULL`;
}

/** The condition that `definition` is limited, or has the calls of a limited task. */
function isLimited(schema: string): string {
  return isCounted(schema, 'definition.definition_key');
}

/** A table of the definition keys of orchestrations that are not paused, of the paused ones or of all, as `wanted_key`. */
export function orchestrationKeys(
  schema: string,
  runnable: RunnableText,
  which: 'claimable' | 'paused' | 'all' = 'claimable',
): string {
  const isWanted =
    which === 'all' ? 'TRUE' : `${which === 'claimable' ? 'NOT ' : ''}(${isPaused(schema)})`;
  return `(SELECT definition_key AS wanted_key FROM ${schema}.definitions AS definition
      WHERE ${runnable.column('name')} IS NULL AND kind = 'orchestration' AND ${isWanted}
    UNION ALL
    SELECT definition_key FROM ${runnable.as('runnable')}
    JOIN ${schema}.definitions AS definition ON definition.kind = 'orchestration'
      AND definition.name = runnable.name AND definition.version = runnable.version
    WHERE ${isWanted})`;
}

/**
 * Due canceling instances of paused definitions: a cancel passes a pause. Reads the index of all canceling instances,
 * and none while no definition is paused.
 */
export function cancelingOfPaused(schema: string, runnable: RunnableText): string {
  return `${schema}.instance_locks AS lock
    WHERE (SELECT 1 FROM ${schema}.paused_definitions LIMIT 1) IS NOT NULL AND cleanup_at IS NOT NULL
      AND next_at IS NOT NULL AND lock.definition_key = ANY (ARRAY(
        SELECT wanted_key FROM ${orchestrationKeys(schema, runnable, 'paused')} AS wanted))`;
}

/**
 * A table of the definition keys of activities and tasks that are not paused and not limited, or of all, as `wanted_key`.
 * Items of limited definitions are claimed in lanes only, by `LimitedClaims`.
 */
export function workKeys(
  schema: string,
  { names, tasks }: WorkNames,
  which: 'claimable' | 'all' = 'claimable',
): string {
  const isWanted =
    which === 'all' ? 'TRUE' : `NOT (${isPaused(schema)}) AND NOT (${isLimited(schema)})`;
  const named = (kind: DefinitionKind, list: string) => `SELECT definition_key, kind = 'task'
    FROM unnest(${list}) AS named (name) JOIN ${schema}.definitions AS definition
      ON definition.kind = '${kind}' AND definition.name = named.name AND definition.version = ''
    WHERE ${isWanted}`;
  return `(SELECT definition_key AS wanted_key, kind = 'task' AS is_task FROM ${schema}.definitions AS definition
      WHERE (${names} IS NULL AND kind = 'activity' OR ${tasks} IS NULL AND kind = 'task') AND ${isWanted}
    UNION ALL ${named('activity', names)}
    UNION ALL ${named('task', tasks)})`;
}

/** Instances that another build blocked and that have visible messages. Each comparison is one index range. */
export function blockedBy(schema: string, comparison: '<' | '>', buildId: string): string {
  return `${schema}.instance_locks AS lock
    WHERE lock.definition_key = wanted_key AND blocked_build ${comparison} ${buildId} COLLATE "C" AND lock_token IS NULL
      AND (SELECT 1 FROM ${schema}.orchestrator_queue AS message
           WHERE message.instance_key = lock.instance_key AND visible_at <= ${nowSql} LIMIT 1) IS NOT NULL`;
}

/** From when on any worker can claim a canceling instance in order to end it. */
export const cleanupDue = 'greatest(cleanup_at, locked_until)';

/**
 * A common table `level`: the priorities of the unflagged items of `wanted_key` without a lane, highest first.
 * Each priority costs one index entry, and the recursion stops at the limit of the query around it.
 */
export function priorityLevels(schema: string, suspect: string): string {
  const highest = (below: string) =>
    `(SELECT one.priority FROM ${schema}.worker_queue AS one
      WHERE one.definition_key = wanted_key AND one.suspect = ${suspect} AND NOT one.cancel_requested
        AND one.lane IS NULL ${below}
      ORDER BY one.priority DESC LIMIT 1)`;
  return `WITH RECURSIVE level (priority) AS (
      SELECT ${highest('')}
      UNION ALL
      SELECT ${highest('AND one.priority < level.priority')} FROM level WHERE level.priority IS NOT NULL)`;
}

/** The state of a cache when a due query began. */
export interface DueQueryStart {
  readonly changes: number;
  /** Monotonic time. */
  readonly startedAt: number;
}

/**
 * Caches when the next schedule or session is due, so that a caller needs no statement while none is.
 * The due query refreshes it. Writes of this process invalidate it; writes of others count from the next query on.
 */
export class NextDueCache {
  readonly #clock: Clock;
  readonly #maxAgeMs: number;
  #changes = 0;
  #known:
    | { readonly nextAt: number; readonly nowMs: number; readonly startedAt: number }
    | undefined;

  constructor({ clock, maxAgeMs }: { readonly clock: Clock; readonly maxAgeMs: number }) {
    this.#clock = clock;
    this.#maxAgeMs = maxAgeMs;
  }

  /** Call before a due query, and pass the result to `record`. */
  begin(): DueQueryStart {
    return { changes: this.#changes, startedAt: this.#clock.monotonic() };
  }

  /** Stores the result of a due query, unless this process changed something meanwhile. */
  record({ changes, startedAt }: DueQueryStart, nextAt: number, nowMs: number): void {
    if (changes === this.#changes) this.#known = { nextAt, nowMs, startedAt };
  }

  /** Call after each write that may change the next due time. */
  invalidate(): void {
    this.#changes += 1;
    this.#known = undefined;
  }

  /** The next due time, if it is recent and in the future. */
  get(): { readonly nowMs: number; readonly nextAt: number } | undefined {
    const known = this.#known;
    if (known === undefined) return undefined;
    const passedMs = this.#clock.monotonic() - known.startedAt;
    const nowMs = Math.floor(known.nowMs + passedMs);
    const isValid = passedMs < this.#maxAgeMs && known.nextAt > nowMs;
    return isValid ? { nowMs, nextAt: known.nextAt } : undefined;
  }
}
