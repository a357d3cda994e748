import { calledTask } from '../../../model/task-call.ts';
import { encodeMessage, type StoredMessage } from '../../../model/message.ts';
import { startsAt } from '../../rules/deadlines.ts';
import { queueKey } from '../../rules/pauses.ts';
import {
  detachedReply,
  isIdentifiedChild,
  mayReplaceChild,
  toDetachedStart,
} from '../../rules/starts.ts';
import {
  customStatusVersions,
  isScheduledTooLate,
  mayHaveMessages,
  timerDueAt,
  timerFired,
} from '../../rules/turns.ts';
import type { Lanes } from '../limits/lanes.ts';
import type { ClaimedAtInsert, NewChild, NewWorkItem, Turn } from '../../contract/turn.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import {
  findExistingStart,
  type InstanceRows,
  type TurnTarget,
  type OutcomeUpdates,
} from '../tables/instance-rows.ts';
import type { AwakeableRows } from '../tables/awakeable-rows.ts';
import type { UpdateRows } from '../tables/update-rows.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { ChunkRows } from '../tables/chunk-rows.ts';
import type { InstanceDeadlines } from '../tables/instance-deadlines.ts';
import type { BeginLimits } from '../limits/begin-limits.ts';
import type { InstanceHeaders } from '../tables/instance-headers.ts';
import type { InstanceState } from '../tables/instance-state.ts';
import type { InstanceTags } from '../tables/instance-tags.ts';
import type { ItemCancels } from '../tables/item-cancels.ts';
import type { DeferredWrites } from '../batches/deferred-writes.ts';
import { isLarge, payloadPosition } from '../tables/history.ts';
import type { Messages } from '../tables/messages.ts';
import type { PausedDefinitions, PauseRows } from '../tables/pause-rows.ts';
import type { StreamRows } from '../tables/stream-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { WorkItems } from '../tables/work-items.ts';
import { commitEmitted } from './emitted-chunks.ts';
import { enqueue } from './enqueue.ts';
import {
  createPending,
  replace,
  useExistingStart,
  type ExistingStartParts,
} from './existing-starts.ts';

/** The claims after a turn. */
interface CommittedTurn {
  readonly claimed: readonly ClaimedAtInsert[];
  /** Whether the claim on the instance is kept. */
  readonly kept?: true;
  /** With `kept`: whether the instance or its definition is paused. */
  readonly paused?: true;
}

/** Commits turns, for acks, fast paths and starts. */
export class Turns {
  readonly #definitions: Definitions;
  readonly #deferred: DeferredWrites;
  readonly #instances: InstanceRows;
  readonly #outcomes: OutcomeUpdates;
  readonly #locks: InstanceLocks;
  readonly #messages: Messages;
  readonly #workItems: WorkItems;
  readonly #itemCancels: ItemCancels;
  readonly #pauseRows: PauseRows;
  readonly #pausedDefinitions: PausedDefinitions;
  readonly #stopRows: StopRows;
  readonly #stops: InstanceStops;
  readonly #tags: InstanceTags;
  readonly #beginLimits: BeginLimits;
  readonly #headers: InstanceHeaders;
  readonly #streams: { readonly chunkRows: ChunkRows; readonly streamRows: StreamRows };
  readonly #deadlines: InstanceDeadlines;
  readonly #updates: UpdateRows;
  readonly #awakeables: AwakeableRows;
  readonly #state: InstanceState;
  readonly #lanes: Lanes;
  /** Used only by turns that start instances with an event or `onConflict`. */
  readonly #starts: ExistingStartParts;

