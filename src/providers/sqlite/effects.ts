/** What a transaction changed that somebody may be waiting for; told to them once it has committed. */
export class Effects {
  /** Some instance got a message, or may be claimed at another time than before. */
  orchestrations = false;
  /** Some work item may be claimed, or at another time than before. */
  work = false;
  /** Ids of instances that reached a terminal state. */
  readonly finished: string[] = [];
  /** Lock tokens of claimed work items that are asked to stop. */
  readonly cancelRequested: string[] = [];

  // One by one: thousands may be asked at once, more than a call takes arguments.
  addCancelRequests(lockTokens: readonly string[]): void {
    for (const token of lockTokens) this.cancelRequested.push(token);
  }

  mark(): EffectsMark {
    return { finished: this.finished.length, cancelRequested: this.cancelRequested.length };
  }

  /** Forgets what an undone item announced; a wake-up too many does no harm and stays. */
  backTo(mark: EffectsMark): void {
    this.finished.length = mark.finished;
    this.cancelRequested.length = mark.cancelRequested;
  }
}

export interface EffectsMark {
  readonly finished: number;
  readonly cancelRequested: number;
}
