import { isTerminal, type InstanceStatus } from '../../../model/status.ts';
import type {
  DeleteInstanceResult,
  TreeDeletion,
  TreeDeletionResult,
} from '../../contract/management.ts';
import { numbers, texts, fromStoredText } from '../driver/arrays.ts';
import type { Audit, AuditedStep } from './audit.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { JobRows } from '../jobs/job-rows.ts';
import type { Messages } from '../tables/messages.ts';
import type { Reclaims } from './reclaims.ts';
import { RunState } from '../tables/task-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { Tombstones } from '../tables/tombstones.ts';

/** An instance with how many rows stand behind it. */
interface Row {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly status: InstanceStatus;
  /** Of a task run: its handler for failure has still to run. */
  readonly isHandling: boolean;
  /** Of a task run: it was created with a dedupe key. */
  readonly hasKey: boolean;
  /** Of the current execution, and of those before it. */
  readonly historyLength: number;
  readonly pastEvents: number;
  readonly pastExecutions: number;
  readonly messages: number;
  readonly items: number;
  /** Somebody may want its reply. */
  readonly isJob: boolean;
  /** As they are stored. */
  readonly childIds: readonly string[];
}

type Judged =
  | Exclude<TreeDeletionResult, { kind: 'deleted' }>
  | {
      readonly kind: 'deletable';
      readonly rows: readonly Row[];
      readonly counts: DeleteInstanceResult;
    };

/** What is deleted: instances, those of them whose histories go at once, and what to record. */
interface Plan {
  readonly rows: Row[];
  readonly leftForLater: Row[];
  readonly steps: AuditedStep[];
}

// How many events one call deletes itself. What is above is left for later, and hidden meanwhile.
const maxEventsAtOnce = 4_000;

interface Parts {
  readonly schema: string;
  readonly audit: Audit;
  readonly dedupeKeys: DedupeKeys;
  readonly jobRows: JobRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly reclaims: Reclaims;
  readonly tombstones: Tombstones;
}

/**
 * Deletes instances with everything that belongs to them; a few statements for all trees of a call.
 *
 * D1. The rows of the instances are locked first, in the order of their keys, then those of their locks. A turn that
 *     starts a child holds the row of its instance, so no child is born from then on, and none is overlooked: it is
 *     looked for by a statement that begins once the locks are held.
 * D2. Whoever waits for one of these locks finds nothing when it gets it.
 * D3. What is counted under the locks is what is deleted.
 */
