import type { CancellationType } from '../../../src/model/cancel.ts';
import { decodeMessage, type Message } from '../../../src/model/message.ts';
import { isTerminal, type InstanceStatus } from '../../../src/model/status.ts';
import type { CancelInstance, StopResult } from '../../../src/providers/contract/cancellation.ts';
import type { InstanceRecord, NewInstance } from '../../../src/providers/contract/instances.ts';
import type {
  DeleteInstanceResult,
  ExecutionPrune,
  ExecutionPruneResult,
  TreeDeletion,
} from '../../../src/providers/contract/management.ts';
import type { PauseResult } from '../../../src/providers/contract/pausing.ts';
import type { InstanceRetry, RetryResult } from '../../../src/providers/contract/reruns.ts';
import type {
  ClaimedAtInsert,
  NewChild,
  NewWorkItem,
  Turn,
} from '../../../src/providers/contract/turn.ts';
import { isDeepStrictEqual } from 'node:util';

// The default clean-up limit of children of a terminated instance.
const terminateCleanUpMs = 300_000;

/** An activity that is scheduled and not yet settled. */
export interface ModelItem {
  readonly instance: ModelInstance;
  readonly execution: number;
  readonly operation: number;
  readonly cancellation: CancellationType;
  readonly shielded: boolean;
  /** Canceled, and its holder is notified. */
  flagged: boolean;
  /** Past its point of no return. */
  passed: boolean;
  /** An attempt has failed, and another follows. */
  failedBefore: boolean;
  token: string | null;
  leaseUntil: number;
  /** Its lease was taken over, and no worker has claimed it since. */
  takenOver: boolean;
}

/** A message that a commit delivered to an instance. */
export interface Delivered {
  readonly kind:
    | 'completed'
    | 'failed'
    | 'canceled'
    | 'event'
    | 'cancel'
    | 'childEnded'
    | 'childCanceled';
  readonly execution: number | null;
  readonly operation: number | null;
  /** When it became visible, by the store's clock. */
  readonly at: number;
}

/** A turn, and how many of the delivered messages it may have received. */
interface CommittedTurn {
  readonly execution: number;
  readonly events: number;
  readonly seen: number;
}

/** What a start or a retry began, and how it ended. */
export interface Life {
  /** Its first execution. */
  readonly from: number;
  /** Events that its first execution has copied from the execution before. */
  readonly kept: number;
  readonly delivered: readonly Delivered[];
  readonly status: InstanceStatus;
  readonly cancel: ModelInstance['cancel'];
  readonly terminated: string | null;
}

/** The expected state of an instance. */
export interface ModelInstance {
  readonly id: string;
  /** Distinguishes instances with the same id. */
  readonly incarnation: string;
  readonly parent: {
    readonly id: string;
    readonly execution: number;
    readonly operation: number;
  } | null;
  readonly cancellation: CancellationType;
  status: InstanceStatus;
  execution: number;
  /** Ended as canceled by its code. Becomes `canceled` when none of its work runs. */
  closing: boolean;
  /** The first cancel. If the store caused it, the recorded reason is accepted. */
  cancel: {
    reason: string | null;
    readonly actor: string | null;
    readonly at: number;
    readonly cleanUpBy: number;
  } | null;
  terminated: string | null;
  lock: { readonly token: string; until: number } | null;
  leaked: number;
  /** None of its turns and work is claimed. */
  paused: boolean;
  /** The lives that ended before a retry. */
  readonly past: Life[];
  /** The first execution of the current life, and the events that it copied. */
  from: number;
  kept: number;
  delivered: Delivered[];
  /** The keys of its events. */
  readonly eventKeys: Set<string>;
  /** How many of these the last claim returned. */
  claimed: number;
  readonly turns: CommittedTurn[];
  /** Events that the store wrote without running code, and those that a retry copied. */
  readonly eventsOfStore: { readonly execution: number; readonly events: number }[];
  /** The executions up to this one are pruned. */
  prunedUpTo: number;
  readonly items: Map<string, ModelItem>;
}

