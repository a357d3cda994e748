import type Database from 'better-sqlite3';
import type { ExecutionPrune, ExecutionPruneResult } from '../../contract/management.ts';
import type { AuditedStep } from '../../rules/audit-sums.ts';
import type { Audit } from '../tables/audit.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { Reclaims } from './reclaims.ts';
import type { Tombstones } from '../tables/tombstones.ts';

interface Finished {
  readonly executionId: number;
  readonly historyLength: number;
}

interface Executions {
  readonly instanceKey: number;
  readonly executions: string;
}

type Chosen =
  | { readonly found: false; readonly result: ExecutionPruneResult }
  | {
      readonly found: true;
      readonly instanceKey: number;
      readonly executionIds: readonly number[];
      readonly result: ExecutionPruneResult;
    };

// Events above this number are hidden now and deleted by `reclaimDeleted`, as for tree deletions.
const maxEventsAtOnce = 4_000;

/** Deletes executions that ended by continue-as-new. The current one has no row in `executions`. */
export class ExecutionPrunes {
  readonly #audit: Audit;
  readonly #reclaims: Reclaims;
  readonly #tombstones: Tombstones;
  readonly #locks: InstanceLocks;
  readonly #stops: InstanceStops;
  readonly #selectInstance;
  readonly #select;
  readonly #countOutstanding;
  readonly #deleteMessages;
  readonly #deleteItems;
  readonly #delete;

  constructor(
    db: Database.Database,
    parts: {
      readonly audit: Audit;
      readonly reclaims: Reclaims;
      readonly tombstones: Tombstones;
      readonly locks: InstanceLocks;
      readonly stops: InstanceStops;
    },
  ) {
    this.#audit = parts.audit;
    this.#reclaims = parts.reclaims;
    this.#tombstones = parts.tombstones;
    this.#locks = parts.locks;
    this.#stops = parts.stops;
    this.#selectInstance = db.prepare<[string], { instanceKey: number; incarnation: string }>(
      'SELECT instance_key AS instanceKey, incarnation FROM instances WHERE instance_id = ?',
    );
    this.#select = db.prepare<
      [{ instanceKey: number; spared: number; endedBefore: number | null; limit: number }],
      Finished
    >(
      `SELECT execution_id AS executionId, history_length AS historyLength FROM executions
       WHERE instance_key = :instanceKey
         AND execution_id <= (SELECT execution_id FROM executions WHERE instance_key = :instanceKey
                              ORDER BY execution_id DESC LIMIT 1 OFFSET :spared)
         AND (:endedBefore IS NULL OR ended_at < :endedBefore)
       ORDER BY execution_id LIMIT +:limit`,
    );
    const ofThem =
      'instance_key = :instanceKey AND execution_id IN (SELECT value FROM json_each(:executions))';
    // A running turn acks messages by key, and SQLite may reuse a deleted key. So messages of a claimed instance stay.
    const unread = `${ofThem} AND NOT EXISTS (SELECT 1 FROM instance_locks
                                              WHERE instance_key = :instanceKey AND lock_token IS NOT NULL)`;
    this.#countOutstanding = db
      .prepare<[Executions], number>(
        `SELECT (SELECT count(*) FROM orchestrator_queue WHERE ${unread})
              + (SELECT count(*) FROM worker_queue WHERE ${ofThem})`,
      )
      .pluck();
    const deleteFrom = (table: string, where = ofThem) =>
      db.prepare<[Executions]>(`DELETE FROM ${table} WHERE ${where}`);
    this.#deleteMessages = deleteFrom('orchestrator_queue', unread);
    this.#deleteItems = deleteFrom('worker_queue');
    this.#delete = deleteFrom('executions');
  }

  /** Prunes instances, each by its own conditions. */
  run(scope: Scope, prunes: readonly ExecutionPrune[]): readonly ExecutionPruneResult[] {
    const steps: AuditedStep[] = [];
    let eventsLeft = maxEventsAtOnce;
    const results = prunes.map((prune) => {
      const chosen = this.#choose(prune);
      const { result } = chosen;
      if (!chosen.found || prune.dryRun === true || result.executionsDeleted === 0) return result;
      const deleteHistory = result.eventsDeleted <= eventsLeft;
      if (deleteHistory) eventsLeft -= result.eventsDeleted;
      this.#deleteExecutions(scope, chosen, deleteHistory);
      const { executionsDeleted, eventsDeleted, queueMessagesDeleted, left } = result;
      const counts = { executionsDeleted, eventsDeleted, queueMessagesDeleted };
      // A prune in several steps counts its instance with the last one.
      steps.push({ entry: prune.audit, counts: { instances: left ? 0 : 1, ...counts } });
      return result;
    });
    this.#audit.record(steps, scope.now);
    return results;
  }

  /** Returns what a prune would delete. */
  preview(prune: ExecutionPrune): ExecutionPruneResult {
    return this.#choose(prune).result;
  }

  #choose(prune: ExecutionPrune): Chosen {
    const instance = this.#selectInstance.get(prune.instanceId);
    const isMeant = prune.incarnation === undefined || prune.incarnation === instance?.incarnation;
    if (instance === undefined || !isMeant) return { found: false, result: notFound };
    const { instanceKey } = instance;
    const rows = this.#select.all({
      instanceKey,
      // The current execution counts as kept, and has no row here.
      spared: Math.max((prune.keepLast ?? 0) - 1, 0),
      endedBefore: prune.endedBefore ?? null,
      limit: prune.max + 1,
    });
    const chosen = rows.slice(0, prune.max);
    const executionIds = chosen.map(({ executionId }) => executionId);
    const executions = JSON.stringify(executionIds);
    const result = {
      found: true,
      executionsDeleted: chosen.length,
      eventsDeleted: chosen.reduce((sum, { historyLength }) => sum + historyLength, 0),
      queueMessagesDeleted: this.#countOutstanding.get({ instanceKey, executions }) ?? 0,
      left: rows.length > chosen.length,
    };
    return { found: true, instanceKey, executionIds, result };
  }

  #deleteExecutions(
    scope: Scope,
    { instanceKey, executionIds, result }: Extract<Chosen, { found: true }>,
    deleteHistory: boolean,
  ): void {
    const executions = { instanceKey, executions: JSON.stringify(executionIds) };
    if (deleteHistory) this.#reclaims.deleteExecutions(instanceKey, executionIds);
    else this.#reclaims.addExecutions(instanceKey, executionIds);
    this.#delete.run(executions);
    if (result.queueMessagesDeleted === 0) return;
    const { now, effects } = scope;
    effects.addDeletedClaims(this.#tombstones.addOfExecutions(instanceKey, executionIds, now));
    this.#deleteItems.run(executions);
    this.#deleteMessages.run(executions);
    this.#locks.refresh(instanceKey);
    // Its end may have waited for these items only.
    this.#stops.finishClosing(scope, instanceKey);
  }
}

const notFound: ExecutionPruneResult = {
  found: false,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
  left: false,
};
