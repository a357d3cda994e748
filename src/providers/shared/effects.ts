import type { CompletedOutput } from '../contract/provider.ts';
import type { CancelInfo } from '../contract/work-queue.ts';

/** What a fetch waits for. */
export type Topic = 'orchestrations' | 'work';

/** A claimed work item that was asked to stop, with the request that its next renewal returns. */
export interface FlaggedItem {
  readonly lockToken: string;
  readonly cancel: CancelInfo;
}

/** The changes of a transaction that waiting callers are notified of after the commit. */
export class Effects {
  /** The earliest time at which new work of a topic can be claimed. */
  readonly dueAt: Record<Topic, number> = { orchestrations: Infinity, work: Infinity };
  /** The definitions of the new work. `any`: not known. */
  readonly dueDefinitions: Record<Topic, Set<number> | 'any'> = {
    orchestrations: new Set(),
    work: new Set(),
  };
  /** Ids of instances that ended or were deleted. */
  readonly finished: string[] = [];
  /** The outputs of instances that completed. */
  readonly outputs = new Map<string, CompletedOutput>();
  /** Ids of instances whose custom status was set, or whose updates got replies. A superset is harmless. */
  readonly statusSet = new Set<string>();
  /** Lock tokens of claimed work items that were asked to stop or were deleted. */
  readonly cancelRequested: string[] = [];
  /** The requests of the items that were not deleted. */
  readonly cancels = new Map<string, CancelInfo>();
  /** Keys of claimed instances that got messages. A superset is harmless. */
  readonly messages = new Set<number>();
  /** Ids of runs whose streams were appended to or read. A superset is harmless. */
  readonly emitted = new Set<string>();

  addCancelRequests(flagged: readonly FlaggedItem[]): void {
    for (const { lockToken, cancel } of flagged) {
      this.cancelRequested.push(lockToken);
      this.cancels.set(lockToken, cancel);
    }
    // Any worker can end them after their leases expire, so waiting fetches must recompute their due time.
    if (flagged.length > 0) this.due('work', Number.NEGATIVE_INFINITY);
  }

  /** Adds claims whose items were deleted with their instance or execution. */
  addDeletedClaims(lockTokens: readonly string[]): void {
    // One by one: there may be more tokens than a call accepts arguments.
    for (const token of lockTokens) {
      this.cancelRequested.push(token);
      // A deletion replaces a request of the same transaction.
      this.cancels.delete(token);
    }
    if (lockTokens.length > 0) this.due('work', Number.NEGATIVE_INFINITY);
  }

  /** Work can be claimed from this time: now, or when a lease expires. Its definition may be named. */
  due(topic: Topic, at: number, definitionKey?: number): void {
    if (at < this.dueAt[topic]) this.dueAt[topic] = at;
    const definitions = this.dueDefinitions[topic];
    if (definitionKey === undefined) this.dueDefinitions[topic] = 'any';
    else if (definitions !== 'any') definitions.add(definitionKey);
  }

  /** Adds deleted instances. Waiters for them get no outcome. */
  deleted(instanceIds: readonly string[]): void {
    for (const instanceId of instanceIds) {
      this.finished.push(instanceId);
      this.outputs.delete(instanceId);
    }
  }

  completed(instanceId: string, completed: CompletedOutput): void {
    this.finished.push(instanceId);
    this.outputs.set(instanceId, completed);
  }

  mark(): EffectsMark {
    return { finished: this.finished.length, cancelRequested: this.cancelRequested.length };
  }

  /** Drops the effects of an item that was rolled back. Due times stay: a spurious wake-up is harmless. */
  rollbackTo(mark: EffectsMark): void {
    for (const instanceId of this.finished.splice(mark.finished)) this.outputs.delete(instanceId);
    for (const token of this.cancelRequested.splice(mark.cancelRequested))
      this.cancels.delete(token);
  }
}

export interface EffectsMark {
  readonly finished: number;
  readonly cancelRequested: number;
}
