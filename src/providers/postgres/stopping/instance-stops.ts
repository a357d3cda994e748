import { toCancelDetails, type CancelDetails } from '../../../model/cancel.ts';
import { encodeEvent, type HistoryEvent } from '../../../model/event.ts';
import { platformFailure } from '../../../model/failures/failure.ts';
import { encodeMessage, type Message } from '../../../model/message.ts';
import { planCancel, planTerminate } from '../../rules/stops.ts';
import type { Batch } from '../batches/batch.ts';
import type { History } from '../tables/history.ts';
import { isOver, parentOf, type InstanceRow } from '../tables/instance-rows.ts';
import type { ItemCancels } from '../tables/item-cancels.ts';
import type { StopRows } from '../tables/stop-rows.ts';

/** A request to cancel or terminate a locked instance. */
export interface StopRequest extends CancelDetails {
  readonly instanceKey: number;
  /** Clean-up limit of the canceled code. */
  readonly cleanupMs: number;
}

interface TerminateRequest extends StopRequest {
  readonly tree: boolean;
}

/** A terminate request, and whether it changed an instance so far. */
interface Termination {
  readonly request: TerminateRequest;
  hasChanged: boolean;
}

/** An instance of the tree that a request terminates. */
interface TreeMember {
  readonly row: InstanceRow;
  readonly termination: Termination;
}

/** Cancels and terminates locked instances, for clients, turns and ending parents. */
export class InstanceStops {
  readonly #history: History;
  readonly #rows: StopRows;
  readonly #itemCancels: ItemCancels;

  constructor(parts: {
    readonly history: History;
    readonly stopRows: StopRows;
    readonly itemCancels: ItemCancels;
  }) {
    this.#history = parts.history;
    this.#rows = parts.stopRows;
    this.#itemCancels = parts.itemCancels;
  }

