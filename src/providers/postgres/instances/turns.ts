import { calledTask } from '../../../model/task-call.ts';
import { encodeMessage, type StoredMessage } from '../../../model/message.ts';
import { queueKey } from '../../rules/pauses.ts';
import { existingStart, isIdentifiedChild } from '../../rules/starts.ts';
import { isScheduledTooLate, timerDueAt, timerFired } from '../../rules/turns.ts';
import type { ClaimedAtInsert, NewChild, NewWorkItem, Turn } from '../../contract/turn.ts';
import { Changes, type Batch } from '../batches/batch.ts';
import type { Scope } from '../driver/scope.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { DefinitionKeys, Definitions, WantedDefinition } from '../tables/definitions.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import {
  isOver,
  type InstanceRow,
  type InstanceRows,
  newInstanceRow,
} from '../tables/instance-rows.ts';
import type { InstanceStops, StopRequest } from '../stopping/instance-stops.ts';
import type { CancelItems, ItemCancels } from '../tables/item-cancels.ts';
import type { Messages } from '../tables/messages.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { StreamRows } from '../tables/stream-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import { applyOutcome, type Ending } from './turn-outcomes.ts';
import { commitEmitted } from './emitted-chunks.ts';
import type { ChunkRows } from '../tables/chunk-rows.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { InstanceHeaders } from '../tables/instance-headers.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { AwakeableRows } from '../tables/awakeable-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import type { LimitRows } from '../limits/limit-rows.ts';
import type { ItemRow, WorkItems } from '../tables/work-items.ts';

/** A turn to commit, with the state of its instance before the turn. */
export interface TurnCommit {
  readonly target: InstanceRow;
  /** Whether the instance has a row in `instance_locks`. Without one it has no messages. */
  readonly hasLockRow: boolean;
  readonly turn: Turn;
  /** Keep the claim on the instance. `reset`: also reset its claim count. */
  readonly keep?: 'keep' | 'reset' | undefined;
}

interface Parts {
  readonly definitions: Definitions;
  readonly dedupeKeys: DedupeKeys;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly workItems: WorkItems;
  readonly itemCancels: ItemCancels;
  readonly stopRows: StopRows;
  readonly stops: InstanceStops;
  readonly pauseRows: PauseRows;
  readonly taskRows: TaskRows;
  readonly instanceTags: InstanceTags;
  readonly instanceHeaders: InstanceHeaders;
  readonly chunkRows: ChunkRows;
  readonly streamRows: StreamRows;
  readonly deadlines: InstanceDeadlines;
  readonly updateRows: UpdateRows;
  readonly awakeableRows: AwakeableRows;
  readonly instanceState: InstanceState;
  readonly beginLimits: BeginLimits;
  readonly limitRows: LimitRows;
}

/** Starts an instance that may find, message or replace another one, and replies to the starting instance. */
export type StartIdentified = (
  scope: Scope,
  start: { readonly target: InstanceRow; readonly turn: Turn; readonly child: NewChild },
) => Promise<void>;

/** Commits turns in the general way, for acks of turns and for starts with a first turn. */
export class Turns {
  readonly #parts: Parts;
  readonly #startIdentified: StartIdentified;

  constructor(parts: Parts, startIdentified: StartIdentified) {
    this.#parts = parts;
    this.#startIdentified = startIdentified;
  }

