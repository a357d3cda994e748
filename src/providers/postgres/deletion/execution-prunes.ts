import type { ExecutionPrune, ExecutionPruneResult } from '../../contract/management.ts';
import { numbers, texts } from '../driver/arrays.ts';
import type { Audit, AuditedStep } from './audit.ts';
import { Changes, type Batch } from '../batches/changes.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { InstanceStops } from '../stopping/cancellation.ts';
import type { Messages } from '../tables/messages.ts';
import type { ReclaimEntry, Reclaims } from './reclaims.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import type { Tombstones } from '../tables/tombstones.ts';

/** An instance with the executions that a prune may take. */
interface Row {
  /** Of the prune among those asked for, from 1. */
  readonly place: number;
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly executionIds: readonly number[] | null;
  readonly historyLengths: readonly number[] | null;
  /** The executions before the current one that messages and work items belong to. */
  readonly messages: readonly number[];
  readonly items: readonly number[];
}

interface Asked {
  readonly prune: ExecutionPrune;
  readonly index: number;
}

/** What a prune takes, and of whom. */
interface Chosen extends Asked {
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
  readonly stopRows: StopRows;
  readonly stops: InstanceStops;
  readonly tombstones: Tombstones;
  readonly taskRows: TaskRows;
}

// As with deletions: what is above is left for later, and hidden meanwhile.
const maxEventsAtOnce = 4_000;

/**
 * Deletes executions that ended by continue-as-new; the current one has no row here, so it cannot be met. The instances
 * are locked as by a turn, so that what is judged stands still.
 */