/** A claim whose item or instance was deleted. */
interface DeletedClaim {
  readonly instanceId: string;
  /** When its lease would have ended. */
  readonly until: number;
}

/** The expected result of a deletion. Deleted queue entries are not modelled. */
export type ExpectedDeletion =
  | { readonly kind: 'replaced' | 'running' | 'orphan' }
  | {
      readonly kind: 'deleted';
      readonly counts: Omit<DeleteInstanceResult, 'queueMessagesDeleted'>;
    };

/**
 * The expected state of a store after each commit: instances, their items and holders, and the order of delivered
 * messages. It does not model SQL, fast paths, retries, hints or code; `ScriptRun` models the code.
 */
export class ReferenceModel {
  readonly instances = new Map<string, ModelInstance>();
  /** The items by lock token. */
  readonly tokens = new Map<string, ModelItem>();
  /** The instances by lock token. */
  readonly claims = new Map<string, string>();
  /** The ids of deleted instances that were not reused. */
  readonly gone = new Set<string>();
  /** The lock tokens of deleted items and instances. */
  readonly deletedClaims = new Map<string, DeletedClaim>();
  /** Ids and keys of the requests that stopped an instance. */
  readonly #stopKeys = new Set<string>();
  readonly #now: () => number;
  readonly #violate: (what: string) => void;

  constructor(params: { readonly now: () => number; readonly violate: (what: string) => void }) {
    this.#now = params.now;
    this.#violate = params.violate;
  }

  create(
    { instanceId: id, incarnation, firstTurn }: NewInstance,
    claimed: readonly ClaimedAtInsert[],
  ): void {
    this.expect(!this.instances.has(id), `${id} was created twice`);
    const instance = this.#add({ id, incarnation, parent: null, cancellation: 'abandon' });
    if (firstTurn !== undefined) this.commitTurn(instance, firstTurn, claimed);
  }

  /** Cancels an instance. Returns the expected result. */
  cancel(
    request: CancelInstance | (Omit<CancelInstance, 'reason'> & { readonly reason: null }),
  ): StopResult {
    const instance = this.instances.get(request.instanceId);
    if (instance === undefined) return { found: false, changed: false, status: null };
    const changed = instance.status === 'pending' || instance.status === 'running';
    if (changed) {
      const { reason, actor } = request;
      const at = this.#now();
      const isPending = instance.status === 'pending';
      instance.cancel = { reason, actor, at, cleanUpBy: at + request.cleanupMs };
      instance.paused = false;
      if (isPending) {
        instance.eventsOfStore.push({ execution: instance.execution, events: 1 });
        this.#end(instance, 'canceled');
      } else {
        instance.status = 'canceling';
        this.deliver(instance, { kind: 'cancel', execution: null, operation: null });
        this.#stopItems(instance, (item) => !item.shielded);
      }
    }
    return { found: true, changed, status: instance.status };
  }

  /** Applies a cancel or a termination, unless one with its key changed the instance before. Returns the expected result. */
  once(
    { instanceId, key }: Pick<CancelInstance, 'instanceId' | 'key'>,
    stop: () => StopResult,
  ): StopResult {
    const place = JSON.stringify([instanceId, key]);
    if (this.#stopKeys.has(place)) {
      return { found: true, changed: true, status: this.instances.get(instanceId)?.status ?? null };
    }
    const result = stop();
    if (key !== undefined && result.changed) this.#stopKeys.add(place);
    return result;
  }

  /** Pauses or resumes an instance. Returns the expected result. */
  setPaused(id: string, paused: boolean): PauseResult {
    const instance = this.instances.get(id);
    if (instance === undefined) {
      return { found: false, changed: false, status: null, paused: false };
    }
    const { status } = instance;
    const mayPause = status === 'pending' || status === 'running';
    const changed = instance.paused !== paused && (mayPause || !paused);
    if (changed) instance.paused = paused;
    return { found: true, changed, status, paused: instance.paused };
  }

