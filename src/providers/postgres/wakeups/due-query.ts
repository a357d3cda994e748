import type { Clock } from '../../../model/clock.ts';
import type { Runnable } from '../../contract/orchestration-queue.ts';
import type { Topic } from '../../shared/effects.ts';
import { text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import type { DefinitionKind } from '../tables/definitions.ts';
import { isFree } from '../tables/work-items.ts';

/** What somebody could claim: of any name where there is no list, of none where it is empty. */
export interface Wanted {
  readonly runnable: readonly Runnable[] | undefined;
  readonly buildId: string | undefined;
  /** Of activities, and of tasks. */
  readonly names: readonly string[] | undefined;
  readonly tasks: readonly string[] | undefined;
}

/** What a look found. */
export interface Found {
  readonly now: number;
  /** When the next thing of the topic is due; the past means now. */
  readonly nextAt: Readonly<Record<Topic, number>>;
  /** When the next schedule is due. */
  readonly nextScheduleAt: number;
  /** When the next session, or a job that nobody wants any more, is to be looked after. */
  readonly nextSessionAt: number;
  /** The tokens of items that are held and were flagged or deleted since the time asked for. */
  readonly flagged: readonly string[];
}

interface Row {
  readonly now: number;
  readonly orchestrations: number | null;
  readonly work: number | null;
  readonly schedules: number | null;
  readonly sessions: number | null;
  readonly flagged: readonly string[];
}

/** The keys of orchestrations by the names in `$2` and the versions in `$3`; of all where `$2` is NULL. */
export function orchestrationKeys(schema: string): string {
  return `(SELECT definition_key AS wanted_key FROM ${schema}.definitions
      WHERE $2::text[] IS NULL AND kind = 'orchestration'
    UNION ALL
    SELECT definition_key FROM unnest($2::text[], $3::text[]) AS runnable (name, version)
    JOIN ${schema}.definitions AS definition ON definition.kind = 'orchestration'
      AND definition.name = runnable.name AND definition.version = runnable.version)`;
}

/** The keys of activities and of tasks by the names in two parameters; of all where one is NULL. */
export function workKeys(schema: string, activities: string, tasks: string): string {
  const named = (kind: DefinitionKind, names: string) => `SELECT definition_key, kind = 'task'
    FROM unnest(${names}::text[]) AS named (name) JOIN ${schema}.definitions AS definition
      ON definition.kind = '${kind}' AND definition.name = named.name AND definition.version = ''`;
  return `(SELECT definition_key AS wanted_key, kind = 'task' AS is_task FROM ${schema}.definitions
      WHERE ${activities}::text[] IS NULL AND kind = 'activity' OR ${tasks}::text[] IS NULL AND kind = 'task'
    UNION ALL ${named('activity', activities)}
    UNION ALL ${named('task', tasks)})`;
}

/** What another build than `$4` held back and has visible messages; one range of the index for each comparison. */
export function blockedBy(schema: string, comparison: '<' | '>'): string {
  return `${schema}.instance_locks AS lock
    WHERE lock.definition_key = wanted_key AND blocked_build ${comparison} $4::text COLLATE "C" AND lock_token IS NULL
      AND (SELECT 1 FROM ${schema}.orchestrator_queue AS message
           WHERE message.instance_key = lock.instance_key AND visible_at <= ${nowSql} LIMIT 1) IS NOT NULL`;
}

/** When anyone may claim a canceling instance, to end it. */
export const cleanupDue = 'greatest(cleanup_at, locked_until)';

/** The names and versions of `runnable`, as parameters. */
export function runnableParameters(
  runnable: readonly Runnable[] | undefined,
): readonly [string | null, string | null] {
  if (runnable === undefined) return [null, null];
  const unique = [
    ...new Map(runnable.map((one) => [JSON.stringify([one.name, one.version]), one])).values(),
  ];
  return [texts(unique.map(({ name }) => name)), texts(unique.map(({ version }) => version ?? ''))];
}

/** The names of activities or tasks, as a parameter. */
export function namesParameter(names: readonly string[] | undefined): string | null {
  return names === undefined ? null : texts([...new Set(names)]);
}

/** Looks, without a lock, when there will be something to claim or to start: one statement, the same for all that is waited for. */
export class Look {
  readonly #statement: Statement;

  constructor(schema: string) {
    // Each name alone, and of work each priority: the first entry of a range of the index.
    const twice = '(VALUES (FALSE), (TRUE)) AS claimed (twice)';
    const firstInstance = `(SELECT min(first.next_at) FROM ${orchestrationKeys(schema)} AS wanted CROSS JOIN ${twice}
        CROSS JOIN LATERAL (
          SELECT next_at FROM ${schema}.instance_locks AS due
          WHERE due.definition_key = wanted_key AND due.suspect = claimed.twice AND next_at IS NOT NULL
          ORDER BY next_at LIMIT 1) AS first)`;
    // What is held stands where it was claimed until it is renewed. When its lock ends matters while nothing else is due.
    const itemsOfLevel = `${schema}.worker_queue AS due
            WHERE due.definition_key = wanted_key AND due.suspect = claimed.twice AND NOT cancel_requested
              AND due.priority = level.priority`;
    const firstItem = `(SELECT min(first.next_at) FROM ${workKeys(schema, '$5', '$7')} AS wanted CROSS JOIN ${twice}
        CROSS JOIN LATERAL (
          ${priorityLevels(schema, 'claimed.twice')}
          SELECT CASE WHEN head.next_at <= ${nowSql} THEN head.next_at ELSE least(head.next_at, (
            SELECT min(locked_until) FROM ${itemsOfLevel} AND next_at <= ${nowSql})) END AS next_at
          FROM level LEFT JOIN LATERAL (
            SELECT next_at FROM ${itemsOfLevel} AND (next_at > ${nowSql} OR ${isFree})
            ORDER BY next_at LIMIT 1) AS head ON TRUE) AS first)`;
    const blocked = (comparison: '<' | '>') =>
      `EXISTS (SELECT 1 FROM ${orchestrationKeys(schema)} AS wanted
        CROSS JOIN LATERAL (SELECT 1 FROM ${blockedBy(schema, comparison)} LIMIT 1) AS one)`;
    this.#statement = {
      name: 'perdure_look',
      text: `SELECT ${nowSql} AS "now",
        least(
          ${firstInstance},
          (SELECT ${cleanupDue} FROM ${schema}.instance_locks WHERE cleanup_at IS NOT NULL
           ORDER BY ${cleanupDue} LIMIT 1),
          CASE WHEN $4::text IS NOT NULL AND (${blocked('<')} OR ${blocked('>')}) THEN ${nowSql} END
        ) AS "orchestrations",
        least(
          ${firstItem},
          (SELECT expires_at FROM ${schema}.worker_queue WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1),
          (SELECT next_at FROM ${schema}.worker_queue WHERE cancel_requested ORDER BY next_at LIMIT 1)
        ) AS "work",
        (SELECT next_at FROM ${schema}.schedules WHERE NOT paused AND next_at IS NOT NULL
         ORDER BY next_at LIMIT 1) AS "schedules",
        least(
          (SELECT due_at FROM ${schema}.sessions ORDER BY due_at LIMIT 1),
          (SELECT check_at FROM ${schema}.jobs WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1),
          (SELECT dispose_at FROM ${schema}.jobs WHERE dispose_at IS NOT NULL ORDER BY dispose_at LIMIT 1)
        ) AS "sessions",
        ARRAY(SELECT item_key || '.' || lock_token FROM ${schema}.worker_queue
              WHERE $6::bigint IS NOT NULL AND cancel_requested AND next_at > ${nowSql}
                AND cancel_requested_at >= $6::bigint AND lock_token IS NOT NULL)
          || ARRAY(SELECT item_key || '.' || lock_token FROM ${schema}.tombstones
                   WHERE $6::bigint IS NOT NULL AND locked_until > ${nowSql} AND deleted_at >= $6::bigint) AS "flagged"`,
    };
  }

  async run(
    tx: Transaction,
    { runnable, buildId, names, tasks }: Wanted,
    {
      nowParameter,
      flaggedSince,
    }: { readonly nowParameter: number | null; readonly flaggedSince?: number },
  ): Promise<Found> {
    const [row] = await tx.query<Row>(this.#statement, [
      nowParameter,
      ...runnableParameters(runnable),
      buildId === undefined ? null : text(buildId),
      namesParameter(names),
      flaggedSince === undefined ? null : Math.floor(flaggedSince),
      namesParameter(tasks),
    ]);
    if (row === undefined) throw new Error('A look has no answer.');
    const { now, orchestrations, work, schedules, sessions, flagged } = row;
    return {
      now,
      nextAt: { orchestrations: orchestrations ?? Infinity, work: work ?? Infinity },
      nextScheduleAt: schedules ?? Infinity,
      nextSessionAt: sessions ?? Infinity,
      flagged,
    };
  }
}

