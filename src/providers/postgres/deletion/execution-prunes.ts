import type { ExecutionPrune, ExecutionPruneResult } from '../../contract/management.ts';
import { prepare, rowsOf } from '../driver/columns.ts';
import type { AuditedStep } from '../../rules/audit-sums.ts';
import type { Audit } from '../tables/audit.ts';
import { Changes, type Batch } from '../batches/batch.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { Transaction } from '../driver/connection.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { Messages } from '../tables/messages.ts';
import { executionRows, type ReclaimEntry, type Reclaims } from './reclaims.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import type { Tombstones } from '../tables/tombstones.ts';

/** An instance with the executions that a prune may delete. */
interface Row {
  /** The position of the prune in the list, from 1. */
  readonly place: number;
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly executionIds: readonly number[] | null;
  readonly historyLengths: readonly number[] | null;
  /** For each message and each work item of a past execution, its execution id. */
  readonly messages: readonly number[];
  readonly items: readonly number[];
}

interface IndexedPrune {
  readonly prune: ExecutionPrune;
  readonly index: number;
}

/** The executions that a prune deletes. */
interface Chosen extends IndexedPrune {
  readonly executions: readonly ReclaimEntry[];
  readonly result: ExecutionPruneResult;
}

interface Parts {
  readonly schema: string;
  readonly audit: Audit;
  readonly dedupeKeys: DedupeKeys;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly reclaims: Reclaims;
  readonly pauseRows: PauseRows;
  readonly stopRows: StopRows;
  readonly stops: InstanceStops;
  readonly tombstones: Tombstones;
  readonly taskRows: TaskRows;
}

// Events above this number are deleted later. Readers do not see them meanwhile.
const maxEventsAtOnce = 4_000;

/**
 * Deletes executions that ended by continue-as-new. The current execution has no row in `executions`, so it is never
 * deleted. The instances are locked as for a turn.
 */