  /** Cancels locked instances. Returns for each request whether it changed anything. */
  async requestCancel(batch: Batch, requests: readonly StopRequest[]): Promise<readonly boolean[]> {
    const { instances } = batch;
    const rows = requests.flatMap(({ instanceKey }) => instances.get(instanceKey) ?? []);
    await this.#lockParents(
      batch,
      rows.filter((row) => planCancel(row) === 'end'),
    );
    const running: StopRequest[] = [];
    const runs: StopRequest[] = [];
    const changed = requests.map((request) => {
      const { instanceKey, reason, trigger = null } = request;
      const row = instances.get(instanceKey);
      const plan = row === undefined ? 'none' : planCancel(row);
      if (row === undefined || plan === 'none') return false;
      liftPause(batch, row);
      if (plan === 'end') cancelPending(batch, row, request);
      else if (plan === 'cancelRun') {
        runs.push(request);
        instances.update(instanceKey, { status: 'canceling' });
      } else {
        running.push(request);
        instances.update(instanceKey, {
          status: 'canceling',
          cancelReason: reason,
          cancelTrigger: trigger,
        });
      }
      return true;
    });
    await this.#cancelRunning(batch, running);
    await this.#cancelRuns(batch, runs);
    return changed;
  }

  /**
   * Terminates locked instances, and cancels or terminates their children.
   * Returns for each request whether it changed anything.
   */
  async terminate(
    batch: Batch,
    requests: readonly TerminateRequest[],
  ): Promise<readonly boolean[]> {
    // If one may be in the tree of another, the order decides the outcome.
    const mayBeRelated =
      requests.length > 1 &&
      requests.some(
        ({ instanceKey }) => batch.instances.get(instanceKey)?.parentInstanceId != null,
      );
    if (!mayBeRelated) return this.#terminateTrees(batch, requests);
    const changed: boolean[] = [];
    for (const request of requests) {
      changed.push(...(await this.#terminateTrees(batch, [request])));
    }
    return changed;
  }

  /** Terminates all trees together, one level at a time. */
  async #terminateTrees(
    batch: Batch,
    requests: readonly TerminateRequest[],
  ): Promise<readonly boolean[]> {
    const terminations = requests.map((request) => ({ request, hasChanged: false }));
    const visited = new Set<number>();
    let level = terminations.flatMap((termination) => {
      const { instanceKey } = termination.request;
      const row = batch.instances.get(instanceKey);
      if (row === undefined || planTerminate(row) === 'none' || visited.has(instanceKey)) return [];
      visited.add(instanceKey);
      return [{ row, termination }];
    });
    while (level.length > 0) {
      await this.#terminateLevel(
        batch,
        level.filter(({ row }) => planTerminate(row) !== 'none'),
      );
      const children = (await this.#lockChildrenOf(batch, level)).filter(
        ({ row }) => !visited.has(row.instanceKey),
      );
      const isInTree = ({ termination }: TreeMember) => termination.request.tree;
      await this.#cancelMembers(
        batch,
        children.filter((child) => !isInTree(child)),
      );
      level = children.filter(isInTree);
      for (const { row } of level) visited.add(row.instanceKey);
    }
    return terminations.map(({ hasChanged }) => hasChanged);
  }

  async #terminateLevel(batch: Batch, level: readonly TreeMember[]): Promise<void> {
    const { scope, changes } = batch;
    const rows = level.map(({ row }) => row);
    await this.#lockParents(batch, rows);
    const lastTimes = await this.#history.lastTimes(scope.tx, rows);
    const { counts, kept, startedAt } = await this.#itemCancels.cancelAll(
      scope,
      level.map(({ row: { instanceKey }, termination: { request } }) =>
        itemCancel('terminate', { ...request, instanceKey }),
      ),
    );
    const closing: number[] = [];
    for (const { row, termination } of level) {
      const { instanceKey } = row;
      liftPause(batch, row);
      if (planTerminate(row) === 'end') {
        // Event times never decrease within an execution, even if the clock is set back.
        const at = Math.max(scope.now, lastTimes.get(instanceKey) ?? 0);
        const runStartedAt = row.isTask ? (startedAt.get(instanceKey) ?? null) : null;
        terminateOne(batch, row, { ...termination.request, runStartedAt, at });
        termination.hasChanged = true;
      } else {
        // Its end is already recorded. Only items past their point of no return can still be stopped.
        closing.push(instanceKey);
        if ((counts.get(instanceKey) ?? 0) > 0) termination.hasChanged = true;
      }
      if (!kept.has(instanceKey)) changes.tasks.freeKey(row);
    }
    await this.finishClosing(batch, closing);
  }

  /** Locks the children of a level. A tree includes children of ended instances: they may still clean up. */
  async #lockChildrenOf(
    batch: Batch,
    level: readonly TreeMember[],
  ): Promise<readonly TreeMember[]> {
    const byId = new Map(level.map(({ row, termination }) => [row.instanceId, termination]));
    const parents = Array.from(byId.keys(), (instanceId) => ({ instanceId, executionId: 1 }));
    const isTree = level.some(({ termination }) => termination.request.tree);
    const children = await this.lockChildren(batch, parents, isTree ? 'all' : 'live');
    return children.flatMap((row) => {
      const termination = byId.get(row.parentInstanceId ?? '');
      return termination === undefined ? [] : [{ row, termination }];
    });
  }

  async #cancelMembers(batch: Batch, members: readonly TreeMember[]): Promise<void> {
    const changed = await this.requestCancel(
      batch,
      members.map(({ row: { instanceKey }, termination: { request } }) => ({
        ...request,
        instanceKey,
      })),
    );
    for (const [index, { termination }] of members.entries()) {
      if (changed[index] === true) termination.hasChanged = true;
    }
  }

  /** Locks children that the given executions or later ones started, except those with cancellation `abandon`. */
  async lockChildren(
    { scope, instances }: Batch,
    parents: readonly Pick<InstanceRow, 'instanceId' | 'executionId'>[],
    which: 'live' | 'all' = 'live',
  ): Promise<readonly InstanceRow[]> {
    const children = await this.#rows.lockChildren(scope.tx, parents, which);
    return children.map((child) => {
      const known = instances.get(child.instanceKey);
      if (known === undefined) instances.set(child);
      return known ?? child;
    });
  }

  /**
   * Makes closing instances `canceled` once they have no work items except `abandon` ones. Locks their parents.
   * An item past its point of no return delays the end even between attempts, when no worker holds it.
   */
  async finishClosing(batch: Batch, instanceKeys: readonly number[]): Promise<void> {
    const { scope, instances } = batch;
    const finished = await this.#rows.finishClosing(scope.tx, instanceKeys, scope.now);
    if (finished.length === 0) return;
    const rows = finished.flatMap((instanceKey) => instances.get(instanceKey) ?? []);
    await this.#lockParents(batch, rows);
    for (const row of rows) {
      if (row.closingReason === null) continue;
      const trigger = row.cancelTrigger !== null && { trigger: row.cancelTrigger };
      notifyParent(batch, row, { kind: 'childCanceled', reason: row.closingReason, ...trigger });
      scope.effects.finished.push(row.instanceId);
      instances.update(row.instanceKey, { status: 'canceled', closingReason: null });
    }
  }

  /** Cancels task runs: immediately, unless a worker holds them or they are past their point of no return. */
  async #cancelRuns(
    { scope, instances, changes }: Batch,
    requests: readonly StopRequest[],
  ): Promise<void> {
    const { kept, startedAt } = await this.#itemCancels.cancelAll(
      scope,
      requests.map((request) => itemCancel('request', request)),
    );
    for (const request of requests) {
      const { instanceKey } = request;
      const run = instances.get(instanceKey);
      if (run === undefined) continue;
      const details = toCancelDetails(request);
      if (kept.has(instanceKey)) changes.cancelRequests.push({ instanceKey, ...details });
      else {
        const start = { startedAt: startedAt.get(instanceKey) ?? null };
        changes.tasks.end(scope, run, { status: 'canceled', ...start, ...details });
        instances.update(instanceKey, { status: 'canceled' });
      }
    }
  }

  /** Sends the cancel to running orchestrations, cancels their items, and starts their clean-up limits. */
  async #cancelRunning(
    { scope, instances, changes }: Batch,
    requests: readonly StopRequest[],
  ): Promise<void> {
    if (requests.length === 0) return;
    const { now, effects } = scope;
    // Before the messages of its canceled items, so that the code gets the cancel first.
    for (const request of requests) {
      const { instanceKey } = request;
      const details = toCancelDetails(request);
      changes.cancelRequests.push({ instanceKey, ...details });
      const message = encodeMessage({ kind: 'cancel', ...details });
      changes.messages.push({ instanceKey, visibleAt: now, message });
    }
    const { messages } = await this.#itemCancels.cancelAll(
      scope,
      requests.map((request) =>
        itemCancel('request', request, instances.get(request.instanceKey)?.executionId),
      ),
    );
    changes.messages.push(...messages);
    for (const { instanceKey, reason, cleanupMs } of requests) {
      const cleanupAt = now + Math.ceil(cleanupMs);
      const message = encodeMessage({ kind: 'cleanupExpired', reason });
      changes.messages.push({ instanceKey, visibleAt: cleanupAt, message });
      const definitionKey = instances.get(instanceKey)?.definitionKey ?? 0;
      changes.cleanups.push({ instanceKey, definitionKey, cleanupAt });
    }
    effects.due('orchestrations', now);
  }

  async #lockParents({ instances }: Batch, rows: readonly InstanceRow[]): Promise<void> {
    await instances.lockMore(rows.flatMap(({ parentInstanceId }) => parentInstanceId ?? []));
  }
}

