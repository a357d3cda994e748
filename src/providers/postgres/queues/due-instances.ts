import type { FetchOrchestrationItemsParams } from '../../contract/orchestration-queue.ts';
import { chooseDue } from '../../rules/claims.ts';
import { one, prepare } from '../driver/columns.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import {
  blockedBy,
  cancelingOfPaused,
  cleanupDue,
  orchestrationKeys,
  runnableRows,
  unique,
} from '../wakeups/due-query.ts';

/** A claimable instance. Its row in `instance_locks` is locked by the transaction. */
export interface DueInstance {
  readonly instanceKey: number;
  readonly nextAt: number;
  readonly claims: number;
}

/**
 * Finds instances to claim. Each statement reads an index range per definition and stops at its limit, so its cost does
 * not depend on other work. It skips rows that another worker is claiming.
 */
export class DueInstances {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /** Chooses the instances to claim, and reads the clock. */
  async choose(
    scope: Scope,
    { max, runnable, buildId }: FetchOrchestrationItemsParams,
  ): Promise<readonly DueInstance[]> {
    const { tx, nowParameter: now } = scope;
    const { due, canceling, blockedBefore, blockedAfter } = this.#statements;
    const wanted = { now, runnable: unique(runnable) };
    const blocked = (bind: typeof blockedBefore): Promise<readonly DueInstance[]> =>
      buildId === undefined
        ? Promise.resolve([])
        : tx.query<DueInstance>(...bind({ ...wanted, buildId, limit: max }));
    const [trusted, suspects, stopping, before, after] = await scope.begin(
      tx.query<DueInstance>(...due({ ...wanted, suspect: false, limit: max })),
      tx.query<DueInstance>(...due({ ...wanted, suspect: true, limit: 1 })),
      tx.query<DueInstance & { isExpired: boolean }>(...canceling({ ...wanted, limit: max })),
      blocked(blockedBefore),
      blocked(blockedAfter),
    );
    const expired = stopping.filter(({ isExpired }) => isExpired);
    const unblocked = [...before, ...after, ...stopping.filter(({ isExpired }) => !isExpired)];
    return chooseDue({
      max,
      // An instance whose clean-up limit expired is ended without its code, so it cannot crash the worker.
      trusted: [...trusted, ...unblocked.filter(({ claims }) => claims < 2), ...expired],
      suspects: [...suspects, ...unblocked.filter(({ claims }) => claims >= 2)],
      keyOf: ({ instanceKey }) => instanceKey,
    });
  }
}

function statements(schema: string) {
  const now = one<number | null>('bigint');
  const limit = one<number>('bigint');
  const wantedFrom = (runnable: ReturnType<(typeof runnableRows)['inText']>) =>
    `SELECT found.* FROM ${orchestrationKeys(schema, runnable)} AS wanted CROSS JOIN LATERAL`;
  const blocked = (name: string, comparison: '<' | '>') =>
    prepare(
      name,
      { now, runnable: runnableRows, buildId: one<string>('text'), limit },
      ({ runnable, buildId, limit }) => `${wantedFrom(runnable)} (
        SELECT instance_key AS "instanceKey", coalesce(next_at, 0) AS "nextAt", claims
        FROM ${blockedBy(schema, comparison, buildId)}
        LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS found`,
    );
  return {
    due: prepare(
      'perdure_due_instances',
      { now, runnable: runnableRows, suspect: one<boolean>('boolean'), limit },
      ({ runnable, suspect, limit }) => `${wantedFrom(runnable)} (
        SELECT instance_key AS "instanceKey", next_at AS "nextAt", claims FROM ${schema}.instance_locks AS lock
        WHERE lock.definition_key = wanted_key AND suspect = ${suspect} AND next_at <= ${nowSql} AND next_at IS NOT NULL
        ORDER BY next_at, instance_key LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS found`,
    ),
    // Instances whose clean-up limit expired, of any definition, and due canceling instances of paused definitions.
    canceling: prepare(
      'perdure_canceling_instances',
      { now, runnable: runnableRows, limit },
      ({ runnable, limit }) => `SELECT * FROM (
          SELECT instance_key AS "instanceKey", ${cleanupDue} AS "nextAt", claims, TRUE AS "isExpired"
          FROM ${schema}.instance_locks
          WHERE cleanup_at IS NOT NULL AND ${cleanupDue} <= ${nowSql}
          ORDER BY ${cleanupDue}, instance_key LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS expired
        UNION ALL
        SELECT * FROM (
          SELECT instance_key AS "instanceKey", next_at AS "nextAt", claims, FALSE AS "isExpired"
          FROM ${cancelingOfPaused(schema, runnable)} AND next_at <= ${nowSql} AND ${cleanupDue} > ${nowSql}
          ORDER BY ${cleanupDue}, instance_key LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS passing`,
    ),
    blockedBefore: blocked('perdure_blocked_before', '<'),
    blockedAfter: blocked('perdure_blocked_after', '>'),
  };
}