export class ExecutionPrunes {
  readonly #parts: Parts;
  readonly #statements: ReturnType<typeof statements>;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#statements = statements(parts.schema);
  }

  /** Prunes instances, each by its own conditions. Prunes of the same instance run in list order. */
  async run(
    batch: Batch,
    prunes: readonly ExecutionPrune[],
  ): Promise<readonly ExecutionPruneResult[]> {
    const { scope, instances } = batch;
    const ids = [...new Set(prunes.map(({ instanceId }) => instanceId))];
    // With the parents of closing instances: the deletion of the last item may end those.
    await scope.begin(
      instances.lock({ ids, parents: 'ending' }),
      this.#parts.locks.lockOf(scope.tx, ids),
    );
    const results: ExecutionPruneResult[] = prunes.map(() => notFound);
    const steps: AuditedStep[] = [];
    let eventsLeft = maxEventsAtOnce;
    for (const round of toRounds(prunes)) {
      const chosen = (await this.#chooseFor(scope.tx, round)).map((one) => {
        const [first] = one.executions;
        // Skips an instance that was created after the locks were taken.
        const isLocked = first === undefined || instances.get(first.instanceKey) !== undefined;
        return isLocked ? one : { ...one, executions: [], result: notFound };
      });
      for (const { index, result } of chosen) results[index] = result;
      const deleted = chosen.filter(
        ({ prune, executions }) => prune.dryRun !== true && executions.length > 0,
      );
      const immediate = deleted.filter(({ result: { eventsDeleted } }) => {
        if (eventsDeleted > eventsLeft) return false;
        eventsLeft -= eventsDeleted;
        return true;
      });
      await this.#deleteChosen(batch, deleted, new Set(immediate));
      steps.push(...deleted.map(toStep));
    }
    await this.#parts.audit.record(scope.tx, steps, scope.now);
    return results;
  }

  /** The results that prunes would have. */
  async preview(
    tx: Transaction,
    prunes: readonly ExecutionPrune[],
  ): Promise<readonly ExecutionPruneResult[]> {
    if (prunes.length === 0) return [];
    const all = prunes.map((prune, index) => ({ prune, index }));
    return (await this.#chooseFor(tx, all)).map(({ result }) => result);
  }

  async #chooseFor(tx: Transaction, prunes: readonly IndexedPrune[]): Promise<readonly Chosen[]> {
    const rows = await tx.query<Row>(...this.#statements.choose({ prunes }));
    const byPlace = new Map(rows.map((row) => [row.place, row]));
    return prunes.map((one, place) => choose(one, byPlace.get(place + 1)));
  }

  async #deleteChosen(
    batch: Batch,
    chosen: readonly Chosen[],
    immediate: ReadonlySet<Chosen>,
  ): Promise<void> {
    if (chosen.length === 0) return;
    const { tx, now, effects } = batch.scope;
    const { locks, reclaims, tombstones } = this.#parts;
    const executions = chosen.flatMap((one) => one.executions);
    const later = chosen.filter((one) => !immediate.has(one)).flatMap((one) => one.executions);
    const outstanding = chosen
      .filter(({ result }) => result.queueMessagesDeleted > 0)
      .flatMap((one) => one.executions);
    const keys = [...new Set(outstanding.map(({ instanceKey }) => instanceKey))];
    const [tokens] = await Promise.all([
      tombstones.bury(tx, outstanding, now),
      outstanding.length === 0
        ? undefined
        : tx.execute(...this.#statements.deleteMessages({ executions: outstanding })),
      reclaims.deleteExecutions(
        tx,
        [...immediate].flatMap((one) => one.executions),
      ),
      reclaims.add(tx, later),
      tx.execute(...this.#statements.delete({ executions })),
      locks.refresh(tx, keys),
    ]);
    effects.addDeletedClaims(tokens);
    await this.#finishClosing(batch, keys);
  }

  /** Ends closing instances whose last items were deleted. */
  async #finishClosing(batch: Batch, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length === 0) return;
    const after = { ...batch, changes: new Changes() };
    await this.#parts.stops.finishClosing(after, instanceKeys);
    await after.changes.write(batch.scope, this.#parts);
  }
}

const pruneRows = rowsOf<IndexedPrune>()({
  instance_id: ['text', ({ prune }) => prune.instanceId],
  // The current execution counts as kept, and has no row in `executions`.
  spared: ['bigint', ({ prune }) => Math.max((prune.keepLast ?? 0) - 1, 0)],
  ended_before: [
    'bigint',
    ({ prune }) => (prune.endedBefore === undefined ? null : Math.ceil(prune.endedBefore)),
  ],
  most: ['bigint', ({ prune }) => prune.max + 1],
});

function statements(schema: string) {
  const executionsOf = (table: string) =>
    `ARRAY(SELECT held.execution_id FROM ${schema}.${table} AS held
        WHERE held.instance_key = instance.instance_key AND held.execution_id < instance.execution_id)`;
  return {
    choose: prepare(
      'perdure_choose_executions',
      { prunes: pruneRows },
      ({ prunes }) => `SELECT place, instance.instance_key AS "instanceKey", incarnation,
          found.ids AS "executionIds", found.lengths AS "historyLengths",
          ${executionsOf('orchestrator_queue')} AS messages, ${executionsOf('worker_queue')} AS items
        FROM ${prunes.withPlace('prune')}
        CROSS JOIN LATERAL (
          SELECT instance_key, incarnation, execution_id FROM ${schema}.instances AS one
          WHERE one.instance_id = prune.instance_id LIMIT 1) AS instance
        CROSS JOIN LATERAL (
          SELECT array_agg(execution_id ORDER BY execution_id) AS ids,
            array_agg(history_length ORDER BY execution_id) AS lengths
          FROM (
            SELECT past.execution_id, past.history_length FROM ${schema}.executions AS past
            WHERE past.instance_key = instance.instance_key
              AND past.execution_id <= (
                SELECT kept.execution_id FROM ${schema}.executions AS kept
                WHERE kept.instance_key = instance.instance_key
                ORDER BY kept.execution_id DESC LIMIT 1 OFFSET prune.spared)
              AND (prune.ended_before IS NULL OR past.ended_at < prune.ended_before)
            ORDER BY past.execution_id LIMIT prune.most) AS chosen) AS found`,
    ),
    // By ctid, which is stable: a past execution is never updated.
    delete: prepare(
      'perdure_delete_executions',
      { executions: executionRows },
      ({ executions }) => `DELETE FROM ${schema}.executions WHERE ctid = ANY (ARRAY(
          SELECT past.ctid FROM ${executions.as('pruned')} CROSS JOIN LATERAL (
            SELECT one.ctid FROM ${schema}.executions AS one
            WHERE one.instance_key = pruned.instance_key AND one.execution_id = pruned.execution_id LIMIT 1) AS past))`,
    ),
    deleteMessages: prepare(
      'perdure_delete_messages_of_pruned',
      { executions: executionRows },
      ({ executions }) => `DELETE FROM ${schema}.orchestrator_queue WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM ${executions.as('pruned')} CROSS JOIN LATERAL (
            SELECT one.message_key FROM ${schema}.orchestrator_queue AS one
            WHERE one.instance_key = pruned.instance_key AND one.execution_id = pruned.execution_id OFFSET 0) AS found))`,
    ),
  };
}

/** Splits prunes into rounds with at most one prune per instance: each depends on the one before. */
function toRounds(prunes: readonly ExecutionPrune[]): readonly (readonly IndexedPrune[])[] {
  const rounds: IndexedPrune[][] = [];
  const counts = new Map<string, number>();
  for (const [index, prune] of prunes.entries()) {
    const round = counts.get(prune.instanceId) ?? 0;
    counts.set(prune.instanceId, round + 1);
    (rounds[round] ??= []).push({ prune, index });
  }
  return rounds;
}

function choose(indexed: IndexedPrune, row: Row | undefined): Chosen {
  const { prune } = indexed;
  const isMatch = prune.incarnation === undefined || prune.incarnation === row?.incarnation;
  if (row === undefined || !isMatch) return { ...indexed, executions: [], result: notFound };
  const ids = row.executionIds ?? [];
  const executions = ids.slice(0, prune.max).map((executionId, place) => ({
    instanceKey: row.instanceKey,
    executionId,
    events: row.historyLengths?.[place] ?? 0,
  }));
  const deleted = new Set(executions.map(({ executionId }) => executionId));
  const outstanding = [...row.messages, ...row.items].filter((id) => deleted.has(id));
  const result = {
    found: true,
    executionsDeleted: executions.length,
    eventsDeleted: executions.reduce((sum, { events }) => sum + events, 0),
    queueMessagesDeleted: outstanding.length,
    left: ids.length > executions.length,
  };
  return { ...indexed, executions, result };
}

function toStep({ prune, result }: Chosen): AuditedStep {
  const { executionsDeleted, eventsDeleted, queueMessagesDeleted, left } = result;
  const counts = { executionsDeleted, eventsDeleted, queueMessagesDeleted };
  // A prune in several steps counts its instance with the last one.
  return { entry: prune.audit, counts: { instances: left ? 0 : 1, ...counts } };
}

const notFound: ExecutionPruneResult = {
  found: false,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
  left: false,
};
