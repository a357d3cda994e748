import type { StoredMessage } from '../../../model/message.ts';
import type { Scope } from '../driver/scope.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { EventRow, History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceRow, InstanceRows, TurnRow } from '../tables/instance-rows.ts';
import type { MessageRow, Messages } from '../tables/messages.ts';
import type { StopRow, StopRows, TerminationRow } from '../tables/stop-rows.ts';
import type { TaskRows, OnFailEnd, RunEnd } from '../tables/task-rows.ts';
import type { LockedInstances } from './locked-instances.ts';

/** What a batch works on: its transaction, the instances that it has locked, and what it is going to write. */
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
}

interface Operation {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
}

/**
 * What a batch is going to write to instances, their histories, messages and locks: collected while it is decided, and
 * written with one statement for each kind of change, however many items the batch has.
 */
export class Changes {
  readonly readMessages: { readonly messageKey: number; readonly instanceKey: number }[] = [];
  readonly withdrawnTimers: Operation[] = [];
  readonly events: EventRow[] = [];
  readonly messages: MessageRow[] = [];
  /** Where turns leave their instances; for those that go on in another way, what is common to all. */
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
  readonly tasks = new TaskChanges();
  readonly #touched = new Map<number, { definitionKey: number; visibleAt: number }>();
  readonly #released = new Map<number, number>();
  readonly #forgotten = new Set<number>();

  /** Sends a message to an instance, which may be claimed from then on. */
  send(
    { effects, now }: Scope,
    { instanceKey, definitionKey }: Pick<InstanceRow, 'instanceKey' | 'definitionKey'>,
    message: StoredMessage,
  ): void {
    this.messages.push({ instanceKey, visibleAt: now, message });
    this.#touched.set(instanceKey, { definitionKey, visibleAt: now });
    effects.due('orchestrations', now);
  }

  /** Says whether a message is on its way to an instance. */
  hasMessageTo(instanceKey: number): boolean {
    return this.#touched.has(instanceKey);
  }

  /** Releases an instance after a turn. */
  release(instanceKey: number, definitionKey: number): void {
    this.#released.set(instanceKey, definitionKey);
  }

  /** Removes all messages of an instance, and its lock: it takes no turn any more. */
  forget(instanceKey: number): void {
    this.#forgotten.add(instanceKey);
  }

  /** Writes everything, in one round trip. */
  async write(scope: Scope, tables: Tables): Promise<void> {
    const { tx, now, effects } = scope;
    const { history, instances, stopRows, locks, messages } = tables;
    const forgotten = [...this.#forgotten];
    const released = Array.from(this.#released, ([instanceKey, definitionKey]) => ({
      instanceKey,
      definitionKey,
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
    // The order matters: all that a batch inserts may be removed again by an end or a next execution in it.
    const writes = [
      messages.delete(tx, this.readMessages),
      history.append(tx, this.events),
      messages.insert(tx, this.messages),
      messages.deleteTimers(tx, this.withdrawnTimers),
      messages.deleteOfExecutions(tx, this.continuations),
      messages.insertStarts(tx, starts),
      messages.deleteAll(tx, forgotten),
      locks.delete(tx, forgotten),
      instances.commitTurns(tx, this.turns, now),
      instances.continueAsNew(tx, this.continuations, now),
      stopRows.close(tx, this.closings, now),
      stopRows.cancelPending(tx, this.pendingCancels, now),
      stopRows.requestCancel(tx, this.cancelRequests, now),
      stopRows.terminate(tx, this.terminations, now),
      locks.touch(tx, touched),
      this.tasks.write(scope, tables),
    ];
    const [releases] = await Promise.all([
      locks.release(tx, released),
      locks.limitCleanup(tx, this.cleanups, now),
      ...writes,
    ]);
    for (const { nextAt } of releases) effects.due('orchestrations', nextAt);
  }
}

/** What a batch is going to write to task runs that it has locked. */
export class TaskChanges {
  readonly #ends: RunEnd[] = [];
  readonly #freed: number[] = [];
  readonly onFailEnds: OnFailEnd[] = [];

  /** Ends a run whose item is gone. */
  end({ effects, now }: Scope, run: InstanceRow, end: Omit<RunEnd, 'instanceKey'>): void {
    const { instanceKey, instanceId, incarnation } = run;
    this.#ends.push({ instanceKey, ...end });
    this.freeKey(run);
    // The item of a handler for it may be there from now on.
    if (end.status === 'failed') effects.due('work', now);
    if (end.status === 'completed') {
      effects.completed(instanceId, { incarnation, output: end.output ?? null });
    } else effects.finished.push(instanceId);
  }

  /** Frees the key of a run whose item is gone. */
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