  terminate(id: string, reason: string, tree: boolean): StopResult {
    const instance = this.instances.get(id);
    if (instance === undefined) return { found: false, changed: false, status: null };
    if (isTerminal(instance.status))
      return { found: true, changed: false, status: instance.status };
    let changed = this.#stopItems(instance, () => true, 'also what passed') > 0;
    // A closing instance stays `canceled`; a terminate only shortens its wait.
    if (instance.closing) this.#finishClosing(instance);
    else {
      changed = true;
      instance.terminated = reason;
      instance.eventsOfStore.push({ execution: instance.execution, events: 1 });
      this.#end(instance, 'terminated');
    }
    for (const child of this.#childrenOf(instance)) {
      const answer = tree
        ? this.terminate(child.id, reason, tree)
        : this.#cancelChild(child, terminateCleanUpMs);
      changed ||= answer.changed;
    }
    return { found: true, changed, status: instance.status };
  }

  /** Deletes a tree if that is allowed. Returns the expected result. */
  delete({ instanceIds, rootIncarnation, force }: TreeDeletion): ExpectedDeletion {
    const root = this.instances.get(instanceIds.at(-1) ?? '');
    if (rootIncarnation !== undefined && root?.incarnation !== rootIncarnation) {
      return { kind: 'replaced' };
    }
    const tree = instanceIds.flatMap((id) => this.instances.get(id) ?? []);
    if (!force && tree.some(({ status }) => !isTerminal(status))) return { kind: 'running' };
    const places = new Map(tree.map(({ id }, index) => [id, index]));
    for (const { id, parent } of this.instances.values()) {
      const below = places.get(parent?.id ?? '');
      if (below !== undefined && (places.get(id) ?? Infinity) > below) return { kind: 'orphan' };
    }
    for (const instance of tree) this.#delete(instance);
    const sum = (of: (instance: ModelInstance) => number): number =>
      tree.reduce((total, instance) => total + of(instance), 0);
    return {
      kind: 'deleted',
      counts: {
        instancesDeleted: tree.length,
        executionsDeleted: sum(({ execution, prunedUpTo }) => execution - prunedUpTo),
        eventsDeleted: sum((instance) =>
          countEvents(instance, instance.prunedUpTo, instance.execution),
        ),
      },
    };
  }

  /** Prunes finished executions, oldest first. Returns the expected result. */
  prune(prune: ExecutionPrune): Omit<ExecutionPruneResult, 'queueMessagesDeleted'> {
    const { instanceId, incarnation, keepLast = 0, max } = prune;
    const instance = this.instances.get(instanceId);
    if (instance === undefined || (incarnation ?? instance.incarnation) !== instance.incarnation) {
      return { found: false, executionsDeleted: 0, eventsDeleted: 0, left: false };
    }
    const from = instance.prunedUpTo;
    const upTo = Math.max(instance.execution - Math.max(keepLast, 1), from);
    instance.prunedUpTo = Math.min(upTo, from + max);
    for (const item of instance.items.values()) {
      if (item.execution <= instance.prunedUpTo) this.#deleteItem(item);
    }
    if (instance.closing) this.#finishClosing(instance);
    return {
      found: true,
      executionsDeleted: instance.prunedUpTo - from,
      eventsDeleted: countEvents(instance, from, instance.prunedUpTo),
      left: upTo > instance.prunedUpTo,
    };
  }