export class ExecutionPrunes {
  readonly #parts: Parts;
  readonly #choose: Statement;
  readonly #delete: Statement;
  readonly #deleteMessages: Statement;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { schema } = parts;
    const executionsOf = (table: string) =>
      `ARRAY(SELECT held.execution_id FROM ${schema}.${table} AS held
        WHERE held.instance_key = instance.instance_key AND held.execution_id < instance.execution_id)`;
    this.#choose = {
      name: 'perdure_choose_executions',
      text: `SELECT place, instance.instance_key AS "instanceKey", incarnation,
          found.ids AS "executionIds", found.lengths AS "historyLengths",
          ${executionsOf('orchestrator_queue')} AS messages, ${executionsOf('worker_queue')} AS items
        FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
          AS prune (instance_id, spared, ended_before, most, place)
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
    };
    const pruned = 'unnest($1::bigint[], $2::int[]) AS pruned (instance_key, execution_id)';
    // By their places in the table, which are theirs for ever: an execution that is over is never changed.
    this.#delete = {
      name: 'perdure_delete_executions',
      text: `DELETE FROM ${schema}.executions WHERE ctid = ANY (ARRAY(
          SELECT past.ctid FROM ${pruned} CROSS JOIN LATERAL (
            SELECT one.ctid FROM ${schema}.executions AS one
            WHERE one.instance_key = pruned.instance_key AND one.execution_id = pruned.execution_id LIMIT 1) AS past))`,
    };
    this.#deleteMessages = {
      name: 'perdure_delete_messages_of_pruned',
      text: `DELETE FROM ${schema}.orchestrator_queue WHERE message_key = ANY (ARRAY(
          SELECT found.message_key FROM ${pruned} CROSS JOIN LATERAL (
            SELECT one.message_key FROM ${schema}.orchestrator_queue AS one
            WHERE one.instance_key = pruned.instance_key AND one.execution_id = pruned.execution_id OFFSET 0) AS found))`,
    };
  }

  /** Prunes instances, each by its own conditions. */
  async run(
    batch: Batch,
    prunes: readonly ExecutionPrune[],
  ): Promise<readonly ExecutionPruneResult[]> {
    const { scope, instances } = batch;
    const ids = [...new Set(prunes.map(({ instanceId }) => instanceId))];
    // Their parents too: one that waits for its last item may end here.
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
        // One that was created since the locks were taken is not meant.
        const isLocked = first === undefined || instances.get(first.instanceKey) !== undefined;
        return isLocked ? one : { ...one, executions: [], result: notFound };
      });
      for (const { index, result } of chosen) results[index] = result;
      const taken = chosen.filter(
        ({ prune, executions }) => prune.dryRun !== true && executions.length > 0,
      );
      const atOnce = taken.filter(({ result: { eventsDeleted } }) => {
        if (eventsDeleted > eventsLeft) return false;
        eventsLeft -= eventsDeleted;
        return true;
      });
      await this.#deleteChosen(batch, taken, new Set(atOnce));
      steps.push(...taken.map(toStep));
    }
    await this.#parts.audit.record(scope.tx, steps, scope.now);
    return results;
  }

  /** What prunes would take away. */
  async preview(
    tx: Transaction,
    prunes: readonly ExecutionPrune[],
  ): Promise<readonly ExecutionPruneResult[]> {
    if (prunes.length === 0) return [];
    const all = prunes.map((prune, index) => ({ prune, index }));
    return (await this.#chooseFor(tx, all)).map(({ result }) => result);
  }

  async #chooseFor(tx: Transaction, asked: readonly Asked[]): Promise<readonly Chosen[]> {
    const prunes = asked.map(({ prune }) => prune);
    const rows = await tx.query<Row>(this.#choose, [
      texts(prunes.map(({ instanceId }) => instanceId)),
      // The current execution is one of those to keep, and is not among these rows.
      numbers(prunes.map(({ keepLast }) => Math.max((keepLast ?? 0) - 1, 0))),
      numbers(
        prunes.map(({ endedBefore }) =>
          endedBefore === undefined ? null : Math.ceil(endedBefore),
        ),
      ),
      numbers(prunes.map(({ max }) => max + 1)),
    ]);
    const byPlace = new Map(rows.map((row) => [row.place, row]));
    return asked.map((one, place) => choose(one, byPlace.get(place + 1)));
  }

  async #deleteChosen(
    batch: Batch,
    chosen: readonly Chosen[],
    atOnce: ReadonlySet<Chosen>,
  ): Promise<void> {
    if (chosen.length === 0) return;
    const { tx, now, effects } = batch.scope;
    const { locks, reclaims, tombstones } = this.#parts;
    const executions = chosen.flatMap((one) => one.executions);
    const later = chosen.filter((one) => !atOnce.has(one)).flatMap((one) => one.executions);
    const outstanding = chosen
      .filter(({ result }) => result.queueMessagesDeleted > 0)
      .flatMap((one) => one.executions);
    const keys = [...new Set(outstanding.map(({ instanceKey }) => instanceKey))];
    const [tokens] = await Promise.all([
      tombstones.bury(tx, outstanding, now),
      outstanding.length === 0
        ? undefined
        : tx.execute(this.#deleteMessages, toColumns(outstanding)),
      reclaims.deleteExecutions(
        tx,
        [...atOnce].flatMap((one) => one.executions),
      ),
      reclaims.add(tx, later),
      tx.execute(this.#delete, toColumns(executions)),
      locks.refresh(tx, keys),
    ]);
    effects.addDeletedClaims(tokens);
    await this.#finishClosing(batch, keys);
  }

  /** They may have been waiting for these items alone. */
  async #finishClosing(batch: Batch, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length === 0) return;
    const after = { ...batch, changes: new Changes() };
    await this.#parts.stops.finishClosing(after, instanceKeys);
    await after.changes.write(batch.scope, this.#parts);
  }
}

/** Prunes of different instances in each round: the next one of an instance begins where the one before has ended. */
function toRounds(prunes: readonly ExecutionPrune[]): readonly (readonly Asked[])[] {
  const rounds: Asked[][] = [];
  const met = new Map<string, number>();
  for (const [index, prune] of prunes.entries()) {
    const round = met.get(prune.instanceId) ?? 0;
    met.set(prune.instanceId, round + 1);
    (rounds[round] ??= []).push({ prune, index });
  }
  return rounds;
}

function choose(asked: Asked, row: Row | undefined): Chosen {
  const { prune } = asked;
  const isMeant = prune.incarnation === undefined || prune.incarnation === row?.incarnation;
  if (row === undefined || !isMeant) return { ...asked, executions: [], result: notFound };
  const ids = row.executionIds ?? [];
  const executions = ids.slice(0, prune.max).map((executionId, place) => ({
    instanceKey: row.instanceKey,
    executionId,
    events: row.historyLengths?.[place] ?? 0,
  }));
  const taken = new Set(executions.map(({ executionId }) => executionId));
  const outstanding = [...row.messages, ...row.items].filter((id) => taken.has(id));
  const result = {
    found: true,
    executionsDeleted: executions.length,
    eventsDeleted: executions.reduce((sum, { events }) => sum + events, 0),
    queueMessagesDeleted: outstanding.length,
    left: ids.length > executions.length,
  };
  return { ...asked, executions, result };
}

function toStep({ prune, result }: Chosen): AuditedStep {
  const { executionsDeleted, eventsDeleted, queueMessagesDeleted } = result;
  const taken = { instancesDeleted: 0, executionsDeleted, eventsDeleted, queueMessagesDeleted };
  return { entry: prune.audit, taken };
}

function toColumns(executions: readonly ReclaimEntry[]): readonly [string, string] {
  return [
    numbers(executions.map(({ instanceKey }) => instanceKey)),
    numbers(executions.map(({ executionId }) => executionId)),
  ];
}

const notFound: ExecutionPruneResult = {
  found: false,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
  left: false,
};