  /** Commits turns of different instances and releases them. Returns the claimed work items of each turn. */
  async commit(
    batch: Batch,
    commits: readonly TurnCommit[],
  ): Promise<readonly (readonly ClaimedAtInsert[])[]> {
    if (commits.length === 0) return [];
    const keys = await this.#internDefinitions(batch, commits);
    for (const commit of commits) recordEvents(batch, commit);
    for (const { target, turn } of commits)
      if (turn.customStatus !== undefined || turn.state !== undefined)
        batch.scope.effects.statusSet.add(target.instanceId);
    const claimed = await this.#insertWork(batch, commits, keys);
    const late = await this.#insertChildren(batch, commits, keys);
    for (const { turn } of commits) send(batch, turn);
    await this.#cancelActivities(batch, commits);
    const requests = [...late, ...commits.flatMap((commit) => childCancels(batch, commit))];
    const endings = commits.flatMap((commit) => applyOutcome(batch, commit, keys) ?? []);
    await this.#end(batch, endings, requests);
    await this.#parts.instanceTags.merge(
      batch.scope.tx,
      commits.flatMap(({ target: { instanceKey }, turn: { tags } }) =>
        tags === undefined ? [] : [{ instanceKey, tags }],
      ),
    );
    const emitting = commits.flatMap(({ target: { instanceKey, instanceId }, turn: { emitted } }) =>
      emitted === undefined ? [] : [{ instanceKey, instanceId, emitted }],
    );
    await commitEmitted(this.#parts, batch.scope, emitting);
    await this.#writeUpdates(batch, commits);
    await this.#parts.instanceState.apply(
      batch.scope.tx,
      commits.flatMap(({ target: { instanceKey }, turn: { state: changes } }) =>
        changes === undefined ? [] : [{ instanceKey, changes }],
      ),
    );
    await this.#write(batch);
    // After all other writes: a replaced instance may be an ancestor of the starting one, or that one itself.
    for (const { target, turn } of commits) {
      for (const child of turn.children) {
        if (isIdentifiedChild(child))
          await this.#startIdentified(batch.scope, { target, turn, child });
      }
    }
    return claimed;
  }

  /** Writes the replies to updates, and the awakeables. */
  async #writeUpdates({ scope }: Batch, commits: readonly TurnCommit[]): Promise<void> {
    const { tx, effects } = scope;
    const { updateRows, awakeableRows } = this.#parts;
    await updateRows.reply(
      tx,
      commits.flatMap(({ target: { instanceKey, instanceId }, turn: { updateReplies = [] } }) => {
        if (updateReplies.length > 0) effects.statusSet.add(instanceId);
        return updateReplies.map(({ key, ...reply }) => ({
          instanceKey,
          updateKey: key,
          ...reply,
        }));
      }),
    );
    await awakeableRows.change(
      tx,
      commits.flatMap(({ target: { instanceKey, executionId }, turn: { awakeables } }) =>
        awakeables === undefined ? [] : [{ instanceKey, executionId, awakeables }],
      ),
    );
  }

  async #write(batch: Batch): Promise<void> {
    const { scope, changes } = batch;
    await changes.write(scope, this.#parts);
    if (changes.closings.length === 0) return;
    const after = { ...batch, changes: new Changes() };
    await this.#parts.stops.finishClosing(
      after,
      changes.closings.map(({ instanceKey }) => instanceKey),
    );
    await after.changes.write(scope, this.#parts);
  }

  async #internDefinitions({ scope }: Batch, commits: readonly TurnCommit[]): Promise<NamedKeys> {
    const { definitions } = this.#parts;
    await definitions.load(
      scope.tx,
      commits.map(({ target }) => target.definitionKey),
    );
    const nameOf = ({ definitionKey }: InstanceRow) => definitions.get(definitionKey).name;
    const keyOf = await definitions.intern(
      scope,
      commits.flatMap(({ target, turn }) => wantedDefinitions(nameOf(target), turn)),
    );
    return { nameOf, keyOf };
  }

  async #insertWork(
    { scope, changes }: Batch,
    commits: readonly TurnCommit[],
    { keyOf }: NamedKeys,
  ): Promise<readonly (readonly ClaimedAtInsert[])[]> {
    const rows: ItemRow[] = [];
    const pausedNames = commits.some(
      ({ target, turn }) => target.hasPausedDefinitions && turn.workItems.length > 0,
    )
      ? await this.#parts.pauseRows.selectPausedNames(scope.tx, 'activity')
      : undefined;
    for (const { target, turn } of commits) {
      const { instanceKey, executionId, isPaused } = target;
      for (const item of turn.workItems) {
        if (isScheduledTooLate(target, item)) {
          const message = neverStarted(target, item);
          changes.messages.push({ instanceKey, visibleAt: scope.now, message });
          continue;
        }
        const definitionKey = queueKey(keyOf('activity', item.name, null), isPaused);
        const isClaimable = !isPaused && pausedNames?.has(item.name) !== true;
        const inserted = isClaimable ? item : withoutClaim(item);
        rows.push({ instanceKey, executionId, definitionKey, item: inserted });
        scope.effects.due('work', scope.now + (inserted.claimMs ?? 0));
      }
    }
    await this.#parts.limitRows.ensure(
      scope,
      rows.flatMap(({ item }) => {
        if (item.lane === undefined) return [];
        const { kind, name, version } = limitedBy(item.name);
        return [keyOf(kind, name, version)];
      }),
    );
    const inserted = await this.#parts.workItems.insert(scope.tx, rows, scope.now);
    // Items of limited definitions are not claimed.
    if (inserted.length < rows.filter(({ item }) => item.claimMs !== undefined).length)
      scope.effects.due('work', scope.now);
    const byInstance = Map.groupBy(inserted, ({ instanceKey }) => instanceKey);
    return commits.map(({ target }) =>
      (byInstance.get(target.instanceKey) ?? []).map(({ operation, lockToken }) => ({
        operation,
        lockToken,
      })),
    );
  }

  /** Inserts children and timers. Returns stop requests for children that must not start. */
  async #insertChildren(
    batch: Batch,
    commits: readonly TurnCommit[],
    { keyOf }: NamedKeys,
  ): Promise<readonly StopRequest[]> {
    const { scope, changes } = batch;
    const children = commits.flatMap(({ target, turn }) =>
      turn.children
        .filter((child) => child.parentOperation !== null || !isIdentifiedChild(child))
        .map((child) => ({ parent: target, child })),
    );
    const rows = children.map(({ parent, child }) => toRow(parent, child, keyOf));
    const inserted = new Map(await this.#parts.instances.insertPending(scope.tx, rows, scope.now));
    const isRepeated = await this.#repeatedStarts(batch, children, inserted);
    const tagged = new Map(
      children
        .toReversed()
        .map(({ child }) => [inserted.get(child.instanceId)?.instanceKey, child.tags]),
    );
    await this.#parts.instanceTags.add(
      scope.tx,
      [...tagged].flatMap(([instanceKey, tags]) =>
        instanceKey === undefined ? [] : [{ instanceKey, tags }],
      ),
    );
    await this.#addSettings(batch, children, inserted);
    for (const commit of commits) setTimers(batch, commit);
    const treePauses = new Map(
      (
        await this.#parts.pauseRows.selectTreePauses(
          scope.tx,
          children.flatMap(({ parent }) => (parent.isPaused ? [parent.instanceKey] : [])),
        )
      ).map((pause) => [pause.instanceKey, pause]),
    );
    const late: StopRequest[] = [];
    for (const [index, { parent, child }] of children.entries()) {
      const created = inserted.get(child.instanceId);
      const instanceKey = created?.instanceKey;
      const row = rows[index];
      // The first child with an id takes it.
      inserted.delete(child.instanceId);
      const exists = instanceKey !== undefined || isRepeated(child);
      // An earlier child may be replaced: the reply follows.
      const isOpen = !exists && child.onConflict !== undefined;
      const message = exists ? child.ifStarted : isOpen ? undefined : child.ifTaken;
      if (message !== undefined && message !== null) {
        // No touch is needed: the release of the parent recomputes its `next_at`.
        changes.messages.push({ instanceKey: parent.instanceKey, visibleAt: scope.now, message });
      }
      if (created === undefined || instanceKey === undefined || row === undefined) continue;
      const pause = child.parentOperation === null ? undefined : treePauses.get(parent.instanceKey);
      const isPaused = pause !== undefined;
      batch.instances.set({ ...newInstanceRow({ ...row, ...created }), isPaused });
      if (isPaused) changes.pauses.push({ ...pause, instanceKey });
      changes.start(scope, { instanceKey, definitionKey: row.definitionKey }, child);
      if (child.parentOperation !== null && isScheduledTooLate(parent, child)) {
        late.push({ instanceKey, reason: reasonOf(parent), actor: null, cleanupMs: 0 });
      }
    }
    return late;
  }

  async #addSettings(
    { scope }: Batch,
    children: readonly { readonly child: NewChild }[],
    inserted: ReadonlyMap<string, Pick<InstanceRow, 'instanceKey'>>,
  ): Promise<void> {
    const isPlain = ({ child }: { readonly child: NewChild }) =>
      child.headers === undefined && child.timeoutMs === undefined && child.lane === undefined;
    if (children.every(isPlain)) return;
    // Reversed: the first child with an id takes it.
    const byKey = new Map(
      children
        .toReversed()
        .map(({ child }) => [inserted.get(child.instanceId)?.instanceKey, child]),
    );
    const rows = [...byKey].flatMap(([instanceKey, child]) =>
      instanceKey === undefined
        ? []
        : [
            {
              instanceKey,
              headers: child.headers,
              lane: child.lane,
              times: child,
            },
          ],
    );
    await this.#parts.instanceHeaders.add(scope.tx, rows);
    await this.#parts.beginLimits.addLanes(scope.tx, rows);
    await this.#parts.deadlines.add(scope.tx, rows, scope.now);
  }

  /** Returns a function that tests whether a detached start repeats the start that took its id. */
  async #repeatedStarts(
    { scope }: Batch,
    children: readonly { readonly child: NewChild }[],
    inserted: ReadonlyMap<string, unknown>,
  ): Promise<(child: NewChild) => boolean> {
    const seen = new Set<string>();
    const ids: string[] = [];
    for (const { child } of children) {
      const { instanceId, ifStarted } = child;
      const isTaken = seen.has(instanceId) || !inserted.has(instanceId);
      seen.add(instanceId);
      if (isTaken && ifStarted !== undefined) ids.push(instanceId);
    }
    const { instances, definitions } = this.#parts;
    const starts = await instances.selectStarts(scope.tx, ids);
    await definitions.load(
      scope.tx,
      starts.map(({ definitionKey }) => definitionKey),
    );
    const byId = new Map(starts.map((start) => [start.instanceId, start]));
    return (child) => {
      const start = child.ifStarted === undefined ? undefined : byId.get(child.instanceId);
      if (start === undefined) return false;
      const wanted = { ...child, kind: 'orchestration' as const };
      const existing = { ...start, ...definitions.get(start.definitionKey) };
      return existingStart(existing, wanted).kind === 'exists';
    };
  }

  async #cancelActivities(
    { scope, changes }: Batch,
    commits: readonly TurnCommit[],
  ): Promise<void> {
    const cancels = commits
      .filter(({ turn }) => turn.activityCancels.length > 0)
      .map(({ target: { instanceKey, executionId }, turn }) => ({
        instanceKey,
        executionId,
        cancels: turn.activityCancels,
      }));
    const { messages } = await this.#parts.itemCancels.cancelOperations(scope, cancels);
    for (const message of messages) changes.messages.push(message);
  }

  /** Cancels the items and children of ended executions, and the children that turns cancel. */
  async #end(
    batch: Batch,
    endings: readonly Ending[],
    requests: readonly StopRequest[],
  ): Promise<void> {
    const { itemCancels, stops } = this.#parts;
    await itemCancels.cancelAll(
      batch.scope,
      endings.map(({ target: { instanceKey }, items }): CancelItems => ({
        instanceKey,
        cancelScope: 'end',
        reason: items,
        notifiedExecutionId: null,
      })),
    );
    const parents = endings.filter(({ mayHaveChildren }) => mayHaveChildren);
    const byParent = new Map(parents.map((ending) => [ending.target.instanceId, ending]));
    const children = await stops.lockChildren(
      batch,
      parents.map(({ target }) => target),
    );
    const ofParents = children.flatMap(({ instanceKey, parentInstanceId }) => {
      const ending = byParent.get(parentInstanceId ?? '');
      if (ending === undefined) return [];
      return [{ instanceKey, reason: ending.children, actor: null, cleanupMs: ending.cleanupMs }];
    });
    await stops.requestCancel(batch, [...requests, ...ofParents]);
  }
}