  constructor(
    parts: {
      readonly definitions: Definitions;
      readonly deferredWrites: DeferredWrites;
      readonly instances: InstanceRows;
      readonly outcomeUpdates: OutcomeUpdates;
      readonly locks: InstanceLocks;
      readonly messages: Messages;
      readonly workItems: WorkItems;
      readonly itemCancels: ItemCancels;
      readonly pauseRows: PauseRows;
      readonly pausedDefinitions: PausedDefinitions;
      readonly stopRows: StopRows;
      readonly stops: InstanceStops;
      readonly instanceTags: InstanceTags;
      readonly beginLimits: BeginLimits;
      readonly instanceHeaders: InstanceHeaders;
      readonly chunkRows: ChunkRows;
      readonly streamRows: StreamRows;
      readonly deadlines: InstanceDeadlines;
      readonly updateRows: UpdateRows;
      readonly awakeableRows: AwakeableRows;
      readonly instanceState: InstanceState;
      readonly lanes: Lanes;
    } & ExistingStartParts,
  ) {
    this.#definitions = parts.definitions;
    this.#deferred = parts.deferredWrites;
    this.#instances = parts.instances;
    this.#outcomes = parts.outcomeUpdates;
    this.#locks = parts.locks;
    this.#messages = parts.messages;
    this.#workItems = parts.workItems;
    this.#itemCancels = parts.itemCancels;
    this.#pauseRows = parts.pauseRows;
    this.#pausedDefinitions = parts.pausedDefinitions;
    this.#stopRows = parts.stopRows;
    this.#stops = parts.stops;
    this.#tags = parts.instanceTags;
    this.#beginLimits = parts.beginLimits;
    this.#headers = parts.instanceHeaders;
    this.#streams = parts;
    this.#deadlines = parts.deadlines;
    this.#updates = parts.updateRows;
    this.#awakeables = parts.awakeableRows;
    this.#state = parts.instanceState;
    this.#lanes = parts.lanes;
    this.#starts = parts;
  }

  /** Writes a turn and releases the instance. With `keep`, the claim is kept if the instance stays `running`. */
  commit(scope: Scope, target: TurnTarget, turn: Turn, keep = false): CommittedTurn {
    const committed = this.#commit(scope, target, turn, keep);
    this.#startIdentified(scope, target, turn);
    return committed;
  }