  /** Starts the next execution of an ended root. Returns the expected result. */
  retry({ source, start }: InstanceRetry): RetryResult {
    const instance = this.instances.get(source.instanceId);
    if (instance?.incarnation !== source.incarnation) return { kind: 'missing' };
    const { status, execution } = instance;
    if (instance.parent !== null) {
      return { kind: 'child', parentInstanceId: instance.parent.id };
    }
    if (status !== 'failed' && status !== 'canceled' && status !== 'terminated') {
      return { kind: 'status', status };
    }
    const length = countEvents(instance, execution - 1, execution);
    if (source.executionId !== execution || source.historyLength !== length) {
      return { kind: 'changed' };
    }
    const { from, kept, delivered, cancel, terminated } = instance;
    instance.past.push({ from, kept, delivered, status, cancel, terminated });
    const executionId = execution + 1;
    Object.assign(instance, {
      status: 'running',
      execution: executionId,
      from: executionId,
      kept: start?.kept?.length ?? 0,
      cancel: null,
      terminated: null,
      leaked: 0,
      claimed: 0,
      delivered: [],
    });
    instance.eventsOfStore.push({ execution: executionId, events: instance.kept });
    for (const message of start?.messages.map(decodeMessage) ?? []) {
      const kind = redelivered[message.kind];
      if (kind === undefined) continue;
      const answer = 'operation' in message ? message : { executionId: null, operation: null };
      const { executionId: of, operation } = answer;
      this.deliver(instance, { kind, execution: of, operation });
    }
    for (const item of start?.turn?.workItems ?? []) this.#addItem(instance, item, null);
    for (const child of start?.turn?.children ?? []) this.#addChild(instance, child);
    return { kind: 'retried', executionId };
  }

  /** Expires the leases of dead processes. Returns their expected number. */
  takeOver(processIds: readonly string[]): number {
    const now = this.#now();
    const isTaken = (token: string): boolean =>
      processIds.includes(token.slice(token.indexOf('.') + 1, token.indexOf('.') + 9));
    let count = 0;
    for (const { lock, items } of this.instances.values()) {
      if (lock !== null && lock.until > now && isTaken(lock.token)) {
        lock.until = now;
        count += 1;
      }
      for (const item of items.values()) {
        if (item.token === null || !this.isHeld(item) || !isTaken(item.token)) continue;
        item.leaseUntil = now;
        item.takenOver = true;
        count += 1;
      }
    }
    return count;
  }

