import type { FetchOrchestrationItemsParams } from '../../contract/orchestration-queue.ts';
import { text } from '../driver/arrays.ts';
import { chooseDue } from '../../rules/claims.ts';
import type { Statement } from '../driver/connection.ts';
import {
  blockedBy,
  cleanupDue,
  orchestrationKeys,
  runnableParameters,
} from '../wakeups/due-query.ts';
import { nowSql, type Scope } from '../driver/scope.ts';

/** An instance that may be claimed; its row in `instance_locks` is locked by the transaction. */
export interface DueInstance {
  readonly instanceKey: number;
  readonly nextAt: number;
  readonly claims: number;
}

/**
 * Finds instances to claim. Every statement reads a range of an index in its order and stops at its limit, for each name
 * alone, so the cost does not depend on what else waits; rows that others are claiming are passed over.
 */
export class DueInstances {
  readonly #due: Statement;
  readonly #cleanupDue: Statement;
  readonly #blockedBefore: Statement;
  readonly #blockedAfter: Statement;

  constructor(schema: string) {
    const columns = 'instance_key AS "instanceKey", next_at AS "nextAt", claims';
    const wanted = `SELECT found.* FROM ${orchestrationKeys(schema)} AS wanted CROSS JOIN LATERAL`;
    this.#due = {
      name: 'perdure_due_instances',
      text: `${wanted} (
        SELECT ${columns} FROM ${schema}.instance_locks AS lock
        WHERE lock.definition_key = wanted_key AND suspect = $4 AND next_at <= ${nowSql} AND next_at IS NOT NULL
        ORDER BY next_at, instance_key LIMIT $5 FOR UPDATE SKIP LOCKED) AS found`,
    };
    this.#cleanupDue = {
      name: 'perdure_cleanup_due_instances',
      text: `SELECT instance_key AS "instanceKey", ${cleanupDue} AS "nextAt", claims FROM ${schema}.instance_locks
        WHERE cleanup_at IS NOT NULL AND ${cleanupDue} <= ${nowSql}
        ORDER BY ${cleanupDue}, instance_key LIMIT $2 FOR UPDATE SKIP LOCKED`,
    };
    const blocked = (comparison: '<' | '>') => `${wanted} (
      SELECT instance_key AS "instanceKey", coalesce(next_at, 0) AS "nextAt", claims FROM ${blockedBy(schema, comparison)}
      LIMIT $5 FOR UPDATE SKIP LOCKED) AS found`;
    this.#blockedBefore = { name: 'perdure_blocked_before', text: blocked('<') };
    this.#blockedAfter = { name: 'perdure_blocked_after', text: blocked('>') };
  }

  /** Chooses what to claim, and reads the clock. */
  async choose(
    scope: Scope,
    { max, runnable, buildId }: FetchOrchestrationItemsParams,
  ): Promise<readonly DueInstance[]> {
    const { tx, nowParameter } = scope;
    const wanted = [nowParameter, ...runnableParameters(runnable)];
    const blocked = (statement: Statement): Promise<readonly DueInstance[]> =>
      buildId === undefined
        ? Promise.resolve([])
        : tx.query<DueInstance>(statement, [...wanted, text(buildId), max]);
    const [trusted, suspects, expired, before, after] = await scope.begin(
      tx.query<DueInstance>(this.#due, [...wanted, false, max]),
      tx.query<DueInstance>(this.#due, [...wanted, true, 1]),
      tx.query<DueInstance>(this.#cleanupDue, [nowParameter, max]),
      blocked(this.#blockedBefore),
      blocked(this.#blockedAfter),
    );
    const heldBack = [...before, ...after];
    return chooseDue({
      max,
      // One whose clean-up has expired is ended without its code, so it cannot kill its process.
      trusted: [...trusted, ...heldBack.filter(({ claims }) => claims < 2), ...expired],
      suspects: () => [...suspects, ...heldBack.filter(({ claims }) => claims >= 2)],
      keyOf: ({ instanceKey }) => instanceKey,
    });
  }
}
