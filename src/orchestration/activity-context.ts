import type { ClientSurface } from '../client/client.ts';
import type { CancelTrigger } from '../model/failures/errors.ts';
import type { Headers } from '../model/values/headers.ts';
import type { Logger } from '../model/logger.ts';
import type { StoreTransaction } from '../model/store-transaction.ts';
import type { Duration } from '../model/values/duration.ts';

/** Why a handler should stop. */
export interface CancelInfo {
  readonly reason: string;
  readonly trigger: CancelTrigger;
}

/** The client of a handler: everything that an application's client can do, except closing it. */
export type ActivityClient = Omit<ClientSurface, 'close'>;

/** The session of a job, as its handlers read it. */
export interface HandlerSession {
  readonly id: string;
  /** The variables of the session when the attempt began. */
  readonly variables: Readonly<Record<string, string>>;
}

/** The context that the handlers of activities, tasks and flow steps have in common. */
export interface AttemptContext {
  /** The headers of the run. */
  readonly headers: Headers;
  /**
   * The session of the job that this handler belongs to. `undefined` if no job started the run, or if the session had no
   * variables when the job was submitted.
   */
  readonly session?: HandlerSession | undefined;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Unique per call, and stable across its attempts. Pass it to services that can deduplicate. */
  readonly idempotencyKey: string;
  /** Aborted when the handler should stop. Its `reason` is a `CanceledError` with the `trigger`. */
  readonly signal: AbortSignal;
  readonly isCanceled: boolean;
  /** Throws the `CanceledError` if the handler should stop. */
  throwIfCanceled(): void;
  /** Resolves once the handler should stop. */
  canceled(): Promise<CancelInfo>;
  /** Reports progress. The next attempt gets the details as `lastHeartbeat`. */
  heartbeat(details?: unknown): void;
  /** The details of the last heartbeat of an earlier attempt. */
  readonly lastHeartbeat: unknown;
  /**
   * Adds a chunk to the stream of the run, which clients read with `client.stream(id)`. Resolves with `true` once it is
   * committed; with `false` if the run has ended. Rejects with the `CanceledError` when the handler should stop. In a job,
   * the chunk is for its caller: `emit` waits while the reader is behind, and resolves with `false` if it has gone.
   */
  emit(chunk: unknown): Promise<boolean>;
  readonly log: Logger;
}

/** Options of `ctx.transaction`. */
export interface TransactionOptions {
  /** How long the closure may take. Default: `transactionTimeoutMs` of the store. */
  readonly timeout?: Duration | undefined;
}

// A method is bivariant, so that the narrower parameter is accepted.
/**
 * The closure of `ctx.transaction`. Its parameter can be annotated with the transaction of the store: `SqliteTransaction` or
 * `PostgresTransaction`.
 */
export type TransactionWork<Value> = {
  work(tx: StoreTransaction): Value | Promise<Value>;
}['work'];

/** The contexts whose handler can commit its writes together with its result. */
export interface TransactionContext {
  /**
   * Completes the handler with the value of `work`. The writes of `work` to the tables of the application commit in the
   * same transaction, exactly once. If the lease is lost, `work` throws or takes too long, nothing is written.
   * Call it last: the attempt ends with the commit. `work` runs again if the database rolls back because of a conflict.
   */
  transaction<Value>(work: TransactionWork<Value>, options?: TransactionOptions): Promise<Value>;
}

/** The context of an activity handler. */
export interface ActivityContext extends AttemptContext, TransactionContext {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly activityName: string;
  /**
   * Sets the point of no return. Once it resolves, cancels, timeouts and lost races no longer reach this activity. Rejects
   * if one already has. Only for calls with `cancellation: 'wait'`.
   */
  pointOfNoReturn(): Promise<void>;
  readonly client: ActivityClient;
}

/** The context of an `onAbandoned` handler. */
export interface AbandonedContext {
  /** The id of the run that returned the abandoned result. */
  readonly instanceId: string;
  /** The name of the activity, task, orchestration or flow. */
  readonly name: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly client: ActivityClient;
  readonly log: Logger;
}

/** Disposes of a result whose caller no longer waits: for example, closes, deletes or refunds it. */
export type OnAbandoned<Output> = (output: Output, context: AbandonedContext) => unknown;
