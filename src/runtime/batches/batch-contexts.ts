import { PerdureError, type CanceledError } from '../../model/failures/errors.ts';
import { withFields, type Logger } from '../../model/logger.ts';
import type { ActivityClient, TransactionOptions } from '../../orchestration/activity-context.ts';
import type { BatchContext, BatchRun, BatchTransactionWork } from '../../tasks/batch.ts';
import { RunningTaskContext } from '../activities/running-context.ts';
import type { ResolvedOptions } from '../options.ts';
import type { BatchTransaction } from './batch-transaction.ts';

/** Settles a run of a batch. */
interface Settlement {
  readonly isSettled: boolean;
  complete(output: unknown): void;
  fail(error: unknown): void;
}

/** A run as its batch handler sees it. */
export class RunningBatchRun extends RunningTaskContext implements BatchRun {
  #settlement: Settlement | undefined;
  input: unknown;

  /** The run is passed to the handler. */
  enter(settlement: Settlement, input: unknown): void {
    this.#settlement = settlement;
    this.input = input;
  }

  get id(): string {
    return this.instanceId;
  }

  get isSettled(): boolean {
    return this.#settlement?.isSettled === true;
  }

  complete(output: unknown): void {
    this.#settlement?.complete(output);
  }

  fail(error: unknown): void {
    this.#settlement?.fail(error);
  }

  override async transaction(): Promise<never> {
    throw transactionUnsupported(this.taskName);
  }
}

/** The `ctx` of a batch handler. */
export class RunningBatchContext implements BatchContext {
  readonly taskName: string;
  readonly client: ActivityClient;
  readonly log: Logger;
  readonly #controller = new AbortController();
  readonly #transaction: BatchTransaction;

  constructor(
    task: string,
    {
      options,
      client,
      transaction,
    }: {
      readonly options: ResolvedOptions;
      readonly client: ActivityClient;
      readonly transaction: BatchTransaction;
    },
  ) {
    this.#transaction = transaction;
    this.taskName = task;
    this.client = client;
    this.log = withFields(options.logger, () => ({ task }));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isCanceled(): boolean {
    return this.signal.aborted;
  }

  throwIfCanceled(): void {
    this.signal.throwIfAborted();
  }

  canceled(): Promise<CanceledError> {
    const { signal } = this;
    return new Promise((resolve) => {
      const settle = (): void => resolve(signal.reason as CanceledError);
      if (signal.aborted) settle();
      else signal.addEventListener('abort', settle, { once: true });
    });
  }

  abort(reason: CanceledError): void {
    this.#controller.abort(reason);
  }

  transaction(
    work: BatchTransactionWork<unknown, unknown>,
    options?: TransactionOptions,
  ): Promise<void> {
    return this.#transaction.run(work, options);
  }
}

function transactionUnsupported(task: string): PerdureError {
  return new PerdureError(
    'TRANSACTION_UNSUPPORTED',
    `The batch handler of task ${JSON.stringify(task)} has no transaction of a single run. Use ctx.transaction(async (tx, runs) => results).`,
  );
}
