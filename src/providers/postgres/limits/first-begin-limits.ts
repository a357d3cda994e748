import { setTimeout as delay } from 'node:timers/promises';
import { ProviderError } from '../../../model/failures/errors.ts';
import { clock, keys, one, prepare, rowsOf } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import type { LockedLimits } from './limit-rows.ts';

interface BegunInstance {
  readonly instanceKey: number;
  /** `null`: of another orchestration, or not begun. */
  readonly definitionKey: number | null;
  readonly lane: string;
}

// Bounds the work of one statement: an orchestration can have many instances.
const maxBegun = 1_000;
// Long enough for transactions of applications that start instances.
const patienceMs = 10_000;
const pollMs = 20;

/** Whether the instances of an orchestration that have begun were counted. A repeated count changes nothing. */
export function isCounted({ declaredBy, override }: LockedLimits): boolean {
  return declaredBy !== null || override !== null;
}

/**
 * Counts the instances that have begun when an orchestration becomes limited. Each step can be repeated, also after a crash:
 *
 * 1. The orchestration gets a row in `limits`, without any limit. Later claims and starts find the row, and give places.
 * 2. `waitForEarlierWriters` waits for the claims and starts that did not find it.
 * 3. `countBegun` gives a place to each instance that has begun without one. The same transaction stores the limits.
 *
 * Before step 3, a claim gives a place to each instance that has begun.
 */
export class FirstBeginLimits {
  readonly #connections: Connections;
  readonly #sql: ReturnType<typeof statements>;

  constructor({
    schema,
    connections,
  }: {
    readonly schema: string;
    readonly connections: Connections;
  }) {
    this.#connections = connections;
    this.#sql = statements(schema);
  }

  /**
   * Waits for all transactions that write instances, or lock them for a claim. Such a transaction locks the table before it
   * reads the limits. Takes no lock, so it delays no other transaction. Throws a retryable error if one takes too long.
   */
  async waitForEarlierWriters(operation: string): Promise<void> {
    const deadline = performance.now() + patienceMs;
    for (let left = await this.#writers(operation); left.length > 0;) {
      if (performance.now() >= deadline) throw busyError(operation);
      await delay(pollMs);
      const now = new Set(await this.#writers(operation));
      left = left.filter((transaction) => now.has(transaction));
    }
  }

  async #writers(operation: string): Promise<readonly string[]> {
    const rows = await this.#connections.read(operation, (tx) =>
      tx.query<{ transaction: string }>(...this.#sql.writers({})),
    );
    return rows.map(({ transaction }) => transaction);
  }

  /** Gives places to the instances that have begun, and to those whose first turn is under way. */
  async countBegun(
    { tx, nowParameter: now }: Scope,
    definitionKeys: readonly number[],
  ): Promise<void> {
    if (definitionKeys.length === 0) return;
    let after = 0;
    for (;;) {
      const live = await tx.query<BegunInstance>(
        ...this.#sql.selectBegun({ now, definitionKeys, after }),
      );
      const rows = live.filter(({ definitionKey }) => definitionKey !== null);
      if (rows.length > 0) await tx.execute(...this.#sql.addBegun({ rows }));
      if (live.length < maxBegun) return;
      after = live.at(-1)?.instanceKey ?? after;
    }
  }
}

function oidOf(table: string): string {
  return `'${table.replaceAll("'", "''")}'::regclass`;
}

function busyError(operation: string): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: cannot count the instances that have begun, because a transaction that has started instances is still open after ${patienceMs} ms. Commit or roll back long transactions of your application, then retry.`,
    retryable: true,
  });
}

function statements(schema: string) {
  const [limits, lanes, places, instances, locks] = [
    `${schema}.limits`,
    `${schema}.lanes`,
    `${schema}.instance_places`,
    `${schema}.instances`,
    `${schema}.instance_locks`,
  ];
  const definitionKeys = keys('int');
  return {
    // Claims lock due rows for an update, and starts insert their instance.
    writers: prepare(
      'perdure_earlier_writers',
      {},
      () => `SELECT DISTINCT virtualtransaction AS transaction FROM pg_locks
        WHERE granted AND locktype = 'relation' AND mode IN ('RowShareLock', 'RowExclusiveLock')
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND relation IN (${oidOf(instances)}, ${oidOf(locks)})`,
    ),
    selectBegun: prepare(
      'perdure_select_begun',
      { now: clock, definitionKeys, after: one<number>('bigint') },
      ({
        definitionKeys,
        after,
      }) => `SELECT live.instance_key AS "instanceKey", gate.definition_key AS "definitionKey", coalesce(lane, '') AS lane
        FROM (SELECT instance_key FROM ${schema}.live_instances WHERE instance_key > ${after}
            ORDER BY instance_key LIMIT ${maxBegun}) AS page
          CROSS JOIN LATERAL (
            SELECT * FROM ${instances} AS one WHERE one.instance_key = page.instance_key LIMIT 1) AS live
          CROSS JOIN LATERAL (
            SELECT name FROM ${schema}.definitions AS one WHERE one.definition_key = live.definition_key LIMIT 1
          ) AS named LEFT JOIN LATERAL (
            SELECT definition_key FROM ${schema}.definitions AS one
            WHERE one.definition_key = ANY (${definitionKeys}) AND one.name = named.name
              AND (live.status <> 'pending' OR (SELECT 1 FROM ${locks} AS held WHERE held.instance_key = live.instance_key
                AND held.locked_until > ${nowSql} LIMIT 1) IS NOT NULL)
            LIMIT 1
          ) AS gate ON TRUE LEFT JOIN LATERAL (
            SELECT lane FROM ${schema}.run_lanes AS one WHERE one.instance_key = live.instance_key LIMIT 1) AS kept ON TRUE
        ORDER BY live.instance_key`,
    ),
    // In key order, as turns lock instances. One that has ended meanwhile gets no place.
    addBegun: prepare(
      'perdure_add_begun',
      {
        rows: rowsOf<BegunInstance>()({
          instance_key: 'bigint',
          definition_key: 'int',
          lane: 'text',
        }),
      },
      ({ rows }) => `WITH mine AS MATERIALIZED (
          SELECT instance_key FROM ${instances} WHERE instance_key = ANY (${rows.column('instance_key')})
            AND ended_at IS NULL ORDER BY instance_key FOR NO KEY UPDATE
        ), marked AS (
          UPDATE ${instances} SET limited = TRUE WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM mine))
        ), placed AS (
          INSERT INTO ${places} (${rows.names}, has_begun) SELECT ${rows.names}, TRUE FROM ${rows.as('new')}
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM mine))
          ON CONFLICT (instance_key) DO NOTHING RETURNING definition_key, lane
        ), begun AS MATERIALIZED (
          SELECT definition_key, lane, count(*)::int AS count FROM placed GROUP BY definition_key, lane
        ), lane AS (
          INSERT INTO ${lanes} AS known (definition_key, lane, running) SELECT definition_key, lane, count FROM begun
          ON CONFLICT (definition_key, lane) DO UPDATE SET running = known.running + excluded.running
        )
        UPDATE ${limits} AS lim SET running = lim.running + total.count
        FROM (SELECT definition_key, sum(count)::int AS count FROM begun GROUP BY definition_key) AS total
        WHERE lim.definition_key = total.definition_key`,
    ),
  };
}
