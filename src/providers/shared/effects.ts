import type { CompletedOutput } from '../contract/provider.ts';
import type { CancelInfo } from '../contract/work-queue.ts';

/** What a fetch waits for. */
export type Topic = 'orchestrations' | 'work';

/** A claimed work item that was asked to stop, and what its next renewal will say of that. */
export interface FlaggedItem {
  readonly lockToken: string;
  readonly cancel: CancelInfo;
}

/** What a transaction changed that somebody may be waiting for; told to them once it has committed. */
export class Effects {
  /** The earliest time at which something of the topic may be claimed that could not be before. */
  readonly dueAt: Record<Topic, number> = { orchestrations: Infinity, work: Infinity };
  /** Ids of instances that reached a terminal state, or were deleted. */
  readonly finished: string[] = [];
  /** What those that completed returned. */
  readonly outputs = new Map<string, CompletedOutput>();
  /** Ids of instances whose custom status was set; one too many does no harm. */
  readonly statusSet = new Set<string>();
  /** Lock tokens of claimed work items that are asked to stop, or were deleted. */
  readonly cancelRequested: string[] = [];
  /** What was asked of those that were not deleted. */
  readonly cancels = new Map<string, CancelInfo>();
  /** Ids of runs whose streams have grown or been read; one too many does no harm. */
  readonly emitted = new Set<string>();

  addCancelRequests(flagged: readonly FlaggedItem[]): void {
    for (const { lockToken, cancel } of flagged) {
      this.cancelRequested.push(lockToken);
      this.cancels.set(lockToken, cancel);
    }
    // Anyone may end them once their locks have expired: let those who wait find out when that is.
    if (flagged.length > 0) this.due('work', Number.NEGATIVE_INFINITY);
  }

  /** Claimed items went with their instance or execution: a renewal tells. */
  addDeletedClaims(lockTokens: readonly string[]): void {
    // One by one: there may be thousands, more than a call takes arguments.
    for (const token of lockTokens) {
      this.cancelRequested.push(token);
      // What the same transaction had asked of it before counts no more.
      this.cancels.delete(token);
    }
    if (lockTokens.length > 0) this.due('work', Number.NEGATIVE_INFINITY);
  }

  /** Something may be claimed from this time on: by now, or when a lock that was taken expires. */
  due(topic: Topic, at: number): void {
    if (at < this.dueAt[topic]) this.dueAt[topic] = at;
  }

  /** Whoever waits for these finds nobody. */
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

  /** Forgets what an undone item announced; a wake-up too many does no harm and stays. */
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
