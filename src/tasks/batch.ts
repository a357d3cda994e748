import { invalidOption } from '../model/option-fields.ts';
import type { Logger } from '../model/logger.ts';
import type { StoreTransaction } from '../model/store-transaction.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import type {
  ActivityClient,
  AttemptContext,
  CancelInfo,
  TransactionOptions,
} from '../orchestration/activity-context.ts';
import { checkOptions } from '../orchestration/definition-checks.ts';

/** How a worker groups runs of a task for one call of its handler. */
export interface BatchOptions {
  /** Maximum runs per call of the handler, from 1 to 1,000. */
  readonly max: number;
  /**
   * How long a worker gathers runs after the first one of a batch, at most one hour. The handler is called earlier if `max`
   * runs are gathered, or as many as `concurrency.global` allows. Default: 0, which calls the handler with the runs of one
   * claim.
   */
  readonly wait?: Duration | undefined;
}

/** One run of a batch. The handler settles it with `complete` or `fail`, or returns its result. */
export interface BatchRun<Input = unknown, Output = unknown> extends AttemptContext {
  /** The id of the run. For a task that an orchestration calls: the id of the instance. */
  readonly id: string;
  readonly input: Input;
  /** Whether the handler has settled the run. */
  readonly isSettled: boolean;
  /**
   * Completes the run. The worker acks it soon, also while the handler continues with other runs. Ignored if the run has
   * ended meanwhile, for example after a lost lease. Throws `BATCH_RUN_SETTLED` for a second time, and `OUTSIDE_HANDLER`
   * after the handler has returned.
   */
  complete(output: Output): void;
  /** Fails the attempt of the run. Its retry policy applies. Throws like `complete`. */
  fail(error: unknown): void;
  /**
   * Marks the point after which the work of this run cannot be undone. Once it resolves, cancels and timeouts no longer reach
   * the run. Rejects if one already has.
   */
  pointOfNoReturn(): Promise<void>;
}

// A method is bivariant, so that the narrower parameter is accepted.
/** The closure of `ctx.transaction` in a batch handler. It returns the results in the order of `runs`. */
export type BatchTransactionWork<Input, Output> = {
  work(
    tx: StoreTransaction,
    runs: readonly BatchRun<Input, Output>[],
  ): readonly Output[] | Promise<readonly Output[]>;
}['work'];

/** The context of a batch handler. */
export interface BatchContext<Input = unknown, Output = unknown> {
  readonly taskName: string;
  readonly client: ActivityClient;
  readonly log: Logger;
  /**
   * Aborted when no run of the batch is left to work on: the worker stops, or every run that is not settled was canceled. Its
   * `reason` is the `CanceledError` of the last one.
   */
  readonly signal: AbortSignal;
  readonly isCanceled: boolean;
  /** Throws the `CanceledError` if the handler should stop. */
  throwIfCanceled(): void;
  /** Resolves once the handler should stop. */
  canceled(): Promise<CancelInfo>;
  /**
   * Completes all runs that are not settled with the results of `work`. The writes of `work` to the tables of the
   * application commit in the same transaction, exactly once. `work` gets these runs. If one of them is canceled or lost meanwhile, nothing is
   * written, and `work` runs again with the others.
   */
  transaction(
    work: BatchTransactionWork<Input, Output>,
    options?: TransactionOptions,
  ): Promise<void>;
}

/** What a batch handler returns: the results in the order of the runs, or nothing if it has settled each run. */
export type BatchResults<Output> = readonly Output[] | undefined | void;

/**
 * The handler of a task with `batch`. It settles each run, or returns the results. An error that it throws fails each run
 * that is not settled.
 */
export type BatchHandler<Input, Output, Returned = Output> = (
  context: BatchContext<Input, Output>,
  runs: readonly BatchRun<Input, Output>[],
) => BatchResults<Returned> | Promise<BatchResults<Returned>>;

/** The output of a batch handler: of the results that it returns, otherwise of `run.complete()`. */
export type BatchOutput<Output, Returned> = [Returned] extends [never] ? Output : Returned;

/** The batches of a task definition. */
export interface BatchDefinition<Input = unknown, Output = unknown> {
  readonly max: number;
  readonly waitMs: number;
  // A method, so that definitions with different inputs fit into one list.
  handler(context: BatchContext, runs: readonly BatchRun<Input, Output>[]): unknown;
}

const maxRuns = 1_000;
const maxWaitMs = 3_600_000;

/** Applies the defaults. Throws `INVALID_OPTION` or `INVALID_DURATION` for an invalid value. */
export function readBatch(what: string, options: BatchOptions): Omit<BatchDefinition, 'handler'> {
  checkOptions(`batch of ${what}`, options, ['max', 'wait']);
  const { max, wait = 0 } = options;
  if (!Number.isSafeInteger(max) || max < 1 || max > maxRuns) {
    throw invalidOption(`batch.max of ${what}`, max, `an integer from 1 to ${maxRuns}`);
  }
  const waitMs = toMs(wait, 'batch.wait');
  if (waitMs > maxWaitMs) throw invalidOption(`batch.wait of ${what}`, wait, 'at most one hour');
  return { max, waitMs };
}