  #commit(scope: Scope, target: TurnTarget, turn: Turn, keep: boolean): CommittedTurn {
    const { name, version } = this.#definitions.get(target.definitionKey);
    const definitionKey =
      version === turn.version
        ? target.definitionKey
        : this.#definitions.intern('orchestration', name, turn.version);
    const claimed = this.#commitDecisions(scope, target, turn);
    const { outcome } = turn;
    const { now, effects } = scope;
    switch (outcome.status) {
      case 'running':
        this.#outcomes.run({ target, turn, outcome, definitionKey, now });
        if (keep) {
          const isPaused = this.#isPaused(scope, target, name);
          this.#locks.keep(target.instanceKey, queueKey(definitionKey, target.isPaused));
          return { claimed, kept: true, ...(isPaused && { paused: true }) };
        }
        if (mayHaveMessages(target, turn)) this.#release(scope, target, definitionKey);
        break;
      case 'completed':
      case 'failed':
        this.#outcomes.run({ target, turn, outcome, definitionKey, now });
        this.#end(scope, target, turn, {
          items: outcome.status,
          children: `parent ${outcome.status}`,
        });
        if (outcome.status === 'completed')
          effects.completed(target.instanceId, {
            incarnation: target.incarnation,
            output: outcome.payload,
          });
        else effects.finished.push(target.instanceId);
        break;
      case 'canceled':
        this.#stopRows.close({ target, turn, outcome, definitionKey, now });
        this.#end(scope, target, turn, { items: outcome.reason, children: outcome.reason });
        this.#stops.finishClosing(scope, target.instanceKey);
        break;
      case 'continuedAsNew': {
        const { version, start } = outcome;
        const nextKey = this.#definitions.intern('orchestration', name, version);
        this.#instances.continueAsNew({ target, turn, endedKey: definitionKey, nextKey, now });
        this.#beginNext(scope, target, { turn, nextKey, start });
        break;
      }
    }
    return { claimed };
  }

  #isPaused(scope: Scope, { isPaused }: TurnTarget, name: string): boolean {
    return isPaused === 1 || this.#pausedDefinitions.has(scope, 'orchestration', name);
  }

  /** Writes the first turn of an instance whose row was inserted in the state after this turn. */
  commitFirst(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    if (turn.outcome.status !== 'running') return this.commit(scope, target, turn).claimed;
    const claimed = this.#commitDecisions(scope, target, turn);
    if (mayHaveMessages(target, turn)) this.#release(scope, target, target.definitionKey);
    this.#startIdentified(scope, target, turn);
    return claimed;
  }

  /** Writes the effects of a turn, except the new state of its instance. */
  #commitDecisions(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    const { instanceKey, executionId } = target;
    const { firstEventId, events } = turn;
    this.#deferred.append({ instanceKey, executionId, firstEventId, events });
    const claimed = this.#insertWorkItems(scope, target, turn);
    for (const timer of turn.timers) {
      const { operation } = timer;
      this.#messages.insert(
        instanceKey,
        timerFired(executionId, operation),
        timerDueAt(timer, scope.now),
      );
    }
    if (turn.children.length > 0 && target.hasChildren === 0) {
      this.#instances.setHasChildren(instanceKey);
    }
    for (const child of turn.children) {
      const isLater = child.parentOperation === null && isIdentifiedChild(child);
      if (!isLater) this.#insertChild(scope, target, child);
    }
    for (const { instanceId, message } of turn.messages) this.#send(scope, instanceId, message);
    const { activityCancels: cancels } = turn;
    scope.effects.addCancelRequests(
      this.#itemCancels.cancelOperations({ instanceKey, executionId, cancels, now: scope.now }),
    );
    this.#cancelChildren(scope, target, turn);
    this.#messages.deleteTimers(instanceKey, executionId, turn.timerWithdrawals);
    if (turn.bufferedEvents !== undefined) {
      this.#instances.setBufferedEvents(instanceKey, turn.bufferedEvents);
    }
    if (turn.tags !== undefined) this.#tags.merge(instanceKey, turn.tags);
    if (turn.emitted !== undefined) commitEmitted(this.#streams, scope, target, turn.emitted);
    if (turn.state !== undefined) {
      this.#state.apply(instanceKey, turn.state);
      scope.effects.statusSet.add(target.instanceId);
    }
    if (turn.customStatus !== undefined) {
      this.#instances.setCustomStatus(instanceKey, turn.customStatus, customStatusVersions(turn));
      scope.effects.statusSet.add(target.instanceId);
    }
    if (turn.awakeables !== undefined) this.#awakeables.change(target, turn.awakeables);
    if (turn.updateReplies !== undefined) {
      this.#updates.reply(instanceKey, turn.updateReplies);
      scope.effects.statusSet.add(target.instanceId);
    }
    return claimed;
  }

  #insertWorkItems(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    const claimed: ClaimedAtInsert[] = [];
    for (const item of turn.workItems) {
      if (isScheduledTooLate(target, item)) {
        this.#sendNeverStarted(scope, target, item);
        continue;
      }
      const definitionKey = this.#definitions.intern('activity', item.name, null);
      const { instanceKey, executionId, isPaused } = target;
      const limitKey = this.#limitKeyOf(scope, item, definitionKey);
      const isClaimable =
        isPaused === 0 && !this.#pausedDefinitions.has(scope, 'activity', item.name);
      const lockToken = this.#workItems.insert({
        instanceKey,
        executionId,
        definitionKey: queueKey(definitionKey, isPaused),
        item,
        now: scope.now,
        isClaimable,
        payloadEvent: payloadEventOf(turn, item),
        lane: this.#lanes.enqueue(scope, { limitKey, lane: item.lane, nextAt: scope.now }),
        limitKey: queueKey(limitKey, isPaused),
      });
      scope.effects.due('work', scope.now + (lockToken === undefined ? 0 : (item.claimMs ?? 0)));
      if (lockToken !== undefined) claimed.push({ operation: item.operation, lockToken });
    }
    return claimed;
  }

  /** The definition whose limits count an item. Calls of a limited task are counted with its runs. */
  #limitKeyOf(scope: Scope, { name, lane }: NewWorkItem, definitionKey: number): number {
    const task = calledTask(name);
    if (task === undefined) return definitionKey;
    if (lane !== undefined) return this.#definitions.intern('task', task, null);
    if (!this.#lanes.isAnyLimited(scope)) return definitionKey;
    const taskKey = this.#definitions.find('task', task, null);
    return taskKey !== undefined && this.#lanes.isLimited(scope, taskKey) ? taskKey : definitionKey;
  }

  #insertChild(scope: Scope, parent: TurnTarget, child: NewChild): void {
    const { parentOperation } = child;
    const definitionKey = this.#definitions.intern('orchestration', child.name, child.version);
    const instanceKey = this.#instances.insertPending({
      instance: child,
      definitionKey,
      parent:
        parentOperation === null
          ? null
          : {
              instanceId: parent.instanceId,
              executionId: parent.executionId,
              operation: parentOperation,
            },
      now: scope.now,
    });
    if (instanceKey === undefined && this.#replaces(parent, child)) return;
    // The release below reads the message and makes the parent claimable.
    const reply = instanceKey === undefined ? this.#messageForTakenId(child) : child.ifStarted;
    if (reply !== undefined && reply !== null) {
      this.#messages.insert(parent.instanceKey, reply, scope.now);
    }
    if (instanceKey !== undefined) {
      this.#tags.add(instanceKey, child.tags);
      this.#headers.add(instanceKey, child.headers);
      this.#beginLimits.addLane(instanceKey, child.lane);
      this.#deadlines.add(instanceKey, child, scope.now);
      const visibleAt = startsAt(child, scope.now);
      if (visibleAt > scope.now) this.#instances.setRunAt(instanceKey, visibleAt);
      this.#messages.insert(instanceKey, child.start, visibleAt);
      this.#locks.touch(instanceKey, definitionKey, visibleAt);
      scope.effects.due('orchestrations', visibleAt);
      if (parentOperation === null) return;
      if (parent.isPaused === 1) this.#pauseChild(scope, parent, { instanceKey, definitionKey });
      if (!isScheduledTooLate(parent, child)) return;
      const row = this.#instances.getFull(instanceKey);
      const reason = this.#cancelReasonOf(parent);
      if (row !== undefined) this.#stops.request(scope, row, { reason, actor: null, cleanupMs: 0 });
    }
  }

  /** Pauses a child that a turn under way starts, if its parent was paused with its tree. */
  #pauseChild(
    { now: at }: Scope,
    parent: TurnTarget,
    child: { readonly instanceKey: number; readonly definitionKey: number },
  ): void {
    const pause = this.#pauseRows.get(parent.instanceKey);
    if (pause?.tree === 1) this.#pauseRows.pause({ ...child, isTask: 0 }, { ...pause, at });
  }

  /** Whether a child replaces an earlier one of its execution, after the writes of the turn. */
  #replaces({ instanceId, executionId }: TurnTarget, child: NewChild): boolean {
    if (child.parentOperation === null || child.onConflict === undefined) return false;
    const existing = this.#instances.find(child.instanceId);
    if (existing === undefined) return false;
    const { name } = this.#definitions.get(existing.definitionKey);
    return mayReplaceChild({ ...existing, name }, child, { instanceId, executionId });
  }

  /**
   * Starts instances that may find, message or replace others. After all other writes of the turn: a replaced instance may
   * be an ancestor of this one, or this one itself.
   */
  #startIdentified(scope: Scope, target: TurnTarget, turn: Turn): void {
    for (const child of turn.children) {
      if (!isIdentifiedChild(child)) continue;
      const reply =
        child.parentOperation === null
          ? this.#startDetached(scope, target, child)
          : this.#finishChild(scope, target, { ...child, parentOperation: child.parentOperation });
      if (reply === null || turn.outcome.status !== 'running') continue;
      enqueue(this.#starts, scope, { instanceId: target.instanceId, message: reply });
    }
  }

  #startDetached(scope: Scope, target: TurnTarget, child: NewChild): StoredMessage | null {
    const start = toDetachedStart(child);
    const result =
      createPending(this.#starts, scope, start) ?? useExistingStart(this.#starts, scope, start);
    return detachedReply(target, child, result);
  }

  /** Raises the event of a new child, or replaces an earlier one. */
  #finishChild(
    scope: Scope,
    target: TurnTarget,
    child: NewChild & { readonly parentOperation: number },
  ): StoredMessage | null {
    const { instanceId, event, cancellation, parentOperation: operation } = child;
    const isNew = this.#instances.find(instanceId)?.incarnation === child.incarnation;
    if (isNew) {
      if (event !== undefined) enqueue(this.#starts, scope, { instanceId, ...event });
      return null;
    }
    if (!this.#replaces(target, child)) return null;
    const call = { operation, cancellation };
    return replace(this.#starts, scope, toDetachedStart(child), call) ? null : child.ifTaken;
  }

  #messageForTakenId(child: NewChild): StoredMessage | null {
    if (child.ifStarted === undefined) return child.ifTaken;
    const parts = { instances: this.#instances, definitions: this.#definitions };
    const { kind } = findExistingStart(parts, 'orchestration', child);
    return kind === 'exists' ? child.ifStarted : child.ifTaken;
  }

  #sendNeverStarted(scope: Scope, target: TurnTarget, { operation }: NewWorkItem): void {
    const { instanceKey, executionId } = target;
    const reason = this.#cancelReasonOf(target);
    const addressed = { executionId, operation };
    this.#messages.insert(
      instanceKey,
      encodeMessage({ kind: 'activityCanceled', ...addressed, reason, trigger: 'cancel' }),
      scope.now,
    );
  }

  #cancelReasonOf({ instanceKey }: TurnTarget): string {
    return this.#instances.getFull(instanceKey)?.cancelReason ?? 'canceled';
  }

  #cancelChildren(scope: Scope, target: TurnTarget, { childCancels, cleanupMs }: Turn): void {
    for (const { instanceId, reason } of childCancels) {
      const child = this.#instances.find(instanceId);
      // A taken id can belong to an instance that is not a child of this one.
      const isChild =
        child?.parentInstanceId === target.instanceId &&
        child.parentExecutionId === target.executionId;
      if (isChild) this.#stops.request(scope, child, { reason, actor: null, cleanupMs });
    }
  }

  #send(scope: Scope, instanceId: string, message: StoredMessage): void {
    const receiver = this.#instances.findReceiver(instanceId);
    if (receiver === undefined || receiver.isClosed === 1) return;
    const { instanceKey, definitionKey } = receiver;
    this.#messages.insert(instanceKey, message, scope.now);
    if (this.#locks.touch(instanceKey, definitionKey, scope.now))
      scope.effects.messages.add(instanceKey);
    scope.effects.due('orchestrations', scope.now);
  }

  /** Deletes what belongs to the ended execution, and enqueues the start of the next. */
  #beginNext(
    scope: Scope,
    target: TurnTarget,
    next: { readonly turn: Turn; readonly nextKey: number; readonly start: StoredMessage },
  ): void {
    const { instanceKey, executionId } = target;
    this.#messages.deleteOfExecutions(instanceKey, executionId);
    this.#endOutstanding(scope, target, next.turn, {
      items: 'continued as new',
      children: 'parent continued as new',
    });
    // Before external events that arrived meanwhile, so that a claim limited by `maxMessages` includes the start.
    const firstKept = this.#messages.firstVisibleAt(instanceKey) ?? Infinity;
    this.#messages.insert(instanceKey, next.start, Math.min(scope.now, firstKept - 1));
    this.#release(scope, target, next.nextKey);
  }

  #end(scope: Scope, target: TurnTarget, turn: Turn, why: Reasons): void {
    if (target.isPaused === 1) this.#pauseRows.lift(target.instanceKey);
    if (mayHaveMessages(target, turn)) this.#deferred.clear(target.instanceKey);
    this.#endOutstanding(scope, target, turn, why);
  }

  #endOutstanding(scope: Scope, target: TurnTarget, turn: Turn, why: Reasons): void {
    this.#stops.cancelItems(scope, target, why.items);
    if (target.hasChildren === 0 && turn.children.length === 0) return;
    const { cleanupMs } = turn;
    this.#stops.requestChildren(scope, target, { reason: why.children, actor: null, cleanupMs });
  }

  #release(scope: Scope, target: TurnTarget, definitionKey: number): void {
    const { instanceKey, isPaused } = target;
    scope.effects.due('orchestrations', this.#locks.release(instanceKey, definitionKey, isPaused));
  }
}

/**
 * The event that has the large input of an activity, so that its item does not store it again. An item that may outlive its
 * execution has its own copy.
 */
function payloadEventOf({ firstEventId, events }: Turn, item: NewWorkItem): number | undefined {
  if (!isLarge(item.payload) || item.cancellation === 'abandon') return undefined;
  const position = payloadPosition(events, item.payload);
  return position < 0 ? undefined : firstEventId + position;
}

/** The cancel reasons of what an ended execution leaves behind. */
interface Reasons {
  readonly items: string;
  readonly children: string;
}
