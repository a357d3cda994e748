import { ProviderError } from '../../model/errors.ts';
import type { StoredMessage } from '../../model/message.ts';
import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type { ClaimedAtInsert, NewChild, Turn } from '../turn.ts';
import type { Definitions } from './definitions.ts';
import type { Scope } from './group-commit.ts';
import type { History } from './history.ts';
import type { InstanceLocks } from './instance-locks.ts';
import type { InstanceRows } from './instance-rows.ts';
import type { Messages } from './messages.ts';
import type { FlaggedItem, WorkItems } from './work-items.ts';

/** The instance that a turn is committed to, as its row stands before. */
export interface TurnTarget {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly executionId: number;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly historyLength: number;
  /** Whether it has a row in `instance_locks`; without one it has no messages either. */
  readonly hasLockRow: boolean;
}

/** Commits what a turn decided; shared by every way in which a turn reaches the store. */
export class Turns {
  readonly #definitions: Definitions;
  readonly #history: History;
  readonly #instances: InstanceRows;
  readonly #locks: InstanceLocks;
  readonly #messages: Messages;
  readonly #workItems: WorkItems;

  constructor(parts: {
    readonly definitions: Definitions;
    readonly history: History;
    readonly instances: InstanceRows;
    readonly locks: InstanceLocks;
    readonly messages: Messages;
    readonly workItems: WorkItems;
  }) {
    this.#definitions = parts.definitions;
    this.#history = parts.history;
    this.#instances = parts.instances;
    this.#locks = parts.locks;
    this.#messages = parts.messages;
    this.#workItems = parts.workItems;
  }

  /** Why a turn does not fit its instance; asked before anything is written. */
  refusal(target: TurnTarget, turn: Turn, operation: string): Error | undefined {
    if (isTerminal(target.status)) {
      return refused(operation, `the instance is already ${target.status}`);
    }
    if (turn.events.length > 0 && turn.firstEventId !== target.historyLength + 1) {
      return refused(
        operation,
        `events from ${turn.firstEventId} do not continue a history of ${target.historyLength}`,
      );
    }
    return undefined;
  }

  /** Writes the turn and releases the instance. */
  commit(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    const { name } = this.#definitions.get(target.definitionKey);
    const definitionKey = this.#definitions.intern('orchestration', name, turn.version);
    const claimed = this.#commitDecisions(scope, target, turn);
    if (turn.outcome.status === 'continuedAsNew') {
      const { version, start } = turn.outcome;
      const nextKey = this.#definitions.intern('orchestration', name, version);
      const { now } = scope;
      this.#instances.continueAsNew({ target, turn, endedKey: definitionKey, nextKey, now });
      this.#beginNext(scope, target, { nextKey, start });
      return claimed;
    }
    this.#instances.update({ target, turn, outcome: turn.outcome, definitionKey, now: scope.now });
    if (turn.outcome.status !== 'running') this.#end(scope, target, turn);
    else if (mayHaveMessages(target, turn)) this.#release(scope, target, definitionKey);
    return claimed;
  }

  /** Writes the first turn of an instance that was inserted as running, in the state after this turn. */
  commitFirst(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    if (turn.outcome.status !== 'running') return this.commit(scope, target, turn);
    const claimed = this.#commitDecisions(scope, target, turn);
    if (mayHaveMessages(target, turn)) this.#release(scope, target, target.definitionKey);
    return claimed;
  }

  /** Writes what the turn decided, except where it leaves its instance. */
  #commitDecisions(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    const { instanceKey, executionId } = target;
    this.#history.append({ ...target, firstEventId: turn.firstEventId, events: turn.events });
    const claimed = this.#insertWorkItems(scope, target, turn);
    for (const { operation, fireAt } of turn.timers) {
      this.#messages.insert(instanceKey, timerFired(executionId, operation), Math.ceil(fireAt));
    }
    for (const child of turn.children) this.#insertChild(scope, target, child);
    for (const { instanceId, message } of turn.messages) this.#send(scope, instanceId, message);
    for (const { operation, reason } of turn.activityCancels) {
      const { now } = scope;
      const flag = { instanceKey, executionId, operation, reason, trigger: 'cancel', now } as const;
      announceFlagged(scope, this.#workItems.cancelOne(flag));
    }
    this.#messages.deleteTimers(instanceKey, executionId, turn.timerWithdrawals);
    if (turn.customStatus !== undefined) {
      this.#instances.setCustomStatus(instanceKey, turn.customStatus);
    }
    return claimed;
  }