function itemCancel(
  cancelScope: 'request' | 'terminate',
  { instanceKey, reason, trigger }: StopRequest,
  notifiedExecutionId: number | null = null,
) {
  return { instanceKey, reason, trigger, cancelScope, notifiedExecutionId };
}

/** A request to stop ends a pause: the code may clean up, and its work may end. */
function liftPause({ instances, changes }: Batch, { instanceKey, isPaused }: InstanceRow): void {
  if (!isPaused) return;
  changes.liftedPauses.push(instanceKey);
  instances.update(instanceKey, { isPaused: false });
}

function cancelPending(batch: Batch, row: InstanceRow, request: StopRequest): void {
  const { scope, instances, changes } = batch;
  const { instanceKey, instanceId } = row;
  const details = toCancelDetails(request);
  const { reason, trigger } = details;
  changes.pendingCancels.push({ instanceKey, ...details });
  record(batch, row, { kind: 'executionCanceled', at: scope.now, reason });
  changes.forget(instanceKey);
  const childTrigger = trigger !== undefined && { trigger };
  notifyParent(batch, row, { kind: 'childCanceled', reason, ...childTrigger });
  scope.effects.finished.push(instanceId);
  instances.update(instanceKey, { status: 'canceled', historyLength: 1, cancelReason: reason });
}

function terminateOne(
  batch: Batch,
  row: InstanceRow,
  how: TerminateRequest & { readonly at: number; readonly runStartedAt: number | null },
): void {
  const { scope, instances, changes } = batch;
  const { instanceKey, instanceId } = row;
  const { reason, actor, runStartedAt, at } = how;
  changes.terminations.push({ instanceKey, reason, actor, runStartedAt });
  scope.effects.finished.push(instanceId);
  if (row.isTask) {
    instances.update(instanceKey, { status: 'terminated' });
    return;
  }
  record(batch, row, { kind: 'executionTerminated', at, reason, actor });
  changes.forget(instanceKey);
  const message = `Instance ${JSON.stringify(instanceId)} was terminated: ${reason}`;
  const failure = platformFailure('INSTANCE_TERMINATED', message);
  notifyParent(batch, row, { kind: 'childFailed', failure });
  instances.update(instanceKey, { status: 'terminated', historyLength: row.historyLength + 1 });
}

function record({ changes }: Batch, row: InstanceRow, event: HistoryEvent): void {
  const { instanceKey, executionId, historyLength } = row;
  const eventId = historyLength + 1;
  changes.events.push({ instanceKey, executionId, eventId, ...encodeEvent(event) });
}

type ChildMessage =
  | Omit<Extract<Message, { kind: 'childFailed' }>, 'executionId' | 'operation'>
  | Omit<Extract<Message, { kind: 'childCanceled' }>, 'executionId' | 'operation'>;

/** Sends a message to the parent, unless that has ended or continued as new. */
function notifyParent(
  { scope, instances, changes }: Batch,
  row: InstanceRow,
  message: ChildMessage,
): void {
  const parent = parentOf(row);
  const receiver = parent === null ? undefined : instances.find(parent.instanceId);
  if (parent === null || receiver === undefined || isOver(receiver)) return;
  if (receiver.executionId !== parent.executionId) return;
  const { executionId, operation } = parent;
  changes.send(scope, receiver, encodeMessage({ ...message, executionId, operation }));
}