/** The names of instances, and the keys of definitions that turns use. */
export interface NamedKeys {
  readonly nameOf: (target: InstanceRow) => string;
  readonly keyOf: DefinitionKeys;
}

/** Returns the ids of other instances that turns write to. */
export function addressees(turns: readonly Turn[]): readonly string[] {
  const ids = new Set<string>();
  for (const { messages, childCancels, children } of turns) {
    for (const child of children) if (isIdentifiedChild(child)) ids.add(child.instanceId);
    for (const { instanceId } of messages) ids.add(instanceId);
    for (const { instanceId } of childCancels) ids.add(instanceId);
  }
  return [...ids];
}

/** Returns all definitions that a turn uses. `name` is that of its instance. */
export function wantedDefinitions(name: string, turn: Turn): readonly WantedDefinition[] {
  const { version, workItems, children, outcome } = turn;
  const wanted: WantedDefinition[] = [{ kind: 'orchestration', name, version }];
  for (const item of workItems) {
    wanted.push({ kind: 'activity', name: item.name, version: null });
    if (item.lane !== undefined) wanted.push(limitedBy(item.name));
  }
  for (const child of children) {
    wanted.push({ kind: 'orchestration', name: child.name, version: child.version });
  }
  if (outcome.status === 'continuedAsNew') {
    wanted.push({ kind: 'orchestration', name, version: outcome.version });
  }
  return wanted;
}

