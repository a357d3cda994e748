export interface StoredInstance {
  readonly instanceId: string;
  readonly status: string;
  readonly isRoot: boolean;
  readonly output: string | null;
  readonly failure: string | null;
}

/** A completion in the history. `at` is when its turn began, which no claim of the item can follow. */
export interface StoredCompletion {
  readonly key: string;
  readonly run: string;
  readonly at: number;
}

/** What the database of a loop says, read with plain SQL: independent of the engine that wrote it. */
export interface StoredState {
  /** Whether the store holds a live lease for this token. */
  isLeaseLive(token: string, now: number): Promise<boolean>;
  /** Whether anyone could write now. */
  isWritable(): Promise<boolean>;
  /** Instances that are not over, with their status. */
  unfinished(): Promise<readonly string[]>;
  /** How many events the histories hold. */
  eventCount(): Promise<number>;
  /** Instances that a client started. */
  rootCount(): Promise<number>;
  instances(): Promise<readonly StoredInstance[]>;
  /** Every recorded completion of an activity, with the execution of the effect that it came from. */
  completions(): Promise<readonly StoredCompletion[]>;
  /** Executions whose history is not dense, or does not end with its only terminal event. */
  brokenHistories(): Promise<readonly string[]>;
  /** Rows that a finished load has no use for. */
  leftovers(): Promise<readonly string[]>;
  close(): Promise<void>;
}