  #insertWorkItems(scope: Scope, target: TurnTarget, turn: Turn): readonly ClaimedAtInsert[] {
    const claimed: ClaimedAtInsert[] = [];
    for (const item of turn.workItems) {
      const definitionKey = this.#definitions.intern('activity', item.name, null);
      const { instanceKey, executionId } = target;
      const lockToken = this.#workItems.insert({
        instanceKey,
        executionId,
        definitionKey,
        item,
        now: scope.now,
      });
      scope.effects.due('work', scope.now + (item.claimMs ?? 0));
      if (lockToken !== undefined) claimed.push({ operation: item.operation, lockToken });
    }
    return claimed;
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
    if (instanceKey !== undefined) {
      this.#messages.insert(instanceKey, child.start, scope.now);
      this.#locks.touch(instanceKey, definitionKey, scope.now);
      scope.effects.due('orchestrations', scope.now);
    } else if (child.ifTaken !== null) {
      // The release that follows sees it and makes the parent visible again.
      this.#messages.insert(parent.instanceKey, child.ifTaken, scope.now);
    }
  }

  #send(scope: Scope, instanceId: string, message: StoredMessage): void {
    const receiver = this.#instances.findReceiver(instanceId);
    if (receiver === undefined || isTerminal(receiver.status)) return;
    this.#messages.insert(receiver.instanceKey, message, scope.now);
    this.#locks.touch(receiver.instanceKey, receiver.definitionKey, scope.now);
    scope.effects.due('orchestrations', scope.now);
  }

  /** Clears away what belonged to the execution that has ended, and enqueues the start of the next. */
  #beginNext(
    scope: Scope,
    target: TurnTarget,
    next: { readonly nextKey: number; readonly start: StoredMessage },
  ): void {
    const { instanceKey, executionId } = target;
    this.#messages.deleteOfExecutions(instanceKey, executionId);
    this.#cancelItems(scope, target, 'continued as new');
    // Ahead of the external events that arrived meanwhile: a claim that is cut short still has the start.
    const firstKept = this.#messages.firstVisibleAt(instanceKey) ?? Infinity;
    this.#messages.insert(instanceKey, next.start, Math.min(scope.now, firstKept - 1));
    this.#release(scope, target, next.nextKey);
  }

  #end(scope: Scope, target: TurnTarget, turn: Turn): void {
    if (mayHaveMessages(target, turn)) {
      this.#messages.deleteAll(target.instanceKey);
      this.#locks.delete(target.instanceKey);
    }
    this.#cancelItems(scope, target, turn.outcome.status);
    scope.effects.finished.push(target.instanceId);
  }

  #cancelItems(scope: Scope, { instanceKey }: TurnTarget, reason: string): void {
    const flag = { instanceKey, reason, trigger: 'cancel', now: scope.now } as const;
    announceFlagged(scope, this.#workItems.cancelAll(flag));
  }

  #release(scope: Scope, { instanceKey }: TurnTarget, definitionKey: number): void {
    scope.effects.due('orchestrations', this.#locks.release(instanceKey, definitionKey));
  }
}

/** Their holders learn of it, and anyone may end them once their locks have expired. */
function announceFlagged({ effects }: Scope, items: readonly FlaggedItem[]): void {
  for (const { lockToken, lockedUntil } of items) {
    effects.cancelRequested.push(lockToken);
    effects.due('work', lockedUntil);
  }
}

/** A turn brings its own instance messages by timers, by children whose id is taken, and by sending to itself. */
function mayHaveMessages({ hasLockRow }: TurnTarget, turn: Turn): boolean {
  return (
    hasLockRow || turn.timers.length > 0 || turn.children.length > 0 || turn.messages.length > 0
  );
}

function timerFired(executionId: number, operation: number): StoredMessage {
  return { kind: 'timerFired', executionId, operation, data: '{}', payload: null };
}

function refused(operation: string, problem: string): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: ${problem}, so nothing was changed. Read the instance again and take its turn from there.`,
    retryable: false,
  });
}