/** The definition whose limits count calls of an activity. Calls of a task are counted with its runs. */
function limitedBy(activity: string): WantedDefinition & { readonly version: null } {
  const task = calledTask(activity);
  return task === undefined
    ? { kind: 'activity', name: activity, version: null }
    : { kind: 'task', name: task, version: null };
}

function recordEvents({ changes }: Batch, { target, turn }: TurnCommit): void {
  const { instanceKey, executionId } = target;
  let eventId = turn.firstEventId;
  for (const event of turn.events) {
    changes.events.push({ instanceKey, executionId, eventId, ...event });
    eventId += 1;
  }
}

function setTimers({ scope, changes }: Batch, { target, turn }: TurnCommit): void {
  const { instanceKey, executionId } = target;
  const withdrawn = new Set(turn.timerWithdrawals);
  for (const timer of turn.timers) {
    if (withdrawn.has(timer.operation)) continue;
    const message = timerFired(executionId, timer.operation);
    changes.messages.push({ instanceKey, visibleAt: timerDueAt(timer, scope.now), message });
  }
  for (const operation of withdrawn) {
    changes.withdrawnTimers.push({ instanceKey, executionId, operation });
  }
}

function send({ scope, instances, changes }: Batch, { messages }: Turn): void {
  for (const { instanceId, message } of messages) {
    const receiver = instances.find(instanceId);
    if (receiver !== undefined && !isOver(receiver)) changes.send(scope, receiver, message);
  }
}

