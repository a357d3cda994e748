import type { StoredMessage } from '../../../model/message.ts';
import { startsAt, type StartTimes } from '../../rules/deadlines.ts';
import { strings, keys, one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { EventRow, History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import {
  instanceColumns,
  type InstanceRow,
  type InstanceRows,
  type TurnRow,
} from '../tables/instance-rows.ts';
import type { MessageRow, Messages } from '../tables/messages.ts';
import type { NewPause, PauseRows } from '../tables/pause-rows.ts';
import type { StopRow, StopRows, TerminationRow } from '../tables/stop-rows.ts';
import type { TaskRows, OnFailEnd, RunEnd } from '../tables/task-rows.ts';

/** The instances to lock: by key, by id, or by work item, and optionally their parents. */
export interface InstancesToLock {
  readonly keys?: readonly number[];
  readonly ids?: readonly string[];
  readonly itemKeys?: readonly number[];
  /** `ending`: parents of instances that a stop or their last item may end. */
  readonly parents?: 'all' | 'ending';
}

/** Locks rows of `instances`. */
export class InstanceMutexes {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  lock(tx: Transaction, which: InstancesToLock): Promise<readonly InstanceRow[]> {
    const { keys: instanceKeys = [], ids: instanceIds = [], itemKeys = [], parents } = which;
    const isByKey = instanceIds.length === 0 && itemKeys.length === 0 && parents === undefined;
    return tx.query<InstanceRow>(
      ...(isByKey
        ? this.#sql.lockByKey({ instanceKeys })
        : this.#sql.lock({ instanceKeys, instanceIds, itemKeys, parents: parents ?? 'none' })),
    );
  }
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  return {
    lockByKey: prepare(
      'perdure_lock_instances_by_key',
      { instanceKeys: keys() },
      ({
        instanceKeys,
      }) => `SELECT ${instanceColumns(schema)} FROM ${table} WHERE instance_key = ANY
          (${instanceKeys})
        ORDER BY instance_key FOR NO KEY UPDATE`,
    ),
    lock: prepare(
      'perdure_lock_instances',
      {
        instanceKeys: keys(),
        instanceIds: strings(),
        itemKeys: keys(),
        parents: one<string>('text'),
      },
      ({ instanceKeys, instanceIds, itemKeys, parents }) => `WITH named AS MATERIALIZED (
          SELECT ${instanceKeys}
            || ARRAY(SELECT instance_key FROM ${table} WHERE instance_id = ANY (${instanceIds}))
            || ARRAY(SELECT instance_key FROM ${schema}.worker_queue WHERE item_key = ANY (${itemKeys})) AS keys
        ), parents AS MATERIALIZED (
          SELECT ARRAY(SELECT parent_instance_id FROM ${table}
            WHERE instance_key = ANY ((SELECT keys FROM named)::bigint[])
              AND (${parents} = 'all'
                OR ${parents} = 'ending' AND (status = 'pending' OR closing_reason IS NOT NULL))) AS ids
        )
        SELECT ${instanceColumns(schema)} FROM ${table}
        WHERE instance_key = ANY ((SELECT keys FROM named)
          || ARRAY(SELECT instance_key FROM ${table} WHERE instance_id = ANY ((SELECT ids FROM parents)::text[])))
        ORDER BY instance_key FOR NO KEY UPDATE`,
    ),
  };
}

/**
 * The instances that a transaction has locked, including its planned writes.
 *
 * The row of an instance is its mutex. A transaction holds it to change the instance's messages, lock or items, or to
 * decide whether it has ended. Claims and renewals change rows of the queues only and do not take it.
 *
 * To avoid deadlocks, a transaction locks all instances that it knows in one statement, in key order. Children have
 * greater keys than their parents, so locking the children of an ending instance later rarely breaks that order.
 */
export class LockedInstances {
  readonly #mutexes: InstanceMutexes;
  readonly #tx: Transaction;
  readonly #byKey = new Map<number, InstanceRow>();
  readonly #keysById = new Map<string, number>();
  readonly #missingIds = new Set<string>();

  constructor(mutexes: InstanceMutexes, tx: Transaction) {
    this.#mutexes = mutexes;
    this.#tx = tx;
  }

  /** Locks instances. Keeps the state of those that are already locked. */
  async lock(which: InstancesToLock): Promise<void> {
    for (const row of await this.#mutexes.lock(this.#tx, which)) {
      if (!this.#byKey.has(row.instanceKey)) this.set(row);
    }
    for (const id of which.ids ?? []) if (!this.#keysById.has(id)) this.#missingIds.add(id);
  }

  /** Locks the instances with these ids that are not locked yet. */
  async lockMore(ids: readonly string[]): Promise<void> {
    const more = ids.filter((id) => !this.#keysById.has(id) && !this.#missingIds.has(id));
    if (more.length > 0) await this.lock({ ids: [...new Set(more)] });
  }

  get(instanceKey: number): InstanceRow | undefined {
    return this.#byKey.get(instanceKey);
  }

  find(instanceId: string): InstanceRow | undefined {
    const key = this.#keysById.get(instanceId);
    return key === undefined ? undefined : this.#byKey.get(key);
  }

  /** Stores the state of an instance including planned writes. */
  set(row: InstanceRow): void {
    this.#byKey.set(row.instanceKey, row);
    this.#keysById.set(row.instanceId, row.instanceKey);
  }

  update(instanceKey: number, changes: Partial<InstanceRow>): void {
    const row = this.#byKey.get(instanceKey);
    if (row === undefined)
      throw new Error('Cannot update an instance that this transaction has not locked.');
    this.#byKey.set(instanceKey, { ...row, ...changes });
  }
}

/** A batch: its transaction, its locked instances and its planned writes. */
export interface Batch {
  readonly scope: Scope;
  readonly instances: LockedInstances;
  readonly changes: Changes;
}

interface Tables {
  readonly taskRows: TaskRows;
  readonly dedupeKeys: DedupeKeys;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly stopRows: StopRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly pauseRows: PauseRows;
}

interface Operation {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
}

/**
 * The planned writes of a batch to instances, histories, messages and locks. `write` sends one statement per kind of
 * change, independent of the number of items.
 */
export class Changes {
  readonly readMessages: { readonly messageKey: number; readonly instanceKey: number }[] = [];
  readonly withdrawnTimers: Operation[] = [];
  readonly events: EventRow[] = [];
  readonly messages: MessageRow[] = [];
  /** The state after each turn. Continuations and closings add to it. */
  readonly turns: TurnRow[] = [];
  readonly continuations: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly nextKey: number;
    readonly start: StoredMessage;
  }[] = [];
  readonly closings: {
    readonly instanceKey: number;
    readonly reason: string;
    readonly cleanupSkipped: boolean;
  }[] = [];
  readonly pendingCancels: StopRow[] = [];
  readonly cancelRequests: StopRow[] = [];
  readonly terminations: TerminationRow[] = [];
  readonly cleanups: {
    readonly instanceKey: number;
    readonly definitionKey: number;
    readonly cleanupAt: number;
  }[] = [];
  /** Children of instances that were paused with their trees. */
  readonly pauses: NewPause[] = [];
  /** Paused instances that end or are asked to stop. */
  readonly liftedPauses: number[] = [];
  /** New instances that may not start yet. */
  readonly delayed: { readonly instanceKey: number; readonly runAt: number }[] = [];
  readonly tasks = new TaskChanges();
  readonly #touched = new Map<number, { definitionKey: number; visibleAt: number }>();
  readonly #released = new Map<number, { definitionKey: number; isPaused: boolean }>();
  /** Claims that are kept after a turn. */
  readonly kept: { readonly instanceKey: number; readonly definitionKey: number }[] = [];
  readonly #forgotten = new Set<number>();

  /** Sends a message to an instance and makes it claimable. */
  send(
    { effects, now }: Scope,
    { instanceKey, definitionKey }: Pick<InstanceRow, 'instanceKey' | 'definitionKey'>,
    message: StoredMessage,
    visibleAt = now,
  ): void {
    this.messages.push({ instanceKey, visibleAt, message });
    const earliest = Math.min(this.#touched.get(instanceKey)?.visibleAt ?? visibleAt, visibleAt);
    this.#touched.set(instanceKey, { definitionKey, visibleAt: earliest });
    effects.due('orchestrations', visibleAt, definitionKey);
  }

  /** Sends the start message of a new instance, visible from when it may start. */
  start(
    scope: Scope,
    instance: Pick<InstanceRow, 'instanceKey' | 'definitionKey'>,
    { start, ...times }: StartTimes & { readonly start: StoredMessage },
  ): void {
    const runAt = startsAt(times, scope.now);
    if (runAt > scope.now) this.delayed.push({ instanceKey: instance.instanceKey, runAt });
    this.send(scope, instance, start, runAt);
  }

  /** Whether the batch sends a message to an instance. */
  hasMessageTo(instanceKey: number): boolean {
    return this.#touched.has(instanceKey);
  }

  /** Releases an instance after a turn. */
  release({ instanceKey, isPaused }: InstanceRow, definitionKey: number): void {
    this.#released.set(instanceKey, { definitionKey, isPaused });
  }

  /** Deletes all messages and the lock of an instance that takes no more turns. */
  forget(instanceKey: number): void {
    this.#forgotten.add(instanceKey);
  }

  /** Writes everything, in one round trip. */
  async write(scope: Scope, tables: Tables): Promise<void> {
    const { tx, now, effects } = scope;
    const { history, instances, stopRows, locks, messages } = tables;
    const forgotten = [...this.#forgotten];
    // A later item of the batch may have asked an instance to stop after its turn or its start, which ends its pause.
    const lifted = new Set(this.liftedPauses);
    const pauses = this.pauses.filter(({ instanceKey }) => !lifted.has(instanceKey));
    const released = Array.from(this.#released, ([instanceKey, { definitionKey, isPaused }]) => ({
      instanceKey,
      definitionKey,
      isPaused: isPaused && !lifted.has(instanceKey),
    })).filter(({ instanceKey }) => !this.#forgotten.has(instanceKey));
    const touched = Array.from(this.#touched, ([instanceKey, touch]) => ({
      instanceKey,
      ...touch,
    })).filter(({ instanceKey: key }) => !this.#forgotten.has(key) && !this.#released.has(key));
    const starts = this.continuations.map(({ instanceKey, start }) => ({
      instanceKey,
      visibleAt: now,
      message: start,
    }));
    // Each call sends its statements immediately, so the statements run in the order of the calls. The order matters. The
    // end or the next execution of an instance may delete rows that the same batch inserts. A release computes the due
    // time from the messages that are left.
    const writes = [
      tables.pauseRows.lift(tx, this.liftedPauses),
      messages.delete(tx, this.readMessages),
      history.append(tx, this.events),
      messages.insert(tx, this.messages),
      messages.deleteTimers(tx, this.withdrawnTimers),
      messages.deleteOfExecutions(tx, this.continuations),
      messages.insertStarts(tx, starts),
      messages.deleteAll(tx, forgotten),
      locks.delete(tx, forgotten),
      instances.setRunAt(tx, this.delayed),
      instances.commitTurns(tx, this.turns, now),
      instances.continueAsNew(tx, this.continuations, now),
      stopRows.close(tx, this.closings, now),
      stopRows.cancelPending(tx, this.pendingCancels, now),
      stopRows.requestCancel(tx, this.cancelRequests, now),
      stopRows.terminate(tx, this.terminations, now),
      locks.keep(tx, this.kept),
    ];
    const touching = locks.touch(tx, touched);
    const later = [this.tasks.write(scope, tables), tables.pauseRows.pause(tx, pauses, now)];
    const releasing = locks.release(tx, released);
    const limitingCleanup = locks.limitCleanup(tx, this.cleanups, now);
    const [releases, claimed] = await Promise.all([
      releasing,
      touching,
      limitingCleanup,
      ...writes,
      ...later,
    ]);
    for (const instanceKey of claimed) effects.messages.add(instanceKey);
    for (const { instanceKey } of this.cleanups) effects.messages.add(instanceKey);
    for (const { nextAt } of releases) effects.due('orchestrations', nextAt);
  }
}

/** The planned writes of a batch to task runs that it has locked. */
class TaskChanges {
  readonly #ends: RunEnd[] = [];
  readonly #freed: number[] = [];
  readonly onFailEnds: OnFailEnd[] = [];

  /** Ends a run whose work item is deleted. */
  end({ effects, now }: Scope, run: InstanceRow, end: Omit<RunEnd, 'instanceKey'>): void {
    const { instanceKey, instanceId, incarnation } = run;
    this.#ends.push({ instanceKey, ...end });
    this.freeKey(run);
    // The failure may enqueue an on-fail handler.
    if (end.status === 'failed') effects.due('work', now);
    if (end.status === 'completed') {
      effects.completed(instanceId, { incarnation, output: end.output ?? null });
    } else effects.finished.push(instanceId);
  }

  /** Frees the dedupe key of a run whose work item is deleted. */
  freeKey({ instanceKey, hasKey }: InstanceRow): void {
    if (hasKey) this.#freed.push(instanceKey);
  }

  /** Writes everything, in one round trip. */
  async write(
    { tx, now }: Scope,
    tables: { readonly taskRows: TaskRows; readonly dedupeKeys: DedupeKeys },
  ): Promise<void> {
    const { taskRows, dedupeKeys } = tables;
    await Promise.all([
      taskRows.end(tx, this.#ends, now),
      taskRows.endOnFail(tx, this.onFailEnds),
      dedupeKeys.free(tx, this.#freed),
    ]);
  }
}