/**
 * The priorities of a name's items that are not flagged, the highest first, as the common table `level`: one entry of the
 * index for each, and no more of them than are asked for. The name is `wanted_key`.
 */
export function priorityLevels(schema: string, suspect: string): string {
  const highest = (below: string) =>
    `(SELECT one.priority FROM ${schema}.worker_queue AS one
      WHERE one.definition_key = wanted_key AND one.suspect = ${suspect} AND NOT one.cancel_requested ${below}
      ORDER BY one.priority DESC LIMIT 1)`;
  return `WITH RECURSIVE level (priority) AS (
      SELECT ${highest('')}
      UNION ALL
      SELECT ${highest('AND one.priority < level.priority')} FROM level WHERE level.priority IS NOT NULL)`;
}

/** What was known when a look began. */
export interface DueMark {
  readonly changes: number;
  /** By the monotonic clock. */
  readonly begunAt: number;
}

/**
 * When the next schedule or session is due, as the last look has told: so that asking which are due takes no statement
 * while none is, and somebody looks all the time anyway. What this process changes counts at once, what others change from the
 * next look on.
 */
export class NextDue {
  readonly #clock: Clock;
  readonly #maxAgeMs: number;
  #changes = 0;
  #told: { readonly nextAt: number; readonly nowMs: number; readonly begunAt: number } | undefined;

  constructor({ clock, maxAgeMs }: { readonly clock: Clock; readonly maxAgeMs: number }) {
    this.#clock = clock;
    this.#maxAgeMs = maxAgeMs;
  }

  /** Taken before a look, whose answer is worth nothing when one of them changes meanwhile. */
  mark(): DueMark {
    return { changes: this.#changes, begunAt: this.#clock.monotonic() };
  }

  /** A look has found when the next one is due, and read the store's clock. */
  saw({ changes, begunAt }: DueMark, nextAt: number, nowMs: number): void {
    if (changes === this.#changes) this.#told = { nextAt, nowMs, begunAt };
  }

  /** This process may have changed one of them. */
  changed(): void {
    this.#changes += 1;
    this.#told = undefined;
  }

  /** When the next one is due, if that was told lately and lies ahead. */
  get(): { readonly nowMs: number; readonly nextAt: number } | undefined {
    const told = this.#told;
    if (told === undefined) return undefined;
    const passedMs = this.#clock.monotonic() - told.begunAt;
    const nowMs = Math.floor(told.nowMs + passedMs);
    const holds = passedMs < this.#maxAgeMs && told.nextAt > nowMs;
    return holds ? { nowMs, nextAt: told.nextAt } : undefined;
  }
}