function childCancels(
  { instances }: Batch,
  { target, turn: { childCancels, cleanupMs } }: TurnCommit,
): readonly StopRequest[] {
  return childCancels.flatMap(({ instanceId, reason }) => {
    const child = instances.find(instanceId);
    // If the id was taken, the instance is not a child of this one.
    const isChild =
      child?.parentInstanceId === target.instanceId &&
      child.parentExecutionId === target.executionId;
    return isChild ? [{ instanceKey: child.instanceKey, reason, actor: null, cleanupMs }] : [];
  });
}

function reasonOf({ cancelReason }: InstanceRow): string {
  return cancelReason ?? 'canceled';
}

function withoutClaim({
  claimMs: _claimMs,
  claimedBy: _claimedBy,
  ...item
}: NewWorkItem): NewWorkItem {
  return item;
}

function neverStarted(target: InstanceRow, { operation }: NewWorkItem): StoredMessage {
  const { executionId } = target;
  const reason = reasonOf(target);
  return encodeMessage({
    kind: 'activityCanceled',
    executionId,
    operation,
    reason,
    trigger: 'cancel',
  });
}

function toRow(parent: InstanceRow, child: NewChild, keyOf: DefinitionKeys) {
  const { instanceId, incarnation, inputHash, cancellation, parentOperation } = child;
  return {
    instanceId,
    incarnation,
    inputHash,
    cancellation,
    definitionKey: keyOf('orchestration', child.name, child.version),
    parent:
      parentOperation === null
        ? null
        : {
            instanceId: parent.instanceId,
            executionId: parent.executionId,
            operation: parentOperation,
          },
  };
}
