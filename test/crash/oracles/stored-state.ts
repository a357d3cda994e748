export interface StoredInstance {
  readonly instanceId: string;
  readonly status: string;
  readonly isRoot: boolean;
  readonly output: string | null;
  readonly failure: string | null;
}

/** The kinds of events that end an execution, as a list in SQL. */
export const ends = `('executionCompleted', 'executionFailed', 'executionContinuedAsNew', 'executionCanceled',
  'executionTerminated')`;

/** Selects instances that keep `ctx.state` and have completed with another value than that of their last turn. */
export const wrongStates = `SELECT instance_id || ' has the state ' || coalesce(value, 'nothing') || ' and returned ' || output AS text
  FROM instances JOIN definitions USING (definition_key) LEFT JOIN instance_state AS state ON state.instance_key = instances.instance_key AND state.key = 'value'
  WHERE name IN ('sequence', 'generations') AND status = 'completed' AND coalesce(value, '') <> output`;

/** A completion in the history, without those that a retry copied. `at` is the start of its turn; no claim of the item can be later. */
export interface StoredCompletion {
  readonly key: string;
  readonly run: string;
  readonly at: number;
}

/** Reads the database of a loop with plain SQL, independent of the engine that wrote it. */
export interface StoredState {
  /** Whether the store holds a live lease for this token. */
  isLeaseLive(token: string, now: number): Promise<boolean>;
  /** Whether a write is possible now. */
  isWritable(): Promise<boolean>;
  /** Unfinished instances, with their status. */
  unfinished(): Promise<readonly string[]>;
  /** The number of events in all histories. */
  eventCount(): Promise<number>;
  /** Instances that a client started. */
  rootCount(): Promise<number>;
  instances(): Promise<readonly StoredInstance[]>;
  /** Every recorded completion of an activity, with the execution that produced it. */
  completions(): Promise<readonly StoredCompletion[]>;
  /** Executions whose history has gaps, or does not end with its only terminal event. */
  brokenHistories(): Promise<readonly string[]>;
  /** Instances whose stored state is not that of their last turn. */
  wrongStates(): Promise<readonly string[]>;
  /** Rows that must not remain after a finished load. */
  leftovers(): Promise<readonly string[]>;
  close(): Promise<void>;
}