  commitTurn(instance: ModelInstance, turn: Turn, claimed: readonly ClaimedAtInsert[]): void {
    const { id, execution } = instance;
    const isOver = isTerminal(instance.status) || instance.closing;
    this.expect(!isOver, `a turn of ${id} committed after its end`);
    instance.turns.push({ execution, events: turn.events.length, seen: instance.claimed });
    const tokens = new Map(claimed.map(({ operation, lockToken }) => [operation, lockToken]));
    for (const item of turn.workItems) {
      const { operation, cancellation, shielded } = item;
      const token = tokens.get(operation) ?? null;
      const isTooLate = instance.status === 'canceling' && !shielded && cancellation !== 'abandon';
      this.expect(!isTooLate || token === null, `${id} started ${operation} after its cancel`);
      this.expect(!instance.paused || token === null, `${id} started ${operation} while paused`);
      if (isTooLate) continue;
      this.#addItem(instance, item, token);
    }
    for (const child of turn.children) this.#addChild(instance, child);
    const canceled = new Set(turn.activityCancels.map(({ operation }) => operation));
    if (canceled.size > 0) {
      this.#stopItems(
        instance,
        (item) => item.execution === execution && canceled.has(item.operation),
      );
    }
    for (const { instanceId, reason } of turn.childCancels) {
      const child = this.instances.get(instanceId);
      if (child?.parent?.id !== id || child.parent.execution !== execution) continue;
      this.cancel({ instanceId, reason, actor: null, cleanupMs: turn.cleanupMs });
    }
    this.#leave(instance, turn);
  }

  /** Settles an item. */
  settle(item: ModelItem, how: 'completed' | 'failed' | 'canceled'): void {
    const { instance, execution, operation } = item;
    this.#remove(item);
    if (instance.closing) this.#finishClosing(instance);
    else if (execution === instance.execution)
      this.deliver(instance, { kind: how, execution, operation });
  }

  deliver(instance: ModelInstance, message: Omit<Delivered, 'at'>): void {
    if (isTerminal(instance.status) || instance.closing) return;
    instance.delivered.push({ ...message, at: this.#now() });
  }

  /** Compares a stored instance with the model. */
  compare(record: InstanceRecord): void {
    const { instanceId: id } = record;
    const instance = this.instances.get(id);
    if (instance === undefined) return this.#violate(`${id} exists, but was not created`);
    const { status, execution, cancel, terminated } = instance;
    if (cancel !== null) cancel.reason ??= record.cancel?.reason ?? null;
    const expected = {
      status,
      executionId: execution,
      cancel: cancel && { reason: cancel.reason, actor: cancel.actor, requestedAt: cancel.at },
      terminated: terminated && { reason: terminated, actor: null },
      leaked: instance.leaked,
      paused: instance.paused,
    };
    const { executionId, leaked } = record;
    const shown = {
      status: record.status,
      executionId,
      cancel: record.cancel,
      terminated: record.terminated,
      leaked,
      paused: record.paused !== null,
    };
    if (!isDeepStrictEqual(shown, expected)) {
      this.#violate(`${id} is ${JSON.stringify(shown)}, not ${JSON.stringify(expected)}`);
    }
    this.expect(
      (record.endedAt !== null) === isTerminal(status),
      `${id}: ended at ${record.endedAt}`,
    );
  }

  expect(holds: boolean, what: string): void {
    if (!holds) this.#violate(what);
  }

  /** Reports instances past their clean-up limit, if a worker is running and nothing is held. */
  expectNoneOverdue(): void {
    for (const { id, status, closing, cancel, lock } of this.instances.values()) {
      if (status !== 'canceling' || closing || lock !== null || cancel === null) continue;
      this.expect(cancel.cleanUpBy > this.#now(), `${id} still cleans up after its clean-up limit`);
    }
  }

  isHeld(item: ModelItem): boolean {
    return item.token !== null && item.leaseUntil > this.#now();
  }

  /**
   * Returns the item that a token holds; a token that holds nothing is a violation. `afterLease`: also valid after the
   * lease, unless the item was claimed again.
   */
  heldBy(token: string, what: string, afterLease = false): ModelItem | undefined {
    const item = this.tokens.get(token);
    const holds = item !== undefined && item.token === token && (afterLease || this.isHeld(item));
    this.expect(holds, `${what} with a token that holds nothing`);
    return holds ? item : undefined;
  }

  #add(born: Pick<ModelInstance, 'id' | 'incarnation' | 'parent' | 'cancellation'>): ModelInstance {
    const { id } = born;
    const instance: ModelInstance = {
      ...born,
      status: 'pending',
      execution: 1,
      closing: false,
      cancel: null,
      terminated: null,
      lock: null,
      leaked: 0,
      paused: false,
      past: [],
      from: 1,
      kept: 0,
      delivered: [],
      eventKeys: new Set(),
      claimed: 0,
      turns: [],
      eventsOfStore: [],
      prunedUpTo: 0,
      items: new Map(),
    };
    this.instances.set(id, instance);
    this.gone.delete(id);
    return instance;
  }

  #addItem(instance: ModelInstance, item: NewWorkItem, token: string | null): void {
    const { execution } = instance;
    const { operation, cancellation, shielded, claimMs = 0 } = item;
    const leaseUntil = this.#now() + claimMs;
    const state = {
      flagged: false,
      passed: false,
      failedBefore: false,
      token,
      leaseUntil,
      takenOver: false,
    };
    const added = { instance, execution, operation, cancellation, shielded, ...state };
    instance.items.set(`${execution}.${operation}`, added);
    if (token !== null) this.tokens.set(token, added);
  }

  #addChild(parent: ModelInstance, child: NewChild): void {
    const { instanceId, incarnation, parentOperation: operation, cancellation } = child;
    if (operation === null) return;
    const { id, execution } = parent;
    if (this.instances.has(instanceId)) {
      return this.deliver(parent, { kind: 'childEnded', execution, operation });
    }
    const parentOf = { id, execution, operation };
    const added = this.#add({ id: instanceId, incarnation, parent: parentOf, cancellation });
    const isTooLate =
      parent.status === 'canceling' && cancellation !== 'abandon' && child.shielded !== true;
    if (isTooLate) this.#cancelChild(added, 0);
  }

  /** Applies the outcome of a turn to its instance. */
  #leave(instance: ModelInstance, { outcome, cleanupMs }: Turn): void {
    instance.lock = null;
    if (instance.status === 'pending') instance.status = 'running';
    if (outcome.status === 'running') return;
    const children = this.#childrenOf(instance);
    this.#stopItems(instance, () => true);
    if (outcome.status === 'continuedAsNew') instance.execution += 1;
    else if (outcome.status === 'canceled') {
      instance.closing = true;
      instance.paused = false;
      instance.status = 'canceling';
      this.#finishClosing(instance);
    } else this.#end(instance, outcome.status);
    for (const child of children) this.#cancelChild(child, cleanupMs);
  }

  #finishClosing(instance: ModelInstance): void {
    const isAttended = [...instance.items.values()].some((item) => item.cancellation !== 'abandon');
    if (!isAttended) this.#end(instance, 'canceled');
  }

  #end(instance: ModelInstance, status: InstanceStatus): void {
    instance.status = status;
    instance.closing = false;
    instance.paused = false;
    instance.lock = null;
    const parent = instance.parent && this.instances.get(instance.parent.id);
    if (!instance.parent || parent?.execution !== instance.parent.execution) return;
    const { execution, operation } = instance.parent;
    const kind = status === 'canceled' ? 'childCanceled' : 'childEnded';
    this.deliver(parent, { kind, execution, operation });
  }

  #cancelChild({ id: instanceId }: ModelInstance, cleanupMs: number): StopResult {
    return this.cancel({ instanceId, reason: null, actor: null, cleanupMs });
  }

  #childrenOf({ id }: ModelInstance): readonly ModelInstance[] {
    return [...this.instances.values()].filter(
      ({ parent, cancellation, status }) =>
        parent?.id === id && cancellation !== 'abandon' && !isTerminal(status),
    );
  }

  /** Removes items that are not claimed and flags the others. Items past their point of no return continue. */
  #stopItems(
    instance: ModelInstance,
    concerns: (item: ModelItem) => boolean,
    reach?: 'also what passed',
  ): number {
    let count = 0;
    for (const item of instance.items.values()) {
      if (item.cancellation === 'abandon' || !concerns(item)) continue;
      if (item.passed && reach === undefined) continue;
      const isHeld = this.isHeld(item);
      if (!isHeld || !item.flagged) count += 1;
      if (isHeld) item.flagged = true;
      else this.#remove(item);
    }
    return count;
  }

  #delete({ id, items, lock }: ModelInstance): void {
    for (const item of items.values()) this.#deleteItem(item);
    if (lock !== null) this.deletedClaims.set(lock.token, { instanceId: id, until: lock.until });
    this.instances.delete(id);
    this.gone.add(id);
  }

  /** Removes an item, and keeps the token that held it. */
  #deleteItem(item: ModelItem): void {
    if (item.token !== null && this.isHeld(item)) {
      this.deletedClaims.set(item.token, { instanceId: item.instance.id, until: item.leaseUntil });
    }
    this.#remove(item);
  }

  #remove(item: ModelItem): void {
    item.instance.items.delete(`${item.execution}.${item.operation}`);
    item.token = null;
  }
}

/** What the messages of a retry deliver. */
const redelivered: Readonly<Partial<Record<Message['kind'], Delivered['kind']>>> = {
  eventRaised: 'event',
  activityCompleted: 'completed',
  activityCanceled: 'canceled',
  childCompleted: 'childEnded',
  childCanceled: 'childCanceled',
};

/** Counts the events of the turns after one execution and up to another. */
function countEvents({ turns, eventsOfStore }: ModelInstance, after: number, upTo: number): number {
  return [...turns, ...eventsOfStore].reduce(
    (sum, { execution, events }) => (execution > after && execution <= upTo ? sum + events : sum),
    0,
  );
}