export class TreeDeletions {
  readonly #parts: Parts;
  readonly #lock: Statement;
  readonly #measure: Statement;
  readonly #deleteExecutions: Statement;
  readonly #deleteRows: Statement;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { schema } = parts;
    this.#lock = {
      name: 'perdure_lock_trees',
      text: `SELECT instance_key AS "instanceKey" FROM ${schema}.instances WHERE instance_key = ANY (ARRAY(
          SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY ($1::text[])))
        ORDER BY instance_key FOR UPDATE`,
    };
    const countOf = (table: string) =>
      `(SELECT count(*) FROM ${schema}.${table} AS held WHERE held.instance_key = instance.instance_key)`;
    this.#measure = {
      name: 'perdure_measure_trees',
      text: `SELECT instance_key AS "instanceKey", instance_id AS "instanceId", incarnation, ${new RunState(schema).status('instance')} AS status,
          coalesce(on_fail IN ('queued', 'running'), FALSE) AS "isHandling", dedupe_key IS NOT NULL AS "hasKey",
          (SELECT 1 FROM ${schema}.jobs AS job WHERE job.instance_key = instance.instance_key LIMIT 1) IS NOT NULL AS "isJob",
          history_length AS "historyLength", past.events AS "pastEvents", past.executions AS "pastExecutions",
          ${countOf('orchestrator_queue')} AS messages, ${countOf('worker_queue')} AS items,
          ARRAY(SELECT child.instance_id FROM ${schema}.instances AS child
                WHERE child.parent_instance_id = instance.instance_id) AS "childIds"
        FROM ${schema}.instances AS instance CROSS JOIN LATERAL (
          SELECT count(*) AS executions, coalesce(sum(one.history_length), 0)::bigint AS events
          FROM ${schema}.executions AS one
          WHERE one.instance_key = instance.instance_key AND instance.execution_id > 1) AS past
        WHERE instance_id = ANY ($1::text[])`,
    };
    const deleteFrom = (table: string) =>
      `DELETE FROM ${schema}.${table} WHERE instance_key = ANY ($1::bigint[])`;
    this.#deleteExecutions = {
      name: 'perdure_delete_executions_of_trees',
      text: deleteFrom('executions'),
    };
    this.#deleteRows = { name: 'perdure_delete_trees', text: deleteFrom('instances') };
  }

  /** Deletes trees, each whole or not at all. */
  async run(scope: Scope, trees: readonly TreeDeletion[]): Promise<readonly TreeDeletionResult[]> {
    const ids = texts(idsOf(trees));
    const [locked, , measured] = await scope.begin(
      scope.tx.query<{ instanceKey: number }>(this.#lock, [ids]),
      this.#parts.locks.lockOf(scope.tx, idsOf(trees)),
      scope.tx.query<Row>(this.#measure, [ids]),
    );
    // One that was created between these statements is not meant.
    const keys = new Set(locked.map(({ instanceKey }) => instanceKey));
    const { results, plan } = judgeAll(
      trees,
      measured.filter(({ instanceKey }) => keys.has(instanceKey)),
    );
    await this.#delete(scope, plan);
    return results;
  }

  /** What would become of trees. */
  async preview(
    tx: Transaction,
    trees: readonly TreeDeletion[],
  ): Promise<readonly TreeDeletionResult[]> {
    if (trees.length === 0) return [];
    return judgeAll(trees, await tx.query<Row>(this.#measure, [texts(idsOf(trees))])).results;
  }

  async #delete({ tx, now, effects }: Scope, { rows, leftForLater, steps }: Plan): Promise<void> {
    if (rows.length === 0) return;
    const { audit, dedupeKeys, jobRows, locks, messages, reclaims, tombstones } = this.#parts;
    const keysOf = (some: readonly Row[]) => some.map(({ instanceKey }) => instanceKey);
    const continued = rows.filter(({ pastExecutions }) => pastExecutions > 0);
    const later = new Set(leftForLater);
    const jobs = keysOf(rows.filter(({ isJob }) => isJob));
    const [tokens] = await Promise.all([
      tombstones.bury(
        tx,
        rows
          .filter(({ items }) => items > 0)
          .map(({ instanceKey }) => ({ instanceKey, executionId: null })),
        now,
      ),
      dedupeKeys.free(tx, keysOf(rows.filter(({ hasKey }) => hasKey))),
      messages.deleteAll(tx, keysOf(rows.filter((row) => row.messages > 0))),
      locks.delete(tx, keysOf(rows)),
      // First, so that the deletion sees the chunks of a handler that is just emitting.
      jobRows.lockByKey(tx, jobs),
      jobRows.delete(tx, jobs),
      reclaims.deleteInstances(tx, keysOf(rows.filter((row) => !later.has(row)))),
      reclaims.add(
        tx,
        leftForLater.map((row) => ({
          instanceKey: row.instanceKey,
          executionId: 0,
          events: eventsOf(row),
        })),
      ),
      continued.length === 0
        ? undefined
        : tx.execute(this.#deleteExecutions, [numbers(keysOf(continued))]),
      tx.execute(this.#deleteRows, [numbers(keysOf(rows))]),
      audit.record(tx, steps, now),
    ]);
    effects.addDeletedClaims(tokens);
    effects.deleted(rows.map(({ instanceId }) => instanceId));
  }
}

function idsOf(trees: readonly TreeDeletion[]): readonly string[] {
  return [...new Set(trees.flatMap(({ instanceIds }) => instanceIds))];
}

/** Judges trees one after the other: what one of them takes is gone for those that follow. */
function judgeAll(
  trees: readonly TreeDeletion[],
  measured: readonly Row[],
): { readonly results: readonly TreeDeletionResult[]; readonly plan: Plan } {
  const byId = new Map(measured.map((row) => [row.instanceId, row]));
  const gone = new Set<string>();
  const plan: Plan = { rows: [], leftForLater: [], steps: [] };
  let eventsLeft = maxEventsAtOnce;
  const results = trees.map((tree): TreeDeletionResult => {
    const judged = judge(tree, byId, gone);
    if (judged.kind !== 'deletable') return judged;
    const { rows, counts } = judged;
    if (tree.dryRun === true) return { kind: 'deleted', counts };
    const isAtOnce = counts.eventsDeleted <= eventsLeft;
    if (isAtOnce) eventsLeft -= counts.eventsDeleted;
    for (const row of rows) {
      plan.rows.push(row);
      if (!isAtOnce) plan.leftForLater.push(row);
      byId.delete(row.instanceId);
      gone.add(row.instanceId);
    }
    plan.steps.push({ entry: tree.audit, taken: counts });
    return { kind: 'deleted', counts };
  });
  return { results, plan };
}

function judge(
  { instanceIds, rootIncarnation, force }: TreeDeletion,
  byId: ReadonlyMap<string, Row>,
  gone: ReadonlySet<string>,
): Judged {
  // Those that are there, in the order given, each once.
  const rows = [...new Set(instanceIds)].flatMap((id) => byId.get(id) ?? []);
  const root = rows.at(-1);
  const isReplaced =
    rootIncarnation !== undefined &&
    (root?.incarnation !== rootIncarnation || root.instanceId !== instanceIds.at(-1));
  if (isReplaced) return { kind: 'replaced' };
  const running = force ? undefined : rows.find(isActive);
  if (running !== undefined) {
    const { instanceId, status } = running;
    return { kind: 'running', instanceId, status };
  }
  return findOrphan(rows, gone) ?? { kind: 'deletable', rows, counts: toCounts(rows) };
}

function isActive({ status, isHandling }: Row): boolean {
  return !isTerminal(status) || isHandling;
}

function findOrphan(
  rows: readonly Row[],
  gone: ReadonlySet<string>,
): Extract<TreeDeletionResult, { kind: 'orphan' }> | undefined {
  const positions = new Map(rows.map(({ instanceId }, index) => [instanceId, index]));
  for (const [position, { instanceId: parentInstanceId, childIds }] of rows.entries()) {
    for (const stored of childIds) {
      const instanceId = fromStoredText(stored);
      const own = positions.get(instanceId) ?? Infinity;
      if (own > position && !gone.has(instanceId))
        return { kind: 'orphan', instanceId, parentInstanceId };
    }
  }
  return undefined;
}

function eventsOf({ historyLength, pastEvents }: Row): number {
  return historyLength + pastEvents;
}

// Event ids are dense, so the length of a history is the number of its rows.
function toCounts(rows: readonly Row[]): DeleteInstanceResult {
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  return {
    instancesDeleted: rows.length,
    executionsDeleted: sum(({ pastExecutions }) => 1 + pastExecutions),
    eventsDeleted: sum(eventsOf),
    queueMessagesDeleted: sum(({ messages, items }) => messages + items),
  };
}
